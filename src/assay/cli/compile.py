"""assay compile: what does the compiler make of a program?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from assay.checking.api import TARGETS, Request
from assay.cli.options import DumpLimit, bytes_of, flags_of, options_of
from assay.cli.output import console
from assay.cli.progress import Progress
from assay.emit import KINDS, Emitted, Order, emit
from assay.targets.tpu_aot import LLO_PASSES


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="Whatever `assay check` takes; for a TPU also HLO that is optimized and scheduled already.",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    emit_kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--emit", help="; ".join(f"{name}: {what}" for name, what in KINDS.items()) + ". Repeatable; hlo if none."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for it; without one the optimized HLO is printed.")] = None,
    toolchain: Annotated[
        str | None, typer.Option(help="Versions, e.g. jax==0.10.2,libtpu==0.0.42.1; those beside assay if not given.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of this compilation, NAME=VALUE. Repeatable.")
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(help="A flag of the compiler's process, XLA's or libtpu's. Repeatable.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Only the cases whose name matches this glob.")] = None,
    llo_passes: Annotated[
        str, typer.Option(help="LLO passes by label, a regular expression; . for all of them, some 70 files a kernel.")
    ] = LLO_PASSES,
    dump_limit: DumpLimit = "8G",
    memory: Annotated[str, typer.Option(help="Memory limit of the worker.")] = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler may take.")] = 1800.0,
) -> None:
    """Compile PROGRAM, with no device needed, and write what the compiler made of it.

    Exit code 0: compiled. 1: the compiler crashed or hung. 2: it was refused, or the input was wrong.
    """
    request = Request(
        target=target,
        toolchain=toolchain,
        options=options_of(option),
        flags=flags_of(flag),
        case=case,
        memory_limit=bytes_of(memory),
        timeout_s=timeout,
    )
    kinds = tuple(dict.fromkeys(emit_kinds or ["hlo"]))
    order = Order(kinds, out, llo_passes, bytes_of(dump_limit, "--dump-limit"))
    with Progress() as progress:
        versions, done = emit(program, request, order, progress.step)
    for each in done if out is None else ():
        if not each.problem:
            print(each.hlo, end="")
    _show(done, f"{target} ({versions})", errors=out is None)
    failed = [each for each in done if each.problem]
    raise typer.Exit(0 if not failed else 1 if any(each.found for each in failed) else 2)


def _show(done: list[Emitted], title: str, errors: bool) -> None:
    """A row a file or folder that was written; to standard error where standard output has the HLO."""
    table = Table("program", "compiled in", "", "files", "where", box=box.SIMPLE_HEAD, pad_edge=False, title=title)
    table.title_justify = "left"
    for each in done:
        for number, (kind, place, count) in enumerate(each.files):
            first = (each.name, f"{each.seconds:.2f} s") if number == 0 else ("", "")
            table.add_row(*map(Text, (*first, kind, str(count), str(place))))
        if each.problem:
            table.add_row(*map(Text, (each.name, "", "failed", "", each.problem)), style="red")
    if table.row_count:
        console(stderr=errors).print(table)
