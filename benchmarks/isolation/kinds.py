"""Kinds of wrong computation that a backend may make of one instruction in a fusion, as edits of the instruction.

Those of benchmarks/passes are wrong rewrites of single opcodes; these are what kernels do: operands exchanged, a result
negated, scaled, rounded too far, moved by one, cut short.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "passes"))

from faults import FAULTS as REWRITES
from faults import Edit, Fault

from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape

FLOATS = ("f32", "bf16", "f16")
_COMPUTING = {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "exponential", "tanh", "rsqrt", "sqrt", "power",
    "reduce", "dot", "convolution", "select", "negate", "log", "logistic", "convert", "broadcast", "transpose",
}  # fmt: skip


def swapped_operands(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """a - b becomes b - a, a / b becomes b / a."""
    if i.opcode not in ("subtract", "divide", "power", "remainder") or i.operands[0] == i.operands[1]:
        return None
    return Edit(replace(i, operands=(i.operands[1], i.operands[0])))


def add_taken_for_subtract(module: Module, c: Computation, i: Instruction) -> Edit | None:
    return Edit(replace(i, opcode="subtract")) if i.opcode == "add" and _number(i) else None


def maximum_taken_for_minimum(module: Module, c: Computation, i: Instruction) -> Edit | None:
    other = {"maximum": "minimum", "minimum": "maximum"}.get(i.opcode)
    return None if other is None or not _number(i) else Edit(replace(i, opcode=other))


def negated(module: Module, c: Computation, i: Instruction) -> Edit | None:
    if not _computes(i):
        return None
    inner = _inner(i)
    return Edit(Instruction(i.name, "negate", i.shape, (inner.name,)), (inner,))


def scaled(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """2 % too large."""
    if not _computes(i):
        return None
    inner = _inner(i)
    value = Instruction(f"{i.name}.factor", "constant", _scalar(i), literal=Literal("1.02"))
    spread = Instruction(f"{i.name}.factors", "broadcast", i.shape, (value.name,), {"dimensions": "{}"})
    return Edit(Instruction(i.name, "multiply", i.shape, (inner.name, spread.name)), (inner, value, spread))


def rounded_too_far(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """Kept to three digits of significand."""
    if not _computes(i) or i.array.dtype.name != "f32":
        return None
    inner = _inner(i)
    bits = {"exponent_bits": "8", "mantissa_bits": "3"}
    return Edit(Instruction(i.name, "reduce-precision", i.shape, (inner.name,), bits), (inner,))


def last_lane_lost(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """The last element of the minor dimension is zero."""
    if not _computes(i) or not i.array.dims or i.array.dims[-1] < 2:
        return None
    inner, shape = _inner(i), i.array
    whole = replace(shape, dtype=DTYPES["s32"])
    flags = replace(shape, dtype=DTYPES["pred"])
    minor = len(shape.dims) - 1
    lane = Instruction(f"{i.name}.lane", "iota", whole, (), {"iota_dimension": str(minor)})
    scalar = replace(_scalar(i), dtype=DTYPES["s32"])
    last = Instruction(f"{i.name}.last", "constant", scalar, literal=Literal(str(shape.dims[-1] - 1)))
    lasts = Instruction(f"{i.name}.lasts", "broadcast", whole, (last.name,), {"dimensions": "{}"})
    mask = Instruction(f"{i.name}.mask", "compare", flags, (lane.name, lasts.name), {"direction": "LT"})
    zero = Instruction(f"{i.name}.nought", "constant", _scalar(i), literal=Literal("0"))
    zeros = Instruction(f"{i.name}.noughts", "broadcast", shape, (zero.name,), {"dimensions": "{}"})
    chosen = Instruction(i.name, "select", shape, (mask.name, inner.name, zeros.name))
    return Edit(chosen, (inner, lane, last, lasts, mask, zero, zeros))


def stale_result(module: Module, c: Computation, i: Instruction) -> Edit | None:
    """The result is an operand of the same type and shape."""
    if i.opcode in ("copy", "convert", "bitcast") or not _number(i) or i.array.dtype.is_complex:
        return None
    same = [name for name in i.operands if c.by_name[name].shape == i.shape]
    return None if not same else Edit(Instruction(i.name, "maximum", i.shape, (same[0], same[0])))


KINDS: dict[str, Fault] = {
    **{
        f.__name__.replace("_", " "): f
        for f in (
            swapped_operands, add_taken_for_subtract, maximum_taken_for_minimum, negated, scaled, rounded_too_far,
            last_lane_lost, stale_result,
        )
    },
    **{name: fault for name, fault in REWRITES.items() if name != "trip count off by one"},
}  # fmt: skip


def _number(i: Instruction) -> bool:
    return isinstance(i.shape, ArrayShape) and i.array.dtype.name != "pred"


def _computes(i: Instruction) -> bool:
    return isinstance(i.shape, ArrayShape) and i.opcode in _COMPUTING and i.array.dtype.name in FLOATS


def _inner(i: Instruction) -> Instruction:
    return replace(i, name=f"{i.name}.right")


def _scalar(i: Instruction) -> ArrayShape:
    return replace(i.array, dims=(), layout=None, dynamic=())
