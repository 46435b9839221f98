"""One program, one set of inputs, one verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.liberties import explained, ruined
from assay.checking.masked import explain
from assay.checking.promises import broken
from assay.checking.simulated import Simulated, Stopped
from assay.checking.target import Evaluated, Executed
from assay.checking.weigh import Weighed, weigh, weigh_again, weigh_other
from assay.errors import ReferenceLimit, Unsupported, WorkerError
from assay.oracle.compare import OutputComparison
from assay.oracle.drift import Drift
from assay.oracle.intent import Masked
from assay.oracle.pattern import describe
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Array, Expectation, Program
from assay.reference.evaluator import estimate_bytes
from assay.reference.policy import Policy
from assay.reference.value import Ball, Token, union
from assay.report.result import CaseResult, OutputResult
from assay.toolchain import RequestRefused, WorkerDied


def judge(
    program: Program,
    arguments: Sequence[Array],
    inputs: str,
    target: Target,
    settings: Settings,
    step: Step = lambda _: None,
    if_exact: bool = False,
) -> CaseResult | None:
    """The verdict on `program` with `arguments`; `inputs` says in words where they come from.

    target: the program's own. if_exact: None instead of a verdict where the reference is not exact in most of the
    output, for inputs that are drawn for the sake of exactness.
    """
    case = _Case(program, tuple(arguments), inputs, target, settings, step, if_exact)
    try:
        return case.judge()
    except _Decided as decided:
        return dataclasses.replace(decided.result, seconds=case.seconds, notes=tuple(case.notes))


def refusal(program: Program, settings: Settings) -> CaseResult | None:
    """`unverified` where the reference cannot hold the program, so that inputs need not be drawn; None where it may."""
    assert program.module is not None
    need, limit = estimate_bytes(program.module), settings.memory_limit
    if need <= limit:
        return None
    size = f"{need / 2**30:.1f} GiB or more, the limit is {limit / 2**30:.1f} GiB"
    why = f"the reference needs {size}; raise it with --memory"
    return CaseResult(program.name, "", Verdict.UNVERIFIED, why)


Target = Executed | Evaluated | Simulated

UNDECIDED = "every element is undecided: the reference cannot say what is right"


class _Decided(Exception):
    """Carries a verdict out of the middle of a check."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__(result.why)
        self.result = result


@dataclass(slots=True)
class _Case:
    program: Program
    arguments: tuple[Array, ...]
    inputs: str
    target: Target
    settings: Settings
    step: Step
    if_exact: bool
    bounds: Bounds = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.program.module is not None, "a program with a problem is not judged"
        self.notes.extend(self.program.notes)
        module = self.program.plain or self.program.module
        self.bounds = Bounds(module, self.arguments, self.settings, self.step, self.seconds, self.notes)

    def judge(self) -> CaseResult | None:
        try:
            return self.judged(*self.run_target(self.settings.options, twice=True))
        except Unsupported as missing:
            self.decide(Verdict.UNVERIFIED, f"unsupported: {missing}")
        except ReferenceLimit as limit:
            self.decide(Verdict.UNVERIFIED, str(limit))

    def judged(self, first: list[Array], second: list[Array]) -> CaseResult | None:
        if self.if_exact and not mostly_exact(self.bounds.plain()):
            return None
        weighed = self.told_by(weigh(self.bounds, first))
        if not weighed.wrong:
            return self.agreement(weighed, first, second)
        if not all(map(same_bits, first, second)):
            return self.result(Verdict.NONDETERMINISTIC, self.differing, weighed, first)
        return self.mismatch(weighed, first)

    def open_and_wrong(self, weighed: Weighed, first: list[Array], second: list[Array]) -> CaseResult | None:
        """What is wrong though it lies within what the reference leaves open, and what the target may skip."""
        if isinstance(self.target, Evaluated):
            return None
        try:
            found = broken(self.bounds, weighed, first)
            apart = found is not None and not all(map(same_bits, first, second))
            differs = apart and broken(self.bounds, weighed, second) is None
            lost = ruined(self.bounds, first) if self.settings.skipped and found is None else None
        except (Unsupported, ReferenceLimit) as error:
            self.notes.append(f"what the reference leaves open was not looked at: {error}")
            return None
        if found is not None and differs:
            return self.result(Verdict.NONDETERMINISTIC, self.differing, found.weighed, first)
        if found is not None:
            self.notes.append(found.words)
            return self.result(Verdict.MISMATCH, "", found.weighed, first, MismatchClass.MISCOMPILE)
        if lost is not None:
            self.notes.append("a declared rounding was skipped, and nothing of the result is left")
            return self.result(Verdict.MISMATCH, "", lost, first, MismatchClass.EXCESS_PRECISION)
        return None

    # ---- what is needed before anything can be compared

    def run_target(self, options: Mapping[str, str], twice: bool) -> tuple[list[Array], list[Array]]:
        """The target's outputs of two runs of one executable (the same object where `twice` is false)."""
        try:
            return self.run_once(options, twice)
        except WorkerDied as death:
            if death.kind == "resource":
                self.decide(Verdict.UNVERIFIED, f"the target needs too much memory: {death.detail}", death)
            self.step("the worker ended; trying once more, alone")
            self.confirm_death(options, twice, death)
            raise AssertionError("unreachable") from death

    def run_once(self, options: Mapping[str, str], twice: bool) -> tuple[list[Array], list[Array]]:
        try:
            found = self.target.outputs(self.arguments, options, self.seconds, self.step, twice)
            if isinstance(self.target, Simulated) and twice:
                self.notes.append(self.target.note)
            return found
        except RequestRefused as refused:
            if refused.type == "HostCallback":
                advice = "take jax.debug.print, pure_callback and the like out"
                self.decide(Verdict.UNVERIFIED, f"unsupported: the program calls back into Python; {advice}")
            self.decide(Verdict.INVALID, refused.words())
        except Stopped as stopped:
            self.decide(stopped.verdict, stopped.why)

    def confirm_death(self, options: Mapping[str, str], twice: bool, death: WorkerDied) -> None:
        """Decides on a crash or a hang: seen again in a fresh process it is the program's, else it is noted as such."""
        verdict = Verdict.CRASH if death.kind == "crash" else Verdict.HANG
        try:
            self.run_once(options, twice)
        except WorkerDied as again:
            self.decide(verdict, f"{again.detail} during {again.request}, twice", again)
        except WorkerError:
            pass
        self.decide(Verdict.NONDETERMINISTIC, f"{death.detail} during {death.request} in one of two runs", death)

    # ---- verdicts

    @property
    def differing(self) -> str:
        if isinstance(self.target, Simulated):
            return "the result depends on memory that nobody wrote"
        return "two runs of one executable differ"

    def agreement(self, weighed: Weighed, first: list[Array], second: list[Array]) -> CaseResult:
        if not all(map(same_bits, first, second)):
            again = weigh_other(self.bounds, second, weighed)
            if again.outside:
                return self.result(Verdict.NONDETERMINISTIC, self.differing, again, second)
            self.notes.append("two runs differ in their bits, both inside the bound")
        if (wrong := self.open_and_wrong(weighed, first, second)) is not None:
            return wrong
        elements = sum(c.elements for c in weighed.comparisons)
        undecided = sum(c.undecided for c in weighed.comparisons)
        if undecided and isinstance(self.target, Simulated) and (wrong_kernel := self.target.wrong_kernel()):
            found = self.result(Verdict.MISMATCH, wrong_kernel, weighed, first, MismatchClass.MISCOMPILE)
            return dataclasses.replace(found, outputs=())  # none of them says so
        if elements and undecided == elements:
            return self.result(Verdict.UNVERIFIED, UNDECIDED, weighed, first)
        self.notes.extend(expectation_notes(self.program.expected, first))
        return self.result(Verdict.AGREE, "", weighed, first)

    def mismatch(self, weighed: Weighed, target: list[Array]) -> CaseResult:
        """A result outside the bound: made sure of, then classed."""
        self.step("making sure of the mismatch")
        sure = self.told_by(weigh_again(self.bounds, target, weighed))
        if sure.wrong and not isinstance(self.target, Executed) and not self.target.stands(sure):
            self.notes.append("outside the program's bounds, where those of the optimized module reach as well")
            return self.result(Verdict.AGREE, "", sure, target)
        if not sure.wrong:
            if weighed.outside:
                kind = "sampled bound and inside the wider one of more samples"
                if not any(weighed.sampled):
                    kind = "probable bound of an accumulation and inside the certain one"
                self.notes.append(f"{MismatchClass.REASSOCIATION}: {weighed.outside} elements lie outside the {kind}")
            return self.result(Verdict.AGREE, "", sure, target)
        klass = self.classify(sure, target)
        if self.program.expected is not None and not expectation_notes(self.program.expected, target):
            self.notes.append(
                "the target computes what the program's author expects: doubt assay's reference first, and report it"
            )
        return self.result(Verdict.MISMATCH, "", sure, target, klass)

    def classify(self, weighed: Weighed, target: list[Array]) -> MismatchClass:
        """EXCESS_PRECISION where the target's own policy allows to skip a declared rounding and nothing else is wrong,
        or where the mismatch goes away with every declared rounding in place.
        """
        if (own := self.settings.own) is not None and not self.wrong_under(own, target):
            self.notes.append(f"inside the bounds of {own.name}, the target's own policy")
            if own.excess_precision and not self.settings.policy.excess_precision:
                return MismatchClass.EXCESS_PRECISION
            return self.explained(weighed, target)
        if self.settings.options.get("xla_allow_excess_precision") == "false":
            return self.explained(weighed, target)
        self.step("compiling without excess precision")
        try:
            strict, _ = self.run_once({**self.settings.options, "xla_allow_excess_precision": "false"}, twice=False)
        except (_Decided, WorkerDied, Unsupported, ReferenceLimit):
            self.notes.append(
                "with xla_allow_excess_precision=false the program does not run, so the class is not certain"
            )
            return self.explained(weighed, target)
        wrong = weigh_other(self.bounds, strict, weighed).wrong
        return self.explained(weighed, target) if wrong else MismatchClass.EXCESS_PRECISION

    def explained(self, weighed: Weighed, target: list[Array]) -> MismatchClass:
        return (
            MismatchClass.MISCOMPILE if isinstance(self.target, Evaluated) else explained(self.bounds, weighed, target)
        )

    def wrong_under(self, policy: Policy, target: list[Array]) -> bool:
        """Whether a mismatch stays one under another policy."""
        self.step(f"judging by {policy.name}")
        settings = dataclasses.replace(self.settings, policy=policy, own=None)
        bounds = Bounds(self.bounds.module, self.arguments, settings, self.step, self.seconds, self.notes)
        first = weigh(bounds, target)
        return first.wrong and weigh_again(bounds, target, first).wrong

    # ---- comparing and telling

    def told_by(self, weighed: Weighed) -> Weighed:
        """A systematic error tells of kernels, and where the target is not there none has run."""
        if isinstance(self.target, Executed):
            return weighed
        quiet = dataclasses.replace(weighed, drifts=[None] * len(weighed.drifts))
        return self.target.decided(quiet, self.bounds)

    def result(
        self,
        verdict: Verdict,
        why: str,
        weighed: Weighed,
        target: list[Array],
        klass: MismatchClass | None = None,
    ) -> CaseResult:
        names = self.program.output_names or ("",) * len(weighed.comparisons)
        arrays = [(b, s) for b, s in zip(weighed.balls, weighed.sampled, strict=True) if isinstance(b, Ball)]
        candidates = {f"argument {i}": a for i, a in enumerate(self.arguments)}
        outputs = []
        for index, ((ball, was_sampled), compared) in enumerate(zip(arrays, weighed.comparisons, strict=True)):
            pattern = describe(ball, target[index], compared, candidates) if compared.outside else None
            drift = weighed.drifts[index]
            kind = ("sampled" if self.settings.kind == "sampled" else "ball+sampled") if was_sampled else "ball"
            outputs.append(_output(index, names[index], ball, kind, compared, pattern, drift))
        masked = self.masked(weighed)
        return CaseResult(
            self.program.name,
            self.inputs,
            verdict,
            why,
            klass,
            tuple(outputs),
            tuple(self.notes),
            seconds=self.seconds,
            arguments=self.arguments,
            masked=masked,
        )

    def masked(self, weighed: Weighed) -> Masked | None:
        """Why elements carry no numeric evidence, where some do not."""
        if not any(compared.masked for compared in weighed.comparisons):
            return None
        masks: list[Array | None] = []
        balls = [leaf for leaf in weighed.balls if isinstance(leaf, Ball)]
        for ball, compared in zip(balls, weighed.comparisons, strict=True):
            mask = None
            if compared.masked:
                mask = ~np.isfinite(ball.mid)
                for other in (ball.und, compared.outside_mask):
                    mask = mask if other is None else mask & ~other
            masks.append(mask)
        self.step("looking for what masks elements")
        try:
            found = explain(self.bounds, masks)
        except (Unsupported, ReferenceLimit):
            return None
        self.notes.append(found.words)
        return found

    def decide(self, verdict: Verdict, why: str, death: WorkerDied | None = None) -> NoReturn:
        tail = () if death is None else death.stderr_tail
        raise _Decided(
            CaseResult(self.program.name, self.inputs, verdict, why, stderr_tail=tail, arguments=self.arguments)
        )


def mostly_exact(outputs: list[Ball | Token]) -> bool:
    """Whether most elements of the float outputs are exact; of all outputs, where none is of floats."""
    arrays = [b for b in outputs if isinstance(b, Ball)]
    inexact_types = [b for b in arrays if b.dtype.is_float or b.dtype.is_complex] or arrays
    loose = [union(b.und, None if b.rad is None else b.rad > 0) for b in inexact_types]
    total = sum(b.mid.size for b in inexact_types)
    return total > 0 and sum(0 if mask is None else int(np.count_nonzero(mask)) for mask in loose) < total / 2


def same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _output(
    index: int,
    name: str,
    ball: Ball,
    kind: str,
    compared: OutputComparison,
    pattern: str | None,
    drift: Drift | None,
) -> OutputResult:
    peak = compared.peak
    return OutputResult(
        index,
        name,
        ball.mid.shape,
        ball.dtype.name,
        compared.elements,
        compared.outside,
        compared.undecided,
        compared.masked,
        compared.worst_ulp,
        compared.worst_bound,
        kind,
        compared.box,
        peak,
        "" if peak is None else str(compared.peak_target),
        "" if peak is None else f"{compared.peak_reference} ± {compared.peak_radius:.3g}",
        pattern,
        None if drift is None else drift.mean,
        None if drift is None else drift.allowed,
    )


def expectation_notes(expected: Expectation | None, target: Sequence[Array]) -> list[str]:
    """Where the target's result is not what the program's author expects: the program is wrong, or XLA and assay both
    are.
    """
    if expected is None:
        return []
    notes = []
    for index, (want, got) in enumerate(zip(expected.outputs, target, strict=False)):
        if want.shape != got.shape:
            notes.append(f"the author expects shape {want.shape} for output {index}, the program gives {got.shape}")
            continue
        if want.dtype.kind not in "biufc" or got.dtype.kind not in "biufc":
            want, got = want.astype(np.float64), got.astype(np.float64)
        close = np.isclose(got, want, rtol=expected.rtol, atol=expected.rtol, equal_nan=True)
        wrong = int(close.size - np.count_nonzero(close))
        if wrong:
            where = tuple(int(i) for i in np.argwhere(~close)[0]) if close.ndim else ()
            at = f" at {list(where)}" if where else ""
            notes.append(
                f"the program itself does not compute what its author expects: {wrong} of {close.size} elements "
                f"of output {index} differ, first{at}: {got[where]} instead of {want[where]}"
            )
    return notes
