"""gather and scatter: windows at indices that are themselves data.

Semantics: XLA's operation_semantics (Gather, Scatter) and hlo_evaluator.cc. A gather clamps each start so that its
window fits; a scatter drops an update whose window does not fit as a whole. Indices are mathematical integers
whatever their type: bounds are not computed in it, and an unsigned index does not turn negative (openxla/xla#48718).

Both work on flat arrays: a window's first element has a flat place, and its others lie at fixed distances from it.
"""

from __future__ import annotations

from dataclasses import dataclass

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
class _Starts:
    """Where windows begin.

    values: (*batch, operand dimensions) int64, as the indices say, neither clamped nor checked.
    doubt: of the same shape, where an index is undecided; None where none is.
    sorted: the values ascend, as `indices_are_sorted` promises.
    """

    values: Array
    doubt: Array | None
    sorted: bool


def _starts(
    indices: Ball, vector_dim: int, to_operand: tuple[int, ...], batching: tuple[tuple[int, int], ...], rank: int
) -> _Starts:
    """to_operand: the operand dimension of each index component. batching: pairs of operand dimension, indices
    dimension.
    """

    def vectors(x: Array) -> Array:  # (*batch, components)
        return x[..., None] if vector_dim == x.ndim else np.moveaxis(x, vector_dim, -1)

    raw = vectors(indices.mid)
    whole = np.minimum(raw, FAR).astype(np.int64) if raw.dtype == np.uint64 else raw.astype(np.int64)
    whole = np.clip(whole, -FAR, FAR)
    values = np.zeros((*raw.shape[:-1], rank), np.int64)
    values[..., list(to_operand)] = whole
    batch_axes = [dim - (dim > vector_dim) for _, dim in batching]
    for (operand_dim, _), axis in zip(batching, batch_axes, strict=True):
        counter = np.arange(raw.shape[axis])
        values[..., operand_dim] = counter.reshape([-1 if i == axis else 1 for i in range(raw.ndim - 1)])
    doubt: Array | None = None
    if indices.und is not None and indices.und.any():
        doubt = np.zeros(values.shape, bool)
        doubt[..., list(to_operand)] = vectors(indices.und)
    return _Starts(values, doubt, _ascend(whole[..., np.argsort(to_operand)], batch_axes))


def _ascend(vectors: Array, batch_axes: list[int]) -> bool:
    """Whether index vectors, components in the order of operand dimensions, ascend within each cell of the batch."""
    lines = np.moveaxis(vectors, batch_axes, range(len(batch_axes)))
    cells = int(np.prod(lines.shape[: len(batch_axes)]))
    if lines.size == 0 or lines.size == cells * lines.shape[-1]:
        return True
    lines = lines.reshape(cells, -1, vectors.shape[-1])
    undecided = np.ones(lines[:, 1:, 0].shape, bool)
    for component in np.moveaxis(lines, -1, 0):
        before, after = component[:, :-1], component[:, 1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
    return True


def _strides(dims: tuple[int, ...]) -> Array:
    """Distance between neighbours along each dimension in a flat row-major array."""
    return np.cumprod((1, *dims[:0:-1]), dtype=np.int64)[::-1] if dims else np.zeros(0, np.int64)


def _distances(sizes: tuple[int, ...], strides: Array) -> Array:
    """Flat distance of each element of a window of `sizes` from the window's first element."""
    flat = np.zeros((), np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        flat = flat[..., None] + np.arange(size) * stride
    return flat.ravel()


# ---------------------------------------------------------------- gather


@operation("gather")
def gather(ctx: Context, instr: Instruction, a: Ball, indices: Ball) -> Value:
    dims = gather_dims(instr)
    shape = instr.array.dims
    batching = tuple(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    starts = _starts(indices, dims.index_vector_dim, dims.start_index_map, batching, a.mid.ndim)
    batch = starts.values.shape[:-1]
    absent = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    window = [size for d, size in enumerate(dims.slice_sizes) if d not in absent]
    window_axes = range(len(batch), len(batch) + len(window))
    # Trailing dimensions that are taken whole are moved as one block.
    first = a.mid.ndim
    while first and dims.slice_sizes[first - 1] == a.dims[first - 1]:
        first -= 1
    block = int(np.prod(a.dims[first:], dtype=np.int64))
    room = np.subtract(a.dims, dims.slice_sizes)
    strides = _strides(a.dims[:first])
    places = (np.clip(starts.values, 0, room)[..., :first] * strides).sum(-1)[..., None]
    places = places + _distances(dims.slice_sizes[:first], strides)

    def taken(x: Array) -> Array:
        if 0 in shape:
            return np.empty(shape, x.dtype)
        if x.ndim and x.strides == (0,) * x.ndim:
            return np.broadcast_to(x.flat[0], shape)  # one value everywhere
        rows = x.reshape(-1, block).take(places, 0)
        return np.moveaxis(rows.reshape((*batch, *window)), window_axes, dims.offset_dims)

    result = moved(a, taken)
    und = result.und
    if starts.doubt is not None:
        unsure = (starts.doubt & (room > 0)).any(-1)  # where a window fills its dimension the start does not matter
        unsure = np.moveaxis(unsure.reshape(*batch, *[1] * len(window)), window_axes, dims.offset_dims)
        und = union(und, np.broadcast_to(unsure, shape))
    elif flag(instr, "indices_are_sorted") and not starts.sorted:
        ctx.notes.add(f"{instr.name}: the indices are not sorted although indices_are_sorted says so")
        und = np.broadcast_to(True, shape)
    return Ball(result.dtype, result.mid, result.rad, und)


# ---------------------------------------------------------------- scatter


@operation("scatter")
def scatter(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    count = len(operands) // 2
    bases, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    dims = scatter_dims(instr)
    shape = bases[0].dims
    batching = tuple(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    starts = _starts(indices, dims.index_vector_dim, dims.scatter_dims_to_operand_dims, batching, len(shape))
    absent = {*dims.inserted_window_dims, *dims.input_batching_dims}
    window = iter(updates[0].dims[d] for d in dims.update_window_dims)
    sizes = tuple(1 if d in absent else next(window) for d in range(len(shape)))
    room = np.subtract(shape, sizes)
    fits = ((starts.values >= 0) & (starts.values <= room)).all(-1).ravel()
    strides = _strides(shape)
    first = (starts.values * strides).sum(-1).ravel()[fits]
    places = (first[:, None] + _distances(sizes, strides)).ravel()

    def windows(x: Array) -> Array:  # in the order of `places`
        rank = len(dims.update_window_dims)
        back = np.moveaxis(x, dims.update_window_dims, range(x.ndim - rank, x.ndim))
        rows = back.reshape(fits.size, int(np.prod(sizes)))
        return rows.ravel() if fits.all() else rows[fits].ravel()

    flat = [moved(base, lambda x: x.reshape(-1)) for base in bases]
    values = [moved(update, windows) for update in updates]
    results = combine(ctx, computation(instr, "to_apply"), flat, places, values, unique=flag(instr, "unique_indices"))
    und: Array | None = None
    if starts.doubt is not None:
        und = _reach(starts, shape, sizes)
    elif flag(instr, "indices_are_sorted") and not starts.sorted:
        ctx.notes.add(f"{instr.name}: the indices are not sorted although indices_are_sorted says so")
        und = np.zeros(bases[0].mid.size, bool)
        und[places] = True
        und = und.reshape(shape)
    shaped = [moved(result, lambda x: x.reshape(shape)) for result in results]
    marked = tuple(Ball(r.dtype, r.mid, r.rad, union(r.und, und)) for r in shaped)
    return marked if count > 1 else marked[0]


def _reach(starts: _Starts, shape: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """The elements that windows with an undecided start may touch: along an undecided dimension, all of them."""
    assert starts.doubt is not None
    doubts = starts.doubt.reshape(-1, len(shape))
    rows = np.flatnonzero(doubts.any(-1))
    if rows.size > 64 or not shape:
        return np.broadcast_to(True, shape)
    und = np.zeros(shape, bool)
    values = starts.values.reshape(-1, len(shape))
    for row in rows:
        spans = [
            slice(None) if doubt else slice(max(start, 0), max(start + size, 0))
            for start, size, doubt in zip(values[row].tolist(), sizes, doubts[row], strict=True)
        ]
        und[tuple(spans)] = True
    return und
