"""Packing against ml_dtypes and the views of NumPy: what a word holds is written out row by row."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

Words = npt.NDArray[np.uint32]


def packed(rows: npt.NDArray[Any]) -> Words:
    """(16, 128) of two bytes, or (32, 128) of one, as a vector: consecutive rows share a word, the first lowest."""
    per = 4 // rows.dtype.itemsize
    groups = rows.reshape(8, per, 128).transpose(0, 2, 1)
    return np.ascontiguousarray(groups).view(np.uint32).reshape(8, 128)


def test_halves_unpack_to_rows(run: Any) -> None:
    halves = np.random.default_rng(0).integers(0, 1 << 16, (16, 128)).astype(np.uint16)
    records = [("vunpack.c.l.s16.s32", 1, 0), ("vunpack.c.u.s16.s32", 2, 0)]
    ran = run([*records, ("vunpack.c.l.bf16.f32", 3, 0), ("vunpack.c.u.bf16.f32", 4, 0)], {0: packed(halves)})
    wide = halves.view(np.int16).astype(np.int32).view(np.uint32)
    assert np.array_equal(ran.v(1), wide[:8])
    assert np.array_equal(ran.v(2), wide[8:])
    assert np.array_equal(ran.v(3), halves[:8].astype(np.uint32) << 16)
    assert np.array_equal(ran.v(4), halves[8:].astype(np.uint32) << 16)


def test_bytes_unpack_to_rows(run: Any) -> None:
    rows = np.random.default_rng(1).integers(-128, 128, (32, 128)).astype(np.int8)
    ran = run([(f"vunpack.c.{k}.s8.s32.s8", 1 + k, 0) for k in range(4)], {0: packed(rows)})
    for k in range(4):
        assert np.array_equal(ran.v(1 + k).view(np.int32), rows[8 * k : 8 * k + 8])


def test_f32_packs_to_bf16_to_nearest_even(run: Any, draw: Any) -> None:
    high, low = draw(2, (2, 8, 128))
    with np.errstate(all="ignore"):
        rows = np.concatenate([low, high]).view(np.float32)
        wanted = packed(rows.astype(ml_dtypes.bfloat16))
    got = run([("vpack.c.f32.bf16", 2, 0, 1)], {0: high, 1: low}).v(2)
    nan = np.repeat(np.isnan(rows).reshape(8, 2, 128).transpose(0, 2, 1), 2, axis=2).reshape(8, 128, 4)
    same = got.view(np.uint8).reshape(8, 128, 4) == wanted.view(np.uint8).reshape(8, 128, 4)
    assert (same | nan).all()  # payloads of NaN are ours
    back = got.view(np.uint16).reshape(8, 128, 2).transpose(0, 2, 1).reshape(16, 128)
    assert np.array_equal(np.isnan(back.view(ml_dtypes.bfloat16).astype(np.float32)), np.isnan(rows))


def test_words_pack_in_place_too(run: Any) -> None:
    """The first operand to the high halves."""
    one, two = np.float32(1).view(np.uint32), np.float32(2).view(np.uint32)
    ran = run(
        [("vpack.i.f32.bf16", 2, 0, 1), ("vunpack.i.u.bf16.f32", 3, 2), ("vunpack.i.l.bf16.f32", 4, 2)],
        {0: one, 1: two},
    )
    assert (ran.v(3) == one).all()
    assert (ran.v(4) == two).all()


def test_integers_pack_by_their_low_bits(run: Any, draw: Any) -> None:
    high, low = draw(3, (2, 8, 128))
    ran = run([("vpack.c.b32.b16", 2, 0, 1), ("vpack.c.b16.b8", 3, 0, 1)], {0: high, 1: low})
    assert np.array_equal(ran.v(2), packed(np.concatenate([low, high]).astype(np.uint16)))
    halves = [w.view(np.uint16).reshape(8, 128, 2).transpose(0, 2, 1).reshape(16, 128) for w in (low, high)]
    assert np.array_equal(ran.v(3), packed(np.concatenate(halves).astype(np.uint8)))


def test_nibbles_of_a_constant_are_sublane_numbers(run: Any) -> None:
    """0x32103210, from a Pallas kernel: rows 0 1 2 3 0 1 2 3, with which vperm.slane doubles four sublanes."""
    source = np.arange(1024, dtype=np.uint32).reshape(8, 128)
    records = [("vunpack.c.l.s4.s8", 1, 0), ("vunpack.c.0.s8.s32", 2, 1), ("vperm.slane", 4, 3, 2)]
    ran = run(records, {0: 0x32103210, 3: source})
    assert ran.v(2)[:, 5].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert np.array_equal(ran.v(4), source[[0, 1, 2, 3, 0, 1, 2, 3]])


def test_nibbles_unpack_signed(run: Any) -> None:
    values = np.random.default_rng(5).integers(-8, 8, (64, 128)).astype(np.int8)
    words = sum((values[k::8].astype(np.uint32) & 15) << (4 * k) for k in range(8))
    ran = run([("vunpack.c.l.s4.s8", 1, 0)], {0: words})
    assert np.array_equal(ran.v(1), packed(values[:32]))


def test_masks_pack_as_their_vectors_do(run: Any) -> None:
    """Selecting among packed values by the packed mask is packing what is selected."""
    rng = np.random.default_rng(6)
    low, high, other = rng.integers(0, 1 << 16, (3, 8, 128)).astype(np.uint32)
    masks = rng.integers(0, 2, (2, 8, 128)).astype(np.uint8) * np.uint8(15)
    records = [
        ("vmpackc.low", 2, 0, 1),
        ("vpack.c.b32.b16", 4, 0, 1),
        ("vpack.c.b32.b16", 5, 3, 3),
        ("vsel", 6, 2, 4, 5),
        ("vsel", 7, 0, 0, 3),
        ("vsel", 8, 1, 1, 3),
        ("vpack.c.b32.b16", 9, 7, 8),
    ]
    ran = run(records, {0: high, 1: low, 3: other}, {0: masks[0], 1: masks[1]})
    assert np.array_equal(ran.v(6), ran.v(9))


def test_a_mask_kept_as_bytes_comes_back(run: Any) -> None:
    mask = np.random.default_rng(7).integers(0, 16, (8, 128)).astype(np.uint8)
    ran = run([("vsel", 2, 0, 0, 1), ("vnez.u8", 1, 2)], {0: 0x01800210, 1: 0}, {0: mask})
    assert np.array_equal(ran.machine.m[1], mask)


@pytest.mark.parametrize("name", ["vpack.c.f32.bf16", "vpack.c.b32.b16", "vpack.c.b16.b8"])
def test_a_result_may_replace_an_operand(name: str, run: Any, draw: Any) -> None:
    high, low = draw(8, (2, 8, 128))
    ran = run([(name, 2, 0, 1), (name, 1, 0, 1)], {0: high, 1: low})
    assert np.array_equal(ran.v(2), ran.v(1))
