"""assay llo: what the TPU's low-level program consists of, what it computes, and which LLO pass changed that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import Request, command_line
from assay.cli.options import Case, DumpLimit, Flag, Inputs, Json, Option, Seed, bytes_of, flags_of, options_of
from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress
from assay.errors import AssayError, InputError
from assay.inputs.arguments import save_arguments
from assay.kernels import ALL_PASSES, Dumped, diff, execute, opened
from assay.llo.kernel import LIMIT
from assay.llo.stats import stats
from assay.report import llo_diff, llo_run, llo_stats
from assay.targets.tpu_aot import LLO_PASSES

app = typer.Typer(help="The TPU's low-level program: count it, run it, compare its passes.", no_args_is_help=True)

SOURCE = (
    "Whatever `assay check` takes, compiled for it; or a folder of LLO that `assay compile --emit llo` wrote; "
    "or one file of it."
)
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE)]
Target = Annotated[str, typer.Option(help="tpu:v5e or another generation; of a dump, the one it was compiled for.")]
Toolchain = Annotated[
    str | None, typer.Option(help="Versions, e.g. jax==0.10.2,libtpu==0.0.42.1; those beside assay if not given.")
]
Kernel = Annotated[str | None, typer.Option(help="Only kernels whose name, an HLO instruction's, matches this glob.")]
Hlo = Annotated[
    Path | None, typer.Option(help="The optimized HLO that the kernels were made of, where none lies beside the dump.")
]
Limit = Annotated[int, typer.Option(min=1, help="Records that a kernel may execute; above it, it would run for ever.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds the compiler may take.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every stage and every opcode.")]


@app.command("stats")
def stats_(
    source: Source,
    target: Target = "tpu:v5e",
    kernel: Kernel = None,
    toolchain: Toolchain = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    llo_passes: Annotated[str, typer.Option(help="LLO passes to dump, by label, a regular expression.")] = ALL_PASSES,
    dump_limit: DumpLimit = "8G",
    json: Json = None,
    timeout: Timeout = 1800.0,
    verbose: Verbose = False,
) -> None:
    """Count the instructions, bundles and slots of every kernel, and name the opcodes that are not modelled.

    Exit code 0: counted. 1: the compiler crashed. 2: the input was wrong.
    """
    request = _request(target, toolchain, option, flag, case, timeout)
    refuse_json(json)
    with Progress() as progress:
        limit = bytes_of(dump_limit, "--dump-limit")
        with opened(source, request, llo_passes, None, progress.step, limit) as (versions, dumps):
            programs = []
            for dumped in dumps:
                kernels = [] if dumped.problem else dumped.matching(kernel)
                counted = []
                for files in kernels:
                    progress.step(f"{dumped.name}: {files.name}")
                    counted.append(stats(dumped.only(files)))
                programs.append(llo_stats.ProgramStats(dumped.name, tuple(counted), dumped.problem))
    on = f"{target} ({versions})" if versions else target
    deliver(json, lambda: llo_stats.to_json(programs, source, on), lambda c: llo_stats.show(programs, c, verbose))
    raise typer.Exit(_failed(dumps) or (2 if any(s.why for p in programs for k in p.kernels for s in k.stages) else 0))


@app.command()
def run(
    source: Source,
    target: Target = "tpu:v5e",
    kernel: Kernel = None,
    stage: Annotated[
        str | None,
        typer.Option(
            help="original, final for the bundles, the number NN of a file's name, or a label; original if none."
        ),
    ] = None,
    inputs: Inputs = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the results here as an .npz file: arr_0, arr_1, ...")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a page of HTML here: what every instruction did. Runs in NumPy.")
    ] = None,
    hlo: Hlo = None,
    limit: Limit = LIMIT,
    toolchain: Toolchain = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    dump_limit: DumpLimit = "8G",
    json: Json = None,
    timeout: Timeout = 1800.0,
) -> None:
    """Run one kernel in the simulator, on given or drawn inputs.

    Exit code 0: it ran to its end. 1: it stopped at a fault. 2: it did not end, is not modelled, or the input is wrong.
    """
    request = _request(target, toolchain, option, flag, case, timeout, inputs, seed)
    refuse_json(json)
    _refuse_file("--out", out)
    _refuse_file("--trace", trace)
    with Progress() as progress:
        passes = LLO_PASSES if stage in (None, "original", "final") else ALL_PASSES
        limit_bytes = bytes_of(dump_limit, "--dump-limit")
        with opened(source, request, passes, hlo, progress.step, limit_bytes) as (_, dumps):
            dumped = _only(dumps)
            progress.step("running")
            report, page = execute(dumped, request, kernel, stage, limit, trace is not None, progress.step)
    if out is not None:
        save_arguments(out, [pair.first for _, pair in report.outputs])
    if trace is not None:
        trace.write_text(page, encoding="utf-8")
    deliver(json, lambda: llo_run.to_json(report), lambda console: llo_run.show(report, console))
    raise typer.Exit(report.exit_code)


@app.command("diff")
def diff_(
    source: Source,
    target: Target = "tpu:v5e",
    kernel: Kernel = None,
    inputs: Inputs = None,
    seed: Seed = 0,
    hlo: Hlo = None,
    limit: Limit = LIMIT,
    sets: Annotated[
        int | None, typer.Option(min=1, help="Sets of drawn inputs; 8, or fewer for what is slow, if not given.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds for all kernels; those that are not reached are unverified.")
    ] = 3600.0,
    toolchain: Toolchain = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    dump_limit: DumpLimit = "8G",
    json: Json = None,
    timeout: Timeout = 1800.0,
    verbose: Verbose = False,
) -> None:
    """Run every kernel after every LLO pass on the same inputs, and name the first pass that changed a bit.

    Exit code 0: all agree. 1: a difference. 2: a kernel could not be judged, or the input was wrong.
    """
    request = _request(target, toolchain, option, flag, case, timeout, inputs, seed)
    refuse_json(json)
    with Progress() as progress:
        limit_bytes = bytes_of(dump_limit, "--dump-limit")
        with opened(source, request, ALL_PASSES, hlo, progress.step, limit_bytes) as (versions, dumps):
            deadline = time.monotonic() + time_limit
            programs = []
            for dumped in dumps:
                kernels = () if dumped.problem else diff(dumped, request, kernel, limit, deadline, progress.step, sets)
                programs.append(llo_diff.ProgramDiff(dumped.name, tuple(kernels), dumped.problem, dumped.found))
    report = llo_diff.LloReport(source, target, versions, seed, tuple(programs), command_line())
    deliver(json, lambda: llo_diff.to_json(report), lambda console: llo_diff.show(report, console, verbose))
    raise typer.Exit(report.exit_code)


def _request(
    target: str,
    toolchain: str | None,
    option: list[str] | None,
    flag: list[str] | None,
    case: str | None,
    timeout: float,
    inputs: Path | None = None,
    seed: int = 0,
) -> Request:
    if inputs is not None and seed:
        raise InputError("--inputs has the values: leave out --seed, which chooses how to draw them")
    return Request(
        target=target,
        toolchain=toolchain,
        options=options_of(option),
        flags=flags_of(flag),
        case=case,
        timeout_s=timeout,
        inputs=inputs,
        seed=seed,
    )


def _refuse_file(option: str, path: Path | None) -> None:
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise InputError(f"{option} {path}: name a file in a folder that is there")


def _only(dumps: list[Dumped]) -> Dumped:
    if len(dumps) != 1:
        names = ", ".join(dumped.name for dumped in dumps[:8])
        raise InputError(f"{len(dumps)} programs: choose one, by --case or by its folder: {names}")
    if dumps[0].problem:
        raise AssayError(f"{dumps[0].name}: {dumps[0].problem}")
    return dumps[0]


def _failed(dumps: list[Dumped]) -> int:
    """1 where a compiler crashed, 2 where something else hindered it, 0 for neither."""
    failed = [dumped for dumped in dumps if dumped.problem]
    return 0 if not failed else 1 if any(dumped.found for dumped in failed) else 2
