"""assay reduce: the smallest program that still shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import TARGETS, Request, command_line
from assay.cli.options import (
    Case,
    Flag,
    InputClass,
    Inputs,
    Json,
    Memory,
    Option,
    Policy,
    Seed,
    bytes_of,
    classes_of,
    flags_of,
    options_of,
    seconds_of,
)
from assay.cli.output import deliver, refuse_json, refuse_unwritable
from assay.cli.progress import Progress
from assay.errors import AssayError, InputError, ToolchainError
from assay.reduce.api import Made, Options, as_test, reduce_path
from assay.report.prove import prove
from assay.report.reduction import show, to_json, write_folder, write_module


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="FILE.py with cases(), FILE.py:FUNCTION, HLO text or proto, StableHLO text or bytecode, "
            "or a folder with a reproducer (an .hlo file and inputs.npz).",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    toolchain: Annotated[
        str | None, typer.Option(help="Versions that show it, e.g. jax==0.6.2; the jax beside assay if not given.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="NAME.py for a test, NAME.hlo for the program, else a folder for a reproducer."
        ),
    ] = Path("reduced"),
    time: Annotated[str, typer.Option(help="What the search may take, such as 30s, 5m, 1h.")] = "5m",
    jobs: Annotated[int, typer.Option(min=1, help="Workers that try candidates at once.")] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an earlier run that did not end.")] = False,
    culprit: Annotated[
        bool, typer.Option("--culprit/--any-culprit", help="Whether the pass at fault must stay the same.")
    ] = True,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    json: Json = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one compilation, or one run, may take.")] = 60.0,
    policy: Policy = None,
    preload: Annotated[
        Path | None, typer.Option(help="A Python file that every worker executes first; it may register passes.")
    ] = None,
    through: Annotated[str, typer.Option(help="Without a device, what runs: hlo or llo; see assay check.")] = "hlo",
) -> None:
    """Make PROGRAM as small as it gets and still shows the same verdict, class and pass at fault.

    Exit code 0: made. 2: nothing is wrong with it, or it could not be judged.
    """
    request = Request(
        target=target,
        toolchain=toolchain,
        options=options_of(option),
        flags=flags_of(flag),
        seed=seed,
        inputs=inputs,
        classes=classes_of(input_class),
        case=case,
        memory_limit=bytes_of(memory),
        timeout_s=timeout,
        policy=policy,
        through=through,
        preload=preload,
    )
    refuse_json(json)
    refuse_unwritable(output, "-o", folder=output.suffix not in (".py", ".hlo"))
    options = Options(seconds_of(time, "--time"), jobs, resume, culprit)
    with Progress() as progress:
        made = reduce_path(program, request, options, command_line(), progress.step)
        files, proof = _written(made, output, request, progress)
    deliver(
        json,
        lambda: to_json(made.report, files, proof),
        lambda console: show(made.report, console, files, proof),
    )


def _written(made: Made, output: Path, request: Request, progress: Progress) -> tuple[list[Path], str]:
    """What was written, and for a test what became of it where it was run."""
    small = made.reduced
    if output.suffix == ".hlo":
        return write_module(output, small.module, small.arguments, output.with_suffix(".npz")), ""
    if output.suffix != ".py":
        return write_folder(output, small.module, small.arguments, made.report, request.options), ""
    try:
        return [output], _tested(made, output, request, progress)
    except OSError as error:
        raise InputError(f"{error.filename or output}: {error.strerror}; name another place with -o") from error
    except AssayError as error:
        files = write_module(output.with_suffix(".hlo"), small.module, small.arguments, output.with_suffix(".npz"))
        return files, f"no test: {error}"


def _tested(made: Made, output: Path, request: Request, progress: Progress) -> str:
    """Writes the test, and says what becomes of it. Where jax makes another program of its source, HLO text stands for
    it. Raises AssayError where there is no test.
    """
    output.write_text(text := as_test(made, request))
    progress.step("running the test three times")
    try:
        found = prove(text, request.toolchain)
        if not found.fails:
            output.write_text(text := as_test(made, request, "hlo"))
            found = prove(text, request.toolchain)
    except ToolchainError as error:
        return f"the test was not run: {error}"
    return f"the test in {found}{'' if found.fails else '; it does not show it, keep the program: -o NAME.hlo'}"
