"""Sums of products: what dots and convolutions have in common.

A bilinear map `f(a, b)` (a matrix product, or a convolution seen as several) is applied to midpoints, to absolute
values for the magnitude, and to radii: |f(a + da, b + db) - f(a, b)| <= f(|a|, rb) + f(ra, |b| + rb), in float64
BLAS (Rump 1999).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.hlo.shape import DType
from assay.reference.context import Context, mark, unit_roundoff
from assay.reference.sums import accumulation_type, exactly, infinity_lost, summed, whole
from assay.reference.threads import threads_for
from assay.reference.upper import SMALL, operand, upper_bound
from assay.reference.value import Array, Ball, held_dtype, round_to, total, union, wrap

Bilinear = Callable[[Array, Array], Array]
Steady = Callable[[Array, Array, Array, Array, DType], "Array | bool"]


def as_operand(x: Ball, result: DType) -> Ball:
    """An operand in the type of the result's parts, as XLA converts it: exact where it widens, rounded where it
    does not.
    """
    if x.dtype.is_float or x.dtype.is_complex:
        if x.dtype.part.mantissa <= result.part.mantissa:
            return x
        rad = unit_roundoff(result) * np.abs(x.mid)
    else:
        x = Ball(x.dtype, x.mid.astype(np.float64), None, x.und)
        rad = np.abs(round_to(result.part, x.mid) - x.mid)
    rad = rad if x.rad is None else rad + x.rad
    return Ball(x.dtype, x.mid, rad if rad.any() else None, x.und)


def sum_of_products(
    ctx: Context, result: DType, a: Ball, b: Ball, f: Bilinear, terms: int, steady: Steady, *, error: float = 0.0
) -> Ball:
    """f(a, b) as a float or complex ball of type `result`, each element a sum of `terms` products.

    steady: gives the elements whose errors may add up, from midpoints, result and magnitude (a sampled run need not
    know). error: what an operand's reduced precision costs, relative to the magnitude.
    """
    with threads_for(a.mid.size * b.mid.size // max(terms, 1)):
        return _sum_of_products(ctx, result, a, b, f, terms, steady, error)


SHORT_OVERFLOWS = 2.0**128 - 2.0**119
"""From here on f32 rounds to an infinite bf16."""


def _infinite_if_short(x: Ball) -> Ball:
    """Undecided where a multiplier that takes operands in eight digits may take infinity."""
    if x.dtype.part.name != "f32":
        return x
    parts = (x.mid.real, x.mid.imag) if x.dtype.is_complex else (x.mid,)
    off = 0.0 if x.rad is None else x.rad
    large = [np.isfinite(part) & (np.abs(part) + off >= SHORT_OVERFLOWS) for part in parts]
    return mark(x, union(*large)) if any(one.any() for one in large) else x


def _sum_of_products(
    ctx: Context, result: DType, a: Ball, b: Ball, f: Bilinear, terms: int, steady: Steady, error: float
) -> Ball:
    within = accumulation_type(ctx, result)
    inner = within or result
    a, b = as_operand(a, result), as_operand(b, result)
    if error:
        a, b = _infinite_if_short(a), _infinite_if_short(b)
    if error and ctx.draws:
        a, b, error = ctx.shortened(a, error / 2), ctx.shortened(b, error / 2), 0.0
    mid = f(a.mid, b.mid)
    if ctx.plain and not result.is_complex and np.isfinite(mid).all():
        return ctx.rounded(result, mid, None, undecided_pairs(a, b, f), known=False)  # nothing is drawn
    magnitude, rad = _magnitude_and_radius(result, a, b, f, terms)
    und = undecided_pairs(a, b, f)
    if not np.isfinite(magnitude).all():
        und = union(und, _unsure_specials(a, b, mid, f), _infinity_lost(inner, a, b, mid, f))
        rad = None if rad is None else np.where(np.isfinite(rad), rad, 0.0)
    exact = error == 0 and terms == 1 and result.part.name != "f64" and not result.is_complex
    if not exact and error == 0 and rad is None and exactly(result, within, magnitude):
        exact = whole(a.mid, b.mid)
    if exact and rad is None:
        return ctx.rounded(result, _unsigned_zero(mid, magnitude), None, und)
    if error:
        rad = total(rad, error * magnitude)
    alike = False if exact or ctx.rng is not None else steady(a.mid, b.mid, mid, magnitude, inner)
    if result.is_complex:
        # Each part is a sum of 2n products, off by at most gamma_2n sum|a||b|; the disk holds both parts.
        magnitude, terms = magnitude * np.sqrt(2.0), 2 * terms
    return summed(
        ctx, result, _unsigned_zero(mid, magnitude), rad, und,
        magnitude=magnitude, terms=terms, steady=alike, exact=exact, within=within,
    )  # fmt: skip


def _magnitude_and_radius(result: DType, a: Ball, b: Ball, f: Bilinear, terms: int) -> tuple[Array, Array | None]:
    """f(|a|, |b|) and f(|a|, rb) + f(ra, |b| + rb): in float64 where `result` needs that or sums may be exact, else
    from above.
    """
    size_a, size_b = np.abs(a.mid), np.abs(b.mid)
    few = a.mid.size + b.mid.size <= SMALL
    if few or result.part.name == "f64" or (a.rad is None and b.rad is None and whole(a.mid, b.mid)):
        magnitude = f(size_a, size_b)
        left = None if b.rad is None else f(size_a, b.rad)
        right = None if a.rad is None else f(a.rad, size_b if b.rad is None else size_b + b.rad)
        return magnitude, total(left, right)
    one, other = operand(size_a), operand(size_b)
    magnitude = upper_bound(f, one, other, terms)
    left = None if b.rad is None else upper_bound(f, one, operand(b.rad), terms)
    if a.rad is None:
        return magnitude, left
    reach = other if b.rad is None else operand(size_b + b.rad)
    return magnitude, total(left, upper_bound(f, operand(a.rad), reach, terms))


def _unsigned_zero(mid: Array, magnitude: Array) -> Array:
    """A sum of zeros alone is of unknown sign (see `elementwise`): it may start from 0 or from its first term."""
    if mid.dtype.kind == "c":
        return mid
    zero = magnitude == 0
    return np.where(zero, -0.0, mid) if zero.any() else mid


def undecided_pairs(a: Ball, b: Ball, f: Bilinear) -> Array | None:
    """Where a sum has an undecided factor in a term that is in the sum for certain."""
    found: Array | None = None
    if a.und is not None and a.und.any():
        found = f(a.und.astype(np.float64), np.ones(b.mid.shape)) > 0
    if b.und is not None and b.und.any():
        found = union(found, f(np.ones(a.mid.shape), b.und.astype(np.float64)) > 0)
    return found


def _unsure_specials(a: Ball, b: Ball, mid: Array, f: Bilinear) -> Array | None:
    """Infinite factors next to uncertain ones: inf times a ball may be NaN or either infinity. A NaN factor decides."""
    special = ~np.isfinite(mid)
    if a.rad is None and b.rad is None:
        return None
    nan_a, nan_b = np.isnan(a.mid).astype(np.float64), np.isnan(b.mid).astype(np.float64)
    certain = np.zeros(mid.shape, bool)
    if nan_a.any():
        certain |= f(nan_a, np.ones(b.mid.shape)) > 0
    if nan_b.any():
        certain |= f(np.ones(a.mid.shape), nan_b) > 0
    return special & ~certain


def _infinity_lost(inner: DType, a: Ball, b: Ball, mid: Array, f: Bilinear) -> Array | None:
    sizes = [np.abs(part.mid) if part.rad is None else np.abs(part.mid) + part.rad for part in (a, b)]
    finite = f(*(np.where(np.isfinite(size), size, 0.0) for size in sizes))
    lost = infinity_lost(inner, mid, finite)
    if lost is None:
        return None
    nan_a, nan_b = (np.isnan(part.mid).astype(np.float64) for part in (a, b))
    return lost & ~(f(nan_a, np.ones(b.mid.shape)) + f(np.ones(a.mid.shape), nan_b) > 0)


# ---------------------------------------------------------------- integers


def integer_products(result: DType, a: Ball, b: Ball, f: Bilinear, g: Bilinear, terms: int) -> Ball:
    """f(a, b) exactly, modulo 2**bits. f: in float64, exact while sums stay below 2**53; g: in any integer type,
    slower.
    """
    und = undecided_pairs(a, b, f)
    if result.kind == "pred":
        return Ball(result, f(a.mid.astype(np.float64), b.mid.astype(np.float64)) > 0, None, und)
    bound = _largest(a.mid) * _largest(b.mid) * max(terms, 1)
    if bound < 2**53:
        mid = f(a.mid.astype(np.float64), b.mid.astype(np.float64)).astype(np.int64)
    elif result.bits <= 32 and terms < 1 << 20:
        mid = _by_halves(a.mid, b.mid, f)
    else:
        # NumPy's integer products wrap modulo 2**64, which keeps every narrower result right.
        mid = g(a.mid.astype(np.int64), b.mid.astype(np.int64))
    held = held_dtype(result)
    return Ball(result, wrap(result, mid.astype(np.int64 if result.bits < 8 else held)), None, und)


def _largest(x: Array) -> int:
    return 0 if x.size == 0 else max(abs(int(x.max())), abs(int(x.min())))


def _by_halves(a: Array, b: Array, f: Bilinear) -> Array:
    """Products modulo 2**32 of operands cut in halves of 16 bits: exact float64 products put together."""
    a0, a1 = _halves(a)
    b0, b1 = _halves(b)
    low = f(a0, b0).astype(np.int64)
    cross = (f(a0, b1) + f(a1, b0)).astype(np.int64)
    return low + (cross << 16)


def _halves(x: Array) -> tuple[Array, Array]:
    x = x.astype(np.int64) & 0xFFFFFFFF
    return (x & 0xFFFF).astype(np.float64), (x >> 16).astype(np.float64)
