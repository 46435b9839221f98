"""assay check: is a program compiled correctly?"""

from __future__ import annotations

from typing import Annotated

import typer

from assay.checking.api import TARGETS, THROUGH, Request, check_path, command_line
from assay.checking.bounds import KINDS
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
from assay.report.json_form import to_json
from assay.report.text import show


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="FILE.py with cases(), FILE.py:FUNCTION, HLO text or proto, StableHLO text or bytecode, "
            "a jax.export artifact, or an --xla_dump_to folder.",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"What compiles and runs it: {', '.join(TARGETS)}.")] = "cpu",
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to check, e.g. jax==0.6.2; the jax beside assay if not given.")
    ] = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    json: Json = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler, or a run, may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the reference may take.")] = 600.0,
    policy: Policy = None,
    accumulation: Accumulation = "probable",
    bounds: Annotated[str, typer.Option(help=f"How results are bounded: {', '.join(KINDS)}.")] = "auto",
    through: Annotated[
        str,
        typer.Option(help="Without a device: " + "; ".join(f"{name}: {what}" for name, what in THROUGH.items()) + "."),
    ] = "hlo",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every case and every output.")] = False,
) -> None:
    """Compile PROGRAM, run it, and compare every element with what a correct compiler may answer.

    Exit code 0: agrees. 1: a finding. 2: it could not be judged.
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
        bounds=bounds,
        through=through,
    )
    refuse_json(json)
    with Progress() as progress:
        report = check_path(program, request, command_line(), progress.step)
    deliver(json, lambda: to_json(report), lambda console: show(report, console, verbose))
    raise typer.Exit(report.exit_code)
