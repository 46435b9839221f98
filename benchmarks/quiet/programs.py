"""A list of programs: rows of (name, function, arguments, element types), one program for each row and type.

`"17x33 s32:5 -"` are three arguments: an array of the row's type, five s32, and a scalar of the row's type; `u32:2` is
as good a key as any for jax.random. Their values are drawn by assay. A program's name says all of it, so that two that
are alike cannot both be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

DTYPES: dict[str, Any] = {
    "f64": jnp.float64, "f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16,
    "f8e5m2": jnp.float8_e5m2, "f8e4m3fn": jnp.float8_e4m3fn, "f8e4m3b11fnuz": jnp.float8_e4m3b11fnuz,
    "f8e5m2fnuz": jnp.float8_e5m2fnuz, "f8e4m3fnuz": jnp.float8_e4m3fnuz, "f8e3m4": jnp.float8_e3m4,
    "f8e4m3": jnp.float8_e4m3, "f8e8m0fnu": jnp.float8_e8m0fnu, "f4e2m1fn": jnp.float4_e2m1fn,
    "c64": jnp.complex64, "c128": jnp.complex128,
    "s64": jnp.int64, "s32": jnp.int32, "s16": jnp.int16, "s8": jnp.int8, "s4": jnp.int4, "s2": jnp.int2,
    "u64": jnp.uint64, "u32": jnp.uint32, "u16": jnp.uint16, "u8": jnp.uint8, "u4": jnp.uint4, "u2": jnp.uint2,
    "pred": jnp.bool_,
}  # fmt: skip
WIDE = {"f64", "c128", "s64", "u64"}
"""They need jax_enable_x64, under which Python numbers and defaults are wide too."""

FLOAT = "f32 bf16 f16 f64"
COMPLEX = "c64 c128"
F8 = "f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 f8e4m3"
SIGNED = "s8 s32"
UNSIGNED = "u8 u32"
INTEGER = "s8 s16 s32 s64 u8 u16 u32 u64"
PLAIN = "f32 bf16 s32"
ANY = "f32 bf16 f16 f64 c64 s8 s32 u8 u32 pred"


@dataclass(frozen=True)
class Entry:
    """One program. arguments: (element type, dimensions) of each."""

    library: str
    name: str
    dtype: str
    function: Callable[..., Any]
    arguments: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def title(self) -> str:
        drawn = ", ".join(f"{dtype}[{','.join(map(str, dims))}]" for dtype, dims in self.arguments)
        return f"{self.library}: {self.name}({drawn})"

    @property
    def wide(self) -> bool:
        return self.dtype in WIDE or any(dtype in WIDE for dtype, _ in self.arguments)

    def shapes(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """For assay to draw values for."""
        return tuple(jax.ShapeDtypeStruct(dims, DTYPES[dtype]) for dtype, dims in self.arguments)


Row = tuple[str, Callable[..., Any], str, str]


def entries(library: str, rows: Iterable[Row]) -> Iterator[Entry]:
    """The programs of a table. A row whose arguments do not vary with its type gives one, whose type is for the count
    alone.
    """
    for name, function, arguments, dtypes in rows:
        for dtype in dtypes.split():
            yield Entry(library, name, dtype, function, tuple(_argument(word, dtype) for word in arguments.split()))


def _argument(word: str, dtype: str) -> tuple[str, tuple[int, ...]]:
    own, colon, dims = word.rpartition(":")
    return own if colon else dtype, () if dims == "-" else tuple(int(size) for size in dims.split("x"))


def gradient(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The gradient of the sum of a function's float results."""

    def total(*arguments: Any) -> Any:
        return sum(jnp.sum(leaf.real.astype(jnp.float32)) for leaf in jax.tree.leaves(function(*arguments)))

    return jax.grad(total, argnums)
