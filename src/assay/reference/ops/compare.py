"""Comparisons and selection. A comparison is decided where the balls do not overlap, or where both are exact.

NaN compares false with everything, `NE` apart. In the total order -NaN < -inf < ... < -0 < +0 < ... < NaN; signs of
NaN and zero are not tracked (see `elementwise`), so an element whose answer hangs on one is undecided.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES
from assay.reference.context import Context
from assay.reference.ops.blocks import elementwise
from assay.reference.ops.elementwise import bounds, inexact, signed, spread, unsigned_zero
from assay.reference.ops.ordering import float_codes
from assay.reference.value import Array, Ball, Value, union

DIRECTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


@elementwise("compare")
def compare(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    direction = attributes.word(instr, "direction")
    total = "TOTALORDER" in (attributes.word(instr, "type", ""), attributes.word(instr, "order", "") + "ORDER")
    if direction not in DIRECTIONS:
        raise Unsupported("compare", f"direction={direction}")
    mid = DIRECTIONS[direction](a.mid, b.mid)
    und = union(a.und, b.und)
    if not inexact(a.dtype):
        return Ball(DTYPES["pred"], mid, None, und)
    if total:
        if ctx.resolved is None:
            mid, unsure = total_order(direction, a, b)
            und = union(und, unsure)
        else:
            mid = DIRECTIONS[direction](*(float_codes(signed(ctx, x.mid)) for x in (a, b)))
    if a is not b and (a.rad is not None or b.rad is not None):  # x != x asks for NaN alone
        und = union(und, overlapping(direction, a, b))
    return Ball(DTYPES["pred"], mid, None, und)


def overlapping(direction: str, a: Ball, b: Ball) -> Array | None:
    """Where the errors of two float operands leave a comparison open, None for nowhere."""
    decided = None if a.dtype.is_complex else apart(direction, a, b)
    if decided is not None and decided.all():
        return None
    inexact_pair = union(*(None if ball.rad is None else ball.rad > 0 for ball in (a, b)))
    assert inexact_pair is not None
    numbers = ~(np.isnan(a.mid) | np.isnan(b.mid))
    if decided is None:
        reach = (0 if a.rad is None else a.rad) + (0 if b.rad is None else b.rad)
        return np.asarray(inexact_pair & numbers & ~(np.abs(a.mid - b.mid) > reach))
    return inexact_pair & numbers & ~decided


def apart(direction: str, a: Ball, b: Ball) -> Array:
    """Where two balls are so far apart that a comparison has one answer."""
    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    if direction in ("LT", "GE"):
        return np.asarray((a_high < b_low) | (a_low >= b_high))
    if direction in ("GT", "LE"):
        return np.asarray((a_low > b_high) | (a_high <= b_low))
    return np.asarray((a_high < b_low) | (a_low > b_high))


def total_order(direction: str, a: Ball, b: Ball) -> tuple[Array, Array | None]:
    """The answer of a total-order comparison, a NaN being the largest, and where the sign of a NaN or a zero decides
    it.
    """
    a_nan, b_nan = np.isnan(a.mid), np.isnan(b.mid)
    mid = DIRECTIONS[direction](np.where(a_nan, np.inf, a.mid), np.where(b_nan, np.inf, b.mid))
    either = a_nan | b_nan
    unsure: Array | None = None
    if either.any():
        mid = np.where(either, DIRECTIONS[direction](a_nan.astype(np.int8), b_nan.astype(np.int8)), mid)
        unsure = (a_nan & np.signbit(a.mid)) | (b_nan & np.signbit(b.mid))
    signed = (a.mid == 0) & (b.mid == 0) & (unsigned_zero(a.mid) | unsigned_zero(b.mid))
    return mid, union(unsure, signed if signed.any() else None)


@elementwise("select")
def select(ctx: Context, instr: Instruction, pred: Ball, on_true: Value, on_false: Value) -> Value:
    if isinstance(on_true, tuple):
        assert isinstance(on_false, tuple)
        return tuple(select(ctx, instr, pred, t, f) for t, f in zip(on_true, on_false, strict=True))
    if not isinstance(on_true, Ball) or not isinstance(on_false, Ball):
        return on_true
    return selected(spread(pred, on_true.dims), on_true, on_false)


def selected(pred: Ball, t: Ball, f: Ball) -> Ball:
    """`t` where `pred`, else `f`. Where `pred` is undecided, what holds both: their hull, or undecided where integers
    differ.
    """
    mid = np.where(pred.mid, t.mid, f.mid)
    rad = None
    if t.rad is not None or f.rad is not None:
        rad = np.where(pred.mid, 0.0 if t.rad is None else t.rad, 0.0 if f.rad is None else f.rad)
    und = None
    if t.und is not None or f.und is not None:
        und = np.where(pred.mid, False if t.und is None else t.und, False if f.und is None else f.und)
    if pred.und is None or not pred.und.any():
        return Ball(t.dtype, mid, rad, und)
    open_ = pred.und
    same = (t.mid == f.mid) | (np.isnan(t.mid) & np.isnan(f.mid)) if inexact(t.dtype) else t.mid == f.mid
    either_und = union(t.und, f.und)
    if not inexact(t.dtype):
        return Ball(t.dtype, mid, None, union(und, open_ & ~same, None if either_und is None else open_ & either_und))
    apart = open_ & ~same & ~(np.isfinite(t.mid) & np.isfinite(f.mid))
    und = union(und, apart, None if either_und is None else open_ & either_und)
    hull_mid, hull_rad = hull(t, f)
    if np.isinf(hull_rad).any():
        und = union(und, open_ & ~same & np.isinf(hull_rad))
    return Ball(
        t.dtype,
        np.where(open_ & ~apart & ~same, hull_mid, mid),
        np.where(open_ & ~apart & np.isfinite(hull_rad), hull_rad, 0.0 if rad is None else rad),
        und,
    )


def hull(a: Ball, b: Ball) -> tuple[Array, Array]:
    """A midpoint and radius that hold two balls, complex ones too; 0 for the radius where a midpoint is not finite,
    an infinity where no radius holds both.

    As `value.enclosing` does: a hair more, where one is much larger and the other is lost in the last digit.
    """
    a_rad = np.zeros(a.dims) if a.rad is None else a.rad
    b_rad = np.zeros(b.dims) if b.rad is None else b.rad
    mid = np.where(a.mid == b.mid, a.mid, a.mid / 2 + b.mid / 2)
    rad = np.maximum(np.abs(a.mid - mid) + a_rad, np.abs(b.mid - mid) + b_rad)
    rad = np.where(a.mid == b.mid, rad, rad * (1 + 2.0**-50))
    return mid, np.where(np.isfinite(a.mid) & np.isfinite(b.mid), rad, 0.0)
