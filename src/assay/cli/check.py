"""assay check: is a program compiled correctly?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assay.checking.api import ACCUMULATIONS, DEFAULT_CLASSES, TARGETS, Request, check_path, command_line
from assay.checking.bounds import KINDS
from assay.cli.progress import Progress
from assay.errors import InputError
from assay.inputs.generate import CLASSES
from assay.reference.policies import NAMES
from assay.report.json_form import to_json
from assay.report.text import show

WIDTH = 140  # of what is written to a file or a pipe
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
    option: Annotated[
        list[str] | None, typer.Option(help="An XLA debug option, NAME=VALUE, for this compilation. Repeatable.")
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option(help="A flag of the compiler's process, XLA's or, for a TPU, libtpu's. Repeatable."),
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="Only the cases whose name matches this glob, such as '*norm*'.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of drawn inputs.")] = 0,
    inputs: Annotated[Path | None, typer.Option(help="Arguments as an .npz file.")] = None,
    input_class: Annotated[
        list[str] | None, typer.Option(help=f"Kinds of drawn inputs: {', '.join(CLASSES)}. Repeatable.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the whole report here as JSON; - for standard output.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory limit of the reference and of the worker, each.")] = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler, or a run, may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the reference may take.")] = 600.0,
    policy: Annotated[
        str | None,
        typer.Option(help=f"What the target may do with numbers, its own if not given: {', '.join(NAMES)}."),
    ] = None,
    accumulation: Annotated[
        str, typer.Option(help=f"How sure bounds of sums are: {', '.join(ACCUMULATIONS)}.")
    ] = "probable",
    bounds: Annotated[str, typer.Option(help=f"How results are bounded: {', '.join(KINDS)}.")] = "auto",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every case and every output.")] = False,
) -> None:
    """Compile PROGRAM, run it, and compare every element with what a correct compiler may answer.

    Exit code 0: agrees. 1: a finding. 2: it could not be judged.
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
        bounds=bounds,
    )
    refuse_json(json)
    with Progress() as progress:
        report = check_path(program, request, command_line(), progress.step)
    if json is not None and str(json) != "-":
        json.write_text(to_json(report))
    if json is not None and str(json) == "-":
        print(to_json(report), end="")
    else:
        console = Console(highlight=False)
        show(report, console if console.is_terminal else Console(highlight=False, width=WIDTH), verbose)
    raise typer.Exit(report.exit_code)


def refuse_json(json: Path | None) -> None:
    """Raises InputError where a report cannot be written there, before anything is done."""
    if json is not None and str(json) != "-":
        if json.is_dir():
            raise InputError(f"--json {json}: a folder; name a file in it")
        if not json.absolute().parent.is_dir():
            raise InputError(f"--json {json}: no such folder {json.absolute().parent}")


def pair(text: str) -> tuple[str, str]:
    """`NAME=VALUE` taken apart. Raises InputError."""
    name, equals, value = text.lstrip("-").partition("=")
    if not equals or not name:
        raise InputError(f"--option {text}: write NAME=VALUE, e.g. xla_backend_optimization_level=0")
    return name, value


def known_class(name: str) -> str:
    """The class itself. Raises InputError where there is none of that name."""
    if name not in CLASSES:
        raise InputError(f"--input-class {name}: there is {', '.join(CLASSES)}")
    return name


def bytes_of(text: str) -> int:
    """`8G` -> 8589934592. Raises InputError."""
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], _UNITS[number[-1]]
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise InputError(f"--memory {text}: write a size such as 8G or 500M")
    return size
