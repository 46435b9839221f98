"""assay passes: which pass of the compiler is wrong?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import TARGETS, Request, command_line
from assay.cli.options import (
    Accumulation,
    Case,
    DumpLimit,
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
)
from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress
from assay.isolate.api import Options, passes
from assay.report.passes import to_json
from assay.report.passes_text import show


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="FILE.py with cases(), FILE.py:FUNCTION, HLO text or proto, StableHLO text or bytecode, "
            "a jax.export artifact, or a folder with the snapshots of one compilation.",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    all_: Annotated[
        bool, typer.Option("--all", help="Evaluate every snapshot, not the last and, where it is wrong, by halves.")
    ] = False,
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.6.2; the jax beside assay if not given.")
    ] = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the snapshots in this folder; they are thrown away otherwise.")
    ] = None,
    dump_limit: DumpLimit = "8G",
    json: Json = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one snapshot may take.")] = 600.0,
    policy: Policy = None,
    accumulation: Accumulation = "probable",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every snapshot that was evaluated.")] = False,
) -> None:
    """Compile PROGRAM with a snapshot after every pass, run them, and name the first pass whose result is wrong.

    Exit code 0: all agree. 1: a finding. 2: it could not be judged.
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
        reference_timeout_s=reference_timeout,
        policy=policy,
        accumulation=accumulation,
    )
    options = Options(all_, keep, bytes_of(dump_limit, "--dump-limit"))
    refuse_json(json)
    with Progress() as progress:
        report = passes(program, request, options, command_line(), progress.step)
    deliver(json, lambda: to_json(report), lambda console: show(report, console, verbose))
    raise typer.Exit(report.exit_code)
