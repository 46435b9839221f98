"""The vector unit, lane by lane: 8 x 128 words; masks are a nibble a lane, a bit a byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words
from assay.llo.machine import LANES, SUBLANES, Machine
from assay.llo.semantics.floats import EXPONENT, Floats, operand, result
from assay.llo.semantics.table import Known, op

Meaning = Callable[..., Any]
U = np.uint32
LANE = np.broadcast_to(np.arange(LANES, dtype=U), (SUBLANES, LANES))
SUBLANE = np.broadcast_to(np.arange(SUBLANES, dtype=U)[:, None], (SUBLANES, LANES))
PROBE = "kernels with known results are made of it"


def _loop(kinds: str, c: str) -> str:
    """Reads x, y, z of registers a, b, c by kind, runs c over the 1,024 lanes; it sets o, of register dst."""
    names = "xyz"[: len(kinds) - 1]
    out = "uint32_t *o_ = V(dst);" if kinds[0] == "V" else "uint8_t *o_ = M(dst);"
    loads = "".join(
        f" const {'uint32_t' if k == 'v' else 'uint8_t'} *{n}_ = {k.upper()}({f});"
        for n, f, k in zip(names, "abc", kinds[1:], strict=False)
    )
    reads = "".join(f" const uint32_t {n} = {n}_[i];" for n in names)
    return f"{out}{loads} LANES {{{reads} o_[i] = {c}; }}"


def lanes(name: str, kinds: str, c: str, known: Known = "probe", why: str = PROBE) -> Callable[[Meaning], Meaning]:
    """An op that does the same in every lane. kinds: its signature, of V M v m. c: the word, or the nibble, that it
    gives for the words x, y, z; the decorated function is the same over arrays (8, 128).
    """

    def enter(meaning: Meaning) -> Meaning:
        @op(name, kinds, known, why, _loop(kinds, c))
        def run(m: Machine, r: Sequence[int]) -> None:
            read = [m.v[k] if kind == "v" else m.m[k] for kind, k in zip(kinds[1:], r[2:5], strict=False)]
            if kinds[0] == "V":
                m.v[r[1]] = meaning(*read)
            else:
                m.m[r[1]] = meaning(*read)

        return meaning

    return enter


def floats(name: str, arity: int, c: str, known: Known = "probe", why: str = PROBE) -> Callable[[Meaning], Meaning]:
    """The same over f32: C sees floats x, y, z and gives a float; subnormals are zero on both sides (`floats`)."""

    def enter(meaning: Meaning) -> Meaning:
        expression = c
        for n in "xyz"[:arity]:
            expression = _with(expression, n, f"F({n})")
        lanes(name, "V" + "v" * arity, f"R({expression})", known, why)(
            lambda *bits: result(meaning(*(operand(b) for b in bits)))
        )
        return meaning

    return enter


def _with(text: str, name: str, by: str) -> str:
    out, word = [], ""
    for ch in text + " ":
        if ch.isalnum() or ch == "_":
            word += ch
            continue
        out.append(by if word == name else word)
        out.append(ch)
        word = ""
    return "".join(out).strip()


def signed(x: Words) -> npt.NDArray[np.int32]:
    return x.view(np.int32)


# Integers ---

lanes("vadd.s32", "Vvv", "x + y")(lambda x, y: x + y)
lanes("vsub.s32", "Vvv", "x - y")(lambda x, y: x - y)
lanes("vmul.u32", "Vvv", "x * y")(lambda x, y: x * y)
lanes("vand.u32", "Vvv", "x & y")(lambda x, y: x & y)
lanes("vand.u32.u16", "Vvv", "x & y", why="an and with 65535, printed whole: reshapes of 16-bit arrays")(
    lambda x, y: x & y
)
lanes("vor.u32", "Vvv", "x | y")(lambda x, y: x | y)
lanes("vxor.u32", "Vvv", "x ^ y")(lambda x, y: x ^ y)
SHIFT = "probes; that 32 and more give zero is what XLA's own shifts rely on"
lanes("vshll.u32", "Vvv", "y < 32 ? x << (y & 31) : 0", why=SHIFT)(
    lambda x, y: np.where(y < 32, x << (y & U(31)), U(0))
)
lanes("vshrl.u32", "Vvv", "y < 32 ? x >> (y & 31) : 0", why=SHIFT)(
    lambda x, y: np.where(y < 32, x >> (y & U(31)), U(0))
)
lanes("vshra.s32", "Vvv", "(uint32_t)((int32_t)x >> (y < 31 ? y : 31))", why=SHIFT)(
    lambda x, y: (signed(x) >> np.minimum(y, U(31)).astype(np.int32)).view(U)
)
lanes("vclz", "Vv", "clz(x)")(lambda x: _clz(x))
lanes("vpcnt", "Vv", "popcount(x)")(lambda x: _popcount(x))
lanes("vc.u32", "Mvv", "x + y < x ? 15 : 0")(lambda x, y: nibbles(x + y < x))


def _clz(x: Words) -> Words:
    """Leading zeros: of 2**53 and less, a float64's exponent is exact."""
    _, exponent = np.frexp(x.astype(np.float64))
    return (32 - exponent).astype(U)


def _popcount(x: Words) -> Words:
    x = x - ((x >> U(1)) & U(0x55555555))
    x = (x & U(0x33333333)) + ((x >> U(2)) & U(0x33333333))
    x = (x + (x >> U(4))) & U(0x0F0F0F0F)
    return (x * U(0x01010101)) >> U(24)


# Moves ---

for _name in ("vmov", "mov.v"):
    lanes(_name, "Vv", "x", "own" if _name == "mov.v" else "probe")(lambda x: x)
lanes("vmmov", "Mm", "(uint8_t)x", "stages", "a copy that the register allocator adds")(lambda x: x)
lanes("mov.m", "Mm", "(uint8_t)x", "own", "a copy")(lambda x: x)


@op("vstv", "Vs", "probe", PROBE, "uint32_t x = S(a); uint32_t *o_ = V(dst); LANES o_[i] = x;")
def _vstv(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = m.s[r[2]]


@op("vlaneseq.b32", "V", "probe", "sublane * 128 + lane", "uint32_t *o_ = V(dst); LANES o_[i] = (uint32_t)i;")
def _vlaneseq(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = SUBLANE * U(LANES) + LANE


# Masks ---


def nibbles(on: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """A mask of whole words."""
    return on.astype(np.uint8) * np.uint8(15)


def spread(mask: npt.NDArray[np.uint8]) -> Words:
    """Each nibble as four bytes of ones and zeros."""
    n = mask.astype(U)
    ones: Words = (n | n << U(7) | n << U(14) | n << U(21)) & U(0x01010101)
    return ones * U(255)


for _name in ("vsel", "vsel.s32"):
    lanes(_name, "Vmvv", "(SPREAD(x) & y) | (~SPREAD(x) & z)", why="a select: mask, on true, on false")(
        lambda mask, y, z: (spread(mask) & y) | (~spread(mask) & z)
    )
lanes("vmor", "Mmm", "(uint8_t)(x | y)")(lambda x, y: x | y)
lanes("vmand", "Mmm", "(uint8_t)(x & y)")(lambda x, y: x & y)
lanes("vmxor", "Mmm", "(uint8_t)(x ^ y)")(lambda x, y: x ^ y)
lanes("vmneg", "Mm", "(uint8_t)(x ^ 15)")(lambda x: x ^ np.uint8(15))


@op(
    "vcmask",
    "Mi",
    "probe",
    "the dump names sublanes and lanes of each constant",
    "vcmask(M(dst), (uint32_t)a);",
)
def _vcmask(m: Machine, r: Sequence[int]) -> None:
    """Bits 0-2 first sublane, 3-9 first lane, 10-12 last sublane, 13-19 last lane; sublanes 6 to 1 are 6, 7, 0, 1."""
    k = r[2]
    below, above = (k & 7) <= SUBLANE, (k >> 10 & 7) >= SUBLANE
    rows = below | above if (k & 7) > (k >> 10 & 7) else below & above
    m.m[r[1]] = nibbles(rows & ((k >> 3 & 127) <= LANE) & ((k >> 13 & 127) >= LANE))


COMPARES: dict[str, tuple[str, Meaning]] = {
    "lt": ("<", np.less),
    "le": ("<=", np.less_equal),
    "gt": (">", np.greater),
    "ge": (">=", np.greater_equal),
    "eq": ("==", np.equal),
    "ne": ("!=", np.not_equal),
}
for _short, (_c, _compare) in COMPARES.items():
    lanes(f"vcmp.{_short}.s32.totalorder", "Mvv", f"(int32_t)x {_c} (int32_t)y ? 15 : 0")(
        lambda x, y, compare=_compare: nibbles(compare(signed(x), signed(y)))
    )
    lanes(f"vcmp.{_short}.u32.totalorder", "Mvv", f"x {_c} y ? 15 : 0")(
        lambda x, y, compare=_compare: nibbles(compare(x, y))
    )
    lanes(f"vcmp.{_short}.f32.partialorder", "Mvv", f"F(x) {_c} F(y) ? 15 : 0")(
        lambda x, y, compare=_compare: nibbles(compare(operand(x), operand(y)))
    )
lanes(
    "vweird.f32", "Mv", "(x & 0x7f800000u) == 0x7f800000u ? 15 : 0", why="division repairs infinities and NaNs by it"
)(lambda x: nibbles((x & EXPONENT) == EXPONENT))

# f32 ---

IEEE = "IEEE 754, to nearest even, subnormals zero: kernels with known results"
floats("vadd.f32", 2, "x + y", why=IEEE)(lambda x, y: x + y)
floats("vsub.f32", 2, "x - y", why=IEEE)(lambda x, y: x - y)
floats("vmul.f32", 2, "x * y", why=IEEE)(lambda x, y: x * y)
floats("vfloor.f32", 1, "floorf(x)", why=IEEE)(np.floor)
floats("vceil.f32", 1, "ceilf(x)", why=IEEE)(np.ceil)
floats("vround.ne.pseudo", 1, "rintf(x)", "stages", "expanded by the decomposer")(np.rint)

EXTREME = "maxima of HLO, which spread NaN, are this one instruction; +0 is above -0"


def minimum(x: Floats, y: Floats) -> Floats:
    return np.where(np.isnan(x) | np.isnan(y), np.float32("nan"), np.where((x < y) | ((x == y) & np.signbit(x)), x, y))


def maximum(x: Floats, y: Floats) -> Floats:
    return np.where(np.isnan(x) | np.isnan(y), np.float32("nan"), np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y))


lanes("vmax.f32", "Vvv", "highest(x, y)", why=EXTREME)(lambda x, y: result(maximum(operand(x), operand(y))))
lanes("vmin.f32", "Vvv", "lowest(x, y)", why=EXTREME)(lambda x, y: result(minimum(operand(x), operand(y))))
lanes("vclamps.f32", "Vvv", "lowest(highest(x, y ^ 0x80000000u), y)", why="clips to -c..c")(
    lambda x, c: result(minimum(maximum(operand(x), -operand(c)), operand(c)))
)

# Conversions ---


def _to_s32(x: Floats) -> Words:
    """Saturating; a NaN gives 0."""
    wide = np.where(np.isnan(x), 0.0, np.clip(x.astype(np.float64), -(2.0**31), 2.0**31 - 1))
    return wide.astype(np.int32).view(U)


lanes("vcvt.s32.f32", "Vv", "R((float)(int32_t)x)")(lambda x: result(signed(x).astype(np.float32)))
lanes("vcvt.f32.s32", "Vv", "to_s32(rintf(F(x)))", "stages", "to nearest even: original against final bundles")(
    lambda x: _to_s32(np.rint(operand(x)))
)
lanes("vcvt.f32.s32.to.zero.pseudo", "Vv", "to_s32(truncf(F(x)))", "stages", "the decomposer makes it of the former")(
    lambda x: _to_s32(np.trunc(operand(x)))
)
