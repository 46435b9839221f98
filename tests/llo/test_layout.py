"""Images of arrays in memory, against a model that places one element at a time and against dumped facts."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from assay.errors import InputError, Unsupported
from assay.hlo.shape import ArrayShape
from assay.hlo.shape_text import parse_shape
from assay.llo.layout import array_of, element_bits, image, scalar_of, scalar_word, words_held

FILL = 0x7FC0DEAD


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def place(index: tuple[int, ...], dims: tuple[int, ...], minor_to_major: list[int], tiles: list[list[int]]) -> int:
    """XLA's "Tiled layout", one index at a time: slowest dimension first, each tile splits what is left of it."""
    order = list(reversed(minor_to_major))
    sizes, at = [dims[d] for d in order], [index[d] for d in order]
    for tile in tiles:
        while len(sizes) < len(tile):
            sizes, at = [1, *sizes], [0, *at]
        keep = len(sizes) - len(tile)
        outer = [-(-s // t) for s, t in zip(sizes[keep:], tile, strict=True)]
        sizes = sizes[:keep] + outer + tile
        at = (
            at[:keep]
            + [i // t for i, t in zip(at[keep:], tile, strict=True)]
            + [i % t for i, t in zip(at[keep:], tile, strict=True)]
        )
    found = 0
    for size, i in zip(sizes, at, strict=True):
        found = found * size + i
    return found


def places_of(dims: tuple[int, ...], minor_to_major: list[int], tiles: list[list[int]]) -> int:
    sizes = [dims[d] for d in reversed(minor_to_major)]
    for tile in tiles:
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        keep = len(sizes) - len(tile)
        sizes = sizes[:keep] + [-(-s // t) for s, t in zip(sizes[keep:], tile, strict=True)] + tile
    return math.prod(sizes)


def bits_of(array: np.ndarray, bits: int) -> list[int]:
    """The code of each element, from its bytes."""
    raw = array.ravel()
    return [int.from_bytes(raw[i : i + 1].tobytes(), "little") & ((1 << bits) - 1) for i in range(raw.size)]


# Layouts of libtpu's dumps for v5e, one or more of every packing and rank, and some of our own.
CASES = [
    ("f32[]{:T(128)}", [[128]], 32),
    ("bf16[]{:T(256)}", [[256]], 16),
    ("pred[]{:T(512)}", [[512]], 8),
    ("s8[]{:T(512)S(6)}", [[512]], 8),
    ("f32[33]{0:T(128)S(1)}", [[128]], 32),
    ("s32[1300]{0:T(1024)}", [[1024]], 32),
    ("bf16[300]{0:T(256)(128)(2,1)}", [[256], [128], [2, 1]], 16),
    ("pred[700]{0:T(512)(128)(4,1)}", [[512], [128], [4, 1]], 8),
    ("f32[10,20]{0,1:T(8,128)}", [[8, 128]], 32),
    ("f32[10,200]{1,0:T(8,128)S(1)}", [[8, 128]], 32),
    ("s32[3,2]{0,1:T(2,128)}", [[2, 128]], 32),
    ("u32[5,1]{0,1:T(1,128)S(6)}", [[1, 128]], 32),
    ("bf16[10,130]{1,0:T(8,128)(2,1)}", [[8, 128], [2, 1]], 16),
    ("f16[2,64]{1,0:T(2,128)(2,1)}", [[2, 128], [2, 1]], 16),
    ("s16[5,20]{0,1:T(8,128)(2,1)}", [[8, 128], [2, 1]], 16),
    ("u16[3,3,3]{2,1,0:T(4,128)(2,1)S(1)}", [[4, 128], [2, 1]], 16),
    ("s8[10,20]{0,1:T(8,128)(4,1)}", [[8, 128], [4, 1]], 8),
    ("u8[70,3]{1,0:T(32,128)(4,1)}", [[32, 128], [4, 1]], 8),
    ("pred[3,5]{0,1:T(4,128)(4,1)S(1)}", [[4, 128], [4, 1]], 8),
    ("f8e5m2[9,12]{1,0:T(8,128)(4,1)}", [[8, 128], [4, 1]], 8),
    ("f8e4m3fn[9,12]{1,0:T(8,128)(4,1)}", [[8, 128], [4, 1]], 8),
    ("s4[10,20]{0,1:T(8,128)(8,1)E(4)}", [[8, 128], [8, 1]], 4),
    ("u4[70,130]{1,0:T(64,128)(8,1)E(4)}", [[64, 128], [8, 1]], 4),
    ("f32[2,3,4,5]{3,0,2,1:T(2,128)}", [[2, 128]], 32),
    ("bf16[3,2,4,5]{2,3,1,0:T(8,128)(2,1)}", [[8, 128], [2, 1]], 16),
    ("pred[2,3,2,4,3]{4,2,1,3,0:T(8,128)(4,1)}", [[8, 128], [4, 1]], 8),
    ("f32[4,3]{1,0}", [], 32),
    ("f32[0,3]{1,0:T(8,128)}", [[8, 128]], 32),
]


def drawn(shape: ArrayShape) -> np.ndarray:
    rng = np.random.default_rng(shape.size)
    name = shape.dtype.name
    assert shape.dtype.numpy is not None
    if name == "pred":
        return np.asarray(rng.integers(0, 2, shape.dims)).astype(bool)
    if shape.dtype.is_integer:
        low = -(2 ** (shape.dtype.bits - 1)) if shape.dtype.kind == "signed" else 0
        high = low + 2**shape.dtype.bits
        return np.asarray(rng.integers(low, high, shape.dims)).astype(shape.dtype.numpy)
    return np.asarray(rng.normal(size=shape.dims)).astype(shape.dtype.numpy)


@pytest.mark.parametrize(("text", "tiles", "bits"), CASES, ids=[text for text, _, _ in CASES])
def test_an_image_is_what_one_index_at_a_time_gives(text: str, tiles: list[list[int]], bits: int) -> None:
    shape = shape_of(text)
    array = drawn(shape)
    assert shape.layout is not None
    assert element_bits(shape) == bits
    minor_to_major = list(shape.layout.minor_to_major)
    held = places_of(shape.dims, minor_to_major, tiles)
    buffer = [(FILL >> (bits * (p % (32 // bits)))) & ((1 << bits) - 1) for p in range(held)]
    for index, code in zip(itertools.product(*map(range, shape.dims)), bits_of(array, bits), strict=True):
        buffer[place(index, shape.dims, minor_to_major, tiles)] = code
    per = 32 // bits
    words = [sum(c << (bits * k) for k, c in enumerate(buffer[i : i + per])) for i in range(0, held, per)]

    found = image(shape, array, FILL)

    assert words_held(shape) == len(words)
    assert found.dtype == np.uint32
    assert found.tolist() == words
    back = array_of(shape, np.append(found, np.uint32(1)))  # what comes after the array does not count
    assert back.dtype == shape.dtype.numpy
    assert back.tobytes() == array.tobytes()


def test_rows_of_16_bits_share_a_word_low_half_first() -> None:
    """facts of the dumps: bf16 in T(8,128)(2,1) has rows 2i (low) and 2i+1 (high) in one word."""
    array = (np.arange(8)[:, None] * np.ones(128)).astype(ml_dtypes.bfloat16)
    words = image(shape_of("bf16[8,128]{1,0:T(8,128)(2,1)}"), array).reshape(4, 128)
    low, high = (words & 0xFFFF).astype(np.uint16), (words >> 16).astype(np.uint16)
    assert (low.view(ml_dtypes.bfloat16)[:, 5] == np.array([0, 2, 4, 6])).all()
    assert (high.view(ml_dtypes.bfloat16)[:, 5] == np.array([1, 3, 5, 7])).all()


def test_four_rows_of_8_bits_share_a_word() -> None:
    array = np.tile(np.arange(32, dtype=np.int8)[:, None], (1, 128))
    words = image(shape_of("s8[32,128]{1,0:T(8,128)(4,1)}"), array).reshape(8, 128)
    assert [hex(w) for w in words[:, 77]] == [
        "0x3020100", "0x7060504", "0xb0a0908", "0xf0e0d0c", "0x13121110", "0x17161514", "0x1b1a1918", "0x1f1e1d1c"
    ]  # fmt: skip


def test_a_byte_of_a_pred_counts_as_a_whole() -> None:
    shape = shape_of("pred[4]{0:T(512)(128)(4,1)}")
    words = np.zeros(words_held(shape), np.uint32)
    words[:4] = [1, 0, 0xFF00, 0x02]
    assert array_of(shape, words).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "value", "word"),
    [
        ("f32[]{:T(128)S(6)}", np.float32(-1.5), 0xBFC00000),
        ("bf16[]{:T(256)}", ml_dtypes.bfloat16(-1.5), 0xBFC0),
        ("s8[]{:T(512)}", np.int8(-2), 0xFE),
        ("s16[]{:T(256)}", np.int16(-2), 0xFFFE),
        ("s32[1,1]{1,0:T(1,128)S(6)}", np.int32(-2), 0xFFFFFFFE),
        ("pred[]{:T(512)}", np.bool_(True), 1),
        ("s4[]{:T(1024)E(4)}", ml_dtypes.int4(-2), 0xE),
    ],
)
def test_a_scalar_is_passed_with_zeros_above_it(text: str, value: np.generic, word: int) -> None:
    shape = shape_of(text)
    array = np.full(shape.dims, value)
    assert scalar_word(shape, array) == word
    back = scalar_of(shape, word | (0xABCD0000 if element_bits(shape) <= 16 else 0))
    assert back.shape == shape.dims
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("name", "part", "value"),
    [("c64", "f32", 1.5 - 2.25j), ("s64", "u32", -(2**40) - 3), ("u64", "u32", 2**63 + 5)],
)
def test_64_bits_are_two_arrays(name: str, part: str, value: complex) -> None:
    """As X64SplitLow and X64SplitHigh read them: the first half of the buffer, and the second."""
    whole, half = (shape_of(f"{t}[3,200]{{1,0:T(8,128)}}") for t in (name, part))
    array = np.full((3, 200), value, whole.dtype.numpy)
    array[1, 150] = 7
    words = image(whole, array, FILL)
    assert words.size == words_held(whole) == 2 * words_held(half)
    if name == "c64":
        low, high = array.real, array.imag
    else:
        low, high = (array & 0xFFFFFFFF).astype(np.uint32), (array.view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    assert words.tolist() == [*image(half, low, FILL).tolist(), *image(half, high, FILL).tolist()]
    assert (array_of(whole, words) == array).all()


def test_what_has_no_image_is_refused() -> None:
    for text in ("f64[2]{0:T(128)}", "s4[9,7]{1,0:T(8,128)(4,1)}", "pred[8]{0:T(1024)E(1)}"):
        shape = shape_of(text)
        with pytest.raises(Unsupported, match=rf"of {shape.dtype} in \d+ bits"):
            image(shape, np.zeros(shape.dims, shape.dtype.numpy))
    with pytest.raises(InputError, match=r"\[3\] is no f32\[2\]"):
        image(shape_of("f32[2]{0:T(128)}"), np.zeros(3, np.float32))
    with pytest.raises(InputError, match="takes 128 words"):
        array_of(shape_of("f32[2]{0:T(128)}"), np.zeros(127, np.uint32))


@pytest.mark.parametrize(
    ("plain", "tiled"),
    [
        ("f32[512,256]{0,1:S(1)}", "f32[512,256]{0,1:T(8,128)S(1)}"),
        ("f32[3,40,130]{2,1,0:S(1)}", "f32[3,40,130]{2,1,0:T(8,128)S(1)}"),
        ("bf16[48,256]{1,0:S(1)}", "bf16[48,256]{1,0:T(8,128)(2,1)S(1)}"),
        ("s8[64,128]{1,0:S(1)}", "s8[64,128]{1,0:T(8,128)(4,1)S(1)}"),
    ],
)
def test_an_array_in_vmem_has_the_usual_tiles_where_none_are_printed(plain: str, tiled: str) -> None:
    one, other = shape_of(plain), shape_of(tiled)
    array = np.random.default_rng(0).integers(-100, 100, one.dims).astype(one.dtype.numpy)
    assert (image(one, array, FILL) == image(other, array, FILL)).all()
    assert words_held(one) == words_held(other)
    linear = shape_of(plain.replace(":S(1)", ""))  # in HBM nothing is added
    assert (image(linear, array, FILL) != image(other, array, FILL)[: words_held(linear)]).any()


@pytest.mark.parametrize("text", ["f32[4,256]{1,0:S(1)}", "f32[256,64]{1,0:S(1)}", "pred[2,128]{1,0:S(1)}"])
def test_tiles_that_are_not_known_are_not_guessed(text: str) -> None:
    shape = shape_of(text)
    with pytest.raises(Unsupported, match="in VMEM without tiles"):
        image(shape, np.zeros(shape.dims, shape.dtype.numpy))
