"""Tables as the reports of LLO show them: the first column left, numbers right."""

from __future__ import annotations

from rich import box
from rich.table import Table


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table; a column whose head is empty is of words."""
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title)
    found.title_justify = "left"
    for number, name in enumerate(columns):
        found.add_column(name, justify="right" if number and name else "left")
    return found
