"""One fault planted in one stage of one kernel, and what `llo diff` says of it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from faults import Fault, faults

from assay.errors import AssayError
from assay.kernels import Dumped
from assay.llo import interpret
from assay.llo.code import DST, OP, Code
from assay.llo.diff import Given, KernelDiff, diff_kernel
from assay.llo.files import KernelFiles, Stage
from assay.llo.kernel import run
from assay.llo.listing import load
from assay.llo.lowering import lower
from assay.llo.machine import Machine, Outcome
from assay.llo.operands import Operands
from assay.llo.semantics.table import BY_NUMBER
from assay.llo.trace import Did, Trace, trace_of

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


def sites(kernel: Kernel, stage: Stage, kind: str) -> list[Fault]:
    return faults(kind, stage.path.read_text())


@dataclass(frozen=True, slots=True)
class Trial:
    """outcome: `found`, `equivalent` or `hidden` with why, `missed`, `wrong stage`, or `invalid` where the simulator
    does not read what is left. named: the stage that was named. said: of the difference. sets: of inputs.
    """

    program: str
    kernel: str
    stage: str
    kind: str
    line: int
    outcome: str
    named: str = ""
    said: str = ""
    sets: int = 0


def trial(kernel: Kernel, stage: Stage, fault: Fault) -> Trial:
    text = fault.planted(stage.path.read_text())
    name = f"{stage.number:02d} {stage.label}"
    told = Trial(kernel.program, kernel.files.name, name, fault.kind, fault.line, "", sets=len(kernel.inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / stage.path.name
        path.write_text(text)
        planted = replace(stage, path=path)
        files = KernelFiles(kernel.files.name, tuple(planted if s is stage else s for s in kernel.files.stages))
        try:
            loaded = load(files, planted)
            lower(loaded.kernel, loaded.declared)
        except AssayError as error:
            return replace(told, outcome="invalid", said=str(error))
        found = diff_kernel(files, kernel.operands, kernel.inputs, kernel.generation)
        if found.difference is not None:
            outcome = "found" if found.difference.stage == name else "wrong stage"
            return replace(told, outcome=outcome, named=found.difference.stage, said=_said(found))
        why = equivalent(kernel, files, stage, planted, fault)
    outcome = "hidden" if ROUNDED in why else "equivalent" if why else "missed"
    return replace(told, outcome=outcome, said=why or found.why)


def _said(found: KernelDiff) -> str:
    difference = found.difference
    assert difference is not None
    if difference.trap:
        return f"stops: {difference.trap}"
    if difference.outputs:
        unwritten = sum(wrong.unwritten for wrong in difference.outputs)
        return f"{sum(wrong.differ for wrong in difference.outputs)} elements, {unwritten} of them unwritten"
    return f"{difference.left} left in queues, {difference.flying} DMAs never waited for"


def equivalent(kernel: Kernel, files: KernelFiles, stage: Stage, planted: Stage, fault: Fault) -> str:
    """Why a fault that changed no result cannot: seen in the runs of both texts, instruction by instruction, on every
    set of inputs. Empty where that is not shown.
    """
    reasons = {_reason(kernel, files, stage, planted, fault, given) for given in kernel.inputs}
    return "" if "" in reasons else "; ".join(sorted(reasons))


def _reason(kernel: Kernel, files: KernelFiles, stage: Stage, planted: Stage, fault: Fault, given: Given) -> str:
    honest, faulty = _Watched(kernel, stage, given), _Watched(replace(kernel, files=files), planted, given)
    before, after = (_planted(one.trace, fault) for one in (honest, faulty))
    if before is None:
        return ""
    if not before.times and (after is None or not after.times):
        return "the instruction never runs"
    made = before.vector is not None or before.mask is not None or before.scalar is not None
    if made and after is not None and before.digest == after.digest:
        return "the instruction makes the same values"
    pairs = zip(honest.trace.did, faulty.trace.did, strict=True)
    apart = [(a, b) for a, b in pairs if a is not before and (a.digest, a.times) != (b.digest, b.times)]
    if not apart:
        return "every other instruction makes and stores the same: nothing reads what is different"
    vectors = [a for a, b in apart if a.times == b.times and (a.vector is not None or a.mask is not None)]
    if not vectors:
        return "no vector or mask differs: only addresses, trips, and stores that nothing reads"
    if fault.kind == "wrong loop bound" and honest.memory == faulty.memory:
        return "one trip more or less leaves all memory as it is"
    if _unread(kernel, files, stage, planted, fault, given):
        return "no result depends on the lanes that it changes: the same with random words in them"
    if re.search(r"vmatmul|bf16", stage.path.read_text()) and all(_last_bit(a, b) for a, b in apart):
        return ROUNDED
    return ""


RANDOM = 128
"""How often random words are put into a kernel's lanes, over all sets of inputs; on each at least once."""


def _unread(kernel: Kernel, files: KernelFiles, stage: Stage, planted: Stage, fault: Fault, given: Given) -> bool:
    """Whether results stay as they are whatever stands in the lanes of a vector or a mask that the fault changes."""
    honest, faulty = (
        _Meddled(kernel, stage, fault, given),
        _Meddled(replace(kernel, files=files), planted, fault, given),
    )
    right = honest.outputs()
    faulty.outputs()
    if not honest.made or len(honest.made) != len(faulty.made):
        return False
    lanes = [a != b for a, b in zip(honest.made, faulty.made, strict=True)]
    rng = np.random.default_rng(0)
    return all(right == _Meddled(kernel, stage, fault, given, lanes, rng).outputs() for _ in range(RANDOM))


@dataclass(slots=True)
class _Meddled:
    """One stage run in NumPy, with random words put into some lanes of what the planted instruction makes, in the first
    of the kernel's two runs. made: what it made each time, without that.
    """

    kernel: Kernel
    stage: Stage
    fault: Fault
    given: Given
    lanes: Sequence[np.ndarray] = ()
    rng: np.random.Generator | None = None
    made: list[np.ndarray] = field(default_factory=list)
    _ran: bool = False

    def outputs(self) -> list[bytes]:
        """The results of the first of the kernel's two runs."""
        trace = trace_of(load(self.kernel.files, self.stage))
        did = _planted(trace, self.fault)
        record = None if did is None else trace.record_of(did)
        result = run(
            trace.code,
            self.kernel.generation,
            list(zip(self.kernel.operands.inputs, self.given.arrays, strict=True)),
            self.kernel.operands.outputs,
            self.kernel.operands.shared,
            engine=lambda code, machine, limit: self._engine(code, machine, limit, record),
            limit=TRACED,
        )
        return [pair.first.tobytes() for pair in result.outputs]

    def _engine(self, code: Code, machine: Machine, limit: int, record: int | None) -> Outcome:
        kind = "" if record is None else BY_NUMBER[int(code.records[record][OP])].signature[0]
        file = {"V": machine.v, "M": machine.m}.get(kind)
        if file is None or record is None or self._ran:
            return interpret.run(code, machine, limit)
        number = int(code.records[record][DST])
        self._ran = True

        def hook(at: int) -> None:
            if at != record:
                return
            place = len(self.made)
            self.made.append(file[number].copy())
            if self.rng is not None and place < len(self.lanes):
                words = self.rng.integers(0, 1 << (32 if kind == "V" else 4), file[number].shape, dtype=file.dtype)
                file[number] = np.where(self.lanes[place], words, file[number])

        return interpret.run(code, machine, limit, hook)


ROUNDED = "it changes the last bit of f32, gone where that is rounded to bf16"


def _last_bit(a: Did, b: Did) -> bool:
    """Whether two values are the same but for two units in the last place of f32."""
    if a.vector is None or b.vector is None or a.times != b.times:
        return False
    x, y = (did.vector.view(np.float32).astype(np.float64) for did in (a, b) if did.vector is not None)
    near = np.abs(x - y) <= 2.0**-22 * np.maximum(np.abs(x), np.abs(y))
    return bool((near | (a.vector == b.vector)).all())


class _Watched:
    """One stage run in NumPy. memory: a digest of all of it in the end."""

    def __init__(self, kernel: Kernel, stage: Stage, given: Given) -> None:
        self.memory = ""
        self.trace = trace_of(load(kernel.files, stage))
        run(
            self.trace.code,
            kernel.generation,
            list(zip(kernel.operands.inputs, given.arrays, strict=True)),
            kernel.operands.outputs,
            kernel.operands.shared,
            engine=self._engine,
            limit=TRACED,
        )

    def _engine(self, code: Code, machine: Machine, limit: int) -> Outcome:
        outcome = self.trace.engine(code, machine, limit)
        if not self.memory:
            spaces = (machine.hbm, machine.vmem, machine.smem)
            self.memory = hashlib.sha256(b"".join(space.tobytes() for space in spaces)).hexdigest()
        return outcome


def _planted(trace: Trace, fault: Fault) -> Did | None:
    """The instruction that the fault is in: by its name, where the line has several."""
    name = fault.dst.partition("_")[0]
    for did in trace.did:
        instruction = did.instruction
        own = instruction.token if instruction.dst is None else instruction.dst.name
        if own == name and did.counted:
            return did
    return None


def draw(kernels: Sequence[Kernel], kind: str, rng: np.random.Generator) -> tuple[Kernel, Stage, Fault] | None:
    """A kernel, a stage and a site by lot; None where none of 40 draws has one."""
    for _ in range(40):
        kernel = kernels[rng.integers(len(kernels))]
        stage = kernel.ran[rng.integers(len(kernel.ran))]
        found = sites(kernel, stage, kind)
        if found:
            return kernel, stage, found[rng.integers(len(found))]
    return None
