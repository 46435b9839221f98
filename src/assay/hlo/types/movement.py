"""Type rules of operations that move elements. Source: shape_inference.cc and hlo_verifier.cc of XLA."""

from __future__ import annotations

from assay.hlo.attributes import computation, gather_dims, int_list, integer, padding, scatter_dims, slices
from assay.hlo.module import Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, byte_size, is_tiled, padded_byte_size
from assay.hlo.types.rule import (
    S32,
    U32,
    Rule,
    Shapes,
    array,
    arrays,
    callee,
    need,
    need_dims,
    need_parameters,
    need_same,
    of,
    one_or_tuple,
    result_array,
    scalar,
    show,
    tuple_of,
    wrong,
)


def same(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """copy, opt-barrier, domain: the operand as it is."""
    return shapes[0]


def bitcast(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """The same bytes under another shape; in tiled layouts (TPU) as many padded bytes, or the first of them."""
    operand, result = shapes[0], instruction.shape
    if is_tiled(operand) or is_tiled(result):
        before, after = padded_byte_size(operand), padded_byte_size(result)
        need(after <= before, f"a bitcast of {before} padded bytes to {after}: {show(operand)} and {show(result)}")
    else:
        before, after = byte_size(operand), byte_size(result)
        need(before == after, f"a bitcast of {before} bytes to {after}: {show(operand)} and {show(result)}")
    return result


def broadcast(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, result = array(shapes[0]), result_array(instruction)
    dims = int_list(instruction, "dimensions")
    need(len(dims) == operand.rank, f"dimensions has {len(dims)} entries for an operand of rank {operand.rank}")
    need_dims(dims, result.rank, "dimensions")
    expected = list(result.dims)
    for d, size in zip(dims, operand.dims, strict=True):
        expected[d] = size
    return of(operand.dtype, expected)


def reshape(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, result = array(shapes[0]), result_array(instruction)
    need(operand.size == result.size, f"{operand.size} elements do not reshape to {result.size}")
    return of(operand.dtype, result.dims)


def transpose(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, dims = array(shapes[0]), int_list(instruction, "dimensions")
    need(sorted(dims) == list(range(operand.rank)), f"dimensions={dims} is no permutation of rank {operand.rank}")
    return of(operand.dtype, (operand.dims[d] for d in dims))


def reverse(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = array(shapes[0])
    need_dims(int_list(instruction, "dimensions"), operand.rank, "dimensions")
    return operand


def slice_(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, ranges = array(shapes[0]), slices(instruction)
    need(len(ranges) == operand.rank, f"slice has {len(ranges)} ranges for an operand of rank {operand.rank}")
    sizes = []
    for d, ((start, limit, stride), size) in enumerate(zip(ranges, operand.dims, strict=True)):
        fits = 0 <= start <= limit <= size and stride >= 1
        need(fits, f"the range [{start}:{limit}:{stride}] of dimension {d} does not fit its size {size}")
        sizes.append(-(-(limit - start) // stride))
    return of(operand.dtype, sizes)


def pad(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, value = arrays(shapes)
    need_same(value, scalar(operand.dtype), "the padding value is no scalar of the operand's type")
    widths = padding(instruction)
    need(len(widths) == operand.rank, f"padding has {len(widths)} entries for an operand of rank {operand.rank}")
    sizes = []
    for (low, high, interior), size in zip(widths, operand.dims, strict=True):
        need(interior >= 0, f"interior padding {interior} is below 0")
        padded = size + low + high + max(size - 1, 0) * interior
        need(padded >= 0, f"padding {low}_{high}_{interior} leaves {padded} of {size} elements")
        sizes.append(padded)
    return of(operand.dtype, sizes)


def concatenate(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operands, dims = arrays(shapes), int_list(instruction, "dimensions")
    need(operands and len(dims) == 1, "concatenate has operands and one dimension")
    first, d = operands[0], dims[0]
    need_dims(dims, first.rank, "dimensions")
    for i, other in enumerate(operands[1:], 1):
        same_around = other.rank == first.rank and all(
            a == b for k, (a, b) in enumerate(zip(first.dims, other.dims, strict=True)) if k != d
        )
        need(same_around and other.dtype is first.dtype, f"operand {i} is {show(other)}, operand 0 {show(first)}")
    return of(first.dtype, (*first.dims[:d], sum(o.dims[d] for o in operands), *first.dims[d + 1 :]))


def _need_indices(indices: tuple[ArrayShape, ...], rank: int) -> None:
    """The start of a dynamic slice: one scalar a dimension, or in old modules one vector."""
    for i in indices:
        need(i.dtype.is_integer, f"an index is {show(i)}, not an integer")
    old = len(indices) == 1 and indices[0].dims == (rank,)
    need(old or (len(indices) == rank and all(i.dims == () for i in indices)), f"expected {rank} scalar indices")
    need(len({i.dtype.name for i in indices}) <= 1, "the indices have different types")


def dynamic_slice(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, *indices = arrays(shapes)
    _need_indices(tuple(indices), operand.rank)
    sizes = int_list(instruction, "dynamic_slice_sizes")
    need(len(sizes) == operand.rank, f"dynamic_slice_sizes has {len(sizes)} entries for rank {operand.rank}")
    for size, whole in zip(sizes, operand.dims, strict=True):
        need(0 <= size <= whole, f"a slice of {size} does not fit a dimension of {whole}")
    return of(operand.dtype, sizes)


def dynamic_update_slice(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    need(len(shapes) >= 2, "expected an operand, an update and indices")
    operand, update, *indices = arrays(shapes)
    _need_indices(tuple(indices), operand.rank)
    fits = update.rank == operand.rank and all(u <= o for u, o in zip(update.dims, operand.dims, strict=True))
    need(fits and update.dtype is operand.dtype, f"the update {show(update)} does not fit {show(operand)}")
    return operand


def _batch_sizes(indices: ArrayShape, index_vector_dim: int) -> list[int]:
    need(0 <= index_vector_dim <= indices.rank, f"index_vector_dim={index_vector_dim} for rank {indices.rank}")
    need(indices.dtype.is_integer, f"the indices are {indices.dtype.name}, not integers")
    return [size for d, size in enumerate(indices.dims) if d != index_vector_dim]


def _index_size(indices: ArrayShape, index_vector_dim: int) -> int:
    return indices.dims[index_vector_dim] if index_vector_dim < indices.rank else 1


def gather(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, indices = arrays(shapes)
    g = gather_dims(instruction)
    batch = _batch_sizes(indices, g.index_vector_dim)
    need(
        len(g.start_index_map) == _index_size(indices, g.index_vector_dim),
        f"start_index_map has {len(g.start_index_map)} entries, an index {_index_size(indices, g.index_vector_dim)}",
    )
    need_dims(g.start_index_map, operand.rank, "start_index_map")
    need_dims((*g.collapsed_slice_dims, *g.operand_batching_dims), operand.rank, "collapsed_slice_dims with batching")
    need(
        len(g.operand_batching_dims) == len(g.start_indices_batching_dims),
        "the lists of batching dims differ in length",
    )
    need_dims(g.start_indices_batching_dims, indices.rank, "start_indices_batching_dims")
    need(len(g.slice_sizes) == operand.rank, f"slice_sizes has {len(g.slice_sizes)} entries for rank {operand.rank}")
    for size, whole in zip(g.slice_sizes, operand.dims, strict=True):
        need(0 <= size <= whole, f"a slice of {size} does not fit a dimension of {whole}")
    gone = {*g.collapsed_slice_dims, *g.operand_batching_dims}
    for d in gone:
        need(g.slice_sizes[d] <= 1, f"slice_sizes[{d}]={g.slice_sizes[d]} of a collapsed or batching dimension")
    for a, b in zip(g.operand_batching_dims, g.start_indices_batching_dims, strict=True):
        need(operand.dims[a] == indices.dims[b], f"batching dimensions of {operand.dims[a]} and {indices.dims[b]}")
    window = [size for d, size in enumerate(g.slice_sizes) if d not in gone]
    need(
        len(window) == len(g.offset_dims), f"offset_dims has {len(g.offset_dims)} entries for {len(window)} slice dims"
    )
    rank = len(batch) + len(window)
    need_dims(g.offset_dims, rank, "offset_dims")
    need(list(g.offset_dims) == sorted(g.offset_dims), "offset_dims is not sorted")
    rest, inner = iter(batch), iter(window)
    return of(operand.dtype, (next(inner) if d in g.offset_dims else next(rest) for d in range(rank)))


def scatter(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    count = len(shapes) // 2
    need(len(shapes) % 2 == 1 and count >= 1, f"{len(shapes)} operands are not inputs, indices and as many updates")
    operands, indices, updates = shapes[:count], array(shapes[count], "the indices"), shapes[count + 1 :]
    s = scatter_dims(instruction)
    batch = _batch_sizes(indices, s.index_vector_dim)
    inputs, values = arrays(operands), arrays(updates)
    for operand, update in zip(inputs, values, strict=True):
        need(operand.dims == inputs[0].dims, f"inputs differ: {show(operand)} and {show(inputs[0])}")
        need(operand.dtype is update.dtype, f"input {show(operand)} and update {show(update)} have different types")
        need_dims(s.scatter_dims_to_operand_dims, operand.rank, "scatter_dims_to_operand_dims")
        need_dims((*s.inserted_window_dims, *s.input_batching_dims), operand.rank, "inserted_window_dims with batching")
        need_dims(s.update_window_dims, update.rank, "update_window_dims")
        need(
            len(s.scatter_dims_to_operand_dims) == _index_size(indices, s.index_vector_dim),
            f"scatter_dims_to_operand_dims has {len(s.scatter_dims_to_operand_dims)} entries, "
            f"an index {_index_size(indices, s.index_vector_dim)}",
        )
        gone = {*s.inserted_window_dims, *s.input_batching_dims}
        bounds = [size for d, size in enumerate(operand.dims) if d not in gone]
        need(len(bounds) == len(s.update_window_dims), f"update_window_dims should have {len(bounds)} entries")
        for d, bound in zip(s.update_window_dims, bounds, strict=True):
            need(update.dims[d] <= bound, f"an update's window of {update.dims[d]} does not fit {bound}")
        around = [size for d, size in enumerate(update.dims) if d not in s.update_window_dims]
        need(around == batch, f"an update {show(update)} does not fit the indices {show(indices)}")
    body = callee(module, computation(instruction, "to_apply"))
    need_parameters(body, [scalar(a.dtype) for a in (*inputs, *inputs)])
    given = one_or_tuple([scalar(a.dtype) for a in inputs])
    need_same(body.root.shape, given, f"computation {body.name} gives what it does not take")
    return one_or_tuple(operands)


def iota(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    result = result_array(instruction)
    need(result.rank >= 1 and result.dtype.kind != "pred", f"iota does not give {show(result)}")
    need_dims((integer(instruction, "iota_dimension"),), result.rank, "iota_dimension")
    return result


def get_dimension_size(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    need_dims(int_list(instruction, "dimensions"), array(shapes[0]).rank, "dimensions")
    return scalar(S32)


def set_dimension_size(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, size = arrays(shapes)
    need_same(size, scalar(S32), "the size is no s32 scalar")
    need_dims(int_list(instruction, "dimensions"), operand.rank, "dimensions")
    return operand


def dynamic_reshape(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, *sizes = arrays(shapes)
    result = result_array(instruction)
    need(len(sizes) == result.rank, f"{len(sizes)} sizes for a result of rank {result.rank}")
    need(operand.size == result.size, f"{operand.size} elements do not reshape to {result.size}")
    return of(operand.dtype, result.dims)


def copy_start(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """(copy, original, context)"""
    context = _context(instruction, 2, scalar(U32))
    return tuple_of((shapes[0], shapes[0], context))


def copy_done(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    whole = shapes[0]
    if not (isinstance(whole, TupleShape) and len(whole.elements) == 3):
        wrong(f"the operand {show(whole)} is not that of a copy-start")
    return whole.elements[0]


def _context(instruction: Instruction, index: int, default: Shape) -> Shape:
    """The context of an asynchronous operation is the backend's own: taken from the instruction where it has one."""
    shape = instruction.shape
    if isinstance(shape, TupleShape) and len(shape.elements) > index:
        return shape.elements[index]
    return default


MOVEMENT: dict[str, Rule] = {
    "copy": same,
    "opt-barrier": same,
    "domain": same,
    "shuffle": same,
    "bitcast": bitcast,
    "broadcast": broadcast,
    "reshape": reshape,
    "dynamic-reshape": dynamic_reshape,
    "transpose": transpose,
    "reverse": reverse,
    "slice": slice_,
    "pad": pad,
    "concatenate": concatenate,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
    "iota": iota,
    "get-dimension-size": get_dimension_size,
    "set-dimension-size": set_dimension_size,
    "copy-start": copy_start,
    "copy-done": copy_done,
}
