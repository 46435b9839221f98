"""assay bisect: in which release did it begin, and in which did it end?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress
from assay.errors import InputError
from assay.programs.load import parse_source
from assay.report.bisection import show, to_json
from assay.toolchain.bisect import AXES, Check, Question, Trial, bisect, parse_check

WIDTH = 160  # of what is written to a file or a pipe


def command(
    program: Annotated[
        str | None,
        typer.Argument(metavar="[PROGRAM]", help="What `assay check` takes; may be left out where --check is given."),
    ] = None,
    over: Annotated[str, typer.Option(help=f"Whose releases: {', '.join(AXES)}.")] = "jaxlib",
    good: Annotated[str | None, typer.Option(help="A release without the bug.")] = None,
    bad: Annotated[str | None, typer.Option(help="A release with the bug.")] = None,
    check: Annotated[
        str | None,
        typer.Option(
            help="`assay check ...` or `assay passes ...`, or any command: exit code 0 says that the bug is present, "
            "1 that it is absent, 125 that it cannot tell. {toolchain}, {python} and {program} in it are replaced; "
            "ASSAY_TOOLCHAIN and ASSAY_PYTHON are set."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Of the check: cpu over jaxlib and tpu:v5e over libtpu if not given.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Of the check: only the cases whose name matches.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result here as JSON; - for standard output.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the answers of an earlier run.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep/--prune", help="Keep every toolchain installed, or at most four of them.")
    ] = False,
    runs: Annotated[int, typer.Option(min=3, help="Releases to try before a bug that shows nowhere is given up.")] = 24,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds that one check may take.")] = 3600.0,
) -> None:
    """Search the releases of jaxlib or libtpu for where a bug begins and ends. Missing toolchains are installed.

    Exit code 0: a change was found, and both its releases were run. 2: none was found.
    """
    question = Question(over, _check(program, over, check, target, case, timeout), good, bad, keep, resume, runs)
    refuse_json(json)
    with Progress() as progress:

        def told(trial: Trial) -> None:
            line = f"{trial.spec}: {trial.verdict}  {trial.said}"
            progress.console.print(line, markup=False, soft_wrap=True)

        found = bisect(question, progress.step, told)
    deliver(json, lambda: to_json(found), lambda console: show(found, console), WIDTH)
    raise typer.Exit(0 if found.changes else 2)


def _check(
    program: str | None, over: str, check: str | None, target: str | None, case: str | None, timeout: float
) -> Check:
    """The check that was given, or `assay check PROGRAM`."""
    if over not in AXES:
        raise InputError(f"--over {over}: there is {', '.join(AXES)}")
    if program is not None:
        parse_source(program)  # a wrong path is told before anything is installed
    if check is not None:
        if target is not None or case is not None:
            raise InputError("--target and --case belong into the command that --check gives")
        return parse_check(check, program, timeout)
    if program is None:
        raise InputError("nothing to check: name a PROGRAM, or give --check")
    target = target or ("cpu" if over == "jaxlib" else "tpu:v5e")
    if target.startswith("tpu") != (over == "libtpu"):
        raise InputError(
            f"--target {target} does not depend on {over}: over jaxlib it is cpu, over libtpu tpu:GENERATION"
        )
    words = ["assay", "check", program, "--target", target, *([] if case is None else ["--case", case])]
    return parse_check(shlex.join(words), None, timeout)
