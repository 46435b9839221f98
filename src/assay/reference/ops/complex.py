"""Operations on complex elements: a ball is a disk. Other families hand their complex operands to this one.

Errors are bounded relative to the modulus: every usual algorithm (the plain product, Smith's division, exp(b log a))
is accurate in that sense, but not in each part. What C99's annex G and XLA do with infinite and NaN parts differs
from version to version, as does an intermediate overflow next to the largest value: those elements are undecided.

The branch cut of log and sqrt is the negative real axis; a disk that touches it, or a point on it with a zero
imaginary part of unknown sign, is undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.errors import Unsupported
from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import Context, smallest_normal, unit_roundoff
from assay.reference.ops.blocks import elementwise
from assay.reference.ops.rewrites import lost_reciprocal
from assay.reference.value import Array, Ball, Value, joined, round_to, total, union

# -- parts


@elementwise("real")
def real(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return Ball(a.dtype.part, np.real(a.mid), a.rad, a.und)


@elementwise("imag")
def imag(ctx: Context, instr: Instruction, a: Ball) -> Value:
    if not a.dtype.is_complex:
        return ctx.rounded(a.dtype, np.zeros_like(a.mid), None, a.und)  # undecided in a type that has no zero
    return Ball(a.dtype.part, np.imag(a.mid), a.rad, a.und)


@elementwise("complex")
def complex_(ctx: Context, instr: Instruction, re: Ball, im: Ball) -> Value:
    mid = joined(re.mid, im.mid)
    und = union(re.und, im.und)
    if re.rad is None and im.rad is None:
        return Ball(instr.array.dtype, mid, None, und)
    rad = np.hypot(0.0 if re.rad is None else re.rad, 0.0 if im.rad is None else im.rad)
    # A disk cannot hold one infinite part beside an inexact one.
    half = ~np.isfinite(mid) & (rad > 0)
    return Ball(instr.array.dtype, mid, np.where(half, 0.0, rad), union(und, half if half.any() else None))


# -- what is common


def disk(
    ctx: Context, dtype: DType, opcode: str, mid: Array, rad: Array | None, und: Array | None, *operands: Ball
) -> Ball:
    """The result of a routine on complex operands: undecided where a part is not finite or nearly overflows."""
    special = ~np.isfinite(mid) | (np.abs(mid) > dtype.part.max / 8)
    for operand in operands:
        special = special | ~np.isfinite(operand.mid) | (np.abs(operand.mid) > operand.dtype.part.max / 8)
    if rad is not None:
        special = special | ~np.isfinite(rad)
        rad = np.where(special | np.isnan(rad), 0.0, rad)
    mid = np.where(np.isfinite(mid), mid, 0.0)
    ulps = ctx.policy.routine_ulps(opcode, dtype.name)
    fixed = ctx.policy.absolute.get(opcode, {}).get(dtype.name)
    error = None if fixed is None else np.where(mid == 0, 0.0, 2 * fixed * unit_roundoff(dtype))
    return ctx.rounded(dtype, mid, rad, union(und, special if special.any() else None), ulps=ulps, error=error)


def radius(a: Ball) -> Array:
    return np.zeros(a.dims) if a.rad is None else a.rad


def on_cut(z: Array, r: Array) -> Array:
    """Where a disk touches the negative real axis, or lies on it with an imaginary zero of unknown sign."""
    exact = (r == 0) & (z.imag == 0) & (z.real < 0) & np.signbit(z.imag)
    # The distance to the axis is |im| left of zero and |z| right of it.
    near = np.where(z.real < 0, np.abs(z.imag), np.abs(z)) <= r
    found: Array = exact | (near & (r > 0))
    return found


# -- arithmetic


def multiply(ctx: Context, a: Ball, b: Ball) -> Ball:
    """(ac - bd) + i(ad + bc): at most sqrt(5) u |a||b| off (Brent, Percival, Zimmermann 2007), nothing where the
    products are exact.
    """
    mid = a.mid * b.mid
    part = a.dtype.part
    products = [a.mid.real * b.mid.real, a.mid.imag * b.mid.imag, a.mid.real * b.mid.imag, a.mid.imag * b.mid.real]
    error = total(*(np.abs(round_to(part, p) - p) for p in products))
    size = np.abs(a.mid) * np.abs(b.mid)
    if part.name == "f64":
        error = 4 * unit_roundoff(part) * size
    assert error is not None
    error = np.where(error > 0, error + unit_roundoff(part) * np.abs(mid), 0.0)
    if ctx.policy.flush_subnormals:
        tiny = smallest_normal(part)
        low = np.zeros(mid.shape, bool)
        for p in products:
            low = low | ((p != 0) & (np.abs(p) < tiny))
        error = np.where(low, error + np.minimum(2 * tiny, 2 * size), error)
    rad = None
    if a.rad is not None or b.rad is not None:
        ra, rb = radius(a), radius(b)
        rad = np.abs(a.mid) * rb + ra * np.abs(b.mid) + ra * rb
        error = np.maximum(error, 2 * unit_roundoff(part) * (size + rad))
    special = ~np.isfinite(a.mid) | ~np.isfinite(b.mid) | (size > part.max / 4)
    und = union(a.und, b.und, special if special.any() else None)
    return ctx.rounded(
        a.dtype,
        np.where(special, 0.0, mid),
        None if rad is None else np.where(special, 0.0, rad),
        und,
        error=np.where(special, 0.0, error),
    )


def divide(ctx: Context, a: Ball, b: Ball) -> Ball:
    mid = a.mid / b.mid
    ra, rb = radius(a), radius(b)
    size = np.abs(b.mid)
    near = size <= rb  # includes a division by zero: infinite or NaN, as the algorithm has it
    rad = None
    if a.rad is not None or b.rad is not None:
        rad = np.where(near, 0.0, (ra + np.abs(mid) * rb) / np.where(near, 1.0, size - rb))
    extreme = (size > 0) & (size < smallest_normal(a.dtype) * 16)
    und = union(a.und, b.und, near, extreme, lost_reciprocal(ctx, b))
    return disk(ctx, a.dtype, "divide", mid, rad, und, a, b)


def absolute(ctx: Context, to: DType, a: Ball) -> Ball:
    return disk(ctx, to, "abs", np.hypot(a.mid.real, a.mid.imag), a.rad, a.und, a)


def sign(ctx: Context, a: Ball) -> Ball:
    """z / |z|, and 0 for 0. |(z + d)/|z + d| - z/|z|| <= 2 r / |z|."""
    size = np.abs(a.mid)
    mid = np.where(size == 0, 0.0, a.mid / np.where(size == 0, 1.0, size))
    rad, und = None, a.und
    if a.rad is not None:
        near = (size <= a.rad) & (a.rad > 0)
        rad = np.where(near | (size == 0), 0.0, 2 * a.rad / np.where(size == 0, 1.0, size))
        und = union(und, near)
    extreme = (size > 0) & (size < smallest_normal(a.dtype))
    return disk(ctx, a.dtype, "sign", mid, rad, union(und, extreme), a)


# -- functions


@dataclass(frozen=True, slots=True)
class Function:
    """`value(z)`; `reach(z, r, f)` >= |f(z + d) - f| for |d| <= r, infinite or NaN where nothing is known; `cut(z)`
    for a branch cut on the negative real axis of cut(z).
    """

    value: Callable[[Array], Array]
    reach: Callable[[Array, Array, Array], Array]
    cut: Callable[[Array], Array] | None = None


def _expm1(z: Array) -> Array:
    half = np.sin(z.imag / 2)
    return joined(np.expm1(z.real) * np.cos(z.imag) - 2 * half * half, np.exp(z.real) * np.sin(z.imag))


def _log1p(z: Array) -> Array:
    """The real part as log1p(x (x + 2) + y y) / 2 for small z, and by hypot, which does not overflow, otherwise."""
    x, y = z.real, z.imag
    near = np.log1p(x * (x + 2) + y * y) / 2
    far = np.log(np.hypot(1 + x, y))
    return joined(np.where(np.abs(z) < 0.5, near, far), np.arctan2(y, 1 + x))


def _tanh(z: Array) -> Array:
    """Kahan's form, 1 - 2/(exp(2z) + 1) at heart: past |x| = 20 the result is +-1 to double precision, no overflow."""
    x, y = z.real, z.imag
    far = np.abs(x) > 20
    inner = np.where(far, 0.0, x)
    s, t = np.sinh(inner), np.tan(y)
    beta, rho = 1 + t * t, np.sqrt(1 + s * s)
    bottom = 1 + beta * s * s
    re = np.where(far, np.copysign(1.0, x), beta * rho * s / bottom)
    im = np.where(far, 4 * np.sin(y) * np.cos(y) * np.exp(-2 * np.abs(x)), t / bottom)
    return joined(re, im)


def _tan(z: Array) -> Array:
    turned = _tanh(joined(-z.imag, z.real))
    return joined(turned.imag, -turned.real)


def _logistic(z: Array) -> Array:
    small = np.exp(np.where(z.real < 0, z, -z))  # |small| <= 1
    found: Array = np.where(z.real < 0, small, 1.0) / (1 + small)
    return found


def _reach_tanh(z: Array, r: Array, f: Array) -> Array:
    # tanh(z + d) - tanh z = sinh d / (cosh z cosh(z + d)); |cosh(z + d)| >= |cosh z| cos r - |sinh z| sinh r for r < 1
    bounded = np.where(np.abs(z.real) > 20, 0.0, z)
    ch, sh = np.abs(np.cosh(bounded)), np.abs(np.sinh(bounded))
    least = ch * (2 - np.cosh(r)) - sh * np.sinh(r)
    near = np.where(least > 0, np.sinh(r) / (ch * np.where(least > 0, least, 1.0)), np.inf)
    away = np.where(
        r < 1,
        16 * r * np.exp(-2 * np.maximum(np.abs(z.real) - r, 0.0)),
        np.where(np.abs(z.real) - r > 20, 1e-15, np.inf),
    )
    return np.where(np.abs(z.real) > 20, away, near)


def _reach_sin(z: Array, r: Array, f: Array) -> Array:
    found: Array = np.abs(np.cos(z)) * np.sinh(r) + np.abs(f) * (np.cosh(r) - 1)
    return found


def _reach_cos(z: Array, r: Array, f: Array) -> Array:
    found: Array = np.abs(np.sin(z)) * np.sinh(r) + np.abs(f) * (np.cosh(r) - 1)
    return found


def _log_reach(size: Array, r: Array) -> Array:
    """|log(1 + w)| <= -log(1 - |w|) for |w| = r / size < 1."""
    return np.where(size > r, -np.log1p(-np.minimum(r / size, 1.0)), np.inf)


def _reach_sqrt(z: Array, r: Array, f: Array) -> Array:
    share = np.minimum(r / np.abs(z), 1.0)
    return np.where(np.abs(z) > r, np.abs(f) * (share / (1 + np.sqrt(1 - share))), np.inf)  # 1 - sqrt(1 - share)


def _reach_rsqrt(z: Array, r: Array, f: Array) -> Array:
    return np.abs(f) * np.expm1(_log_reach(np.abs(z), r) / 2)


FUNCTIONS: dict[str, Function] = {
    "exponential":           Function(np.exp, lambda z, r, f: np.abs(f) * np.expm1(r)),
    "exponential-minus-one": Function(_expm1, lambda z, r, f: np.exp(z.real) * np.expm1(r)),
    "log":          Function(np.log, lambda z, r, f: _log_reach(np.abs(z), r), lambda z: z),
    "log-plus-one": Function(_log1p, lambda z, r, f: _log_reach(np.abs(1 + z), r), lambda z: 1 + z),
    "sqrt":         Function(np.sqrt, _reach_sqrt, lambda z: z),
    "rsqrt":        Function(lambda z: 1 / np.sqrt(z), _reach_rsqrt, lambda z: z),
    "tanh":         Function(_tanh, _reach_tanh),
    "tan":          Function(_tan, lambda z, r, f: _reach_tanh(joined(-z.imag, z.real), r, f)),
    "logistic":     Function(_logistic, lambda z, r, f: _reach_tanh(z / 2, r / 2, f) / 2),
    "sine":         Function(np.sin, _reach_sin),
    "cosine":       Function(np.cos, _reach_cos),
}  # fmt: skip


def function(ctx: Context, opcode: str, a: Ball) -> Ball:
    if opcode not in FUNCTIONS:
        raise Unsupported(opcode, "of complex operands")
    chosen = FUNCTIONS[opcode]
    mid = chosen.value(a.mid)
    und = a.und
    rad = None
    if a.rad is not None:
        rad = np.where(a.rad > 0, chosen.reach(a.mid, a.rad, mid), 0.0)
    if chosen.cut is not None:
        und = union(und, on_cut(chosen.cut(a.mid), radius(a)))
    if ctx.policy.flush_subnormals:
        und = union(und, (a.mid != 0) & (np.abs(a.mid) < 4 * smallest_normal(a.dtype)))
    if opcode == "exponential-minus-one":
        # exp(x) cos(y) - 1 cancels next to the zeros 2 pi k; XLA's form is accurate next to 0 alone.
        rad = total(rad, 4 * unit_roundoff(a.dtype) * np.minimum(np.abs(a.mid) ** 2, 1.0))
    if opcode in ("tan", "tanh") and (fixed := ctx.policy.absolute.get(opcode, {}).get(a.dtype.name)):
        # Next to a pole, an error of the denominator counts |f|**2 times.
        rad = total(rad, 2 * fixed * unit_roundoff(a.dtype) * np.abs(mid) ** 2)
    if opcode == "logistic":
        # Next to a pole, 1 + exp(-z) cancels: a relative error e of exp(-z) moves the result by e f (1 - f).
        ulps = ctx.policy.routine_ulps("exponential", a.dtype.name) or 0.0
        rad = total(rad, (2 * ulps + 1) * unit_roundoff(a.dtype) * np.abs(mid * (1 - mid)))
    return disk(ctx, a.dtype, opcode, mid, rad, und, a)


def power(ctx: Context, a: Ball, b: Ball) -> Ball:
    """exp(b log a): the error of the logarithm is multiplied by |b|, so that it grows with |b log a|."""
    mid = np.power(a.mid, b.mid)
    size = np.abs(a.mid)
    ra, rb = radius(a), radius(b)
    log_a = np.abs(np.log(np.where(size == 0, 1.0, a.mid)))
    spread = (np.abs(b.mid) + rb) * _log_reach(np.where(size == 0, 1.0, size), ra) + rb * log_a
    ulps = ctx.policy.routine_ulps("power", a.dtype.name) or 0.0
    slack = 2 * ulps * unit_roundoff(a.dtype) * np.abs(b.mid) * (1 + log_a)
    rad = np.abs(mid) * (np.expm1(spread) + np.expm1(slack))
    whole = (b.mid.imag == 0) & (b.mid.real == np.rint(b.mid.real)) & (rb == 0)
    # |a|^re(b) and exp(-im(b) arg a) are multiplied: either may leave the range although the result does not.
    room = 0.95 * np.log(a.dtype.part.max)
    log_size = np.log(np.where(size == 0, 1.0, size))
    far = (np.abs(b.mid) * np.abs(log_size) > room) | (np.abs(b.mid.imag) * np.pi > room)
    und = union(a.und, b.und, size <= ra, on_cut(a.mid, ra) & ~whole, far)
    return disk(ctx, a.dtype, "power", mid, rad, und, a, b)


def atan2(ctx: Context, y: Ball, x: Ball) -> Ball:
    raise Unsupported("atan2", "of complex operands")
