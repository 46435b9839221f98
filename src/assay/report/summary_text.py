"""A `SummaryReport` for a person: where target and reference first part, and the four numbers of every tensor."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.oracle.verdict import Verdict
from assay.report.summary import DIVERGING, FOUR, MEANING, Four, Row, State, SummaryCase, SummaryReport
from assay.report.tables import table
from assay.report.text import STYLE, show_remarks

OF_TWO_RUNS = {
    State.DIFFERS: "the two runs are further apart than two correct results can be",
    State.UNSEEN:  "one of the two runs does not have it",
}  # fmt: skip
AROUND = 3  # rows shown before and after the first that diverges
STATE_STYLE = {
    State.AGREES: "green", State.WRONG: "bold red", State.INHERITED: "red", State.DIFFERS: "bold red",
    State.OPEN: "yellow", State.UNSEEN: "yellow",
}  # fmt: skip


def show(report: SummaryReport, console: Console, verbose: bool = False) -> None:
    """Prints `report`: the tensors around the first that diverges, all of them with `verbose`."""
    console.print(_verdict_line(report), soft_wrap=True)
    for case in report.cases:
        if len(report.cases) > 1:
            line = Text(f"\n{case.name}: ", style="bold")
            line.append(str(case.verdict), style=STYLE[case.verdict])
            line.append(f": {case.why}" if case.why else "")
            console.print(line, soft_wrap=True)
        _show_case(case, report.against, console, verbose)


def _verdict_line(report: SummaryReport) -> Text:
    worst = report.worst
    line = Text()
    line.append(str(worst.verdict).upper(), style=STYLE[worst.verdict])
    line.append(f"  {report.program}  on {report.target} ({report.toolchain}): ")
    if worst.first:
        first = worst.first[0]
        what = "is wrong" if first.state is State.WRONG else "is the first that differs"
        line.append(f"{_place(first)} {what}")
    elif worst.verdict == Verdict.AGREE:
        seen = sum(len(case.rows) - case.count(State.UNSEEN) for case in report.cases)
        line.append(f"{seen} tensors were looked at, none diverges")
    else:
        line.append(worst.why)
    return line


def _show_case(case: SummaryCase, against: str, console: Console, verbose: bool) -> None:
    for row in case.first:
        if row.outside:
            told = f"{row.outside} of {row.elements} elements are none that it can give on the operands that it got"
            console.print(Text(f"{_place(row)} ({row.opcode}): {told}"), soft_wrap=True)
    if case.rows:
        counts = ", ".join(f"{case.count(state)} {state}" for state in State if case.count(state))
        timed = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in case.seconds.items())
        console.print(Text(f"{len(case.rows)} tensors: {counts}; {case.inputs}; {timed}"), soft_wrap=True)
        for state in (State.INHERITED, State.DIFFERS, State.OPEN, State.UNSEEN):
            if case.count(state):
                meaning = OF_TWO_RUNS.get(state, MEANING[state]) if against != "ref" else MEANING[state]
                console.print(Text(f"  {state}: {meaning}"), soft_wrap=True)
    shown = case.rows if verbose else _window(case)
    if shown:
        console.print(_table(shown, "reference" if against == "ref" else against))
    show_remarks(case.notes, case.stderr_tail, console)


def _window(case: SummaryCase) -> Sequence[Row]:
    """The rows around the first that diverges."""
    if not case.first:
        return ()
    at = case.rows.index(case.first[0])
    return case.rows[max(0, at - AROUND) : at + len(case.first) + AROUND]


def _table(rows: Sequence[Row], other: str) -> Table:
    found = table("tensor", "", *FOUR, "", "outside", "")
    for row in rows:
        style = "" if row.state not in DIVERGING else STATE_STYLE[row.state]
        outside = "" if row.outside is None else str(row.outside)
        state = Text(str(row.state), style=STATE_STYLE[row.state])
        found.add_row(Text(_place(row), style=style), "target", *_numbers(row.target), _type(row), outside, state)
        if row.reference is not None and (row.reference != row.target or row.state in DIVERGING):
            found.add_row("", other, *_numbers(row.reference), "", "", "")
    return found


def _numbers(four: Four | None) -> list[str]:
    return ["-"] * 4 if four is None else [f"{value:.6g}" for value in four]


def _place(row: Row) -> str:
    leaf = "".join(f"[{place}]" for place in row.index)
    return f"{row.name}{leaf}" + (f" (time {row.trip + 1})" if row.trip else "")


def _type(row: Row) -> str:
    return f"{row.dtype}[{','.join(map(str, row.dims))}]"
