"""What a run found, for a person and for a machine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.conformance.case import KINDS, STATUSES, Outcome
from assay.conformance.run import Result

WIDTH = 140
SCHEMA = 1
STYLE = {"failed": "bold red", "unsupported": "bold yellow", "unreadable": "bold yellow", "explained": "cyan"}


def exit_code(result: Result) -> int:
    """0: nothing failed and everything was judged; 1: a failure; 2: no failure, but something was not judged."""
    found = {outcome.status for outcome in result.outcomes}
    if "failed" in found:
        return 1
    return 2 if found & {"unsupported", "unreadable"} else 0


def show(result: Result, verbose: bool = False, console: Console | None = None) -> None:
    """A line for each file that is not simply passed, a table by comparison, and the sum in the last line."""
    out = console or Console(highlight=False)
    out = out if out.is_terminal or console is not None else Console(highlight=False, width=WIDTH)
    for outcome in result.outcomes:
        if verbose or outcome.status != "passed":
            line = Text(f"{outcome.status:12}", style=STYLE.get(outcome.status, ""))
            line.append(f" {outcome.file}" + (f": {outcome.why}" if outcome.why else ""))
            out.print(line, soft_wrap=True)
    out.print(table(result))
    out.print(Text(sentence(result)), soft_wrap=True)


def table(result: Result) -> Table:
    """Files by comparison and status."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("comparison")
    for name in ("files", *STATUSES, "elements", "undecided"):
        made.add_column(name, justify="right")
    rows = [("check." + kind, [o for o in result.outcomes if kind in o.kinds]) for kind in KINDS]
    rows.append(("none seen", [o for o in result.outcomes if not o.kinds]))
    for name, outcomes in rows:
        if outcomes:
            made.add_row(name, *map(str, _figures(outcomes)))
    made.add_row("all", *map(str, _figures(list(result.outcomes))))
    return made


def _figures(outcomes: list[Outcome]) -> list[int]:
    counts = Counter(outcome.status for outcome in outcomes)
    sums = [sum(o.elements for o in outcomes), sum(o.undecided for o in outcomes)]
    return [len(outcomes), *(counts[status] for status in STATUSES), *sums]


def sentence(result: Result) -> str:
    """`1190 files: 1190 passed (16 of them within the bound), 0 failed, 0 unsupported; jax==0.12.0, 50 s`."""
    counts = Counter(outcome.status for outcome in result.outcomes)
    parts = [f"{counts['passed'] + counts['within bound']} passed"]
    if counts["within bound"]:
        parts[0] += f" ({counts['within bound']} of them within the bound, not at the midpoint)"
    if counts["explained"]:
        parts.append(f"{counts['explained']} explained: the file's own expectation is off")
    parts += [f"{counts[status]} {status}" for status in ("failed", "unsupported")]
    if counts["unreadable"]:
        parts.append(f"{counts['unreadable']} unreadable")
    files = f"{len(result.outcomes)} file" + ("" if len(result.outcomes) == 1 else "s")
    return f"{files}: {', '.join(parts)}; {result.toolchain}, {result.seconds:.0f} s"


def as_json(result: Result) -> str:
    """Counts, and for each file its outcome and what excuses it."""
    counts = Counter(outcome.status for outcome in result.outcomes)
    files = [
        {
            "file": o.file,
            "status": o.status,
            "why": o.why,
            "comparisons": list(o.kinds),
            "elements": o.elements,
            "undecided": o.undecided,
            "seconds": round(o.seconds, 4),
            "off": [asdict(proof) for proof in result.proofs.get(o.file, ())],
        }
        for o in result.outcomes
    ]
    whole = {
        "schema": SCHEMA,
        "folder": str(result.folder),
        "toolchain": result.toolchain,
        "seconds": round(result.seconds, 1),
        "counts": {status: counts[status] for status in STATUSES},
        "files": files,
    }
    return json.dumps(whole, indent=1) + "\n"
