"""`dot` and `ragged-dot`: batched matrix products, (batch, m, k) by (batch, k, n), in float64 BLAS with their radii.

Operands may be of any types: the result's type is the one products and sums are kept in (XLA's
preferred_element_type), unless the policy lets the target accumulate in a wider one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import Context, mark
from assay.reference.multipliers import operand_error
from assay.reference.ops.movement import joined, moved
from assay.reference.products import integer_products, sum_of_products
from assay.reference.registry import operation
from assay.reference.sums import alike_products
from assay.reference.value import Ball, Value, as_ball, held_dtype


@operation("dot")
def dot(ctx: Context, instr: Instruction, a: Ball, b: Ball, *sparsity: Value) -> Value:
    if sparsity or "sparsity" in instr.attributes:
        raise Unsupported("dot", "sparse operands")
    dims = attributes.dot_dims(instr)
    left = _matrices(a, dims.lhs_batch, dims.lhs_contracting, rows_first=True)
    right = _matrices(b, dims.rhs_batch, dims.rhs_contracting, rows_first=False)
    found = matrix_product(ctx, instr.array.dtype, left, right, error=operand_error(ctx, instr, a, b))
    return reshaped(found, instr.array.dims)


def _matrices(x: Ball, batch: Sequence[int], contracting: Sequence[int], *, rows_first: bool) -> Ball:
    """(batch, free, contracted), or (batch, contracted, free) for the right operand."""
    dims = x.mid.shape
    free = [axis for axis in range(len(dims)) if axis not in batch and axis not in contracting]
    groups = (batch, free, contracting) if rows_first else (batch, contracting, free)
    order = [axis for group in groups for axis in group]
    sizes = [prod(dims[axis] for axis in group) for group in groups]
    return moved(x, lambda part: part.transpose(order).reshape(sizes))


def reshaped(x: Ball, dims: Sequence[int]) -> Ball:
    return moved(x, lambda part: part.reshape(dims))


def matrix_product(ctx: Context, result: DType, a: Ball, b: Ball, *, error: float) -> Ball:
    """(batch, m, k) by (batch, k, n) to (batch, m, n) of type `result`."""
    k = a.mid.shape[-1]
    if not (result.is_float or result.is_complex):
        return integer_products(result, a, b, np.matmul, np.matmul, k)
    return sum_of_products(ctx, result, a, b, np.matmul, k, partial(alike_products, ctx), error=error)


@operation("ragged-dot")
def ragged_dot(ctx: Context, instr: Instruction, a: Ball, b: Ball, sizes: Ball) -> Value:
    """Rows (or contracted positions) of `a` belong to groups that lie one after another, of sizes given by an array.

    Ragged free dimension: (m, k) by (groups, k, n) to (m, n), rows beyond the last group zero. Ragged contraction:
    (m, k) by (k, n) to (groups, m, n). Ragged batch: like a dot (xla_data.proto, RaggedDotDimensionNumbers).

    Group sizes that are undecided move every later group's rows: all of the result is undecided.
    """
    if sizes.und is not None and sizes.und.any():
        decided = Ball(sizes.dtype, np.maximum(sizes.mid, 0))
        found = as_ball(ragged_dot(ctx, instr, a, b, decided))
        return mark(found, np.ones(found.dims, bool))
    dims = attributes.dot_dims(instr)
    ragged = attributes.int_list(instr, "lhs_ragged_dims", required=True)
    groups = attributes.int_list(instr, "rhs_group_dims")
    if (sizes.mid < 0).any():
        raise Unsupported("ragged-dot", "negative group sizes")
    if sizes.mid.ndim != 1 or len(ragged) != 1 or len(groups) > 1:
        raise Unsupported("ragged-dot", "group sizes for each batch")
    axis = ragged[0]
    ends = np.minimum(np.cumsum(sizes.mid.astype(np.int64)), a.mid.shape[axis])
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    result, error = instr.array, operand_error(ctx, instr, a, b)
    if axis in dims.lhs_batch:
        left = _matrices(a, dims.lhs_batch, dims.lhs_contracting, rows_first=True)
        right = _matrices(b, dims.rhs_batch, dims.rhs_contracting, rows_first=False)
        return reshaped(matrix_product(ctx, result.dtype, left, right, error=error), result.dims)
    if axis in dims.lhs_contracting:
        other = dims.rhs_contracting[dims.lhs_contracting.index(axis)]
        parts = []
        for low, high in spans:
            left = _matrices(_cut(a, axis, low, high), dims.lhs_batch, dims.lhs_contracting, rows_first=True)
            right = _matrices(_cut(b, other, low, high), dims.rhs_batch, dims.rhs_contracting, rows_first=False)
            parts.append(reshaped(matrix_product(ctx, result.dtype, left, right, error=error), result.dims[1:]))
        return joined(parts, np.stack)
    # The ragged dimension is a free one: it comes after the batch dimensions of the result.
    free = [d for d in range(a.mid.ndim) if d not in dims.lhs_batch and d not in dims.lhs_contracting]
    at = len(dims.lhs_batch) + free.index(axis)
    group_axis = groups[0]

    def without(axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(d - (d > group_axis) for d in axes)

    parts = []
    for group, (low, high) in enumerate([*spans, (int(ends[-1]), a.mid.shape[axis])]):
        dims_of_part = (*result.dims[:at], int(high - low), *result.dims[at + 1 :])
        if group == len(spans):
            parts.append(Ball(result.dtype, np.zeros(dims_of_part, held_dtype(result.dtype))))
            continue
        left = _matrices(_cut(a, axis, low, high), dims.lhs_batch, dims.lhs_contracting, rows_first=True)
        slab = _indexed(b, group_axis, group)
        right = _matrices(slab, without(dims.rhs_batch), without(dims.rhs_contracting), rows_first=False)
        parts.append(reshaped(matrix_product(ctx, result.dtype, left, right, error=error), dims_of_part))
    return joined(parts, lambda arrays: np.concatenate(arrays, at))


def _cut(x: Ball, axis: int, low: int, high: int) -> Ball:
    return moved(x, lambda part: part[(slice(None),) * axis + (slice(int(low), int(high)),)])


def _indexed(x: Ball, axis: int, index: int) -> Ball:
    return moved(x, lambda part: part[(slice(None),) * axis + (index,)])
