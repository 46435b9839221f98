"""Constants: kept as the text XLA wrote, turned into an array when one is asked for, and written from one.

An array's literal is its elements in row-major order with braces around each row, whatever the layout. Braces, blanks
and `/*i0=1*/` marks are stripped and NumPy converts the rest at once, so a literal of millions of elements takes no
loop.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import HloTypeError, Unsupported
from assay.hlo.scan import COMMENTS, inside, items
from assay.hlo.shape import ArrayShape, DType, TupleShape

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Literal:
    """A `constant` as XLA wrote it, without the parentheses around it: `1.5`, `{ {1, 2}, {3, 4} }`, `(1, {2, 3})`."""

    text: str


def literal_array(shape: ArrayShape, literal: Literal) -> Array:
    """The literal's elements, in `shape.dims` and `shape.dtype.numpy`, bit for bit as XLA printed them.

    XLA's own parser takes the `-0` that its printer writes for the integer 0 and loses the sign; here it is -0.0. See
    `assay.hlo.printer.print_for_compiler`.
    A float's text is read as float64 and rounded to the element type, as hlo_parser.cc does. Raises Unsupported where
    NumPy has no such element type, HloTypeError where the text is no literal of that shape or a value is out of
    range.
    """
    dtype = shape.dtype
    if dtype.numpy is None:
        raise Unsupported(f"element type {dtype.name}", "neither NumPy nor the installed ml_dtypes has it")
    text = literal.text
    if "/*" in text:
        text = COMMENTS.sub("", text)
    if "..." in text:
        raise HloTypeError(f"a constant of {dtype.name}{list(shape.dims)} has an elided value `{text[:40]}`")
    data = text.encode("ascii", "replace").translate(_BRACES_TO_SPACES)
    if shape.size == 0 and not data.translate(None, b" ,\n\t"):
        return np.zeros(shape.dims, dtype.numpy)
    if dtype.kind in ("float", "complex"):
        values = _floats(data, dtype)
    else:
        values = _integers(data, dtype)
    if values.size != shape.size:
        raise HloTypeError(f"a literal of {dtype.name}{list(shape.dims)} has {values.size} elements, not {shape.size}")
    return values.reshape(shape.dims)


_NEGATIVE_ZERO = re.compile(r"(?<![\deE])-0(?![\d.eExX])")


def with_negative_zeros(literal: Literal) -> Literal:
    """The literal with `-0.0` for `-0`, which keeps its sign through XLA's parser. For floats and complex numbers."""
    return Literal(_NEGATIVE_ZERO.sub("-0.0", literal.text)) if "-0" in literal.text else literal


def tuple_literals(shape: TupleShape, literal: Literal) -> tuple[Literal, ...]:
    """The literals of a tuple's elements: `( 1, {2, 3} )` -> 1 and {2, 3}. Raises HloTypeError for a wrong number."""
    elements = items(inside(literal.text, "(", ")"))
    if len(elements) != len(shape.elements):
        raise HloTypeError(f"a literal of {len(shape.elements)} tuple elements has {len(elements)}")
    return tuple(Literal(element) for element in elements)


_BRACES_TO_SPACES = bytes.maketrans(b"{}", b"  ")
_PARENS_TO_SPACES = bytes.maketrans(b"()", b"  ")
_NAN = re.compile(rb"(-?)nan(?:\(0x([0-9a-fA-F]+)\))?")


def _numbers(data: bytes, dtype: type[np.generic], name: str) -> Array:
    if not data.strip():
        return np.zeros(0, dtype)
    with warnings.catch_warnings():
        # NumPy reads as far as it understands and only warns about the rest.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(data.rstrip(), dtype, sep=" , ")
        except (DeprecationWarning, ValueError):
            raise HloTypeError(f"not a literal of {name}: {data[:60].decode()}") from None


def _integers(data: bytes, dtype: DType) -> Array:
    assert dtype.numpy is not None
    if dtype.kind == "pred":
        data = data.replace(b"true", b"1").replace(b"false", b"0")
    values = _numbers(data, np.uint64 if dtype.name == "u64" else np.int64, dtype.name)
    low, high = {
        "pred": (0, 1),
        "signed": (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1),
        "unsigned": (0, (1 << dtype.bits) - 1),
    }[dtype.kind]
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        raise HloTypeError(f"a literal of {dtype.name} has a value outside [{low}, {high}]")
    if dtype.bits == 64 and values.size and int(values.max()) == high and str(high).encode() not in data:
        raise HloTypeError(f"a literal of {dtype.name} has a value above {high}")  # strtoll stops at the largest value
    return values.astype(dtype.numpy)


def _floats(data: bytes, dtype: DType) -> Array:
    assert dtype.numpy is not None
    nans = _NAN.findall(data) if b"nan" in data else []
    if nans:
        data = _NAN.sub(b"nan", data)
    if dtype.is_complex:
        data = data.translate(_PARENS_TO_SPACES)
    values = _numbers(data, np.float64, dtype.name)
    part = dtype.part
    assert part.numpy is not None
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        cast = values.astype(part.numpy)
        if part.bits < 64 and bool(np.any(np.isfinite(values) & ~np.isfinite(cast.astype(np.float64)))):
            raise HloTypeError(f"a literal of {dtype.name} has a value outside [-{part.max}, {part.max}]")
    if nans:
        where = np.flatnonzero(np.isnan(values))
        if len(where) != len(nans):
            raise HloTypeError(f"not a literal of {dtype.name}")
        for i, (sign, payload) in zip(where, nans, strict=True):
            if sign or payload:
                _set_nan(cast, int(i), part, bool(sign), int(payload, 16) if payload else None)
    return cast.view(dtype.numpy) if dtype.is_complex else cast


def _set_nan(values: Array, index: int, dtype: DType, negative: bool, payload: int | None) -> None:
    """Writes the NaN with the sign and the fraction bits given (`nan(0x1)`; the quiet bit is one of them)."""
    bits = values.view(f"u{values.dtype.itemsize}")
    if dtype.has_inf:
        fraction = (1 << (dtype.mantissa - 1)) if payload is None else payload
        exponent = ((1 << (dtype.bits - 1 - dtype.mantissa)) - 1) << dtype.mantissa
        bits[index] = (int(negative) << (dtype.bits - 1)) | exponent | fraction
    elif negative and dtype.name == "f8e4m3fn":
        bits[index] = 0xFF  # the other formats without infinity have one NaN


def literal_from_array(shape: ArrayShape, array: Array) -> Literal:
    """The literal of `array`, whose dtype is shape.dtype.numpy and whose shape is shape.dims.

    XLA reads exactly the same bits back: floats in the shortest digits that do so, NaN with sign and fraction.
    Raises HloTypeError where the array is not of that shape and type.
    """
    dtype = shape.dtype
    if array.dtype != dtype.numpy or array.shape != shape.dims:
        found = f"{array.dtype}{list(array.shape)}"
        raise HloTypeError(f"an array of {found} is no value of {dtype.name}{list(shape.dims)}")
    flat = np.ascontiguousarray(array).reshape(-1)
    return Literal(_rows(_tokens(flat, dtype), shape.dims))


def _tokens(flat: Array, dtype: DType) -> list[str]:
    if dtype.kind == "pred":
        return [str(x).lower() for x in flat.tolist()]
    if dtype.is_integer:
        wide = flat.astype(np.uint64 if dtype.kind == "unsigned" else np.int64)
        return [str(x) for x in wide.tolist()]
    if dtype.is_complex:
        parts = _tokens(flat.view(np.float32 if dtype.bits == 64 else np.float64), dtype.part)
        return [f"({re}, {im})" for re, im in zip(parts[::2], parts[1::2], strict=True)]
    # NumPy writes the shortest digits that give a float32 or float64 back; narrower types are exact in float32.
    wide = flat if dtype.bits == 64 else flat.astype(np.float32)
    tokens: list[str] = list(map(repr, wide.tolist())) if dtype.bits == 64 else wide.astype("U").tolist()
    for i in np.flatnonzero(np.isnan(wide)).tolist():
        tokens[i] = _nan_token(flat, i, dtype)
    return tokens


def _nan_token(flat: Array, index: int, dtype: DType) -> str:
    if not dtype.has_inf and dtype.name != "f8e4m3fn":
        return "nan"
    bits = int(flat[index : index + 1].view(f"u{flat.dtype.itemsize}")[0])
    sign = "-" if bits >> (dtype.bits - 1) else ""
    fraction = bits & ((1 << dtype.mantissa) - 1)
    if not dtype.has_inf or fraction == 1 << (dtype.mantissa - 1):
        return f"{sign}nan"
    return f"{sign}nan({fraction:#x})"


def _rows(tokens: Sequence[str], dims: Sequence[int]) -> str:
    if not dims:
        return tokens[0]
    rows = list(tokens)
    if 0 in dims:
        # XLA wants the braces of the dimensions before the empty one: [2,0] is { {}, {} }, [0,2] is {}.
        dims = dims[: dims.index(0)]
        rows = ["{}"] * math.prod(dims)
        if not dims:
            return rows[0]
    for size in reversed(dims[1:]):
        rows = ["{ " + ", ".join(rows[i : i + size]) + " }" for i in range(0, len(rows), size)]
    return "{ " + ", ".join(rows) + " }"
