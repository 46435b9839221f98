"""Fourier transforms."""

from __future__ import annotations

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import PART_OF, WHOLE_OF, Type


@form("fft", "fourier", "complex", weight=0.7)
def _fft(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] == 0 or out.dims[-1] > 512:
        return None
    return Made((Hole(out),), f"jnp.fft.{site.draw.pick(('fft', 'ifft'))}({{0}})")


@form("fft of two", "fourier", "complex", weight=0.3)
def _fft2(site: Site, out: Type) -> Made | None:
    if out.rank < 2 or min(out.dims[-2:]) == 0 or max(out.dims[-2:]) > 128:
        return None
    return Made((Hole(out),), f"jnp.fft.{site.draw.pick(('fft2', 'ifft2'))}({{0}})")


@form("rfft", "fourier", "complex", weight=0.4)
def _rfft(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] < 2 or out.dims[-1] > 257:
        return None
    length = 2 * (out.dims[-1] - 1) + site.draw.below(2)
    real = Type(PART_OF[out.dtype], (*out.dims[:-1], length))
    return Made((Hole(real),), "jnp.fft.rfft({0})")


@form("irfft", "fourier", "f32 f64", weight=0.2)
def _irfft(site: Site, out: Type) -> Made | None:
    whole = WHOLE_OF[out.dtype]
    if out.rank == 0 or out.dims[-1] < 2 or out.dims[-1] > 512 or site.grammar.dtypes.get(whole, 0) <= 0:
        return None
    half = Type(whole, (*out.dims[:-1], out.dims[-1] // 2 + 1))
    return Made((Hole(half),), f"jnp.fft.irfft({{0}}, n={out.dims[-1]})")
