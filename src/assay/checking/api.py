"""Checking whatever the user names: a path, or a function in their own process."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from assay.checking.bounds import KINDS, Settings, Step
from assay.checking.judge import Target, judge, refusal, same_bits
from assay.checking.simulated import Simulated
from assay.checking.target import Evaluated, Executed
from assay.errors import AssayError, InputError, ProgramError, ToolchainError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape, leaves
from assay.inputs.arguments import load_arguments
from assay.inputs.generate import generate
from assay.oracle.verdict import Verdict
from assay.programs.load import load, parse_source
from assay.programs.program import Array, Program, from_hlo
from assay.reference.policies import for_target, named
from assay.report.result import CaseResult, Report
from assay.targets import tpu_aot
from assay.toolchain import Limits, Worker, WorkerDied, resolve
from assay.toolchain.outcomes import one_line
from assay.toolchain.session import NO_CASE, Platform
from assay.toolchain.worker.interpreted import interpreted

T = TypeVar("T")

TARGETS = ("cpu", *(f"tpu:{generation}" for generation in tpu_aot.GENERATIONS))
# Drawn inputs: ordinary values, and the first of the others whose results are exact, so that a wrong index cannot hide.
DEFAULT_CLASSES = ("normal", "small-integers", "sparse-integers")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be checked and how; the fields are the command line's options.

    toolchain: `jax==V`, or None for the jax that is installed beside assay. options: XLA debug options of the
    compilation. flags: of the worker's process, XLA's, or libtpu's where that compiles. inputs: an .npz file. classes:
    of drawn inputs. memory_limit: bytes, for the reference and the worker each. timeout_s: of one request to the
    worker. policy: what the target may do (see `assay.reference.policies`), its own where None. accumulation:
    `probable` or `certain` bounds of sums. bounds: `auto`, `ball` or `sampled` (see `assay.checking.bounds`). through:
    which of the compiler's programs runs where there is no device, one of THROUGH. preload: a Python file that every
    worker executes first, which may register passes of its own.
    """

    target: str = "cpu"
    toolchain: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    seed: int = 0
    inputs: Path | None = None
    classes: tuple[str, ...] = DEFAULT_CLASSES
    case: str | None = None
    memory_limit: int = 8 << 30
    timeout_s: float = 300.0
    reference_timeout_s: float = 600.0
    policy: str | None = None
    accumulation: str = "probable"
    bounds: str = "auto"
    through: str = "hlo"
    preload: Path | None = None


THROUGH = {
    "hlo": "the optimized module, in the reference: a wrong rewrite shows, a wrong kernel does not",
    "llo": "the low-level program of every kernel, in the simulator (TPU)",
}

ACCUMULATIONS = {
    "probable": "a sum is off by at most 8 sqrt(n) u times its terms' sizes, except with probability 3e-14",
    "certain":  "a sum is off by at most n u times its terms' sizes, in any order, always",
}  # fmt: skip


def _refuse_unknown_target(request: Request) -> None:
    if request.target not in TARGETS:
        raise ToolchainError(f"no target {request.target!r}; there is: {', '.join(TARGETS)}")


def refuse_unknown_names(request: Request) -> None:
    """Raises InputError, with the nearest name, where a policy, an accumulation or a kind of bounds is none;
    ToolchainError where the target is none.
    """
    _refuse_unknown_target(request)
    if request.through == "llo" and generation_of(request.target) is None:
        raise InputError(f"--through llo: {request.target} has no LLO; name a TPU's compiler, e.g. --target tpu:v5e")
    if request.policy is not None:
        named(request.policy, request.target)
    for what, name, known in (
        ("accumulation", request.accumulation, ACCUMULATIONS),
        ("bounds", request.bounds, KINDS),
        ("through", request.through, THROUGH),
    ):
        if name not in known:
            near = [k for k in known if name and k.startswith(name)] or get_close_matches(name, known, 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{what} {name!r}: there is {', '.join(known)}{guess}")


def check_path(source: str, request: Request, command: str = "", step: Step = lambda _: None) -> Report:
    """Checks every program that `source` names (see `assay.programs.load`). Raises AssayError where it cannot begin."""
    parse_source(source)  # a wrong path is told before a worker starts
    if request.inputs is not None and (request.seed != 0 or request.classes != DEFAULT_CLASSES):
        raise InputError("--inputs has the values: leave out --seed and --input-class, which choose how to draw them")
    refuse_unknown_names(request)
    with open_worker(request, step) as (worker, versions):
        step("reading the program")
        programs = read_programs(source, request, worker, scheduled=True)
        cases = [result for program in programs for result in judged_cases(program, request, worker, versions, step)]
    return _report(source, request, versions, cases, command)


def read_programs(source: str, request: Request, worker: Worker, scheduled: bool = False) -> list[Program]:
    """The programs that `source` names, lowered for the request's target; see `assay.programs.load`."""
    arguments = None
    if request.inputs is not None and parse_source(source).function is not None:
        arguments = load_arguments(request.inputs, None)
    platform = platform_of(request.target)
    return alive(source, lambda: load(source, worker, arguments, request.case, platform, scheduled))


def generation_of(target: str) -> str | None:
    """`v5e` for `tpu:v5e`, a target that is not there; None for one that is."""
    return target.removeprefix("tpu:") if target.startswith("tpu:") else None


def platform_of(target: str) -> Platform:
    """What jax lowers for: `tpu` for `tpu:v5e`."""
    return "cpu" if generation_of(target) is None else "tpu"


def check(program: str | Path | Callable[..., Any], *arguments: Any, target: str = "cpu", **options: Any) -> Report:
    """Checks a path, or a JAX function on `arguments` (pytrees of arrays, or of jax.ShapeDtypeStruct to have values
    drawn).

    options: the fields of `Request`. Arguments that are no arrays are to be closed over. The function is lowered by the
    caller's own jax; compiled and run it is in a worker, by `toolchain` if given. Raises AssayError for whatever is no
    verdict.
    """
    known = {f.name for f in fields(Request)}
    if unknown := sorted(options.keys() - known):
        raise InputError(f"check() has no option {unknown[0]!r}; there is {', '.join(sorted(known))}")
    request = Request(target=target, **options)
    refuse_unknown_names(request)
    if isinstance(program, (str, Path)):
        if arguments:
            raise InputError(
                "arguments go with a function; for a path give inputs='args.npz' or example_args() in the file"
            )
        return check_path(str(program), request)
    lowered = lower(program, arguments, platform_of(target))
    with open_worker(request, lambda _: None) as (worker, versions):
        name = getattr(program, "__name__", "function")
        cases = judged_cases(alive(name, lambda: lowered(worker)), request, worker, versions, lambda _: None)
    return _report(name, request, versions, cases)


def _report(
    program: str, request: Request, versions: Mapping[str, str | None], cases: list[CaseResult], command: str = ""
) -> Report:
    return Report(
        program,
        request.target,
        words(versions),
        request.seed,
        tuple(cases),
        command,
        request.policy or "",
        request.accumulation,
        request.bounds,
    )


def assert_correct(function: Callable[..., Any], *arguments: Any, **options: Any) -> Report:
    """For a user's own tests: raises AssertionError with the report where XLA's result is wrong, AssayError where it
    cannot be judged.
    """
    report = check(function, *arguments, **options)
    if report.exit_code == 1:
        raise AssertionError(str(report))
    if report.exit_code == 2:
        raise AssayError(f"{report.program}: {report.verdict}: {report.worst.why}")
    return report


def alive(source: str, read: Callable[[], T]) -> T:
    """`read()`; what ends the worker before anything is compiled is the user's file's doing, and no finding."""
    try:
        return read()
    except WorkerDied as death:
        # The dump of the Python stack has the innermost frame first.
        frames = [line.strip() for line in death.stderr_tail if line.strip().startswith('File "')]
        where = f", at {frames[0].removeprefix('File ')}" if frames else ""
        raise ProgramError(f"{source}: the worker ended while it read the program ({death.detail}){where}") from death


def lower(
    function: Callable[..., Any], arguments: Sequence[Any], platform: Platform = "cpu"
) -> Callable[[Worker], Program]:
    """Lowers in the caller's process, whose jax made the function anyway."""
    import jax

    name = getattr(function, "__name__", "function")
    try:
        lowered = jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=(platform,))
        values = tuple(
            None if isinstance(leaf, jax.ShapeDtypeStruct) else _plain(jax, leaf, aval)
            for leaf, aval in zip(jax.tree.leaves(arguments), jax.tree.leaves(lowered.in_avals), strict=True)
        )
    except Exception as error:
        raise ProgramError(f"{name} does not trace: {type(error).__name__}: {error}") from error
    payload = str(lowered.compiler_ir("stablehlo")).encode()
    paths = tuple(jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(lowered.out_info))
    plain, notes = _interpreted(function, arguments, platform) if b"tpu_custom_call" in payload else (None, ())

    def read(worker: Worker) -> Program:
        told = None if plain is None else parse_module(worker.to_hlo(plain, "stablehlo"), source=name)
        return from_hlo(
            name,
            worker.to_hlo(payload, "stablehlo"),
            payload,
            "stablehlo",
            arguments=values,
            output_names=paths,
            plain=told,
            notes=notes,
        )

    return read


def _interpreted(
    function: Callable[..., Any], arguments: Sequence[Any], platform: Platform
) -> tuple[bytes | None, tuple[str, ...]]:
    """The function with its Pallas kernels as plain operations, or a note on why not."""
    try:
        return str(interpreted(function, arguments, platform).compiler_ir("stablehlo")).encode(), ()
    except Exception as error:
        return None, (f"Pallas cannot interpret its kernels: {one_line(f'{type(error).__name__}: {error}')}",)


def _plain(jax: Any, leaf: Any, aval: Any) -> Array:
    """A leaf as the array that its parameter takes: a random key as the words in it."""
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf, aval.dtype)


@contextmanager
def open_worker(request: Request, step: Step) -> Iterator[tuple[Worker, dict[str, str | None]]]:
    """A worker of the toolchain asked for, with its target ready, and the versions that it hosts."""
    _refuse_unknown_target(request)
    step("starting the worker")
    toolchain = resolve(request.toolchain, progress=step)
    limits = Limits(timeout_s=request.timeout_s, rss_bytes=request.memory_limit)
    generation = generation_of(request.target)
    with Worker(toolchain, request.flags if generation is None else (), limits) as worker:
        try:
            versions = worker.describe().versions
        except WorkerDied as death:
            last = death.stderr_tail[-1] if death.stderr_tail else death.detail
            raise ToolchainError(f"{toolchain.spec} does not start with these flags: {last}") from death
        if request.preload is not None:
            try:
                worker.load(request.preload, cases=(NO_CASE,))
            except WorkerDied as death:
                raise ToolchainError(f"the worker ended while it executed {request.preload}: {death.detail}") from death
        if generation is not None:
            tpu_aot.start(worker, generation, request.flags)
        else:
            versions.pop("libtpu", None)  # it has no part in this
        yield worker, versions


def words(versions: Mapping[str, str | None]) -> str:
    """The versions that a report names."""
    shown = ("jax", "jaxlib", "libtpu", "python")
    return ", ".join(f"{name} {versions[name]}" for name in shown if versions.get(name))


def judged_cases(
    program: Program, request: Request, worker: Worker, versions: Mapping[str, str | None], step: Step
) -> list[CaseResult]:
    """One result for each set of inputs of one program."""
    if program.problem is not None or program.module is None:
        return [CaseResult(program.name, "", Verdict.INVALID, program.problem or "no module")]
    settings = settings_for(request, versions)
    if (refused := refusal(program, settings)) is not None:
        return [refused]
    results: list[CaseResult] = []
    with closing(target_for(program, request, worker, settings)) as target:
        for inputs, arguments in inputs_for(program, request):
            label = f"{program.name} ({inputs})"
            telling = partial(tell, step, label)
            drawn_again = bool(results) and request.classes == DEFAULT_CLASSES
            try:
                result = judge(program, arguments, inputs, target, settings, telling, if_exact=drawn_again)
            except InputError:
                raise
            except AssayError as error:  # one case that we fail on is not to cost the others
                result = CaseResult(program.name, inputs, Verdict.UNVERIFIED, str(error))
            if result is not None:
                results.append(result)
                if drawn_again:
                    break  # an exact class was found: no other is drawn
    return results


def target_for(program: Program, request: Request, worker: Worker, settings: Settings) -> Target:
    """Where the results of `program` are had from."""
    generation = generation_of(request.target)
    if generation is None:
        return Executed(worker, program)
    if request.through == "llo":
        return Simulated(worker, program, settings, generation, request.flags)
    return Evaluated(worker, program, settings, generation, request.flags)


def settings_for(request: Request, versions: Mapping[str, str | None]) -> Settings:
    """By what policy and with which limits a target of these versions is judged."""
    own = for_target(request.target, versions.get("jaxlib"))
    policy = own if request.policy is None else named(request.policy, request.target, versions.get("jaxlib"))
    if request.accumulation == "certain":
        own, policy = replace(own, confidence=math.inf), replace(policy, confidence=math.inf)
    return Settings(
        policy,
        None if policy == own else own,
        request.bounds,
        dict(request.options),
        request.memory_limit,
        request.reference_timeout_s,
        device_flushes=generation_of(request.target) is not None,
    )


def tell(step: Step, label: str, text: str) -> None:
    step(f"{label}: {text}")


def inputs_for(
    program: Program, request: Request, draw: Callable[[Module, int, str], list[Array]] = generate
) -> Iterator[tuple[str, list[Array]]]:
    """Sets of inputs, each with where it comes from in words. draw: of a seed and a class, where none are given."""
    assert program.module is not None
    if request.inputs is not None:
        yield str(request.inputs), load_arguments(request.inputs, program.module)
        return
    given = program.arguments
    if given and all(value is not None for value in given):
        yield "the program's own inputs", [value for value in given if value is not None]
        return
    drawn_before: list[list[Array]] = []
    for name in request.classes:
        if name == "sparse-integers" and request.classes == DEFAULT_CLASSES and not _narrow_sums(program.module):
            continue
        drawn = draw(program.module, request.seed, name)
        if given:
            drawn = [mine if value is None else value for value, mine in zip(given, drawn, strict=True)]
        if not drawn:
            yield "no inputs", []
            return
        if any(all(map(same_bits, drawn, other)) for other in drawn_before):
            continue  # a class that makes no difference for these dtypes
        drawn_before.append(drawn)
        yield f"{name}, seed {request.seed}", drawn


def _narrow_sums(module: Module) -> bool:
    """Whether sums may be rounded to a type in which few integers are exact: where small integers may not do."""
    return any(
        isinstance(leaf, ArrayShape) and leaf.dtype.is_float and leaf.dtype.bits < 32
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode in ("reduce", "reduce-window", "scatter", "dot", "convolution")
        for leaf in leaves(instruction.shape)
    )


def command_line() -> str:
    """The command that was given, to be repeated."""
    import shlex

    return shlex.join(["assay", *sys.argv[1:]])
