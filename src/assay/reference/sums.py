"""Sums, wherever they come from: reductions, dots, convolutions, windows. Which error bound a sum deserves is
decided here.

A sum of n terms in any order is off by at most n u sum|x| (Higham, "Accuracy and Stability of Numerical Algorithms",
4.2), and, where rounding errors do not conspire, hardly ever by more than confidence sqrt(n) u sum|x| (Higham and Mary
2019). They do conspire where many terms are alike: while a running sum stays in one binade, equal terms commit equal
errors. A sequential sum of a million equal f32 terms really is off by up to 1e-2. Such sums are called *steady* and
get the first bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from assay.hlo.shape import DTYPES, DType
from assay.reference.context import Context, smallest_normal, unit_roundoff
from assay.reference.value import Array, Ball, total, union

_BLOCK = 1 << 20
_SAMPLE = 64
_LONG = 1 << 16


def accumulation_type(ctx: Context, dtype: DType) -> DType | None:
    """The type in which sums of `dtype` are accumulated where it is wider than `dtype`, None where it is `dtype`
    itself.
    """
    name = ctx.policy.accumulate.get(dtype.name)
    if name is None or DTYPES[name].part.mantissa <= dtype.part.mantissa:
        return None
    return DTYPES[name]


def summed(
    ctx: Context,
    dtype: DType,
    mid: Array,
    rad: Array | None,
    und: Array | None,
    *,
    magnitude: Array,
    terms: int | Array,
    steady: Array | bool = False,
    exact: bool = False,
    within: DType | None = None,
    below: Array | None = None,
) -> Ball:
    """`Context.accumulated` for real sums: partial sums may overflow or be flushed, and our own midpoint is a
    float64 sum.
    """
    inner = within or dtype
    extra: Array | None = None
    if not exact:
        if dtype.part.name == "f64":
            terms = 2 * terms  # the midpoint has such an error too
        tiny = smallest_normal(inner) * terms
        small = (magnitude < tiny * 2.0**30) & (magnitude > 0)
        if small.any():
            extra = np.where(small, np.minimum(tiny, magnitude), 0.0)
    und = union(und, _may_overflow(inner.part.max, mid, rad, magnitude))
    return ctx.accumulated(
        dtype,
        mid,
        total(rad, extra),
        und,
        magnitude=magnitude,
        terms=np.maximum(terms, 0),
        steady=steady,
        exact=exact,
        within=within,
        below=below,
    )


def _may_overflow(limit: float, mid: Array, rad: Array | None, magnitude: Array) -> Array | None:
    """Where it depends on the order of summation whether a partial sum overflows, None for nowhere.

    The positive terms reach (magnitude + mid) / 2 together, the negative ones (magnitude - mid) / 2. A partial sum of
    one that is infinite stays so, unless the other is infinite too.
    """
    reach = magnitude if rad is None else magnitude + rad
    if not (over := ~(reach < limit)).any():
        return None
    if mid.dtype.kind == "c":
        return over  # a part that is not finite says nothing of the other
    with np.errstate(all="ignore"):
        slack = reach * 2.0**-40
        up = ~((reach + mid) / 2 + slack < limit)
        down = ~((reach - mid) / 2 + slack < limit)
    open_: Array = over & np.isfinite(mid) & ((up & down) | ((up | down) & (np.abs(mid) < limit)))
    return open_


def below_last_digit(x: Array, largest: Array, dtype: DType, add: Callable[[Array], Array]) -> Array | None:
    """What the terms make up that are at most a last digit of their sum in `dtype`: `below` of `order_error`.

    x: the terms. largest: the largest partial sum of those that x's element is summed with, or more, broadcast against
    x. add: sums terms as the operation does. None for f64: a float64 sum of our own would not show it.

    A step is off by no more than half a last digit either.
    """
    u = unit_roundoff(dtype)
    if u < 2.0**-24:
        return None
    size, limit = np.abs(x), u * largest
    small = (size <= 2 * limit) & (size > 0)
    if not small.any():
        return np.zeros(())
    np.minimum(size, limit, out=size)
    size[~small] = 0.0
    return add(size)


def infinity_lost(inner: DType, mid: Array, finite: Array) -> Array | None:
    """Where a sum is not finite, but need not be that: the finite terms may overflow by themselves on the way, to the
    other infinity, or, in f64, our own sum did. None for nowhere.

    inner: the type that sums are kept in. finite: the sum of the magnitudes of the finite terms.
    """
    lost = ~np.isfinite(mid) & ~(finite < inner.part.max)
    if inner.part.name != "f64":
        lost &= ~np.isnan(mid)  # float64 holds their sums: NaN is NaN in any order
    return lost if lost.any() else None


def whole(*arrays: Array) -> bool:
    """Whether all elements are integers. Costs one look at 64 elements where the answer is no, as it mostly is."""
    for array in arrays:
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        few = np.asarray(flat[:_SAMPLE])
        if not np.array_equal(np.rint(few), few):
            return False
    return all(bool((np.rint(array) == array).all()) for array in arrays)


def exactly(dtype: DType, within: DType | None, magnitude: Array) -> bool:
    """Whether a sum of integers with this sum of absolute values is exact in any order."""
    inner = within or dtype
    return bool(magnitude.size == 0 or magnitude.max() <= 2.0 ** (inner.part.mantissa + 1))


def alike(ctx: Context, x: Array, axes: Sequence[int], mid: Array, magnitude: Array, dtype: DType) -> Array | bool:
    """Which sums of x over `axes` are steady: one sequential sum in `dtype` is run, and shows whether its errors add
    up.

    An unbiased sequential sum is off by about sqrt(n/3) u sum|x|; three times that is called steady. Other orders
    have the same residues in shorter runs, so what hides from this test is well within the eightfold room of the
    usual bound.
    """
    n = prod(x.shape[axis] for axis in axes)
    u = unit_roundoff(dtype)
    if n * u <= ctx.policy.confidence * np.sqrt(n) * u:
        return False
    if dtype.part.mantissa <= 7:
        return True
    moved = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, n)
    found = np.empty(moved.shape[0], moved.dtype)
    target = np.dtype(dtype.numpy)
    rows = max(1, _BLOCK // n)
    for start in range(0, len(found), rows):
        block = moved[start : start + rows].astype(target)
        found[start : start + rows] = np.add.accumulate(block, axis=1, dtype=target)[:, -1]
    steady: Array = ~(np.abs(found.reshape(mid.shape) - mid) <= np.sqrt(n) * u * magnitude)
    return steady


def few_valued(x: Array) -> Array:
    """Which rows of x (..., n) seem to take few values: at most one in four of a sample of 64 differs from the
    others. (...)

    Values closer than an eighth of what their sum resolves in f32 count as one.
    """
    n = x.shape[-1]
    sample = np.abs(x[..., :: max(1, n // _SAMPLE)][..., :_SAMPLE])
    sample = np.sort(sample, axis=-1)
    grain = sample.mean(-1, keepdims=True) * (n * 2.0**-27)
    nonzero = (sample > 0).sum(-1)
    distinct = (np.diff(sample, axis=-1) > grain).sum(-1) + (sample[..., 0] > 0)
    few: Array = (distinct * 4 <= nonzero) & (nonzero >= 4)
    return few


def alike_products(ctx: Context, a: Array, b: Array, mid: Array, magnitude: Array, dtype: DType) -> Array | bool:
    """Which elements of a @ b, a (..., m, k), b (..., k, n), are steady sums.

    Where a or b is little more than a vector, the products themselves are summed (`alike`); else rows and columns of
    few values are looked for, which for the longest sums is suspicious in either alone.
    """
    k = a.shape[-1]
    if k <= ctx.policy.confidence**2 or mid.size == 0:
        return False
    if dtype.part.mantissa <= 7:
        return True
    if mid.size * k <= 4 * max(a.size, b.size):
        products = a[..., :, None, :] * np.swapaxes(b, -1, -2)[..., None, :, :]  # (..., m, n, k)
        return alike(ctx, products, (products.ndim - 1,), mid, magnitude, dtype)
    rows = few_valued(a)[..., :, None]
    columns = few_valued(np.swapaxes(b, -1, -2))[..., None, :]
    return (rows | columns) if k > _LONG else (rows & columns)
