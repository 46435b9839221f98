"""How a conformance file compares: the meaning of its `check.*` custom calls.

They are those of StableHLO's interpreter (stablehlo/tests/CheckOps.cpp, stablehlo/reference/Element.cpp and
stablehlo/tools/StablehloTranslateMain.cpp): equality of numbers, so that 0 equals -0 and NaN nothing; an absolute
tolerance between values of one sign; a distance in units in the last place, for complex numbers in each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from assay.hlo.shape import DType
from assay.reference.value import Array

# Where the call gives none: the defaults of the interpreter for custom calls.
TOLERANCE = 1e-3
MAX_ULPS = 3
MIN_ULPS = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """`holds(actual, expected, dtype)`: where values of `dtype`, as `Ball.mid` holds them, compare as asked."""

    name: str
    words: str
    holds: Callable[[Array, Array, DType], Array]


def comparison(kind: str, settings: Mapping[str, float]) -> Comparison | None:
    """Of a call to `check.KIND` with the attributes `settings`; None for a kind that there is not."""
    if kind == "expect_eq":
        return Comparison(kind, "equal", lambda actual, expected, dtype: _equal(actual, expected))
    if kind == "expect_almost_eq":
        tolerance = settings.get("tolerance", TOLERANCE)
        return Comparison(kind, f"within {tolerance:g}", lambda a, e, dtype: almost_equal(a, e, dtype, tolerance))
    if kind == "expect_close":
        low, high = (int(settings.get(f"{end}_ulp_difference", ulps)) for end, ulps in _ULPS)
        words = f"within {high} ulps" if low == 0 else f"{low} to {high} ulps apart"
        return Comparison(kind, words, lambda a, e, dtype: close(a, e, dtype, low, high))
    return None


_ULPS = (("min", MIN_ULPS), ("max", MAX_ULPS))


def _equal(actual: Array, expected: Array) -> Array:
    return np.asarray(actual == expected)


def almost_equal(actual: Array, expected: Array, dtype: DType, tolerance: float) -> Array:
    """Equal, both NaN, or finite, of one sign and at most `tolerance` apart."""
    if dtype.is_complex:
        parts = zip(_parts(actual), _parts(expected), strict=True)
        real, imaginary = (almost_equal(a, e, dtype.part, tolerance) for a, e in parts)
        return real & imaginary
    if not dtype.is_float:
        return _equal(actual, expected)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(actual - expected) <= tolerance
    near = near & np.isfinite(actual) & np.isfinite(expected) & (np.signbit(actual) == np.signbit(expected))
    same: Array = near | (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return same


def close(actual: Array, expected: Array, dtype: DType, low: int, high: int) -> Array:
    """At least `low` and at most `high` units in the last place apart; NaN is 0 from NaN, infinite from all else."""
    if not (dtype.is_float or dtype.is_complex):
        return _equal(actual, expected)
    distance = ulps_apart(actual, expected, dtype)
    near: Array = (distance >= low) & (distance <= high)
    return near


def ulps_apart(actual: Array, expected: Array, dtype: DType) -> Array:
    """How many values of `dtype` lie between, as uint64: the larger of the parts' where complex, 2**64 - 1 between a
    number and what is none.
    """
    if dtype.is_complex:
        parts = zip(_parts(actual), _parts(expected), strict=True)
        real, imaginary = (ulps_apart(a, e, dtype.part) for a, e in parts)
        farther: Array = np.maximum(real, imaginary)
        return farther
    a, a_negative = _rank(actual, dtype)
    e, e_negative = _rank(expected, dtype)
    apart = np.where(a_negative == e_negative, np.maximum(a, e) - np.minimum(a, e), a + e)
    finite = np.isfinite(actual) & np.isfinite(expected)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.where(finite, apart, np.where(same, np.uint64(0), np.uint64(2**64 - 1)))


def _rank(x: Array, dtype: DType) -> tuple[Array, Array]:
    """How many values lie between 0 and |x| (the bits of |x| as an integer), and whether x is negative."""
    assert dtype.numpy is not None
    stored = np.asarray(x).astype(dtype.numpy)
    size = 8 * stored.dtype.itemsize
    bits = stored.view(np.dtype(f"uint{size}")).astype(np.uint64)
    return bits & np.uint64((1 << (size - 1)) - 1), np.signbit(np.asarray(x))


def _parts(x: Array) -> tuple[Array, Array]:
    return np.real(x), np.imag(x)
