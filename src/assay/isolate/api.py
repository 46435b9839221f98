"""`assay passes` on whatever the user names: compile once with a snapshot after every pass, and look for the first that
is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from assay.checking import api
from assay.checking.bounds import Settings, Step
from assay.checking.judge import refusal
from assay.errors import AssayError, InputError
from assay.hlo.parse import parse_module
from assay.isolate.dumps import Dump, dump
from assay.isolate.examine import Examiner, told
from assay.isolate.executable import BELOW
from assay.isolate.judgement import Inputs
from assay.isolate.pipeline import Attribution, examined
from assay.oracle.verdict import Verdict
from assay.programs.load import parse_source
from assay.programs.program import Program
from assay.report.passes import Culprit, Looked, PassesCase, PassesReport
from assay.targets.dumps import LIMIT_BYTES, empty, scratch
from assay.targets.snapshots import Snapshot, read
from assay.toolchain import RequestRefused, Worker, WorkerDied


@dataclass(frozen=True, slots=True)
class Options:
    """walk_all: evaluate every snapshot. keep: a folder for the dumps, which are else thrown away. dump_limit: bytes of
    one dump.
    """

    walk_all: bool = False
    keep: Path | None = None
    dump_limit: int = LIMIT_BYTES


def passes(
    source: str, request: api.Request, options: Options, command: str = "", step: Step = lambda _: None
) -> PassesReport:
    """For every program that `source` names the first pass that is wrong. A folder with the snapshots of a compilation
    is taken as it is. Raises AssayError where it cannot begin.
    """
    path = parse_source(source).path
    api.refuse_unknown_names(request)
    if path.is_dir() and any(".after_" in entry.name for entry in path.iterdir()):
        return _report(source, request, "", [_from_folder(path, request, options, step)], command)
    with api.open_worker(request, step) as (worker, versions):
        step("reading the program")
        programs = api.read_programs(source, request, worker)
        settings = api.settings_for(request, versions)
        cases = [first_wrong(program, request, options, settings, worker, step) for program in programs]
    return _report(source, request, api.words(versions), cases, command)


def _report(source: str, request: api.Request, toolchain: str, cases: list[PassesCase], command: str) -> PassesReport:
    return PassesReport(source, request.target, toolchain or "a dump", request.seed, tuple(cases), command)


def _from_folder(folder: Path, request: api.Request, options: Options, step: Step) -> PassesCase:
    """The snapshots of a dump; the first of them stands for the program."""
    snapshots = read(folder)
    module = parse_module(snapshots[0].text(), source=str(snapshots[0].path))
    program = Program(folder.name, module=module)
    settings = api.settings_for(request, {})
    inputs = [Inputs(words, tuple(arguments)) for words, arguments in api.inputs_for(program, request)]
    ready = partial(Examiner, module, inputs, settings, step)
    return _attributed(program, options, Dump(snapshots, Snapshot.text, 0.0), inputs, ready)


def first_wrong(
    program: Program,
    request: api.Request,
    options: Options,
    settings: Settings,
    worker: Worker,
    step: Step = lambda _: None,
) -> PassesCase:
    """The first pass that is wrong for one program. Raises AssayError where inputs do not fit, or options."""
    if program.problem is not None or program.module is None:
        return PassesCase(program.name, Verdict.INVALID, program.problem or "no module")
    if (refused := refusal(program, settings)) is not None:
        return PassesCase(program.name, refused.verdict, refused.why)
    telling = partial(api.tell, step, program.name)
    with _folder(options.keep, program.name) as folder:
        compiled = partial(
            dump, worker, program, request.target, folder, settings.options, request.flags, options.dump_limit
        )
        inputs = [Inputs(words, tuple(arguments)) for words, arguments in api.inputs_for(program, request)]
        ready = partial(Examiner, program.module, inputs, settings, telling)
        try:
            found, examiner = _meanwhile(partial(_dumped, program.name, compiled, folder, telling), ready, worker)
        except _Died as died:
            return died.case
        case = _attributed(program, options, found, inputs, examiner, more_inputs(program, request))
        if found.executable is not None:
            worker.release(found.executable.compiled)
        return case


class _Died(Exception):
    """Carries the verdict on a compiler that ended, or did not end."""

    def __init__(self, case: PassesCase) -> None:
        super().__init__(case.why)
        self.case = case


Ready = Callable[[], Examiner]


def _meanwhile(dumped: Callable[[], Dump], ready: Ready, worker: Worker) -> tuple[Dump, Ready]:
    """What the compiler wrote, and the program's own results, which are worked out while it runs; or what hinders that,
    raised when they are asked for.
    """
    with ThreadPoolExecutor(1) as compiling:
        coming = compiling.submit(dumped)
        try:
            examiner = ready()
        except AssayError as error:
            return coming.result(), partial(_raise, error)
        except BaseException:
            worker.kill()  # nobody is to wait for it
            raise
        return coming.result(), lambda: examiner


def _raise(error: AssayError) -> Examiner:
    raise error


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    """A folder for one program's dump, pruned afterwards unless it is to be kept."""
    if keep is not None:
        yield keep / "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        return
    with scratch() as folder:
        yield folder


def _dumped(name: str, compiled: Callable[[], Dump], folder: Path, step: Step) -> Dump:
    """The snapshots of one compilation. A compiler that ends is tried once more; raises _Died with the verdict."""
    try:
        try:
            step("compiling with snapshots")
            return compiled()
        except WorkerDied as death:
            if death.kind == "resource":
                raise _Died(
                    PassesCase(name, Verdict.UNVERIFIED, f"the compiler needs too much memory: {death.detail}")
                ) from death
            raise _Died(_death(name, compiled, folder, step, death)) from death
    except RequestRefused as refused:
        raise _Died(PassesCase(name, Verdict.INVALID, refused.words())) from refused


def _death(name: str, compiled: Callable[[], Dump], folder: Path, step: Step, death: WorkerDied) -> PassesCase:
    """A crash or a hang, seen twice, is the compiler's: the pass is the one that was next in the last snapshot."""
    step("the compiler ended; trying once more, alone")
    empty(folder)
    verdict = Verdict.CRASH if death.kind == "crash" else Verdict.HANG
    try:
        compiled()
    except WorkerDied as again:
        why = f"{again.detail} during {again.request}, twice"
        return PassesCase(name, verdict, why, culprit=_last(folder), stderr_tail=again.stderr_tail)
    return PassesCase(name, Verdict.NONDETERMINISTIC, f"{death.detail} during {death.request} in one of two runs")


def _last(folder: Path) -> Culprit | None:
    """Where a compilation stood when it ended: between the last snapshot and the next."""
    try:
        last = read(folder)[-1]
    except AssayError:
        return None
    name = BELOW if last.label == "after_optimizations" else last.before or last.after
    return Culprit(name, last.pipeline, last.label, last.label, (name,))


def more_inputs(program: Program, request: api.Request) -> tuple[Inputs, ...]:
    """Further sets for where the usual ones show nothing; none where the inputs are given, or chosen."""
    assert program.module is not None
    given = program.arguments and all(value is not None for value in program.arguments)
    if request.inputs is not None or request.classes != api.DEFAULT_CLASSES or given:
        return ()
    if not program.module.entry.parameters:
        return ()
    other = replace(request, seed=request.seed + 1, classes=("normal",))
    whole = replace(request, classes=("sparse-integers",))
    return tuple(Inputs(words, tuple(a)) for one in (other, whole) for words, a in api.inputs_for(program, one))


def _attributed(
    program: Program,
    options: Options,
    found: Dump,
    inputs: Sequence[Inputs],
    ready: Ready,
    more: Sequence[Inputs] = (),
) -> PassesCase:
    words = tuple(each.words for each in (*inputs, *more))
    try:
        examiner = ready()
        examiner.snapshots, examiner.read = found.snapshots, found.text
        run = None if found.executable is None else found.executable.run
        attribution = examined(examiner, options.walk_all, run, more)
    except InputError:
        raise
    except AssayError as error:
        return PassesCase(program.name, Verdict.UNVERIFIED, told(error), words, snapshots=len(found.snapshots))
    return _told(program, words, attribution, found.compile_s)


def _told(program: Program, inputs: tuple[str, ...], attribution: Attribution, compile_s: float) -> PassesCase:
    looks = tuple(Looked(look.snapshot.label, str(look.state), look.why, look.repeat) for look in attribution.looks)
    return PassesCase(
        program.name,
        attribution.verdict,
        attribution.why,
        inputs,
        attribution.culprit,
        looks,
        attribution.snapshots,
        attribution.evaluated,
        attribution.spared,
        {"compile": compile_s, **attribution.seconds},
        program.notes,
        attribution.stderr_tail,
    )
