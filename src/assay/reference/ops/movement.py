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
from assay.hlo.shape import DTYPES, ArrayShape, DType, TupleShape
from assay.reference.context import Context, mark
from assay.reference.physical import byte_places, elements_at, is_tiled, route, slowest_first
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
    """The same bytes under another shape and layout: elements keep their place in memory, not in the index space. What
    the result reads from the operand's padding is undecided.
    """
    shapes, target = ctx.operand_shapes(instr), instr.array
    source = shapes[0] if shapes is not None else ArrayShape(a.dtype, a.dims)
    assert isinstance(source, ArrayShape)
    if source.dtype.bits != target.dtype.bits:
        return _rewidened(ctx, instr, a, source, target)
    if source.dtype.name != target.dtype.name:
        a = _bits(ctx, instr, a, target.dtype, a.dims)
    if source.rank == 0 and target.rank == 0:
        return a  # in a body applied to elements, `a` is an array of scalars
    if source.size != target.size and not (is_tiled(source) or is_tiled(target)):
        raise Unsupported("bitcast", f"of {source.size} elements to {target.size}")
    order, take = route(source, target)
    if take is not None:
        return taken(a, take, target.dims)
    assert order is not None
    out = slowest_first(target)
    in_memory = tuple(target.dims[d] for d in out)
    back = tuple(int(d) for d in np.argsort(out))
    return moved(a, lambda x: x.transpose(order).reshape(in_memory).transpose(back))


def _bits(ctx: Context, instr: Instruction, a: Ball, dtype: DType, dims: tuple[int, ...]) -> Ball:
    shape = ArrayShape(dtype, dims)
    return as_ball(find("bitcast-convert")(ctx, replace(instr, opcode="bitcast-convert", shape=shape), a))


def taken(a: Ball, take: Array, dims: tuple[int, ...]) -> Ball:
    """Elements of `a` by number, in an array of shape `dims`; undecided where the number is -1, in any run:
    padding holds the right element where an earlier bitcast left it there, for kernels compute on padding as well.
    """
    if a.mid.size == 0 or take.size == 0:
        return mark(moved(a, lambda x: np.zeros(dims, x.dtype)), np.ones(dims, bool))
    result = moved(a, lambda x: x.ravel()[take].reshape(dims))
    return mark(result, (take < 0).reshape(dims))


def _rewidened(ctx: Context, instr: Instruction, a: Ball, source: ArrayShape, target: ArrayShape) -> Ball:
    """Elements of another width: each cut in bytes, which are put together again, in the order of memory."""
    narrow = min(source.dtype.bits, target.dtype.bits)
    whole = source.size * source.dtype.bits == target.size * target.dtype.bits
    if narrow < 8 or not (whole or is_tiled(source) or is_tiled(target)):
        raise Unsupported("bitcast", f"from {source.dtype} to {target.dtype}")
    u8 = DTYPES["u8"]
    cut = a if a.dtype.bits == 8 else _bits(ctx, instr, a, u8, (*a.dims, a.dtype.bits // 8))
    take = elements_at([byte_places(source)], byte_places(target))
    dims = (*target.dims, target.dtype.bits // 8)
    if target.dtype.bits == 8:
        return _bits(ctx, instr, taken(cut, take, target.dims), target.dtype, target.dims)
    return _bits(ctx, instr, taken(cut, take, dims), target.dtype, target.dims)


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
