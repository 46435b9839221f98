"""Values of the reference: arrays whose elements carry an error bound.

A `Ball` stands for the set of results a correct compiler may give. Floats: every value within `rad` of `mid`.
Integers and predicates are exact. An element marked in `und` is undecided: what it may be depends on a choice that
rounding decides (a comparison, a floor, a sort), so it is counted, never compared.

Invariants: `rad` and `und` have the shape of `mid` (they may be broadcast views) or are None, which means zero and
nowhere. `rad` is finite and not negative. Where `mid` is infinite or NaN and `und` is not set, every correct result
is that infinity or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType

Array = np.ndarray[Any, np.dtype[Any]]

PRED = DTYPES["pred"]


@dataclass(frozen=True, slots=True)
class Ball:
    """An array value of element type `dtype`, with `mid` held in `held_dtype(dtype)` and `rad` in float64 (a disk for
    complex).
    """

    dtype: DType
    mid: Array
    rad: Array | None = None
    und: Array | None = None

    def __post_init__(self) -> None:
        assert self.rad is None or self.rad.dtype == np.float64, f"radius in {self.rad.dtype}"
        assert self.und is None or self.und.dtype == np.bool_, f"mask in {self.und.dtype}"

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(self.mid.shape)

    @property
    def exact(self) -> bool:
        return self.rad is None and self.und is None


@dataclass(frozen=True, slots=True)
class Token:
    """The value of a token."""


Value = Ball | Token | tuple["Value", ...]


@lru_cache(maxsize=64)
def held_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of `Ball.mid`: float64, complex128, bool, or the smallest NumPy integer that holds the type."""
    if dtype.is_float:
        return np.dtype(np.float64)
    if dtype.is_complex:
        return np.dtype(np.complex128)
    if dtype.kind == "pred":
        return np.dtype(np.bool_)
    return np.dtype(f"{'int' if dtype.kind == 'signed' else 'uint'}{max(dtype.bits, 8)}")


def wrap(dtype: DType, mid: Array) -> Array:
    """Integers reduced modulo 2**bits into the range of `dtype`; NumPy does this by itself from 8 bits up."""
    held = held_dtype(dtype)
    mid = np.asarray(mid)  # NumPy makes scalars of arrays without dimensions
    if not dtype.is_integer or dtype.bits >= 8:
        return mid.astype(held, copy=False)
    low = mid.astype(np.int64) & ((1 << dtype.bits) - 1)
    if dtype.kind == "signed":
        low = low - ((low >> (dtype.bits - 1)) << dtype.bits)
    return low.astype(held)


def from_array(dtype: DType, array: Array) -> Ball:
    """An exact ball from target values (dtype.numpy, or anything that converts to it without loss)."""
    return Ball(dtype, np.asarray(array).astype(held_dtype(dtype)))


def joined(real: Array, imaginary: Array) -> Array:
    """complex128 of two parts, which broadcast together; real + 1j * imaginary is NaN beside an infinity."""
    made = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), np.complex128)
    made.real, made.imag = real, imaginary
    return made


def enclosing(low: Array, high: Array) -> tuple[Array, Array]:
    """Midpoint and radius of [low, high], so that midpoint - radius and midpoint + radius, as float64 has them, lie no
    further in; a radius of 0 where the ends are equal. Neither means anything where an end is not finite.
    """
    with np.errstate(all="ignore"):
        mid = np.where(low == high, low, low / 2 + high / 2)
        rad = np.maximum(high - mid, mid - low)
        # Where one end is much larger, both round, and the other end is lost in the last digit.
        return mid, np.where((mid - rad <= low) & (mid + rad >= high), rad, rad * (1 + 2.0**-50))


def round_to(dtype: DType, mid: Array) -> Array:
    """`mid` rounded to the nearest value of `dtype`, ties to even, overflowing as the type does; float64 or
    complex128 out.
    """
    if dtype.name in ("f64", "c128"):
        return mid
    held = held_dtype(dtype)
    with np.errstate(all="ignore"):
        return mid.astype(dtype.numpy).astype(held)


def union(*masks: Array | None) -> Array | None:
    """Elementwise or of masks that broadcast together, None being false everywhere."""
    found: Array | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def total(*radii: Array | None) -> Array | None:
    """Sum of radii that broadcast together, None being zero."""
    found: Array | None = None
    for rad in radii:
        if rad is not None:
            found = rad if found is None else found + rad
    return found


def as_ball(value: Value) -> Ball:
    assert isinstance(value, Ball), "an array is needed here, not a tuple or a token"
    return value


def flatten(value: Value) -> list[Ball | Token]:
    """The leaves of a possibly nested tuple, in order."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in flatten(element)]
    return [value]


def check_shape(value: Ball, shape: ArrayShape) -> bool:
    return value.mid.shape == shape.dims and value.dtype.name == shape.dtype.name
