"""Forms of the instructions that call a computation."""

from __future__ import annotations

from functools import partial

from assay.errors import Unsupported
from assay.hlo.attributes import branches, flag, int_list, scatter_dims, window
from assay.hlo.attributes import computation as called
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape
from assay.report.lax.ops import BINARY, NUMBERS, index_promises, index_vectors_last, without
from assay.report.lax.source import Form, Writer, enter
from assay.report.lax.values import dims_text

CALLS: dict[str, Form] = {}
form = partial(enter, CALLS)

SCATTERS = {
    "add": "scatter_add", "multiply": "scatter_mul", "minimum": "scatter_min", "maximum": "scatter_max",
}  # fmt: skip


def one_operation(body: Computation) -> str | None:
    """The opcode of a body that applies one commutative operation to its two parameters, else None."""
    root = body.root
    if len(body.parameters) != 2 or root.opcode not in BINARY:
        return None
    given = {p.name for p in body.parameters}
    commutes = root.opcode in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
    in_order = [body.parameters[0].name, body.parameters[1].name] == list(root.operands)
    return root.opcode if set(root.operands) == given and (commutes or in_order) else None


def _combiner(writer: Writer, name: str) -> str:
    """`lax.add` for a body that adds; the name of a function for others."""
    body = writer.module.by_name[name]
    opcode = one_operation(body)
    dtype = body.root.array.dtype if opcode is not None else None
    if dtype is not None and (
        (opcode in ("and", "or", "xor") and dtype.bits < 8 and dtype.is_integer)
        or (opcode in NUMBERS and dtype.kind == "pred")
    ):
        raise Unsupported(f"a reduction of {dtype} by {opcode} in jax.lax")
    return f"lax.{BINARY[opcode]}" if opcode is not None else writer.function(name)


def _pairwise(writer: Writer, name: str, operands: int) -> str:
    """The combiner of a reduction of several arrays, which jax.lax calls with two tuples."""
    function = writer.function(name)
    return f"lambda a, b: {function}(*a, *b)" if operands > 1 else function


def _several(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _reducer(writer: Writer, instruction: Instruction, operands: list[str]) -> str:
    """What `lax.reduce` and `lax.reduce_window` begin with: operands, initial values, combiner."""
    body, count = called(instruction, "to_apply"), len(operands) // 2
    combiner = _combiner(writer, body) if count == 1 else _pairwise(writer, body, count)
    return f"{_several(operands[:count])}, {_several(operands[count:])}, {combiner}"


@form("reduce")
def reduce(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    if not int_list(instruction, "dimensions"):
        raise Unsupported("a reduction of no dimension in jax.lax, which leaves it out", instruction.name)
    return f"lax.reduce({_reducer(writer, instruction, operands)}, {dims_text(int_list(instruction, 'dimensions'))})"


@form("reduce-window")
def reduce_window(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    windows = window(instruction)
    sizes, strides = dims_text(tuple(w.size for w in windows)), dims_text(tuple(w.stride for w in windows))
    text = f"{sizes}, {strides}, {[(w.pad_low, w.pad_high) for w in windows]}"
    for key, values in (
        ("base_dilation", tuple(w.base_dilation for w in windows)),
        ("window_dilation", tuple(w.window_dilation for w in windows)),
    ):
        text += f", {key}={dims_text(values)}" if any(v != 1 for v in values) else ""
    return f"lax.reduce_window({_reducer(writer, instruction, operands)}, {text})"


@form("scatter")
def scatter(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    if len(operands) != 3:
        raise Unsupported("a scatter of several operands in jax.lax", instruction.name)
    body = writer.module.by_name[called(instruction, "to_apply")]
    opcode = one_operation(body)
    name = "scatter" if body.root.parameter_number == 1 else SCATTERS.get(opcode or "")
    if name is None:
        raise Unsupported("a scatter with this combiner in jax.lax", instruction.name)
    d = scatter_dims(instruction)
    numbers = [dims_text(n) for n in (d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims)]
    if d.input_batching_dims:
        batching = without(d.scatter_indices_batching_dims, d.index_vector_dim)
        numbers += [dims_text(d.input_batching_dims), dims_text(batching)]
    indices = index_vectors_last(computation, instruction, operands[1], d.index_vector_dim)
    text = f"lax.ScatterDimensionNumbers({', '.join(numbers)})"
    return f'lax.{name}({operands[0]}, {indices}, {operands[2]}, {text}, {index_promises(instruction)}mode="drop")'


@form("sort")
def sort(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    body = writer.module.by_name[called(instruction, "to_apply")]
    if not ascending(body):
        raise Unsupported("a sort by this comparator in jax.lax", instruction.name)
    dimension = int_list(instruction, "dimensions", required=True)[0]
    stable = flag(instruction, "is_stable")
    keys = ", num_keys=1" if len(operands) > 1 else ""
    return f"lax.sort({_several(operands)}, dimension={dimension}, is_stable={stable}{keys})"


def ascending(body: Computation) -> bool:
    """Whether a comparator is the one of `lax.sort` by one key: `<` of the first pair; of floats in their total order,
    with zeros and NaNs made one each.
    """
    root = body.root
    if root.opcode != "compare" or root.attributes.get("direction") != "LT":
        return False
    sides = body.operands(root)
    if not sides[0].array.dtype.is_float:
        return [side.parameter_number for side in sides] == [0, 1]
    if root.attributes.get("type") != "TOTALORDER":
        return False
    return all(_one_nan(body, side, number) for number, side in enumerate(sides))


def _one_nan(body: Computation, side: Instruction, number: int) -> bool:
    """select(x != x, NaN, select(x == 0, 0, x)) of parameter `number`, as jax writes it; the order of the two may be
    the other."""
    tests = set()
    while side.opcode == "select":
        test, constant, rest = body.operands(side)
        if test.opcode != "compare" or constant.literal is None:
            return False
        tests.add(test.attributes.get("direction"))
        side = rest
    return side.parameter_number == number and tests == {"EQ", "NE"}


@form("call")
def call(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    return f"jax.jit({writer.function(called(instruction, 'to_apply'))})({', '.join(operands)})"


@form("while")
def while_(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    condition, body = (writer.function(called(instruction, key)) for key in ("condition", "body"))
    return f"lax.while_loop({condition}, {body}, {operands[0]})"


@form("conditional")
def conditional(writer: Writer, computation: Computation, instruction: Instruction, operands: list[str]) -> str:
    selector = computation.by_name[instruction.operands[0]]
    functions = [writer.function(name) for name in branches(instruction)]
    closures = [f"lambda: {f}({o})" for f, o in zip(functions, operands[1:], strict=True)]
    if isinstance(selector.shape, ArrayShape) and selector.shape.dtype.kind == "pred":
        return f"lax.cond({operands[0]}, {', '.join(closures)})"
    if selector.opcode not in ("clamp", "convert"):
        raise Unsupported("a conditional whose index may be out of range in jax.lax", instruction.name)
    return f"lax.switch({operands[0]}, [{', '.join(closures)}])"
