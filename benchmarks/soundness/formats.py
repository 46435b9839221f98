"""Rounding to a float type in NumPy, independent of the reference: correct from float64, subnormals and overflow
included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A float type: `digits` significant bits, the exponent of the smallest normal, the largest value.

    flushed: whether a target may flush its subnormals (f16 is computed in f32, where they are normal).
    """

    name: str
    numpy: Any
    digits: int
    low: int
    largest: float
    flushed: bool

    @property
    def unit(self) -> float:
        """The unit roundoff."""
        return 2.0**-self.digits


F64 = Format("f64", np.float64, 53, -1022, float(np.finfo(np.float64).max), True)
F32 = Format("f32", np.float32, 24, -126, float(np.finfo(np.float32).max), True)
BF16 = Format("bf16", ml_dtypes.bfloat16, 8, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), True)
F16 = Format("f16", np.float16, 11, -14, 65504.0, False)
FORMATS = {f.name: f for f in (F64, F32, BF16, F16)}


def nearest(x: Array, to: Format) -> Array:
    """float64 `x` rounded once to the nearest value of `to`, ties to even; float64 out."""
    with np.errstate(all="ignore"):
        if to is F64:
            return x
        if to is not BF16:
            return x.astype(to.numpy).astype(np.float64)
        step = ulp(x, to)
        found: Array = np.where(np.isfinite(x), np.rint(x / step) * step, x)
        return np.where(np.abs(found) > to.largest, np.copysign(np.inf, x), found)


def ulp(x: Array, to: Format) -> Array:
    """The distance between neighbouring values of `to` in the binade of `x`; zeros are in the lowest."""
    _, exponent = np.frexp(x)
    found: Array = np.ldexp(1.0, np.where(x == 0, to.low + 1, np.maximum(exponent, to.low + 1)) - to.digits)
    return found


def flush(x: Array, to: Format) -> Array:
    """Subnormals of `to` as zeros."""
    return np.where(np.abs(x) < 2.0**to.low, np.copysign(0.0, x), x)
