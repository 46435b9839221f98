"""Pieces of the Python that programs are printed as."""

from __future__ import annotations

from assay.generate.types import python


def number(value: object, dtype: str) -> str:
    """A scalar of the type."""
    return f"np.array({value}, {python(dtype)})"


def clamped(text: str, low: object, high: object, dtype: str) -> str:
    return f"lax.clamp({number(low, dtype)}, {text}, {number(high, dtype)})"


def numeric(text: str) -> str:
    """0 in place of every NaN, whose bits and whose integer XLA leaves open."""
    return f"lax.select_n(lax.ne({text}, {text}), {text}, lax.full_like({text}, 0))"


def converted(text: str, dtype: str) -> str:
    return f"lax.convert_element_type({text}, {python(dtype)})"


def operands(count: int, first: int = 0) -> str:
    """`{0}, {1}`."""
    return ", ".join(f"{{{i}}}" for i in range(first, first + count))


def with_numbers(text: str, dtype: str) -> str:
    """The text with ONE, TWO and HALF as scalars of the type."""
    for word, value in (("ONE", 1), ("TWO", 2), ("HALF", 0.5)):
        if word in text:
            text = text.replace(word, number(value, dtype))
    return text
