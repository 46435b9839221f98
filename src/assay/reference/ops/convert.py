"""Conversions between element types, bitcasts and explicit rounding.

Float to integer truncates, saturates, and takes NaN to 0; integers wrap; anything to pred is `!= 0`. Checked on
XLA:CPU of jaxlib 0.10.2 and 0.12.0.1 for every pair of types. A float narrows to the nearest value, ties to even; XLA
rounds f64 to f32 first on the way to a narrower type, so that ties of the second rounding may go either way.
"""

from __future__ import annotations

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import UNUSUAL, Context, mark, unit_roundoff
from assay.reference.ops.blocks import elementwise
from assay.reference.ops.elementwise import bounds, signed, touches_zero, unsigned_zero
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value, enclosing, held_dtype, round_to, union, wrap

FIELD_BITS = {"f64": 11, "f32": 8, "bf16": 8, "f16": 5}  # exponent bits, for reduce-precision


@elementwise("convert")
def convert(ctx: Context, instr: Instruction, a: Ball) -> Value:
    to = instr.array.dtype
    if a.dtype.is_complex and not to.is_complex:
        a = Ball(a.dtype.part, a.mid.real, a.rad, a.und)
    if to.name == a.dtype.name:
        return a
    if to.kind == "pred":
        return Ball(to, a.mid != 0, None, union(a.und, touches_zero(a)))
    if to.is_integer:
        return to_integer(to, a)
    if a.dtype.is_integer or a.dtype.kind == "pred":
        return from_integer(ctx, to, a)
    return to_float(ctx, to, a)


def to_integer(to: DType, a: Ball) -> Ball:
    if not a.dtype.is_float:
        return Ball(to, wrap(to, a.mid), None, a.und)
    mid = truncated(to, a.mid)
    if a.rad is None:
        return Ball(to, mid, None, a.und)
    low, high = bounds(a)
    return Ball(to, mid, None, union(a.und, truncated(to, low) != truncated(to, high)))


def truncated(to: DType, value: Array) -> Array:
    """float64 to integers: toward zero, saturating, NaN to 0."""
    low = -(1 << (to.bits - 1)) if to.kind == "signed" else 0
    high = (1 << (to.bits - (to.kind == "signed"))) - 1
    held = held_dtype(to)
    inside = (value > low - 1) & (value < high + 1) if to.bits < 53 else (value >= low) & (value < float(high + 1))
    out = np.where(inside, np.trunc(value), 0.0).astype(held)
    out = np.where(value >= float(high + 1), held.type(high), out)
    if to.bits < 53:
        out = np.where(value >= high, held.type(high), out)
    return np.asarray(np.where(value <= low, held.type(low), out), held)


def from_integer(ctx: Context, to: DType, a: Ball) -> Value:
    mid = a.mid.astype(held_dtype(to))
    if to.name in UNUSUAL:
        return unusual(ctx, to, mid, None, a.und)
    if a.dtype.kind == "pred" or a.dtype.bits <= min(to.part.mantissa, 53):
        return Ball(to, mid, None, a.und)
    return narrowed(ctx, to, mid, None, a.und, through=24 if to.part.bits < 32 else 53)


def to_float(ctx: Context, to: DType, a: Ball) -> Value:
    mid = a.mid.astype(held_dtype(to))
    if widens(a.dtype.part, to.part):
        return Ball(to, mid, a.rad, a.und)
    und = a.und
    if not to.part.has_inf and a.dtype.part.has_inf and not np.isfinite(mid).all():
        mid = np.where(np.isinf(mid), np.nan, mid)
    if to.name in UNUSUAL:
        return unusual(ctx, to, mid, a.rad, und)
    if to.bits <= 8 and a.dtype.bits > 16:
        return narrowed(ctx, to, mid, a.rad, und, through=11)
    if to.bits == 16 and a.dtype.bits == 64:
        return narrowed(ctx, to, mid, a.rad, und, through=24)
    return ctx.rounded(to, mid, a.rad, und)


def widens(narrow: DType, wide: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    lowest = narrow.min_exponent - narrow.mantissa
    return (
        narrow.mantissa <= wide.mantissa
        and narrow.max <= wide.max
        and lowest >= wide.min_exponent - wide.mantissa
        and (wide.has_inf or not narrow.has_inf)
        and wide.name != "f8e8m0fnu"
    )


def narrowed(ctx: Context, to: DType, mid: Array, rad: Array | None, und: Array | None, through: int) -> Ball:
    """Rounds to `to`, perhaps by way of a type of `through` significant bits: near a tie either neighbour may come
    out.
    """
    if to.part.name == "f64":
        return Ball(to, mid, rad, und)  # 64-bit integers, rounded as the target rounds them
    size = np.abs(mid)
    error = np.where(np.isfinite(mid), 2.0**-through * size, 0.0)
    if rad is None and not to.is_complex:
        off = np.abs(round_to(to, mid) - mid)
        half = unit_roundoff(to) * 2.0 ** np.floor(np.log2(np.maximum(size, 2.0**to.min_exponent)))
        error = np.where((off > 0) & (half - off <= error), error, 0.0)
    return ctx.rounded(to, mid, rad, und, error=error)


def unusual(ctx: Context, to: DType, mid: Array, rad: Array | None, und: Array | None) -> Ball:
    """Rounds to a type without infinity, NaN or zero as ml_dtypes does, to the nearest value, saturating. So does XLA
    from f32, bf16 and f16 (all values of the last two, on jaxlib 0.12.0.1); others may be rounded to f16 on the way.
    The ball reaches to the values that its ends round to, and holds the unrounded ones. What has no value in the type
    is undecided.
    """
    if to.numpy is None:
        raise Unsupported("convert", f"to {to.name}: the installed ml_dtypes has no such type")
    spread = np.abs(mid) * 2.0**-11 if rad is None else rad + np.abs(mid) * 2.0**-11
    if rad is None and np.array_equal(mid, mid.astype(np.float32), equal_nan=True):
        spread = np.zeros(mid.shape)
    low, high = (round_to(to, end) for end in (mid - spread, mid + spread))
    known = np.isfinite(mid) & np.isfinite(low) & np.isfinite(high)
    if to.name == "f8e8m0fnu":
        known &= mid > spread
    reach = np.where(known, np.maximum(np.maximum(np.abs(low - mid), np.abs(high - mid)), spread), 0.0)
    if ctx.rng is not None:
        mid, reach = np.where(known & (ctx.rng.random() < 0.5), round_to(to, mid), mid), np.zeros(mid.shape)
    return Ball(to, mid, reach if reach.any() else None, union(und, ~known))


# -- bits


@operation("bitcast-convert")
def bitcast_convert(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The same bits read as another type; a smaller type adds a last dimension, a larger one takes it away."""
    to, source = instr.array.dtype, a.dtype
    dims = a.dims if to.bits == source.bits else instr.array.dims  # a body is applied to arrays of its scalars
    if to.name == source.name:
        return a
    for dtype in (source, to):
        part_of_a_byte = dtype.bits < 8 and not dtype.is_integer and source.bits != to.bits
        if dtype.numpy is None or dtype.kind == "pred" or part_of_a_byte:
            raise Unsupported("bitcast-convert", f"{source.name} to {to.name}")
    und = a.und
    if source.is_float or source.is_complex:
        parts = (a.mid.real, a.mid.imag) if source.is_complex else (a.mid,)
        for part in parts if ctx.resolved is None else ():
            # NaN bits and signs of zeros are not known.
            und = union(und, np.isnan(part) | unsigned_zero(part))
        if a.rad is not None:
            und = union(und, a.rad > 0)
        if ctx.rng is None and source.is_float and source.bits < 64:
            und = union(und, (round_to(source, a.mid) != a.mid) & ~np.isnan(a.mid))
    assert source.numpy is not None
    assert to.numpy is not None
    mid = signed(ctx, a.mid) if source.is_float or source.is_complex else a.mid
    bits = np.ascontiguousarray(mid.astype(source.numpy))
    if source.bits != to.bits and min(source.bits, to.bits) < 8:
        bits = _repacked(bits, source.bits, to.bits)
    out = wrap(to, bits.reshape(-1).view(to.numpy).reshape(dims).astype(held_dtype(to)))
    if und is not None and source.bits > to.bits:
        und = np.broadcast_to(und, a.dims)[..., None]
    elif und is not None and source.bits < to.bits:
        und = np.asarray(np.broadcast_to(und, a.dims).any(axis=-1))
    return mark(ctx.entering(Ball(to, out), bits=True), und)


def _repacked(values: Array, before: int, after: int) -> Array:
    """The bits of values of `before` bits, one in each item, as items of `after` bits; one of the two is below 8.

    The lowest bits come first (XLA, bitcast_dtypes_expander.cc, shifts by index times width; XLA:CPU does so).
    """
    raw = values.view(f"u{values.itemsize}").astype(np.uint64) & np.uint64((1 << before) - 1)
    if before > after:
        shifts = np.arange(0, before, after, dtype=np.uint64)
        raw = (raw[..., None] >> shifts) & np.uint64((1 << after) - 1)
    else:
        shifts = np.arange(0, after, before, dtype=np.uint64)
        raw = (raw << shifts).sum(axis=-1, dtype=np.uint64)  # no two share a bit
    return np.ascontiguousarray(raw.astype(f"u{max(after, 8) // 8}"))


@elementwise("reduce-precision")
def reduce_precision(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """Rounds to `exponent_bits` and `mantissa_bits`; what underflows becomes zero. Never elided, monotone, and exact
    after it.
    """
    exponent_bits = attributes.integer(instr, "exponent_bits")
    mantissa_bits = attributes.integer(instr, "mantissa_bits")
    if a.dtype.name not in FIELD_BITS:
        raise Unsupported("reduce-precision", f"on {a.dtype.name}")
    narrower = exponent_bits < FIELD_BITS[a.dtype.name]

    def reduced(value: Array) -> Array:
        return to_fields(value, exponent_bits, mantissa_bits, narrower, a.dtype)

    mid = reduced(a.mid)
    if a.rad is None:
        return Ball(a.dtype, mid, None, a.und)
    low, high = (reduced(bound) for bound in bounds(a))
    same = (low == high) | ~np.isfinite(a.mid)
    centre, rad = enclosing(low, high)
    lost = ~same & ~np.isfinite(centre)
    rad = np.where(same | lost, 0.0, rad)
    return mark(Ball(a.dtype, np.where(same | lost, mid, centre), rad if rad.any() else None, a.und), lost)


def to_fields(value: Array, exponent_bits: int, mantissa_bits: int, narrower: bool, dtype: DType) -> Array:
    """`value` rounded to the nearest float with so many exponent and fraction bits, ties to even."""
    fraction, exponent = np.frexp(value)
    keep = min(mantissa_bits, dtype.mantissa)
    if not narrower:
        # The same exponent range keeps subnormals, whose step is fixed.
        keep_here = np.minimum(keep, keep - (dtype.min_exponent + 1 - exponent))
    else:
        keep_here = np.full_like(exponent, keep)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, keep_here + 1)), exponent - keep_here - 1)
    if keep == 0:
        # The last bit that is kept is the exponent's: 1.5 * 2**e goes to the power whose biased exponent is even.
        down = (np.abs(fraction) == 0.75) & (keep_here == 0) & (exponent % 2 == 0)
        rounded = np.where(down, np.copysign(np.ldexp(1.0, exponent - 1), value), rounded)
    bias = (1 << (exponent_bits - 1)) - 1
    if narrower:
        rounded = np.where(np.abs(rounded) < 2.0 ** (1 - bias), np.copysign(0.0, value), rounded)
    limit = min((2 - 2.0**-mantissa_bits) * 2.0**bias, dtype.max)
    rounded = np.where(np.abs(rounded) > limit, np.copysign(np.inf, value), rounded)
    return np.where(np.isfinite(value), rounded, value)


@elementwise("stochastic-convert")
def stochastic_convert(ctx: Context, instr: Instruction, a: Ball, random: Ball) -> Value:
    """A float to an integer, away from zero where the random word is below the fraction times 2**bits, else toward it;
    saturating, NaN to 0 (stochastic_convert_decomposer.cc).
    """
    to = instr.array.dtype
    if not (a.dtype.is_float and to.is_integer):
        raise Unsupported("stochastic-convert", f"from {a.dtype} to {to}")
    words = random.mid.astype(np.uint64)

    def converted(value: Array) -> Array:
        whole = np.trunc(value)
        fraction = np.ldexp(np.abs(value - whole), random.dtype.bits)  # below 2**bits, for a fraction is below 1
        up = words < np.where(np.isfinite(fraction), fraction, 0.0).astype(np.uint64)
        return truncated(to, whole + np.copysign(up, value))

    mid, und = converted(a.mid), union(a.und, random.und)
    if a.rad is not None:
        low, high = (converted(end) for end in bounds(a))
        und = union(und, low != high)
    return Ball(to, mid, None, und)
