"""Elements that change place and nothing else: no operation here commits an error, so midpoint, radius and doubt move
together.

Semantics: XLA's operation_semantics (Broadcast, Concatenate, Iota, Pad, Rev, Reshape, Transpose) and
hlo_evaluator.cc. Where NumPy can give a view, the result is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attributes import int_list, integer, padding
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape, Layout, TupleShape
from assay.reference.context import Context, mark
from assay.reference.registry import custom_call, find, operation
from assay.reference.value import Array, Ball, Token, Value, as_ball, held_dtype, wrap


def moved(ball: Ball, move: Callable[[Array], Array]) -> Ball:
    """`move` applied alike to midpoint, radius and doubt."""
    return Ball(
        ball.dtype,
        move(ball.mid),
        None if ball.rad is None else move(ball.rad),
        None if ball.und is None else move(ball.und),
    )


def joined(balls: Sequence[Ball], join: Callable[[list[Array]], Array]) -> Ball:
    """`join` applied to the midpoints, the radii and the doubts of several arrays; missing ones count as zero."""
    rad = und = None
    if any(ball.rad is not None for ball in balls):
        rad = join([np.broadcast_to(0.0, b.mid.shape) if b.rad is None else b.rad for b in balls])
    if any(ball.und is not None for ball in balls):
        und = join([np.broadcast_to(False, b.mid.shape) if b.und is None else b.und for b in balls])
    return Ball(balls[0].dtype, join([ball.mid for ball in balls]), rad, und)


# ---------------------------------------------------------------- shape


@operation("broadcast")
def broadcast(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """Operand dimension i becomes result dimension dimensions[i]; the others repeat the operand."""
    dims, shape = int_list(instr, "dimensions"), instr.array.dims
    spread = [1] * len(shape)
    for d, size in zip(dims, a.dims, strict=True):
        spread[d] = size
    if list(dims) == sorted(dims):
        return moved(a, lambda x: np.broadcast_to(x.reshape(spread), shape))
    order = np.argsort(dims)
    return moved(a, lambda x: np.broadcast_to(x.transpose(order).reshape(spread), shape))


@operation("reshape")
def reshape(ctx: Context, instr: Instruction, a: Ball) -> Value:
    shape = instr.array.dims
    return moved(a, lambda x: x.reshape(shape))


@operation("dynamic-reshape")
def dynamic_reshape(ctx: Context, instr: Instruction, a: Ball, *sizes: Ball) -> Value:
    if any(instr.array.dynamic):
        raise Unsupported("dynamic-reshape", "a dynamic result shape")
    return reshape(ctx, instr, a)


@operation("transpose")
def transpose(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """result.dims[i] = operand.dims[dimensions[i]]."""
    order = int_list(instr, "dimensions")
    return moved(a, lambda x: x.transpose(order))


@operation("reverse")
def reverse(ctx: Context, instr: Instruction, a: Ball) -> Value:
    dims = int_list(instr, "dimensions")
    return moved(a, lambda x: np.flip(x, dims))


@operation("concatenate")
def concatenate(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    (axis,) = int_list(instr, "dimensions")
    return joined(operands, lambda arrays: np.concatenate(arrays, axis))


# ---------------------------------------------------------------- bitcast


@operation("bitcast")
def bitcast(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The same bytes under another shape and layout: elements keep their place in memory, not in the index space."""
    shapes, target = ctx.operand_shapes(instr), instr.array
    source = shapes[0] if shapes is not None else ArrayShape(a.dtype, a.dims)
    assert isinstance(source, ArrayShape)
    if source.dtype.bits != target.dtype.bits:
        return _rewidened(ctx, instr, a, source, target)
    if source.dtype.name != target.dtype.name:
        shape = ArrayShape(target.dtype, a.dims)
        a = as_ball(find("bitcast-convert")(ctx, replace(instr, opcode="bitcast-convert", shape=shape), a))
    if source.rank == 0 and target.rank == 0:
        return a  # in a body applied to elements, `a` is an array of scalars
    if any(shape.layout is not None and shape.layout.tiles for shape in (source, target)):
        return _tiled_bitcast(a, source, target)
    if source.size != target.size:
        raise Unsupported("bitcast", f"of {source.size} elements to {target.size}")
    into, out = _to_memory(source), _to_memory(target)
    in_memory = tuple(target.dims[d] for d in out)
    back = np.argsort(out)
    return moved(a, lambda x: x.transpose(into).reshape(in_memory).transpose(back))


def _rewidened(ctx: Context, instr: Instruction, a: Ball, source: ArrayShape, target: ArrayShape) -> Ball:
    """Elements of another width: each cut in parts, or several put together, in the order of memory."""
    wide, narrow = max(source.dtype.bits, target.dtype.bits), min(source.dtype.bits, target.dtype.bits)
    tiled = any(shape.layout is not None and shape.layout.tiles for shape in (source, target))
    if narrow < 8 or tiled or source.size * source.dtype.bits != target.size * target.dtype.bits:
        raise Unsupported("bitcast", f"from {source.dtype} to {target.dtype}")
    each = wide // narrow
    flat = moved(a, lambda x: x.transpose(_to_memory(source)).ravel())
    dims: tuple[int, ...] = (target.size,)
    if source.dtype.bits < target.dtype.bits:
        flat = moved(flat, lambda x: x.reshape(-1, each))
    else:
        dims = (source.size, each)
    shape = ArrayShape(target.dtype, dims)
    bits = as_ball(find("bitcast-convert")(ctx, replace(instr, opcode="bitcast-convert", shape=shape), flat))
    out = _to_memory(target)
    in_memory, back = tuple(target.dims[d] for d in out), np.argsort(out)
    return moved(bits, lambda x: x.reshape(in_memory).transpose(back))


def _to_memory(shape: ArrayShape) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory."""
    layout = shape.layout or Layout(tuple(reversed(range(shape.rank))))
    return tuple(reversed(layout.minor_to_major))


def _tiled_bitcast(a: Ball, source: ArrayShape, target: ArrayShape) -> Ball:
    """What the result reads from the operand's padding is undecided."""
    wanted, held = memory_places(target).ravel(), memory_places(source).ravel()
    if not wanted.size:
        return moved(a, lambda x: x.reshape(target.dims))
    element_at = np.full(max(int(held.max(initial=0)), int(wanted.max())) + 1, -1)
    element_at[held] = np.arange(held.size)
    take = element_at[wanted]
    result = moved(a, lambda x: x.ravel()[take].reshape(target.dims))
    padding_read = (take < 0).reshape(target.dims)
    return mark(result, padding_read)


def memory_places(shape: ArrayShape) -> Array:
    """For each element the place in memory that layout and tiles give it, in elements. (dims)

    A tile splits the dimensions it covers, the fastest ones, into (tiles, within the tile); a further tile splits
    what is within (XLA, "Tiled layout"). So each physical dimension is `index // divisor % extent` of one logical
    dimension.
    """
    order = _to_memory(shape)
    parts = [(d, 1, shape.dims[d]) for d in order]  # (dimension, divisor, extent), slowest first
    for tile in shape.layout.tiles if shape.layout is not None else ():
        if None in tile.dims:
            raise Unsupported("bitcast", "a tile that joins dimensions")
        sizes = [int(t or 1) for t in tile.dims]
        if len(sizes) > len(parts):
            raise Unsupported("bitcast", "a tile of more dimensions than its array has")
        kept, covered = parts[: len(parts) - len(sizes)], parts[len(parts) - len(sizes) :]
        outer = [(d, by * t, -(-extent // t)) for (d, by, extent), t in zip(covered, sizes, strict=True)]
        inner = [(d, by, t) for (d, by, _), t in zip(covered, sizes, strict=True)]
        parts = [*kept, *outer, *inner]
    places = np.zeros(shape.dims, np.int64)
    stride = 1
    for d, by, extent in reversed(parts):
        view = [1] * shape.rank
        view[d] = shape.dims[d]
        places += (np.arange(shape.dims[d]) // by % extent * stride).reshape(view)
        stride *= extent
    return places


# ---------------------------------------------------------------- pad


@operation("pad")
def pad(ctx: Context, instr: Instruction, a: Ball, value: Ball) -> Value:
    """Elements go to low + i * (interior + 1), what falls outside is cropped, and `value` fills the rest."""
    shape = instr.array.dims
    source: list[slice] = []
    target: list[slice] = []
    for size, out, (low, _high, interior) in zip(a.dims, shape, padding(instr), strict=True):
        step = interior + 1
        first = min(max(0, -(low // step)), size)  # the first i with low + i * step >= 0
        last = min(size, -((low - out) // step))  # one after the last i with low + i * step < out
        last = max(first, last)
        start = low + first * step
        source.append(slice(first, last))
        target.append(slice(start, start + (last - first - 1) * step + 1, step) if last > first else slice(0, 0))
    src, dst = tuple(source), tuple(target)

    def filled(arrays: list[Array]) -> Array:
        inner, fill = arrays
        result = np.full(shape, fill, inner.dtype)
        result[dst] = inner[src]
        return result

    return joined((a, value), filled)


# ---------------------------------------------------------------- iota


@operation("iota")
def iota(ctx: Context, instr: Instruction) -> Value:
    """The index along `iota_dimension`. Integers keep its low bits (elemental_ir_emitter.cc: an integer cast); floats
    round it.
    """
    shape, axis = instr.array, integer(instr, "iota_dimension")
    view = [1] * shape.rank
    view[axis] = shape.dims[axis]
    counter = np.arange(shape.dims[axis], dtype=np.int64)
    if shape.dtype.is_integer:
        held = counter.astype(held_dtype(shape.dtype))
        line = Ball(shape.dtype, wrap(shape.dtype, held if shape.dtype.bits >= 8 else counter))
    elif shape.dtype.part.name == "f64":
        line = Ball(shape.dtype, counter.astype(held_dtype(shape.dtype)))  # every index is a float64
    elif shape.dtype.is_float or shape.dtype.is_complex:
        line = ctx.rounded(shape.dtype, counter.astype(np.float64))
    else:
        raise Unsupported("iota", f"of {shape.dtype}")
    return moved(line, lambda x: np.broadcast_to(x.reshape(view), shape.dims))


# ---------------------------------------------------------------- copies


@operation("copy", "domain")
def copy(ctx: Context, instr: Instruction, a: Value) -> Value:
    return a


@operation("copy-start")
def copy_start(ctx: Context, instr: Instruction, a: Value) -> Value:
    """(destination, source, context)."""
    assert isinstance(instr.shape, TupleShape)
    context: list[Value] = [
        Ball(s.dtype, np.zeros(s.dims, held_dtype(s.dtype))) if isinstance(s, ArrayShape) else Token()
        for s in instr.shape.elements[2:]
    ]
    return (a, a, *context)


@operation("copy-done")
def copy_done(ctx: Context, instr: Instruction, started: tuple[Value, ...]) -> Value:
    return started[0]


@custom_call(
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "annotate_device_placement",
    "AssumeGatherIndicesInBound",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
)
def annotation(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """Annotations of placement and sharding: on one device they are copies."""
    a = operands[0]
    if len(operands) != 1 or (isinstance(instr.shape, ArrayShape) and as_ball(a).dims != instr.shape.dims):
        raise Unsupported(f"custom-call {instr.attributes.get('custom_call_target', '')}", "on more than one device")
    return a


# ---------------------------------------------------------------- sizes of dimensions


def _full_size(instr: Instruction, a: Ball) -> int:
    return a.dims[int_list(instr, "dimensions", required=True)[0]]


@operation("get-dimension-size")
def get_dimension_size(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """Dynamic dimensions never come about (see set-dimension-size), so the static size is the size."""
    return Ball(DTYPES["s32"], np.asarray(_full_size(instr, a), np.int32))


@operation("set-dimension-size")
def set_dimension_size(ctx: Context, instr: Instruction, a: Ball, size: Ball) -> Value:
    if size.und is not None or int(size.mid) != _full_size(instr, a):
        raise Unsupported("set-dimension-size", "to less than the whole dimension")
    return a
