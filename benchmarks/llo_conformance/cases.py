"""The kernels: jax functions by family, each with the shapes that it is compiled for.

Shapes are unaligned more often than not: a TPU's tile is 8 x 128, and what lies beside the array is the compiler's
business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Case:
    """name: unique. arguments: shapes."""

    name: str
    family: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


TYPES: dict[str, Any] = {
    "f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "s32": jnp.int32, "u32": jnp.uint32,
    "s16": jnp.int16, "u16": jnp.uint16, "s8": jnp.int8, "u8": jnp.uint8, "s4": jnp.int4, "u4": jnp.uint4,
    "pred": jnp.bool_,
}  # fmt: skip
FLOATS = ("f32", "bf16", "f16")
INTEGERS = ("s32", "u32", "s16", "u16", "s8", "u8", "s4", "u4")
SHAPES = ((100, 200), (7,), (8, 128), (3, 5, 130), (1000,), (33, 257), (2, 3, 4, 5), (1, 300), (65, 1))


def array(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, TYPES[dtype])


class Collector:
    """Adds cases of one family; shapes are taken in turn where none is given."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.cases: list[Case] = []

    def add(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        self.cases.append(Case(f"{self.family}_{name}", self.family, function, arguments))

    def shape(self) -> tuple[int, ...]:
        return SHAPES[len(self.cases) % len(SHAPES)]

    def like(self, name: str, function: Callable[..., Any], types: Sequence[str]) -> None:
        """Operands of these types, all of the next shape."""
        shape = self.shape()
        self.add(name, function, *(array(t, *shape) for t in types))


def all_cases(families: Sequence[str] = ()) -> Iterator[Case]:
    """Of these families, or all. Raises SystemExit for a family that there is not."""
    import arrays
    import composite
    import elementwise
    import products

    makers = {**elementwise.FAMILIES, **arrays.FAMILIES, **products.FAMILIES, **composite.FAMILIES}
    if wrong := sorted(set(families) - set(makers)):
        raise SystemExit(f"no family {wrong[0]!r}; there is {', '.join(makers)}")
    for family, maker in makers.items():
        if not families or family in families:
            collector = Collector(family)
            maker(collector)
            yield from collector.cases
