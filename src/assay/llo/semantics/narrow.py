"""Narrow types that have no arithmetic of their own: f16, nibbles, halves in place.

A value of f16 is an f32 wherever it is computed with; `hf16` are its 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.llo.code import Words
from assay.llo.machine import LANES, Machine
from assay.llo.semantics.floats import QUIET, flush, operand, result
from assay.llo.semantics.pack import LOW, half, quarter, sign_extended
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import PROBE, lanes, maximum, minimum, signed

U = np.uint32
F16 = "conversions of f16 to and from f32 are this alone; subnormals of f16 are taken to be kept"


def from_f16(bits: Words) -> Words:
    """16 low bits to f32, exactly."""
    values = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return np.where(np.isnan(values), QUIET, values.view(U))


def to_f16(bits: Words) -> Words:
    """f32 to 16 low bits, to nearest even."""
    values = flush(bits).view(np.float32)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    return np.where(np.isnan(values), U(0x7E00), rounded.view(np.uint16).astype(U))


lanes("vcvt.f32.hf16", "Vv", "to_f16(x)", why=F16)(to_f16)

for _k, _letter in enumerate("lu"):

    @op(f"vunpack.c.{_letter}.hf16.f32", "Vv", "probe", F16, f"unpack_f16(V(dst), V(a), {_k});")
    def _unpack_f16(m: Machine, r: Sequence[int], k: int = _k) -> None:
        m.v[r[1]] = from_f16(half(m.v[r[2]], k))


lanes("vunpack.i.l.s16.s32", "Vv", "(uint32_t)((int32_t)(x << 16) >> 16)")(lambda x: sign_extended(x & LOW, 16))
lanes("vunpack.i.u.s16.s32", "Vv", "(uint32_t)((int32_t)x >> 16)")(lambda x: (signed(x) >> np.int32(16)).view(U))


@op(
    "vpack.c.b8.b4",
    "Vvv",
    "probe",
    "rows of eight to a word, the first operand's after",
    "pack_c4(V(dst), V(b), V(a));",
)
def _pack_c_b4(m: Machine, r: Sequence[int]) -> None:
    rows = np.concatenate([quarter(m.v[v], k) & U(15) for v in (r[3], r[2]) for k in range(4)]).reshape(8, 8, LANES)
    m.v[r[1]] = (rows << (U(4) * np.arange(8, dtype=U))[:, None]).sum(axis=1, dtype=U)


@lanes("vclamp.gez.f32", "Vvv", "lowest(highest(x, 0), y)", why=f"{PROBE}: clips to 0..c before it becomes unsigned")
def _clamp_gez(x: Words, c: Words) -> Words:
    return result(minimum(maximum(operand(x), np.zeros(x.shape, np.float32)), operand(c)))
