"""Reductions with a known body: what `reduce`, which takes whole axes, and `reduce-window`, which takes windows, have
in common.

Each fold takes `(context, x, init, over)`: x of any shape, init a scalar that takes part once, and `over`, which
applies a ufunc to the terms of every result. Maxima and bit operations select or combine without rounding; sums go
through `sums`; products are bounded by interval arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1, prod, sqrt
from typing import Any

import numpy as np

from assay.hlo.shape import DType
from assay.reference.context import Context, flushes, largest_partial_sum, mark, smallest_normal, unit_roundoff
from assay.reference.sums import alike, below_last_digit, exactly, infinity_lost, summed, whole
from assay.reference.value import Array, Ball, enclosing, total, union, wrap

Ufunc = Any


@dataclass(frozen=True, slots=True)
class Over:
    """Which terms make up each result.

    reduce: applies a ufunc to the terms of every result. terms: how many they are, at most. alike: which sums are
    steady, from terms, sums, magnitudes and the type they are summed in. against: a figure of every result, or a larger
    one, beside the terms that make it up.
    """

    reduce: Callable[[Ufunc, Array], Array]
    terms: int
    alike: Callable[[Array, Array, Array, DType], Array | bool]
    against: Callable[[Array], Array]
    counts: Array | None = None


Fold = Callable[[Context, Ball, Ball, Over], Ball]


def over_axes(ctx: Context, dims: Sequence[int], axes: Sequence[int]) -> Over:
    """Whole axes of an array of `dims`."""
    axes = tuple(axes)
    n = prod(dims[axis] for axis in axes)

    def reduce(ufunc: Ufunc, x: Array) -> Array:
        # NumPy would sum narrow integers in a wider type.
        same = {"dtype": x.dtype} if ufunc in (np.add, np.multiply) else {}
        return np.asarray(ufunc.reduce(x, axis=axes, **same))

    def steady(x: Array, mid: Array, magnitude: Array, dtype: DType) -> Array | bool:
        return alike(ctx, x, axes, mid, magnitude, dtype)

    return Over(reduce, n, steady, lambda figure: np.expand_dims(figure, axes))


def fold(ctx: Context, kind: str, x: Ball, init: Ball, over: Over) -> Ball:
    """The reduction of x by a body of this kind (`bodies.KINDS`)."""
    open_ = (over.terms == 1 or over.terms > ONCE) and not starts_neutral(kind, init)
    if open_ and ctx.resolved is not None:
        init, open_ = _start(kind, init, over.terms, ctx.resolved), False
    if not (x.dtype.is_float or x.dtype.is_complex):
        found = _fold_integers(kind, x, init, over)
    else:
        found = _FLOAT_FOLDS[kind](ctx, x, init, over)
    return of_any_start(ctx, kind, found, x, over) if open_ else found


def starts_neutral(kind: str, init: Ball) -> bool:
    """Whether the initial value is the neutral element of a body of this kind: it changes nothing however often it
    counts.
    """
    return init.exact and bool((init.mid == neutral(kind, init.dtype)).all())


def neutral(kind: str, dtype: DType) -> float:
    """The neutral element of a body of this kind."""
    least: float
    most: float
    if dtype.is_float:
        most, least = (np.inf, -np.inf) if dtype.has_inf else (dtype.max, -dtype.max)
    elif dtype.is_integer:
        half = 1 << (dtype.bits - 1)
        least, most = (-half, half - 1) if dtype.kind == "signed" else (0, 2 * half - 1)
    else:
        least, most = 0, 1
    ones = most if dtype.kind != "signed" else -1
    values = {"add": 0, "or": 0, "xor": 0, "multiply": 1, "and": ones, "maximum": least, "minimum": most}
    return values[kind]


def _start(kind: str, init: Ball, terms: int, choice: int) -> Ball:
    """The initial value counted once; or twice, and not at all where that is once or there is one term."""
    if choice == 0:
        return init
    if terms == 1 or _idempotent(kind, init.dtype):
        return Ball(init.dtype, np.asarray(neutral(kind, init.dtype), init.mid.dtype))
    twice = {"add": np.add, "multiply": np.multiply, "xor": np.bitwise_xor}[kind](init.mid, init.mid)
    if not (init.dtype.is_float or init.dtype.is_complex):
        return Ball(init.dtype, wrap(init.dtype, np.asarray(twice)), None, init.und)
    reach = 2.0 if kind == "add" else 2.0 * np.abs(init.mid)
    rad = None if init.rad is None else init.rad * (reach + (init.rad if kind == "multiply" else 0.0))
    return Ball(init.dtype, twice, rad, init.und)


def _idempotent(kind: str, dtype: DType) -> bool:
    """Whether it does not matter how often a value takes part, as long as it does."""
    return kind in ("maximum", "minimum", "and", "or") or (dtype.kind == "pred" and kind in ("add", "multiply"))


def of_any_start(ctx: Context, kind: str, found: Ball, x: Ball, over: Over) -> Ball:
    """What is left of a reduction whose initial value is not neutral: decided where that value changes nothing.

    A compiler may take the initial value for neutral and use it any number of times (StableHLO's specification of
    reduce leaves that to the implementation). XLA:CPU drops it where one element is reduced, and counts it 34 times in
    a sum of 1,000 (jaxlib 0.12.0.1: the tree reduction rewriter, which cuts what is longer than 32).
    """
    ctx.notes.add("a reduction's initial value is not its body's neutral element: how often it counts is left open")
    if not _idempotent(kind, found.dtype) and over.terms > 1:
        return mark(found, np.ones(found.mid.shape, bool))
    without = over.reduce((_PRED_UFUNCS if found.dtype.kind == "pred" else _INTEGER_UFUNCS)[kind], x.mid)
    same = found.mid == without
    if found.dtype.is_float or found.dtype.is_complex:
        same |= np.isnan(found.mid) & np.isnan(without)
    return mark(found, ~same)


ONCE = 32
"""A reduction of more than one and of at most so many terms counts its initial value once (measured)."""


def kept_dims(dims: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(dims) if axis not in axes)


def broadcast_ball(x: Ball, dims: tuple[int, ...]) -> Ball:
    """A scalar ball as an array of `dims` (views)."""
    mid, rad, und = (None if part is None else np.broadcast_to(part, dims) for part in (x.mid, x.rad, x.und))
    assert mid is not None
    return Ball(x.dtype, mid, rad, und)


def any_undecided(x: Ball, init: Ball, over: Over) -> Array | None:
    """An undecided term makes the result undecided."""
    found = None if x.und is None or not x.und.any() else over.reduce(np.logical_or, x.und)
    if init.und is not None and init.und.any():
        found = np.ones(over.reduce(np.logical_or, np.zeros(x.mid.shape, bool)).shape, bool)
    return found


# ---------------------------------------------------------------- integers and predicates

_INTEGER_UFUNCS: dict[str, Ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_PRED_UFUNCS: dict[str, Ufunc] = {**_INTEGER_UFUNCS, "add": np.logical_or, "multiply": np.logical_and}


def _fold_integers(kind: str, x: Ball, init: Ball, over: Over) -> Ball:
    und = any_undecided(x, init, over)
    if x.dtype.kind == "pred":
        ufunc = _PRED_UFUNCS[kind]
        mid = ufunc(over.reduce(ufunc, x.mid), init.mid)
        if und is not None and kind in ("or", "add", "maximum", "and", "multiply", "minimum"):
            # One decided true settles an or, one decided false an and.
            decides = x.mid if kind in ("or", "add", "maximum") else ~x.mid
            decided = decides if x.und is None else decides & ~x.und
            und = und & ~over.reduce(np.logical_or, decided)
        return Ball(x.dtype, mid, None, und)
    ufunc = _INTEGER_UFUNCS[kind]
    # NumPy would sum narrow integers in a wider type.
    found = over.reduce(ufunc, x.mid)
    return Ball(x.dtype, wrap(x.dtype, np.asarray(ufunc(found, init.mid))), None, und)


# ---------------------------------------------------------------- sums


# Every step of a reduction may be rounded to the declared type, also where dots accumulate in a wider one: XLA:CPU
# splits some into windows with a rounding in their body (jaxlib 0.12.0.1: a sum of 544 terms in bf16 is 4.5 % off),
# and folds those of constants step by step (a sum of 561 ones in bf16 is 512).


def _sum(ctx: Context, x: Ball, init: Ball, over: Over) -> Ball:
    plain = init.exact and not init.mid.any()  # adding zero changes nothing
    mid = over.reduce(np.add, x.mid)
    magnitude = over.reduce(np.add, np.abs(x.mid))
    rad = None if x.rad is None else over.reduce(np.add, x.rad)
    n = over.terms
    exact = n == 1 and x.dtype.part.name != "f64"
    if not exact and rad is None and exactly(x.dtype, None, magnitude):
        exact = whole(x.mid)
    steady: Array | bool = False
    below: Array | None = None
    if not exact and ctx.rng is None:
        steady = over.alike(x.mid, mid, magnitude, x.dtype)
        if n > ctx.policy.confidence**2:  # the other bound is the smaller one up to there
            largest = largest_partial_sum(x.dtype, mid, magnitude) + np.abs(init.mid)
            below = below_last_digit(x.mid, over.against(largest), x.dtype, lambda terms: over.reduce(np.add, terms))
    if not plain:
        mid, magnitude, rad = mid + init.mid, magnitude + np.abs(init.mid), total(rad, init.rad)
        exact = exact and (n == 1 or whole(init.mid)) and exactly(x.dtype, None, magnitude)
        rad = None if rad is None else np.broadcast_to(rad, mid.shape)
    und = any_undecided(x, init, over)
    if plain and (zero := mid == 0).any():
        # Without the initial 0, which many leave out, a sum of nothing but -0 is -0: a zero of unknown sign.
        mid = np.where(zero & over.reduce(np.logical_and, (x.mid == 0) & np.signbit(x.mid.real)), -0.0, mid)
    if plain and n == 1:
        return Ball(x.dtype, mid, rad, und)
    if n > 1 and not np.isfinite(magnitude).all():
        und = union(und, _infinity_lost(x, init, mid, over))
    return summed(
        ctx,
        x.dtype,
        mid,
        rad,
        und,
        magnitude=magnitude,
        terms=(n if over.counts is None else over.counts) - plain,  # additions: one fewer than there are terms
        steady=steady,
        exact=exact,
        below=below,
    )


def _infinity_lost(x: Ball, init: Ball, mid: Array, over: Over) -> Array | None:
    sizes = [np.abs(part.mid) if part.rad is None else np.abs(part.mid) + part.rad for part in (x, init)]
    terms, start = (np.where(np.isfinite(size), size, 0.0) for size in sizes)
    lost = infinity_lost(x.dtype, mid, over.reduce(np.add, terms) + start)
    if lost is None:
        return None
    nan = over.reduce(np.logical_or, np.isnan(x.mid)) | np.isnan(init.mid)
    return lost & ~nan


# ---------------------------------------------------------------- products


def _product(ctx: Context, x: Ball, init: Ball, over: Over) -> Ball:
    """|prod(x + d) - prod x| <= prod(|x| + r) - prod|x|, and n multiplications are off by (1 + u)^n - 1 <= exp(n u) - 1
    relatively, hardly ever by more than exp(c sqrt(n) u) - 1 (Higham and Mary 2019, Theorem 2.4). Twice that c is
    taken: equal factors commit errors that are partly alike, 0.2 u each on the long run.
    """
    kept = x.dtype.part
    n = over.terms
    mid = over.reduce(np.multiply, x.mid) * init.mid
    size = np.abs(x.mid)
    reach = size if x.rad is None else size + x.rad
    start = np.abs(init.mid) if init.rad is None else np.abs(init.mid) + init.rad
    bound = over.reduce(np.multiply, reach) * start
    rad = None
    if x.rad is not None or init.rad is not None:
        rad = np.maximum(bound - np.abs(mid), 0.0) + bound * (4 * n * 2.0**-53)
        rad = np.where(np.isfinite(mid) | np.isfinite(bound), rad, 0.0)
    # Partial products in some order may overflow or vanish on the way to a result that does neither.
    largest = over.reduce(np.multiply, np.maximum(reach, 1.0)) * np.maximum(start, 1.0)
    low = size if x.rad is None else np.maximum(size - x.rad, 0.0)
    smallest = over.reduce(np.multiply, np.minimum(low, 1.0)) * np.minimum(start, 1.0)
    high = largest * exp(min(n * unit_roundoff(kept), 700.0))  # as rounded on the way
    wild = ~(high < kept.max) & (smallest < 1.0)
    vanishing = _vanishing(ctx, kept, n, largest, smallest, bound)
    nan = np.isnan(x.mid)
    if x.dtype.is_complex:
        wild |= ~(high < kept.max / 2)  # what infinite and NaN parts become is the implementation's affair
    elif nan.any():
        wild &= ~over.reduce(np.logical_or, nan)  # NaN in any order
    if (infinite := np.isinf(bound) & ~np.isnan(mid)).any():  # times what may vanish it is a NaN
        gone = over.reduce(np.logical_or, may_be_zero(size, reach)) | may_be_zero(np.abs(init.mid), start)
        wild |= infinite & (gone | (smallest < smallest_normal(kept))) & (n > 1 or not init.exact)
    und = union(any_undecided(x, init, over), wild)
    if n == 1 and init.exact and (init.mid == 1).all():
        return Ball(x.dtype, mid, x.rad if rad is None else rad, und)
    each = 3.0 if x.dtype.is_complex else 1.0  # a complex product is off by sqrt(8) u (Higham, Lemma 3.5)
    each *= 2.0 if kept.name == "f64" else 1.0  # our own product is one too
    roundings = each * min(n, 2 * ctx.policy.confidence * sqrt(n)) * unit_roundoff(kept)
    error = expm1(min(roundings, 700.0)) * bound + vanishing
    return ctx.rounded(x.dtype, mid, rad, und, error=error)


def may_be_zero(size: Array, reach: Array) -> Array:
    """Which numbers are not zero, and may be; reach: their size and radius."""
    return np.asarray((reach >= 2 * size) & (size > 0) & np.isfinite(size))


def _vanishing(ctx: Context, kept: DType, n: int, largest: Array, smallest: Array, bound: Array) -> Array:
    """What it costs when partial products fall below the normal range in some order: each such product is off by half a
    subnormal step, times at most the product of the factors above one (so it may stay at a step that it cannot leave);
    flushed to zero, it takes the whole product with it.
    """
    tiny = smallest_normal(kept)
    low = (smallest < tiny) & (bound > 0)
    if not low.any():
        return np.zeros(bound.shape)
    stuck = n * tiny * unit_roundoff(kept) * 2 * largest
    gone = np.minimum(bound, tiny * largest) if flushes(ctx.policy, kept) else 0.0
    return np.where(low, np.maximum(stuck, gone), 0.0)


# ---------------------------------------------------------------- maxima


def _largest(ctx: Context, x: Ball, init: Ball, over: Over) -> Ball:
    return _extreme(ctx, np.maximum, x, init, over)


def _smallest(ctx: Context, x: Ball, init: Ball, over: Over) -> Ball:
    return _extreme(ctx, np.minimum, x, init, over)


def _extreme(ctx: Context, ufunc: Ufunc, x: Ball, init: Ball, over: Over) -> Ball:
    und = any_undecided(x, init, over)
    if ctx.policy.nan_minmax != "propagate":
        nan = np.isnan(x.mid)
        if nan.any() or np.isnan(init.mid).any():
            some = over.reduce(np.logical_or, nan) | np.isnan(init.mid)
            every = over.reduce(np.logical_and, nan) & np.isnan(init.mid)
            und = union(und, some & ~every)
    small = ctx.ties_with_zero(x.dtype, x.mid, init.mid)
    if x.rad is None and init.rad is None and (small is None or ctx.rng is not None):
        mid = np.asarray(ufunc(over.reduce(ufunc, x.mid), init.mid))
        if small is not None and ctx.rng is not None:
            other = _of_small(np.minimum if ctx.rng.random() < 0.5 else np.maximum, x.mid, init.mid, small, over)
            mid = np.where(np.isfinite(other) & _as_small(ctx, x, mid), other, mid)
        return Ball(x.dtype, _signed_zero(mid, x, init, over), None, und)
    low, high = (ufunc(over.reduce(ufunc, _end(x, s)), _end(init, s)) for s in (-1, 1))
    if small is not None:
        tied = _as_small(ctx, x, np.asarray(ufunc(over.reduce(ufunc, x.mid), init.mid)))
        least, most = (
            _of_small(u, _end(x, s), _end(init, s), small, over) for u, s in ((np.minimum, -1), (np.maximum, 1))
        )
        low, high = np.where(tied, np.minimum(low, least), low), np.where(tied, np.maximum(high, most), high)
    return from_ends(x, low, high, und)


def _as_small(ctx: Context, x: Ball, mid: Array) -> Array:
    """Which extremes are themselves zero or subnormal."""
    return np.asarray(np.abs(mid) < smallest_normal(x.dtype))


def _of_small(ufunc: Ufunc, x: Array, init: Array, small: tuple[Array, ...], over: Over) -> Array:
    """The least or the greatest of the elements that may be read as zero; infinite where there is none."""
    none = np.inf if ufunc is np.minimum else -np.inf
    return np.asarray(ufunc(over.reduce(ufunc, np.where(small[0], x, none)), np.where(small[1], init, none)))


def _signed_zero(mid: Array, x: Ball, init: Ball, over: Over) -> Array:
    """Between 0 and -0 either may be chosen: a zero is of unknown sign (see `elementwise`) where a term is -0."""
    zero = mid == 0
    if not zero.any():
        return mid
    negative = over.reduce(np.logical_or, (x.mid == 0) & np.signbit(x.mid))
    negative = negative | ((init.mid == 0) & np.signbit(init.mid))
    return np.where(zero & negative, -0.0, mid)


def _end(x: Ball, sign: int) -> Array:
    return x.mid if x.rad is None else x.mid + sign * x.rad


def from_ends(like: Ball, low: Array, high: Array, und: Array | None) -> Ball:
    """The ball [low, high] of the type of `like`; equal infinities and NaN have no radius."""
    mid, rad = enclosing(low, high)
    rad = np.where(np.isfinite(rad) & (low != high), rad, 0.0)
    return Ball(like.dtype, mid, rad if rad.any() else None, und)


_FLOAT_FOLDS: dict[str, Fold] = {
    "add": _sum,
    "multiply": _product,
    "maximum": _largest,
    "minimum": _smallest,
}
