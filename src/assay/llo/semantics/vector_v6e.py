"""What the vector unit of v6e has beyond v5e's: rounding, clamps, extremes of unsigned words, products of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from assay.llo.code import Words
from assay.llo.machine import ERF, LANES, MRF, Machine
from assay.llo.semantics.eup import WHY, Doubles, rounded
from assay.llo.semantics.floats import Floats, operand, result, round_bf16
from assay.llo.semantics.pack import HIGH, LOW, sign_extended
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import IEEE, floats, lanes, maximum, minimum, signed

U = np.uint32

lanes("vmax.u32", "Vvv", "x > y ? x : y")(np.maximum)
lanes("vmin.u32", "Vvv", "x < y ? x : y")(np.minimum)


def _high(x: Words, y: Words) -> Words:
    return (x.astype(np.uint64) * y >> np.uint64(32)).astype(U)


_WIDE = "reductions of the argument of sines; original names the pair, bundles each half"
lanes("vmul.u32.u64.low", "Vvv", "x * y", why=_WIDE)(lambda x, y: x * y)
lanes("vmul.u32.u64.high", "Vvvv", "(uint32_t)((uint64_t)x * y >> 32)", why=f"{_WIDE}; z is the low half")(
    lambda x, y, low: _high(x, y)
)


def _away(x: Floats) -> Floats:
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= np.float32(0.5), x).astype(np.float32)


floats("vtrunc.f32", 1, "truncf(x)", why=IEEE)(np.trunc)
floats("vround.rtna.f32", 1, "roundf(x)", why="HLO's round-nearest-afz is this one instruction")(_away)


@op(
    "vclampa.f32",
    "Vvii",
    "probe",
    "before a float becomes an s8 or s4; HLO's clamp where both bounds are bf16, which the literals are, as f32",
    "const uint32_t *x_ = V(a); uint32_t *o_ = V(dst); "
    "LANES o_[i] = R(minimum(maximum(F(x_[i]), F((uint32_t)b)), F((uint32_t)c)));",
)
def _clampa(m: Machine, r: Sequence[int]) -> None:
    low, high = (operand(np.array([bits & 0xFFFFFFFF], U)) for bits in r[3:5])
    m.v[r[1]] = result(minimum(maximum(operand(m.v[r[2]]), low), high))


_NARROWED = "of an argument reduced to a quarter turn; the value is the function's, correctly rounded"
for _name, _c, _function, _why in (
    ("verf", "erf", special.erf, WHY),
    ("vsinq", "sin", np.sin, _NARROWED),
    ("vcosq", "cos", np.cos, _NARROWED),
):

    @op(
        f"{_name}.f32",
        ".vut",
        "probe",
        _why,
        f"uint32_t *o_ = push(vm, Q_ERF, b, c); const uint32_t *x_ = V(a); LANES o_[i] = R((float){_c}(D(x_[i])));",
    )
    def _push(m: Machine, r: Sequence[int], function: Callable[..., Doubles] = _function) -> None:
        m.push(ERF, r[3], r[4], rounded(function, m.v[r[2]]))

    lanes(f"{_name}.f32.pop", "Vv", f"R((float){_c}(D(x)))", why=_why)(
        lambda x, function=_function: rounded(function, x)
    )

# bf16 ---

_PAIR = "two to a word, each computed in f32 and rounded once: Pallas kernels with known results"


def _pairs(meaning: Callable[[Floats, Floats], Floats], x: Words, y: Words) -> Words:
    """Of both halves."""
    low = round_bf16(result(meaning(operand(x << U(16)), operand(y << U(16)))))
    return low & LOW | round_bf16(result(meaning(operand(x & HIGH), operand(y & HIGH)))) << U(16)


for _name, _c, _meaning in (
    ("vadd", "R(F({0}) + F({1}))", np.add),
    ("vsub", "R(F({0}) - F({1}))", np.subtract),
    ("vmul", "R(F({0}) * F({1}))", np.multiply),
    ("vmax", "highest({0}, {1})", maximum),
    ("vmin", "lowest({0}, {1})", minimum),
):
    _low, _upper = _c.format("x << 16", "y << 16"), _c.format("x & 0xffff0000u", "y & 0xffff0000u")
    lanes(f"{_name}.bf16", "Vvv", f"(bf16({_low}) & 0xffff) | bf16({_upper}) << 16", why=_PAIR)(
        lambda x, y, meaning=_meaning: _pairs(meaning, x, y)
    )

_HALF = "bundles have it for an unpack and a vadd.f32"
lanes("vadd.low.f32.bf16", "Vvv", "R(F(x) + F(y << 16))", "stages", _HALF)(
    lambda x, y: result(operand(x) + operand(y << U(16)))
)
lanes("vadd.high.f32.bf16", "Vvv", "R(F(x) + F(y & 0xffff0000u))", "stages", _HALF)(
    lambda x, y: result(operand(x) + operand(y & HIGH))
)

for _k, _letter in enumerate("lu"):

    @op(
        f"vunpack.c.{_letter}.s8.bf16",
        "Vv",
        "stages",
        "bundles have it for an unpack to s32, a conversion and a pack to bf16",
        f"unpack_c8_bf16(V(dst), V(a) + {512 * _k});",
    )
    def _unpack_s8(m: Machine, r: Sequence[int], k: int = _k) -> None:
        """Rows 16k..16k+15 of 32 bytes, as 16 packed rows."""
        x = m.v[r[2]][4 * k : 4 * k + 4]
        rows = np.stack([sign_extended(x >> U(8 * j) & U(255), 8) for j in range(4)], axis=1).reshape(16, LANES)
        bits = round_bf16(signed(rows).astype(np.float32).view(U))
        m.v[r[1]] = bits[0::2] | bits[1::2] << U(16)


@op(
    "vunpack.vsel.i.bf16.f32",
    "Vvs",
    "stages",
    "bundles have it for both unpacks and a select by whether a row's number is even",
    "const uint32_t *x_ = V(a); const uint32_t k_ = S(b); uint32_t *o_ = V(dst); "
    "LANES o_[i] = k_ ? x_[i] & 0xffff0000u : x_[i] << 16;",
)
def _unpack_select(m: Machine, r: Sequence[int]) -> None:
    x = m.v[r[2]]
    m.v[r[1]] = x & HIGH if m.s[r[3]] else x << U(16)


for _k, _part in enumerate(("low", "high")):

    @op(
        f"vcombine.{_part}",
        "Vvv",
        "probe",
        "the lower or upper four sublanes of two vectors, in a relayout with a known result",
        f"combine(V(dst), V(a) + {512 * _k}, V(b) + {512 * _k});",
    )
    def _combine(m: Machine, r: Sequence[int], k: int = _k) -> None:
        m.v[r[1]] = np.concatenate([m.v[r[2]][4 * k : 4 * k + 4], m.v[r[3]][4 * k : 4 * k + 4]])


for _k in range(4):

    @op(
        f"vpop.add.s32.mrf.mxu{_k}",
        "Vut",
        "stages",
        "bundles have it for two pops and a vadd.s32",
        f"uint32_t z_[SIZE], *o_ = V(dst); POP(Q_MRF, a, 0, o_); POP(Q_MRF, {_k}, 0, z_); LANES o_[i] += z_[i];",
    )
    def _pop_add(m: Machine, r: Sequence[int], other: int = _k) -> None:
        m.v[r[1]] = m.pop(MRF, r[2], 0) + m.pop(MRF, other, 0)
