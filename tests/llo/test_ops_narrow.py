"""f16, nibbles, and what v6e adds, against NumPy's own types and exact arithmetic written out row by row."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from assay.llo import interpret, native
from assay.llo.code import Code
from assay.llo.machine import Machine
from assay.llo.program import Allocation
from assay.llo.semantics.table import OPS

Words = npt.NDArray[np.uint32]
HALVES = np.arange(1 << 16, dtype=np.uint32).reshape(-1, 8, 128)
"""Every half, as low bits."""


def flushed(x: Words) -> npt.NDArray[np.float32]:
    return np.where(x & 0x7F800000, x, x & 0x80000000).astype(np.uint32).view(np.float32)


def same(got: Words, wanted: npt.NDArray[np.float32]) -> bool:
    """Bit for bit, with any NaN for a NaN."""
    nan = np.isnan(got.view(np.float32)) & np.isnan(wanted)
    return bool(((got == wanted.view(np.uint32)) | nan).all())


def test_every_f16_is_an_f32(run: Any) -> None:
    for low, high in zip(HALVES[0::2], HALVES[1::2], strict=True):
        packed = [("vpack.c.b32.b16", 2, 0, 1), ("vunpack.c.l.hf16.f32", 3, 2), ("vunpack.c.u.hf16.f32", 4, 2)]
        ran = run(packed, {0: high, 1: low})
        for register, rows in ((3, low), (4, high)):
            assert same(ran.v(register), rows.astype(np.uint16).view(np.float16).astype(np.float32))


def test_f32_to_f16_is_to_nearest_even(run: Any, draw: Any) -> None:
    rng = np.random.default_rng(5)
    near = rng.normal(size=(8, 128)).astype(np.float32) * np.float32(2.0) ** rng.integers(-27, 17, (8, 128))
    ties = (HALVES[20] << 16 | 0x1000).astype(np.uint32)
    for x in (draw(1, (8, 128)), near.astype(np.float32).view(np.uint32), ties):
        with np.errstate(all="ignore"):
            wanted = flushed(x).astype(np.float16)
        got = run([("vcvt.f32.hf16", 1, 0)], {0: x}).v(1)
        nan = np.isnan(wanted)
        assert np.array_equal(got[~nan], wanted.view(np.uint16)[~nan])
        assert np.isnan(got[nan].astype(np.uint16).view(np.float16)).all()


def test_halves_in_place(run: Any, draw: Any) -> None:
    x = draw(2, (8, 128))
    ran = run([("vunpack.i.l.s16.s32", 1, 0), ("vunpack.i.u.s16.s32", 2, 0)], {0: x})
    parts = np.ascontiguousarray(x).view(np.int16).reshape(8, 128, 2)
    for register, half in ((1, 0), (2, 1)):
        assert np.array_equal(ran.v(register).view(np.int32), parts[..., half])


def test_nibbles_pack_and_come_back(run: Any) -> None:
    """64 rows of nibbles from four times 16 rows of bytes; signs come back with them."""
    rows = np.random.default_rng(3).integers(-8, 8, (64, 128)).astype(np.int8)
    high, low = (
        np.ascontiguousarray(r.reshape(8, 4, 128).transpose(0, 2, 1)).view(np.uint32)[..., 0]
        for r in (rows[32:], rows[:32])
    )
    ran = run([("vpack.c.b8.b4", 2, 0, 1), ("vunpack.c.l.s4.s8", 3, 2), ("vunpack.c.u.s4.s8", 4, 2)], {0: high, 1: low})
    for lane in (0, 77):
        for word in range(8):
            bits = sum((int(rows[8 * word + j, lane]) & 15) << 4 * j for j in range(8))
            assert int(ran.v(2)[word, lane]) == bits
    assert np.array_equal(ran.v(3), low)
    assert np.array_equal(ran.v(4), high)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("vmax.u32", max),
        ("vmin.u32", min),
        ("vmul.u32.u64.low", lambda x, y: x * y % 2**32),
        ("vmul.u32.u64.high", lambda x, y: x * y >> 32),
    ],
)
def test_unsigned_words(run: Any, draw: Any, name: str, meaning: Any) -> None:
    x, y = draw(4, (2, 8, 128))
    more = (0,) if name.endswith("high") else ()
    got = run([(name, 2, 0, 1, *more)], {0: x, 1: y}).v(2)
    for at in np.ndindex(8, 128):
        assert int(got[at]) == meaning(int(x[at]), int(y[at]))


def _away(x: float) -> float:
    """Halves away from zero, exactly."""
    if not math.isfinite(x):
        return x
    return math.copysign(float((abs(Fraction(x)) + Fraction(1, 2)) // 1), x)


def _truncated(x: float) -> float:
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


@pytest.mark.parametrize(("name", "meaning"), [("vround.rtna.f32", _away), ("vtrunc.f32", _truncated)])
def test_rounding_to_whole_numbers(run: Any, draw: Any, name: str, meaning: Any) -> None:
    halves = np.random.default_rng(6).integers(-9, 10, (8, 128)).astype(np.float32) / 2
    close = np.nextafter(halves, np.float32(np.inf)).astype(np.float32)
    for x in (draw(5, (8, 128)), halves.view(np.uint32), close.view(np.uint32)):
        with np.errstate(invalid="ignore"):
            wanted = np.vectorize(meaning, otypes=[np.float32])(flushed(x).astype(np.float64))
        assert same(run([(name, 1, 0)], {0: x}).v(1), wanted)


def test_clamps(run: Any, draw: Any) -> None:
    x = draw(7, (8, 128))
    x = np.where(np.isnan(x.view(np.float32)), np.float32(3).view(np.uint32), x)
    most = np.full((8, 128), 255.0, np.float32)
    assert np.array_equal(
        run([("vclamp.gez.f32", 3, 0, 1)], {0: x, 1: most.view(np.uint32)}).floats(3), np.clip(flushed(x), 0, 255)
    )
    for low, high in ((-128.0, 127.0), (1.0, 2.25), (-0.5, 3.3895314e38), (-3.0, -0.75)):
        bits = np.array([low, high], np.float32).view(np.int32)
        ran = run([("vclampa.f32", 2, 0, *bits.tolist())], {0: x})
        assert np.array_equal(ran.floats(2), np.clip(flushed(x), np.float32(low), np.float32(high)))


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("vadd.bf16", np.add), ("vsub.bf16", np.subtract), ("vmul.bf16", np.multiply), ("vmax.bf16", np.maximum)],
)
def test_bf16_in_pairs(run: Any, name: str, meaning: Any) -> None:
    rng = np.random.default_rng(8)
    x, y = (rng.normal(size=(2, 8, 256)) * 2.0 ** rng.integers(-9, 9, (2, 8, 256))).astype(ml_dtypes.bfloat16)
    got = run([(name, 2, 0, 1)], {0: x.view(np.uint32), 1: y.view(np.uint32)}).v(2)
    wanted = meaning(x.astype(np.float32), y.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(got, wanted.view(np.uint32))


def test_halves_of_sums(run: Any) -> None:
    """vadd.low and vadd.high take a half of each word; a select of halves is by a scalar."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(8, 128)).astype(np.float32)
    pairs = rng.normal(size=(8, 128, 2)).astype(ml_dtypes.bfloat16)
    both = {0: x.view(np.uint32), 1: np.ascontiguousarray(pairs).view(np.uint32)[..., 0]}
    program = [("vadd.low.f32.bf16", 2, 0, 1), ("vadd.high.f32.bf16", 3, 0, 1)]
    program += [("vunpack.vsel.i.bf16.f32", 4, 1, 0), ("vunpack.vsel.i.bf16.f32", 5, 1, 1)]
    ran = run(program, both, s={0: 0, 1: 1})
    for half in (0, 1):
        assert np.array_equal(ran.floats(2 + half), x + pairs[..., half].astype(np.float32))
        assert np.array_equal(ran.floats(4 + half), pairs[..., half].astype(np.float32))


def test_bytes_to_bf16_and_combined_sublanes(run: Any) -> None:
    rows = np.random.default_rng(10).integers(-128, 128, (32, 128)).astype(np.int8)
    x = np.ascontiguousarray(rows.reshape(8, 4, 128).transpose(0, 2, 1)).view(np.uint32)[..., 0]
    y = x[::-1].copy()
    program = [("vunpack.c.l.s8.bf16", 2, 0), ("vunpack.c.u.s8.bf16", 3, 0)]
    ran = run([*program, ("vcombine.low", 4, 0, 1), ("vcombine.high", 5, 0, 1)], {0: x, 1: y})
    for register, part in ((2, rows[:16]), (3, rows[16:])):
        halves = ran.v(register).view(np.uint16).reshape(8, 128, 2).transpose(0, 2, 1).reshape(16, 128)
        assert np.array_equal(halves.view(ml_dtypes.bfloat16).astype(np.float32), part)
    assert np.array_equal(ran.v(4), np.concatenate([x[:4], y[:4]]))
    assert np.array_equal(ran.v(5), np.concatenate([x[4:], y[4:]]))


def test_masks_go_round(run: Any) -> None:
    """Sublanes 6 to 1, lanes 3 to 100."""
    ran = run([("vcmask", 1, 6 | 3 << 3 | 1 << 10 | 100 << 13)])
    wanted = np.zeros((8, 128), np.uint8)
    wanted[[6, 7, 0, 1], 3:101] = 15
    assert np.array_equal(ran.machine.m[1], wanted)


def test_a_shuffled_load_reaches_16_rows(run: Any) -> None:
    rows = np.arange(24 * 128, dtype=np.uint32).reshape(24, 128)
    places = [0xC, 0x0, 0xE, 0x2, 0x2, 0xF, 0x7, 0x8]
    pattern = sum(place << 4 * k for k, place in enumerate(places))

    def setup(machine: Machine) -> None:
        at = machine.bases["0"]
        machine.vmem[at : at + 24] = rows

    memory, offsets = [Allocation("0", "vmem", 24 * 512, "u32[3072]")], [(20, "0", 1)]
    program = [("vld.sshfl", 1, 20, 2, 1, 0, pattern)]
    ran = run(program, s={0: 255}, memory=memory, offsets=offsets, setup=setup)
    assert np.array_equal(ran.v(1), rows[3 + np.array(places)])


def test_v6e_permutes_bytes_of_sublanes() -> None:
    """Byte p of a sublane's column is byte p // 8 of sublane p % 8."""
    rng = np.random.default_rng(11)
    x, pattern = rng.integers(0, 1 << 32, (8, 128), dtype=np.uint32), rng.integers(0, 32, (8, 128, 4)).astype(np.uint8)
    column = np.ascontiguousarray(x).view(np.uint8).reshape(8, 128, 4).transpose(1, 2, 0).reshape(128, 32)
    wanted = np.stack([[column[lane][pattern[s, lane]] for lane in range(128)] for s in range(8)])
    records = np.zeros((2, 8), np.int32)
    records[0, :4] = OPS["vperm.slane"].number, 2, 0, 1
    records[1, 0] = OPS["halt"].number
    code = Code("k", "k.txt", records, np.array([1, 2], np.int32), 3, 1, 1, {}, {}, {}, (), ())
    for engine in (interpret.run, native.run):
        machine = Machine(code, "v6e")
        machine.v[0], machine.v[1] = x, pattern.view(np.uint32)[..., 0]
        assert engine(code, machine, 10).stop is None
        assert np.array_equal(machine.v[2].view(np.uint8).reshape(8, 128, 4), wanted)
