"""assay templates: skeletons that programs are generated from."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from assay.checking import api
from assay.errors import InputError
from assay.generate import Plan, for_target, from_template
from assay.generate.source import HEADER, function, together
from assay.generate.template import Template
from assay.generate.template_file import find, names, text_of

app = typer.Typer(help="Skeletons that `assay fuzz --template` fills with generated programs.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="a template that comes with assay, or a .toml file")]


@app.command("list")
def list_() -> None:
    """Name the templates that come with assay."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("template", no_wrap=True)
    table.add_column("what it is")
    for name in names():
        table.add_row(name, find(name).about)
    Console(highlight=False).print(table)


@app.command()
def show(
    name: Name,
    seed: Annotated[int | None, typer.Option(help="print the program of this seed in place of the template")] = None,
) -> None:
    """Print a template, or a program of it."""
    if seed is not None:
        print(HEADER + "\n\n" + function(program(find(name), seed), "program"), end="")
    elif name.endswith(".toml"):
        find(name)
        print(Path(name).read_text("utf-8"), end="")
    else:
        print(text_of(name), end="")


@app.command()
def check(
    file: Name,
    count: Annotated[int, typer.Option(min=1, max=1000, help="how many programs of it to trace and lower")] = 10,
) -> None:
    """Read a template, make programs of it and have jax trace and lower them."""
    template = find(file)
    plans = [(f"p{seed}", program(template, seed)) for seed in range(count)]
    with (
        api.open_worker(api.Request(target="cpu"), lambda _: None) as (worker, _),
        tempfile.TemporaryDirectory() as folder,
    ):
        path = Path(folder) / "programs.py"
        for name, plan in plans:
            path.write_text(together([(name, plan)], wide=False))
            case = worker.load(path, "together", platform="cpu").cases[0]
            if case.error is not None:
                told = " ".join(str(case.error).split())
                raise InputError(f"{file}: its program of seed {name[1:]} does not lower: {told[:300]}")
    print(f"{file}: {count} programs traced and lowered")


def program(template: Template, seed: int) -> Plan:
    return from_template(template, for_target("cpu"), f"{seed}").plan
