"""What a program must give, element by element: what an emitted test compares with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape
from assay.oracle.compare import compare_output, round_out
from assay.reference.value import Array, Ball, Token, joined


@dataclass(frozen=True, slots=True)
class Expected:
    """One output.

    values: the reference's, in float64, complex128 or the integer type that holds them. low, high: of the same dtype
    and shape; a result is right where low <= it <= high, of a complex number in both parts, and where low is NaN it
    must be NaN. -inf and inf: not compared. failing: flat indices of elements that a compiler was seen to get wrong,
    the worst first; None where that is not known.
    """

    values: Array
    low: Array
    high: Array
    failing: tuple[int, ...] | None = None

    @property
    def exact(self) -> bool:
        """Whether every element has one right value."""
        return bool(np.all((self.low == self.high) | (np.isnan(self.low) & np.isnan(self.high))))


def expected_of(
    module: Module, leaves_: Sequence[Ball | Token], actual: Sequence[Array] | None = None
) -> list[Expected]:
    """One for each array among the outputs, from the reference's balls. actual: what the compiler under test gave.

    Raises InputError where `actual` are other arrays.
    """
    balls = [leaf for leaf in leaves_ if isinstance(leaf, Ball)]
    if actual is not None and len(actual) != len(balls):
        raise InputError(f"{module.name}: it has {len(balls)} outputs, {len(actual)} results were given")
    results: Sequence[Array | None] = [None] * len(balls) if actual is None else actual
    return [_of(ball, shape, found) for ball, shape, found in zip(balls, module.results, results, strict=True)]


def _of(ball: Ball, shape: ArrayShape, actual: Array | None) -> Expected:
    low, high = _ends(ball)
    failing = None if actual is None else _failing(ball, shape, actual)
    return Expected(ball.mid, low, high, failing)


def _ends(ball: Ball) -> tuple[Array, Array]:
    """The least and the largest result inside a ball; of a complex number, of each part."""
    mid, dtype = np.asarray(ball.mid), ball.dtype
    if not (dtype.is_float or dtype.is_complex):
        if ball.und is None or not ball.und.any():
            return mid, mid
        wide = mid.astype(np.float64)
        return np.where(ball.und, -np.inf, wide), np.where(ball.und, np.inf, wide)
    rad = np.zeros(mid.shape) if ball.rad is None else np.broadcast_to(ball.rad, mid.shape)
    reach = joined(rad, rad) if dtype.is_complex else rad
    with np.errstate(all="ignore"):
        low, high = (np.where(rad == 0, mid, end) for end in (mid - reach, mid + reach))
        low, high = _rounded(ball, low), _rounded(ball, high)
    if ball.und is not None:
        whole = complex(np.inf, np.inf) if dtype.is_complex else np.inf
        low, high = np.where(ball.und, -whole, low), np.where(ball.und, whole, high)
    return low, high


def _rounded(ball: Ball, ends: Array) -> Array:
    part = ball.dtype.part
    if not ball.dtype.is_complex:
        return round_out(part, ends)
    return joined(round_out(part, ends.real), round_out(part, ends.imag))


def index_of(place: int, dims: Sequence[int]) -> tuple[int, ...]:
    """Of a flat place in an array, the index in each dimension."""
    return tuple(int(k) for k in np.unravel_index(place, dims)) if dims else ()


def _failing(ball: Ball, shape: ArrayShape, actual: Array) -> tuple[int, ...]:
    compared = compare_output(ball, actual, shape)
    if compared.outside_mask is None:
        return ()
    places = np.flatnonzero(np.broadcast_to(compared.outside_mask, shape.dims))
    with np.errstate(all="ignore"):
        values, mids = np.asarray(actual).reshape(-1)[places], np.asarray(ball.mid).reshape(-1)[places]
        wide = np.complex128 if shape.dtype.is_complex else np.float64
        distance = np.abs(values.astype(wide) - mids.astype(wide))
    order = np.argsort(np.where(np.isnan(distance), np.inf, -distance), kind="stable")
    return tuple(int(place) for place in places[order])
