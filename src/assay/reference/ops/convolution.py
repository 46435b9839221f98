"""`convolution`: windows of the left operand as rows of a matrix (im2col, in blocks), times the kernel, in float64
BLAS.

Everything is brought to one form first: lhs (groups, batch, spatial.., in) padded and dilated, rhs (groups,
window.., in, out), result (groups, batch, spatial.., out). Batch groups and feature groups differ only in which axis
is cut. Transformed algorithms (Winograd, FFT) are outside the bound, which is that of direct sums.
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod

import numpy as np

from assay.hlo import attributes
from assay.hlo.attributes import WindowDim
from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference.context import Context, mark
from assay.reference.multipliers import operand_error
from assay.reference.ops import convolution_products
from assay.reference.ops.convolution_products import Role
from assay.reference.ops.movement import moved
from assay.reference.products import integer_products, sum_of_products
from assay.reference.registry import operation
from assay.reference.sums import few_valued
from assay.reference.value import Array, Ball, Value

_BLOCK = 1 << 22  # elements of the window matrix held at once
_MANY = 1024  # terms from which a kernel of few values alone is suspicious


@operation("convolution")
def convolution(ctx: Context, instr: Instruction, lhs: Ball, rhs: Ball) -> Value:
    dims = attributes.convolution_dims(instr)
    windows = attributes.window(instr)
    feature_groups = attributes.integer(instr, "feature_group_count", 1)
    batch_groups = attributes.integer(instr, "batch_group_count", 1)
    groups = max(feature_groups, batch_groups)
    flips = tuple(slice(None, None, -1 if w.reversed else 1) for w in windows)
    roles = convolution_products.roles([lhs.dims[d] for d in dims.lhs_spatial], windows)
    if roles is not None and Role.BATCH in roles and not (_finite(lhs) and _finite(rhs)):
        roles = None  # infinities meet the zeros of a dilation

    def left(x: Array) -> Array:  # (groups, batch, spatial.., in)
        x = x.transpose(dims.lhs_batch, *dims.lhs_spatial, dims.lhs_feature)
        x = x if roles else padded_and_dilated(x, windows, x.dtype.type(0), first=1)
        if batch_groups > 1:
            return x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
        return np.moveaxis(x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups), -2, 0)

    def right(x: Array) -> Array:  # (groups, window.., in, out)
        x = x.transpose(*dims.rhs_spatial, dims.rhs_input_feature, dims.rhs_output_feature)[flips]
        return np.moveaxis(x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups), -2, 0)

    a, b = moved(lhs, left), moved(rhs, right)
    f = partial(convolution_products.product, roles) if roles else partial(_convolve, windows)
    terms = prod(_meeting(w) for w in windows) * b.mid.shape[-2]
    result = instr.array.dtype
    if result.is_float or result.is_complex:
        error = operand_error(ctx, instr, lhs, rhs)
        found = sum_of_products(ctx, result, a, b, f, terms, partial(_alike, terms), error=error)
        if rhs.mid.dtype.kind in "fc" and _adds_zeros(windows) and not np.isfinite(rhs.mid).all():
            # Whether an infinite weight meets the padding's zeros is the implementation's affair.
            found = mark(found, ~np.isfinite(found.mid))
    else:
        found = integer_products(result, a, b, f, f, terms)
    order = np.argsort((dims.output_batch, *dims.output_spatial, dims.output_feature))

    def out(x: Array) -> Array:
        x = np.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1]).transpose(order)

    return moved(found, out)


def _finite(x: Ball) -> bool:
    return x.und is None and bool(np.isfinite(x.mid).all())


def _meeting(w: WindowDim) -> int:
    """How many elements of the window can meet elements of the operand rather than the zeros of its dilation."""
    return ceil(w.size / w.base_dilation) if w.window_dilation == 1 else w.size


def _adds_zeros(windows: tuple[WindowDim, ...]) -> bool:
    return any(w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1 for w in windows)


def padded_and_dilated(x: Array, windows: tuple[WindowDim, ...], fill: object, *, first: int = 0) -> Array:
    """x with its axes from `first` on dilated and padded as the windows say, cropped where padding is negative."""
    sizes = x.shape[first : first + len(windows)]
    spread = [max(0, (n - 1) * w.base_dilation + 1) for n, w in zip(sizes, windows, strict=True)]
    full = [max(0, n + w.pad_low + w.pad_high) for n, w in zip(spread, windows, strict=True)]
    if tuple(full) == sizes and all(w.pad_low == 0 and w.base_dilation == 1 for w in windows):
        return x
    shape = (*x.shape[:first], *full, *x.shape[first + len(windows) :])
    out = np.full(shape, fill, x.dtype)
    source: list[slice] = [slice(None)] * first
    target: list[slice] = [slice(None)] * first
    for n, w, size in zip(sizes, windows, full, strict=True):
        # Element i lands at i * dilation + pad_low, where that is inside.
        low = max(0, ceil(-w.pad_low / w.base_dilation))
        high = min(n, (size - 1 - w.pad_low) // w.base_dilation + 1)
        if high <= low:
            return out
        source.append(slice(low, high))
        start = low * w.base_dilation + w.pad_low
        target.append(slice(start, start + (high - low - 1) * w.base_dilation + 1, w.base_dilation))
    out[tuple(target)] = x[tuple(source)]
    return out


def window_view(x: Array, windows: tuple[WindowDim, ...], *, first: int = 0) -> Array:
    """(lead.., places.., window.., rest..): every window of the axes from `first` on, as a view without a copy."""
    rank = len(windows)
    axes = x.shape[first : first + rank]
    steps = x.strides[first : first + rank]
    reach = [(w.size - 1) * w.window_dilation + 1 for w in windows]
    places = [0 if n < r else (n - r) // w.stride + 1 for n, r, w in zip(axes, reach, windows, strict=True)]
    shape = (*x.shape[:first], *places, *(w.size for w in windows), *x.shape[first + rank :])
    strides = (
        *x.strides[:first],
        *(s * w.stride for s, w in zip(steps, windows, strict=True)),
        *(s * w.window_dilation for s, w in zip(steps, windows, strict=True)),
        *x.strides[first + rank :],
    )
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _convolve(windows: tuple[WindowDim, ...], lhs: Array, rhs: Array) -> Array:
    """(groups, batch, spatial.., in) by (groups, window.., in, out) to (groups, batch, places.., out)."""
    rank = len(windows)
    lhs = np.ascontiguousarray(lhs)
    view = window_view(lhs, windows, first=2)  # (groups, batch, places.., window.., in)
    groups, batch, *rest = view.shape
    places = rest[:rank]
    inner = prod(rest[rank:])
    kernel = np.ascontiguousarray(rhs).reshape(groups, inner, rhs.shape[-1])
    out = np.zeros((groups, batch, *places, kernel.shape[-1]), np.result_type(lhs, rhs))
    if out.size == 0 or inner == 0:
        return out
    if rank == 0:
        out[...] = view @ kernel
        return out
    slab = prod(places[1:]) * inner
    lines = max(1, _BLOCK // max(1, slab * groups))  # places of the first spatial axis in one block
    images = max(1, lines // places[0]) if places[0] else 1
    for b in range(0, batch, images):
        for p in range(0, places[0], min(lines, places[0])):
            where = (slice(None), slice(b, b + images), slice(p, p + min(lines, places[0])))
            block = view[where]
            product = block.reshape(groups, -1, inner) @ kernel
            out[where] = product.reshape(out[where].shape)
    return out


def _alike(terms: int, lhs: Array, rhs: Array, mid: Array, magnitude: Array, dtype: DType) -> Array | bool:
    """Steady sums: a kernel of few values over an image of few values."""
    if terms <= 64:
        return False
    columns = few_valued(np.swapaxes(rhs.reshape(rhs.shape[0], -1, rhs.shape[-1]), 1, 2))  # (groups, out)
    if not columns.any() or not (terms > _MANY or few_valued(lhs.reshape(1, -1)).any()):
        return False
    return columns.reshape(columns.shape[0], *(1,) * (mid.ndim - 2), columns.shape[1])
