"""`fft`: FFT, IFFT, RFFT and IRFFT over the last dimensions, computed in float64 by SciPy.

Error of a computed transform y of length n = 2^t: ||dy||_2 <= t eta ||y||_2, eta about 7 u with good weights (Higham,
"Accuracy and Stability of Numerical Algorithms", Theorem 24.2), and about sqrt(t) u where errors are independent. No
element can be off by more than the norm. A length with a prime factor above 50 goes by Bluestein's algorithm: three
transforms of length 4n.
"""

from __future__ import annotations

from math import log2, prod, sqrt

import numpy as np
import scipy.fft

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.reference.context import Context, unit_roundoff
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value, union


@operation("fft")
def fft(ctx: Context, instr: Instruction, a: Ball) -> Value:
    kind = attributes.word(instr, "fft_type")
    lengths = attributes.int_list(instr, "fft_length", required=True)
    axes = tuple(range(-len(lengths), 0))
    dtype = instr.array.dtype
    if prod(instr.array.dims) == 0:
        return Ball(dtype, np.zeros(instr.array.dims, np.complex128 if dtype.is_complex else np.float64))
    mid = _TRANSFORMS[kind](a.mid, lengths, axes) if kind in _TRANSFORMS else None
    if mid is None:
        raise Unsupported("fft", f"fft_type={kind}")
    scale = 1.0 if kind in ("FFT", "RFFT") else 1.0 / prod(lengths)
    doubled = 2.0 if kind == "IRFFT" else 1.0  # each stored term but the first stands for two
    size = np.abs(a.mid)
    # ||y||_2 = sqrt(n) ||x||_2
    norm = doubled * scale * sqrt(prod(lengths)) * np.sqrt(np.add.reduce(size * size, axis=axes, keepdims=True))
    error = _growth(ctx, lengths) * unit_roundoff(dtype) * norm
    if dtype.part.name == "f64":
        error = 2 * error  # the midpoint has such an error too
    rad = None if a.rad is None else doubled * scale * np.add.reduce(a.rad, axis=axes, keepdims=True)
    und = None
    if a.und is not None and a.und.any():
        und = np.broadcast_to(a.und.any(axis=axes, keepdims=True), mid.shape)
    special = ~np.isfinite(size).all(axis=axes, keepdims=True)
    if special.any():
        und = union(und, np.broadcast_to(special, mid.shape))
        mid = np.where(special, 0.0, mid)
        error = np.where(special, 0.0, error)
    return ctx.rounded(
        dtype,
        mid,
        None if rad is None else np.broadcast_to(rad, mid.shape),
        und,
        error=np.broadcast_to(error, mid.shape),
    )


def _growth(ctx: Context, lengths: tuple[int, ...]) -> float:
    """The relative error of a transform in unit roundoffs."""
    stages = sum(3 * log2(4 * n) if _largest_factor(n) > 50 else log2(max(n, 2)) for n in lengths)
    return min(7 * stages, ctx.policy.confidence * sqrt(stages) + 2)


def _largest_factor(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)


def _irfft(x: Array, lengths: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    found: Array = scipy.fft.irfftn(x, s=lengths, axes=axes)
    return found


_TRANSFORMS = {
    "FFT": lambda x, lengths, axes: scipy.fft.fftn(x, axes=axes),
    "IFFT": lambda x, lengths, axes: scipy.fft.ifftn(x, axes=axes),
    "RFFT": lambda x, lengths, axes: scipy.fft.rfftn(x, axes=axes),
    "IRFFT": _irfft,
}
