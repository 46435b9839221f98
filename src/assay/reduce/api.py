"""`assay reduce` on whatever the user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assay.checking import api
from assay.checking.bounds import Bounds, Step
from assay.checking.question import file_name, question
from assay.checking.simulated import Stopped
from assay.errors import AssayError, InputError
from assay.journal import Journal
from assay.programs.load import parse_source
from assay.programs.program import Array, Program
from assay.reduce.candidate import Candidate
from assay.reduce.run import Reduced, reduce
from assay.reduce.still import Still, program_of
from assay.report.expected import Expected, expected_of
from assay.report.pytest_file import Form, pytest_file
from assay.report.reduction import ReductionReport
from assay.toolchain import WorkerDied
from assay.toolchain.environments import cache_folder

REPRODUCERS = ("reduced.hlo", "piece.hlo", "small.hlo", "module.hlo", "program.hlo")
"""What the module of a reproducer's folder is called, the smallest first."""
INPUTS = ("reduced_inputs.npz", "inputs.npz")


LEAST_REFERENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """budget_s: seconds for the search. resume: go on with the answers of an earlier run. culprit: whether the pass
    must stay the same.
    """

    budget_s: float = 300.0
    jobs: int = 2
    resume: bool = False
    culprit: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """The report, what is left, and what its outputs should be, where the reference says so."""

    report: ReductionReport
    reduced: Reduced
    expected: tuple[Expected, ...]


def reduce_path(
    source: str, request: api.Request, options: Options, command: str = "", step: Step = lambda _: None
) -> Made:
    """The first program that `source` names, and the first set of inputs, that show a finding, made small.

    source: as for `assay check`, or a folder with a reproducer: an .hlo file and its inputs. Raises AssayError where it
    cannot begin, InputError where there is nothing to see.
    """
    source, request = _of_folder(source, request)
    parse_source(source)  # a wrong path is told before a worker starts
    api.refuse_unknown_names(request)
    limit = min(request.reference_timeout_s, max(options.budget_s, LEAST_REFERENCE_S))
    request = replace(request, reference_timeout_s=limit)  # nothing is to go on long after the search has ended
    with Still.open(request, options.jobs, options.culprit, step) as still:
        step("reading the program")
        programs = _read(source, request, still)
        asked = question(source, request, api.words(still.versions), options.culprit)
        with _journal(asked, options) as journal:
            for program, words, arguments in _tries(programs, request):
                module = program.module
                assert module is not None
                step(f"looking at {program.name} ({words})")
                still.wanted = None
                if still(module, arguments) is None:
                    continue
                found = reduce(
                    module,
                    arguments,
                    still,
                    budget_s=options.budget_s,
                    jobs=options.jobs,
                    journal=journal,
                    step=step,
                    policy=still.settings.policy,
                )
                return _made(source, program, words, found, request, still, command)
    names = ", ".join(program.name for program in programs)
    raise InputError(f"{source}: nothing is wrong with {names} on {request.target}, so there is nothing to keep")


def _of_folder(source: str, request: api.Request) -> tuple[str, api.Request]:
    """The module and the inputs of a reproducer's folder."""
    folder = Path(source)
    if not folder.is_dir():
        return source, request
    module = next((folder / name for name in REPRODUCERS if (folder / name).is_file()), None)
    if module is None:
        return source, request
    inputs = next((folder / name for name in INPUTS if (folder / name).is_file()), None)
    if inputs is not None and request.inputs is None:
        request = replace(request, inputs=inputs)
    return str(module), request


def _read(source: str, request: api.Request, still: Still) -> list[Program]:
    worker = still.workers.get()
    try:
        return api.read_programs(source, request, worker, scheduled=True)
    finally:
        still.workers.put(worker)


def _tries(programs: Sequence[Program], request: api.Request) -> Iterator[tuple[Program, str, list[Array]]]:
    for program in programs:
        if program.problem is None and program.module is not None:
            for words, arguments in api.inputs_for(program, request):
                yield program, words, arguments


@contextmanager
def _journal(asked: str, options: Options) -> Iterator[Journal]:
    with Journal(cache_folder().parent / "reduce" / file_name(asked), asked, "assay reduce") as journal:
        if not options.resume:
            journal.found = []
        journal.begin(journal.found)
        yield journal


def _made(
    source: str, program: Program, words: str, found: Reduced, request: api.Request, still: Still, command: str
) -> Made:
    assert program.module is not None
    before, after = Candidate(program.module, ()).size, Candidate(found.module, found.arguments).size
    expected, actual = results_of(found, request, still)
    report = ReductionReport(
        source,
        program.name,
        request.target,
        api.words(still.versions),
        words,
        found.still.verdict,
        found.still.klass,
        found.still.pass_,
        tuple(sorted(found.still.opcodes)),
        before.instructions,
        after.instructions,
        before.elements,
        after.elements,
        found.tries,
        found.seconds,
        found.finished,
        command,
        in_words(expected, actual),
    )
    return Made(report, found, expected)


def results_of(found: Reduced, request: api.Request, still: Still) -> tuple[tuple[Expected, ...], tuple[Array, ...]]:
    """What the outputs should be, and what they are. Nothing where the target gives none, as where it ends, or the
    reference does not know.
    """
    program = program_of(found.module, found.arguments, request)
    bounds = Bounds(found.module, found.arguments, still.settings)
    worker = still.workers.get()
    try:
        balls = bounds.sharp()[0]
        with closing(api.target_for(program, request, worker, still.settings)) as target:
            actual, _ = target.outputs(found.arguments, request.options, {}, lambda _: None, False)
        return tuple(expected_of(found.module, balls, actual)), tuple(actual)
    except (AssayError, WorkerDied, Stopped):
        return (), ()
    finally:
        still.workers.put(worker)


def in_words(expected: Sequence[Expected], actual: Sequence[Array]) -> tuple[str, ...]:
    """The worst element of each output that is wrong."""
    words = []
    for index, (one, array) in enumerate(zip(expected, actual, strict=True)):
        if one.failing:
            place = one.failing[0]
            right, wrong = one.values.reshape(-1)[place], array.reshape(-1)[place]
            words.append(f"output {index}: {wrong} for {right}")
    return tuple(words)


def as_test(made: Made, request: api.Request, form: Form = "auto") -> str:
    """The pytest file of what is left. Raises InputError where the reference does not say what is right, or the file
    would be too long, Unsupported where there is no such form of it.
    """
    if not made.expected:
        raise InputError("no test can be written: the target gives no results; keep the .hlo file")
    report = made.report
    culprit = f", in {report.pass_}" if report.pass_ else ""
    return pytest_file(
        made.reduced.module,
        made.reduced.arguments,
        made.expected,
        title=f"{report.klass or report.verdict} on {report.target}{culprit}",
        target=report.target,
        toolchain=report.toolchain,
        options=dict(request.options),
        flags=request.flags,
        form=form,
    )
