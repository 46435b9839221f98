"""`reduce-window`.

A window is the product of one window an axis, and so is a reduction with a known body: axis by axis, a window of k
terms is put together from windows of 1, 2, 4, .. terms. That takes log2(k) passes for any k (a cumulative sum has k =
n), adds in a balanced tree and subtracts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from assay.errors import ReferenceLimit
from assay.hlo import attributes
from assay.hlo.attributes import WindowDim
from assay.hlo.module import Instruction
from assay.hlo.shape import DType, TupleShape
from assay.reference.context import Context, unit_roundoff
from assay.reference.folds import Over, Ufunc, broadcast_ball, fold, neutral, starts_neutral
from assay.reference.ops.convolution import padded_and_dilated, window_view
from assay.reference.ops.movement import moved
from assay.reference.ops.reduction import known_kinds, reduced_lines, where_same, with_one_start_more
from assay.reference.registry import operation
from assay.reference.sums import few_valued
from assay.reference.value import Array, Ball, Value

_MOST = 1 << 27  # terms of a general body held at once


@operation("reduce-window")
def reduce_window(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    count = len(operands) // 2
    inits = operands[count:]
    windows = attributes.window(instr)
    body = attributes.computation(instr, "to_apply")
    inputs = [_padded(x, init, windows) for x, init in zip(operands[:count], inits, strict=True)]
    kinds = known_kinds(ctx, body, count)
    places = places_of(inputs[0].mid.shape, windows)
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
        lines = [moved(x, lambda part: terms_first(part, windows)) for x in inputs]
        found = tuple(moved(x, lambda part: part.reshape(places)) for x in reduced_lines(ctx, body, lines, inits))
    plain = kinds is not None and all(map(starts_neutral, kinds, inits))
    if (
        not plain
        and all(w.size for w in windows)
        and any(w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1 for w in windows)
    ):
        # XLA:CPU leaves padding out, StableHLO's specification counts the initial value for it.
        if kinds is None:
            found = with_one_start_more(ctx, body, found, inits)
        else:
            bare = [_padded(x, _neutral(kind, x), windows) for kind, x in zip(kinds, operands, strict=False)]
            found = where_same(ctx, found, [fold(ctx, *each, over) for each in zip(kinds, bare, inits, strict=True)])
    return found if isinstance(instr.shape, TupleShape) else found[0]


def _neutral(kind: str, like: Ball) -> Ball:
    return Ball(like.dtype, np.asarray(neutral(kind, like.dtype), like.mid.dtype))


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


def places_of(dims: Sequence[int], windows: Sequence[WindowDim]) -> tuple[int, ...]:
    """How many windows fit along each padded axis."""
    return tuple(
        max(0, (n - ((w.size - 1) * w.window_dilation + 1)) // w.stride + 1) for n, w in zip(dims, windows, strict=True)
    )


def terms_first(x: Array, windows: tuple[WindowDim, ...]) -> Array:
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
    return Over(reduce, terms, steady, lambda figure: np.asarray(figure.max(initial=0.0)), counts)


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
    steady = largest - smallest <= min(16 * terms * unit_roundoff(dtype), 0.5) * largest
    axes = [axis for axis, w in enumerate(windows) if w.size > 1]
    moved_axes = np.moveaxis(size, axes, range(-len(axes), 0))
    few = few_valued(moved_axes.reshape(*moved_axes.shape[: -len(axes)], -1))
    if few.any():
        steady |= np.expand_dims(few, tuple(axes))
    return steady
