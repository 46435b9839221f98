"""assay policies: what may a target do with numbers?"""

from __future__ import annotations

import typer
from rich import box
from rich.table import Table

from assay.cli.output import console
from assay.reference.policies import NAMES, named
from assay.reference.policy_table import rows

WIDTH = 180  # of what is written to a file or a pipe


def command() -> None:
    """Show what each policy allows, and which applies to which target."""
    columns = [named(name, "cpu") for name in NAMES]
    table = Table("", *NAMES, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows(columns):
        table.add_row(*row)
    console(WIDTH).print(table)
    raise typer.Exit(0)
