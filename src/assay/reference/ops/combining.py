"""What a scatter does with several updates of one element, in an order that nobody promises.

Elements that one update reaches are a plain application of the body. Where more reach one element, the value must
hold for every order of application: integer sums, extrema and bit operations do not depend on it; a float sum's bound
covers any order; two different assignments leave the element undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType
from assay.reference.bodies import call_batched, component_kinds
from assay.reference.context import Context, largest_partial_sum, smallest_normal, unit_roundoff
from assay.reference.folds import may_be_zero
from assay.reference.ops.movement import moved
from assay.reference.registry import find
from assay.reference.sums import below_last_digit, infinity_lost, whole
from assay.reference.value import Array, Ball, as_ball, enclosing, joined, union, wrap

ASSIGN = "assign"
KEEP = "keep"
SUBTRACT = "subtract"


def update_kinds(module: Module, name: str, count: int) -> list[str | None]:
    """For each of `count` components of a scatter's body, how update and element combine: one of `bodies.KINDS`,
    ASSIGN, KEEP, SUBTRACT or None. Parameter i is the element, parameter count + i the update.
    """
    body = module.by_name[name]
    outputs = [body.by_name[n] for n in body.root.operands] if body.root.opcode == "tuple" else [body.root]
    known = component_kinds(module, name, count)
    return [kind or _further(body, outputs[i], i, count + i) for i, kind in enumerate(known)]


def _further(body: Computation, output: Instruction, element: int, update: int) -> str | None:
    if output.parameter_number == element:
        return KEEP
    numbers = [operand.parameter_number for operand in body.operands(output)]
    return SUBTRACT if output.opcode == SUBTRACT and numbers == [element, update] else None


def combine(
    ctx: Context, body: str, bases: Sequence[Ball], places: Array, values: Sequence[Ball], *, unique: bool
) -> list[Ball]:
    """`bases` (flat arrays) after `values[i]` has been combined into element `places[i]`, for all i, in some order.

    unique: the program promises that no element is reached twice; one that is, is undecided.
    """
    if places.size == 0:
        return list(bases)
    kinds: list[str | None] = ctx.memo.get(("update kinds", body), [])
    if not kinds:
        kinds = ctx.memo["update kinds", body] = update_kinds(ctx.module, body, len(bases))
    counts = np.bincount(places, minlength=bases[0].mid.size)
    if int(np.max(counts)) == 1:
        return [
            _put(base, [(places, new)])
            for base, new in zip(bases, _once(ctx, body, kinds, bases, places, values), strict=True)
        ]
    shared = counts > 1
    many = shared[places]
    single = places[~many]
    once = _once(ctx, body, kinds, bases, single, [moved(v, lambda x: x[~many]) for v in values])
    targets = np.flatnonzero(shared)
    group = _Group((np.cumsum(shared) - 1)[places[many]], counts[targets])
    elements = [moved(b, lambda x: x[targets]) for b in bases]
    repeated = [moved(v, lambda x: x[many]) for v in values]
    if None in kinds:
        again = [_undecided(element) for element in elements]
    else:
        again = [
            _combined(ctx, str(kind), element, value, group)
            for kind, element, value in zip(kinds, elements, repeated, strict=True)
        ]
    if unique:
        ctx.notes.add("a scatter reaches an element twice although unique_indices says that none does")
        again = again if ctx.resolved is not None else [_undecided(ball) for ball in again]
    return [_put(base, [(single, new), (targets, newer)]) for base, new, newer in zip(bases, once, again, strict=True)]


def _undecided(ball: Ball) -> Ball:
    return Ball(ball.dtype, ball.mid, ball.rad, np.ones(ball.mid.shape, bool))


def _put(base: Ball, news: Sequence[tuple[Array, Ball]]) -> Ball:
    def array(old: Array | None, parts: list[Array | None], none: float | bool) -> Array | None:
        if old is None and all(part is None for part in parts):
            return None
        result = np.full(base.mid.shape, none) if old is None else old.copy()
        for (places, _), part in zip(news, parts, strict=True):
            result[places] = none if part is None else part
        return result

    mid = array(base.mid, [new.mid for _, new in news], False)
    assert mid is not None
    rad = array(base.rad, [new.rad for _, new in news], 0.0)
    return Ball(base.dtype, mid, rad, array(base.und, [new.und for _, new in news], False))


def _once(
    ctx: Context,
    body: str,
    kinds: Sequence[str | None],
    bases: Sequence[Ball],
    places: Array,
    values: Sequence[Ball],
) -> list[Ball]:
    """The new elements at `places`, each reached once."""
    elements = [moved(base, lambda x: x[places]) for base in bases]
    if None in kinds:
        result = call_batched(ctx, body, [*elements, *values])
        return [as_ball(ball) for ball in (result if isinstance(result, tuple) else (result,))]
    new = []
    for kind, element, value in zip(kinds, elements, values, strict=True):
        if kind == ASSIGN:
            new.append(value)
        elif kind == KEEP:
            new.append(element)
        else:
            instr = Instruction("update", str(kind), ArrayShape(element.dtype, element.dims))
            new.append(as_ball(find(str(kind))(ctx, instr, element, value)))
    return new


# ---------------------------------------------------------------- several updates of one element


class _Group:
    """Which update belongs to which element: ids[i] is the element of update i, counts[j] how many element j has."""

    def __init__(self, ids: Array, counts: Array) -> None:
        self.ids = ids
        self.counts = counts

    def sum(self, values: Array) -> Array:
        if np.iscomplexobj(values):
            return joined(self.sum(values.real), self.sum(values.imag))
        return np.bincount(self.ids, values, self.counts.size)

    def any(self, mask: Array | None) -> Array | None:
        if mask is None:
            return None
        hit = np.zeros(self.counts.size, bool)
        hit[self.ids[mask]] = True
        return hit

    def fold(self, ufunc: np.ufunc, start: Array, values: Array) -> Array:
        result = start.copy()
        ufunc.at(result, self.ids, values)
        return result


def _combined(ctx: Context, kind: str, element: Ball, value: Ball, group: _Group) -> Ball:
    """`element` (one a target) after all its updates in `value`, in any order."""
    if kind == KEEP:
        return element
    if kind == SUBTRACT:
        value = replace(value, mid=wrap(value.dtype, np.negative(value.mid)))
        kind = "add"
    if kind == ASSIGN:
        return _assigned(element, value, group) if ctx.resolved is None else _last(element, value, group, ctx.resolved)
    if not (element.dtype.is_float or element.dtype.is_complex):
        und = union(element.und, group.any(value.und))
        ufunc = (_PRED if element.dtype.kind == "pred" else _INTEGER)[kind]
        return Ball(element.dtype, wrap(element.dtype, group.fold(ufunc, element.mid, value.mid)), None, und)
    return _FLOAT[kind](ctx, element, value, group)


_INTEGER: dict[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_PRED: dict[str, np.ufunc] = {
    "add": np.logical_or, "multiply": np.logical_and, "minimum": np.logical_and, "maximum": np.logical_or,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _assigned(element: Ball, value: Ball, group: _Group) -> Ball:
    """The last assignment wins, and which one is last is not said: decided where all of them are equal."""
    some = element.mid.copy()
    some[group.ids] = value.mid
    same = (value.mid == some[group.ids]) | ((value.mid != value.mid) & (some[group.ids] != some[group.ids]))
    differs = group.any(~same)
    rad = None if value.rad is None else group.fold(np.maximum, np.zeros(element.dims), value.rad)
    return Ball(element.dtype, some, rad, union(differs, group.any(value.und)))


def _last(element: Ball, value: Ball, group: _Group, choice: int) -> Ball:
    """The same where the first assignment (0) or the last (1) wins."""
    order = np.arange(group.ids.size)[:: 1 if choice else -1]
    winner = np.empty(group.counts.size, np.int64)
    winner[group.ids[order]] = order  # of equal indices NumPy stores the last
    return moved(replace(value, dtype=element.dtype), lambda x: x[winner])


def _sum(ctx: Context, element: Ball, value: Ball, group: _Group) -> Ball:
    dtype = element.dtype
    mid = element.mid + group.sum(value.mid)
    rad: Array | None = None
    if element.rad is not None or value.rad is not None:
        rad = np.zeros(element.dims) if element.rad is None else element.rad.copy()
        rad += 0.0 if value.rad is None else group.sum(value.rad)
    und = union(element.und, group.any(value.und))
    sizes = np.abs(value.mid)
    finite = np.isfinite(sizes)
    sizes = sizes if finite.all() else np.where(finite, sizes, 0.0)
    base = np.where(np.isfinite(element.mid), np.abs(element.mid), 0.0)
    magnitude = base + group.sum(sizes) + (0.0 if rad is None else rad)
    exact = rad is None and _sums_exactly(element, value, float(np.max(magnitude)))
    if exact:
        return ctx.rounded(dtype, mid, None, und)
    # Partial sums may overflow in one order and not in another, or to the other infinity than the sum has.
    und = union(und, (magnitude >= dtype.part.max) & np.isfinite(mid))
    if (lost := infinity_lost(dtype, mid, magnitude)) is not None:
        nan = union(group.any(np.isnan(value.mid)), np.isnan(element.mid))
        und = union(und, lost if nan is None else lost & ~nan)
    terms = group.counts + 1
    u = unit_roundoff(dtype)
    steady = ctx.rng is None and _steady(dtype, mid, magnitude, terms, element, value, group)
    if ctx.policy.flush_subnormals:
        flushed = terms * smallest_normal(dtype) * (magnitude > 0)
        rad = flushed if rad is None else rad + flushed
    if dtype.part.name == "f64":
        own = terms * u * magnitude  # our own sum has rounded too
        rad = own if rad is None else rad + own
    largest = largest_partial_sum(dtype, mid, magnitude)
    below = below_last_digit(value.mid, largest[group.ids], dtype, group.sum)
    return ctx.accumulated(dtype, mid, rad, und, magnitude=magnitude, terms=terms, steady=steady, below=below)


def _steady(
    dtype: DType, mid: Array, magnitude: Array, terms: Array, element: Ball, value: Ball, group: _Group
) -> Array | bool:
    """Which sums have errors that add up (see `assay.reference.sums`): one sequential sum in `dtype` shows them."""
    if dtype.part.mantissa <= 7:
        return True
    found = group.fold(np.add, element.mid.astype(dtype.numpy), value.mid.astype(dtype.numpy))
    return np.asarray(~(np.abs(found - mid) <= np.sqrt(terms) * unit_roundoff(dtype) * magnitude))


def _sums_exactly(element: Ball, value: Ball, largest: float) -> bool:
    """Integers below the significand's range: every partial sum is one too."""
    if largest > 2.0 ** (element.dtype.part.mantissa + 1):
        return False
    return whole(*_parts(element.mid), *_parts(value.mid))


def _parts(x: Array) -> list[Array]:
    return [x.real, x.imag] if np.iscomplexobj(x) else [x]


def _product(ctx: Context, element: Ball, value: Ball, group: _Group) -> Ball:
    """Radius: prod(|m| + r) - prod |m|, and a rounding for each factor."""
    dtype = element.dtype
    mid = group.fold(np.multiply, element.mid, value.mid)
    und = union(element.und, group.any(value.und))
    base, sizes = np.abs(element.mid), np.abs(value.mid)
    reach_base = base if element.rad is None else base + element.rad
    reach_sizes = sizes if value.rad is None else sizes + value.rad
    most = group.fold(np.multiply, reach_base, reach_sizes)
    # Any partial product lies between these: outside the type's range, the order decides what is lost.
    highest = group.fold(np.multiply, np.maximum(reach_base, 1), np.maximum(reach_sizes, 1))
    nonzero_base, nonzero = np.where(base == 0, 1, base), np.where(sizes == 0, 1, sizes)
    lowest = group.fold(np.multiply, np.minimum(nonzero_base, 1), np.minimum(nonzero, 1))
    lost = (highest >= dtype.part.max) | (lowest < smallest_normal(dtype))
    und = union(und, lost & np.isfinite(highest)) if lost.any() else und
    if (infinite := np.isinf(highest)).any():  # times what may vanish it is a NaN
        gone = may_be_zero(base, reach_base)
        some = group.any(may_be_zero(sizes, reach_sizes))
        gone |= lowest < smallest_normal(dtype)
        und = union(und, infinite & ~np.isnan(mid) & (gone if some is None else gone | some))
    rad: Array | None = None
    if element.rad is not None or value.rad is not None:
        rad = most - np.abs(mid)
        rad = np.where(np.isfinite(rad), rad + (group.counts + 1) * 2.0**-52 * most, 0.0)
    u = unit_roundoff(dtype) * (2.0 if dtype.is_complex else 1.0) ** 1.5
    steps = (group.counts + (group.counts if dtype.part.name == "f64" else 0)) * u
    error = np.where(np.isfinite(most), most * np.expm1(steps), 0.0)
    return ctx.rounded(dtype, mid, rad, und, error=error)


def _extreme(ufunc: np.ufunc) -> Callable[[Context, Ball, Ball, _Group], Ball]:
    def extreme(ctx: Context, element: Ball, value: Ball, group: _Group) -> Ball:
        und = union(element.und, group.any(value.und))
        mid = group.fold(ufunc, element.mid, value.mid)
        if ctx.policy.nan_minmax != "propagate":
            some = union(np.isnan(element.mid), group.any(np.isnan(value.mid)))
            und = union(und, some)
        small = ctx.ties_with_zero(element.dtype, element.mid, value.mid)
        if element.rad is None and value.rad is None and small is None:
            return Ball(element.dtype, mid, None, und)
        radii = [np.zeros(b.dims) if b.rad is None else b.rad for b in (element, value)]
        lows, highs = ([b.mid + s * r for b, r in zip((element, value), radii, strict=True)] for s in (-1, 1))
        low, high = group.fold(ufunc, *lows), group.fold(ufunc, *highs)
        if small is not None:
            tied = np.abs(mid) < smallest_normal(element.dtype)
            least = group.fold(np.minimum, *(np.where(s, x, np.inf) for s, x in zip(small, lows, strict=True)))
            most = group.fold(np.maximum, *(np.where(s, x, -np.inf) for s, x in zip(small, highs, strict=True)))
            if ctx.rng is not None:
                chosen = least if ctx.rng.random() < 0.5 else most
                return Ball(element.dtype, np.where(tied & np.isfinite(chosen), chosen, mid), None, und)
            low, high = np.where(tied, np.minimum(low, least), low), np.where(tied, np.maximum(high, most), high)
        finite = np.isfinite(low) & np.isfinite(high)
        middle, rad = enclosing(low, high)
        return Ball(element.dtype, np.where(finite, middle, mid), np.where(finite, rad, 0.0), und)

    return extreme


_FLOAT: dict[str, Callable[[Context, Ball, Ball, _Group], Ball]] = {
    "add": _sum, "multiply": _product, "minimum": _extreme(np.minimum), "maximum": _extreme(np.maximum),
}  # fmt: skip
