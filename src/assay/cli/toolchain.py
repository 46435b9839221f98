"""assay toolchain: environments by version."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from assay.cli.progress import Progress
from assay.toolchain import environments

app = typer.Typer(help="Environments by version, made with uv or pip and kept.", no_args_is_help=True)
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="jax==VERSION or jax==VERSION,libtpu==VERSION")]


@app.command()
def add(spec: Spec) -> None:
    """Install the versions SPEC names, unless they are here already."""
    with Progress() as progress:
        toolchain = environments.add(spec, progress.step)
    print(f"{toolchain.spec}: {_versions(toolchain)}")


@app.command("list")
def list_() -> None:
    """Show what is installed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("toolchain", no_wrap=True, overflow="ignore")  # to be copied into --toolchain
    for heading in ("versions", "interpreter"):
        table.add_column(heading, overflow="fold")
    for toolchain in (environments.host(), *environments.installed()):
        table.add_row(toolchain.spec, _versions(toolchain), str(toolchain.python))
    Console(highlight=False).print(table)


@app.command()
def remove(spec: Spec) -> None:
    """Delete an environment."""
    environments.remove(spec)
    print(f"{spec}: removed")


def _versions(toolchain: environments.Toolchain) -> str:
    return ", ".join(f"{name} {version}" for name, version in dict(toolchain.versions).items())
