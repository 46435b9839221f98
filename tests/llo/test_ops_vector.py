"""The vector unit against Python's integers and exact fractions, element by element."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

QUIET = 0x7FC00000
MASK = 0xFFFFFFFF


def signed(x: int) -> int:
    return struct.unpack("<i", struct.pack("<I", x))[0]


def number(bits: int) -> float:
    """An operand: subnormals are zeros."""
    if not bits & 0x7F800000:
        bits &= 0x80000000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def rounded(exact: Fraction, negative_zero: bool = False) -> int:
    """An exact number as f32, to nearest even; below the least normal number zero."""
    if exact == 0:
        return 0x80000000 if negative_zero else 0
    sign, size = (0x80000000, -exact) if exact < 0 else (0, exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, -126) - 23)
    count, rest = divmod(size, step)
    if rest * 2 > step or (rest * 2 == step and count % 2):
        count += 1
    if count * step >= Fraction(2) ** 128:
        return sign | 0x7F800000
    if count * step < Fraction(2) ** -126:
        return sign
    return sign | struct.unpack("<I", struct.pack("<f", float(count * step)))[0]


def f32(value: float) -> int:
    """Of a value that is one, or infinite, or no number."""
    return QUIET if math.isnan(value) else struct.unpack("<I", struct.pack("<f", value))[0]


def add(x: int, y: int) -> int:
    a, b = number(x), number(y)
    if not (math.isfinite(a) and math.isfinite(b)):
        return f32(a + b)
    both = math.copysign(1, a) < 0 and math.copysign(1, b) < 0
    return rounded(Fraction(a) + Fraction(b), both)


def multiply(x: int, y: int) -> int:
    a, b = number(x), number(y)
    if not (math.isfinite(a) and math.isfinite(b)):
        return f32(a * b)
    return rounded(Fraction(a) * Fraction(b), math.copysign(1, a) != math.copysign(1, b))


def extreme(x: int, y: int, sign: int) -> int:
    a, b = number(x), number(y)
    if math.isnan(a) or math.isnan(b):
        return QUIET
    order = lambda v: (sign * v, sign * math.copysign(1, v))  # noqa: E731
    return f32(max(a, b, key=order))


def compare(x: int, y: int) -> tuple[float, float]:
    return number(x), number(y)


BINARY: dict[str, Callable[[int, int], int]] = {
    "vadd.s32": lambda x, y: x + y,
    "vsub.s32": lambda x, y: x - y,
    "vmul.u32": lambda x, y: x * y,
    "vand.u32": lambda x, y: x & y,
    "vand.u32.u16": lambda x, y: x & y,
    "vor.u32": lambda x, y: x | y,
    "vxor.u32": lambda x, y: x ^ y,
    "vshll.u32": lambda x, y: x << min(y, 32),
    "vshrl.u32": lambda x, y: x >> min(y, 32),
    "vshra.s32": lambda x, y: signed(x) >> min(y, 32),
    "vadd.f32": add,
    "vsub.f32": lambda x, y: add(x, y ^ 0x80000000),
    "vmul.f32": multiply,
    "vmax.f32": lambda x, y: extreme(x, y, 1),
    "vmin.f32": lambda x, y: extreme(x, y, -1),
}

UNARY: dict[str, Callable[[int], int]] = {
    "vmov": lambda x: x,
    "vclz": lambda x: 32 - x.bit_length(),
    "vpcnt": lambda x: x.bit_count(),
    "vfloor.f32": lambda x: whole(x, math.floor),
    "vceil.f32": lambda x: whole(x, math.ceil),
    "vround.ne.pseudo": lambda x: whole(x, round),
    "vcvt.s32.f32": lambda x: rounded(Fraction(signed(x))),
    "vcvt.f32.s32": lambda x: integer(x, round),
    "vcvt.f32.s32.to.zero.pseudo": lambda x: integer(x, math.trunc),
}


def whole(x: int, how: Callable[[Fraction], int]) -> int:
    a = number(x)
    if not math.isfinite(a):
        return f32(a)
    return rounded(Fraction(how(Fraction(a))), math.copysign(1, a) < 0)


def integer(x: int, how: Callable[[Fraction], int]) -> int:
    """Saturating; 0 for a NaN."""
    a = number(x)
    if math.isnan(a):
        return 0
    if math.isinf(a):
        return 0x7FFFFFFF if a > 0 else 0x80000000
    return max(min(how(Fraction(a)), 2**31 - 1), -(2**31)) & MASK


COMPARES: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


def pairs(draw: Any, seed: int, shifts: bool) -> tuple[Any, Any]:
    """Random and special words; near ones, equal ones, and for shifts all amounts up to 40."""
    x, y = draw(seed, (8, 128)), draw(seed + 1, (8, 128))
    y[1] = x[1]
    y[2] = x[2] + np.uint32(1)
    near = np.random.default_rng(seed).uniform(-8, 8, (2, 3, 128)).astype(np.float32).view(np.uint32)
    x[3:6], y[3:6] = near
    if shifts:
        y[6, :41] = np.arange(41)
        y[7] = np.arange(128) % 33
    return x, y


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, run: Any, draw: Any) -> None:
    x, y = pairs(draw, len(name), "sh" in name)
    got = run([(name, 2, 0, 1)], {0: x, 1: y}).v(2).ravel().tolist()
    for a, b, found in zip(x.ravel().tolist(), y.ravel().tolist(), got, strict=True):
        assert found == BINARY[name](a, b) & MASK, (name, hex(a), hex(b), hex(found))


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, run: Any, draw: Any) -> None:
    x, _ = pairs(draw, 20, False)
    x[7] = ((np.arange(128) - 64) / 2).astype(np.float32).view(np.uint32)
    got = run([(name, 2, 0)], {0: x}).v(2).ravel().tolist()
    for a, found in zip(x.ravel().tolist(), got, strict=True):
        assert found == UNARY[name](a) & MASK, (name, hex(a), hex(found))


@pytest.mark.parametrize("short", COMPARES)
def test_compares_make_whole_masks(short: str, run: Any, draw: Any) -> None:
    x, y = pairs(draw, 40, False)
    kinds = {"s32.totalorder": signed, "u32.totalorder": int, "f32.partialorder": number}
    records = [(f"vcmp.{short}.{kind}", k, 0, 1) for k, kind in enumerate(kinds)]
    ran = run(records, {0: x, 1: y})
    for k, value in enumerate(kinds.values()):
        wanted = [
            15 * COMPARES[short](value(a), value(b))
            for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        ]
        assert ran.machine.m[k].ravel().tolist() == wanted


def test_selects_choose_bytes(run: Any, draw: Any) -> None:
    x, y = pairs(draw, 60, False)
    mask = np.random.default_rng(3).integers(0, 16, (8, 128)).astype(np.uint8)
    ran = run([("vsel", 2, 0, 0, 1)], {0: x, 1: y}, {0: mask})
    on = np.stack([mask >> k & 1 for k in range(4)], axis=-1).astype(bool)
    wanted = np.where(on, x.view(np.uint8).reshape(8, 128, 4), y.view(np.uint8).reshape(8, 128, 4))
    assert np.array_equal(ran.v(2).view(np.uint8).reshape(8, 128, 4), wanted)


def test_masks(run: Any) -> None:
    a, b = np.random.default_rng(4).integers(0, 16, (2, 8, 128)).astype(np.uint8)
    records = [("vmor", 2, 0, 1), ("vmand", 3, 0, 1), ("vmxor", 4, 0, 1), ("vmneg", 5, 0), ("vmmov", 6, 1)]
    m = run(records, m={0: a, 1: b}).machine.m
    assert np.array_equal(m[2:7], np.stack([a | b, a & b, a ^ b, 15 - a, b]))


@pytest.mark.parametrize(
    ("literal", "rows", "lanes"), [(519168, (0, 3), (0, 63)), (3072, (0, 3), (0, 0)), (1046528, (0, 6), (0, 127))]
)
def test_a_constant_mask_is_the_box_that_the_dump_names(literal: int, rows: Any, lanes: Any, run: Any) -> None:
    """The literals and boxes stand in dumps of libtpu: `vcmask 519168 /* [0:3,0:63] */`."""
    wanted = np.zeros((8, 128), np.uint8)
    wanted[rows[0] : rows[1] + 1, lanes[0] : lanes[1] + 1] = 15
    assert np.array_equal(run([("vcmask", 0, literal)]).machine.m[0], wanted)


def test_lane_numbers_and_splats(run: Any) -> None:
    ran = run([("vlaneseq.b32", 0), ("vstv", 1, 3)], s={3: 0xDEADBEEF})
    assert ran.v(0).ravel().tolist() == list(range(1024))
    assert (ran.v(1) == 0xDEADBEEF).all()


def test_carry_weird_and_clamp(run: Any, draw: Any) -> None:
    x, y = pairs(draw, 80, False)
    ran = run([("vc.u32", 0, 0, 1), ("vweird.f32", 1, 0), ("vclamps.f32", 2, 0, 3)], {0: x, 1: y, 3: f32(2.5)})
    for k, (a, b) in enumerate(zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)):
        row, lane = divmod(k, 128)
        assert ran.machine.m[0, row, lane] == 15 * (a + b > MASK)
        assert ran.machine.m[1, row, lane] == 15 * (not math.isfinite(number(a)))
        wanted = QUIET if math.isnan(number(a)) else f32(max(-2.5, min(2.5, number(a))))
        assert ran.v(2)[row, lane] == wanted
