"""What a person reads of an isolation, where it is not what the command line's tests look at."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from assay.oracle.verdict import Verdict
from assay.report.isolation import IsolationReport, PieceResult, ProgramPieces
from assay.report.isolation_text import show


def row(name: str, identical: bool | None) -> PieceResult:
    return PieceResult(name, "", name, "main", "fusion", (name,), Verdict.AGREE, identical=identical)


def text_of(*rows: PieceResult) -> str:
    program = ProgramPieces("p", instructions=9, pieces=len(rows), distinct=len(rows), chosen=len(rows), rows=rows)
    console = Console(width=200, file=StringIO())
    show(IsolationReport("p", "cpu", "jax", 0, (program,), (), ""), console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_pieces_that_are_other_code_alone_are_named() -> None:
    assert "2 of 3 that have code have that of the graph; not c" in text_of(
        row("a", True), row("b", True), row("c", False), row("d", None)
    )
    assert "2 of 2 that have code have that of the graph\n" in text_of(row("a", True), row("b", True))


def test_nothing_is_said_of_code_that_is_not_known() -> None:
    text = text_of(row("a", None))
    assert "1 agree" in text
    assert "have code" not in text
