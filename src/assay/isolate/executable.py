"""What the compiler made of the last snapshot: run, and judged like one more snapshot.

Where every snapshot agrees and the executable does not, the fault lies below HLO: in the emitters of kernels or in
LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assay.checking.judge import same_bits
from assay.checking.weigh import Weighed, compare, weigh, weigh_again
from assay.isolate.judgement import Judge
from assay.oracle.verdict import Verdict
from assay.programs.program import Program
from assay.reference.value import Array
from assay.targets import cpu
from assay.toolchain import Compiled, Worker, WorkerDied

Run = Callable[[Sequence[Array]], list[Array]]

BELOW = "code generation"
"""What stands between the last snapshot and the executable."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What running says: the verdict with a reason; for a mismatch how, and on which set of inputs."""

    verdict: Verdict
    why: str = ""
    inputs: int = 0
    weighed: Weighed | None = None
    stderr_tail: tuple[str, ...] = ()


@dataclass(slots=True)
class Executable:
    """A program compiled in a worker; compiled again where the worker's process has ended since."""

    worker: Worker
    program: Program
    options: Mapping[str, str]
    compiled: Compiled

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """The outputs that hold data. Raises WorkerDied, RequestRefused."""
        if not self.worker.holds(self.compiled):
            self.compiled = cpu.compile(self.worker, self.program.payload, self.program.kind, self.options)
        outputs = cpu.run(self.worker, self.compiled, arguments)
        return [array for array, type_ in zip(outputs, self.compiled.results, strict=True) if type_.dtype != "token"]


def executed(run: Run, judges: Sequence[Judge]) -> Execution:
    """What an executable says on all sets of inputs; the first that is not in order decides. Raises what `evaluate` and
    a worker that refuses raise.
    """
    for place, judge in enumerate(judges):
        judge.step("running the executable")
        try:
            found = _on(run, judge, place)
        except WorkerDied as death:
            found = _death(run, judge, death)
        if found.verdict != Verdict.AGREE:
            return found
    return Execution(Verdict.AGREE)


def _on(run: Run, judge: Judge, place: int) -> Execution:
    """By the radii alone: what they leave open, in deep programs, is for `assay check` to look at with samples."""
    outputs = run(judge.inputs.arguments)
    if not any(compared.outside for compared in compare(judge.bounds, judge.bounds.plain(), outputs)):
        return Execution(Verdict.AGREE)
    weighed = weigh(judge.bounds, outputs)
    again = run(judge.inputs.arguments)
    if not all(map(same_bits, outputs, again)):
        return Execution(Verdict.NONDETERMINISTIC, "two runs of one executable differ", place, weighed)
    sure = weigh_again(judge.bounds, outputs, weighed)
    return Execution(Verdict.MISMATCH, "", place, sure) if sure.wrong else Execution(Verdict.AGREE)


def _death(run: Run, judge: Judge, death: WorkerDied) -> Execution:
    """A crash or a hang counts where it is seen twice."""
    if death.kind == "resource":
        return Execution(Verdict.UNVERIFIED, f"the executable needs too much memory: {death.detail}")
    judge.step("the worker ended; trying once more, alone")
    try:
        run(judge.inputs.arguments)
    except WorkerDied as again:
        verdict = Verdict.CRASH if again.kind == "crash" else Verdict.HANG
        return Execution(verdict, f"{again.detail} during {again.request}, twice", stderr_tail=again.stderr_tail)
    return Execution(Verdict.NONDETERMINISTIC, f"{death.detail} during {death.request} in one of two runs")
