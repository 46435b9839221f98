"""How much a radius says: an element that may be anything is not checked by being inside its bound."""

from __future__ import annotations

import math

import numpy as np

from assay.oracle.compare import blocks
from assay.reference.context import unit_roundoff
from assay.reference.value import Array, Ball, union

LITTLE = 0.01
NOTHING = 0.25


def says_too_little(ball: Ball, scale: float) -> Array | None:
    """Elements that are undecided, or whose radius is above 1 % of both their own size and `scale`.

    A few roundings of bf16 are 1 % already, so 32 roundoffs of the type count where they are more. None where there is
    no such element. A tighter bound is worth its time for these.
    """
    mask = ball.und
    if ball.rad is not None and (ball.dtype.is_float or ball.dtype.is_complex):
        share = max(LITTLE, 32 * unit_roundoff(ball.dtype))
        mask = union(mask, ball.rad > share * np.maximum(np.abs(ball.mid), scale))
    return mask if mask is not None and mask.any() else None


def says_nothing(ball: Ball, scale: float) -> Array | None:
    """Elements whose radius is above their own size and above a quarter of `scale`; None where there are none."""
    if ball.rad is None or not (ball.dtype.is_float or ball.dtype.is_complex):
        return None
    mask: Array = ball.rad > np.maximum(np.abs(ball.mid), NOTHING * scale)
    return mask if mask.any() else None


def typical_size(ball: Ball) -> float:
    """Root mean square of the finite decided midpoints, without overflow."""
    count, largest, total = 0, 0.0, 0.0
    for block in blocks(ball.mid.shape):
        mid = ball.mid[block]
        with np.errstate(over="ignore"):  # of the largest complex numbers
            absolute = np.abs(mid)
        keep = np.isfinite(absolute)
        if ball.und is not None:
            keep = keep & ~np.broadcast_to(ball.und, ball.mid.shape)[block]
        size = np.where(keep, absolute, 0.0)
        peak = float(size.max(initial=0.0))
        count += int(keep.sum())
        if peak > largest:
            total *= (largest / peak) ** 2
            largest = peak
        if largest > 0:
            total += float(np.square(size / largest).sum())
    return largest * math.sqrt(total / count) if count else 0.0
