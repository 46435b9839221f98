"""Forms of the instructions that call no computation.

Known: of the forms that come to mind first, some do more than the instruction. `lax.dynamic_slice` counts negative
starts from the end, which its primitive does not; `lax.gather` under `promise_in_bounds` has a TPU's compiler assume
it, and under `clip` is the instruction alone; `lax.switch` clamps its index. And `lax.acos` and its like are written
out by jax, so that the opcodes of that name have no form here.
"""

from __future__ import annotations

from functools import partial

from assay.errors import Unsupported
from assay.hlo.attributes import (
    convolution_dims,
    dot_dims,
    flag,
    gather_dims,
    int_list,
    integer,
    padding,
    precision,
    slices,
    window,
    word,
)
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape, TupleShape
from assay.report.lax.source import Form, Writer, enter
from assay.report.lax.values import dims_text, dtype_text

OPS: dict[str, Form] = {}
form = partial(enter, OPS)

UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "count-leading-zeros": "clz", "cosine": "cos", "erf": "erf",
    "exponential": "exp", "exponential-minus-one": "expm1", "floor": "floor", "imag": "imag",
    "is-finite": "is_finite", "log": "log", "log-plus-one": "log1p", "logistic": "logistic", "negate": "neg",
    "not": "bitwise_not", "popcnt": "population_count", "real": "real", "rsqrt": "rsqrt", "sign": "sign",
    "sine": "sin", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip

BINARY = {
    "add": "add", "and": "bitwise_and", "atan2": "atan2", "divide": "div", "maximum": "max", "minimum": "min",
    "multiply": "mul", "or": "bitwise_or", "power": "pow", "remainder": "rem", "shift-left": "shift_left",
    "shift-right-arithmetic": "shift_right_arithmetic", "shift-right-logical": "shift_right_logical",
    "subtract": "sub", "xor": "bitwise_xor", "complex": "complex",
}  # fmt: skip


NUMBERS = frozenset(
    ("abs", "add", "atan2", "divide", "multiply", "negate", "power", "remainder", "sign", "subtract", "clamp")
)
"""Of booleans, jax.lax does not have them."""


def _plain(name: str) -> Form:
    def call(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
        opcode, dtype = instruction.opcode, computation.by_name[instruction.operands[-1]].array.dtype
        if opcode == "real" and not dtype.is_complex:
            return operands[0]
        odd = opcode in NUMBERS and dtype.kind == "pred"
        odd |= opcode == "power" and dtype.is_integer
        odd |= opcode == "imag" and not dtype.is_complex
        odd |= opcode == "abs" and dtype.is_integer and (dtype.kind == "unsigned" or dtype.bits < 8)
        odd |= opcode == "cbrt" and dtype.is_complex
        if odd:
            raise Unsupported(f"{opcode} of {dtype} in jax.lax", instruction.name)
        return f"lax.{name}({', '.join(operands)})"

    return call


OPS.update({opcode: _plain(name) for opcode, name in {**UNARY, **BINARY, "select": "select", "clamp": "clamp"}.items()})


@form("round-nearest-even")
def round_even(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.round({operands[0]}, lax.RoundingMethod.TO_NEAREST_EVEN)"


@form("round-nearest-afz")
def round_away(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.round({operands[0]}, lax.RoundingMethod.AWAY_FROM_ZERO)"


@form("compare")
def compare(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    if word(instruction, "type", "") == "TOTALORDER":
        raise Unsupported("a total order in jax.lax", instruction.name)
    return f"lax.{word(instruction, 'direction').lower()}({', '.join(operands)})"


@form("convert")
def convert(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.convert_element_type({operands[0]}, {dtype_text(instruction.array.dtype)})"


@form("bitcast-convert")
def bitcast_convert(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    dtypes = instruction.array.dtype, computation.by_name[instruction.operands[0]].array.dtype
    if dtypes[0] is not dtypes[1] and any(d.is_complex or d.kind == "pred" for d in dtypes):
        raise Unsupported("a bitcast-convert of complex numbers or booleans in jax.lax", instruction.name)
    return f"lax.bitcast_convert_type({operands[0]}, {dtype_text(instruction.array.dtype)})"


@form("reduce-precision")
def reduce_precision(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    bits = integer(instruction, "exponent_bits"), integer(instruction, "mantissa_bits")
    return f"lax.reduce_precision({operands[0]}, {bits[0]}, {bits[1]})"


@form("broadcast")
def broadcast(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    dims, kept = dims_text(instruction.array.dims), int_list(instruction, "dimensions")
    if not kept:
        return f"lax.broadcast({operands[0]}, {dims})"
    return f"lax.broadcast_in_dim({operands[0]}, {dims}, {dims_text(kept)})"


@form("reshape")
def reshape(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.reshape({operands[0]}, {dims_text(instruction.array.dims)})"


@form("transpose")
def transpose(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.transpose({operands[0]}, {dims_text(int_list(instruction, 'dimensions'))})"


@form("reverse")
def reverse(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.rev({operands[0]}, {dims_text(int_list(instruction, 'dimensions'))})"


@form("slice")
def slice_(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    starts, limits, strides = zip(*slices(instruction), strict=True) if slices(instruction) else ((), (), ())
    steps = f", {dims_text(strides)}" if any(stride != 1 for stride in strides) else ""
    return f"lax.slice({operands[0]}, {dims_text(starts)}, {dims_text(limits)}{steps})"


@form("pad")
def pad(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.pad({operands[0]}, {operands[1]}, {list(padding(instruction))})"


@form("concatenate")
def concatenate(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.concatenate([{', '.join(operands)}], {int_list(instruction, 'dimensions')[0]})"


@form("iota")
def iota(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    shape, dtype = instruction.array, dtype_text(instruction.array.dtype)
    if shape.rank == 1:
        return f"lax.iota({dtype}, {shape.dims[0]})"
    return f"lax.broadcasted_iota({dtype}, {dims_text(shape.dims)}, {integer(instruction, 'iota_dimension')})"


@form("dynamic-slice")
def dynamic_slice(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    sizes = dims_text(int_list(instruction, "dynamic_slice_sizes", required=True))
    return f"lax.dynamic_slice_p.bind({', '.join(operands)}, slice_sizes={sizes})"


@form("dynamic-update-slice")
def dynamic_update_slice(
    writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]
) -> str:
    return f"lax.dynamic_update_slice_p.bind({', '.join(operands)})"


@form("gather")
def gather(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    dims = gather_dims(instruction)
    numbers = [dims_text(d) for d in (dims.offset_dims, dims.collapsed_slice_dims, dims.start_index_map)]
    if dims.operand_batching_dims:
        batching = without(dims.start_indices_batching_dims, dims.index_vector_dim)
        numbers += [dims_text(dims.operand_batching_dims), dims_text(batching)]
    indices = index_vectors_last(computation, instruction, operands[1], dims.index_vector_dim)
    sizes = dims_text(dims.slice_sizes)
    return (
        f"lax.gather({operands[0]}, {indices}, lax.GatherDimensionNumbers({', '.join(numbers)}), {sizes}, "
        f'{index_promises(instruction)}mode="clip")'
    )


def without(dims: tuple[int, ...], where: int) -> tuple[int, ...]:
    """Dimension numbers of indices whose dimension `where` has become the last."""
    return tuple(d - (d > where) for d in dims)


def index_promises(instruction: Instruction) -> str:
    sort, unique = flag(instruction, "indices_are_sorted"), flag(instruction, "unique_indices")
    return ("indices_are_sorted=True, " if sort else "") + ("unique_indices=True, " if unique else "")


def index_vectors_last(computation: Computation, instruction: Instruction, indices: str, where: int) -> str:
    """Indices as jax.lax has them: the index vectors are the last dimension."""
    shape = computation.by_name[instruction.operands[1]].array
    if where == shape.rank:
        return f"lax.reshape({indices}, {dims_text((*shape.dims, 1))})"
    if where != shape.rank - 1:
        order = (*(d for d in range(shape.rank) if d != where), where)
        return f"lax.transpose({indices}, {dims_text(order)})"
    return indices


@form("dot")
def dot(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    if {"algorithm", "sparsity"} & instruction.attributes.keys():
        raise Unsupported("a dot with an algorithm or sparsity in jax.lax", instruction.name)
    d = dot_dims(instruction)
    contracting = f"({dims_text(d.lhs_contracting)}, {dims_text(d.rhs_contracting)})"
    numbers = f"({contracting}, ({dims_text(d.lhs_batch)}, {dims_text(d.rhs_batch)}))"
    return f"lax.dot_general({', '.join(operands)}, {numbers}{_precise(computation, instruction)})"


def _precise(computation: Computation, instruction: Instruction) -> str:
    words = precision(instruction)
    text = f', precision=("{words[0]}", "{words[1]}")' if any(w != "default" for w in words) else ""
    dtype, operand = instruction.array.dtype, computation.by_name[instruction.operands[0]].array.dtype
    if dtype.bits < operand.bits or {dtype.kind, operand.kind} == {"signed", "unsigned"}:
        raise Unsupported(f"a product of {operand} that gives {dtype} in jax.lax", instruction.name)
    if any(computation.by_name[name].array.dtype is not dtype for name in instruction.operands):
        text += f", preferred_element_type={dtype_text(dtype)}"
    return text


@form("convolution")
def convolution(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    windows, d = window(instruction), convolution_dims(instruction)
    if any(w.reversed for w in windows):
        raise Unsupported("a convolution with a reversed window in jax.lax", instruction.name)
    if instruction.array.dtype.is_complex:
        raise Unsupported("a convolution of complex numbers in jax.lax, which makes three of it", instruction.name)
    specs = (
        (d.lhs_batch, d.lhs_feature, *d.lhs_spatial),
        (d.rhs_output_feature, d.rhs_input_feature, *d.rhs_spatial),
        (d.output_batch, d.output_feature, *d.output_spatial),
    )
    named = f"lax.ConvDimensionNumbers({', '.join(map(dims_text, specs))})"
    text = f"{dims_text(tuple(w.stride for w in windows))}, {[(w.pad_low, w.pad_high) for w in windows]}"
    for key, values in (
        ("lhs_dilation", tuple(w.base_dilation for w in windows)),
        ("rhs_dilation", tuple(w.window_dilation for w in windows)),
    ):
        text += f", {key}={dims_text(values)}" if any(v != 1 for v in values) else ""
    text += f", dimension_numbers={named}"
    for key in ("feature_group_count", "batch_group_count"):
        count = integer(instruction, key, 1)
        text += f", {key}={count}" if count != 1 else ""
    return f"lax.conv_general_dilated({', '.join(operands)}, {text}{_precise(computation, instruction)})"


@form("fft")
def fft(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    lengths = dims_text(int_list(instruction, "fft_length", required=True))
    return f"lax.fft({operands[0]}, lax.FftType.{word(instruction, 'fft_type')}, {lengths})"


@form("topk")
def topk(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    operand = computation.by_name[instruction.operands[0]].array
    if not flag(instruction, "largest", True) or not operand.dtype.is_float or operand.dtype.bits < 16:
        raise Unsupported("the smallest, or of narrow types or integers, by topk in jax.lax", instruction.name)
    return f"lax.top_k({operands[0]}, {integer(instruction, 'k')})"


@form("opt-barrier")
def barrier(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"lax.optimization_barrier({operands[0]})"


@form("rng-bit-generator")
def rng_bit_generator(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    shape = instruction.shape
    if not isinstance(shape, TupleShape) or not isinstance(shape.elements[1], ArrayShape):
        raise Unsupported("rng-bit-generator without its state in jax.lax", instruction.name)
    drawn = shape.elements[1]
    state = computation.by_name[instruction.operands[0]].array
    odd = (state.dtype.name, state.dims) not in (("u32", (4,)), ("u64", (2,)))
    if odd or drawn.dtype.kind != "unsigned" or drawn.dtype.bits < 32:
        raise Unsupported(f"rng-bit-generator of {drawn.dtype} in jax.lax", instruction.name)
    algorithm = f"lax.RandomAlgorithm.{word(instruction, 'algorithm', 'rng_default').upper()}"
    return (
        f"lax.rng_bit_generator({operands[0]}, {dims_text(drawn.dims)}, {dtype_text(drawn.dtype)}, "
        f"algorithm={algorithm})"
    )
