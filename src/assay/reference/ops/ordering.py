"""Comparators: which order the body of a sort means.

jax, and XLA's own passes, write a comparator as a lexicographic order of keys: `x0 < y0 or (x0 == y0 and x1 < y1)`,
each key the same function of the element on the left and of the one on the right. Such a body is taken apart by its
structure, and its keys are sorted as arrays. Anything else is left to a sorting network that calls the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.hlo.attributes import called, word
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.reference.value import Array, Ball

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_FLIPPED = {"LT": "GT", "GT": "LT", "EQ": "EQ", "NE": "NE"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a lexicographic order.

    operand: the sort operand that it is computed from. name: the instruction of the body that computes it from
    parameter 2 * operand. total: floats compare by their total order, -NaN < -inf .. -0 < +0 .. inf < NaN; else as
    numbers. positive_nan: every NaN has been replaced by one constant. same: its value is the operand's own, up to
    the sign of zero and NaN.
    """

    operand: int
    name: str
    descending: bool = False
    total: bool = False
    positive_nan: bool = False
    same: bool = True


def lexicographic(module: Module, name: str) -> tuple[Key, ...] | None:
    """The keys of a comparator, most significant first; None where the body is not a lexicographic order."""
    body = module.by_name[name]
    return _order(module, body, body.root)


def _order(module: Module, body: Computation, root: Instruction) -> tuple[Key, ...] | None:
    operands = body.operands(root)
    if root.opcode == "compare":
        return _atom(module, body, root, ("LT", "GT"))
    if root.opcode == "or":  # lt or (eq and rest), rest being reached through `and`
        for first, second in (operands, operands[::-1]):
            if second.opcode == "and":
                pair = body.operands(second)
                for equal, rest in (pair, pair[::-1]):
                    if found := _chain(module, body, first, equal, rest, "EQ"):
                        return found
    if root.opcode == "select":  # select(eq, rest, lt), select(ne, lt, rest)
        condition, when, otherwise = operands
        if found := _unless_apart(module, body, condition, when, otherwise):
            return found
        return _chain(module, body, otherwise, condition, when, "EQ") or _chain(
            module, body, when, condition, otherwise, "NE"
        )
    return None


def _unless_apart(
    module: Module, body: Computation, condition: Instruction, rest: Instruction, strict: Instruction
) -> tuple[Key, ...] | None:
    """`select((x < y) == (y < x), rest, x < y)`: as XLA's stable_sort_expander.cc breaks ties by position."""
    if condition.opcode != "compare" or word(condition, "direction") != "EQ" or strict.opcode != "compare":
        return None
    sides = body.operands(condition)
    if any(side.opcode != "compare" for side in sides) or strict.name not in condition.operands:
        return None
    swapped = sides[1] if sides[0].name == strict.name else sides[0]
    first, second = (_atom(module, body, compare, ("LT", "GT")) for compare in (strict, swapped))
    if first is None or second is None or first[0].descending == second[0].descending:
        return None
    if first[0].operand != second[0].operand or first[0].total != second[0].total:
        return None
    if _spelled(module, body, first[0].name) != _spelled(module, body, second[0].name):
        return None
    others = _order(module, body, rest)
    return None if others is None else (*first, *others)


def _ordered_bits(body: Computation, name: str) -> Instruction | None:
    """The float parameter whose total order `name` has: `select(bits < 0, bits xor MAX, bits)`, bits being the float's
    own as a signed integer. So XLA's comparison_expander.cc and the TPU compiler write it. None for anything else.
    """
    root = body.by_name[name]
    if root.opcode != "select" or root.array.dtype.kind != "signed":
        return None
    condition, flipped, bits = body.operands(root)
    if (bits.opcode, flipped.opcode, condition.opcode) != ("bitcast-convert", "xor", "compare"):
        return None
    tested, zero = condition.operands
    if word(condition, "direction") != "LT" or tested != bits.name or _integer(body, zero) != 0:
        return None
    others = [operand for operand in flipped.operands if operand != bits.name]
    if len(others) != 1 or _integer(body, others[0]) != (1 << (root.array.dtype.bits - 1)) - 1:
        return None
    source = body.by_name[bits.operands[0]]
    return source if source.parameter_number is not None and source.array.dtype.is_float else None


def _integer(body: Computation, name: str) -> int | None:
    """The value of an integer constant, seen through broadcasts."""
    instruction = body.by_name[name]
    while instruction.opcode in ("broadcast", "reshape", "copy"):
        instruction = body.by_name[instruction.operands[0]]
    text = "" if instruction.literal is None else instruction.literal.text.strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _chain(
    module: Module, body: Computation, strict: Instruction, equal: Instruction, rest: Instruction, direction: str
) -> tuple[Key, ...] | None:
    if strict.opcode != "compare" or equal.opcode != "compare":
        return None
    first = _atom(module, body, strict, ("LT", "GT"))
    tie = _atom(module, body, equal, (direction,))
    if first is None or tie is None or tie[0].operand != first[0].operand or tie[0].total != first[0].total:
        return None
    if _spelled(module, body, tie[0].name) != _spelled(module, body, first[0].name):
        return None
    others = _order(module, body, rest)
    return None if others is None else (*first, *others)


def _atom(module: Module, body: Computation, compare: Instruction, directions: Sequence[str]) -> tuple[Key] | None:
    """`compare(f(x), f(y))` for the two sides x, y of one operand."""
    direction = word(compare, "direction")
    left, right = compare.operands
    sides = [_parameters(body, operand) for operand in (left, right)]
    if any(len(side) != 1 for side in sides):
        return None
    (x,), (y,) = sides
    if x % 2:
        (left, right), (x, y), direction = (right, left), (y, x), _FLIPPED.get(direction, direction)
    if y != x + 1 or x % 2 or direction not in directions:
        return None
    if _spelled(module, body, left) != _spelled(module, body, right):
        return None
    if source := _ordered_bits(body, left):
        return (Key(operand=x // 2, name=source.name, descending=direction == "GT", total=True),)
    reached = _reached(body, left)
    dtype = body.by_name[left].array.dtype
    nan = any(i.literal is not None and i.literal.text.lstrip("-+") == "nan" for i in reached)
    total = dtype.is_float and word(compare, "order", "TOTAL" if word(compare, "type", "") == "TOTALORDER" else "") in (
        "TOTAL", "TOTALORDER",
    )  # fmt: skip
    return (
        Key(
            operand=x // 2,
            name=left,
            descending=direction == "GT",
            total=total,
            positive_nan=nan and total,
            same=dtype == body.parameters[x].array.dtype
            and all(i.opcode in ("parameter", "constant", "compare", "select", "copy") for i in reached),
        ),
    )


def _reached(body: Computation, name: str) -> list[Instruction]:
    """What `name` is computed from, itself included, operands first."""
    found: dict[str, Instruction] = {}

    def visit(at: str) -> None:
        if at not in found:
            for operand in body.by_name[at].operands:
                visit(operand)
            found[at] = body.by_name[at]

    visit(name)
    return list(found.values())


def _parameters(body: Computation, name: str) -> set[int]:
    return {i.parameter_number for i in _reached(body, name) if i.parameter_number is not None}


def _spelled(module: Module, body: Computation, name: str) -> tuple[object, ...]:
    """The computation of `name` as nested tuples, names and parameter numbers left out."""
    done: dict[str, tuple[object, ...]] = {}
    for i in _reached(body, name):
        literal = i.literal.text if isinstance(i.literal, Literal) else None
        kept = tuple((k, v) for k, v in i.attributes.items() if k not in ("metadata", "frontend_attributes"))
        done[i.name] = (i.opcode, i.array.dtype.name, literal, kept, called(i), *(done[o] for o in i.operands))
    return done[name]


def key_body(body: Computation, key: Key) -> Computation:
    """The part of a comparator that computes a key, as a computation; parameters keep their numbers."""
    return Computation(body.name, tuple(_reached(body, key.name)), key.name)


# ---------------------------------------------------------------- keys as integers


def float_codes(x: Array) -> Array:
    """Integers in the total order of the floats. An involution on the bits: `code_floats` undoes it."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ HIGHEST)


def code_floats(codes: Array) -> Array:
    return np.where(codes >= 0, codes, codes ^ HIGHEST).view(np.float64)


def key_codes(key: Key, ball: Ball, signed: bool = False) -> tuple[Array, Array, Array, Array | None]:
    """(codes, lowest, highest, broken): int64 codes in ascending order of the key, the range in which each may lie,
    and where the key is a NaN that compares with nothing. Without doubt the ranges are the codes themselves.

    signed: whether NaN and zeros have the signs that they show; a NaN is then in total order whatever the key's.
    """
    dtype, mid = ball.dtype, ball.mid
    broken: Array | None = None
    if dtype.is_float:
        codes, low, high, broken = _float_key(key, ball, signed)
    else:
        codes = (mid ^ np.uint64(1 << 63)).view(np.int64) if mid.dtype == np.uint64 else mid.astype(np.int64)
        low = high = codes
    if ball.und is not None and ball.und.any():
        low, high = np.where(ball.und, LOWEST, low), np.where(ball.und, HIGHEST, high)
    if key.descending:
        codes, low, high = ~codes, ~high, ~low
    return codes, low, high, broken


def _float_key(key: Key, ball: Ball, signed: bool) -> tuple[Array, Array, Array, Array | None]:
    mid = ball.mid
    nan = np.isnan(mid)
    broken: Array | None = None
    if not key.total:
        mid = mid + 0.0  # zeros of both signs are equal
        broken = nan if nan.any() and not signed else None
    codes = float_codes(mid if signed else np.where(nan, np.nan, mid))
    low = high = codes
    if ball.rad is not None:
        # Zeros tie with a neighbour that may be read as zero, and come out in any order with it.
        near = (np.abs(mid) <= ball.rad) & (mid != 0)
        if near.any():
            widest = np.where(near, ball.rad, 0.0).max()
            ball = Ball(ball.dtype, mid, np.where(mid == 0, np.maximum(ball.rad, widest), ball.rad), ball.und)
            assert ball.rad is not None
        low, high = float_codes(mid - ball.rad), float_codes(mid + ball.rad)
        if not key.total:
            low, high = float_codes(mid - ball.rad + 0.0), float_codes(mid + ball.rad + 0.0)
    if key.total and not signed:
        if nan.any() and not key.positive_nan:  # the sign of a computed NaN is nobody's promise
            low, high = np.where(nan, LOWEST, low), np.where(nan, HIGHEST, high)
        minus = codes == -1
        if minus.any():  # nor is that of a zero: this is one of unknown sign, and no two need have the same
            either = (codes == 0) | minus
            low, high = np.where(either, np.minimum(low, -1), low), np.where(either, np.maximum(high, 0), high)
    return codes, low, high, broken
