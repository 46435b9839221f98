"""A tensor in 16 bytes: least, greatest, mean and standard deviation, each in f32; and what the reference allows them
to be.

Of elements that lie in their balls, the least lies between the least lower and the least upper end; the mean is off by
at most the mean radius; and the standard deviation, being a seminorm, by at most the root of the mean squared radius.
A tensor with a NaN has NaN for all four, one with an infinity NaN for the deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import numpy as np

from assay.oracle.compare import allowed
from assay.reference.value import Array, Ball

BLOCK = 1 << 18
SLACK = 2.0**-40
"""Of the mean size: what float64's own sums may be off by, many times over."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the real and imaginary parts, where elements are complex; of 0 and 1 for predicates; zeros if there are no
    elements.
    """

    least: float
    greatest: float
    mean: float
    deviation: float

    def packed(self) -> bytes:
        """The 16 bytes, little-endian."""
        with np.errstate(over="ignore"):
            return np.array(astuple(self), "<f4").tobytes()


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where each of the four may lie. NaN at both ends: it must be NaN. From -inf to inf: anything, a NaN too."""

    low: Summary
    high: Summary

    def has(self, summary: Summary) -> bool:
        """Whether it is one of a correct result, but for the rounding to f32."""
        four = zip(astuple(summary), astuple(self.low), astuple(self.high), strict=True)
        return all(_between(*one) for one in four)

    @property
    def open(self) -> bool:
        """Whether nothing is said of any of the four."""
        ends = zip(astuple(self.low), astuple(self.high), strict=True)
        return all(low == -math.inf and high == math.inf for low, high in ends)


ANYTHING = Allowed(Summary(*[-math.inf] * 4), Summary(*[math.inf] * 4))


def summarize(array: Array) -> Summary:
    """Of what a target gave: an array of any element type."""
    if array.size == 0:
        return Summary(0.0, 0.0, 0.0, 0.0)
    least, greatest, total, count = math.inf, -math.inf, 0.0, 0
    with np.errstate(all="ignore"):
        for part in _parts(array):
            least, greatest = np.minimum(least, part.min()), np.maximum(greatest, part.max())  # NaN goes through both
            total += float(part.sum())
            count += part.size
        mean = total / count
        squares = sum(float(np.square(part - mean).sum()) for part in _parts(array))
    return Summary(float(least), float(greatest), mean, math.sqrt(squares / count))


def expected(ball: Ball) -> tuple[Summary, Allowed]:
    """The summary of the midpoints, and where that of a correct result may lie."""
    middle = summarize(ball.mid)
    if ball.mid.size == 0:
        return middle, Allowed(middle, middle)
    if ball.und is not None and ball.und.any():
        return middle, ANYTHING
    least, greatest = (math.inf, math.inf), (-math.inf, -math.inf)
    reach = squares = size = 0.0
    count = 0
    with np.errstate(all="ignore"):
        for mid, rad in zip(_parts(ball.mid), _radii(ball), strict=True):
            low, high, may_be_nan = _ends(ball, mid, rad)
            if may_be_nan:
                return middle, ANYTHING
            least = float(np.minimum(least[0], low.min())), float(np.minimum(least[1], high.min()))
            greatest = float(np.maximum(greatest[0], low.max())), float(np.maximum(greatest[1], high.max()))
            off = np.where(np.isfinite(mid), np.maximum(high - mid, mid - low), 0.0)
            reach += float(off.sum())
            squares += float(np.square(off).sum())
            size += float(np.abs(mid).sum())
            count += mid.size
    slack = SLACK * size / count if math.isfinite(size) else 0.0
    mean = _around(middle.mean, reach / count + slack)
    deviation = _around(middle.deviation, math.sqrt(squares / count) + slack)
    low_end = Summary(least[0], greatest[0], mean[0], deviation[0])
    return middle, Allowed(low_end, Summary(least[1], greatest[1], mean[1], deviation[1]))


def _ends(ball: Ball, mid: Array, rad: Array | None) -> tuple[Array, Array, bool]:
    """Least and greatest number that each element may be stored as, and whether one may overflow to a NaN."""
    if not (ball.dtype.is_float or ball.dtype.is_complex):
        return mid, mid, False
    finite = np.isfinite(mid)
    low, high, nan = allowed(ball.dtype.part, np.where(finite, mid, 0.0), rad)
    return np.where(finite, low, mid), np.where(finite, high, mid), bool((nan & finite).any())


def _parts(array: Array) -> Iterator[Array]:
    """The numbers of an array in float64, a block at a time."""
    flat = array.reshape(-1)
    for at in range(0, flat.size, BLOCK):
        block = flat[at : at + BLOCK]
        if block.dtype.kind == "c":
            yield block.real.astype(np.float64)
            yield block.imag.astype(np.float64)
        else:
            yield block.astype(np.float64)


def _radii(ball: Ball) -> Iterator[Array | None]:
    """The radii that go with `_parts` of the midpoints."""
    flat = None if ball.rad is None else ball.rad.reshape(-1)
    for at in range(0, ball.mid.size, BLOCK):
        block = None if flat is None else flat[at : at + BLOCK]
        yield block
        if ball.mid.dtype.kind == "c":
            yield block


def _around(value: float, radius: float) -> tuple[float, float]:
    return (value - radius, value + radius) if math.isfinite(radius) else (-math.inf, math.inf)


def _between(value: float, low: float, high: float) -> bool:
    if low == -math.inf and high == math.inf:
        return True
    if math.isnan(low) or math.isnan(high) or math.isnan(value):
        return math.isnan(low) and math.isnan(high) and math.isnan(value)
    with np.errstate(over="ignore"):
        found, least, greatest = np.float32(value), np.float32(low), np.float32(high)
        least, greatest = np.nextafter(least, np.float32(-np.inf)), np.nextafter(greatest, np.float32(np.inf))
    return bool(least <= found <= greatest)
