"""What `assay summarize` found, as data and as JSON: four numbers for each tensor, and where target and reference
first part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from assay.oracle.verdict import EXIT_CODE, Verdict, most_severe

SCHEMA = 1

Four = tuple[float, float, float, float]
"""Least, greatest, mean, standard deviation."""
FOUR = ("min", "max", "mean", "std")


class State(StrEnum):
    """What is known of one tensor of the target."""

    AGREES = "agrees"
    WRONG = "wrong"
    INHERITED = "inherited"
    DIFFERS = "differs"
    OPEN = "open"
    UNSEEN = "unseen"


MEANING: dict[State, str] = {
    State.AGREES:    "explained by the reference",
    State.WRONG:     "no correct instruction gives these elements of the operands that the target gave it",
    State.INHERITED: "the summary is none that the program allows; the instruction is right, its operands are wrong",
    State.DIFFERS:   "the summary is none that the program allows; the instruction was not judged by itself",
    State.OPEN:      "the reference cannot say what is right",
    State.UNSEEN:    "the target's value could not be had",
}  # fmt: skip
DIVERGING = frozenset((State.WRONG, State.INHERITED, State.DIFFERS))


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor: leaf `index` of what `name` of `computation` gave when it ran for the time `trip` (from 0).

    target, reference: summaries; None where they could not be had. low, high: where the target's may lie. outside: of
    `elements`, those that the instruction cannot give on the target's own operands; None where that is not known.
    """

    computation: str
    name: str
    opcode: str
    index: tuple[int, ...]
    trip: int
    dtype: str
    dims: tuple[int, ...]
    elements: int
    target: Four | None = None
    reference: Four | None = None
    low: Four | None = None
    high: Four | None = None
    outside: int | None = None
    state: State = State.OPEN
    why: str = ""

    @property
    def key(self) -> tuple[str, str, tuple[int, ...], int]:
        return self.computation, self.name, self.index, self.trip


@dataclass(frozen=True, slots=True)
class SummaryCase:
    """One program on one set of inputs. digest: of the arguments, so that two runs are compared on the same. first: the
    earliest rows that diverge. why: explains every verdict but `agree` and `mismatch`.
    """

    name: str
    verdict: Verdict
    why: str = ""
    inputs: str = ""
    digest: str = ""
    rows: tuple[Row, ...] = ()
    first: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    stderr_tail: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        return sum(row.state is state for row in self.rows)


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """All programs of one run. against: what the target was compared with, `ref` or a file."""

    program: str
    target: str
    toolchain: str
    seed: int
    cases: tuple[SummaryCase, ...]
    against: str = "ref"
    command: str = ""

    @property
    def verdict(self) -> Verdict:
        return most_severe(case.verdict for case in self.cases)

    @property
    def worst(self) -> SummaryCase:
        return next(case for case in self.cases if case.verdict == self.verdict)

    @property
    def exit_code(self) -> int:
        """0: nothing diverges; 1: something does; 2: it could not be seen."""
        return EXIT_CODE[self.verdict]


def first_of(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The earliest tensors that diverge: those of the first instruction that is wrong by itself, else of the first
    whose summary differs; `rows` are in the order in which they were made.
    """
    for states in ((State.WRONG,), (State.DIFFERS, State.INHERITED)):
        found = next((row for row in rows if row.state in states), None)
        if found is not None:
            same = [row for row in rows if (row.computation, row.name, row.trip) == found.key[:2] + found.key[3:]]
            return tuple(row for row in same if row.state in DIVERGING)
    return ()


def to_json(report: SummaryReport) -> str:
    return json.dumps(as_dict(report), indent=1) + "\n"


def as_dict(report: SummaryReport) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "verdict": str(report.verdict),
        "why": report.worst.why,
        "target": report.target,
        "toolchain": report.toolchain,
        "against": report.against,
        "seed": report.seed,
        "program": report.program,
        "command": report.command,
        "cases": [_case(case) for case in report.cases],
    }


def _case(case: SummaryCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "verdict": str(case.verdict),
        "why": case.why,
        "inputs": case.inputs,
        "digest": case.digest,
        "counts": {str(state): case.count(state) for state in State},
        "first": [_row(row) for row in case.first],
        "tensors": [_row(row) for row in case.rows],
        "notes": list(case.notes),
        "stderr": list(case.stderr_tail),
        "seconds": {name: round(value, 3) for name, value in case.seconds.items()},
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "computation": row.computation,
        "instruction": row.name,
        "opcode": row.opcode,
        "index": list(row.index),
        "trip": row.trip,
        "dtype": row.dtype,
        "shape": list(row.dims),
        "state": str(row.state),
        "why": row.why,
        "target": _four(row.target),
        "reference": _four(row.reference),
        "low": _four(row.low),
        "high": _four(row.high),
        "outside": row.outside,
        "elements": row.elements,
    }


def _four(four: Four | None) -> dict[str, float | str] | None:
    return None if four is None else {name: _number(value) for name, value in zip(FOUR, four, strict=True)}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def four_from(found: Mapping[str, Any] | None) -> Four | None:
    """What `_four` wrote. Raises KeyError, ValueError, TypeError where it is something else."""
    if found is None:
        return None
    least, greatest, mean, deviation = (float(found[name]) for name in FOUR)
    return least, greatest, mean, deviation
