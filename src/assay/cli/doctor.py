"""assay doctor: what works here?"""

from __future__ import annotations

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.cli.progress import Progress
from assay.doctor import examine


def command() -> None:
    """Show what is installed, which targets work here, and how to get what is missing."""
    with Progress() as progress:
        progress.step("looking at this machine")
        findings = examine()
    table = Table("", "what", "seen", "to do", box=box.SIMPLE_HEAD, pad_edge=False)
    for finding in findings:
        mark = Text("ok", style="green")
        if not finding.ok:
            mark = Text("not here", style="yellow") if finding.extra else Text("missing", style="red")
        table.add_row(mark, finding.what, Text(finding.seen), Text(finding.advice))
    Console(highlight=False).print(table)
    raise typer.Exit(0 if all(finding.ok or finding.extra for finding in findings) else 2)
