"""f64 operations that round nothing. Our midpoint of an f64 result is rounded to float64 itself, so that by how much it
is off does not show in it; but whether it is off at all can be told from the operands (error-free transformations:
Dekker 1971, "A floating-point technique for extending the available precision"; Knuth, TAOCP 2, 4.2.2).

Indices, halves and counts in f64 are such: a floor or a comparison behind them is decided.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.reference.context import Context
from assay.reference.value import Array, Ball

_SAMPLE = 64
_DEEP = 2.0**-900  # products below may have bits below the smallest subnormal

Exact = Callable[[Array, Array, Array], Array]


def without_error(
    ctx: Context, found: Ball, mid: Array, a: Ball, b: Ball, exact: Exact, error: Array | None = None
) -> Ball:
    """`found`, the ball of an operation on a and b with midpoints `mid`, with no error where the operation is exact.

    error: what a target's rewriting of it may cost. Costs one look at 64 elements where nothing is exact.
    """
    if found.dtype.name != "f64" or mid.size == 0:
        return found
    x, y = np.broadcast_to(a.mid, mid.shape), np.broadcast_to(b.mid, mid.shape)
    with np.errstate(all="ignore"):
        if mid.size > _SAMPLE and not exact(*(each.reshape(-1)[:_SAMPLE] for each in (x, y, mid))).any():
            return found
        free = exact(x, y, mid) & np.isfinite(mid) & ((np.abs(mid) > _DEEP) | (mid == 0))
        for off in (a.rad, b.rad, error):
            free = free if off is None else free & (off == 0)
    if not free.any():
        return found
    if ctx.rng is not None:
        return Ball(found.dtype, np.where(free, mid, found.mid), found.rad, found.und)
    rad = None if found.rad is None or free.all() else np.where(free, 0.0, found.rad)
    return Ball(found.dtype, found.mid, rad, found.und)


def sums(x: Array, y: Array, mid: Array) -> Array:
    """Where x + y is mid exactly: Knuth's TwoSum finds no error."""
    virtual = mid - x
    exact: Array = (x - (mid - virtual)) + (y - virtual) == 0
    return exact


def differences(x: Array, y: Array, mid: Array) -> Array:
    return sums(x, -y, mid)


def products(x: Array, y: Array, mid: Array) -> Array:
    """Where x * y is mid exactly, since both together have no more than 53 significant bits, one is a power of two, or
    one is zero.
    """
    a, b = _lowest_bit(x), _lowest_bit(y)
    exact: Array = ((a * b >= 2.0**53) | (a == _POWER) | (b == _POWER)) & ((mid != 0) | (x == 0) | (y == 0))
    return exact


def halvings(x: Array, y: Array, mid: Array) -> Array:
    """Where x / y is mid exactly, since y is a power of two."""
    exact: Array = (_lowest_bit(y) == _POWER) & ((mid != 0) | (x == 0))
    return exact


_POWER = 2.0**52  # the lowest bit of a power of two, whose significand is a single bit


def _lowest_bit(x: Array) -> Array:
    """The value of the last set bit of x's significand, taken as an integer below 2**53; 2**53 for zero."""
    significand = np.ldexp(np.frexp(np.where(np.isfinite(x), x, 0.75))[0], 53).astype(np.int64)
    return np.where(significand == 0, 2.0**53, (significand & -significand).astype(np.float64))
