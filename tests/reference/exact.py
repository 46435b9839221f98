"""Exact arithmetic for tests of bounds: rational numbers, rounded to a float type by integers alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from assay.hlo.shape import DTYPES, DType
from assay.reference.value import Ball

SLACK = Fraction(1, 10**12)  # our own radii are float64 numbers
OWN = Fraction(1, 1 << 51)  # and so are midpoints


def nearest(q: Fraction, dtype: str | DType) -> Fraction | None:
    """`q` rounded to the nearest value of the type, ties to even, subnormals kept; None where it overflows."""
    kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
    if q == 0:
        return q
    exponent = max(_exponent(abs(q)), kind.min_exponent)
    step = Fraction(2) ** (exponent - kind.mantissa)
    found = round(q / step) * step  # Python rounds fractions half to even
    limit = Fraction(2) ** (kind.mantissa + 1) - 1
    largest = limit * Fraction(2) ** (_exponent(Fraction(kind.max)) - kind.mantissa)
    return None if abs(found) > largest else found


def _exponent(q: Fraction) -> int:
    """The largest e with 2**e <= q."""
    e = q.numerator.bit_length() - q.denominator.bit_length()
    return e if Fraction(2) ** e <= q else e - 1


def flushed(q: Fraction, dtype: str) -> Fraction:
    return Fraction(0) if abs(q) < Fraction(2) ** DTYPES[dtype].min_exponent else q


def fraction(x: float) -> Fraction:
    return Fraction(float(x))


def undecided(ball: Ball, index: int = 0) -> bool:
    return ball.und is not None and bool(ball.und[index])


def holds(ball: Ball, value: Fraction, index: int = 0) -> bool:
    """Whether a real number lies in element `index` of a ball of one dimension, or the element is undecided."""
    if undecided(ball, index):
        return True
    mid = float(ball.mid[index])
    if not math.isfinite(mid):
        return False
    rad = Fraction(0) if ball.rad is None else fraction(ball.rad[index])
    return abs(value - fraction(mid)) <= rad * (1 + SLACK) + OWN * abs(fraction(mid))


def all_hold(ball: Ball, values: np.ndarray) -> np.ndarray:
    """Which float64 values lie in their elements, at float64's own accuracy."""
    rad = 0.0 if ball.rad is None else ball.rad
    with np.errstate(invalid="ignore"):
        near = np.abs(values - ball.mid) <= rad * (1 + float(SLACK)) + float(OWN) * np.abs(ball.mid)
    near |= (values == ball.mid) | (np.isnan(values) & np.isnan(ball.mid))
    return near if ball.und is None else near | ball.und
