"""What `assay isolate` says to a person."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.oracle.verdict import FINDINGS, Verdict
from assay.report.isolation import IsolationReport, PieceResult, ProgramPieces

MOST = 20
STYLE = {Verdict.AGREE: "bold green", Verdict.UNVERIFIED: "bold yellow", Verdict.INVALID: "bold yellow"}


def show(report: IsolationReport, console: Console, verbose: bool = False) -> None:
    """The verdict, the candidates with the first to look at on top, and what was not judged."""
    head = f"{str(report.verdict).upper()}  {report.program}  on {report.target} ({report.toolchain})"
    console.print(Text(head, style=STYLE.get(report.verdict, "bold red")), soft_wrap=True)
    if report.candidates:
        _candidates(report, console)
    for program in report.programs:
        _program(program, console, verbose, several=len(report.programs) > 1)


def _candidates(report: IsolationReport, console: Console) -> None:
    table = Table("", "piece", "class", "wrong", "bounds", "pattern", "inputs", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, row in enumerate(report.candidates[:MOST], 1):
        wrong = f"{row.outside} of {row.elements}" if row.elements else row.why
        far = f"{row.worst_bound:.3g}" if row.outside else ""
        name = Text(f"{row.name} ({row.opcode}){_times(row)}")
        table.add_row(str(place), name, str(row.klass or row.verdict), wrong, far, row.pattern, row.inputs)
    console.print(table)
    if len(report.candidates) > MOST:
        console.print(f"... and {len(report.candidates) - MOST} more; --json has them all")
    for row in report.candidates[:MOST]:
        votes = "; ".join(f"{who}: {what}" for who, what in row.votes.items())
        told = [f"  {row.name}: {votes}", *(f"    {note}" for note in row.notes)]
        told += [f"    reproducer: {row.reproducer}"] if row.reproducer else []
        console.print(Text("\n".join(told)), soft_wrap=True)


def _times(row: PieceResult) -> str:
    return f" x{len(row.instances)}" if len(row.instances) > 1 else ""


def _program(program: ProgramPieces, console: Console, verbose: bool, several: bool) -> None:
    name = f"{program.name}: " if several else ""
    if program.problem:
        console.print(Text(f"{name}{program.verdict}: {program.problem}", style="yellow"), soft_wrap=True)
        return
    counts = ", ".join(f"{count} {verdict}" for verdict, count in program.counts.items())
    cut = f"{program.instructions} instructions, {program.pieces} pieces, {program.distinct} distinct"
    chosen = "" if program.chosen == program.distinct else f", {program.chosen} chosen"
    resumed = f" ({program.resumed} of an earlier run)" if program.resumed else ""
    timed = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in program.seconds.items())
    console.print(Text(f"{name}{cut}{chosen}: {counts or 'none judged'}{resumed}; {timed}"), soft_wrap=True)
    elements = sum(row.elements for row in program.rows)
    undecided, masked = (sum(getattr(row, what) for row in program.rows) for what in ("undecided", "masked"))
    if elements:
        share = f"{undecided / elements:.2%} undecided, {masked / elements:.2%} NaN or infinite on both sides"
        console.print(f"  {elements} elements compared, {share}")
    _identity(program, console)
    for why, count in program.reasons.most_common(None if verbose else 8):
        console.print(Text(f"  not judged: {count} x {why}", style="yellow"), soft_wrap=True)
    if program.left:
        left = ", ".join(f"{count} {why}" for why, count in program.left.items())
        console.print(Text(f"  no pieces: {left}"), soft_wrap=True)
    _whole(program, console)
    for note in program.notes:
        console.print(Text(f"  {note}"), soft_wrap=True)
    if verbose:
        console.print(_rows(program))


def _identity(program: ProgramPieces, console: Console) -> None:
    """How many pieces are, alone, the code that they are in the graph, and which are not."""
    known = [row for row in program.rows if row.identical is not None]
    others = [row.name for row in known if not row.identical]
    if known:
        but = f"; not {', '.join(others[:MOST])}{', ...' if len(others) > MOST else ''}" if others else ""
        text = f"  {len(known) - len(others)} of {len(known)} that have code have that of the graph{but}"
        console.print(Text(text), soft_wrap=True)


def _whole(program: ProgramPieces, console: Console) -> None:
    if program.whole is None:
        return
    whole, wrong = program.whole, any(row.verdict in FINDINGS for row in program.rows)
    text = f"  the whole program: {whole.verdict}" + (f" ({whole.why})" if whole.why else "")
    if whole.verdict in FINDINGS and not wrong:
        text += "; no piece is wrong alone: `assay passes` looks for a wrong rewrite before the pieces were made"
    console.print(Text(text), soft_wrap=True)


def _rows(program: ProgramPieces) -> Table:
    table = Table("piece", "opcode", "verdict", "elements", "undecided", "s", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in program.rows:
        said = f"{row.verdict}{f': {row.why}' if row.why else ''}"
        name, style = Text(f"{row.name}{_times(row)}"), STYLE.get(row.verdict, "bold red")
        table.add_row(
            name, row.opcode, Text(said, style=style), str(row.elements), str(row.undecided), f"{row.seconds:.2f}"
        )
    return table
