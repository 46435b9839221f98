"""What storing a float result in its type may commit: the formula of docs/bounds.md, "Rounding".

Nearly all results are plain numbers well inside the range of their type, and for those the error is a factor of the
size. `stored` works that out for a whole array in few passes, finds the elements that are not so (`odd`: special,
subnormal, next to overflow), and gives those alone to the full rule (`_local`, `settled`).

Arrays are real or complex, of one shape; functions run under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from assay.hlo.shape import DTYPES, DType
from assay.reference.pieces import WHOLE, Index, cut, pieces
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, round_to, total, union


@lru_cache(maxsize=64)
def unit_roundoff(dtype: DType) -> float:
    """Half the distance from 1 to the next larger value of `dtype` (of its parts, where complex)."""
    return 2.0 ** -(dtype.part.mantissa + 1)


@lru_cache(maxsize=64)
def smallest_normal(dtype: DType) -> float:
    return 2.0**dtype.part.min_exponent


def flushes(policy: Policy, dtype: DType) -> bool:
    """Whether subnormals of `dtype` may be flushed. f16 and the 8-bit types are computed in f32, where theirs are
    normal.
    """
    return policy.flush_subnormals and dtype.part.min_exponent <= -126


FEW = 256  # elements up to which picking some costs more than it saves


def stored(
    policy: Policy,
    dtype: DType,
    mid: Array,
    rad: Array | None,
    und: Array | None,
    ulps: float | None,
    error: Array | None,
    known: bool,
) -> Ball:
    """The ball of a result; arguments as of `Context.rounded`."""
    if dtype.is_complex:
        return settled(dtype, mid, total(rad, committed(policy, dtype, mid, rad, ulps, error, known)), und, policy)
    radius, given = np.empty_like(mid), mid
    inexact = False
    for index in pieces(mid.shape):
        part = radius[index]
        odd = _usual(dtype, given[index], cut(rad, index), ulps, cut(error, index), known, part)
        odd = _without_specials(dtype, given[index], odd, part)
        if odd is not None and mid.size <= FEW:
            local = committed(policy, dtype, mid, rad, ulps, error, known)
            return settled(dtype, mid, total(rad, local), und, policy, before_rounding(dtype, mid, rad, ulps, error))
        if odd is not None:
            few_mid, few_rad, few_error = given[index][odd], _picked(rad, index, odd), _picked(error, index, odd)
            local = committed(policy, dtype, few_mid, few_rad, ulps, few_error, known)
            before = before_rounding(dtype, few_mid, few_rad, ulps, few_error)
            found = settled(dtype, few_mid, total(few_rad, local), None, policy, before)
            part[odd] = 0.0 if found.rad is None else found.rad
            if found.mid is not few_mid:
                mid = mid.copy() if mid is given else mid
                mid[index][odd] = found.mid
            if found.und is not None and found.und.any():
                open_ = np.zeros(mid.shape, bool)
                open_[index][odd] = found.und
                und = union(und, open_)
        inexact = inexact or bool(part.item(0)) or bool(part.any())
    return Ball(dtype, mid, radius if inexact else None, und)


def drawn_bound(
    policy: Policy, dtype: DType, mid: Array, rad: Array | None, ulps: float | None, error: Array | None
) -> Array:
    """What a sampled run draws an error within: the radius that `stored` would give, finite, in an array of its own."""
    if dtype.is_complex:
        radius = np.asarray(total(rad, committed(policy, dtype, mid, rad, ulps, error, False)))
        return np.where(np.isfinite(radius), radius, 0.0)
    radius = np.empty_like(mid)
    odd = _without_specials(dtype, mid, _usual(dtype, mid, rad, ulps, error, False, radius), radius)
    if odd is not None:
        few_rad, few_error = _picked(rad, WHOLE, odd), _picked(error, WHOLE, odd)
        found = np.asarray(total(few_rad, committed(policy, dtype, mid[odd], few_rad, ulps, few_error, False)))
        radius[odd] = np.where(np.isfinite(found), found, 0.0)
    return radius


def _without_specials(dtype: DType, mid: Array, odd: Array | None, radius: Array) -> Array | None:
    """The odd elements that are numbers. An infinity or a NaN has no radius, where the type has both."""
    if odd is None or not dtype.has_inf:
        return odd
    special = ~np.isfinite(mid)
    if not special.any():
        return odd
    radius[special] = 0.0
    odd &= ~special
    return odd if odd.any() else None


def _picked(array: Array | None, index: Index, odd: Array) -> Array | None:
    return None if array is None else array[index][odd]


def _usual(
    dtype: DType,
    mid: Array,
    rad: Array | None,
    ulps: float | None,
    error: Array | None,
    known: bool,
    radius: Array,
) -> Array | None:
    """Fills `radius` with that of real numbers inside the range of their type. Gives where elements are something
    else, None for nowhere.
    """
    u, factor, f64 = unit_roundoff(dtype), _factor(dtype, ulps), dtype.name == "f64"
    edge = _edge(dtype, ulps)
    # An inexact operand's rounding from here on is more than what flushing adds.
    above = edge if rad is None else 2 * edge / factor
    size = np.abs(mid, out=np.empty_like(mid))
    reach = size if rad is None else np.add(size, rad, out=None if f64 else size)
    least, most = reach.min(), reach.max()
    if rad is None and known and not f64:
        _of_exact(dtype, mid, size, ulps, error, radius)
    else:
        np.multiply(reach, factor, out=radius)
        if rad is None and ulps is None and not f64:
            np.multiply(radius, _inexact(dtype, mid, error), out=radius)
        if error is not None:
            radius += error
    amended = rad is not None and known and not f64 and _amend_exact(dtype, mid, rad, ulps, error, radius)
    if f64:
        radius += u * size  # our own midpoint is rounded too, and by how much is not known
    if rad is not None:
        radius += rad
    # The radius is at most twice its factor of `most`.
    end = most * (1 + 4 * factor)
    if error is not None:
        end = most + radius.max()
        least = 0.0 if amended else least - error.max() if rad is None else least
    if least >= above and end < dtype.max:
        return None
    size = np.abs(mid)
    lowest, reach = (size, size) if rad is None else (size - rad, size + rad)
    low = ((lowest if error is None else lowest - error) < edge) & (reach > 0)
    if rad is not None:
        low &= (reach < above) | (rad == 0)
    odd = low | ~(size + radius < dtype.max)
    return odd if odd.any() else None


def _inexact(dtype: DType, mid: Array, error: Array | None) -> Array:
    """Where a result of exact operands is not representable, or may be another before it is rounded."""
    found: Array = mid.astype(dtype.numpy).astype(np.float64) != mid
    return found if error is None else found | (error > 0)


def _of_exact(dtype: DType, mid: Array, size: Array, ulps: float | None, error: Array | None, out: Array) -> Array:
    """How far a result of exact operands may be from `mid` once it is stored in `dtype` or kept in f32: rounding is
    monotone, so that the ends of what may be rounded (`mid` within the routine's ulps and `error`) decide. Not finite
    where it overflows: see `settled`.
    """
    if ulps is None and error is None:
        np.subtract(mid.astype(dtype.numpy).astype(np.float64), mid, out=out)
        return np.abs(out, out=out)
    if ulps is None:
        out[...] = 0.0
    else:
        np.multiply(size, 2 * ulps * unit_roundoff(dtype) + (0.0 if dtype.bits >= 32 else 2.0**-24), out=out)
    if error is not None:
        out += error
    ends = [(mid - out).astype(dtype.numpy), (mid + out).astype(dtype.numpy)]
    for end in ends:
        off = np.asarray(end.astype(np.float64))  # NumPy makes scalars of arrays without dimensions
        off -= mid
        np.maximum(out, np.abs(off, out=off), out=out)
    return out


def _amend_exact(dtype: DType, mid: Array, rad: Array, ulps: float | None, error: Array | None, local: Array) -> bool:
    """The same for the elements of exact operands among others. Whether there are any."""
    exact = rad == 0
    if not exact.any():
        return False
    few, few_error = mid[exact], None if error is None else np.broadcast_to(error, mid.shape)[exact]
    local[exact] = _of_exact(dtype, few, np.abs(few), ulps, few_error, np.empty_like(few))
    return True


def before_rounding(dtype: DType, mid: Array, rad: Array | None, ulps: float | None, error: Array | None) -> Array:
    """How large a result may be before it is rounded."""
    reach: Array = np.abs(mid)
    if rad is not None:
        reach = reach + rad
    if ulps is not None:
        reach = reach * (1 + 2 * ulps * unit_roundoff(dtype))
    return reach if error is None else reach + error


def _factor(dtype: DType, ulps: float | None) -> float:
    """The error of a routine, or of one rounding, relative to the result: one ulp is at most 2u, and the rounding
    itself is the half ulp on top.
    """
    u = unit_roundoff(dtype)
    return u if ulps is None else (2 * ulps + 1) * u


def _edge(dtype: DType, ulps: float | None) -> float:
    """Below what a result may be flushed. A routine's own intermediate values may be, above the smallest normal (erf in
    jaxlib 0.4.13). In f64 our midpoint is rounded too: where it is the smallest normal, the result may be less.
    """
    least = smallest_normal(dtype) * (1.0 if ulps is None else 64.0)
    return float(np.nextafter(least, 1.0)) if dtype.part.name == "f64" else least


def committed(
    policy: Policy,
    dtype: DType,
    mid: Array,
    rad: Array | None,
    ulps: float | None,
    error: Array | None,
    known: bool,
) -> Array:
    """Absolute bound on the error of storing any results in `dtype`."""
    u = unit_roundoff(dtype)
    size = np.abs(mid)
    more: Array | float = 0.0 if error is None else error
    f64 = dtype.part.name == "f64"
    by_ends = known and not f64 and not dtype.is_complex
    if rad is None and ulps is None and not f64 and not by_ends:
        # A correctly rounded operation on exact operands: nothing where the result is representable.
        rounded = round_to(dtype, mid)
        local = np.abs(rounded - mid) if known else np.where((rounded == mid) & (more == 0), 0.0, u * size)
        local = np.where(np.isfinite(local), local, u * size) + more  # it overflows: see `settled`
    else:
        local = np.asarray(_factor(dtype, ulps) * (size if rad is None else size + rad) + more)
        exact = np.ones(mid.shape, bool) if rad is None else np.asarray(rad == 0)
        if by_ends and exact.any():
            few, few_error = mid[exact], None if error is None else np.broadcast_to(error, mid.shape)[exact]
            off = _of_exact(dtype, few, size[exact], ulps, few_error, np.empty_like(few))
            local[exact] = np.where(np.isfinite(off), off, local[exact])
    if f64:
        local = local + u * size
    tiny = smallest_normal(dtype)
    edge = _edge(dtype, ulps)
    low = (size if rad is None else size - rad) - more < edge
    if low.any():
        step = tiny * 2.0**-dtype.part.mantissa
        nonzero = low & ((size != 0) if rad is None else (size != 0) | (rad != 0))
        if flushes(policy, dtype):
            floor = np.minimum(size, edge) + step / 2 + more
        elif rad is None and ulps is None:
            floor = local if f64 or error is not None else np.maximum(local, np.abs(round_to(dtype, mid) - mid))
        else:
            floor = np.full_like(size, (0.5 if ulps is None else ulps + 0.5) * step) + more
        # Far below the smallest subnormal the result is zero for sure.
        floor = np.where((size if rad is None else size + rad) + more < step / 4, size, floor)
        local = np.where(nonzero, np.maximum(local, floor), local)
    if dtype.is_complex and flushes(policy, dtype):
        # Either part may be flushed alone.
        parts = (np.abs(mid.real), np.abs(mid.imag))
        small = (size > 0) & (size < tiny / u)
        for part in parts:
            small = small | ((part > 0) & (part < _edge(dtype, None)))
        local = np.where(small, local + 1.5 * tiny, local)
    return local


def settled(
    dtype: DType, mid: Array, rad: Array | None, und: Array | None, policy: Policy, before: Array | None = None
) -> Ball:
    """A ball that keeps the invariants of `Ball`: overflow decided or marked, no NaN or infinity in the radius.

    before: how large the results may be before they are rounded: next to the largest value of a type of few digits they
    are rounded down to it, which the radius, a factor of the size, does not say.
    """
    if rad is not None and not rad.any():
        rad = None
    limit = dtype.part.max
    if rad is None and not dtype.is_complex and ((mid <= limit) & (mid >= -limit)).all():
        return Ball(dtype, mid, None, und)
    half_step = limit * unit_roundoff(dtype) * 0.5  # values below limit + half_step round to limit
    size = np.abs(mid) if not dtype.is_complex else np.maximum(np.abs(mid.real), np.abs(mid.imag))
    reach = size if rad is None else size + rad
    inside = reach <= limit
    if before is not None:
        inside |= before < limit + half_step
    if inside.all():
        return Ball(dtype, mid, rad, und)
    special = ~np.isfinite(mid)
    if not dtype.part.has_inf and np.isinf(mid).any():
        # Such a type turns an infinity into NaN, unless the value stays in a wider type.
        und = union(und, np.isinf(mid)) if policy.excess_precision else und
        mid = np.where(np.isinf(mid), np.nan, mid)
    over = ~inside & ~special
    if over.any():
        threshold = limit + half_step
        if policy.excess_precision and dtype.part.bits < 32:
            threshold = max(threshold, F32.max * (1 + 2.0**-25))  # kept in f32, the value would not overflow before
        sure = over & ((size if rad is None else size - rad) >= threshold)
        if dtype.is_complex:
            sure = np.zeros_like(sure)  # one part may overflow alone
        und = union(und, over & ~sure)
        if sure.any():
            outcome = np.copysign(np.inf if dtype.has_inf else np.nan, mid)
            mid = np.where(sure, outcome, mid)
            special = special | sure
    if rad is not None:
        lost = ~np.isfinite(rad)
        und = union(und, lost & ~special) if (lost & ~special).any() else und
        rad = np.where(lost | special, 0.0, rad)
    return Ball(dtype, mid, rad, und)


F32 = DTYPES["f32"]
