"""`assay summarize` on whatever the user names: four numbers of every tensor of the optimized graph, and the first that
the reference does not explain.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from assay.checking import api
from assay.checking.bounds import Settings, Step
from assay.checking.judge import refusal
from assay.errors import AssayError, InputError
from assay.hlo.parse import parse_module
from assay.isolate.graph import in_place
from assay.isolate.graph.diverge import Watched
from assay.isolate.graph.elsewhere import made_elsewhere
from assay.isolate.graph.tapped import AsIs
from assay.isolate.graph.watch import OnCpu, OnTpu
from assay.oracle.verdict import Verdict
from assay.programs.load import parse_source
from assay.programs.program import Array, Program
from assay.report.summary import (
    MEANING,
    Four,
    Row,
    State,
    SummaryCase,
    SummaryReport,
    first_of,
    four_from,
)
from assay.targets import cpu
from assay.toolchain import RequestRefused, Worker, WorkerDied

REFERENCE = "ref"
REASONS = 3
"""So many are told of why nothing could be compared."""
Key = tuple[str, str, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Options:
    """trips: of a loop's body, so many are looked at. against: `ref`, or the JSON of an earlier run."""

    trips: int = 3
    against: str = REFERENCE


def summarize(
    source: str, request: api.Request, options: Options, command: str = "", step: Step = lambda _: None
) -> SummaryReport:
    """A row for every tensor of every program that `source` names. Raises AssayError where it cannot begin."""
    parse_source(source)
    other = None if options.against == REFERENCE else Other.read(Path(options.against))
    request = replace(request, through="llo") if api.generation_of(request.target) else request
    api.refuse_unknown_names(request)
    with api.open_worker(request, step) as (worker, versions):
        step("reading the program")
        programs = api.read_programs(source, request, worker, scheduled=True)
        settings = api.settings_for(request, versions)
        cases = [
            case
            for program in programs
            for case in _cases(program, request, options, settings, worker, partial(api.tell, step, program.name))
        ]
    if other is not None:
        cases = [other.compared(case) for case in cases]
    words = api.words(versions)
    return SummaryReport(source, request.target, words, request.seed, tuple(cases), options.against, command)


def _cases(
    program: Program, request: api.Request, options: Options, settings: Settings, worker: Worker, step: Step
) -> list[SummaryCase]:
    """One for the first set of inputs: what a target computes on the way is looked at, not searched."""
    cases = _judged(program, request, options, settings, worker, step)
    hint = "" if program.module is None else made_elsewhere(program.module, request.target)
    return [
        replace(c, why=f"{c.why}; {hint}") if hint and c.verdict in (Verdict.INVALID, Verdict.UNVERIFIED) else c
        for c in cases
    ]


def _judged(
    program: Program, request: api.Request, options: Options, settings: Settings, worker: Worker, step: Step
) -> list[SummaryCase]:
    if program.problem is not None or program.module is None:
        return [SummaryCase(program.name, Verdict.INVALID, program.problem or "no module")]
    if (refused := refusal(program, settings)) is not None:
        return [SummaryCase(program.name, refused.verdict, refused.why)]
    try:
        inputs, arguments = next(api.inputs_for(program, request))
        case = SummaryCase(program.name, Verdict.UNVERIFIED, inputs=inputs, digest=_digest(arguments))
        return [_watched(case, program, arguments, request, options, settings, worker, step)]
    except RequestRefused as refused_:
        verdict = Verdict.UNVERIFIED if refused_.type == "NoHook" else Verdict.INVALID
        return [SummaryCase(program.name, verdict, refused_.words())]
    except WorkerDied as death:
        why = f"{death.detail} during {death.request}; `assay check` looks into that"
        return [SummaryCase(program.name, Verdict.UNVERIFIED, why, stderr_tail=death.stderr_tail)]
    except InputError:
        raise
    except AssayError as error:
        return [SummaryCase(program.name, Verdict.UNVERIFIED, str(error) or type(error).__name__)]


def _watched(
    case: SummaryCase,
    program: Program,
    arguments: Sequence[Array],
    request: api.Request,
    options: Options,
    settings: Settings,
    worker: Worker,
    step: Step,
) -> SummaryCase:
    generation = api.generation_of(request.target)
    with ExitStack() as open_:
        if generation is None:
            step("compiling")
            module = program.module
            assert module is not None
            if not module.scheduled:
                compiled = cpu.compile(worker, program.payload, program.kind, request.options)
                worker.release(compiled)
                module = parse_module(compiled.hlo, source=f"{program.name}, optimized")
            target = OnCpu(module)
            watched = Watched(module, arguments, settings, target.has, options.trips, step)
            watched.evaluate()
            target.run(open_.enter_context(closing(AsIs(worker, request.options, step))), watched)
        else:
            built = open_.enter_context(in_place.compiled(program, request, worker, step))
            simulated = OnTpu(built, generation)
            watched = Watched(built.module, arguments, settings, simulated.has, options.trips, step)
            watched.evaluate()
            simulated.run(watched)
        rows = watched.told()
    notes = tuple(dict.fromkeys(watched.notes))
    return concluded(replace(case, rows=tuple(rows), notes=notes, seconds=watched.seconds))


def concluded(case: SummaryCase) -> SummaryCase:
    first = first_of(case.rows)
    if first:
        return replace(case, verdict=Verdict.MISMATCH, why="", first=first)
    if any(row.state is State.AGREES for row in case.rows):
        return replace(case, verdict=Verdict.AGREE, why="", first=())
    return replace(case, verdict=Verdict.UNVERIFIED, why=_nothing(case), first=())


def _nothing(case: SummaryCase) -> str:
    """Why no tensor could be compared."""
    if not case.rows:
        return f"no tensor was seen: {'; '.join(case.notes[:REASONS]) or 'the graph only names its arguments'}"
    reasons = Counter(row.why or MEANING[row.state] for row in case.rows)
    told = "; ".join(f"{count} x {why}" for why, count in reasons.most_common(REASONS))
    more = f"; {len(reasons) - REASONS} further reasons" if len(reasons) > REASONS else ""
    return f"none of {len(case.rows)} tensors could be compared: {told}{more}"


def _digest(arguments: Sequence[Array]) -> str:
    found = hashlib.sha256()
    for array in arguments:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Other:
    """An earlier run, perhaps by another toolchain: by case and tensor, its four numbers."""

    path: Path
    cases: Mapping[str, Mapping[Key, Four | None]]
    digests: Mapping[str, str]

    @staticmethod
    def read(path: Path) -> Other:
        """Raises InputError where it is no report of `assay summarize`."""
        try:
            cases = {str(case["name"]): case for case in json.loads(path.read_text())["cases"]}
            digests = {name: str(case["digest"]) for name, case in cases.items()}
            return Other(path, {name: dict(map(_tensor, case["tensors"])) for name, case in cases.items()}, digests)
        except OSError as error:
            raise InputError(f"--against {path}: {error.strerror}; name {REFERENCE} or a file") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"--against {path}: not what `assay summarize --json` writes") from error

    def compared(self, case: SummaryCase) -> SummaryCase:
        """`case` with its tensors compared with that run's. Two correct results both lie in the reference's range, so
        they differ by no more than its width.
        """
        if case.name not in self.cases:
            why = f"{self.path} has no program {case.name}"
            return replace(case, verdict=Verdict.UNVERIFIED, why=why, rows=(), first=())
        if case.digest != self.digests[case.name]:
            raise InputError(f"--against {self.path}: {case.name} ran on other inputs there; give both the same seed")
        theirs = self.cases[case.name]
        rows = tuple(_against(row, theirs.get(row.key)) for row in case.rows)
        alone = sum(row.key not in theirs for row in rows)
        notes = (*case.notes, *([f"{alone} of {len(rows)} tensors are not in {self.path}"] if alone else []))
        return concluded(replace(case, rows=rows, notes=notes))


def _tensor(found: Mapping[str, Any]) -> tuple[Key, Four | None]:
    key = str(found["computation"]), str(found["instruction"]), tuple(map(int, found["index"])), int(found["trip"])
    return key, four_from(found["target"])


def _against(row: Row, theirs: Four | None) -> Row:
    """`theirs` stands for the reference."""
    if row.target is None or theirs is None:
        return replace(row, reference=theirs, state=State.UNSEEN, why=row.why or "the other run does not have it")
    low, high = row.low or UNKNOWN[0], row.high or UNKNOWN[1]
    four = list(zip(row.target, theirs, low, high, strict=True))
    row = replace(row, reference=theirs, outside=None, why="")
    if any(not _alike(*one) for one in four):
        return replace(row, state=State.DIFFERS)
    says_nothing = all(one[2] == -math.inf and one[3] == math.inf for one in four)
    same = all(a == b or (math.isnan(a) and math.isnan(b)) for a, b, _, _ in four)
    return replace(row, state=State.OPEN if says_nothing and not same else State.AGREES)


UNKNOWN: tuple[Four, Four] = ((-math.inf,) * 4, (math.inf,) * 4)


def _alike(mine: float, theirs: float, low: float, high: float) -> bool:
    """Whether two numbers may both lie between `low` and `high`, each rounded to f32 once."""
    if (low == -math.inf and high == math.inf) or mine == theirs:
        return True
    if math.isnan(mine) or math.isnan(theirs):
        return math.isnan(mine) and math.isnan(theirs)
    return abs(mine - theirs) <= (high - low) + 2.0**-22 * max(abs(mine), abs(theirs))
