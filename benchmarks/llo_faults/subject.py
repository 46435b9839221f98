"""A kernel that faults are planted in, and one of its stages run in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.kernels import Dumped
from assay.llo.diff import Given
from assay.llo.files import KernelFiles, Stage
from assay.llo.kernel import Engine, Result, run
from assay.llo.listing import load
from assay.llo.operands import Operands
from assay.llo.trace import Trace, trace_of

TRACED = 2_000_000


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel whose honest stages agree. ran: the stages after the first that mean something."""

    program: str
    dumped: Dumped
    files: KernelFiles
    operands: Operands
    inputs: Sequence[Given]
    generation: str
    ran: tuple[Stage, ...]

    def run(self, trace: Trace, given: Given, engine: Engine) -> Result:
        """One of its stages, which `trace` is of."""
        inputs = list(zip(self.operands.inputs, given.arrays, strict=True))
        outputs, shared = self.operands.outputs, self.operands.shared
        return run(trace.code, self.generation, inputs, outputs, shared, engine=engine, limit=TRACED)

    def watched(self, stage: Stage, given: Given) -> Trace:
        """What each instruction of a stage did in the first of the kernel's two runs."""
        trace = trace_of(load(self.files, stage))
        self.run(trace, given, trace.engine)
        return trace
