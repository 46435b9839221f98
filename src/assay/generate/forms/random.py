"""Random bits of a key, which are the same everywhere."""

from __future__ import annotations

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type, python, tuple_text

MOST = 4096
"""Elements: each costs a hundred operations."""


@form("random bits", "random", "u32 u8 u16", weight=0.3, smooth=False)
def _random_bits(site: Site, out: Type) -> Made | None:
    if out.size > MOST:
        return None
    return Made((Hole(Type("u32", (2,))),), f"jax.random.bits({{0}}, {tuple_text(out.dims)}, {python(out.dtype)})")


@form("random uniform", "random", "f32", weight=0.2, smooth=False)
def _random_uniform(site: Site, out: Type) -> Made | None:
    if out.size > MOST:
        return None
    return Made((Hole(Type("u32", (2,))),), f"jax.random.uniform({{0}}, {tuple_text(out.dims)}, {python(out.dtype)})")


@form("random permutation", "random", "s32 f32", weight=0.1, smooth=False)
def _permutation(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 0 < out.dims[0] <= 512:
        return None
    return Made((Hole(Type("u32", (2,))), Hole(out)), "jax.random.permutation({0}, {1})")


@form("rng_bit_generator", "random", "u32 u8 u16 u64", weight=0.2, smooth=False)
def _rng_bit_generator(site: Site, out: Type) -> Made | None:
    if out.size > MOST:
        return None
    key = Type("u32", (4,))
    algorithm = site.draw.pick(("RNG_THREE_FRY", "RNG_PHILOX"))
    how = f"{python(out.dtype)}, lax.RandomAlgorithm.{algorithm}"
    text = f"lax.rng_bit_generator({{0}}, {tuple_text(out.dims)}, {how})"
    return Made((Hole(key),), text, parts=(key, out), at=1)
