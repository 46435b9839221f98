"""Draws reductions, windows, sorting: what takes a computation of scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.reference.value import Array, held_dtype

from .builder import Builder, braces, show
from .catalogue import draws
from .values import CLASSES, FINITE, TAME, limits

PRED, S32 = DTYPES["pred"], DTYPES["s32"]


def monoids(dtype: DType) -> tuple[str, ...]:
    """Opcodes that fold in any order."""
    if dtype.kind == "pred":
        return ("and", "or", "xor", "maximum", "minimum", "add", "multiply")
    if dtype.is_integer:
        return ("add", "maximum", "minimum", "multiply", "and", "or", "xor")
    return ("add", "multiply") if dtype.is_complex else ("add", "maximum", "minimum", "multiply")


def neutral(opcode: str, dtype: DType) -> Array:
    """The neutral element of a monoid, as far as the type has it."""
    if dtype.kind == "pred":
        value: float = opcode in ("and", "minimum", "multiply")
    elif dtype.is_integer:
        low, high = limits(dtype)
        ones = -1 if dtype.kind == "signed" else high
        value = {"multiply": 1, "maximum": low, "minimum": high, "and": ones}.get(opcode, 0)
        return np.asarray(value, held_dtype(dtype)).astype(dtype.numpy)
    else:
        most = np.inf if dtype.has_inf else dtype.max
        least = -most if dtype.name != "f8e8m0fnu" else 2.0**-127
        value = {"multiply": 1.0, "maximum": least, "minimum": most}.get(opcode, 0.0)
    return np.asarray(value).astype(dtype.numpy)


def reducer(b: Builder, dtypes: Sequence[DType], *, overwriting: bool = False) -> tuple[str, list[Array]]:
    """A computation that folds values of these types in any order: an operation for each, or the pair with the larger
    first value. overwriting: or one that takes the new value. Its name and its neutral elements.
    """
    scalars = [ArrayShape(dtype, ()) for dtype in dtypes]
    count = len(dtypes)
    if overwriting and b.choices.chance(3):
        if count == 1:
            return b.computation([*scalars, *scalars], [], "fold", root=1), []
        names = ", ".join(f"%a{count + i}" for i in range(count))
        kinds = ", ".join(map(show, scalars))
        return b.computation([*scalars, *scalars], [f"%rs = ({kinds}) tuple({names})"], "fold"), []
    neutrals = []
    if count == 2 and dtypes[1].is_integer and not dtypes[0].is_complex and b.choices.chance(2):
        direction = b.choices.pick(("GT", "LT"))
        lines = _arg_reducer(scalars, direction)
        neutrals = [neutral("maximum" if direction == "GT" else "minimum", dtypes[0]), neutral("minimum", dtypes[1])]
    else:
        lines = []
        for i, s in enumerate(scalars):
            operands = (f"%a{i}", f"%a{count + i}")
            if b.choices.chance(4):
                operands = operands[::-1]
            opcode = b.choices.pick(monoids(s.dtype))
            neutrals.append(neutral(opcode, s.dtype))
            lines.append(f"%r{i} = {show(s)} {opcode}({', '.join(operands)})")
            if s.dtype.name in ("bf16", "f16") and b.choices.chance(4):
                lines[-1:] = _widened(lines[-1], operands, s, i)
    if count > 1:
        root = ", ".join(f"%r{i}" for i in range(count))
        lines.append(f"%rs = ({', '.join(map(show, scalars))}) tuple({root})")
    return b.computation([*scalars, *scalars], lines, "fold"), neutrals


def _widened(line: str, operands: Sequence[str], shape: ArrayShape, i: int) -> list[str]:
    """The same in f32: convert, fold, convert back."""
    opcode = line.split("(")[0].split()[-1]
    wide = [f"%w{i}_{k} = f32[] convert({name})" for k, name in enumerate(operands)]
    return [*wide, f"%s{i} = f32[] {opcode}(%w{i}_0, %w{i}_1)", f"%r{i} = {show(shape)} convert(%s{i})"]


def _arg_reducer(scalars: Sequence[ArrayShape], direction: str) -> list[str]:
    """The larger value with its index, the smaller index where values are equal: jax's argmax."""
    value, index = map(show, scalars)
    lines = [f"%better = pred[] compare(%a0, %a2), direction={direction}"]
    if scalars[0].dtype.is_float:
        lines.append("%odd = pred[] compare(%a0, %a0), direction=NE")
        lines.append("%wins = pred[] or(%better, %odd)")
    else:
        lines.append("%wins = pred[] or(%better, %better)")
    lines += [
        "%same = pred[] compare(%a0, %a2), direction=EQ",
        "%first = pred[] compare(%a1, %a3), direction=LT",
        "%tie = pred[] and(%same, %first)",
        "%chosen = pred[] or(%wins, %tie)",
        f"%r0 = {value} select(%wins, %a0, %a2)",
        f"%r1 = {index} select(%chosen, %a1, %a3)",
    ]
    return lines


def _folded(b: Builder, dtype: DType, dims: tuple[int, ...]) -> tuple[list[DType], list[str], str]:
    """Types, operands followed by initial values, and the computation."""
    dtypes = [dtype]
    if b.choices.chance(4):
        dtypes.append(DTYPES[b.choices.pick(("s32", "f32", "u8", "s8"))])
    body, neutrals = reducer(b, dtypes)
    classes = CLASSES if len(dtypes) == 1 else TAME
    operands = [b.operand(d, dims, classes) for d in dtypes]
    if b.choices.chance(4):
        starts = [b.operand(d, (), TAME) for d in dtypes]
    else:
        starts = [b.constant(d, n) for d, n in zip(dtypes, neutrals, strict=True)]
    return dtypes, [*operands, *starts], body


@draws("psufc", "reduce")
def reduce_(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    axes = b.choices.some(range(len(dims)), 0 if b.choices.chance(6) else min(1, len(dims)), len(dims))
    dtypes, operands, body = _folded(b, dtype, dims)
    kept = tuple(size for d, size in enumerate(dims) if d not in axes)
    shapes = [ArrayShape(d, kept) for d in dtypes]
    b.results(shapes, f"reduce({', '.join(operands)}), dimensions={braces(axes)}, to_apply={body}")


def window_of(
    b: Builder, dims: Sequence[int], *, dilated: bool = True, most: int = 3
) -> tuple[str, list[int], list[int]]:
    """A window attribute, its sizes, and how many places it has in each dimension."""
    parts: dict[str, list[str]] = {"size": [], "stride": [], "pad": [], "lhs_dilate": [], "rhs_dilate": []}
    sizes, places = [], []
    for extent in dims:
        size = b.choices.between(1, most)
        stride = b.choices.pick((1, 2, 3))
        low, high = b.choices.pick(((0, 0), (1, 1), (0, 2), (3, 0), (-1, 1), (1, -1), (-1, -1)))
        base = b.choices.pick((1, 1, 2, 3)) if dilated else 1
        dilation = b.choices.pick((1, 1, 2)) if dilated else 1
        reach = max(extent - 1, -1) * base + 1 + low + high if extent else low + high
        span = (size - 1) * dilation + 1
        if reach < 0 or (extent == 0 and reach < span):
            low, high, reach = 0, 0, (extent - 1) * base + 1 if extent else 0
        parts["size"].append(str(size))
        parts["stride"].append(str(stride))
        parts["pad"].append(f"{low}_{high}")
        parts["lhs_dilate"].append(str(base))
        parts["rhs_dilate"].append(str(dilation))
        sizes.append(size)
        places.append((reach - span) // stride + 1 if reach >= span and reach > 0 else 0)
    text = " ".join(f"{key}={'x'.join(found)}" for key, found in parts.items())
    return f"window={{{text}}}" if dims else "window={}", sizes, places


@draws("psufc", "reduce-window")
def reduce_window(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, 3, large=b.choices.chance(3))
    window, _, places = window_of(b, dims)
    dtypes, operands, body = _folded(b, dtype, dims)
    shapes = [ArrayShape(d, tuple(places)) for d in dtypes]
    b.results(shapes, f"reduce-window({', '.join(operands)}), {window}, to_apply={body}")


@draws("psufc", "select-and-scatter")
def select_and_scatter(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, 3, large=False, empty=False)
    window, _, places = window_of(b, dims, dilated=False)
    one = ArrayShape(dtype, ())
    directions = ("EQ", "NE") if dtype.is_complex else ("GE", "LE", "GT", "LT")
    chooser = b.computation(
        [one, one], [f"%r = pred[] compare(%a0, %a1), direction={b.choices.pick(directions)}"], "choose"
    )
    joins = b.choices.pick(monoids(dtype)) if b.choices.chance(4) else "or" if dtype.kind == "pred" else "add"
    adder = b.computation([one, one], [f"%r = {show(one)} {joins}(%a0, %a1)"], "join")
    if b.choices.chance(6):
        start = b.operand(dtype, (), TAME)
        b.notes.add("the initial value may not be neutral")
    else:
        start = b.constant(dtype, neutral(joins, dtype))
    operands = [b.operand(dtype, dims, FINITE), b.operand(dtype, places, TAME), start]
    b.result(dtype, dims, f"select-and-scatter({', '.join(operands)}), {window}, select={chooser}, scatter={adder}")


@draws("psuf", "sort")
def sort(b: Builder, opcode: str, dtype: DType) -> None:
    """One to three operands; the comparison looks at the first, at the first two, or at the first's magnitude."""
    dims = b.dims(1, 3)
    axis = b.choices.below(len(dims))
    others = [DTYPES[b.choices.pick(("s32", "f32", "u8", "bf16"))] for _ in range(b.choices.between(0, 2))]
    dtypes = [dtype, *others]
    comparison, total = _comparison(b, dtypes)
    operands = [b.operand(d, dims, CLASSES if total else FINITE) for d in dtypes]
    stable = "false" if b.choices.chance(6) else "true"
    shapes = [ArrayShape(d, dims) for d in dtypes]
    attributes = f"dimensions={{{axis}}}, is_stable={stable}, to_apply={comparison}"
    b.results(shapes, f"sort({', '.join(operands)}), {attributes}")


def _comparison(b: Builder, dtypes: Sequence[DType]) -> tuple[str, bool]:
    """A strict weak order, and whether it orders NaN too."""
    scalars = [ArrayShape(d, ()) for d in dtypes for _ in range(2)]
    direction = b.choices.pick(("LT", "GT"))
    first = dtypes[0]
    total = not first.is_float or b.choices.chance(2)
    kind = ", type=TOTALORDER" if total and first.is_float else ""
    ways = ["first"]
    if len(dtypes) > 1 and not dtypes[1].is_float:
        ways.append("both")
    if first.kind in ("signed", "float") and first.name != "f8e8m0fnu":
        ways.append("magnitude")
    way = b.choices.pick(ways)
    if way == "magnitude":
        lines = [f"%m{i} = {show(scalars[0])} abs(%a{i})" for i in range(2)]
        lines.append(f"%r = pred[] compare(%m0, %m1), direction={direction}{kind}")
    elif way == "both":
        lines = [
            f"%less = pred[] compare(%a0, %a1), direction={direction}{kind}",
            f"%same = pred[] compare(%a0, %a1), direction=EQ{kind}",
            "%then = pred[] compare(%a2, %a3), direction=LT",
            "%tie = pred[] and(%same, %then)",
            "%r = pred[] or(%less, %tie)",
        ]
    else:
        lines = [f"%r = pred[] compare(%a0, %a1), direction={direction}{kind}"]
    return b.computation(scalars, lines, "order"), total


@draws("psuf", "topk")
def topk(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, 2)
    k = b.choices.between(min(1, dims[-1]), dims[-1])
    largest = "true" if not b.choices.chance(4) else "false"
    shapes = [ArrayShape(dtype, (*dims[:-1], k)), ArrayShape(S32, (*dims[:-1], k))]
    b.results(shapes, f"topk({b.operand(dtype, dims)}), k={k}, largest={largest}")
