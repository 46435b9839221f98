"""Every kernel of a TPU program judged where it stands: nothing is cut, recompiled or perturbed.

One compilation of the whole program dumps the LLO of all its kernels. Each runs in the simulator, at its final bundles,
on inputs drawn for its own instruction, and the results have to lie in the reference's bounds of that one instruction.
The module that says what is right need not be the one that was compiled: a kernel is judged by the instruction of its
name.

Not compared is what depends on memory that nobody wrote, unless the reference says what it must be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from assay.checking.api import DEFAULT_CLASSES, Request
from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.liberties import explained, ruined
from assay.checking.simulated import dumped, is_ours
from assay.checking.target import read_optimized
from assay.checking.weigh import Weighed, weigh, weigh_again
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.inputs.drawn import draw_inputs
from assay.isolate.graph.blank import WHY as NOTHING
from assay.isolate.graph.blank import is_blank
from assay.isolate.graph.in_bounds import inside
from assay.isolate.graph.kernels import Kernel, kernels
from assay.llo.code import Code
from assay.llo.files import Dump
from assay.llo.kernel import LIMIT, Pair, Result, code_of, run, same
from assay.llo.machine import Trap
from assay.oracle.compare import OutputComparison, bounding_box
from assay.oracle.pattern import describe
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Program
from assay.reference.value import Array, Ball
from assay.report.isolation import PieceResult
from assay.targets.dumps import scratch
from assay.toolchain import Worker

CLASSES = ("normal", "small-integers", "log-uniform", "stamps", "sparse-integers")
"""Of drawn inputs, in turn: ordinary values, exact sums, small and large magnitudes, a value for every place, and sums
of few terms, in which a small one is not lost.
"""


def of_pieces(request: Request) -> Request:
    """The request for a piece: it is small, so all CLASSES are tried, unless the user has chosen."""
    usual = request.classes == DEFAULT_CLASSES
    return replace(request, inputs=None, classes=CLASSES if usual else request.classes)


SURE = 8.0
"""Times a sampled bound that an element has to be outside of it."""
DRAWING_S = 60.0
"""After which inputs of one class are not made better."""

FromProgram = Callable[[Kernel], Sequence[tuple[str, list[Array]]]]
"""The arguments that the whole program hands to a kernel, each set with where it comes from."""


@dataclass(frozen=True, slots=True)
class Built:
    """A program down to its kernels. module: optimized and scheduled."""

    module: Module
    dump: Dump
    hlo: str
    seconds: float


@contextmanager
def compiled(program: Program, request: Request, worker: Worker, step: Step = lambda _: None) -> Iterator[Built]:
    """`program` compiled once, with the LLO of every kernel; the dump is deleted afterwards. Raises what `dumped` and
    `read_optimized` do.
    """
    with scratch() as folder:
        step(f"{program.name}: compiling")
        generation = request.target.removeprefix("tpu:")
        payload, kind = program.payload, program.kind
        made, dump = dumped(worker, payload, kind, generation, request.options, request.flags, folder)
        yield Built(read_optimized(program, made), dump, made.hlo, made.seconds)


def judge_kernels(
    module: Module,
    dump: Dump,
    request: Request,
    settings: Settings,
    *,
    wanted: Callable[[Kernel], bool] = lambda _: True,
    done: frozenset[str] | set[str] = frozenset(),
    handed: FromProgram = lambda _: (),
    step: Step = lambda _: None,
) -> Iterator[PieceResult]:
    """A row for each distinct kernel that is wanted and whose key is not done, in program order, as soon as it is
    judged.

    module: says what is right. dump: what was compiled, of the same program or of a wrong one with the same names.
    settings: as `assay.checking.api.settings_for` gives them. handed: sets of arguments that the whole program hands to
    a kernel, with their names, for what cannot be judged on drawn ones.
    """
    for kernel in kernels(module, dump):
        if kernel.key not in done and wanted(kernel):
            step(kernel.name)
            yield judge_kernel(kernel, request, settings, handed)


def judge_kernel(
    kernel: Kernel,
    request: Request,
    settings: Settings,
    handed: FromProgram = lambda _: (),
    classes: Sequence[str] | None = None,
) -> PieceResult:
    """The row of one kernel, on drawn inputs of `classes`: the request's if not given, CLASSES where it has the usual
    ones.
    """
    start = time.monotonic()
    classes = of_pieces(request).classes if classes is None else classes
    row = _Case(kernel, request.target.removeprefix("tpu:"), settings, request.seed, classes, handed).row()
    return replace(row, seconds=time.monotonic() - start)


def judge_again(
    kernel: Kernel,
    request: Request,
    settings: Settings,
    label: str,
    arguments: Sequence[Array],
    stage: str = "final",
) -> PieceResult:
    """The row of one kernel on one set of arguments, after another pass of LLO if asked."""
    case = _Case(kernel, request.target.removeprefix("tpu:"), settings, request.seed, (), lambda _: ())
    return case.only(label, list(arguments), stage)


@dataclass(frozen=True, slots=True)
class _Unjudged(Exception):
    """Why a kernel cannot be judged on a set of inputs."""

    why: str


@dataclass(slots=True)
class _Case:
    kernel: Kernel
    generation: str
    settings: Settings
    seed: int
    classes: Sequence[str]
    handed: FromProgram
    code: Code | None = None

    def only(self, label: str, arguments: list[Array], stage: str) -> PieceResult:
        return self.unreadable(stage) or self.on(label, arguments)

    def unreadable(self, stage: str) -> PieceResult | None:
        """The row of a kernel that cannot be run at all."""
        try:
            self.code = code_of(self.kernel.files, stage)
        except AssayError as error:
            return self.told(Verdict.UNVERIFIED, why=f"LLO: {error}")
        return None

    def row(self) -> PieceResult:
        kernel = self.kernel
        if kernel.memory:
            return self.told(Verdict.AGREE, why="only reserves memory")
        if (unreadable := self.unreadable("final")) is not None:
            return unreadable
        worst = _worst([] if kernel.promised else self.drawn())
        if worst is not None and worst.verdict in (Verdict.AGREE, Verdict.MISMATCH, Verdict.NONDETERMINISTIC):
            return worst
        real = _worst([self.on(label, arguments) for label, arguments in self.handed(kernel)])
        if worst is None:
            why = "its operands keep a promise that no drawn ones keep, and the program does not run as far as this"
            return real or self.told(Verdict.UNVERIFIED, why=why)
        if real is None or real.verdict is Verdict.UNVERIFIED:
            # Where it stops it may be that inputs like these never come: whether they do is not known.
            known = worst.verdict is Verdict.INVALID
            return worst if known else replace(worst, verdict=Verdict.UNVERIFIED)
        return replace(real, notes=(*real.notes, f"{worst.inputs}: {worst.verdict}: {worst.why}"))

    def drawn(self) -> list[PieceResult]:
        """A row for each class of inputs that suit the kernel."""
        module = self.kernel.alone
        if not module.entry.parameters:
            return [self.on("no inputs", [])]
        rows = []
        for name in self.classes:
            label = f"{name}, seed {self.seed}"
            try:
                drawn = draw_inputs(module, self.seed, name, seconds=min(DRAWING_S, self.settings.reference_timeout_s))
                if drawn.outcome.startswith("invalid"):
                    rows.append(self.told(Verdict.INVALID, label, why=drawn.outcome))
                elif inside(module, drawn.arrays, self.settings.policy):
                    rows.append(self.on(label, drawn.arrays))
            except AssayError as error:
                rows.append(self.told(Verdict.UNVERIFIED, label, why=str(error)))
        return rows

    def on(self, label: str, arguments: list[Array]) -> PieceResult:
        """The verdict on one set of arguments."""
        try:
            given = self.kernel.operands(arguments, self.settings.policy)
            result = self.simulated(given)
            if result.stop is not None:
                return replace(self.stopped(label, result), arguments=tuple(arguments))
            return self.judged(label, arguments, result.outputs)
        except _Unjudged as unjudged:
            return self.told(Verdict.UNVERIFIED, label, why=unjudged.why)
        except AssayError as error:
            return self.told(Verdict.UNVERIFIED, label, why=str(error))

    def simulated(self, given: Sequence[Array]) -> Result:
        assert self.code is not None
        kernel = self.kernel
        inputs = list(zip(kernel.inputs, map(same, given), strict=True))
        return run(self.code, self.generation, inputs, kernel.outputs, kernel.shared, limit=LIMIT)

    def stopped(self, label: str, result: Result) -> PieceResult:
        assert result.stop is not None
        why = f"{self.kernel.files.name}: {result.words}"
        if is_ours(result.stop.trap):
            raise _Unjudged(why)
        verdict = Verdict.HANG if result.stop.trap is Trap.DEADLOCK else Verdict.CRASH
        return self.told(verdict, label, why=why)

    def judged(self, label: str, arguments: list[Array], outputs: Sequence[Pair]) -> PieceResult:
        bounds = Bounds(self.kernel.alone, arguments, self.settings, flushed=self.settings.device_flushes)
        target = [np.asarray(pair.first) for pair in outputs]
        weighed = _weighed(bounds, target)
        if weighed.outside and bounds.flushed:
            # What arithmetic makes is flushed; what only moves is not, nor bits that integers made.
            other = _weighed(Bounds(self.kernel.alone, arguments, self.settings), target)
            weighed = _in_both(weighed, other) if other.outside else other
        if weighed.outside:
            return self.mismatch(label, arguments, weighed, outputs, self.klass(bounds, weighed, target))
        if (lost := ruined(bounds, target)) is not None:
            return self.mismatch(label, arguments, lost, outputs, MismatchClass.EXCESS_PRECISION)
        row = self.told(Verdict.AGREE, label, weighed)
        if row.elements and row.undecided == row.elements:
            return replace(row, verdict=Verdict.UNVERIFIED, why="every element is undecided")
        if is_blank(row.elements, row.undecided, row.masked, arguments):
            return replace(row, verdict=Verdict.UNVERIFIED, why=NOTHING)
        return row

    def mismatch(
        self,
        label: str,
        arguments: list[Array],
        weighed: Weighed,
        outputs: Sequence[Pair],
        klass: MismatchClass,
    ) -> PieceResult:
        balls = [ball for ball in weighed.balls if isinstance(ball, Ball)]
        candidates = {f"operand {i}": a for i, a in enumerate(arguments)}
        patterns = [
            describe(ball, pair.first, compared, candidates)
            for ball, pair, compared in zip(balls, outputs, weighed.comparisons, strict=True)
            if compared.outside
        ]
        row = self.told(Verdict.MISMATCH, label, weighed)
        row = replace(row, klass=klass, pattern="; ".join(patterns), arguments=tuple(arguments))
        if _all_unwritten(weighed, outputs):
            why = "what is wrong depends on memory that nobody wrote"
            return replace(row, verdict=Verdict.NONDETERMINISTIC, klass=None, why=why)
        return row

    def klass(self, bounds: Bounds, weighed: Weighed, target: list[Array]) -> MismatchClass:
        """EXCESS_PRECISION where the target's own policy, which may skip a declared rounding, allows the result."""
        own = self.settings.own
        if own is not None and own.excess_precision and not self.settings.policy.excess_precision:
            settings = replace(self.settings, policy=own, own=None)
            first = weigh(Bounds(bounds.module, bounds.arguments, settings, flushed=bounds.flushed), target)
            if not first.outside:
                return MismatchClass.EXCESS_PRECISION
        return explained(bounds, weighed, target)

    # ---- telling

    def told(self, verdict: Verdict, label: str = "", weighed: Weighed | None = None, why: str = "") -> PieceResult:
        kernel, compared = self.kernel, () if weighed is None else weighed.comparisons
        return PieceResult(
            kernel.key,
            kernel.instruction.opcode,
            kernel.name,
            kernel.computation,
            kernel.instruction.opcode,
            kernel.instances,
            verdict,
            why,
            inputs=label,
            votes={"target": vote(verdict, compared)},
            elements=sum(c.elements for c in compared),
            outside=sum(c.outside for c in compared),
            undecided=sum(c.undecided for c in compared),
            masked=sum(c.masked for c in compared),
            worst_bound=max((c.worst_bound for c in compared), default=0.0),
        )


def vote(verdict: Verdict, compared: Sequence[OutputComparison]) -> str:
    """What a way of computing it says, in words."""
    if verdict is Verdict.MISMATCH:
        return f"{sum(c.outside for c in compared)} of {sum(c.elements for c in compared)} elements outside"
    return "agrees" if verdict is Verdict.AGREE else str(verdict)


_FOUND = (Verdict.MISMATCH, Verdict.NONDETERMINISTIC, Verdict.HANG, Verdict.CRASH)
"""What is surest first: whether the program comes to inputs on which a kernel stops is not known."""


def _worst(rows: Sequence[PieceResult]) -> PieceResult | None:
    """The row that stands for a kernel: what was found, else the agreement that leaves least undecided."""
    for verdict in _FOUND:
        found = [row for row in rows if row.verdict is verdict]
        if found:
            return max(found, key=lambda row: row.klass is MismatchClass.MISCOMPILE)
    agreeing = [row for row in rows if row.verdict is Verdict.AGREE]
    if not agreeing:
        return rows[0] if rows else None
    best = min(agreeing, key=lambda row: row.undecided + row.masked)
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict is Verdict.UNVERIFIED:
            others.setdefault(row.why, []).append(row.inputs)
    notes = [f"not judged on {', '.join(sets)}: {why}" for why, sets in others.items()]
    return replace(best, inputs=", ".join(row.inputs for row in agreeing), notes=tuple(notes))


def _weighed(bounds: Bounds, target: Sequence[Array]) -> Weighed:
    """By the widest bounds, where others are broken. Elements a little outside a sampled bound are left undecided:
    where large terms cancel, errors have long tails, and a graph has many kernels of many elements.
    """
    weighed = weigh(bounds, target)
    if not weighed.outside:
        return weighed
    weighed = weigh_again(bounds, target, weighed)
    sampled = [was for ball, was in zip(weighed.balls, weighed.sampled, strict=True) if isinstance(ball, Ball)]
    found = [
        replace(c, outside=0, outside_mask=None, box=None, undecided=c.undecided + c.outside)
        if was and c.worst_bound < SURE
        else c
        for c, was in zip(weighed.comparisons, sampled, strict=True)
    ]
    return replace(weighed, comparisons=found)


def _in_both(one: Weighed, other: Weighed) -> Weighed:
    """With the elements that both say are wrong."""
    found = []
    for a, b in zip(one.comparisons, other.comparisons, strict=True):
        mask = None if a.outside_mask is None or b.outside_mask is None else a.outside_mask & b.outside_mask
        if mask is None or not mask.any():
            found.append(replace(a, outside=0, outside_mask=None, box=None))
        else:
            box = bounding_box(mask) if mask.ndim else ()
            found.append(replace(a, outside=int(np.count_nonzero(mask)), outside_mask=mask, box=box))
    return replace(one, comparisons=found)


def _all_unwritten(weighed: Weighed, outputs: Sequence[Pair]) -> bool:
    """Whether all that is wrong depends on memory that nobody wrote."""
    for compared, pair in zip(weighed.comparisons, outputs, strict=True):
        wrong, unwritten = compared.outside_mask, pair.unwritten
        if wrong is not None and wrong.any() and (unwritten is None or bool((wrong & ~unwritten).any())):
            return False
    return True
