"""Constants: rewrites key on them, so zeros, ones, iotas and the ends of types occur far more than at random."""

from __future__ import annotations

from assay.generate.draw import Draw
from assay.generate.expressions import number
from assay.generate.types import Type, is_complex, is_float, limits, python, tuple_text

FLOATS = ("0.", "1.", "-1.", "2.", "0.5", "-0.", "1.75", "-3.5", "3.", "0.1", "1e-3", "7.25", "100.")
FACTORS = ("1.", "-1.", "2.", "0.5", "1.75", "-0.5", "3.", "0.1")
MIDDLES = ("0.", "0.5", "-0.5", "0.25", "1.", "-0.")
COMPLEX = ("0j", "1.", "1j", "-1.", "1-2j", "0.5+0.25j", "-1.5j")
ABSORBING = 0.06
"""How often a constant is one that takes all of the other operand away: times 0, at most the least."""


def value(draw: Draw, dtype: str) -> str:
    """A scalar of the type, as Python writes it."""
    if dtype == "pred":
        return draw.pick(("True", "False"))
    if is_complex(dtype):
        return draw.pick(COMPLEX)
    if is_float(dtype):
        # Neither type of eight bits has a negative zero's like in every release, and 100 is a value of both.
        return draw.pick(FLOATS)
    low, high = limits(dtype)
    choices = sorted({low, low + 1, -1, 0, 1, 2, 3, 7, high // 2, high - 1, high})
    return str(draw.pick([c for c in choices if low <= c <= high]))


def factor(draw: Draw, dtype: str) -> str:
    """A scalar to multiply by or to add: seldom zero."""
    if draw.chance(ABSORBING):
        return scalar(draw, dtype)
    if is_complex(dtype):
        return number(draw.pick(COMPLEX[1:]), dtype)
    return number(draw.pick(FACTORS if is_float(dtype) else (1, 2, 3, 5, 7)), dtype)


def middle(draw: Draw, dtype: str) -> str:
    """A scalar that values are likely to lie on both sides of."""
    if dtype == "pred" or is_complex(dtype) or draw.chance(ABSORBING):
        return scalar(draw, dtype)
    if is_float(dtype):
        return number(draw.pick(MIDDLES), dtype)
    low, high = limits(dtype)
    return number(high // 2 if low == 0 and high > 16 else draw.pick((0, 1, 2, 3)), dtype)


def scalar(draw: Draw, dtype: str) -> str:
    return number(value(draw, dtype), dtype)


def counted(draw: Draw, type_: Type) -> int:
    """The dimension of an iota: seldom one of a single element, along which it is zero."""
    long = [i for i, dim in enumerate(type_.dims) if dim != 1]
    return draw.below(type_.rank) if not long or draw.chance(ABSORBING) else draw.pick(long)


def constant(draw: Draw, type_: Type) -> tuple[str, str]:
    """(form, expression) of a value that no parameter has a part in."""
    if type_.rank and type_.dtype != "pred" and draw.chance(0.3):
        # A narrow type's iota may wrap around: that is what XLA says it does.
        axis = counted(draw, type_)
        return "iota", f"lax.broadcasted_iota({python(type_.dtype)}, {tuple_text(type_.dims)}, {axis})"
    if type_.rank and 0 < type_.size <= 12 and draw.chance(0.4):
        values = ", ".join(value(draw, type_.dtype) for _ in range(type_.size))
        return "literal", f"np.array([{values}], {python(type_.dtype)}).reshape({tuple_text(type_.dims)})"
    if type_.rank == 0:
        return "constant", scalar(draw, type_.dtype)
    return "constant", f"lax.full({tuple_text(type_.dims)}, {scalar(draw, type_.dtype)})"
