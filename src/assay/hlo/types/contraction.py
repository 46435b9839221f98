"""Type rules of dot, convolution, reductions, sorting, linear algebra and random numbers.

Source: shape_inference.cc and hlo_verifier.cc of XLA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.hlo.attributes import (
    WindowDim,
    computation,
    convolution_dims,
    dot_dims,
    int_list,
    integer,
    window,
    word,
)
from assay.hlo.module import Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape, DType, Shape, TupleShape
from assay.hlo.types.rule import (
    PRED,
    S32,
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


def _result_dtype(instruction: Instruction, operands: Sequence[DType]) -> DType:
    """The element type of a dot or convolution: the instruction's, which may be wider or narrower, of the same kind."""
    result = result_array(instruction).dtype
    families = {"signed": "integer", "unsigned": "integer", "pred": "integer"}
    kinds = {families.get(d.kind, d.kind) for d in operands}
    widest = next(kind for kind in ("complex", "float", "integer") if kind in kinds)
    fits = families.get(result.kind, result.kind) == widest or (widest == "integer" and result.is_float)
    need(fits, f"operands of {' and '.join(d.name for d in operands)} do not give {result.name}")
    return result


def dot(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    if "sparsity" in instruction.attributes:
        return result_array(instruction)
    need(len(shapes) == 2, f"dot takes 2 operands, there are {len(shapes)}")
    return _dot(instruction, *arrays(shapes))


def scaled_dot(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    """Operands, then their scales, which repeat along the contracting dimensions."""
    lhs, rhs, *_ = arrays(shapes)
    return _dot(instruction, lhs, rhs)


def _dot(instruction: Instruction, lhs: ArrayShape, rhs: ArrayShape) -> ArrayShape:
    d = dot_dims(instruction)
    need_dims((*d.lhs_batch, *d.lhs_contracting), lhs.rank, "lhs batch and contracting dims")
    need_dims((*d.rhs_batch, *d.rhs_contracting), rhs.rank, "rhs batch and contracting dims")
    for what, a, b in (
        ("batch", d.lhs_batch, d.rhs_batch),
        ("contracting", d.lhs_contracting, d.rhs_contracting),
    ):
        need(len(a) == len(b), f"{len(a)} {what} dims of lhs and {len(b)} of rhs")
        for i, j in zip(a, b, strict=True):
            need(lhs.dims[i] == rhs.dims[j], f"{what} dims differ: {lhs.dims[i]} in lhs, {rhs.dims[j]} in rhs")
    batch = [lhs.dims[i] for i in d.lhs_batch]
    rows = [size for i, size in enumerate(lhs.dims) if i not in (*d.lhs_batch, *d.lhs_contracting)]
    columns = [size for i, size in enumerate(rhs.dims) if i not in (*d.rhs_batch, *d.rhs_contracting)]
    return of(_result_dtype(instruction, (lhs.dtype, rhs.dtype)), (*batch, *rows, *columns))


def ragged_dot(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    """The ragged lhs dimension is a row (rhs has a group dimension), contracting (the result gets one) or batch."""
    lhs, rhs, _ = arrays(shapes)
    d = dot_dims(instruction)
    ragged = int_list(instruction, "lhs_ragged_dims", required=True)
    groups = int_list(instruction, "rhs_group_dims")
    need_dims(ragged, lhs.rank, "lhs_ragged_dims")
    need_dims((*d.rhs_batch, *d.rhs_contracting, *groups), rhs.rank, "rhs batch, contracting and group dims")
    need_dims((*d.lhs_batch, *d.lhs_contracting), lhs.rank, "lhs batch and contracting dims")
    need(len(ragged) == 1, "lhs_ragged_dims has one dimension")
    for i, j in zip((*d.lhs_batch, *d.lhs_contracting), (*d.rhs_batch, *d.rhs_contracting), strict=True):
        need(lhs.dims[i] == rhs.dims[j], f"dims differ: {lhs.dims[i]} in lhs, {rhs.dims[j]} in rhs")
    sizes = array(shapes[2], "the group sizes")
    batch = [lhs.dims[i] for i in d.lhs_batch]
    rows = [size for i, size in enumerate(lhs.dims) if i not in (*d.lhs_batch, *d.lhs_contracting)]
    columns = [size for i, size in enumerate(rhs.dims) if i not in (*d.rhs_batch, *d.rhs_contracting, *groups)]
    outer = [sizes.dims[-1]] if ragged[0] in d.lhs_contracting else []
    return of(_result_dtype(instruction, (lhs.dtype, rhs.dtype)), (*outer, *batch, *rows, *columns))


def window_output(size: int, dim: WindowDim) -> int:
    """How many places a window has along a dimension of `size` elements (window_util.cc)."""
    need(dim.stride >= 1 and dim.base_dilation >= 1 and dim.window_dilation >= 1, "a stride or dilation below 1")
    need(dim.size >= 0, "a window size below 0")
    dilated = (size - 1) * dim.base_dilation + 1 if size else 0
    padded = dilated + dim.pad_low + dim.pad_high
    span = (dim.size - 1) * dim.window_dilation + 1 if dim.size else 0
    return (padded - span) // dim.stride + 1 if padded >= span and padded > 0 else 0


def convolution(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    need(len(shapes) >= 2, "convolution takes 2 operands")
    lhs, rhs, *_ = arrays(shapes)
    d, places = convolution_dims(instruction), window(instruction)
    rank = len(d.lhs_spatial) + 2
    need(lhs.rank == rhs.rank == rank, f"dim_labels are of rank {rank}, operands {show(lhs)} and {show(rhs)}")
    need(len(places) == rank - 2, f"the window has {len(places)} dimensions, dim_labels {rank - 2}")
    features, batches = integer(instruction, "feature_group_count", 1), integer(instruction, "batch_group_count", 1)
    need(features >= 1 and batches >= 1, "a group count below 1")
    need(features == 1 or batches == 1, "both feature_group_count and batch_group_count are above 1")
    inputs, outputs = rhs.dims[d.rhs_input_feature], rhs.dims[d.rhs_output_feature]
    need(
        lhs.dims[d.lhs_feature] == inputs * features,
        f"lhs has {lhs.dims[d.lhs_feature]} features, rhs takes {inputs} in {features} groups",
    )
    need(outputs % (features * batches) == 0, f"{outputs} output features in {features * batches} groups")
    need(lhs.dims[d.lhs_batch] % batches == 0, f"a batch of {lhs.dims[d.lhs_batch]} in {batches} groups")
    sizes = [0] * rank
    sizes[d.output_batch] = lhs.dims[d.lhs_batch] // batches
    sizes[d.output_feature] = outputs
    for place, i, k, o in zip(places, d.lhs_spatial, d.rhs_spatial, d.output_spatial, strict=True):
        need(place.size == rhs.dims[k], f"the window's size {place.size} is not rhs's {rhs.dims[k]}")
        sizes[o] = window_output(lhs.dims[i], place)
    return of(_result_dtype(instruction, (lhs.dtype, rhs.dtype)), sizes)


def _halves(shapes: Shapes) -> tuple[tuple[ArrayShape, ...], tuple[ArrayShape, ...]]:
    """Operands and as many initial values; operands of equal dims, initial values scalars."""
    need(shapes and len(shapes) % 2 == 0, f"{len(shapes)} operands are not inputs and as many initial values")
    count = len(shapes) // 2
    inputs, starts = arrays(shapes[:count]), arrays(shapes[count:])
    for other in inputs[1:]:
        need(other.dims == inputs[0].dims, f"inputs differ: {show(inputs[0])} and {show(other)}")
    for start in starts:
        need(start.dims == (), f"an initial value is {show(start)}, not a scalar")
    return inputs, starts


def _reducer_types(instruction: Instruction, starts: tuple[ArrayShape, ...], module: Module) -> tuple[DType, ...]:
    """The element types that to_apply gives, after a check of what it takes."""
    body = callee(module, computation(instruction, "to_apply"))
    need_parameters(body, (*starts, *starts))
    root = body.root.shape
    found = arrays(root.elements if isinstance(root, TupleShape) else (root,))
    need(len(found) == len(starts), f"computation {body.name} gives {len(found)} values for {len(starts)}")
    for value, start in zip(found, starts, strict=True):
        need_same(value, start, f"computation {body.name} gives what it does not take")
    return tuple(value.dtype for value in found)


def reduce_(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    inputs, starts = _halves(shapes)
    dims = int_list(instruction, "dimensions", required=True)
    need_dims(dims, inputs[0].rank, "dimensions")
    for value, start in zip(inputs, starts, strict=True):
        need(value.dtype is start.dtype, f"{show(value)} with the initial value {show(start)}")
    types = _reducer_types(instruction, starts, module)
    kept = [size for d, size in enumerate(inputs[0].dims) if d not in dims]
    return one_or_tuple([of(t, kept) for t in types])


def reduce_window(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    inputs, starts = _halves(shapes)
    places = window(instruction)
    need(len(places) == inputs[0].rank, f"the window has {len(places)} dimensions, the operand {inputs[0].rank}")
    for value, start in zip(inputs, starts, strict=True):
        need(value.dtype is start.dtype, f"{show(value)} with the initial value {show(start)}")
    types = _reducer_types(instruction, starts, module)
    sizes = [window_output(size, dim) for size, dim in zip(inputs[0].dims, places, strict=True)]
    return one_or_tuple([of(t, sizes) for t in types])


def select_and_scatter(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, source, start = arrays(shapes)
    places = window(instruction)
    need(len(places) == operand.rank, f"the window has {len(places)} dimensions, the operand {operand.rank}")
    sizes = [window_output(size, dim) for size, dim in zip(operand.dims, places, strict=True)]
    need_same(source, of(operand.dtype, sizes), "the source has not the shape of the window's places")
    need_same(start, scalar(operand.dtype), "the initial value is no scalar of the operand's type")
    chooser = callee(module, computation(instruction, "select"))
    need_parameters(chooser, (scalar(operand.dtype),) * 2)
    need_same(chooser.root.shape, scalar(PRED), "select does not give a pred")
    adder = callee(module, computation(instruction, "scatter"))
    need_parameters(adder, (scalar(operand.dtype),) * 2)
    need_same(adder.root.shape, scalar(operand.dtype), "scatter does not give the operand's type")
    return operand


def sort(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    operands, dims = arrays(shapes), int_list(instruction, "dimensions", required=True)
    need(operands and len(dims) == 1, "sort has operands and one dimension")
    need_dims(dims, operands[0].rank, "dimensions")
    for other in operands[1:]:
        need(other.dims == operands[0].dims, f"operands differ: {show(operands[0])} and {show(other)}")
    body = callee(module, computation(instruction, "to_apply"))
    need_parameters(body, [scalar(o.dtype) for o in operands for _ in range(2)])
    need_same(body.root.shape, scalar(PRED), f"the comparison {body.name} does not give a pred")
    return one_or_tuple(operands)


def topk(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    operand, k = array(shapes[0]), integer(instruction, "k")
    need(operand.rank in (1, 2), f"topk takes rank 1 or 2, not {operand.rank}")
    need(0 <= k <= operand.dims[-1], f"k={k} of {operand.dims[-1]} elements")
    sizes = (*operand.dims[:-1], k)
    return tuple_of((of(operand.dtype, sizes), of(S32, sizes)))


_HALF = {"f32": "c64", "f64": "c128"}


def fft(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, kind, lengths = array(shapes[0]), word(instruction, "fft_type"), int_list(instruction, "fft_length")
    need(1 <= len(lengths) <= 3 and len(lengths) <= operand.rank, f"fft_length has {len(lengths)} entries")
    last = operand.dims[-len(lengths) :]
    outer = operand.dims[: operand.rank - 1]
    if kind == "RFFT":
        need(operand.dtype.name in _HALF, f"RFFT takes f32 or f64, not {operand.dtype.name}")
        need(last == lengths, f"fft_length={lengths} of an operand of {last}")
        return of(DTYPES[_HALF[operand.dtype.name]], (*outer, lengths[-1] // 2 + 1))
    need(operand.dtype.is_complex, f"{kind} takes complex numbers, not {operand.dtype.name}")
    if kind == "IRFFT":
        need(last == (*lengths[:-1], lengths[-1] // 2 + 1), f"fft_length={lengths} of an operand of {last}")
        return of(operand.dtype.part, (*outer, lengths[-1]))
    need(kind in ("FFT", "IFFT"), f"unknown fft_type={kind}")
    need(last == lengths, f"fft_length={lengths} of an operand of {last}")
    return operand


def _need_square(shape: ArrayShape) -> None:
    need(shape.rank >= 2 and shape.dims[-1] == shape.dims[-2], f"{show(shape)} is no (batch of) square matrix")
    need(shape.dtype.is_float or shape.dtype.is_complex, f"matrices of {shape.dtype.name}")


def cholesky(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = array(shapes[0])
    _need_square(operand)
    return operand


def triangular_solve(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    a, b = arrays(shapes)
    _need_square(a)
    need(a.rank == b.rank and a.dims[:-2] == b.dims[:-2] and a.dtype is b.dtype, f"a {show(a)} and b {show(b)} differ")
    left = word(instruction, "left_side", "false") == "true"
    need(
        a.dims[-1] == b.dims[-2 if left else -1],
        f"a {show(a)} does not solve b {show(b)}, left_side={str(left).lower()}",
    )
    transposed = word(instruction, "transpose_a", "NO_TRANSPOSE")
    need(transposed in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), f"unknown transpose_a={transposed}")
    return b


def _batch_norm(instruction: Instruction, shapes: Shapes, per_feature: int) -> tuple[ArrayShape, ArrayShape]:
    operand, *others = arrays(shapes)
    feature = integer(instruction, "feature_index")
    need_dims((feature,), operand.rank, "feature_index")
    one = of(operand.dtype, (operand.dims[feature],))
    for other in others[:per_feature]:
        need_same(other, one, "an operand has not one value a feature")
    return operand, one


def batch_norm_training(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    operand, one = _batch_norm(instruction, shapes, 2)
    return tuple_of((operand, one, one))


def batch_norm_inference(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return _batch_norm(instruction, shapes, 4)[0]


def batch_norm_grad(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    operand, one = _batch_norm(instruction, shapes, 3)
    need_same(array(shapes[4]), operand, "the output's gradient has not the operand's shape")
    return tuple_of((operand, one, one))


def rng(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    result, distribution = result_array(instruction), word(instruction, "distribution")
    need(distribution in ("rng_uniform", "rng_normal"), f"unknown distribution={distribution}")
    need(len(shapes) == 2, f"rng takes 2 operands, there are {len(shapes)}")
    for operand in shapes:
        need_same(operand, scalar(result.dtype), "a parameter is no scalar of the result's type")
    return result


def rng_bit_generator(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    state = array(shapes[0], "the state")
    need(state.dtype.kind == "unsigned" and state.rank == 1, f"the state is {show(state)}, not a vector of u32 or u64")
    known = ("rng_default", "rng_three_fry", "rng_philox")
    need(word(instruction, "algorithm") in known, f"algorithm={word(instruction, 'algorithm')} is none of {known}")
    result = instruction.shape
    if not isinstance(result, TupleShape) or len(result.elements) != 2:
        wrong(f"the result {show(result)} is not (state, bits)")
    need(array(result.elements[1]).dtype.is_integer, f"the bits are {show(result.elements[1])}")
    return tuple_of((state, result.elements[1]))


def rng_get_and_update_state(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    result = result_array(instruction)
    need(result.dtype.name == "u64" and math.prod(result.dims) == 2, f"the state is {show(result)}, not u64[2]")
    integer(instruction, "delta")
    return result


CONTRACTION: dict[str, Rule] = {
    "dot": dot,
    "scaled-dot": scaled_dot,
    "ragged-dot": ragged_dot,
    "convolution": convolution,
    "reduce": reduce_,
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
    "sort": sort,
    "topk": topk,
    "fft": fft,
    "cholesky": cholesky,
    "triangular-solve": triangular_solve,
    "batch-norm-training": batch_norm_training,
    "batch-norm-inference": batch_norm_inference,
    "batch-norm-grad": batch_norm_grad,
    "rng": rng,
    "rng-bit-generator": rng_bit_generator,
    "rng-get-and-update-state": rng_get_and_update_state,
}
