"""`reduce`: known bodies as NumPy reductions (`folds`), argmax and argmin as jax writes them, any other body in
whole arrays.

XLA leaves the order of a reduction open, and asks for an associative body. For a body that is not recognised, two
orders are run, a balanced tree and runs of about sqrt(n) terms, both of which keep neighbours together. Where the
two agree within their bounds the result is their hull, with twice the radius for the orders not tried; where they
contradict each other the body is not associative and the element is undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np

from assay.hlo import attributes
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import TupleShape
from assay.reference.bodies import body_kind, call_batched, component_kinds
from assay.reference.context import Context, mark, unit_roundoff
from assay.reference.folds import ONCE, broadcast_ball, fold, kept_dims, over_axes
from assay.reference.ops import rewrites
from assay.reference.ops.movement import joined, moved
from assay.reference.registry import operation
from assay.reference.value import Ball, Value, flatten, union

__all__ = ["body_kind", "call_batched"]


@operation("reduce")
def reduce(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    count = len(operands) // 2
    inputs, inits = operands[:count], operands[count:]
    axes = attributes.int_list(instr, "dimensions")
    body = attributes.computation(instr, "to_apply")
    results = reduced(ctx, body, inputs, inits, axes)
    if known_kinds(ctx, body, count) == ("add",):
        unseen = rewrites.overflow_unseen_in_sum(ctx, instr, inputs[0], results[0].mid, tuple(axes))
        results = results if unseen is None else (mark(results[0], unseen),)
    return results if isinstance(instr.shape, TupleShape) else results[0]


def reduced(
    ctx: Context, body: str, inputs: Sequence[Ball], inits: Sequence[Ball], axes: Sequence[int]
) -> tuple[Ball, ...]:
    """The reduction of `inputs`, all of one shape, over `axes` by the computation `body`, from the scalars `inits`."""
    shape = inputs[0].mid.shape
    dims = kept_dims(shape, axes)
    if prod(shape[axis] for axis in axes) == 0:
        return tuple(broadcast_ball(init, dims) for init in inits)
    kinds = known_kinds(ctx, body, len(inputs))
    if kinds is not None:
        over = over_axes(ctx, shape, axes)
        return tuple(fold(ctx, kind, x, init, over) for kind, x, init in zip(kinds, inputs, inits, strict=True))
    found = reduced_lines(ctx, body, [_in_line(x, axes) for x in inputs], inits)
    return tuple(moved(x, lambda part: part.reshape(dims)) for x in found)


def known_kinds(ctx: Context, body: str, count: int) -> tuple[str, ...] | None:
    """The kind of each component of a body, None unless all are known and free of order."""
    kinds = component_kinds(ctx.module, body, count)
    known = tuple(kind for kind in kinds if kind is not None and kind != "assign")
    return known if len(known) == count else None


def reduced_lines(ctx: Context, body: str, lines: Sequence[Ball], inits: Sequence[Ball]) -> tuple[Ball, ...]:
    """The reduction of arrays (n, results) over n, for a body that is no fold."""
    direction = extremum_kind(ctx.module, body) if len(lines) == 2 else None
    found: tuple[Ball, ...]
    if direction is not None:
        found = _extremum(ctx, direction, lines[0], lines[1], inits[0], inits[1])
    else:
        found = _any_body(ctx, body, lines, inits)
    n = len(lines[0].mid)
    return _of_any_start(ctx, body, found, lines, inits) if n == 1 or n > ONCE else found


def _of_any_start(
    ctx: Context, body: str, found: tuple[Ball, ...], lines: Sequence[Ball], inits: Sequence[Ball]
) -> tuple[Ball, ...]:
    """As `folds.of_any_start`: decided where one initial value more, or none, gives the same."""
    if len(lines[0].mid) > 1:
        return with_one_start_more(ctx, body, found, inits)
    return where_same(ctx, found, [_rows(x, 0) for x in lines])


def with_one_start_more(ctx: Context, body: str, found: tuple[Ball, ...], inits: Sequence[Ball]) -> tuple[Ball, ...]:
    """Undecided where one initial value more makes a difference."""
    starts = [broadcast_ball(init, found[0].mid.shape) for init in inits]
    amplitude, ctx.amplitude = ctx.amplitude, 0.0  # an error drawn on the way is no difference
    try:
        again = call_batched(ctx, body, [*starts, *found])
    finally:
        ctx.amplitude = amplitude
    return where_same(ctx, found, [x for x in flatten(again) if isinstance(x, Ball)])


def where_same(ctx: Context, found: tuple[Ball, ...], others: Sequence[Ball]) -> tuple[Ball, ...]:
    """`found`, undecided where one of the others is another value, not to be told by a small part of a rounding."""
    if ctx.resolved is not None:
        return tuple(others) if ctx.resolved else found
    results = []
    for one, other in zip(found, others, strict=True):
        same = (one.mid == other.mid) | ((one.mid != one.mid) & (other.mid != other.mid))
        rad = one.rad
        if rad is not None and not same.all():
            apart = np.where(np.isfinite(one.mid), np.abs(one.mid - other.mid), np.inf)
            near = ~same & (64 * apart <= unit_roundoff(one.dtype) * np.abs(one.mid))
            rad = rad + np.where(near, 64 * apart, 0.0)
            same |= near
        results.append(mark(Ball(one.dtype, one.mid, rad, one.und), ~same))
    return tuple(results)


def _in_line(x: Ball, axes: Sequence[int]) -> Ball:
    """(n, results): the reduced axes first and as one."""
    n = prod(x.mid.shape[axis] for axis in axes)
    return moved(x, lambda part: np.moveaxis(part, axes, range(len(axes))).reshape(n, -1))


# ---------------------------------------------------------------- any body


def _any_body(ctx: Context, body: str, lines: Sequence[Ball], inits: Sequence[Ball]) -> tuple[Ball, ...]:
    starts = [broadcast_ball(init, lines[0].mid.shape[1:]) for init in inits]

    def apply(first: Sequence[Ball], second: Sequence[Ball]) -> list[Ball]:
        return [leaf for leaf in flatten(call_batched(ctx, body, [*first, *second])) if isinstance(leaf, Ball)]

    def tree(parts: Sequence[Ball]) -> list[Ball]:
        n = len(parts[0].mid)
        while n > 1:
            even = n - n % 2
            merged = apply([_rows(x, slice(0, even, 2)) for x in parts], [_rows(x, slice(1, even, 2)) for x in parts])
            if n % 2:
                rest = [_rows(x, slice(even, n)) for x in parts]
                merged = [joined(pair, np.concatenate) for pair in zip(merged, rest, strict=True)]
            parts = merged
            n = len(parts[0].mid)
        return [_rows(x, 0) for x in parts]

    def runs(parts: Sequence[Ball]) -> list[Ball]:
        n = len(parts[0].mid)
        length = isqrt(n)
        count = n // length
        chunks = [_rows(x, slice(0, count * length)) for x in parts]
        chunks = [moved(x, lambda p: p.reshape(count, length, -1)) for x in chunks]
        run = [_columns(x, 0) for x in chunks]
        for step in range(1, length):
            run = apply(run, [_columns(x, step) for x in chunks])
        total = starts
        for step in range(count):
            total = apply(total, [_rows(x, step) for x in run])
        for step in range(count * length, n):
            total = apply(total, [_rows(x, step) for x in parts])
        return total

    if ctx.rng is not None:
        # One legal order for each sampled run.
        first = ctx.rng.random() < 0.5 if ctx.resolved is None else ctx.resolved == 0
        return tuple(apply(starts, tree(lines)) if first else runs(lines))
    one, other = apply(starts, tree(lines)), runs(lines)
    return tuple(_either(ctx, a, b, len(lines[0].mid)) for a, b in zip(one, other, strict=True))


def _rows(x: Ball, where: slice | int) -> Ball:
    return moved(x, lambda part: part[where])


def _columns(x: Ball, where: int) -> Ball:
    return moved(x, lambda part: part[:, where])


def _either(ctx: Context, a: Ball, b: Ball, n: int) -> Ball:
    """What two orders of one reduction allow."""
    und = union(a.und, b.und)
    if not (a.dtype.is_float or a.dtype.is_complex):
        differ = a.mid != b.mid
        if not differ.any():
            return Ball(a.dtype, a.mid, None, und)
        ctx.notes.add("a reduction's body is not associative")
        if ctx.resolved is not None:
            return Ball(a.dtype, (a, b)[ctx.resolved].mid, None, und)
        return Ball(a.dtype, a.mid, None, union(und, differ))
    ra = np.zeros(a.mid.shape) if a.rad is None else a.rad
    rb = np.zeros(b.mid.shape) if b.rad is None else b.rad
    same = (a.mid == b.mid) | (np.isnan(a.mid) & np.isnan(b.mid))
    apart = np.where(same, 0.0, np.abs(a.mid - b.mid))
    # The orders that were not tried may be off by as much again.
    rad = np.where(same & ~np.isfinite(a.mid), 0.0, 2 * np.maximum(ra, rb + apart))
    clash = ~(apart <= ra + rb)
    if clash.any():
        ctx.notes.add("a reduction's body is not associative")
        if ctx.resolved is not None:
            return Ball(a.dtype, (a, b)[ctx.resolved].mid, np.where(clash, 2 * (ra, rb)[ctx.resolved], rad), und)
        und = union(und, clash)
        rad = np.where(clash, 0.0, rad)
    if n <= 2:
        rad = np.maximum(ra, rb)
    return Ball(a.dtype, a.mid, rad if rad.any() else None, und)


# ---------------------------------------------------------------- argmax and argmin


def extremum_kind(module: Module, name: str) -> str | None:
    """`maximum` or `minimum` where the body is the one of jax.lax.argmax or argmin (jax/_src/lax/lax.py,
    _compute_argminmax).

    The larger value wins, NaN before all; of equal values the smaller index.
    """
    body = module.by_name[name]
    found = _expression(body, body.root_name)
    for kind, wins in (("maximum", ("<", 2, 0)), ("minimum", ("<", 0, 2))):
        tie = _commuted("and", _commuted("=", 0, 2), ("<", 1, 3))
        for first in (wins, _commuted("or", wins, ("!", 0, 0))):
            index = _commuted("or", first, tie)
            if found == ("tuple", ("select", first, 0, 2), ("select", index, 1, 3)):
                return kind
    return None


_Expression = object  # a parameter's number, or a tuple of an operation and its operands


def _commuted(op: str, *operands: _Expression) -> _Expression:
    return (op, *sorted(operands, key=repr))


def _expression(body: Computation, name: str) -> _Expression:
    """The tree under an instruction in a form that does not show the order of operands where none matters."""
    instruction = body.by_name[name]
    if instruction.parameter_number is not None:
        return instruction.parameter_number
    operands = [_expression(body, operand) for operand in instruction.operands]
    if instruction.opcode == "compare" and instruction.attributes.get("type", "").upper() != "TOTALORDER":
        direction = attributes.word(instruction, "direction")
        match direction:
            case "LT":
                return ("<", *operands)
            case "GT":
                return ("<", *reversed(operands))
            case "EQ" | "NE":
                return _commuted("=" if direction == "EQ" else "!", *operands)
    if instruction.opcode in ("and", "or"):
        return _commuted(instruction.opcode, *operands)
    if instruction.opcode in ("select", "tuple"):
        return (instruction.opcode, *operands)
    return (instruction.opcode, name)


def _extremum(ctx: Context, kind: str, x: Ball, index: Ball, init: Ball, init_index: Ball) -> tuple[Ball, Ball]:
    """x, index: (n, results). The index is undecided where the winner's ball meets another candidate's."""
    best = fold(ctx, kind, x, init, over_axes(ctx, x.mid.shape, (0,)))
    sign = 1 if kind == "maximum" else -1
    nan = np.isnan(best.mid)
    if x.rad is None and init.rad is None:
        # Ties are between equals, and the smaller index wins in every order.
        ties = (x.mid == best.mid) | (nan & np.isnan(x.mid))
        start_ties = (init.mid == best.mid) | (nan & np.isnan(init.mid))
        und = union(best.und, None if x.und is None else np.asarray(x.und.any(0)))
        if nan.any():
            und = union(und, nan & (ties.sum(0) + start_ties > 1))
    else:
        zero = np.zeros(())
        low = sign * x.mid - (zero if x.rad is None else x.rad)
        high = sign * x.mid + (zero if x.rad is None else x.rad)
        start_low = sign * init.mid - (zero if init.rad is None else init.rad)
        start_high = sign * init.mid + (zero if init.rad is None else init.rad)
        bar = np.maximum(low.max(0), start_low)
        rivals = (high >= bar) | np.isnan(x.mid)
        start_rival = (start_high >= bar) | np.isnan(init.mid)
        settled = (~rivals | (low == high)).all(0) & (~start_rival | (start_low == start_high))
        alone = rivals.sum(0) + start_rival == 1
        peak = np.maximum((sign * x.mid).max(0), sign * init.mid)
        ties = (sign * x.mid == peak) | (nan & np.isnan(x.mid))
        start_ties = np.broadcast_to((sign * init.mid == peak) | (nan & np.isnan(init.mid)), peak.shape)
        und = union(best.und, None if x.und is None else np.asarray(x.und.any(0)), ~(settled | alone) | (nan & ~alone))
    last = np.iinfo(index.mid.dtype).max
    smallest = np.where(ties, index.mid, last).min(0)
    smallest = np.where(start_ties, np.minimum(smallest, init_index.mid), smallest).astype(index.mid.dtype)
    und = union(und, None if index.und is None else np.asarray(index.und.any(0)))
    return best, Ball(index.dtype, smallest, None, und if und is not None and und.any() else None)
