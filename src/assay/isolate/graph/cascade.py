"""Judges one piece on a target that runs: cheapest first, with an independent vote before anything is told.

Each set of inputs is judged by the reference; where the target agrees, that is the end of it. Where much of the result
leaves a domain or a range, which is no evidence, it is judged on tamer arguments as well. A mismatch asks the same
target once more for the piece with nothing fused and every declared rounding in place: where that agrees with the
reference, two independent ways stand against one. Where the reference cannot judge, the two forms of the target are
compared and what they say is told, but the verdict stays `unverified`: one compiler wrote them both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from assay.checking.api import DEFAULT_CLASSES, Request, inputs_for
from assay.checking.bounds import Settings, Step
from assay.checking.judge import judge, refusal, same_bits
from assay.checking.target import Executed
from assay.errors import AssayError, InputError, Unsupported
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import ArrayShape
from assay.inputs.drawn import draw_inputs
from assay.isolate.graph.blank import WHY as NOTHING
from assay.isolate.graph.blank import blank
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.rank import severity
from assay.isolate.graph.tamer import TOLERATED, tamer
from assay.isolate.graph.unfused import unfused
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Array, Program
from assay.report.isolation import PieceResult
from assay.report.result import CaseResult
from assay.toolchain import Worker, WorkerDied
from assay.toolchain.outcomes import one_line

FUSING = "fusion,algsimp,cse,simplify-fp-conversions"
"""XLA:CPU's passes, by its own dumps, that fuse or that write one operation as another."""

LIBRARY = "dot-library-rewriter"
"""The pass that makes fusions for a library, and by that takes dots of narrow types to f32: without it they are summed
up in their own type, which is no fair comparison.
"""

PROVEN = "invalid("
"""How the outcome of inputs begins of which there are none."""

NARROW = "none is outside the bounds of a sum in the type of the products; elsewhere this target sums them up in f32"

LOOKING_S = 5.0
"""Seconds after which no better inputs are looked for."""

REPEATS = 4
"""Further runs before a mismatch is told: two that are wrong alike may be chance where a race is rarely won."""

ANEW = "the compiler does not take the piece as it is, so it was compiled anew"
APART = "the compiler does not take the piece's fusions, so it was given the instructions and made its own"


def judge_piece(
    piece: Piece,
    key: str,
    group: str,
    instances: Sequence[str],
    worker: Worker,
    request: Request,
    settings: Settings,
    step: Step = lambda _: None,
    given: Sequence[tuple[str, list[Array]]] = (),
) -> PieceResult:
    """The row of one distinct piece; of several sets of inputs, the worst speaks. given: sets that the graph hands to
    it, tried before any is drawn. Raises InputError for options that the compiler does not know, nothing else that one
    piece brings about.
    """
    start = time.monotonic()
    program = program_of(piece)
    cases = list(_cases(program, worker, request, replace(settings, skipped=True), step, given))
    return replace(
        _spoken(cases),
        key=key,
        group=group,
        name=piece.name,
        computation=piece.computation,
        opcode=piece.opcode,
        instances=tuple(instances),
        seconds=time.monotonic() - start,
    )


def program_of(piece: Piece) -> Program:
    """A piece as a program to judge, which is to be compiled as it is: it is what the compiler made already."""
    return Program(piece.name, print_for_compiler(piece.module).encode(), "hlo-optimized", piece.module)


Judged = tuple[CaseResult, Mapping[str, str]]


def _spoken(cases: Sequence[Judged]) -> PieceResult:
    """One row for several sets of inputs: a finding; else the agreement with most evidence; else the first doubt."""
    rows = [_row(*pair) for pair in cases]
    worst = max(rows, key=severity)
    agreeing = [row for row in rows if row.verdict is Verdict.AGREE]
    if worst.verdict in FINDINGS or not agreeing:
        return worst
    best = min(agreeing, key=_unseen)
    doubts = [f"not judged on {row.inputs}: {row.why}" for row in rows if row.verdict is not Verdict.AGREE]
    notes = tuple(dict.fromkeys([*(note for row in agreeing for note in row.notes), *doubts]))
    left = [case.masked.leaving for case, _ in cases if case.masked is not None and case.masked.left]
    if left and _unseen(best) == 1.0:
        why = f"every element leaves a domain or a range, on all inputs that were tried ({', '.join(left[0])})"
        return replace(best, verdict=Verdict.UNVERIFIED, why=why, notes=notes)
    return replace(best, inputs="; ".join(row.inputs for row in agreeing), notes=notes)


def _unseen(row: PieceResult) -> float:
    """The share of elements that are no evidence."""
    return (row.undecided + row.masked) / row.elements if row.elements else 0.0


def _cases(
    program: Program,
    worker: Worker,
    request: Request,
    settings: Settings,
    step: Step,
    given: Sequence[tuple[str, list[Array]]] = (),
) -> Iterator[Judged]:
    """One judgement for each set of inputs, until one is a finding."""
    if (refused := refusal(program, settings)) is not None:
        yield refused, {}
        return
    target, forms = Executed(worker, program), _anew(program)
    several = False
    draw = _Draw(min(LOOKING_S, settings.reference_timeout_s))
    try:
        for number, (inputs, arguments) in enumerate(chain(given, inputs_for(program, request, draw))):
            exact = several and request.classes == DEFAULT_CLASSES
            found = _judged(target, arguments, inputs, settings, step, exact)
            while found is not None and _uncompiled(found) and (form := next(forms, None)) is not None:
                target.close()
                target = Executed(worker, form)
                found = _judged(target, arguments, inputs, settings, step, exact)
            if found is None:
                continue
            several = number >= len(given)
            if _uncompiled(found):
                yield replace(found, verdict=Verdict.UNVERIFIED, why=f"alone it does not compile: {found.why}"), {}
                return
            yield _voted(found, target, settings, step)
            if found.verdict is Verdict.AGREE and (other := _tamer(found, target, settings, step)) is not None:
                found = other
                yield _voted(found, target, settings, step)
            if found.verdict in FINDINGS or not found.outputs or exact:
                return
    except _NoInputs as none:
        yield CaseResult(program.name, "", none.verdict, none.why), {}
    finally:
        target.close()


@dataclass(frozen=True, slots=True)
class _NoInputs(Exception):
    """Why there are no inputs to judge on: `invalid` where it is proven that none keep what the piece computes in its
    domain and range, by the instructions that exclude them.
    """

    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class _Draw:
    """Inputs that were looked at and mended."""

    seconds: float

    def __call__(self, module: Module, seed: int, name: str) -> list[Array]:
        try:
            drawn = draw_inputs(module, seed, name, seconds=self.seconds)
        except AssayError as error:
            raise _NoInputs(Verdict.UNVERIFIED, str(error)) from error
        if drawn.outcome.startswith(PROVEN):
            raise _NoInputs(Verdict.INVALID, drawn.outcome.removeprefix(PROVEN).removesuffix(")"))
        return drawn.arrays


def _anew(program: Program) -> Iterator[Program]:
    """Other forms of a piece for a compiler that does not take it as it is (jax before 0.10.2 takes none of them)."""
    yield replace(program, kind="hlo-text", notes=(*program.notes, ANEW))
    with suppress(Unsupported):
        yield replace(without_fusions(program), notes=(*program.notes, APART))


def _judged(
    target: Executed, arguments: Sequence[Array], inputs: str, settings: Settings, step: Step, if_exact: bool
) -> CaseResult | None:
    try:
        return judge(target.program, arguments, inputs, target, settings, step, if_exact)
    except InputError:
        raise
    except AssayError as error:  # one piece that we fail on is not to cost the others
        name = target.program.name
        return CaseResult(name, inputs, Verdict.UNVERIFIED, str(error), arguments=tuple(arguments))


def _tamer(result: CaseResult, target: Executed, settings: Settings, step: Step) -> CaseResult | None:
    """The same on tamer arguments, where too many elements leave a domain or a range; None where that is not so."""
    masked, elements = result.masked, sum(output.elements for output in result.outputs)
    if masked is None or masked.left <= TOLERATED * elements:
        return None
    module = target.program.module
    assert module is not None
    step("looking for tamer arguments")
    try:
        found = tamer(module, result.arguments, settings)
    except AssayError:
        return None
    if found is None:
        return None
    words, arguments = found
    other = _judged(target, arguments, f"{result.inputs}, of each {words}", settings, step, False)
    assert other is not None
    share = f"{masked.left / elements:.0%} of the elements leave a domain or a range"
    return replace(other, notes=(*other.notes, f"{result.inputs}: {share}, so it was judged on tamer ones as well"))


def _uncompiled(result: CaseResult) -> bool:
    """Whether the piece did not even compile. It did so in the graph: the form it was given in is to blame, our own."""
    died = result.verdict in (Verdict.CRASH, Verdict.HANG) and " during compile" in result.why
    return died or result.verdict is Verdict.INVALID


def _voted(result: CaseResult, target: Executed, settings: Settings, step: Step) -> Judged:
    """A case, with what target, unfused form and reference say. Its last word on a mismatch: that it is there again."""
    if result.verdict is Verdict.MISMATCH and _summed_narrow(result, target, settings, step):
        result = replace(result, notes=(*result.notes, NARROW))
    if result.verdict is Verdict.MISMATCH and (differing := _differing(result, target, settings)):
        result = replace(result, verdict=Verdict.NONDETERMINISTIC, klass=None, why=differing)
    return result, _votes(result, target, settings, step)


def _summed_narrow(result: CaseResult, target: Executed, settings: Settings, step: Step) -> bool:
    """Whether nothing is wrong by a policy that sums products up in their own type, where the target's own is wider."""
    module = target.program.module
    if module is None or not has_narrow_products(module) or not settings.policy.accumulate:
        return False
    own = replace(settings, policy=replace(settings.policy, accumulate={}), own=None)
    found = _judged(target, result.arguments, result.inputs, own, step, False)
    return found is not None and found.verdict is Verdict.AGREE


def _differing(result: CaseResult, target: Executed, settings: Settings) -> str:
    """Whether further runs differ, in words."""
    runs: list[list[Array]] = []
    try:
        for _ in range(REPEATS // 2):
            runs.extend(target.outputs(result.arguments, settings.options, {}, lambda _: None, True))
    except AssayError as error:
        return f"it gave a wrong result twice and did not run again: {one_line(str(error))}"
    except WorkerDied as death:
        return f"it gave a wrong result twice and did not run again: {death.detail}"
    apart = sum(not all(map(same_bits, runs[0], run)) for run in runs)
    return f"{apart} of {len(runs)} further runs differ from the first of them" if apart else ""


def _votes(result: CaseResult, target: Executed, settings: Settings, step: Step) -> Mapping[str, str]:
    if result.verdict is Verdict.AGREE:
        return {"target": "agrees", "reference": "judges"}
    if result.verdict in (Verdict.CRASH, Verdict.HANG, Verdict.INVALID) or not result.arguments:
        return {"target": result.why}
    step("asking the same target for the unfused form")
    assert target.program.module is not None
    strict = replace(settings, options=unfusing(settings.options, target.program.module))
    try:
        with closing(Executed(target.worker, without_fusions(target.program))) as second:
            if result.verdict is Verdict.UNVERIFIED:
                return _told(result, _alike(target, second, result.arguments, settings, strict))
            vote = judge(second.program, result.arguments, result.inputs, second, strict, step)
    except AssayError as error:
        return _told(result, f"none: {one_line(str(error))}")
    assert vote is not None
    return _told(result, say(vote))


def unfusing(options: Mapping[str, str], module: Module) -> dict[str, str]:
    """Options that keep apart what is given apart, with every declared rounding in place."""
    passes = [options.get("xla_disable_hlo_passes", ""), FUSING, "" if has_narrow_products(module) else LIBRARY]
    disabled = ",".join(filter(None, passes))
    return {**options, "xla_allow_excess_precision": "false", "xla_disable_hlo_passes": disabled}


def has_narrow_products(module: Module) -> bool:
    """Whether it has a dot or a convolution of a type narrower than f32."""
    return any(
        i.opcode in ("dot", "convolution") and isinstance(i.shape, ArrayShape) and i.shape.dtype.bits < 32
        for c in module.computations
        for i in c.instructions
    )


def without_fusions(program: Program) -> Program:
    """The unfused form of a program, to be judged by the program's own reference. Raises Unsupported."""
    assert program.module is not None
    return replace(program, payload=print_for_compiler(unfused(program.module)).encode(), kind="hlo-text")


def _told(result: CaseResult, other: str) -> dict[str, str]:
    if result.verdict is Verdict.UNVERIFIED:
        return {"target": "ran" if result.outputs else "unjudged", "unfused": other, "reference": result.why}
    return {"target": say(result), "unfused": other, "reference": "judges"}


def say(result: CaseResult) -> str:
    """What a way of computing it says, in words."""
    if result.verdict is Verdict.AGREE:
        return "agrees"
    if not result.outputs:
        return f"none: {result.why}"
    outside, elements = (sum(getattr(o, name) for o in result.outputs) for name in ("outside", "elements"))
    if outside:
        return f"{outside} of {elements} elements outside"
    return "a systematic error" if result.verdict is Verdict.MISMATCH else f"none: {result.why or result.verdict}"


def _alike(target: Executed, second: Executed, arguments: Sequence[Array], settings: Settings, strict: Settings) -> str:
    """How the target's two forms compare with each other."""
    try:
        first, _ = target.outputs(arguments, settings.options, {}, lambda _: None, False)
        other, _ = second.outputs(arguments, strict.options, {}, lambda _: None, False)
    except WorkerDied as death:
        return f"none: {death.detail}"
    except AssayError as error:
        return f"none: {one_line(str(error))}"
    if all(map(same_bits, first, other)):
        return "the same bits as the target, which proves nothing"
    apart = sum(int(np.count_nonzero(_differ(a, b))) for a, b in zip(first, other, strict=True))
    return f"other bits than the target in {apart} of {sum(a.size for a in first)} elements"


def _differ(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        differ: Array = a != b
        if a.dtype.kind not in "biu":
            differ = differ & ~(np.isnan(a.astype(np.complex128)) & np.isnan(b.astype(np.complex128)))
    return differ


def _row(case: CaseResult, votes: Mapping[str, str]) -> PieceResult:
    """What a case says, without the names of the piece."""
    if blank(case):
        case, votes = replace(case, verdict=Verdict.UNVERIFIED, why=NOTHING), {"target": NOTHING}
    outputs = case.outputs
    return PieceResult(
        "",
        "",
        case.name,
        "",
        "",
        (),
        case.verdict,
        case.why,
        case.klass,
        votes,
        case.inputs,
        "; ".join(dict.fromkeys(o.pattern for o in outputs if o.pattern)),
        sum(o.elements for o in outputs),
        sum(o.outside for o in outputs),
        sum(o.undecided for o in outputs),
        sum(o.masked for o in outputs),
        max((o.worst_bound for o in outputs), default=0.0),
        notes=case.notes,
        arguments=() if case.verdict is Verdict.AGREE else case.arguments,
    )
