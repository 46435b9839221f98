"""Draws operations that move elements about."""

from __future__ import annotations

import math

from assay.hlo.shape import DTYPES, ArrayShape, DType

from .builder import Builder, braces
from .catalogue import draws
from .values import draw_values

INDEX_TYPES = ("s32", "u8", "s8", "u32", "s64", "u16", "s16", "u64")


@draws("psufc", "copy", "reshape", "bitcast", "opt-barrier")
def reshape(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    size = math.prod(dims)
    other = b.choices.pick((dims, (size,), dims[::-1], (1, *dims), (*dims, 1)))
    if opcode not in ("reshape", "bitcast"):
        other = dims
    b.result(dtype, other, f"{opcode}({b.operand(dtype, dims)})")


@draws("psufc", "broadcast")
def broadcast(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    axes = sorted(b.choices.some(range(len(dims)), 0, len(dims)))
    b.result(dtype, dims, f"broadcast({b.operand(dtype, [dims[d] for d in axes])}), dimensions={braces(axes)}")


@draws("psufc", "transpose")
def transpose(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    order = b.choices.shuffled(range(len(dims)))
    result = [dims[d] for d in order]
    b.result(dtype, result, f"transpose({b.operand(dtype, dims)}), dimensions={braces(order)}")


@draws("psufc", "reverse")
def reverse(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    axes = b.choices.some(range(len(dims)), 0, len(dims))
    b.result(dtype, dims, f"reverse({b.operand(dtype, dims)}), dimensions={braces(axes)}")


@draws("psufc", "slice")
def slice_(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    ranges, result = [], []
    for size in dims:
        start = b.choices.between(0, size)
        limit = b.choices.between(start, size)
        stride = b.choices.pick((1, 2, 3, 9))
        ranges.append(f"[{start}:{limit}:{stride}]")
        result.append(-(-(limit - start) // stride))
    b.result(dtype, result, f"slice({b.operand(dtype, dims)}), slice={{{', '.join(ranges)}}}")


@draws("psufc", "pad")
def pad(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, large=False)  # XLA's own parser has no padding of rank 0
    widths, result = [], []
    for size in dims:
        low, high = b.choices.between(-3, 3), b.choices.between(-3, 3)
        interior = b.choices.pick((0, 0, 1, 2))
        padded = size + max(size - 1, 0) * interior + low + high
        if padded < 0:
            low, high, padded = 0, 0, size + max(size - 1, 0) * interior
        widths.append(f"{low}_{high}_{interior}")
        result.append(padded)
    operands = f"{b.operand(dtype, dims)}, {b.operand(dtype, ())}"
    b.result(dtype, result, f"pad({operands}), padding={'x'.join(widths)}")


@draws("psufc", "concatenate")
def concatenate(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)
    axis = b.choices.below(len(dims))
    sizes = [b.choices.pick((1, 2, 3, 0, 5)) for _ in range(b.choices.between(1, 4))]
    operands = [b.operand(dtype, (*dims[:axis], size, *dims[axis + 1 :])) for size in sizes]
    result = (*dims[:axis], sum(sizes), *dims[axis + 1 :])
    b.result(dtype, result, f"concatenate({', '.join(operands)}), dimensions={{{axis}}}")


def starts(b: Builder, dims: tuple[int, ...]) -> list[str]:
    """A scalar index for each dimension, inside and outside, of one integer type."""
    index = DTYPES[b.choices.pick(INDEX_TYPES)]
    found = []
    for size in dims:
        value = draw_values(b.choices, index, (), ("small", "normal", "edges", "bits"))
        if b.choices.chance(2):
            value = value * 0 + min(b.choices.between(0, size), 120)
            value = value.astype(index.numpy)
        found.append(b.constant(index, value) if b.choices.chance(4) else b.parameter(index, (), value=value))
    return found


@draws("psufc", "dynamic-slice")
def dynamic_slice(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)  # StableHLO's text has no empty sizes
    sizes = [b.choices.between(0 if b.choices.chance(10) else min(1, size), size) for size in dims]
    operands = [b.operand(dtype, dims), *starts(b, dims)]
    b.result(dtype, sizes, f"dynamic-slice({', '.join(operands)}), dynamic_slice_sizes={braces(sizes)}")


@draws("psufc", "dynamic-update-slice")
def dynamic_update_slice(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)
    sizes = [b.choices.between(0 if b.choices.chance(10) else min(1, size), size) for size in dims]
    operands = [b.operand(dtype, dims), b.operand(dtype, sizes), *starts(b, dims)]
    b.result(dtype, dims, f"dynamic-update-slice({', '.join(operands)})")


@draws("psufc", "get-dimension-size")
def get_dimension_size(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)
    axis = b.choices.below(len(dims))
    b.result(DTYPES["s32"], (), f"get-dimension-size({b.operand(dtype, dims)}), dimensions={{{axis}}}")


@draws("psufc", "copy-done", "copy-start")
def copy_done(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    shape = ArrayShape(dtype, dims)
    started = b.tuple_op([shape, shape, ArrayShape(DTYPES["u32"], ())], f"copy-start({b.operand(dtype, dims)})")
    b.result(dtype, dims, f"copy-done({started})")
