"""Which row of an isolation to look at first."""

from __future__ import annotations

import math

from assay.oracle.verdict import MismatchClass, Verdict, gravity
from assay.report.isolation import PieceResult

EXTREME = ("edges", "log-uniform", "zeros")
"""Classes of drawn inputs that few programs meet."""

Rank = tuple[int, bool, bool, int, float, float]


def severity(row: PieceResult) -> Rank:
    """Sorts rows: the larger, the sooner it is to be looked at.

    In order: the verdict; MISCOMPILE before what a liberty of the compiler explains; ordinary inputs before extreme
    ones; how far outside in units of the bound, by its power of two, so that a wrong element far out comes before many
    that are just outside; which share of the elements; how far exactly. A distance without end (NaN against a number,
    an exact bound) counts as the largest.
    """
    benign = row.klass is not None and row.klass is not MismatchClass.MISCOMPILE
    ordinary = not row.inputs.startswith(EXTREME)
    far = min(row.worst_bound, 2.0**64) if row.outside else 0.0
    share = row.outside / row.elements if row.elements else 0.0
    power = int(math.log2(max(far, 1.0)))
    if row.verdict in (Verdict.AGREE, Verdict.UNVERIFIED, Verdict.INVALID):
        return gravity(row.verdict), False, False, 0, 0.0, 0.0
    return gravity(row.verdict), not benign, ordinary, power, share, far
