"""The types of values in a generated program, by HLO's names, and how Python writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
FLOATS = ("bf16", "f16", "f32", "f64")
NARROW_FLOATS = ("f8e4m3fn", "f8e5m2")
NARROW_INTEGERS = ("s4", "u4")
COMPLEX = ("c64", "c128")
INTEGERS = SIGNED + UNSIGNED
WIDE = ("s64", "u64", "f64", "c128")
INDICES = ("s32", "u8", "s8", "s16", "u16", "u32", "s64")

PART_OF = {"c64": "f32", "c128": "f64"}
"""What a complex type is made of."""
WHOLE_OF = {part: whole for whole, part in PART_OF.items()}

_PYTHON = {
    "pred": "bool_", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "c64": "complex64", "c128": "complex128",
    **{f"s{b}": f"int{b}" for b in (4, 8, 16, 32, 64)}, **{f"u{b}": f"uint{b}" for b in (4, 8, 16, 32, 64)},
}  # fmt: skip

BITS = {
    "pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "f8e4m3fn": 8, "f8e5m2": 8, "c64": 64, "c128": 128,
    **{f"{sign}{b}": b for sign in "su" for b in (4, 8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """An array type: HLO's element type and dimensions."""

    dtype: str
    dims: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def extent(self) -> int:
        """What it would hold if no dimension were 0: what is reduced over such a one has elements again."""
        return math.prod(max(d, 1) for d in self.dims)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def of(self, dtype: str) -> Type:
        return Type(dtype, self.dims)

    def shaped(self, dims: tuple[int, ...]) -> Type:
        return Type(self.dtype, dims)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class Several:
    """The type of a tuple of arrays."""

    parts: tuple[Type, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def extent(self) -> int:
        return sum(part.extent for part in self.parts)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


def without(dims: tuple[int, ...], axis: int, *instead: int) -> tuple[int, ...]:
    return (*dims[:axis], *instead, *dims[axis + 1 :])


def python(dtype: str) -> str:
    """`jnp.float32` for `f32`."""
    return f"jnp.{_PYTHON[dtype]}"


def limits(dtype: str) -> tuple[int, int]:
    """Of an integer type."""
    bits = BITS[dtype]
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def is_integer(dtype: str) -> bool:
    return dtype[0] in "su"


def is_float(dtype: str) -> bool:
    return dtype[0] in "fb"


def is_complex(dtype: str) -> bool:
    return dtype[0] == "c"


def tuple_text(values: Iterable[int]) -> str:
    """`(1, 2)`, `(1,)`, `()`."""
    values = tuple(values)
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"
