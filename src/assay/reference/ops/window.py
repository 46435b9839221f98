"""`reduce-window` and `select-and-scatter`.

A window is the product of one window an axis, and so is a reduction with a known body: axis by axis, a window of k
terms is put together from windows of 1, 2, 4, .. terms. That takes log2(k) passes for any k (a cumulative sum has k =
n), adds in a balanced tree and subtracts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from assay.errors import ReferenceLimit, Unsupported
from assay.hlo import attributes
from assay.hlo.attributes import WindowDim
from assay.hlo.module import Instruction
from assay.hlo.shape import DType, TupleShape
from assay.reference.bodies import body_kind
from assay.reference.context import Context, mark, unit_roundoff
from assay.reference.folds import Over, Ufunc, broadcast_ball, fold, starts_neutral
from assay.reference.ops.convolution import padded_and_dilated, window_view
from assay.reference.ops.movement import moved
from assay.reference.ops.reduction import known_kinds, reduced_lines, with_one_start_more
from assay.reference.registry import operation
from assay.reference.sums import few_valued, summed
from assay.reference.value import Array, Ball, Value, total, union

_MOST = 1 << 27  # terms of a general body held at once


@operation("reduce-window")
def reduce_window(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    count = len(operands) // 2
    inits = operands[count:]
    windows = attributes.window(instr)
    body = attributes.computation(instr, "to_apply")
    inputs = [_padded(x, init, windows) for x, init in zip(operands[:count], inits, strict=True)]
    kinds = known_kinds(ctx, body, count)
    places = _places(inputs[0].mid.shape, windows)
    found: tuple[Ball, ...]
    if prod(w.size for w in windows) == 0:
        found = tuple(broadcast_ball(init, places) for init in inits)
    elif kinds is not None:
        over = over_windows(ctx, windows, operands[0].mid.shape)
        found = tuple(fold(ctx, kind, x, init, over) for kind, x, init in zip(kinds, inputs, inits, strict=True))
    else:
        terms = prod(w.size for w in windows)
        if terms * prod(places) > _MOST:
            raise ReferenceLimit(f"{instr.name}: {terms * prod(places)} terms of a body that is not recognised")
        lines = [moved(x, lambda part: _terms_first(part, windows)) for x in inputs]
        found = tuple(moved(x, lambda part: part.reshape(places)) for x in reduced_lines(ctx, body, lines, inits))
    neutral = kinds is not None and all(map(starts_neutral, kinds, inits))
    if not neutral and any(w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1 for w in windows):
        # XLA:CPU leaves padding out, StableHLO's specification counts the initial value for it.
        found = with_one_start_more(ctx, body, found, inits)
    return found if isinstance(instr.shape, TupleShape) else found[0]


def _padded(x: Ball, init: Ball, windows: tuple[WindowDim, ...]) -> Ball:
    """x with its dilation and padding filled with the initial value, as reduce-window does."""
    rad, und = x.rad, x.und
    if init.rad is not None and rad is None:
        rad = np.zeros(x.mid.shape)
    if init.und is not None and und is None:
        und = np.zeros(x.mid.shape, bool)
    return Ball(
        x.dtype,
        padded_and_dilated(x.mid, windows, init.mid),
        None if rad is None else padded_and_dilated(rad, windows, 0.0 if init.rad is None else init.rad),
        None if und is None else padded_and_dilated(und, windows, False if init.und is None else init.und),
    )


def _places(dims: Sequence[int], windows: Sequence[WindowDim]) -> tuple[int, ...]:
    """How many windows fit along each padded axis."""
    return tuple(
        max(0, (n - ((w.size - 1) * w.window_dilation + 1)) // w.stride + 1) for n, w in zip(dims, windows, strict=True)
    )


def _terms_first(x: Array, windows: tuple[WindowDim, ...]) -> Array:
    """(terms, places), terms in row-major order of the window."""
    rank = len(windows)
    view = window_view(np.ascontiguousarray(x), windows)
    if any(w.reversed for w in windows):
        flips = tuple(slice(None, None, -1 if w.reversed else 1) for w in windows)
        view = view[(slice(None),) * rank + flips]
    return np.moveaxis(view, range(rank, 2 * rank), range(rank)).reshape(prod(w.size for w in windows), -1)


# ---------------------------------------------------------------- known bodies


def over_windows(ctx: Context, windows: tuple[WindowDim, ...], dims: tuple[int, ...]) -> Over:
    """The windows of an operand of `dims`, which is padded already when it is reduced."""
    terms = prod(w.size for w in windows)

    def reduce(ufunc: Ufunc, x: Array) -> Array:
        return windowed(ufunc, x, windows)

    def steady(x: Array, mid: Array, magnitude: Array, dtype: DType) -> Array | bool:
        return _alike(ctx, x, windows, mid, dtype)

    counts = _counts(dims, windows) if _pads(windows) else None
    return Over(reduce, terms, steady, counts)


def _pads(windows: tuple[WindowDim, ...]) -> bool:
    return any(w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1 for w in windows)


def _counts(dims: tuple[int, ...], windows: tuple[WindowDim, ...]) -> Array:
    """How many terms of each window are neither padding nor dilation, as floats. (places..)"""
    counts: Array = np.ones(())
    for n, w in zip(dims, windows, strict=True):
        line = padded_and_dilated(np.ones(n), (w,), 0.0)
        counts = counts[..., None] * _along(np.add, line, w)
    return counts


def windowed(ufunc: Ufunc, x: Array, windows: tuple[WindowDim, ...]) -> Array:
    """The ufunc over the windows of x, which is padded already: (places..)."""
    for axis, w in enumerate(windows):
        x = _along(ufunc, np.moveaxis(x, axis, 0), w)
        x = np.moveaxis(x, 0, axis)
    return x


def _along(ufunc: Ufunc, x: Array, w: WindowDim) -> Array:
    """The same for windows along the first axis: the binary digits of w.size choose the runs that make a window up."""
    step = w.window_dilation
    places = max(0, len(x) - (w.size - 1) * step)
    run, length, done = x, 1, 0
    found: Array | None = None
    while length <= w.size:
        if w.size & length:
            piece = run[done * step : done * step + places : w.stride]
            found = piece if found is None else ufunc(found, piece)
            done += length
        if 2 * length <= w.size:
            run = ufunc(run[: len(run) - length * step], run[length * step :])
        length *= 2
    assert found is not None
    return found


def _alike(ctx: Context, x: Array, windows: tuple[WindowDim, ...], mid: Array, dtype: DType) -> Array | bool:
    """Steady sums: short windows (where the two bounds are within a factor of two), lines of few values, and windows
    whose terms, zeros aside, differ by little more than their sum resolves.
    """
    terms = prod(w.size for w in windows)
    if terms <= ctx.policy.confidence**2:
        return False
    if terms <= 4 * ctx.policy.confidence**2 or dtype.part.mantissa <= 7:
        return True
    size = np.abs(x)
    largest = windowed(np.maximum, size, windows)
    smallest = windowed(np.minimum, np.where(size == 0, np.inf, size), windows)
    steady = largest - smallest <= 16 * terms * unit_roundoff(dtype) * largest
    axes = [axis for axis, w in enumerate(windows) if w.size > 1]
    moved_axes = np.moveaxis(size, axes, range(-len(axes), 0))
    few = few_valued(moved_axes.reshape(*moved_axes.shape[: -len(axes)], -1))
    if few.any():
        steady |= np.expand_dims(few, tuple(axes))
    return steady


# ---------------------------------------------------------------- select-and-scatter


@operation("select-and-scatter")
def select_and_scatter(ctx: Context, instr: Instruction, x: Ball, source: Ball, init: Ball) -> Value:
    """Each source element is added to the largest (or smallest) element of its window; padding is never chosen.

    Of equal elements the first in row-major order wins under GE or LE, the last under GT or LT (hlo_evaluator.cc). A
    NaN in a window of several elements leaves the choice open, as does a rival whose ball meets the winner's.
    """
    windows = attributes.window(instr)
    if any(w.base_dilation != 1 or w.window_dilation != 1 for w in windows):
        raise Unsupported("select-and-scatter", "dilated windows")
    direction = _select_direction(ctx, attributes.computation(instr, "select"))
    kind = body_kind(ctx.module, attributes.computation(instr, "scatter"))
    if kind != "add" and (kind, x.dtype.kind) != ("or", "pred"):
        raise Unsupported("select-and-scatter", "a scatter computation that does not add")
    sign = 1 if direction in ("GE", "GT") else -1
    lowest = -np.inf if x.dtype.is_float else np.int64(np.iinfo(np.int64).min)
    mid = x.mid if x.dtype.is_float else x.mid.astype(np.int64)

    def terms(part: Array, fill: object) -> Array:  # (terms, places)
        return _terms_first(padded_and_dilated(part, windows, fill), windows)

    inside = terms(np.ones(mid.shape, bool), False)
    values = np.where(inside, terms(sign * mid, lowest), lowest)
    last = direction in ("GT", "LT")
    ranked = np.where(np.isnan(values), np.inf, values)
    winner = len(values) - 1 - ranked[::-1].argmax(0) if last else ranked.argmax(0)
    if last:
        winner = np.where(inside[winner, np.arange(winner.size)], winner, ranked.argmax(0))
    rivals = _rivals(x, values, inside, winner, terms)
    at = _flat_positions(x.mid.shape, windows, winner)
    if not inside.any(0).all():  # a window of nothing but padding chooses nobody
        chosen = inside.any(0).reshape(source.mid.shape)
        parts = (source.mid, source.rad, source.und)
        mid, rad, und = (None if p is None else np.where(chosen, p, np.zeros((), p.dtype)) for p in parts)
        assert mid is not None
        source = Ball(source.dtype, mid, rad, und)
    flat = source.mid.reshape(-1)
    found = _scattered(ctx, x, source, init, at, flat)
    if len(values) == 1 and not starts_neutral(kind or "add", init):
        found = mark(found, np.ones(found.mid.shape, bool))  # XLA:CPU drops the initial value of such a window
    if rivals is None:
        return found
    open_ = np.zeros(x.mid.size, bool)
    for term in range(len(values)):
        chosen = rivals[term] & (flat != 0)
        if chosen.any():
            open_[_flat_positions(x.mid.shape, windows, np.full(winner.shape, term))[chosen]] = True
    return mark(found, open_.reshape(x.mid.shape))


def _select_direction(ctx: Context, name: str) -> str:
    body = ctx.module.by_name[name]
    root = body.root
    numbers = [body.by_name[operand].parameter_number for operand in root.operands]
    direction = root.attributes.get("direction", "")
    if root.opcode != "compare" or direction not in ("GE", "GT", "LE", "LT") or numbers not in ([0, 1], [1, 0]):
        raise Unsupported("select-and-scatter", "a select computation that does not compare its operands")
    # b < a is a > b
    return direction if numbers == [0, 1] else {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}[direction]


def _rivals(x: Ball, values: Array, inside: Array, winner: Array, terms: object) -> Array | None:
    """Which elements may be chosen instead of or like the winner, in windows where that is open."""
    assert callable(terms)
    nan = np.isnan(values) if x.dtype.is_float else np.zeros(values.shape, bool)
    open_ = nan.any(0) & (inside.sum(0) > 1)
    rivals = np.broadcast_to(open_, values.shape) & inside
    if x.und is not None:
        unknown = terms(x.und, False).any(0)
        open_ = open_ | unknown
        rivals = rivals | (unknown & inside)
    if x.rad is not None:
        rad = np.where(inside, terms(x.rad, 0.0), 0.0)
        bar = (values - rad).max(0)
        close = (values + rad >= bar) & inside
        exact = (~close | (rad == 0)).all(0)
        unsure = (close.sum(0) > 1) & ~exact
        open_ = open_ | unsure
        rivals = rivals | (close & unsure)
    return rivals if open_.any() else None


def _flat_positions(dims: tuple[int, ...], windows: tuple[WindowDim, ...], term: Array) -> Array:
    """Where in an array of `dims` the given term of each window lies, as row-major positions."""
    offsets = np.unravel_index(term, [w.size for w in windows])
    padded = [n + w.pad_low + w.pad_high for n, w in zip(dims, windows, strict=True)]
    starts = np.indices(_places(padded, windows)).reshape(len(windows), -1)
    at = [
        np.clip(start * w.stride + offset - w.pad_low, 0, n - 1)
        for start, offset, w, n in zip(starts, offsets, windows, dims, strict=True)
    ]
    flat: Array = np.ravel_multi_index(at, dims)
    return flat


def _scattered(ctx: Context, x: Ball, source: Ball, init: Ball, at: Array, flat: Array) -> Ball:
    """init plus, at each position, the sum of the source elements that chose it."""
    size = x.mid.size
    dims = x.mid.shape
    und = None
    if source.und is not None and source.und.any():
        und = (np.bincount(at, source.und.reshape(-1), size) > 0).reshape(dims)
    if not source.dtype.is_float:
        if source.dtype.is_complex:
            raise Unsupported("select-and-scatter", "complex sources")
        mid = np.full(size, init.mid, source.mid.dtype)
        np.add.at(mid, at, flat)  # an or of predicates
        return Ball(source.dtype, mid.reshape(dims), None, union(und, init.und))
    mid = np.bincount(at, flat, size).reshape(dims) + init.mid
    magnitude = np.bincount(at, np.abs(flat), size).reshape(dims) + np.abs(init.mid)
    rad = None if source.rad is None else np.bincount(at, source.rad.reshape(-1), size).reshape(dims)
    rad = total(rad, init.rad)
    most = int(np.max(np.bincount(at, minlength=1)))
    single = most <= 1 and not init.mid.any()
    return summed(
        ctx,
        source.dtype,
        mid,
        rad,
        und,
        magnitude=magnitude,
        terms=most + bool(init.mid.any()),
        exact=single,
        steady=True,
    )
