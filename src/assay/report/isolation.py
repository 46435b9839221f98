"""What `assay isolate` found, as data: a row for each distinct piece, of which some stand many times in the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from assay.oracle.verdict import EXIT_CODE, FINDINGS, MismatchClass, Verdict, most_severe
from assay.report.json_form import number, parsed
from assay.report.result import CaseResult


@dataclass(frozen=True, slots=True)
class PieceResult:
    """One distinct piece, judged.

    key: a fingerprint that keeps constants and configuration. group: a coarser one, for the report alone. name,
    computation, opcode: of the first instruction that it stands for; instances: of all, names. why: explains every
    verdict but `agree` and `mismatch`. votes: what each independent way of computing it says against the reference
    (`target`, `unfused`, ...). inputs, pattern: of the set of inputs that decided, in words. outside, undecided,
    masked: of `elements`, on that set. worst_bound: the largest distance in units of the bound. identical: whether the
    compiler makes the same kernel of the piece as in the graph; None where that is not known. reproducer: the folder
    with it. arguments: the set of inputs of a finding, which goes into that folder and nowhere else.
    """

    key: str
    group: str
    name: str
    computation: str
    opcode: str
    instances: tuple[str, ...]
    verdict: Verdict
    why: str = ""
    klass: MismatchClass | None = None
    votes: Mapping[str, str] = field(default_factory=dict)
    inputs: str = ""
    pattern: str = ""
    elements: int = 0
    outside: int = 0
    undecided: int = 0
    masked: int = 0
    worst_bound: float = 0.0
    identical: bool | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    reproducer: str = ""
    arguments: tuple[np.ndarray[Any, np.dtype[Any]], ...] = field(default=(), repr=False, compare=False)


def as_dict(row: PieceResult) -> dict[str, Any]:
    """A row for JSON, all but its arguments."""
    found = {f.name: getattr(row, f.name) for f in fields(row) if f.name != "arguments"}
    found["verdict"], found["votes"] = str(row.verdict), dict(row.votes)
    found["class"] = None if row.klass is None else str(row.klass)
    del found["klass"]
    found["instances"], found["notes"] = list(row.instances), list(row.notes)
    found["worst_bound"], found["seconds"] = number(row.worst_bound), round(row.seconds, 3)
    return found


def from_dict(found: Mapping[str, Any]) -> PieceResult:
    """The row that `as_dict` made this of. Raises KeyError, ValueError, TypeError for anything else."""
    rest = {k: v for k, v in found.items() if k != "class"}
    rest["verdict"] = Verdict(found["verdict"])
    rest["klass"] = None if found["class"] is None else MismatchClass(found["class"])
    rest["instances"], rest["notes"] = tuple(found["instances"]), tuple(found["notes"])
    rest["worst_bound"] = parsed(found["worst_bound"])
    return PieceResult(**rest)


@dataclass(frozen=True, slots=True)
class ProgramPieces:
    """One program, cut. problem: why it could not be, with its verdict; then there is nothing else.

    instructions: of the computations that run. pieces: how many were cut; distinct: of them; chosen: of those, by
    filters and shard. left: instructions that are no piece, counted by why. rows: in the order of the graph. resumed:
    how many of them an earlier run had judged. whole: the program itself, on its own inputs. notes: on all of it.
    """

    name: str
    verdict: Verdict = Verdict.AGREE
    problem: str = ""
    instructions: int = 0
    pieces: int = 0
    distinct: int = 0
    chosen: int = 0
    resumed: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[PieceResult, ...] = ()
    whole: CaseResult | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Counter[Verdict]:
        """Distinct pieces by verdict."""
        return Counter(row.verdict for row in self.rows)

    @property
    def reasons(self) -> Counter[str]:
        """Why pieces were not judged."""
        return Counter(row.why for row in self.rows if row.verdict in (Verdict.UNVERIFIED, Verdict.INVALID))

    @property
    def worst(self) -> Verdict:
        if self.problem:
            return self.verdict
        whole = () if self.whole is None else (self.whole.verdict,)
        return most_severe([*(row.verdict for row in self.rows), *whole])


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """All programs of one run of `assay isolate`. candidates: the findings, the first is to be looked at first."""

    program: str
    target: str
    toolchain: str
    seed: int
    programs: tuple[ProgramPieces, ...]
    candidates: tuple[PieceResult, ...]
    command: str = ""

    @property
    def verdict(self) -> Verdict:
        return most_severe(program.worst for program in self.programs)

    @property
    def exit_code(self) -> int:
        return EXIT_CODE[self.verdict]


def report_dict(report: IsolationReport) -> dict[str, Any]:
    """The whole report for JSON."""
    return {
        "schema": 1,
        "verdict": str(report.verdict),
        "program": report.program,
        "target": report.target,
        "toolchain": report.toolchain,
        "seed": report.seed,
        "command": report.command,
        "candidates": [as_dict(row) for row in report.candidates],
        "programs": [_program(program) for program in report.programs],
    }


def _program(program: ProgramPieces) -> dict[str, Any]:
    return {
        "name": program.name,
        "verdict": str(program.worst),
        "problem": program.problem,
        "instructions": program.instructions,
        "pieces": program.pieces,
        "distinct": program.distinct,
        "chosen": program.chosen,
        "resumed": program.resumed,
        "left": dict(program.left),
        "counts": {str(verdict): count for verdict, count in program.counts.items()},
        "reasons": dict(program.reasons),
        "whole": None if program.whole is None else {"verdict": str(program.whole.verdict), "why": program.whole.why},
        "seconds": {name: round(value, 3) for name, value in program.seconds.items()},
        "notes": list(program.notes),
        "rows": [as_dict(row) for row in program.rows],
    }


def candidates(rows: Sequence[PieceResult]) -> list[PieceResult]:
    """Those that are findings, as they come."""
    return [row for row in rows if row.verdict in FINDINGS]
