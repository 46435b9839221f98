"""Arrays of any element type, by class of values."""

from __future__ import annotations

import math

import numpy as np

from assay.hlo.shape import DType
from assay.oracle.compare import round_out
from assay.reference.value import Array, held_dtype

from .choices import Choices

CLASSES = ("small", "normal", "ties", "edges", "bits")
TAME = ("small", "normal", "ties")
FINITE = ("small", "normal", "ties", "finite bits")


def draw_values(choices: Choices, dtype: DType, dims: tuple[int, ...], classes: tuple[str, ...] = CLASSES) -> Array:
    """An array of `dtype.numpy` whose class is picked from `classes`, from a seed that is one choice."""
    kind = choices.pick(classes)
    rng = np.random.default_rng(choices.below(1 << 20))
    return values_of(rng, dtype, dims, kind)


def values_of(rng: np.random.Generator, dtype: DType, dims: tuple[int, ...], kind: str) -> Array:
    count = math.prod(dims)
    assert dtype.numpy is not None, f"{dtype} has no NumPy type"
    if dtype.kind == "pred":
        return rng.random(dims) < rng.choice([0.1, 0.5, 0.9])
    if dtype.is_complex:
        with np.errstate(all="ignore"):  # signalling NaN
            parts = [values_of(rng, dtype.part, dims, kind).astype(np.float64) for _ in range(2)]
        whole = np.empty(dims, np.complex128)
        whole.real, whole.imag = parts
        with np.errstate(all="ignore"):
            return whole.astype(dtype.numpy)
    flat = _integers(rng, dtype, count, kind) if dtype.is_integer else _floats(rng, dtype, count, kind)
    return flat.reshape(dims)


def limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest number of an integer type."""
    half = 1 << (dtype.bits - 1)
    return (-half, half - 1) if dtype.kind == "signed" else (0, 2 * half - 1)


def _integers(rng: np.random.Generator, dtype: DType, count: int, kind: str) -> Array:
    low, high = limits(dtype)
    held = held_dtype(dtype)
    if kind in ("small", "ties", "normal"):
        reach = {"small": 4, "ties": 1, "normal": 20}[kind]
        whole = rng.integers(max(low, -reach), min(high, reach), count, endpoint=True).astype(held)
    elif kind == "edges":
        edges = [low, high, 0, 1, max(low, -1), high - 1, min(low + 1, high), min(dtype.bits, high), dtype.bits - 1]
        whole = np.array([min(max(e, low), high) for e in edges], held)[rng.integers(len(edges), size=count)]
    else:
        whole = rng.integers(low, high, count, dtype=held, endpoint=True)
        whole = whole >> rng.integers(0, dtype.bits, count).astype(held)
    return whole.astype(dtype.numpy)


def _floats(rng: np.random.Generator, dtype: DType, count: int, kind: str) -> Array:
    assert dtype.numpy is not None
    if kind in ("bits", "finite bits"):
        width = max(dtype.bits, 8)
        raw = rng.integers(0, (1 << dtype.bits) - 1, count, dtype=f"uint{width}", endpoint=True)
        if kind == "bits":
            return raw.view(dtype.numpy)
        with np.errstate(all="ignore"):  # signalling NaN
            found = raw.view(dtype.numpy).astype(np.float64)
        one = np.ones(1, dtype.numpy)
        return np.where(np.isfinite(found), raw, one.view(raw.dtype)[0]).view(dtype.numpy)
    if kind == "small":
        wanted = rng.integers(-4, 5, count).astype(np.float64)
    elif kind == "normal":
        wanted = rng.normal(size=count) * rng.choice([0.05, 1.0, 1.0, 20.0])
    elif kind == "ties":
        wanted = rng.choice([0.5, 1.5, 2.5, -0.5, 1.0, 1.0, 0.0, -1.0], count)
    else:
        least = 2.0**dtype.min_exponent
        tiny = least * 2.0**-dtype.mantissa
        edges = [0.0, -0.0, math.inf, -math.inf, math.nan, dtype.max, -dtype.max, least, -least, tiny, -tiny]
        edges += [1.0, -1.0, 0.5, 2.0, 1.5, -2.5]
        wanted = np.array(edges)[rng.integers(len(edges), size=count)]
    return _stored(dtype, wanted)


def _stored(dtype: DType, wanted: Array) -> Array:
    """The nearest values of the type; the unsigned one takes magnitudes, and one for what it cannot hold."""
    assert dtype.numpy is not None
    if dtype.name == "f8e8m0fnu":
        size = np.abs(wanted)
        wanted = np.where(
            (size > 0) & np.isfinite(size), np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0)))), 1.0
        )
        wanted = np.clip(wanted, 2.0**-127, 2.0**127)
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        if not dtype.has_inf:
            wanted = np.where(np.isinf(wanted), np.copysign(dtype.max, wanted), wanted)
        if dtype.bits < 8:
            wanted = np.where(finite, np.clip(wanted, -dtype.max, dtype.max), 0.0)
        rounded = round_out(dtype, wanted) if dtype.bits >= 8 else wanted
        return rounded.astype(dtype.numpy)
