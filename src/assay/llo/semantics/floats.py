"""f32 as the vector unit has it, in NumPy; native/vm.h has the same in C.

Subnormal operands and results are zero with their sign. A result that is no number is the one quiet NaN 0x7fc00000:
payloads are not modelled where a value is computed, and kept where it is moved.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words

Floats = npt.NDArray[np.float32]
QUIET = np.uint32(0x7FC00000)
EXPONENT, SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)


def flush(bits: Words) -> Words:
    """Subnormals to zero, sign kept."""
    return np.where(bits & EXPONENT, bits, bits & SIGN)


def operand(bits: Words) -> Floats:
    """What a float op computes with."""
    return flush(bits).view(np.float32)


def result(values: Floats) -> Words:
    """What it writes."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return np.where(np.isnan(values), QUIET, flush(bits))


def round_bf16(bits: Words) -> Words:
    """f32 to bf16, to nearest even, as 16 low bits; a NaN stays one and keeps what fits of its payload."""
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > EXPONENT
    return np.where(nan, (bits >> np.uint32(16)) | np.uint32(0x40), rounded)
