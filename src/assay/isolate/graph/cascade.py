"""Judges one piece on a target that runs: cheapest first, with an independent vote before anything is told.

Each set of inputs is judged by the reference; where the target agrees, that is the end of it. A mismatch asks the same
target once more for the piece with nothing fused and every declared rounding in place: where that agrees with the
reference, two independent ways stand against one. Where the reference cannot judge, the two forms of the target are
compared and what they say is told, but the verdict stays `unverified`: one compiler wrote them both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain

import numpy as np

from assay.checking.api import DEFAULT_CLASSES, Request, inputs_for
from assay.checking.bounds import Settings, Step
from assay.checking.judge import judge, refusal, same_bits
from assay.checking.target import Executed
from assay.errors import AssayError, InputError, Unsupported
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.rank import severity
from assay.isolate.graph.unfused import unfused
from assay.oracle.verdict import Verdict
from assay.programs.program import Array, Program
from assay.report.isolation import PieceResult
from assay.report.result import CaseResult
from assay.toolchain import Worker, WorkerDied
from assay.toolchain.outcomes import one_line

EXACT = {"xla_allow_excess_precision": "false"}
ANEW = "the compiler does not take the piece as it is, so it was compiled anew"


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
    cases = list(_cases(program, worker, request, settings, step, given))
    case, votes = max(cases, key=lambda pair: severity(_row(*pair)))
    row = _row(case, votes)
    return replace(
        row,
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
    target = Executed(worker, program)
    several = False
    try:
        for number, (inputs, arguments) in enumerate(chain(given, inputs_for(program, request))):
            exact = several and request.classes == DEFAULT_CLASSES
            found = _judged(target, arguments, inputs, settings, step, exact)
            if found is not None and _uncompiled(found) and target.program is program:
                target.close()
                target = Executed(worker, replace(program, kind="hlo-text", notes=(*program.notes, ANEW)))
                found = _judged(target, arguments, inputs, settings, step, exact)
            if found is None:
                continue
            several = number >= len(given)
            if _uncompiled(found):
                yield replace(found, verdict=Verdict.UNVERIFIED, why=f"alone it does not compile: {found.why}"), {}
                return
            yield found, _votes(found, target, settings, step)
            if found.verdict is not Verdict.AGREE or exact:
                return
    finally:
        target.close()


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


def _uncompiled(result: CaseResult) -> bool:
    """Whether the piece did not even compile. It did so in the graph: the form it was given in is to blame, our own."""
    died = result.verdict in (Verdict.CRASH, Verdict.HANG) and " during compile" in result.why
    return died or result.verdict is Verdict.INVALID


def _votes(result: CaseResult, target: Executed, settings: Settings, step: Step) -> Mapping[str, str]:
    """What target, unfused form and reference say, where they are not of one mind or one of them says nothing."""
    if result.verdict is Verdict.AGREE:
        return {"target": "agrees", "reference": "judges"}
    if result.verdict in (Verdict.CRASH, Verdict.HANG, Verdict.INVALID) or not result.arguments:
        return {"target": result.why}
    step("asking the same target for the unfused form")
    try:
        other = without_fusions(target.program)
    except Unsupported as missing:
        return _told(result, f"none: {missing}")
    strict = replace(settings, options={**settings.options, **EXACT})
    with closing(Executed(target.worker, other)) as second:
        if result.verdict is Verdict.UNVERIFIED:
            return _told(result, _alike(target, second, result.arguments, settings, strict))
        try:
            vote = judge(other, result.arguments, result.inputs, second, strict, step)
        except AssayError as error:
            return _told(result, f"none: {error}")
    assert vote is not None
    return _told(result, _say(vote))


def without_fusions(program: Program) -> Program:
    """The unfused form of a program, to be judged by the program's own reference. Raises Unsupported."""
    assert program.module is not None
    return replace(program, payload=print_for_compiler(unfused(program.module)).encode(), kind="hlo-text")


def _told(result: CaseResult, other: str) -> dict[str, str]:
    if result.verdict is Verdict.UNVERIFIED:
        return {"target": "ran" if result.outputs else "unjudged", "unfused": other, "reference": result.why}
    return {"target": _say(result), "unfused": other, "reference": "judges"}


def _say(result: CaseResult) -> str:
    if result.verdict is Verdict.AGREE:
        return "agrees"
    if not result.outputs:
        return f"none: {result.why}"
    outside, elements = (sum(getattr(o, name) for o in result.outputs) for name in ("outside", "elements"))
    return f"{outside} of {elements} elements outside" if outside else "a systematic error"


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
