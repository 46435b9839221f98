"""assay replay: one program of a campaign once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import TARGETS
from assay.cli.options import Json
from assay.cli.output import deliver, refuse_json, refuse_unwritable
from assay.cli.progress import Progress
from assay.errors import StoreError


def command(
    program: Annotated[str, typer.Argument(metavar="SEED/NUMBER", help="A campaign's seed and the program's number.")],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.12.0.1; the campaign's if not given.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Where the campaign is: a folder or a database's URL; see `assay findings list --help`."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the program here, as Python.")] = None,
    json: Json = None,
) -> None:
    """Make one program of a campaign again and check it alone.

    Exit code 0: it agrees. 1: a finding. 2: it could not be judged.
    """
    from assay.campaign.replay import replay
    from assay.report.json_form import to_json
    from assay.report.text import show
    from assay.store.api import open_store

    refuse_json(json)
    if output is not None:
        refuse_unwritable(output, "--output")
    try:
        opened = open_store(store, create=False)
    except StoreError:
        if store is not None:
            raise
        opened = None  # no campaign was ever begun here
    with Progress() as progress:
        progress.step("making the program again")
        found = replay(program, target, toolchain, opened)
    if output is not None:
        output.write_text(found.source)
    deliver(json, lambda: to_json(found.report), lambda console: show(found.report, console))
    raise typer.Exit(found.report.exit_code)
