"""Which row of an isolation to look at first."""

from __future__ import annotations

import math

from assay.oracle.verdict import MismatchClass, Verdict
from assay.report.isolation import PieceResult

_VERDICTS = (
    Verdict.AGREE,
    Verdict.UNVERIFIED,
    Verdict.INVALID,
    Verdict.NONDETERMINISTIC,
    Verdict.HANG,
    Verdict.CRASH,
    Verdict.MISMATCH,
)  # least severe first

Rank = tuple[int, int, int, float, float]


def severity(row: PieceResult) -> Rank:
    """Sorts rows: the larger, the sooner it is to be looked at.

    In order: the verdict; MISCOMPILE before what a liberty of the compiler explains; how far outside in units of the
    bound, by its power of two, so that a wrong element far out comes before many that are just outside; which share of
    the elements; how far exactly. A distance without end (NaN against a number, an exact bound) counts as the largest.
    """
    benign = row.klass is not None and row.klass is not MismatchClass.MISCOMPILE
    far = min(row.worst_bound, 2.0**64) if row.outside else 0.0
    share = row.outside / row.elements if row.elements else 0.0
    return (_VERDICTS.index(row.verdict), int(not benign), int(math.log2(max(far, 1.0))), share, far)
