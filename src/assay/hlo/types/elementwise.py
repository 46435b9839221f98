"""Type rules of operations that work element by element. Source: shape_inference.cc and hlo_verifier.cc of XLA."""

from __future__ import annotations

from assay.hlo.attributes import computation, int_list, integer, word
from assay.hlo.module import Instruction, Module
from assay.hlo.opcodes import BINARY, UNARY
from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.hlo.types.rule import (
    PRED,
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
    result_array,
    scalar,
    show,
    wrong,
)

# Kinds of element type an opcode takes: p pred, s signed, u unsigned, f float, c complex.
_TAKES: dict[str, str] = {
    "abs": "sufc",
    "negate": "sufc",
    "sign": "sufc",
    "not": "psu",
    "popcnt": "su",
    "count-leading-zeros": "su",
    "ceil": "f",
    "floor": "f",
    "round-nearest-afz": "f",
    "round-nearest-even": "f",
    "is-finite": "f",
    "erf": "f",
    "real": "fc",
    "imag": "fc",
    "add": "psufc",
    "subtract": "sufc",
    "multiply": "psufc",
    "divide": "sufc",
    "remainder": "suf",
    "power": "sufc",
    "maximum": "psufc",
    "minimum": "psufc",
    "atan2": "fc",
    "mulhi": "su",
    "and": "psu",
    "or": "psu",
    "xor": "psu",
    "shift-left": "su",
    "shift-right-arithmetic": "su",
    "shift-right-logical": "su",
}
_TRANSCENDENTAL = "fc"
_LETTER = {"pred": "p", "signed": "s", "unsigned": "u", "float": "f", "complex": "c"}
_NAMES = {"p": "pred", "s": "signed integers", "u": "unsigned integers", "f": "floats", "c": "complex numbers"}


def _need_kind(opcode: str, dtype: DType) -> None:
    takes = _TAKES.get(opcode, _TRANSCENDENTAL)
    if _LETTER[dtype.kind] not in takes:
        wrong(f"{opcode} takes {', '.join(_NAMES[letter] for letter in takes)}, not {dtype.name}")


def _all_alike(shapes: tuple[ArrayShape, ...]) -> ArrayShape:
    first = shapes[0]
    for i, other in enumerate(shapes[1:], 1):
        need_same(first, other, f"operands 0 and {i} differ")
    return first


def unary(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = array(shapes[0])
    _need_kind(instruction.opcode, operand.dtype)
    return operand


def binary(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = _all_alike(arrays(shapes))
    _need_kind(instruction.opcode, operand.dtype)
    return operand


def part_of_complex(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    """abs, real, imag: a complex operand gives its parts' type."""
    operand = unary(instruction, shapes, module)
    return of(operand.dtype.part, operand.dims)


def is_finite(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    return of(PRED, unary(instruction, shapes, module).dims)


_DIRECTIONS = frozenset(("EQ", "NE", "GE", "GT", "LE", "LT"))
_COMPARISONS = {
    "FLOAT": ("float", "complex"),
    "TOTALORDER": ("float",),
    "SIGNED": ("signed",),
    "UNSIGNED": ("unsigned", "pred"),
}


def compare(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = _all_alike(arrays(shapes))
    direction, kind = word(instruction, "direction"), operand.dtype.kind
    need(direction in _DIRECTIONS, f"direction={direction} is not one of {', '.join(sorted(_DIRECTIONS))}")
    need(
        kind != "complex" or direction in ("EQ", "NE"),
        f"{operand.dtype.name} has no order, so no direction={direction}",
    )
    comparison = word(instruction, "type", "")
    if comparison:
        need(kind in _COMPARISONS.get(comparison, ()), f"type={comparison} does not fit {operand.dtype.name}")
    return of(PRED, operand.dims)


def complex_of(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = _all_alike(arrays(shapes))
    whole = {"f32": "c64", "f64": "c128"}.get(operand.dtype.name)
    if whole is None:
        wrong(f"complex takes f32 or f64, not {operand.dtype.name}")
    return of(DTYPES[whole], operand.dims)


def clamp(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    low, operand, high = arrays(shapes)
    for what, bound in (("the lower bound", low), ("the upper bound", high)):
        fits = bound.dtype is operand.dtype and bound.dims in ((), operand.dims)
        need(fits, f"{what} is {show(bound)}, which is neither a scalar of its type nor {show(operand)}")
    need(not operand.dtype.is_complex, "complex numbers have no order")
    return operand


def select(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    chosen, on_true, on_false = arrays(shapes)
    need(chosen.dtype is PRED, f"the selector is {show(chosen)}, not pred")
    need_same(on_true, on_false, "the two choices differ")
    need(chosen.dims in ((), on_true.dims), f"the selector {show(chosen)} fits no choice of {show(on_true)}")
    return on_true


def convert(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, result = array(shapes[0]), result_array(instruction)
    need(result.dtype.is_complex or not operand.dtype.is_complex, f"{operand.dtype} does not convert to {result.dtype}")
    return of(result.dtype, operand.dims)


def bitcast_convert(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    """A narrower type adds a last dimension of the ratio of widths, a wider one takes it away."""
    operand, result = array(shapes[0]), result_array(instruction)
    before, after = operand.dtype.bits, result.dtype.bits
    need(operand.dtype.is_complex == result.dtype.is_complex, "complex numbers have no bits of another kind of type")
    if before == after:
        return of(result.dtype, operand.dims)
    if before > after:
        need(before % after == 0, f"{before} bits are no multiple of {after}")
        return of(result.dtype, (*operand.dims, before // after))
    last = operand.dims[-1] if operand.dims else 1
    need(
        operand.dims and last * before == after,
        f"the last dimension {last} of {before} bits does not fill {after} bits",
    )
    return of(result.dtype, operand.dims[:-1])


def reduce_precision(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand = array(shapes[0])
    need(operand.dtype.is_float, f"reduce-precision takes floats, not {operand.dtype.name}")
    need(integer(instruction, "exponent_bits") >= 1, "exponent_bits is below 1")
    need(integer(instruction, "mantissa_bits") >= 0, "mantissa_bits is below 0")
    return operand


def stochastic_convert(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operand, random = arrays(shapes)
    need(operand.dims == random.dims, f"operand {show(operand)} and random bits {show(random)} differ")
    fits = random.dtype.kind == "unsigned" and random.dtype.bits == operand.dtype.bits
    need(fits, f"the random bits of {operand.dtype.name} are {random.dtype.name}")
    return of(result_array(instruction).dtype, operand.dims)


def map_(instruction: Instruction, shapes: Shapes, module: Module) -> ArrayShape:
    operands = arrays(shapes)
    need(operands, "map needs an operand")
    for other in operands[1:]:
        need(other.dims == operands[0].dims, f"operands differ: {show(operands[0])} and {show(other)}")
    dims = int_list(instruction, "dimensions")
    need_dims(dims, operands[0].rank, "dimensions")
    body = callee(module, computation(instruction, "to_apply"))
    need_parameters(body, [scalar(o.dtype) for o in operands])
    root = array(body.root.shape, "the mapped computation's result")
    need(root.dims == (), f"the mapped computation gives {show(root)}, not a scalar")
    return of(root.dtype, operands[0].dims)


ELEMENTWISE: dict[str, Rule] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    "abs": part_of_complex,
    "real": part_of_complex,
    "imag": part_of_complex,
    "is-finite": is_finite,
    "compare": compare,
    "complex": complex_of,
    "clamp": clamp,
    "select": select,
    "convert": convert,
    "bitcast-convert": bitcast_convert,
    "reduce-precision": reduce_precision,
    "stochastic-convert": stochastic_convert,
    "map": map_,
}
