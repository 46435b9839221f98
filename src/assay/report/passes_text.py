"""A `PassesReport` for a person: the verdict in one line, the pass, and what it changed, side by side."""

from __future__ import annotations

import re

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.oracle.verdict import Verdict
from assay.report.passes import Culprit, PassesCase, PassesReport, counted
from assay.report.text import STYLE, show_remarks

MOST_LINES = 12  # of a changed region on either side
_SILENT = re.compile(
    r", (?:metadata|frontend_attributes|backend_config)=(?:\{(?:[^{}]|\{[^{}]*\})*\}|\"(?:[^\"\\]|\\.)*\")"
)


def show(report: PassesReport, console: Console, verbose: bool = False) -> None:
    """Prints `report`; every snapshot that was looked at with `verbose`."""
    console.print(_verdict_line(report), soft_wrap=True)
    for case in report.cases:
        if len(report.cases) > 1 and (verbose or case.verdict != Verdict.AGREE):
            line = Text(f"\n{case.name}: ", style="bold")
            line.append(str(case.verdict), style=STYLE[case.verdict])
            line.append(f": {case.why}" if case.why else "")
            console.print(line, soft_wrap=True)
        if verbose or len(report.cases) == 1 or case.verdict != Verdict.AGREE:
            _show_case(case, console, verbose)


def _verdict_line(report: PassesReport) -> Text:
    worst = report.worst
    line = Text()
    line.append(str(worst.verdict).upper(), style=STYLE[worst.verdict])
    line.append(f"  {report.program}  on {report.target} ({report.toolchain}): ")
    if worst.culprit is not None and worst.verdict == Verdict.MISMATCH:
        line.append(f"{_where(worst.culprit)} made it wrong")
        if worst.untold:
            line.append(f", or a pass before it: unverified snapshots in between: {worst.untold}")
    elif worst.culprit is not None:
        line.append(f"{worst.why}, in {_where(worst.culprit)}")
    elif worst.verdict == Verdict.AGREE:
        looked = sum(len(case.looks) for case in report.cases)
        line.append(f"{looked} of {sum(case.snapshots for case in report.cases)} snapshots evaluated, all agree")
    else:
        line.append(worst.why)
    return line


def _where(culprit: Culprit) -> str:
    return f"{culprit.pipeline} / {culprit.name}" if culprit.pipeline else culprit.name


def _show_case(case: PassesCase, console: Console, verbose: bool) -> None:
    if case.culprit is not None:
        _show_culprit(case.culprit, console)
    if case.looks:
        console.print(Text(_counts(case)), soft_wrap=True)
    for why, count in counted(case.looks).items():
        console.print(Text(f"  {count} unverified: {why}"), soft_wrap=True)
    if verbose and case.looks:
        console.print(_table(case))
    show_remarks(case.notes, case.stderr_tail, console)


def _show_culprit(culprit: Culprit, console: Console) -> None:
    since = culprit.since or "the program as it was given"
    console.print(Text(f"right: {since}"), soft_wrap=True)
    console.print(Text(f"wrong: {culprit.snapshot}"), soft_wrap=True)
    if len(culprit.passes) > 1:
        console.print(Text(f"passes known to have run in between: {', '.join(culprit.passes)}"), soft_wrap=True)
    for wrong in culprit.wrong:
        place = f" at {list(wrong.place)}" if wrong.place else ""
        before = f"{wrong.before} before, " if wrong.before else ""
        console.print(
            Text(
                f"output {wrong.output}: {wrong.outside} of {wrong.elements} elements are wrong; worst{place}: "
                f"{before}{wrong.after} after, the program gives {wrong.reference} ({culprit.inputs})"
            ),
            soft_wrap=True,
        )
    if culprit.before or culprit.after:
        table = Table("before", "after", box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
        table.columns[0].overflow = table.columns[1].overflow = "fold"
        table.columns[0].ratio = table.columns[1].ratio = 1
        table.expand = True
        table.add_row(Text(_lines(culprit.before)), Text(_lines(culprit.after)))
        console.print(table)


def _lines(texts: tuple[str, ...]) -> str:
    """The instructions without what does not change their value; `nothing` where there are none."""
    shown = [_SILENT.sub("", text) for text in texts[:MOST_LINES]]
    if len(texts) > MOST_LINES:
        shown.append(f"... {len(texts) - MOST_LINES} more; --json has them all")
    return "\n".join(shown) or "(nothing in its place)"


def _counts(case: PassesCase) -> str:
    share = f"{len(case.looks) - case.count('unverified')} of {len(case.looks)} snapshots evaluated ({case.share:.1%})"
    of_all = f"; the compiler wrote {case.snapshots}" if case.snapshots != len(case.looks) else ""
    total = case.evaluated + case.spared
    spared = f"{case.evaluated} of {total} instructions evaluated, the others found again" if total else ""
    timed = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in case.seconds.items())
    return f"{share}{of_all}; {spared}; {timed}"


def _table(case: PassesCase) -> Table:
    table = Table("snapshot", "", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for look in case.looks:
        style = {"agrees": "green", "differs": "red"}.get(look.state, "yellow")
        table.add_row(look.label, Text(look.state, style=style), "as before" if look.repeat else look.why)
    return table
