"""assay passes: which pass of the compiler is wrong?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assay.checking.api import ACCUMULATIONS, DEFAULT_CLASSES, TARGETS, Request, command_line
from assay.cli.check import WIDTH, bytes_of, known_class, pair, refuse_json
from assay.cli.progress import Progress
from assay.inputs.generate import CLASSES
from assay.isolate.api import Options, passes
from assay.reference.policies import NAMES
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
        bool, typer.Option("--all", help="Evaluate every snapshot, not the first and the last and then by halves.")
    ] = False,
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.6.2; the jax beside assay if not given.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An XLA debug option, NAME=VALUE, for this compilation. Repeatable.")
    ] = None,
    flag: Annotated[list[str] | None, typer.Option(help="An XLA flag for the worker's process. Repeatable.")] = None,
    case: Annotated[
        str | None, typer.Option(help="Only the cases whose name matches this glob, such as '*norm*'.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of drawn inputs.")] = 0,
    inputs: Annotated[Path | None, typer.Option(help="Arguments as an .npz file.")] = None,
    input_class: Annotated[
        list[str] | None, typer.Option(help=f"Kinds of drawn inputs: {', '.join(CLASSES)}. Repeatable.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the snapshots in this folder; they are thrown away otherwise.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the whole report here as JSON; - for standard output.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory limit of the reference and of the worker, each.")] = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one snapshot may take.")] = 600.0,
    policy: Annotated[
        str | None,
        typer.Option(help=f"What the target may do with numbers, its own if not given: {', '.join(NAMES)}."),
    ] = None,
    accumulation: Annotated[
        str, typer.Option(help=f"How sure bounds of sums are: {', '.join(ACCUMULATIONS)}.")
    ] = "probable",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every snapshot that was evaluated.")] = False,
) -> None:
    """Compile PROGRAM with a snapshot after every pass, run them, and name the first pass whose result is wrong.

    Exit code 0: all agree. 1: a finding. 2: it could not be judged.
    """
    request = Request(
        target=target,
        toolchain=toolchain,
        options=dict(pair(text) for text in option or ()),
        flags=tuple(text if text.startswith("--") else f"--{text}" for text in flag or ()),
        seed=seed,
        inputs=inputs,
        classes=tuple(known_class(name) for name in input_class) if input_class else DEFAULT_CLASSES,
        case=case,
        memory_limit=bytes_of(memory),
        timeout_s=timeout,
        reference_timeout_s=reference_timeout,
        policy=policy,
        accumulation=accumulation,
    )
    refuse_json(json)
    with Progress() as progress:
        report = passes(program, request, Options(all_, keep), command_line(), progress.step)
    if json is not None and str(json) != "-":
        json.write_text(to_json(report))
    if json is not None and str(json) == "-":
        print(to_json(report), end="")
    else:
        console = Console(highlight=False)
        show(report, console if console.is_terminal else Console(highlight=False, width=WIDTH), verbose)
    raise typer.Exit(report.exit_code)
