"""Draws operations that work element by element."""

from __future__ import annotations

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType

from .builder import Builder, braces, show
from .catalogue import NotDrawn, draws, of_kinds
from .values import limits

PRED = DTYPES["pred"]


@draws(
    "fc", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosine", "cosh", "exp2", "exponential",
    "exponential-minus-one", "log", "log2", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
@draws("f", "ceil", "floor", "round-nearest-afz", "round-nearest-even", "erf")
@draws("sufc", "negate", "sign")
@draws("psu", "not")
@draws("su", "count-leading-zeros", "popcnt")
def unary(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    b.result(dtype, dims, f"{opcode}({b.operand(dtype, dims)})")


@draws("sufc", "abs")
@draws("fc", "real", "imag")
def part(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    b.result(dtype.part, dims, f"{opcode}({b.operand(dtype, dims)})")


@draws("f", "is-finite")
def is_finite(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    b.result(PRED, dims, f"is-finite({b.operand(dtype, dims)})")


@draws("psufc", "add", "multiply", "maximum", "minimum")
@draws("sufc", "divide", "power", "subtract")
@draws("suf", "remainder")
@draws("fc", "atan2")
@draws("psu", "and", "or", "xor")
@draws("su", "mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical")
def binary(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    lhs = b.operand(dtype, dims)
    rhs = lhs if b.choices.chance(20) else b.operand(dtype, dims)
    whole = opcode in ("divide", "remainder") and dtype.is_integer
    if whole and (len(b.parameters) < 2 or any((value == 0).any() for _, _, value in b.parameters)):
        b.notes.add("integers may be divided by zero")
    b.result(dtype, dims, f"{opcode}({lhs}, {rhs})")


@draws("psufc", "compare")
def compare(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    directions = ("EQ", "NE") if dtype.is_complex else ("LT", "EQ", "NE", "GE", "GT", "LE")
    direction = b.choices.pick(directions)
    types = {"float": ("FLOAT", "TOTALORDER"), "signed": ("SIGNED",), "complex": ("FLOAT",)}.get(
        dtype.kind, ("UNSIGNED",)
    )
    kind = b.choices.pick(("", *types))
    operands = f"{b.operand(dtype, dims)}, {b.operand(dtype, dims)}"
    b.result(PRED, dims, f"compare({operands}), direction={direction}" + (f", type={kind}" if kind else ""))


@draws("psufc", "select")
def select(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    chosen = b.operand(PRED, () if b.choices.chance(3) else dims)
    b.result(dtype, dims, f"select({chosen}, {b.operand(dtype, dims)}, {b.operand(dtype, dims)})")


@draws("psuf", "clamp")
def clamp(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    low, high = (b.operand(dtype, () if b.choices.chance(2) else dims) for _ in range(2))
    b.result(dtype, dims, f"clamp({low}, {b.operand(dtype, dims)}, {high})")


@draws("psufc", "convert")
def convert(b: Builder, opcode: str, dtype: DType) -> None:
    """`dtype` is what it converts from."""
    dims = b.dims()
    to = DTYPES[b.choices.pick(of_kinds("c" if dtype.is_complex else "psufc"))]
    b.result(to, dims, f"convert({b.operand(dtype, dims)})")


@draws("psufc", "bitcast-convert")
def bitcast_convert(b: Builder, opcode: str, dtype: DType) -> None:
    """Between types of one width, to a narrower one with a further dimension, or to a wider one with one less."""
    same_kind = of_kinds("c") if dtype.is_complex else of_kinds("suf" if dtype.kind != "pred" else "p")
    fits = [
        name
        for name in same_kind
        if max(DTYPES[name].bits, dtype.bits) % min(DTYPES[name].bits, dtype.bits) == 0
        and (DTYPES[name].bits == dtype.bits or DTYPES[name].bits != 6 != dtype.bits)
    ]
    to = DTYPES[b.choices.pick(fits)]
    dims = b.dims(0, 2, large=False)
    if to.bits <= dtype.bits:
        result = dims if to.bits == dtype.bits else (*dims, dtype.bits // to.bits)
        operand = b.operand(dtype, dims)
    else:
        result = dims
        operand = b.operand(dtype, (*dims, to.bits // dtype.bits))
    b.result(to, result, f"bitcast-convert({operand})")


@draws("f32 f64", "complex")
def complex_(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    whole = DTYPES["c64" if dtype.name == "f32" else "c128"]
    b.result(whole, dims, f"complex({b.operand(dtype, dims)}, {b.operand(dtype, dims)})")


@draws("f", "reduce-precision")
def reduce_precision(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    exponent, mantissa = b.choices.pick(((8, 7), (5, 10), (8, 23), (5, 2), (4, 3), (2, 1), (1, 0), (11, 52), (3, 0)))
    attributes = f"exponent_bits={exponent}, mantissa_bits={mantissa}"
    b.result(dtype, dims, f"reduce-precision({b.operand(dtype, dims)}), {attributes}")


@draws(" ".join(name for name in of_kinds("f") if DTYPES[name].bits != 6), "stochastic-convert")
def stochastic_convert(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    to = DTYPES[b.choices.pick(("s8", "u8", "s16", "s32", "bf16", "f16", "s4"))]
    bits = DTYPES.get(f"u{dtype.bits}")
    if bits is None:
        raise NotDrawn
    b.result(to, dims, f"stochastic-convert({b.operand(dtype, dims)}, {b.parameter(bits, dims, ('bits', 'edges'))})")


@draws("psufc", "map")
def map_(b: Builder, opcode: str, dtype: DType) -> None:
    """A scalar function of one to three operands."""
    dims = b.dims()
    operands = [b.operand(dtype, dims) for _ in range(b.choices.between(1, 3))]
    one = ArrayShape(dtype, ())
    last = f"%a{len(operands) - 1}"
    step = {"pred": "xor", "signed": "subtract", "unsigned": "multiply"}.get(dtype.kind, "add")
    lines = [f"%x = {show(one)} {step}(%a0, {last})", f"%y = {show(one)} {step}(%x, {last})"]
    body = b.computation([one] * len(operands), lines)
    b.result(dtype, dims, f"map({', '.join(operands)}), dimensions={braces(range(len(dims)))}, to_apply={body}")


@draws("sufc", "iota")
def iota(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)
    axis = b.choices.below(len(dims))
    limit = _counts(dtype)
    if dims[axis] > limit:
        dims = (*dims[:axis], limit, *dims[axis + 1 :])
    b.result(dtype, dims, f"iota(), iota_dimension={axis}")


def _counts(dtype: DType) -> int:
    """How many numbers from 0 on the type holds, beyond which an iota has no defined value."""
    if dtype.is_integer:
        return limits(dtype)[1] + 1
    if dtype.name == "f8e8m0fnu":
        return 1  # it has no zero: nothing is left to draw but an empty or a single element
    return int(np.clip(2 ** (dtype.part.mantissa + 1), 1, min(dtype.part.max, 2**20))) + 1
