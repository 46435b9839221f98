"""gather and scatter: windows at indices that are themselves data.

Semantics: XLA's operation_semantics (Gather, Scatter) and hlo_evaluator.cc. A gather clamps each start so that its
window fits; a scatter drops an update whose window does not fit as a whole. Indices are mathematical integers
whatever their type: bounds are not computed in it, and an unsigned index does not turn negative (openxla/xla#48718).

Both work on flat arrays: a window's first element has a flat place, and its others lie at fixed distances from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from assay.hlo.attributes import computation, flag, gather_dims, scatter_dims
from assay.hlo.module import Instruction
from assay.reference.context import Context
from assay.reference.ops.combining import combine
from assay.reference.ops.movement import moved
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value, union

FAR = 2**62
"""Stands for any index beyond it: larger than every dimension, and safe to add to."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What attributes and shapes alone say about the windows of a gather or scatter.

    sizes: of a window, in every operand dimension. batch: the shape of the indices without their vector dimension.
    own: the batch axes that an operand dimension of its own goes along with, as (operand dimension, axis). room,
    strides: for each index component, its largest value at which the window fits, and the flat distance of a step.
    anchors: flat places that the batch position adds. distances: flat distance of each part of a window from its
    first. All flat figures are in blocks.
    """

    vector_dim: int
    to_operand: tuple[int, ...]
    sizes: tuple[int, ...]
    batch: tuple[int, ...]
    own: tuple[tuple[int, int], ...]
    room: Array
    strides: Array
    anchors: Array
    distances: Array
    block: int

    def vectors(self, x: Array) -> Array:
        """The index vectors of `x`. (*batch, components)"""
        return x[..., None] if self.vector_dim == x.ndim else np.moveaxis(x, self.vector_dim, -1)

    def starts(self, indices: Ball) -> Array:
        """As the indices say, neither clamped nor checked. (*batch, components) int64"""
        raw = self.vectors(indices.mid)
        return (np.minimum(raw, FAR) if raw.dtype == np.uint64 else raw).astype(np.int64)

    def places(self, starts: Array) -> Array:
        """Flat places of the windows' first elements. (*batch)"""
        return starts @ self.strides + self.anchors

    def reached(self, starts: Array) -> tuple[Array, Array]:
        """(which windows fit, the flat places of all elements of those), as a scatter has it."""
        fits = ((starts >= 0) & (starts <= self.room)).all(-1).ravel()
        first = (self.places(starts) + np.zeros(self.batch, np.int64)).ravel()[fits]
        return fits, (first[:, None] + self.distances).ravel()


@lru_cache(maxsize=4096)
def _windows(
    operand: tuple[int, ...],
    indices: tuple[int, ...],
    sizes: tuple[int, ...],
    vector_dim: int,
    to_operand: tuple[int, ...],
    batching: tuple[tuple[int, int], ...],
    blocked: bool,
) -> Windows:
    """batching: pairs of operand dimension and indices dimension. blocked: trailing dimensions that a window takes
    whole move as one block.
    """
    first = len(operand)
    while blocked and first and sizes[first - 1] == operand[first - 1]:
        first -= 1
    strides = np.zeros(len(operand), np.int64)
    stride = 1
    distances = np.zeros(1, np.int64)
    for d in reversed(range(first)):
        strides[d] = stride
        distances = (np.arange(sizes[d])[:, None] * stride + distances).ravel()
        stride *= operand[d]
    batch = indices[:vector_dim] + indices[vector_dim + 1 :]
    own = tuple((d, axis - (axis > vector_dim)) for d, axis in batching)
    anchors = np.zeros((), np.int64)
    for d, axis in own:
        anchors = (
            anchors + np.arange(batch[axis]).reshape([-1 if i == axis else 1 for i in range(len(batch))]) * strides[d]
        )
    to = list(to_operand)
    room = np.subtract(operand, sizes)[to]
    block = prod(operand[first:])
    return Windows(vector_dim, to_operand, sizes, batch, own, room, strides[to], anchors, distances, block)


def ascend(windows: Windows, starts: Array) -> bool:
    """Whether index vectors, components in the order of operand dimensions, ascend within each cell of the batch."""
    axes = [axis for _, axis in windows.own]
    lines = np.moveaxis(starts[..., np.argsort(windows.to_operand)], axes, range(len(axes)))
    cells = prod(lines.shape[: len(axes)])
    if lines.size <= cells * lines.shape[-1]:
        return True
    lines = lines.reshape(cells, -1, lines.shape[-1])
    undecided = np.ones(lines[:, 1:, 0].shape, bool)
    for component in np.moveaxis(lines, -1, 0):
        before, after = component[:, :-1], component[:, 1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
    return True


def _breaks_its_word(ctx: Context, instr: Instruction, windows: Windows, starts: Array) -> bool:
    """Whether indices are not sorted although the instruction says that they are, so that anything may come of it."""
    if not flag(instr, "indices_are_sorted") or ascend(windows, starts):
        return False
    ctx.notes.add(f"{instr.name}: the indices are not sorted although indices_are_sorted says so")
    return ctx.resolved is None


def gather_windows(instr: Instruction, operand: tuple[int, ...], indices: tuple[int, ...]) -> Windows:
    """Of a gather, by the dimensions of its operands."""
    dims = gather_dims(instr)
    batching = tuple(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    return _windows(operand, indices, dims.slice_sizes, dims.index_vector_dim, dims.start_index_map, batching, True)


def scatter_windows(
    instr: Instruction, operand: tuple[int, ...], indices: tuple[int, ...], update: tuple[int, ...]
) -> Windows:
    """Of a scatter, by the dimensions of its operands."""
    dims = scatter_dims(instr)
    batching = tuple(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    absent = {*dims.inserted_window_dims, *dims.input_batching_dims}
    window = iter(update[d] for d in dims.update_window_dims)
    sizes = tuple(1 if d in absent else next(window) for d in range(len(operand)))
    to_operand = dims.scatter_dims_to_operand_dims
    return _windows(operand, indices, sizes, dims.index_vector_dim, to_operand, batching, False)


# ---------------------------------------------------------------- gather


@operation("gather")
def gather(ctx: Context, instr: Instruction, a: Ball, indices: Ball) -> Value:
    dims = gather_dims(instr)
    shape = instr.array.dims
    windows = gather_windows(instr, a.dims, indices.dims)
    absent = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    window = [size for d, size in enumerate(dims.slice_sizes) if d not in absent]
    window_axes = range(len(windows.batch), len(windows.batch) + len(window))
    starts = windows.starts(indices)
    places = windows.places(np.minimum(np.maximum(starts, 0), windows.room))[..., None] + windows.distances

    def taken(x: Array) -> Array:
        if 0 in shape:
            return np.empty(shape, x.dtype)
        if x.ndim and x.strides == (0,) * x.ndim:
            return np.broadcast_to(x.flat[0], shape)  # one value everywhere
        rows = x.reshape(-1, windows.block).take(places, 0).reshape((*windows.batch, *window))
        return np.moveaxis(rows, window_axes, dims.offset_dims)

    result = moved(a, taken)
    und = result.und
    if indices.und is not None:
        # Where a window fills its dimension the start does not matter.
        unsure = (windows.vectors(indices.und) & (windows.room > 0)).any(-1)
        unsure = unsure.reshape((*windows.batch, *[1] * len(window)))
        und = union(und, np.broadcast_to(np.moveaxis(unsure, window_axes, dims.offset_dims), shape))
    elif _breaks_its_word(ctx, instr, windows, starts):
        und = np.broadcast_to(True, shape)
    return Ball(result.dtype, result.mid, result.rad, und)


# ---------------------------------------------------------------- scatter


@operation("scatter")
def scatter(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    count = len(operands) // 2
    bases, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    dims = scatter_dims(instr)
    shape = bases[0].dims
    windows = scatter_windows(instr, shape, indices.dims, updates[0].dims)
    starts = windows.starts(indices)
    fits, places = windows.reached(starts)
    whole = bool(fits.all())

    def in_windows(x: Array) -> Array:  # in the order of `places`
        rank = len(dims.update_window_dims)
        back = np.moveaxis(x, dims.update_window_dims, range(x.ndim - rank, x.ndim))
        return back.ravel() if whole else back.reshape(fits.size, prod(windows.sizes))[fits].ravel()

    flat = [moved(base, lambda x: x.reshape(-1)) for base in bases]
    values = [moved(update, in_windows) for update in updates]
    unique = flag(instr, "unique_indices")
    results = combine(ctx, computation(instr, "to_apply"), flat, places, values, unique=unique)
    und: Array | None = None
    if indices.und is not None and indices.und.any():
        und = _reach(windows, starts, windows.vectors(indices.und), shape)
    elif _breaks_its_word(ctx, instr, windows, starts):
        und = np.zeros(bases[0].mid.size, bool)
        und[places] = True
        und = und.reshape(shape)
    shaped = [moved(result, lambda x: x.reshape(shape)) for result in results]
    marked = tuple(Ball(r.dtype, r.mid, r.rad, union(r.und, und)) for r in shaped)
    return marked if count > 1 else marked[0]


def _reach(windows: Windows, starts: Array, doubts: Array, shape: tuple[int, ...]) -> Array:
    """The elements that windows with an undecided start may touch: along an undecided dimension, all of them."""
    rows = np.argwhere(doubts.any(-1))
    if len(rows) > 64 or not shape:
        return np.broadcast_to(True, shape)
    und = np.zeros(shape, bool)
    for row in rows:
        at = tuple(row)
        spans = [slice(0, size) for size in windows.sizes]
        for d, axis in windows.own:
            spans[d] = slice(row[axis], row[axis] + 1)
        for d, start, doubt in zip(windows.to_operand, starts[at].tolist(), doubts[at], strict=True):
            spans[d] = slice(None) if doubt else slice(max(start, 0), max(start + windows.sizes[d], 0))
        und[tuple(spans)] = True
    return und
