"""Packing and unpacking: halves and quarters of words against words.

Compressed (`.c`): sublane s of word k holds rows 2s and 2s+1 (low half first), or four rows of bytes; so 8 rows of
words are 4 sublanes of halves. Interleaved (`.i`): each word is split in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.llo.code import Words
from assay.llo.machine import LANES, Machine
from assay.llo.semantics.floats import round_bf16
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import PROBE, lanes, signed

U = np.uint32
LOW = U(0xFFFF)
HIGH = U(0xFFFF0000)


def compressed_halves(low: Words, high: Words) -> Words:
    """Rows 0-7 of `low` (its low halves) into sublanes 0-3, those of `high` into 4-7."""
    rows = np.concatenate([low & LOW, high & LOW])
    packed: Words = rows[0::2] | rows[1::2] << U(16)
    return packed


def half(x: Words, k: int) -> Words:
    """Rows 8k..8k+7 of 16 packed rows, as 16 low bits."""
    out = np.empty_like(x)
    out[0::2], out[1::2] = x[4 * k : 4 * k + 4] & LOW, x[4 * k : 4 * k + 4] >> U(16)
    return out


def quarter(x: Words, k: int) -> Words:
    """Rows 8k..8k+7 of 32 packed rows, as 8 low bits."""
    two = x[2 * k : 2 * k + 2]
    return np.stack([two >> U(8 * j) & U(255) for j in range(4)], axis=1).reshape(8, LANES)


def sign_extended(x: Words, bits: int) -> Words:
    return (signed(x << U(32 - bits)) >> np.int32(32 - bits)).view(U)


# The first operand goes to the high rows.
@op("vpack.c.f32.bf16", "Vvv", "probe", PROBE, "pack_c16(V(dst), V(b), V(a), 1);")
def _pack_c_bf16(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = compressed_halves(round_bf16(m.v[r[3]]), round_bf16(m.v[r[2]]))


@op("vpack.c.b32.b16", "Vvv", "probe", PROBE, "pack_c16(V(dst), V(b), V(a), 0);")
def _pack_c_b16(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = compressed_halves(m.v[r[3]], m.v[r[2]])


@op("vpack.c.b16.b8", "Vvv", "probe", PROBE, "pack_c8(V(dst), V(b), V(a));")
def _pack_c_b8(m: Machine, r: Sequence[int]) -> None:
    rows = np.concatenate([half(m.v[k], j) & U(255) for k in (r[3], r[2]) for j in (0, 1)])
    m.v[r[1]] = rows[0::4] | rows[1::4] << U(8) | rows[2::4] << U(16) | rows[3::4] << U(24)


lanes("vpack.i.f32.bf16", "Vvv", "bf16(y) | bf16(x) << 16")(lambda x, y: round_bf16(y) | round_bf16(x) << U(16))
lanes("vunpack.i.l.bf16.f32", "Vv", "x << 16")(lambda x: x << U(16))
lanes("vunpack.i.u.bf16.f32", "Vv", "x & 0xffff0000u")(lambda x: x & HIGH)

for _k, _letter in enumerate("lu"):

    @op(f"vunpack.c.{_letter}.bf16.f32", "Vv", "probe", PROBE, f"unpack_c16(V(dst), V(a), {_k}, 0);")
    def _unpack_bf16(m: Machine, r: Sequence[int], k: int = _k) -> None:
        m.v[r[1]] = half(m.v[r[2]], k) << U(16)

    @op(
        f"vunpack.c.{_letter}.s16.s32",
        "Vv",
        "probe",
        "as for bf16, sign extended",
        f"unpack_c16(V(dst), V(a), {_k}, 1);",
    )
    def _unpack_s16(m: Machine, r: Sequence[int], k: int = _k) -> None:
        m.v[r[1]] = sign_extended(half(m.v[r[2]], k), 16)


for _k in range(4):
    for _name in (f"vunpack.c.{_k}.s8.s32.s8", f"vunpack.c.{_k}.s8.s32"):

        @op(_name, "Vv", "probe", "rows of four to a word, sign extended", f"unpack_c8(V(dst), V(a), {_k});")
        def _unpack_s8(m: Machine, r: Sequence[int], k: int = _k) -> None:
            m.v[r[1]] = sign_extended(quarter(m.v[r[2]], k), 8)


for _k, _letter in enumerate("lu"):

    @op(
        f"vunpack.c.{_letter}.s4.s8",
        "Vv",
        "probe",
        "kernels of s4 and u4 with known results; a constant of nibbles becomes sublane numbers for vperm.slane",
        f"unpack_c4(V(dst), V(a) + {512 * _k});",
    )
    def _unpack_s4(m: Machine, r: Sequence[int], k: int = _k) -> None:
        """Rows 32k..32k+31 of 64, eight to a word and low nibble first, as rows of four to a word."""
        x = m.v[r[2]][4 * k : 4 * k + 4]
        nibbles = np.stack([sign_extended(x >> U(4 * j), 4) & U(255) for j in range(8)], axis=1).reshape(32, LANES)
        m.v[r[1]] = nibbles[0::4] | nibbles[1::4] << U(8) | nibbles[2::4] << U(16) | nibbles[3::4] << U(24)


@op(
    "vmpackc.low",
    "Mmm",
    "probe",
    "packs masks as vpack.c packs the values that they select among: the first operand to the high rows",
    "mask_pack16(M(dst), M(b), M(a));",
)
def _vmpackc(m: Machine, r: Sequence[int]) -> None:
    rows = np.concatenate([m.m[r[3]], m.m[r[2]]]) & np.uint8(3)
    m.m[r[1]] = rows[0::2] | rows[1::2] << np.uint8(2)


lanes(
    "vnez.u8",
    "Mv",
    "(uint8_t)(((x & 0xff) != 0) | ((x & 0xff00) != 0) << 1 | ((x & 0xff0000) != 0) << 2 | (x >> 24 != 0) << 3)",
    "stages",
    "a mask that the bundles keep as a vector of ones comes back by it",
)(lambda x: sum(((x >> U(8 * j) & U(255)) != 0).astype(np.uint8) << np.uint8(j) for j in range(4)))
