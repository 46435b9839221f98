"""assay summarize: four numbers of every tensor of the optimized graph, and the first that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import TARGETS, Request, command_line
from assay.cli.options import (
    Accumulation,
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
)
from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress
from assay.isolate.graph.summarize import REFERENCE, Options, summarize
from assay.report.summary import to_json
from assay.report.summary_text import show


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="FILE.py with cases(), FILE.py:FUNCTION, HLO text or proto (optimized HLO too), StableHLO text or "
            "bytecode, a jax.export artifact, or a dump folder.",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    against: Annotated[
        str, typer.Option(help=f"{REFERENCE}, or what --json wrote of another run on the same inputs.")
    ] = REFERENCE,
    trips: Annotated[int, typer.Option(min=1, help="Of a loop's body, so many runs are looked at.")] = 3,
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.12.0.1; the jax beside assay if not given.")
    ] = None,
    preload: Annotated[
        Path | None, typer.Option(help="A Python file that the worker executes first; it may register passes.")
    ] = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    json: Json = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one request to the compiler may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one evaluation may take.")] = 600.0,
    policy: Policy = None,
    accumulation: Accumulation = "probable",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every tensor.")] = False,
) -> None:
    """Run PROGRAM and summarize every tensor that its optimized graph computes: min, max, mean, standard deviation.

    Exit code 0: nothing diverges. 1: something does. 2: it could not be seen.
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
        preload=preload,
    )
    refuse_json(json)
    with Progress() as progress:
        report = summarize(program, request, Options(trips, against), command_line(), progress.step)
    deliver(json, lambda: to_json(report), lambda console: show(report, console, verbose))
    raise typer.Exit(report.exit_code)
