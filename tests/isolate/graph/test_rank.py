"""What is to be looked at first."""

from __future__ import annotations

from itertools import pairwise

import pytest

from assay.isolate.graph.rank import severity
from assay.oracle.verdict import MismatchClass, Verdict
from assay.report.isolation import PieceResult

BUG, SKIPPED = MismatchClass.MISCOMPILE, MismatchClass.EXCESS_PRECISION


def row(
    verdict: Verdict, klass: MismatchClass | None = None, outside: int = 0, bound: float = 0.0, inputs: str = "normal"
) -> PieceResult:
    counts = {"elements": 100, "outside": outside}
    return PieceResult("", "", "", "", "", (), verdict, klass=klass, inputs=inputs, worst_bound=bound, **counts)


FALLING = [
    row(Verdict.CRASH),
    row(Verdict.HANG),
    row(Verdict.MISMATCH, BUG, 100, float("inf")),
    row(Verdict.MISMATCH, BUG, 1, float("inf")),
    row(Verdict.MISMATCH, BUG, 1, 1e6),  # one element far out before many that are just outside
    row(Verdict.MISMATCH, BUG, 100, 3.5),
    row(Verdict.MISMATCH, BUG, 100, 3.0),  # alike but for the distance, within a power of two
    row(Verdict.MISMATCH, BUG, 50, 3.9),
    row(Verdict.MISMATCH, BUG, 0, 0.9),  # a systematic error
    row(Verdict.MISMATCH, BUG, 100, float("inf"), "edges, seed 0"),
    row(Verdict.MISMATCH, SKIPPED, 100, float("inf")),
    row(Verdict.NONDETERMINISTIC, None, 100, float("inf")),
    row(Verdict.INVALID),
    row(Verdict.UNVERIFIED),
    row(Verdict.AGREE),
]


def test_rows_fall_in_severity() -> None:
    for above, below in pairwise(FALLING):
        assert severity(above) > severity(below), (above, below)


@pytest.mark.parametrize("elements", [0, 100])
def test_a_row_without_elements_has_a_place(elements: int) -> None:
    empty = PieceResult("", "", "", "", "", (), Verdict.UNVERIFIED, elements=elements)
    assert severity(row(Verdict.AGREE)) < severity(empty) < severity(row(Verdict.MISMATCH, BUG))
