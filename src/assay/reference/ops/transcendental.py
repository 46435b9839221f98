"""Functions that a target computes by its own routine: midpoints in float64, the routine's error from the policy in
ulps.

What an operand's radius r contributes is bounded by the largest slope over [x - r, x + r], written so that it stays
accurate for radii far below x. A ball that leaves the domain or touches a pole is undecided, unless it is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import Context, unit_roundoff
from assay.reference.ops import complex as complex_ops
from assay.reference.ops import rewrites
from assay.reference.ops.blocks import elementwise
from assay.reference.ops.elementwise import inexact, touches_zero, unsigned_zero
from assay.reference.value import Array, Ball, Value, held_dtype, total, union, wrap

LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one variable. `value(x)`; `reach(x, r, f)` >= |f(x + d) - f| for |d| <= r where `inside`; and where
    x +- r is inside the domain (None for everywhere). `rough(x)`: a faster one within 2**-50, for types below f64."""

    value: Callable[[Array], Array]
    reach: Callable[[Array, Array, Array], Array]
    inside: Callable[[Array, Array], Array] | None = None
    rough: Callable[[Array], Array] | None = None


def nearest(x: Array, r: Array) -> Array:
    """The distance from zero of the point of [x - r, x + r] nearest to it."""
    found: Array = np.maximum(np.abs(x) - r, 0.0)
    return found


def farthest(x: Array, r: Array) -> Array:
    return np.abs(x) + r


def _reach_cbrt(x: Array, r: Array, f: Array) -> Array:
    share = np.minimum(r / np.abs(x), 1.0)
    near = np.abs(f) * -np.expm1(np.log1p(-share) / 3)
    return np.where(share < 0.9, near, 1.6 * np.cbrt(r))  # |cbrt a - cbrt b| <= 2**(2/3) cbrt |a - b|


def _reach_tan(x: Array, r: Array, f: Array) -> Array:
    # tan(x + d) - tan x = sin d / (cos x cos(x + d))
    cosine = np.abs(np.cos(x))
    found: Array = r / (cosine * (cosine - r))
    return found


# Radii are mostly far below what they are the radii of. Where all are, two terms of a series do for a function that
# takes ten times as long, and a derivative changes little over a ball.
SMALL = 2.0**-10


def small(r: Array) -> bool:
    return bool(r.size) and bool(r.max() < SMALL)


def expm1_above(r: Array) -> Array:
    """At least exp(r) - 1, for r >= 0."""
    return r + r * r if small(r) else np.expm1(r)


def log1p_above(share: Array) -> Array:
    """At least -log(1 - share), for 0 <= share < 1; anything for a negative one."""
    return share + share * share if small(share) else -np.log1p(-share)


def _reach_rsqrt(x: Array, r: Array, f: Array) -> Array:
    share = r / x
    if small(share):
        return f * (share / 2 + share * share)
    return f * np.expm1(-np.log1p(-share) / 2)


def _reach_logistic(x: Array, r: Array, f: Array) -> Array:
    if small(r) and f.min() > 1e-300:
        # The slope f (1 - f) changes by at most a factor of exp(r) within r.
        return np.asarray(r * f * (1 - f + 2.0**-51) * (1 + 2 * r))
    found: Array = np.minimum(r / 4, np.minimum(_reach_exp(x, r, f), r * np.exp(-nearest(x, r))))
    return found


def _reach_exp(x: Array, r: Array, f: Array) -> Array:
    """f: exp(x), or a function below it with no larger relative slope. It may underflow where exp(x + r) does not."""
    found: Array = f * expm1_above(r)
    vanishing = f < 1e-300
    return np.where(vanishing, np.exp(x + r), found) if vanishing.any() else found


def _tanh(x: Array) -> Array:
    """tanh within 2**-50, four times as fast as NumPy's."""
    twice = np.expm1(np.clip(2 * x, -80, 80))
    found: Array = twice / (twice + 2)
    return found


def _reach_tanh(x: Array, r: Array, f: Array) -> Array:
    if small(r):
        # The slope 1 - f**2 changes by at most a factor of exp(2 r) within r.
        return np.asarray(r * (1 - f * f + 2.0**-48) * (1 + 4 * r))
    return np.asarray(r * np.minimum(1.0, 4 * np.exp(-2 * nearest(x, r))))


def _reach_wave(x: Array, r: Array, f: Array) -> Array:
    """For sine and cosine: the slope is the other one, whose square is 1 - f**2 but for roundings of 2**-51."""
    slope = np.sqrt(np.maximum(1 - f * f, 0.0)) + 2.0**-25
    return np.asarray(np.minimum(slope * r + r * r / 2, 2.0))


def _reach_asin(x: Array, r: Array, f: Array) -> Array:
    return np.asarray(r / np.sqrt(1 - farthest(x, r) ** 2))


def _reach_acosh(x: Array, r: Array, f: Array) -> Array:
    return np.asarray(r / np.sqrt(x - r - 1) / np.sqrt(x - r + 1))  # a square overflows


FUNCTIONS: dict[str, Function] = {
    "exponential":           Function(np.exp, _reach_exp),
    "exp2":                  Function(np.exp2, lambda x, r, f: _reach_exp(LN2 * x, LN2 * r, f) * (1 + 2.0**-40)),
    "exponential-minus-one": Function(np.expm1, lambda x, r, f: _reach_exp(x, r, np.exp(x))),
    "log":      Function(np.log, lambda x, r, f: log1p_above(r / x), lambda x, r: x > r),
    "log2":     Function(np.log2, lambda x, r, f: log1p_above(r / x) / LN2, lambda x, r: x > r),
    "log-plus-one": Function(np.log1p, lambda x, r, f: log1p_above(r / (1 + x)), lambda x, r: 1 + x > r),
    "sqrt":     Function(np.sqrt, lambda x, r, f: r / (f + np.sqrt(x - r)), lambda x, r: x >= r),
    "rsqrt":    Function(lambda x: 1 / np.sqrt(x), _reach_rsqrt, lambda x, r: x > r),
    "cbrt":     Function(np.cbrt, _reach_cbrt),
    "tanh":     Function(np.tanh, _reach_tanh, rough=_tanh),
    "logistic": Function(special.expit, _reach_logistic),
    "sine":     Function(np.sin, _reach_wave),
    "cosine":   Function(np.cos, _reach_wave),
    "tan":      Function(np.tan, _reach_tan, lambda x, r: np.abs(np.cos(x)) > r),
    "erf":      Function(special.erf, lambda x, r, f: r * 1.1284 * np.exp(-(nearest(x, r) ** 2))),
    "asin":     Function(np.arcsin, _reach_asin, lambda x, r: farthest(x, r) < 1),
    "acos":     Function(np.arccos, _reach_asin, lambda x, r: farthest(x, r) < 1),
    "atan":     Function(np.arctan, lambda x, r, f: r / (1 + nearest(x, r) ** 2)),
    "sinh":     Function(np.sinh, lambda x, r, f: np.cosh(farthest(x, r)) * r),
    "cosh":     Function(np.cosh, lambda x, r, f: np.sinh(farthest(x, r)) * r),
    "asinh":    Function(np.arcsinh, lambda x, r, f: r / np.hypot(1, nearest(x, r))),
    "acosh":    Function(np.arccosh, _reach_acosh, lambda x, r: x - r > 1),
    "atanh":    Function(np.arctanh, lambda x, r, f: r / (1 - farthest(x, r) ** 2), lambda x, r: farthest(x, r) < 1),
}  # fmt: skip

# Where a ball that crosses the edge of a domain lies wholly outside, every correct result is NaN.
OUTSIDE: dict[str, Callable[[Array, Array], Array]] = {
    "log":      lambda x, r: x < -r,
    "log2":     lambda x, r: x < -r,
    "log-plus-one": lambda x, r: 1 + x < -r,
    "sqrt":     lambda x, r: x < -r,
    "rsqrt":    lambda x, r: x < -r,
    "asin":     lambda x, r: np.abs(x) - r > 1,
    "acos":     lambda x, r: np.abs(x) - r > 1,
    "acosh":    lambda x, r: x + r < 1,
    "atanh":    lambda x, r: np.abs(x) - r > 1,
}  # fmt: skip


@elementwise(*FUNCTIONS)
def unary(ctx: Context, instr: Instruction, a: Ball) -> Value:
    if a.dtype.is_complex:
        return complex_ops.function(ctx, instr.opcode, a)
    function = FUNCTIONS[instr.opcode]
    value = function.value if function.rough is None or a.dtype.name == "f64" else function.rough
    mid = value(a.mid)
    und = a.und
    if instr.opcode == "rsqrt" and not a.mid.all():
        und = union(und, unsigned_zero(a.mid))  # an infinity of unknown sign
    rad = None
    if a.rad is not None:
        rad, und = propagated(instr.opcode, function, a, mid, und)
    error: Array | None = None
    if instr.opcode == "logistic":
        error = _lost_to_overflow(a, mid)
    if instr.opcode == "log":
        rad = total(rad, rewrites.logarithm(ctx, instr, a.dtype, mid))
    return routine(ctx, instr.opcode, a.dtype, mid, rad, und, a.mid, error)


def _lost_to_overflow(a: Ball, mid: Array) -> Array | None:
    """logistic(x) by 1 / (1 + exp(-x)) in the type itself: 0 from where exp(-x) overflows on, in f16 from 2**-16 on,
    which is subnormal (XLA:CPU, jaxlib 0.10.2 and 0.12.0.1). None for nowhere.
    """
    low = a.mid if a.rad is None else a.mid - a.rad
    lost = low * (1 + unit_roundoff(a.dtype)) < -np.log(a.dtype.max)
    return np.where(lost, mid, 0.0) if lost.any() else None


def routine(
    ctx: Context,
    opcode: str,
    dtype: DType,
    mid: Array,
    rad: Array | None,
    und: Array | None,
    operand: Array | None = None,
    error: Array | None = None,
) -> Ball:
    """The result of a target's own routine, whose error the policy has in up to four parts, and `error` more."""
    policy, name = ctx.policy, dtype.name
    ulp = 2 * unit_roundoff(dtype)
    parts: list[Array] = [] if error is None else [error]
    if any(opcode in table for table in (policy.near_overflow, policy.per_octave, policy.absolute)):
        size = np.where(np.isfinite(mid), np.abs(mid), 0.0)
    if edge := policy.near_overflow.get(opcode, {}).get(name):
        near = size > dtype.max / 8
        if near.any():
            parts.append(np.where(near, edge * ulp * size, 0.0))
    if slope := policy.per_octave.get(opcode, {}).get(name):
        assert operand is not None
        octaves = np.abs(np.log2(np.where((operand == 0) | ~np.isfinite(operand), 1.0, np.abs(operand))))
        parts.append(slope * octaves * ulp * size)
    if fixed := policy.absolute.get(opcode, {}).get(name):
        parts.append(np.where(size > 0, fixed * ulp, 0.0))
    return ctx.rounded(dtype, mid, rad, und, ulps=policy.routine_ulps(opcode, name), error=total(*parts))


def propagated(opcode: str, function: Function, a: Ball, mid: Array, und: Array | None) -> tuple[Array, Array | None]:
    """What the operand's radius contributes, and where it leaves the result open."""
    assert a.rad is not None
    moved = (a.rad > 0) & ~np.isnan(a.mid)
    rad = function.reach(a.mid, a.rad, mid)
    if not moved.all():
        rad = np.where(moved, rad, 0.0)
    inside = None if function.inside is None else function.inside(a.mid, a.rad)
    if inside is not None and not inside.all():
        # An exact operand at the edge is fine: log 0 is -inf and sqrt 0 is 0.
        outside = OUTSIDE[opcode](a.mid, a.rad) if opcode in OUTSIDE else np.False_
        und = union(und, moved & ~inside & ~outside)
        rad = np.where(inside, rad, 0.0)
    infinite = np.isinf(mid)
    if (
        infinite.any() and (over := moved & infinite & np.isfinite(a.mid)).any()
    ):  # the midpoint overflows, but does every result?
        ends = [function.value(x) == mid for x in (a.mid - a.rad, a.mid + a.rad)]
        und = union(und, over & ~(ends[0] & ends[1] & (np.abs(a.mid) > a.rad)))
    return rad, und  # NaN, such as of 0 exp(inf), is what `settled` takes for "no bound"


@elementwise("atan2")
def atan2(ctx: Context, instr: Instruction, y: Ball, x: Ball) -> Value:
    """The angle of (x, y). It jumps across the negative x axis, and the sign of a zero y chooses the side."""
    if y.dtype.is_complex:
        return complex_ops.atan2(ctx, y, x)
    mid = np.arctan2(y.mid, x.mid)
    und = union(y.und, x.und, rewrites.lost_reciprocal(ctx, y, x))
    flat = (y.mid == 0) & (np.signbit(x.mid) | (x.mid == 0))
    if flat.any():
        # 0 or pi for a zero x, +pi or -pi for a negative one: signs of zeros that are not known.
        und = union(und, flat & (unsigned_zero(y.mid) | unsigned_zero(x.mid)))
    rad = None
    if y.rad is not None or x.rad is not None:
        off = np.hypot(0.0 if y.rad is None else y.rad, 0.0 if x.rad is None else x.rad)
        size = np.hypot(y.mid, x.mid)
        low_x = x.mid if x.rad is None else x.mid - x.rad
        side = touches_zero(y)
        und = union(und, off >= np.where(off > 0, size, np.inf), None if side is None else side & (low_x <= 0))
        if x.rad is not None:
            und = union(und, (y.mid == 0) & (x.rad > 0) & (low_x <= 0) & (np.abs(x.mid) <= x.rad))
        share = np.where(np.isfinite(size) & (size > 0), np.minimum(off / size, 1.0), 0.0)
        rad = np.arcsin(share)
    return routine(ctx, "atan2", y.dtype, mid, rad, und)


@elementwise("power")
def power(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    if a.dtype.is_complex:
        return complex_ops.power(ctx, a, b)
    if not inexact(a.dtype):
        return Ball(a.dtype, integer_power(a, b), None, union(a.und, b.und))
    mid = np.power(a.mid, b.mid)
    und = union(a.und, b.und, special_power(a, b, mid))
    rad = None
    if a.rad is not None or b.rad is not None:
        rad, open_ = power_radius(a, b, mid)
        und = union(und, open_)
    rad = total(rad, rewrites.merged_exponentials(ctx, instr, a.dtype, mid))
    return routine(ctx, "power", a.dtype, mid, rad, und)


def special_power(a: Ball, b: Ball, mid: Array) -> Array | None:
    """Where C's pow and its rewritings (a square root for 1/2, a quotient for negative exponents) differ."""
    root = np.isneginf(a.mid) & (b.mid == 0.5)
    nan = (np.isnan(a.mid) | np.isnan(b.mid)) & ~np.isnan(mid)  # pow(1, nan), pow(nan, 0)
    if a.rad is not None:
        nan = nan | (np.isnan(b.mid) & (np.abs(a.mid - 1) <= a.rad))
    if b.rad is not None:
        nan = nan | (np.isnan(a.mid) & (np.abs(b.mid) <= b.rad))
    sign = np.isinf(mid) & unsigned_zero(a.mid)
    found = root | nan | sign
    return found if found.any() else None


def power_radius(a: Ball, b: Ball, mid: Array) -> tuple[Array, Array | None]:
    """|(x + d)^(y + e) - x^y| <= |x|^y (exp(|y ln x - ...|) - 1) for x > 0; whole exact exponents for any x."""
    ra = np.zeros_like(mid) if a.rad is None else a.rad
    rb = np.zeros_like(mid) if b.rad is None else b.rad
    x, y = a.mid, b.mid
    moved = (ra > 0) | (rb > 0)
    whole = (rb == 0) & (y == np.rint(y)) & np.isfinite(y)
    log_shift = log1p_above(np.minimum(ra / np.abs(x), 1.0))  # largest |ln(x + d) - ln x|
    spread = (np.abs(y) + rb) * log_shift + np.where(rb == 0, 0.0, rb * np.abs(np.log(np.abs(x))))
    away = np.abs(x) > ra
    positive = away & (x > 0)
    rad = np.abs(mid) * expm1_above(spread)
    # A ball around zero: |(x + d)^n - x^n| <= (|x| + r)^n + |x|^n for n >= 1, x^0 is 1, and there is a pole for n < 0.
    if not away.all():
        near = np.where(y == 0, 0.0, np.power(np.abs(x) + ra, y) + np.abs(mid))
        rad = np.where(away, rad, near)
    fine = positive | (whole & (away | (y >= 0)))
    # x^y of a negative x is NaN for any y that is no whole number.
    all_nan = (x < -ra) & (rb == 0) & ~whole & np.isfinite(x)
    open_ = moved & ~fine & ~all_nan & ~(np.isnan(x) | np.isnan(y))
    open_ = open_ | (moved & (np.isinf(x) | np.isinf(y) | np.isinf(mid)))
    return np.where(moved & fine, rad, 0.0), open_


def integer_power(a: Ball, b: Ball) -> Array:
    """Wraps. A negative exponent gives 0, except for 1 and -1."""
    held = held_dtype(a.dtype)
    exponent = b.mid.astype(np.int64) if b.dtype.kind == "signed" else b.mid.astype(np.uint64)
    result = np.ones_like(a.mid)
    square = a.mid.copy()
    remaining = np.where(exponent < 0, 0, exponent).astype(np.uint64)
    while remaining.any():
        result = np.where(remaining & np.uint64(1), wrap(a.dtype, result * square), result)
        square = wrap(a.dtype, square * square)
        remaining = remaining >> np.uint64(1)
    if a.dtype.kind == "signed":
        odd = (b.mid & 1) != 0
        inverse = np.where(a.mid == 1, 1, np.where(a.mid == -1, np.where(odd, -1, 1), 0))
        result = np.where(b.mid < 0, inverse, result)
    return np.asarray(wrap(a.dtype, np.asarray(result)), held)
