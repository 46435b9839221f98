"""Arithmetic on elements: operands and result have one shape. Midpoints in float64, where f32 arithmetic is exact or
rounds once.

Bounds are those of interval arithmetic in midpoint-radius form (Rump 1999, "Fast and parallel interval arithmetic").
Integers follow XLA's operation semantics: they wrap; a division by zero gives all ones, a remainder by zero the
dividend, and the smallest value divided by -1 itself; a shift by the width or more gives zero, or the sign where it
is arithmetic.

The sign of a zero: compilers may drop it (`x + 0` -> `x`, `-(a - b)` -> `b - a`), so a zero whose sign bit is set
stands for one of unknown sign. Where a sign would show (a division by it, atan2, its bits), the element is undecided.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import UNUSUAL, Context, smallest_normal
from assay.reference.ops import complex as complex_ops
from assay.reference.ops import error_free, rewrites
from assay.reference.ops.blocks import elementwise
from assay.reference.value import Array, Ball, Value, enclosing, held_dtype, total, union, wrap


def inexact(dtype: DType) -> bool:
    return dtype.is_float or dtype.is_complex


def bounds(ball: Ball) -> tuple[Array, Array]:
    """The least and the largest value of a real ball."""
    if ball.rad is None:
        return ball.mid, ball.mid
    return ball.mid - ball.rad, ball.mid + ball.rad


def touches_zero(ball: Ball) -> Array | None:
    """Where a ball that is not exact contains zero, so that a sign or a finite quotient is not sure; None for
    nowhere.
    """
    if ball.rad is None:
        return None
    near = np.abs(ball.mid) <= ball.rad
    if not near.any():
        return None
    near = near & (ball.rad > 0)
    return near if near.any() else None


def unsigned_zero(mid: Array) -> Array:
    """Where `mid` is a zero of unknown sign."""
    found: Array = (mid == 0) & np.signbit(mid)
    return found


def signed(ctx: Context, mid: Array) -> Array:
    """`mid` with a sign for each NaN, and each zero of unknown sign, where a choice has been made: plus, or minus."""
    if ctx.resolved is None:
        return mid
    if np.iscomplexobj(mid):
        parts = np.stack([signed(ctx, mid.real), signed(ctx, mid.imag)], -1)
        return np.ascontiguousarray(parts).view(mid.dtype)[..., 0]
    sign = -1.0 if ctx.resolved else 1.0
    mid = np.where(unsigned_zero(mid), np.copysign(0.0, sign), mid)
    return np.where(np.isnan(mid), np.copysign(np.nan, sign), mid)


def forget_sign(mid: Array, *operands: Array) -> Array:
    """`mid` where its zeros that come from a zero operand of unknown sign are of unknown sign too."""
    zero = mid == 0
    if not zero.any():
        return mid
    unknown = union(*(unsigned_zero(operand) for operand in operands))
    assert unknown is not None
    return np.where(zero & unknown, -0.0, mid)


def lower(dtype: DType, mid: Array) -> Array:
    """The bits of integers, as unsigned 64-bit numbers below 2**bits."""
    mask = np.uint64((1 << dtype.bits) - 1)
    return np.asarray(mid).astype(np.int64 if dtype.kind == "signed" else np.uint64).astype(np.uint64) & mask


def raised(dtype: DType, bits: Array) -> Array:
    """The opposite of `lower`."""
    return wrap(dtype, bits.astype(held_dtype(dtype)))


# -- sums and products


@elementwise("add")
def add(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.kind == "pred":
        return Ball(a.dtype, a.mid | b.mid, None, und)
    if not inexact(a.dtype):
        return Ball(a.dtype, wrap(a.dtype, a.mid + b.mid), None, und)
    mid = a.mid + b.mid
    if a.dtype.is_float:
        mid = forget_sign(mid, a.mid, b.mid)
    return sum_of_two(ctx, instr, a, b, mid, und)


@elementwise("subtract")
def subtract(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.kind == "pred":
        return Ball(a.dtype, a.mid ^ b.mid, None, und)
    if not inexact(a.dtype):
        return Ball(a.dtype, wrap(a.dtype, a.mid - b.mid), None, und)
    mid = a.mid - b.mid
    if a.dtype.is_float and not mid.all():
        # 0 - b may become -b, so that every difference of zeros is a zero of unknown sign.
        mid = np.where((mid == 0) & (a.mid == 0), -0.0, mid)
    return sum_of_two(ctx, instr, a, b, mid, und)


def sum_of_two(ctx: Context, instr: Instruction, a: Ball, b: Ball, mid: Array, und: Array | None) -> Ball:
    constants = rewrites.summed_constants(ctx, instr, a.dtype)
    error = total(
        np.where(np.isfinite(mid), constants, 0.0) if constants else None, rewrites.unrounded(ctx, instr, a.dtype, a, b)
    )
    found = ctx.rounded(
        a.dtype,
        mid,
        total(a.rad, b.rad),
        union(und, opposite_infinities(a, b), rewrites.overflow_unseen(ctx, instr, a, b, mid), overflowed(mid, a, b)),
        error=error,
        known=not rewrites.may_regroup(ctx, instr, rewrites.SUMS),
    )
    exact = error_free.differences if instr.opcode == "subtract" else error_free.sums
    return found if constants else error_free.without_error(ctx, found, mid, a, b, exact)


def opposite_infinities(a: Ball, b: Ball) -> Array | None:
    """Complex sums with an infinity: C99 and XLA agree a part at a time, NumPy too, but a disk cannot hold half an
    infinity.
    """
    if a.dtype.is_float:
        return None
    finite = np.isfinite(a.mid) & np.isfinite(b.mid)
    return None if finite.all() else ~finite


def product_radius(a: Ball, b: Ball) -> Array | None:
    """Radius of a product: |a|rb + ra|b| + ra rb."""
    parts: list[Array] = []
    if b.rad is not None:
        parts.append(np.abs(a.mid) * b.rad)
    if a.rad is not None:
        parts.append(a.rad * (np.abs(b.mid) if b.rad is None else np.abs(b.mid) + b.rad))
    rad = total(*parts)
    if rad is None or not np.isnan(rad.max(initial=0.0)):
        return rad
    # An infinity times a zero radius is no error.
    return total(*(np.where(np.isnan(p), 0.0, p) for p in parts))


@elementwise("multiply")
def multiply(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.kind == "pred":
        return Ball(a.dtype, a.mid & b.mid, None, und)
    if not inexact(a.dtype):
        return Ball(a.dtype, wrap(a.dtype, a.mid * b.mid), None, und)
    if a.dtype.is_complex:
        return complex_ops.multiply(ctx, a, b)
    mid = forget_sign(a.mid * b.mid, a.mid, b.mid)
    rad = product_radius(a, b)
    error = total(
        rewrites.merged_exponentials(ctx, instr, a.dtype, mid),
        rewrites.regrouped_products(ctx, instr, a.dtype, mid, rad),
    )
    mid, open_ = infinite_times_zero(a, b, mid)
    found = ctx.rounded(a.dtype, mid, rad, union(und, open_, overflowed(mid, a, b)), error=error)
    if ctx.draws:
        ctx.inexact[id(instr)] = bool((found.mid != mid).any())
    return error_free.without_error(ctx, found, mid, a, b, error_free.products, error)


def overflowed(mid: Array, a: Ball, b: Ball) -> Array | None:
    """Where numbers that are not exact have a midpoint that float64 does not hold: others of theirs may be in range."""
    if a.dtype.part.bits < 64 or (a.rad is None and b.rad is None) or np.isfinite(mid).all():
        return None
    inexact_ = union(*(None if x.rad is None else x.rad > 0 for x in (a, b)))
    assert inexact_ is not None
    return ~np.isfinite(mid) & np.isfinite(a.mid) & np.isfinite(b.mid) & inexact_


def infinite_times_zero(a: Ball, b: Ball, mid: Array) -> tuple[Array, Array | None]:
    """An infinity times what rounds to zero for sure is NaN; times a ball that contains zero it is undecided."""
    und: Array | None = None
    if (a.rad is None and b.rad is None) or np.isfinite(mid).all():
        return mid, None
    for one, other in ((a, b), (b, a)):
        infinite = np.isinf(other.mid)
        if one.rad is not None and infinite.any():
            gone = infinite & rounds_to_zero(one)
            mid = np.where(gone, np.nan, mid)
            touching = touches_zero(one)
            und = union(und, None if touching is None else infinite & touching & ~gone)
    return mid, und


def rounds_to_zero(ball: Ball) -> Array:
    """Where zero is the only value of its type in a ball. A narrow type may be kept in f32, where there are others."""
    smallest = smallest_normal(ball.dtype) * 2.0**-ball.dtype.part.mantissa if ball.dtype.bits >= 32 else 0.0
    return bounds_size(ball) < smallest


def bounds_size(ball: Ball) -> Array:
    return np.abs(ball.mid) if ball.rad is None else np.abs(ball.mid) + ball.rad


@elementwise("divide")
def divide(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.is_integer:
        neither = (b.mid == 0) & (a.mid == 0)  # 0 / 0 is -1, but x / x is simplified to 1
        return Ball(
            a.dtype, integer_quotient(a.dtype, a.mid, b.mid), None, union(und, neither if neither.any() else None)
        )
    if a.dtype.is_complex:
        return complex_ops.divide(ctx, a, b)
    mid = forget_sign(a.mid / b.mid, a.mid, b.mid)
    by_zero = b.mid == 0
    if by_zero.any():
        sign_lost = by_zero & (a.mid != 0) & ~np.isnan(a.mid) & np.signbit(b.mid)
        numerator = touches_zero(a)
        und = union(und, sign_lost, None if numerator is None else by_zero & numerator)
    und = union(und, touches_zero(b), rewrites.lost_reciprocal(ctx, b))
    rad = quotient_radius(a, b, mid)
    error = rewrites.reciprocal(ctx, a.dtype, mid, rad, a, b)
    for other in (
        rewrites.root_reciprocal(ctx, instr, a.dtype, mid),
        rewrites.merged_exponentials(ctx, instr, a.dtype, mid),
    ):
        error = error if other is None else np.maximum(error, other)  # one of them, not all
    regrouped = rewrites.regrouped_products(ctx, instr, a.dtype, mid, rad)
    if regrouped is not None:
        error = error + np.where(rewrites.power_of_two(b.mid), 0.0, regrouped)
    found = ctx.rounded(a.dtype, mid, rad, und, ulps=ctx.policy.division_ulps(a.dtype.name), error=error)
    return error_free.without_error(ctx, found, mid, a, b, error_free.halvings, error)


def quotient_radius(a: Ball, b: Ball, mid: Array) -> Array | None:
    """Radius of a quotient q = a/b: (ra + |q| rb) / (|b| - rb), of which |q| rb may vanish where the whole does not."""
    if a.rad is None and b.rad is None:
        return None
    least = np.abs(b.mid) if b.rad is None else np.abs(b.mid) - b.rad
    of_a = None if a.rad is None else a.rad / least
    of_b = None if b.rad is None else np.abs(mid) * (b.rad / least)
    rad = np.asarray(total(of_a, of_b))
    if least.min(initial=np.inf) > 0:
        return rad
    return np.where((least <= 0) | np.isnan(rad), 0.0, rad)  # undecided there


def integer_quotient(dtype: DType, a: Array, b: Array) -> Array:
    """Rounds toward zero; all ones for a division by zero."""
    safe = np.where(b == 0, held_dtype(dtype).type(1), b)
    quotient = a // safe
    if dtype.kind == "signed":
        # NumPy rounds down, and its own answer for the smallest value by -1 is that value.
        quotient = quotient + ((np.fmod(a, safe) != 0) & ((a < 0) != (safe < 0)))
    return wrap(
        dtype,
        np.where(b == 0, wrap(dtype, np.full_like(a, -1 if dtype.kind == "signed" else ~a.dtype.type(0))), quotient),
    )


@elementwise("remainder")
def remainder(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.is_integer:
        safe = np.where(b.mid == 0, held_dtype(a.dtype).type(1), b.mid)
        return Ball(a.dtype, wrap(a.dtype, np.where(b.mid == 0, a.mid, np.fmod(a.mid, safe))), None, und)
    mid = forget_sign(np.fmod(a.mid, b.mid), a.mid)
    und = union(und, rewrites.lost_reciprocal(ctx, b))
    if a.rad is None and b.rad is None:
        return ctx.rounded(a.dtype, mid, None, und)
    # a - trunc(a / b) b: continuous while the truncated quotient stays the same.
    count = np.trunc(a.mid / b.mid)
    rad = total(a.rad, None if b.rad is None else np.where(b.rad == 0, 0.0, np.abs(count) * b.rad))
    assert rad is not None
    least = np.abs(b.mid) if b.rad is None else np.abs(b.mid) - b.rad
    room = np.minimum(np.abs(mid), least - np.abs(mid))  # distance to the next jump
    first = (count == 0) & (least - np.abs(mid) > rad)  # within (-b, b) the remainder is a itself
    moved = rad > 0 if b.rad is None else (rad > 0) | (b.rad > 0)
    jump = moved & ~((room > rad) | first) & np.isfinite(a.mid)
    return ctx.rounded(a.dtype, mid, np.where(np.isfinite(rad), rad, 0.0), union(und, jump, touches_zero(b)))


# -- sign, size, order


@elementwise("negate")
def negate(ctx: Context, instr: Instruction, a: Ball) -> Value:
    if a.dtype.is_float:
        mid = np.where(a.mid == 0, -0.0, -a.mid)
        return ctx.rounded(a.dtype, mid, a.rad, a.und) if a.dtype.name in UNUSUAL else Ball(a.dtype, mid, a.rad, a.und)
    mid = -a.mid if a.dtype.is_complex else wrap(a.dtype, np.negative(a.mid))
    return Ball(a.dtype, mid, a.rad, a.und)


@elementwise("abs")
def absolute(ctx: Context, instr: Instruction, a: Ball) -> Value:
    if a.dtype.is_complex:
        return complex_ops.absolute(ctx, instr.array.dtype, a)
    mid = np.abs(a.mid)
    return Ball(a.dtype, wrap(a.dtype, mid) if a.dtype.is_integer else mid, a.rad, a.und)


@elementwise("sign")
def sign(ctx: Context, instr: Instruction, a: Ball) -> Value:
    if a.dtype.is_complex:
        return complex_ops.sign(ctx, a)
    if a.dtype.is_integer:
        return Ball(a.dtype, np.sign(a.mid), None, a.und)
    return Ball(a.dtype, np.where(a.mid == 0, a.mid, np.sign(a.mid)), None, union(a.und, touches_zero(a)))


@elementwise("maximum")
def maximum(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return extreme(ctx, np.maximum, a, b)


@elementwise("minimum")
def minimum(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return extreme(ctx, np.minimum, a, b)


@elementwise("clamp")
def clamp(ctx: Context, instr: Instruction, low: Ball, a: Ball, high: Ball) -> Value:
    """min(max(low, a), high); the bounds may be scalars."""
    return extreme(ctx, np.minimum, extreme(ctx, np.maximum, spread(low, a.dims), a), spread(high, a.dims))


def spread(ball: Ball, dims: tuple[int, ...]) -> Ball:
    """A scalar broadcast to `dims`; a ball of that shape as it is."""
    if ball.dims == dims:
        return ball
    mid, rad, und = (None if part is None else np.broadcast_to(part, dims) for part in (ball.mid, ball.rad, ball.und))
    assert mid is not None
    return Ball(ball.dtype, mid, rad, und)


def extreme(ctx: Context, pick: Callable[[Array, Array], Array], a: Ball, b: Ball) -> Ball:
    """The larger or smaller of two: [pick(lows), pick(highs)]. `pick` propagates NaN. Commits no error."""
    mid = pick(a.mid, b.mid)
    if a.dtype.kind == "pred" or a.dtype.is_integer:
        return Ball(a.dtype, np.asarray(mid, held_dtype(a.dtype)), None, union(a.und, b.und))
    und = union(a.und, b.und)
    if ctx.policy.nan_minmax == "either":
        one = np.isnan(a.mid) != np.isnan(b.mid)
        und = union(und, one) if one.any() else und
    mid = forget_sign(mid, a.mid, b.mid)
    small = ctx.ties_with_zero(a.dtype, a.mid, b.mid)
    either = np.False_ if small is None else small[0] & small[1]
    if ctx.rng is not None and small is not None:
        mid = np.where(either & (ctx.rng.random(mid.shape) < 0.5), np.where(mid == a.mid, b.mid, a.mid), mid)
    if a.rad is None and b.rad is None and (small is None or ctx.rng is not None):
        return Ball(a.dtype, mid, None, und)
    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    low = np.where(either, np.minimum(a_low, b_low), pick(a_low, b_low))
    high = np.where(either, np.maximum(a_high, b_high), pick(a_high, b_high))
    # One of the two wins whatever the errors: it stays as it is, so that an exact winner is exact.
    a_wins = (low == a_low) & (high == a_high)
    b_wins = (low == b_low) & (high == b_high)
    a_rad = np.zeros_like(mid) if a.rad is None else a.rad
    b_rad = np.zeros_like(mid) if b.rad is None else b.rad
    if (a_wins | b_wins).all():
        return Ball(a.dtype, np.where(a_wins, a.mid, b.mid), np.where(a_wins, a_rad, b_rad), und)
    centre, half = enclosing(low, high)
    lost = ~(a_wins | b_wins | np.isfinite(centre)) & np.isfinite(a.mid) & np.isfinite(b.mid)
    und = union(und, lost) if lost.any() else und
    mid = np.where(a_wins, a.mid, np.where(b_wins, b.mid, np.where(np.isnan(mid) | lost, mid, centre)))
    rad = np.where(a_wins, a_rad, np.where(b_wins, b_rad, np.where(lost, 0.0, half)))
    return Ball(a.dtype, mid, np.where(np.isfinite(mid), rad, 0.0), und)


# -- rounding to whole numbers

WHOLE: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round-nearest-even": np.rint,
    "round-nearest-afz": lambda x: np.copysign(np.where(np.abs(x) < 0.5, 0.0, np.floor(np.abs(x) + 0.5)), x),
}


@elementwise(*WHOLE)
def whole(ctx: Context, instr: Instruction, a: Ball) -> Value:
    function = WHOLE[instr.opcode]
    if instr.opcode == "round-nearest-afz" and a.dtype.name == "f64":
        # |x| + 0.5 may round up to the next whole number.
        mid = np.trunc(a.mid)
        mid = mid + np.where(np.abs(a.mid - mid) >= 0.5, np.copysign(1.0, a.mid), 0.0)
    else:
        mid = function(a.mid)
    mid = np.where(mid == 0, np.copysign(0.0, a.mid), mid)
    und = a.und
    if a.rad is not None:
        low, high = bounds(a)
        und = union(und, (function(low) != function(high)) & np.isfinite(a.mid))
    if a.dtype.bits <= 8:
        return ctx.rounded(a.dtype, mid, None, und)  # the next whole number may be too large for the type
    return Ball(a.dtype, mid, None, und)


@elementwise("is-finite")
def is_finite(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return Ball(instr.array.dtype, np.isfinite(a.mid), None, a.und)


# -- bits


@elementwise("and")
def bitwise_and(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return Ball(a.dtype, a.mid & b.mid, None, logical_undecided(a, b, a.dtype.kind == "pred", False))


@elementwise("or")
def bitwise_or(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return Ball(a.dtype, a.mid | b.mid, None, logical_undecided(a, b, a.dtype.kind == "pred", True))


@elementwise("xor")
def bitwise_xor(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return Ball(a.dtype, a.mid ^ b.mid, None, union(a.und, b.und))


@elementwise("not")
def bitwise_not(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return Ball(a.dtype, ~a.mid if a.dtype.kind == "pred" else wrap(a.dtype, ~a.mid), None, a.und)


def logical_undecided(a: Ball, b: Ball, logical: bool, decides: bool) -> Array | None:
    """Undecided elements of a logical operation, which one decided operand of value `decides` settles."""
    if not logical or (a.und is None and b.und is None):
        return union(a.und, b.und)
    a_und = np.zeros_like(a.mid) if a.und is None else a.und
    b_und = np.zeros_like(b.mid) if b.und is None else b.und
    settled = (~a_und & (a.mid == decides)) | (~b_und & (b.mid == decides))
    found: Array = (a_und | b_und) & ~settled
    return found


@elementwise("shift-left")
def shift_left(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    bits, amount = lower(a.dtype, a.mid), lower(b.dtype, b.mid)
    out = np.where(amount < a.dtype.bits, bits << np.minimum(amount, np.uint64(63)), np.uint64(0))
    return Ball(a.dtype, raised(a.dtype, out), None, union(a.und, b.und))


@elementwise("shift-right-logical")
def shift_right_logical(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    bits, amount = lower(a.dtype, a.mid), lower(b.dtype, b.mid)
    out = np.where(amount < a.dtype.bits, bits >> np.minimum(amount, np.uint64(63)), np.uint64(0))
    return Ball(a.dtype, raised(a.dtype, out), None, union(a.und, b.und))


@elementwise("shift-right-arithmetic")
def shift_right_arithmetic(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    """Copies of the top bit come in, for unsigned types as well."""
    width = a.dtype.bits
    bits = (lower(a.dtype, a.mid) << np.uint64(64 - width)).astype(np.int64) >> np.int64(64 - width)
    amount = np.minimum(lower(b.dtype, b.mid), np.uint64(63)).astype(np.int64)
    return Ball(a.dtype, raised(a.dtype, bits >> amount), None, union(a.und, b.und))


@elementwise("count-leading-zeros")
def count_leading_zeros(ctx: Context, instr: Instruction, a: Ball) -> Value:
    bits = lower(a.dtype, a.mid) << np.uint64(64 - a.dtype.bits)
    count = np.where(bits == 0, a.dtype.bits, 0)
    for step in (32, 16, 8, 4, 2, 1):
        empty = (bits >> np.uint64(64 - step) == 0) & (bits != 0)
        count = count + np.where(empty, step, 0)
        bits = np.where(empty, bits << np.uint64(step), bits)
    return Ball(a.dtype, wrap(a.dtype, np.asarray(count)), None, a.und)


@elementwise("popcnt")
def population_count(ctx: Context, instr: Instruction, a: Ball) -> Value:
    bits = lower(a.dtype, a.mid)
    count = np.zeros(bits.shape, np.int64)
    for byte in range(0, a.dtype.bits, 8):
        count = count + _ONES[((bits >> np.uint64(byte)) & np.uint64(255)).astype(np.int64)]
    return Ball(a.dtype, wrap(a.dtype, np.asarray(count)), None, a.und)


_ONES = np.array([bin(byte).count("1") for byte in range(256)])


@elementwise("mulhi")
def multiply_high(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    """The upper half of the product of twice the width."""
    und = union(a.und, b.und)
    bits = a.dtype.bits
    if bits < 64:
        held = np.int64 if a.dtype.kind == "signed" else np.uint64
        product = a.mid.astype(held) * b.mid.astype(held)
        return Ball(a.dtype, wrap(a.dtype, product >> held(bits)), None, und)
    x, y, low, half = lower(a.dtype, a.mid), lower(b.dtype, b.mid), np.uint64(0xFFFFFFFF), np.uint64(32)
    cross = (x >> half) * (y & low) + ((x & low) * (y & low) >> half)
    middle = (x & low) * (y >> half) + (cross & low)
    high = (x >> half) * (y >> half) + (cross >> half) + (middle >> half)
    if a.dtype.kind == "signed":  # two's complement: subtract the other factor for each negative one
        high = high - np.where(a.mid < 0, y, np.uint64(0)) - np.where(b.mid < 0, x, np.uint64(0))
    return Ball(a.dtype, raised(a.dtype, high), None, und)
