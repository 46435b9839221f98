"""Fourier transforms, triangular solves, factorisations, and random bits."""

from __future__ import annotations

from assay.generate.expressions import number
from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type, python, tuple_text


@form("fft", "linear_algebra", "complex", weight=0.8)
def _fft(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] == 0 or out.dims[-1] > 512:
        return None
    return Made((Hole(out),), f"jnp.fft.{site.draw.pick(('fft', 'ifft'))}({{0}})")


@form("rfft", "linear_algebra", "complex", weight=0.4)
def _rfft(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] < 2 or out.dims[-1] > 257:
        return None
    real = Type("f32" if out.dtype == "c64" else "f64", (*out.dims[:-1], 2 * (out.dims[-1] - 1)))
    return Made((Hole(real),), "jnp.fft.rfft({0})")


@form("irfft", "linear_algebra", "f32 f64", weight=0.2)
def _irfft(site: Site, out: Type) -> Made | None:
    whole = "c64" if out.dtype == "f32" else "c128"
    if out.rank == 0 or out.dims[-1] < 2 or out.dims[-1] > 512 or site.grammar.dtypes.get(whole, 0) <= 0:
        return None
    half = Type(whole, (*out.dims[:-1], out.dims[-1] // 2 + 1))
    return Made((Hole(half),), f"jnp.fft.irfft({{0}}, n={out.dims[-1]})")


@form("triangular_solve", "linear_algebra", "f32 f64", weight=0.4, targets=("cpu",))
def _solve(site: Site, out: Type) -> Made | None:
    """By a triangle with a strong diagonal, whose inverse is small."""
    if out.rank < 2 or min(out.dims) == 0 or out.dims[-2] > 16:
        return None
    n = out.dims[-2]
    whole = out.shaped((*out.dims[:-2], n, n))
    lower, unit, transposed = site.draw.chance(0.5), site.draw.chance(0.3), site.draw.chance(0.3)
    matrix = f"jnp.sin({{0}}) * {number(0.25, out.dtype)} + 2 * jnp.eye({n}, dtype={python(out.dtype)})"
    how = f"left_side=True, lower={lower}, unit_diagonal={unit}, transpose_a={transposed}"
    return Made((Hole(whole), Hole(out)), f"lax.linalg.triangular_solve({matrix}, {{1}}, {how})")


@form("cholesky", "linear_algebra", "f32 f64", weight=0.25, targets=("cpu",))
def _cholesky(site: Site, out: Type) -> Made | None:
    if out.rank != 2 or out.dims[0] != out.dims[1] or not 0 < out.dims[0] <= 32:
        return None
    n = out.dims[0]
    square = "jnp.matmul(jnp.sin({0}), jnp.sin({0}).T)"
    return Made((Hole(out),), f"lax.linalg.cholesky({square} + {n} * jnp.eye({n}, dtype={python(out.dtype)}))")


@form("random bits", "linear_algebra", "u32 u8 u16", weight=0.3, smooth=False)
def _random_bits(site: Site, out: Type) -> Made | None:
    if out.size > 4096:
        return None
    return Made((Hole(Type("u32", (2,))),), f"jax.random.bits({{0}}, {tuple_text(out.dims)}, {python(out.dtype)})")


@form("random uniform", "linear_algebra", "f32", weight=0.2, smooth=False)
def _random_uniform(site: Site, out: Type) -> Made | None:
    if out.size > 4096:
        return None
    return Made((Hole(Type("u32", (2,))),), f"jax.random.uniform({{0}}, {tuple_text(out.dims)}, {python(out.dtype)})")
