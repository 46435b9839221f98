"""Floats of eight bits, and bytes put together in place.

`e5m2` is XLA's f8e5m2. `if8` is its f8e4m3b11fnuz: the bias is 11, 0x80 the only NaN; kernels make f8e4m3fn of it, 16
times as large. Where nobody has seen what an opcode makes, it makes the pattern of memory that nobody wrote: whatever
depends on that is told.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words
from assay.llo.machine import Machine
from assay.llo.semantics.floats import QUIET, flush
from assay.llo.semantics.pack import quarter
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import Meaning, lanes

U = np.uint32
ABSOLUTE = U(0x7FFFFFFF)
E5M2 = "conversions of f8e5m2 to and from f32, f16 and bf16 are this alone"
IF8 = "conversions of f8e4m3b11fnuz are this alone, those of f8e4m3fn this, by 16, and selects"


def _values(mantissa: int, bias: int) -> npt.NDArray[np.float64]:
    """What codes 0 to 127 stand for, were all of them numbers."""
    codes = np.arange(128)
    exponents, fractions = codes >> mantissa, codes & (1 << mantissa) - 1
    normal = np.ldexp(1.0 + fractions / (1 << mantissa), exponents - bias)
    return np.where(exponents > 0, normal, np.ldexp(fractions.astype(np.float64), 1 - bias - mantissa))


E5M2_VALUES, IF8_VALUES = _values(2, 15), _values(3, 11)


def nearest(size: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The code of the nearest value, an even one between two; the last for what is larger than all."""
    middles = (values[:-1] + values[1:]) / 2
    found = np.searchsorted(middles, size)
    tie = middles[np.minimum(found, len(middles) - 1)] == size
    return np.asarray(found + (tie & (found % 2 == 1)))


def from_e5m2(codes: Words) -> Words:
    """Bytes to f32, exactly."""
    size = codes & U(127)
    values = E5M2_VALUES.astype(np.float32).view(U)[size] | (codes & U(128)) << U(24)
    infinite = U(0x7F800000) | (codes & U(128)) << U(24)
    return np.where(size > 124, QUIET, np.where(size == 124, infinite, values))


def to_e5m2(bits: Words) -> Words:
    """f32 to bytes, to nearest even; what is above 61440 is infinite."""
    size = np.abs(flush(bits).view(np.float32)).astype(np.float64)
    codes = nearest(np.where(np.isnan(size), 0.0, size), E5M2_VALUES[:125]).astype(U)
    return np.where(np.isnan(size), U(0x7E), codes | (bits >> U(24) & U(128)))


def from_if8(codes: Words) -> Words:
    """Bytes to f32, exactly."""
    values = IF8_VALUES.astype(np.float32).view(U)[codes & U(127)] | (codes & U(128)) << U(24)
    return np.where(codes == 128, QUIET, values)


def to_if8(bits: Words, unknown: int) -> Words:
    """f32 to bytes, to nearest even; finite ones above 30 are 30 (so f8e4m3fn gets its NaN). What kernels never look at
    is unknown: infinities, NaNs, and up to 2^-14, which would be a zero with or without a sign.
    """
    size = bits & ABSOLUTE
    known = (size > 0x38800000) & (size < 0x7F800000)
    codes = nearest(np.where(known, size, U(0)).view(np.float32).astype(np.float64), IF8_VALUES).astype(U)
    return np.where(known, codes | (bits >> U(24) & U(128)), U(unknown & 0xFF))


for _name, _from, _why in (("e5m2", from_e5m2, E5M2), ("if8", from_if8, IF8)):
    for _k in range(4):

        @op(f"vunpack.c.{_k}.{_name}.f32", "Vv", "probe", _why, f"unpack_f8(V(dst), V(a), {_k}, from_{_name});")
        def _unpack(m: Machine, r: Sequence[int], k: int = _k, values: Meaning = _from) -> None:
            m.v[r[1]] = values(quarter(m.v[r[2]], k))


lanes("vcvt.f32.e5m2", "Vv", "to_e5m2(x)", why=E5M2)(to_e5m2)


@op("vcvt.f32.if8", "Vv", "probe", IF8, "LANES V(dst)[i] = to_if8(V(a)[i], vm->fill & 0xff);")
def _to_if8(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = to_if8(m.v[r[2]], m.fill)


_EQUAL = "a byte that is handed over becomes a word of four; seen with equal operands, any order of others is unknown"


@op("vpack.i.b32.b16", "Vvv", "probe", _EQUAL, "LANES V(dst)[i] = twice(V(a)[i], V(b)[i], vm->fill);")
def _twice(m: Machine, r: Sequence[int]) -> None:
    x, y = (m.v[k] & U(0xFFFF) for k in r[2:4])
    m.v[r[1]] = np.where(x == y, x | x << U(16), U(m.fill))


@op("vpack.i.b16.b8", "Vvv", "probe", _EQUAL, "LANES V(dst)[i] = four_times(V(a)[i], V(b)[i], vm->fill);")
def _four_times(m: Machine, r: Sequence[int]) -> None:
    x, y = (m.v[k] & U(0x00FF00FF) for k in r[2:4])
    byte = x & U(0xFF)
    m.v[r[1]] = np.where((x == y) & (x >> U(16) == byte), byte * U(0x01010101), U(m.fill))
