"""Shapes as XLA has them: element type, dimensions and layout; tuples, tokens and opaque values.

Names of element types are those of XLA's text (`f32`, `bf16`, `f8e4m3fn`, `pred`, `s4`, ...).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as Choice

import ml_dtypes
import numpy as np

Kind = Choice["pred", "signed", "unsigned", "float", "complex"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    `bits` is the width XLA counts (4 for s4). `numpy` is the dtype in which assay holds target values of this type,
    None where NumPy and ml_dtypes have none. For floats, `mantissa` counts the explicit fraction bits, `min_exponent`
    is the exponent of the smallest normal and `max` the largest finite value (IEEE 754-2019, OCP 8-bit and MX
    specifications).
    """

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[np.generic] | None = field(compare=False, repr=False)
    mantissa: int = 0
    min_exponent: int = 0
    max: float = math.inf
    has_inf: bool = True

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def part(self) -> DType:
        """The real type of a complex type's parts; the type itself otherwise."""
        if self.kind != "complex":
            return self
        return DTYPES["f32" if self.bits == 64 else "f64"]

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return _dtype, (self.name,)  # a copy from another process is this process's own


def _dtype(name: str) -> DType:
    return DTYPES[name]


def _numpy(name: str) -> np.dtype[np.generic] | None:
    # Which narrow types exist depends on the installed ml_dtypes.
    scalar = getattr(ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)


def _integers() -> Iterator[DType]:
    for bits in (1, 2, 4, 8, 16, 32, 64):
        wide = bits >= 8
        yield DType(f"s{bits}", "signed", bits, np.dtype(f"int{bits}") if wide else _numpy(f"int{bits}"))
        yield DType(f"u{bits}", "unsigned", bits, np.dtype(f"uint{bits}") if wide else _numpy(f"uint{bits}"))


def _floats() -> Iterator[DType]:
    # name, bits, numpy, fraction bits, smallest normal exponent, largest finite value, has infinity
    rows: tuple[tuple[str, int, object, int, int, float, bool], ...] = (
        ("f64", 64, np.float64, 52, -1022, float(np.finfo(np.float64).max), True),
        ("f32", 32, np.float32, 23, -126, float(np.finfo(np.float32).max), True),
        ("f16", 16, np.float16, 10, -14, 65504.0, True),
        ("bf16", 16, "bfloat16", 7, -126, (2 - 2**-7) * 2.0**127, True),
        ("f8e5m2", 8, "float8_e5m2", 2, -14, 57344.0, True),
        ("f8e4m3", 8, "float8_e4m3", 3, -6, 240.0, True),
        ("f8e4m3fn", 8, "float8_e4m3fn", 3, -6, 448.0, False),
        ("f8e4m3b11fnuz", 8, "float8_e4m3b11fnuz", 3, -10, 30.0, False),
        ("f8e5m2fnuz", 8, "float8_e5m2fnuz", 2, -15, 57344.0, False),
        ("f8e4m3fnuz", 8, "float8_e4m3fnuz", 3, -7, 240.0, False),
        ("f8e3m4", 8, "float8_e3m4", 4, -2, 15.5, True),
        ("f8e8m0fnu", 8, "float8_e8m0fnu", 0, -127, 2.0**127, False),
        ("f6e2m3fn", 6, "float6_e2m3fn", 3, 0, 7.5, False),
        ("f6e3m2fn", 6, "float6_e3m2fn", 2, -2, 28.0, False),
        ("f4e2m1fn", 4, "float4_e2m1fn", 1, 0, 6.0, False),
    )
    for name, bits, held, mantissa, min_exponent, largest, has_inf in rows:
        numpy = _numpy(held) if isinstance(held, str) else np.dtype(held)  # type: ignore[call-overload]
        yield DType(name, "float", bits, numpy, mantissa, min_exponent, largest, has_inf)


DTYPES: dict[str, DType] = {
    t.name: t
    for t in (
        DType("pred", "pred", 1, np.dtype(np.bool_)),
        *_integers(),
        *_floats(),
        DType("c64", "complex", 64, np.dtype(np.complex64)),
        DType("c128", "complex", 128, np.dtype(np.complex128)),
    )
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One level of tiling; a dimension of None is the `*` that joins a dimension with the next."""

    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory. `extra` keeps what assay only carries, as XLA wrote it, e.g. `E(4)`, `#(u32)`."""

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...] = ()
    memory_space: int = 0
    extra: tuple[str, ...] = ()


UNBOUNDED = -(2**63)
"""The size XLA gives a dimension printed as `?` (shape.h, kUnboundedSize); such a dimension is dynamic too."""


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """An array; `dynamic[i]` says that dims[i] is only an upper bound (`<=8`). `dynamic` is () where none is."""

    dtype: DType
    dims: tuple[int, ...]
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.dims)


@dataclass(frozen=True, slots=True)
class TupleShape:
    elements: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class TokenShape:
    pass


@dataclass(frozen=True, slots=True)
class OpaqueShape:
    pass


@dataclass(frozen=True, slots=True)
class BufferShape:
    """`b(f32[4])`: a buffer that is written in place."""

    array: ArrayShape


Shape = ArrayShape | TupleShape | TokenShape | OpaqueShape | BufferShape


def leaves(shape: Shape) -> Iterator[Shape]:
    """The shapes that are no tuples, in order."""
    if isinstance(shape, TupleShape):
        for element in shape.elements:
            yield from leaves(element)
    else:
        yield shape


def byte_size(shape: Shape) -> int:
    """Bytes of all arrays in `shape` at XLA's width, sub-byte elements packed."""
    return sum((s.size * s.dtype.bits + 7) // 8 for s in leaves(shape) if isinstance(s, ArrayShape))


def is_tiled(shape: Shape) -> bool:
    """Whether some array in `shape` has a tiled layout, as the TPU compiler's have."""
    return any(isinstance(s, ArrayShape) and s.layout is not None and bool(s.layout.tiles) for s in leaves(shape))


def padded_byte_size(shape: Shape) -> int:
    """Bytes of all arrays with their dimensions rounded up to whole tiles; a `*` in a tile rounds nothing up."""
    total = 0
    for array in leaves(shape):
        if not isinstance(array, ArrayShape):
            continue
        sizes = list(array.dims)
        if array.layout is not None and array.layout.tiles:
            tile = array.layout.tiles[0].dims
            physical = [array.dims[d] for d in reversed(array.layout.minor_to_major)]
            physical = [1] * (len(tile) - len(physical)) + physical
            outer = physical[: len(physical) - len(tile)]
            inner = physical[len(outer) :]
            sizes = outer + [s if t is None else -(-s // t) * t for s, t in zip(inner, tile, strict=True)]
        total += (math.prod(sizes) * array.dtype.bits + 7) // 8
    return total


def compatible(a: Shape, b: Shape) -> bool:
    """Whether two shapes agree in all but layouts and in which dimensions are dynamic (ShapeUtil::Compatible)."""
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        return a.dtype is b.dtype and a.dims == b.dims
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        pairs = zip(a.elements, b.elements, strict=False)
        return len(a.elements) == len(b.elements) and all(compatible(x, y) for x, y in pairs)
    if isinstance(a, BufferShape) and isinstance(b, BufferShape):
        return compatible(a.array, b.array)
    return type(a) is type(b)
