"""Kinds of wrong rewrite, as edits of one instruction.

A fault takes an instruction and gives what a wrong pass would have made of it, with the same name and shape, and the
instructions that have to stand in front of it; None where it does not apply. It looks at nothing but the instruction
and its operands, so that it can be made again wherever the same instruction stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from assay.hlo.attributes import called, computation, int_list, padding, slices, window
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape


@dataclass(frozen=True)
class Edit:
    """replacement: of the instruction, under its name. before: new instructions, in order, in front of it."""

    replacement: Instruction
    before: tuple[Instruction, ...] = ()


Fault = Callable[[Module, Computation, Instruction], Edit | None]


def dropped_narrowing_convert(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """convert(convert(x)) becomes convert(x), though the inner type holds fewer values."""
    if i.opcode != "convert" or c.by_name[i.operands[0]].opcode != "convert":
        return None
    inner = c.by_name[i.operands[0]]
    wide, narrow, out = c.by_name[inner.operands[0]].array.dtype, inner.array.dtype, i.array.dtype
    if not narrow.is_integer or "pred" in (wide.name, out.name):
        return None
    loses = wide.is_float or narrow.bits < wide.bits
    keeps = out.is_float if wide.is_float else out.bits > narrow.bits
    if not (loses and keeps) or wide.is_complex or out.is_complex:
        return None
    opcode = "copy" if wide == out else "convert"
    return Edit(replace(i, opcode=opcode, operands=inner.operands))


def index_off_by_one(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A start index of a slice, or the indices of a gather, are one too high."""
    if i.opcode == "slice":
        return _shifted_slice(c, i)
    if i.opcode in ("dynamic-slice", "dynamic-update-slice"):
        first = 1 if i.opcode == "dynamic-slice" else 2
        sliced = i.array if first == 1 else c.by_name[i.operands[1]].array
        whole = c.by_name[i.operands[0]].array
        free = [d for d, (a, b) in enumerate(zip(sliced.dims, whole.dims, strict=True)) if a < b]
        if not free or first + free[0] >= len(i.operands):
            return None
        return _shifted(c, i, first + free[0], "add", "1")
    return _shifted(c, i, 1, "add", "1") if i.opcode == "gather" else None


def clamp_off_by_one(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """The upper bound of a clamp of integers, or of a minimum with a constant, is one too low."""
    if not isinstance(i.shape, ArrayShape) or not i.array.dtype.is_integer:
        return None
    if i.opcode == "clamp":
        return _shifted(c, i, 2, "subtract", "1")
    if i.opcode == "minimum":
        bounds = [k for k, name in enumerate(i.operands) if _is_constant(c, name)]
        return _shifted(c, i, bounds[0], "subtract", "1") if bounds else None
    return None


def wrong_iota_width(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """An iota counts in eight bits, over more than 128 elements."""
    if i.opcode != "iota" or i.array.dtype.bits <= 8:
        return None
    if i.array.dims[int(i.attributes["iota_dimension"])] <= 128:
        return None
    narrow = replace(i, name=f"{i.name}.narrow", shape=_typed(i.array, "s8"))
    return Edit(_op(i, "convert", (narrow.name,)), (narrow,))


def wrong_pad_value(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A pad pads with another value."""
    if i.opcode != "pad" or all(low <= 0 and high <= 0 and inner == 0 for low, high, inner in padding(i)):
        return None
    value = c.by_name[i.operands[1]]
    zero = value.literal is not None and value.literal.text in ("0", "false")
    return _replaced(i, 1, _constant(i, value.array, _one(value.array) if zero else _zero(value.array)))


def swapped_compare_direction(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """compare LT becomes GT, EQ becomes NE, ..."""
    if i.opcode != "compare":
        return None
    other = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "NE", "NE": "EQ"}[i.attributes["direction"]]
    return Edit(replace(i, attributes={**i.attributes, "direction": other}))


def wrong_reduce_init(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A reduction of 2 to 32 terms starts from what is not its identity.

    Of one term, and of more than 32, a compiler may use the initial value any number of times, none included (see
    docs/bounds.md), so another one is no wrong rewrite there.
    """
    if i.opcode not in ("reduce", "reduce-window") or len(i.operands) != 2:
        return None
    if not 2 <= _terms(c, i) <= 32:
        return None
    start = c.by_name[i.operands[1]].array
    far = "100" if start.dtype.is_integer else "true" if start.dtype.name == "pred" else "1000"
    low = "0" if start.dtype.kind in ("unsigned", "pred") else f"-{far}"
    text = {
        "add": _one(start), "multiply": "true" if start.dtype.name == "pred" else "2", "maximum": far, "minimum": low,
        "and": _zero(start), "or": _one(start),
    }.get(module.by_name[called(i)[0]].root.opcode)  # fmt: skip
    return None if text is None or start.dtype.is_complex else _replaced(i, 1, _constant(i, start, text))


def transposed_operand(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """An operand goes in with two of its dimensions, of one size, exchanged."""
    if i.opcode not in ("dot", "add", "subtract", "multiply", "convolution", "reduce", "concatenate"):
        return None
    shape = c.by_name[i.operands[0]].shape
    if not isinstance(shape, ArrayShape):
        return None
    pairs = [(a, b) for b in range(len(shape.dims)) for a in range(b) if shape.dims[a] == shape.dims[b] > 1]
    if not pairs:
        return None
    order = list(range(len(shape.dims)))
    a, b = pairs[0]
    order[a], order[b] = b, a
    words = {"dimensions": "{" + ",".join(map(str, order)) + "}"}
    turned = Instruction(f"{i.name}.turned", "transpose", shape, (i.operands[0],), words)
    return _replaced(i, 0, turned)


def sign_extension_lost(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A signed integer is widened as if it were unsigned."""
    if i.opcode != "convert":
        return None
    operand, out = c.by_name[i.operands[0]], i.array.dtype
    if operand.array.dtype.kind != "signed" or operand.array.dtype.bits < 8 or out.name == "pred":
        return None
    if out.is_integer and out.bits <= operand.array.dtype.bits:
        return None
    shape = _typed(operand.array, f"u{operand.array.dtype.bits}")
    return _replaced(i, 0, Instruction(f"{i.name}.bits", "bitcast-convert", shape, i.operands))


def dilated_pad_folded(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """The padding between elements all goes to the end."""
    if i.opcode != "pad":
        return None
    sides, dims = padding(i), c.by_name[i.operands[0]].array.dims
    folded = [(low, high + inner * (n - 1), 0) for (low, high, inner), n in zip(sides, dims, strict=True) if n]
    if len(folded) != len(dims) or tuple(folded) == sides:
        return None
    text = "x".join("_".join(map(str, side)) for side in folded)
    return Edit(replace(i, attributes={**i.attributes, "padding": text}))


def trip_count_off_by_one(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """The condition of a loop compares with one less."""
    if i.opcode != "compare" or c.name not in _conditions(module):
        return None
    operand = c.by_name[i.operands[1]]
    if not isinstance(operand.shape, ArrayShape) or not operand.array.dtype.is_integer or operand.array.dims:
        return None
    return _shifted(c, i, 1, "subtract", "1")


def degenerate_scatter_index(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """All updates of a scatter go to index 0."""
    return _shifted(c, i, len(i.operands) // 2, "multiply", "0") if i.opcode == "scatter" else None


def swapped_branches(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A select takes the other of its two values."""
    if i.opcode != "select" or i.operands[1] == i.operands[2]:
        return None
    return Edit(replace(i, operands=(i.operands[0], i.operands[2], i.operands[1])))


def swapped_pieces(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A concatenation has its first two pieces, of one shape, in the other order."""
    if i.opcode != "concatenate" or len(set(i.operands[:2])) < 2:
        return None
    if c.by_name[i.operands[0]].array.dims != c.by_name[i.operands[1]].array.dims:
        return None
    return Edit(replace(i, operands=(i.operands[1], i.operands[0], *i.operands[2:])))


def reverse_lost(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """A reverse is taken for a copy."""
    return Edit(_op(i, "copy", i.operands)) if i.opcode == "reverse" else None


FAULTS: dict[str, Fault] = {
    f.__name__.replace("_", " "): f
    for f in (
        dropped_narrowing_convert, index_off_by_one, clamp_off_by_one, wrong_iota_width, wrong_pad_value,
        swapped_compare_direction, wrong_reduce_init, transposed_operand, sign_extension_lost, dilated_pad_folded,
        trip_count_off_by_one, degenerate_scatter_index, swapped_branches, swapped_pieces, reverse_lost,
    )
}  # fmt: skip


# ---- what they are made of


@lru_cache(maxsize=8)
def _conditions(module: Module) -> frozenset[str]:
    """Computations that the condition of a loop is, and fusions that it is made of."""
    loops = [i for c in module.computations for i in c.instructions if i.opcode == "while"]
    names = {computation(loop, "condition") for loop in loops}
    fused = [i for name in names for i in module.by_name[name].instructions if i.opcode == "fusion"]
    return frozenset(names.union(*map(called, fused)))


def _terms(c: Computation, i: Instruction) -> int:
    """How many terms a reduction has, padding included."""
    if i.opcode == "reduce-window":
        return math.prod(dim.size for dim in window(i))
    dims = c.by_name[i.operands[0]].array.dims
    return math.prod(dims[d] for d in int_list(i, "dimensions"))


def _shifted_slice(c: Computation, i: Instruction) -> Edit | None:
    dims, bounds = c.by_name[i.operands[0]].array.dims, list(slices(i))
    for d, (start, limit, stride) in enumerate(bounds):
        step = 1 if limit < dims[d] else -1 if start > 0 else 0
        if step:
            bounds[d] = (start + step, limit + step, stride)
            text = ", ".join(f"[{a}:{b}]" if s == 1 else f"[{a}:{b}:{s}]" for a, b, s in bounds)
            return Edit(replace(i, attributes={**i.attributes, "slice": "{" + text + "}"}))
    return None


def _shifted(c: Computation, i: Instruction, operand: int, opcode: str, amount: str) -> Edit | None:
    """Operand number `operand` goes in as opcode(it, amount)."""
    name = i.operands[operand]
    shape = c.by_name[name].array
    scalar = _constant(i, replace(shape, dims=(), layout=None, dynamic=()), amount)
    new = [scalar]
    if shape.dims:
        new.append(Instruction(f"{i.name}.spread", "broadcast", shape, (scalar.name,), {"dimensions": "{}"}))
    shifted = Instruction(f"{i.name}.shifted", opcode, shape, (name, new[-1].name))
    return _replaced(i, operand, shifted, *new)


def _replaced(i: Instruction, operand: int, by: Instruction, *before: Instruction) -> Edit:
    operands = tuple(by.name if k == operand else name for k, name in enumerate(i.operands))
    return Edit(replace(i, operands=operands), (*before, by))


def _op(i: Instruction, opcode: str, operands: tuple[str, ...]) -> Instruction:
    return Instruction(i.name, opcode, i.shape, operands)


def _constant(i: Instruction, shape: ArrayShape, text: str) -> Instruction:
    return Instruction(f"{i.name}.value", "constant", shape, literal=Literal(text))


def _typed(shape: ArrayShape, dtype: str) -> ArrayShape:
    return replace(shape, dtype=DTYPES[dtype])


def _is_constant(c: Computation, name: str) -> bool:
    found = c.by_name[name]
    while found.opcode in ("broadcast", "reshape", "copy", "bitcast"):
        found = c.by_name[found.operands[0]]
    return found.literal is not None


def _zero(shape: ArrayShape) -> str:
    return "false" if shape.dtype.name == "pred" else "0"


def _one(shape: ArrayShape) -> str:
    return "true" if shape.dtype.name == "pred" else "(1, 0)" if shape.dtype.is_complex else "1"
