"""sort and topk.

Keys whose balls do not overlap have one order; so do exact keys that are equal, where the sort is stable. Elsewhere
elements form *clusters*: the sorted keys themselves are order statistics and stay decided with a radius (the j-th
smallest of intervals lies between the j-th smallest of their ends). A float that travels with them is one of its
cluster's, and has their hull for a ball; anything else is undecided unless it is equal all over the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attributes import computation, flag, int_list
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape, TupleShape
from assay.reference.bodies import call_batched
from assay.reference.context import Context
from assay.reference.ops.elementwise import signed
from assay.reference.ops.movement import moved
from assay.reference.ops.ordering import HIGHEST, LOWEST, Key, code_floats, key_body, key_codes, lexicographic
from assay.reference.registry import custom_call, operation
from assay.reference.value import Array, Ball, Value, as_ball, enclosing, held_dtype, union


@dataclass(slots=True)
class _Sorted:
    """The order of each lane (lanes, n).

    order: the indices in sorted order. joint: (lanes, n - 1), neighbours that may change places; None where none may.
    broken: (lanes,), where nothing can be said. values: of the first key, the j-th smallest's range as codes, where
    it is not exact.
    """

    order: Array
    joint: Array | None = None
    broken: Array | None = None
    values: tuple[Array, Array] | None = None


@operation("sort")
def sort(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    axes = int_list(instr, "dimensions")
    axis = axes[0] if axes else -1
    if operands[0].mid.size == 0 or operands[0].mid.ndim == 0:
        return operands if len(operands) > 1 else operands[0]
    lanes = [moved(operand, _lanes(axis)) for operand in operands]
    name = computation(instr, "to_apply")
    stable = flag(instr, "is_stable")
    if ("order", name) not in ctx.memo:
        ctx.memo["order", name] = lexicographic(ctx.module, name)
    keys: tuple[Key, ...] | None = ctx.memo["order", name]
    if keys is None:
        found = _by_network(ctx, name, lanes, stable)
    else:
        found = _by_keys(ctx, keys, [_key_ball(ctx, ctx.module.by_name[name], key, lanes) for key in keys], stable)
    results = [_rearranged(ctx, lane, found, keys, i) for i, lane in enumerate(lanes)]
    shape = np.moveaxis(operands[0].mid, axis, -1).shape
    shaped = tuple(moved(r, lambda x: np.moveaxis(x.reshape(shape), -1, axis)) for r in results)
    return shaped if len(shaped) > 1 else shaped[0]


def _lanes(axis: int) -> Callable[[Array], Array]:
    def lanes(x: Array) -> Array:
        last = np.moveaxis(x, axis, -1)
        return last.reshape(-1, last.shape[-1])

    return lanes


@operation("topk")
def topk(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The k largest (smallest) of the last dimension in descending (ascending) total order, and where they stood; of
    equals the first, as chlo.top_k says, unless is_stable=false.
    """
    return _top(ctx, instr, a, flag(instr, "largest", True), flag(instr, "is_stable", True))


@custom_call("TopK")
def custom_topk(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """XLA:CPU's own (runtime_topk.cc): integers of the floats' total order, ties to the lower index."""
    if len(operands) != 1:
        raise Unsupported("custom-call TopK", "of several operands")
    return _top(ctx, instr, operands[0], True, True)


def _top(ctx: Context, instr: Instruction, a: Ball, largest: bool, stable: bool) -> Value:
    assert isinstance(instr.shape, TupleShape)
    values, indices = instr.shape.elements
    assert isinstance(values, ArrayShape)
    assert isinstance(indices, ArrayShape)
    k = values.dims[-1]
    lane = moved(a, _lanes(-1)) if a.mid.size else a
    if a.mid.size == 0:
        empty = np.zeros(indices.dims, held_dtype(indices.dtype))
        return moved(a, lambda x: np.zeros(values.dims, x.dtype)), Ball(indices.dtype, empty)
    key = Key(0, "", descending=largest, total=a.dtype.is_float)
    found = _by_keys(ctx, (key,), [lane], stable)
    counter = np.broadcast_to(np.arange(lane.dims[-1], dtype=held_dtype(indices.dtype)), lane.dims)
    best = _rearranged(ctx, lane, found, (key,), 0)
    where = _rearranged(ctx, Ball(indices.dtype, counter), found, (key,), 1)
    return (
        moved(best, lambda x: x[:, :k].reshape(values.dims)),
        moved(where, lambda x: x[:, :k].reshape(indices.dims)),
    )


# ---------------------------------------------------------------- order by keys


def _key_ball(ctx: Context, body: Computation, key: Key, lanes: Sequence[Ball]) -> Ball:
    if body.by_name[key.name].parameter_number is not None:
        return lanes[key.operand]
    arguments = [lanes[number // 2] for number in range(2 * len(lanes))]
    return as_ball(call_batched(ctx, key_body(body, key), arguments))


def _by_keys(ctx: Context, keys: Sequence[Key], balls: Sequence[Ball], stable: bool) -> _Sorted:
    if ctx.resolved is not None:
        balls = [replace(ball, mid=signed(ctx, ball.mid)) if ball.dtype.is_float else ball for ball in balls]
    coded = [key_codes(key, ball, ctx.resolved is not None) for key, ball in zip(keys, balls, strict=True)]
    codes = [c for c, _, _, _ in coded]
    broken = union(*(b for _, _, _, b in coded))
    lost = None if broken is None else np.asarray(broken.any(-1))
    order = _ascending(codes)
    if ctx.resolved is not None:
        if ctx.resolved == 1 and not stable:
            order = codes[0].shape[-1] - 1 - _ascending([code[:, ::-1] for code in codes])
        stable = True
    exact = all(low is code and high is code for code, low, high, _ in coded)
    if exact:
        if stable:
            return _Sorted(order, broken=lost)
        tied = np.ones((order.shape[0], order.shape[1] - 1), bool)
        for code in codes:
            line = np.take_along_axis(code, order, -1)
            tied &= line[:, 1:] == line[:, :-1]
        return _Sorted(order, tied if tied.any() else None, lost)
    lows, highs = [low for _, low, _, _ in coded], [high for _, _, high, _ in coded]
    low, high = _ranks(lows, highs)
    line = np.maximum.accumulate(np.take_along_axis(high, order, -1), -1)[:, :-1]
    rest = np.minimum.accumulate(np.take_along_axis(low, order, -1)[:, ::-1], -1)[:, ::-1][:, 1:]
    joint = line > rest if stable else line >= rest
    return _Sorted(order, joint if joint.any() else None, lost, (np.sort(lows[0], -1), np.sort(highs[0], -1)))


def _ascending(codes: Sequence[Array]) -> Array:
    """Each lane's order; equals keep theirs."""
    return np.argsort(codes[0], -1, kind="stable") if len(codes) == 1 else np.lexsort(codes[::-1], -1)


def _ranks(lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """Ranks of the lowest and the highest that each element may be, in one scale a lane (lanes, n).

    Ends of an inexact range are moved out by one, so that equal ranks mean equal exact keys or keys that are apart
    for sure.
    """
    wide = [
        (np.where(high > low, low - (low > LOWEST), low), np.where(high > low, high + (high < HIGHEST), high))
        for low, high in zip(lows, highs, strict=True)
    ]
    if len(wide) == 1:
        return wide[0]
    n = lows[0].shape[-1]
    both = [np.concatenate(pair, -1) for pair in wide]
    order = np.lexsort(both[::-1], -1)
    step = np.zeros((order.shape[0], 2 * n), bool)
    for code in both:
        line = np.take_along_axis(code, order, -1)
        step[:, 1:] |= line[:, 1:] != line[:, :-1]
    ranks = np.empty(step.shape, np.int64)
    np.put_along_axis(ranks, order, np.cumsum(step, -1), -1)
    return ranks[:, :n], ranks[:, n:]


# ---------------------------------------------------------------- order by any comparator


def _by_network(ctx: Context, name: str, lanes: Sequence[Ball], stable: bool) -> _Sorted:
    """Batcher's odd-even merge sort on indices, each stage one call of the comparator; equal elements keep their
    order.
    """
    count, n = lanes[0].dims
    order = np.broadcast_to(np.arange(n), (count, n)).copy()
    broken = np.zeros(count, bool)

    def less(left: Array, right: Array) -> Array:
        arguments = []
        for lane in lanes:
            for side in (left, right):
                arguments.append(moved(lane, lambda x, s=side: np.take_along_axis(x, s, -1)))  # type: ignore[misc]
        verdict = as_ball(call_batched(ctx, name, arguments))
        if verdict.und is not None:
            np.logical_or(broken, verdict.und.any(-1), out=broken)
        return np.broadcast_to(verdict.mid, left.shape)

    for first, second in _network(n):
        left, right = order[:, first], order[:, second]
        if ctx.resolved is None:
            swap = less(right, left) | (~less(left, right) & (right < left))
        else:
            down, up = less(right, left), less(left, right)
            later = (down & up) | (not stable) if ctx.resolved else False
            swap = np.where(down == up, np.where(later, right > left, right < left), down)
        order[:, first], order[:, second] = np.where(swap, right, left), np.where(swap, left, right)
    joint: Array | None = None
    if n > 1 and ctx.resolved is None:
        left, right = order[:, :-1], order[:, 1:]
        ascending = less(left, right)
        # A body that is no strict weak order leaves its result open.
        broken |= (less(right, left)).any(-1)
        joint = None if stable or ascending.all() else ~ascending
    return _Sorted(order, joint, broken if broken.any() else None)


def _network(n: int) -> list[tuple[Array, Array]]:
    """The stages of Batcher's network for n elements: pairs of positions to compare and exchange (Knuth 5.2.2,
    Algorithm M).
    """
    stages = []
    top = 1 << max(n - 1, 0).bit_length() - 1 if n > 1 else 0
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            i = np.arange(max(n - d, 0))
            i = i[(i & p) == r]
            if i.size:
                stages.append((i, i + d))
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return stages


# ---------------------------------------------------------------- results


def _rearranged(ctx: Context, lane: Ball, found: _Sorted, keys: Sequence[Key] | None, operand: int) -> Ball:
    """One operand in sorted order."""
    result = moved(lane, lambda x: np.take_along_axis(x, found.order, -1))
    und = result.und
    first = keys is not None and keys[0].operand == operand and keys[0].same
    if first and keys is not None and found.values is not None:
        result = _order_statistics(keys[0], result, *found.values)
        und = result.und
    elif found.joint is not None and not (first and found.values is None):
        cluster, starts = _clusters(found.joint)
        mixed = _mixed(result, cluster, starts)
        if ctx.rng is None:
            enclosed = mixed & _enclosed(result, cluster, starts)
            result = _hull(result, cluster, starts, enclosed) if enclosed.any() else result
            mixed = mixed & ~enclosed
        und = union(und, mixed)
    if found.broken is not None:
        und = union(und, np.broadcast_to(found.broken[:, None], result.dims))
    return Ball(result.dtype, result.mid, result.rad, und)


def _order_statistics(key: Key, result: Ball, low: Array, high: Array) -> Ball:
    """The sorted first key: its j-th element lies between the j-th smallest lower end and the j-th smallest upper
    end.
    """
    apart = low != high
    if not apart.any():
        return Ball(result.dtype, result.mid, result.rad, None)
    if not result.dtype.is_float:
        return Ball(result.dtype, result.mid, None, apart)
    if key.descending:
        low, high = ~high, ~low
    down, up = code_floats(low), code_floats(high)
    known = ~apart | (np.isfinite(down) & np.isfinite(up))
    mid, rad = enclosing(down, up)
    mid, rad = np.where(apart & known, mid, result.mid), np.where(apart & known, rad, 0.0)
    return Ball(result.dtype, mid, rad, ~known if not known.all() else None)


def _clusters(joint: Array) -> tuple[Array, Array]:
    """(the number of each element's cluster (lanes, n), where the clusters start in the flat array)"""
    lanes, n = joint.shape[0], joint.shape[1] + 1
    first = np.ones((lanes, n), bool)
    first[:, 1:] = ~joint
    return (np.cumsum(first.ravel()) - 1).reshape(lanes, n), np.flatnonzero(first.ravel())


def _mixed(result: Ball, cluster: Array, starts: Array) -> Array:
    """The elements of clusters that are not equal all over."""
    same = np.ones(cluster.shape, bool)
    for part in (result.mid, result.rad):
        if part is not None:
            head = part.ravel()[starts][cluster]
            same &= (part == head) | ((part != part) & (head != head))
    if result.und is not None:
        same &= ~result.und
    return _anywhere(~same, cluster, starts)


def _anywhere(mask: Array, cluster: Array, starts: Array) -> Array:
    """The elements of clusters that hold one of the mask."""
    found = np.zeros(starts.size, bool)
    found[cluster[mask]] = True
    return np.asarray(found[cluster])


def _enclosed(result: Ball, cluster: Array, starts: Array) -> Array:
    """The elements of clusters whose hull is a ball: finite floats that are decided themselves."""
    if not result.dtype.is_float:
        return np.zeros(cluster.shape, bool)
    open_ = ~np.isfinite(result.mid)
    open_ = open_ if result.und is None else open_ | result.und
    return ~_anywhere(open_, cluster, starts)


def _hull(result: Ball, cluster: Array, starts: Array, where: Array) -> Ball:
    """Each element marked anywhere between the lowest and the highest of its cluster."""
    mid = result.mid.ravel()
    rad = np.zeros(mid.shape) if result.rad is None else result.rad.ravel()
    with np.errstate(all="ignore"):
        low = np.minimum.reduceat(mid - rad, starts)[cluster]
        high = np.maximum.reduceat(mid + rad, starts)[cluster]
    centre, off = enclosing(low, high)
    rad = np.where(where, off, rad.reshape(cluster.shape))
    return Ball(result.dtype, np.where(where, centre, result.mid), rad, result.und)
