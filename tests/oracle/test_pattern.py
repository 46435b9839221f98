"""Corruptions made here by other means than the ones that `describe` looks for, and the label that each must get."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from assay.hlo.shape import DTYPES, ArrayShape
from assay.inputs.domain import Domain
from assay.inputs.generate import draw as draw_input
from assay.oracle.compare import compare_output
from assay.oracle.pattern import describe
from assay.reference.value import Array, Ball, from_array

SHAPES = ((1000,), (64, 96), (256, 256), (16, 384), (3, 40, 136), (4, 16, 16, 32))
FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("s32", "u8")


@dataclass(frozen=True)
class Corruption:
    """`make(rng, right)` gives wrong values; `label` matches what must be said; tried where `fits`."""

    name: str
    make: Callable[[np.random.Generator, Array], Array]
    label: str
    fits: Callable[[tuple[int, ...], str], bool] = lambda dims, dtype: True


def rolled(k: int, axis: int) -> Callable[[np.random.Generator, Array], Array]:
    def make(rng: np.random.Generator, right: Array) -> Array:
        order = [(i - k) % right.shape[axis] for i in range(right.shape[axis])]
        return np.take(right, order, axis=axis)

    return make


def edited(
    region: Callable[[np.random.Generator, tuple[int, ...]], Array], value: str = "garbage"
) -> Callable[[np.random.Generator, Array], Array]:
    """`right`, but not where the region's mask is set."""

    def make(rng: np.random.Generator, right: Array) -> Array:
        mask = region(rng, right.shape)
        wrong = right.copy()
        if value == "zero":
            wrong[mask] = 0
        elif value == "nan":
            wrong[mask] = np.nan
        else:
            wrong[mask] = draw(rng, right.shape, right.dtype)[mask]
        return wrong

    return make


def draw(rng: np.random.Generator, dims: tuple[int, ...], dtype: np.dtype) -> Array:
    if dtype.kind in "iu":
        return rng.integers(0, 100 if dtype.itemsize < 4 else 1 << 20, dims).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


def coordinates(dims: tuple[int, ...]) -> list[Array]:
    return list(np.indices(dims))


def one_tile(rng: np.random.Generator, dims: tuple[int, ...], rows: int = 8) -> Array:
    *lead, r, c = coordinates(dims)
    mask = (r // rows == rng.integers(dims[-2] // rows)) & (c // 128 == 0)
    for axis, index in enumerate(lead):
        mask &= index == rng.integers(dims[axis])
    return mask


def tail(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    return coordinates(dims)[-1] >= dims[-1] - max(3, dims[-1] // 7)


def flat_tail(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    size = int(np.prod(dims))
    return (np.arange(size) >= size - size // 3 - 5).reshape(dims)


def one_row(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    return np.logical_and.reduce([c == rng.integers(d) for c, d in zip(coordinates(dims)[:-1], dims, strict=False)])


def one_column(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    return coordinates(dims)[-1] == rng.integers(dims[-1])


def lanes(step: int) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    return lambda rng, dims: coordinates(dims)[-1] % step == 1


def one(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    mask = np.zeros(int(np.prod(dims)), bool)
    mask[rng.integers(mask.size)] = True
    return mask.reshape(dims)


def some(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    return rng.random(dims) < 0.03


def drifted(rng: np.random.Generator, right: Array) -> Array:
    """A few units in the last place, up or down, counted on the bits."""
    bits = right.view(f"i{right.dtype.itemsize}")
    moved = bits + rng.integers(2, 5, right.shape).astype(bits.dtype) * rng.choice([-1, 1], right.shape).astype(
        bits.dtype
    )
    return moved.view(right.dtype)


def shuffled(rng: np.random.Generator, right: Array) -> Array:
    return rng.permutation(right.reshape(-1)).reshape(right.shape)


def ranked(n: int) -> Callable[[tuple[int, ...], str], bool]:
    return lambda dims, dtype: len(dims) >= n


def square(dims: tuple[int, ...], dtype: str) -> bool:
    return len(dims) >= 2 and dims[-1] == dims[-2]


def is_float(dims: tuple[int, ...], dtype: str) -> bool:
    return dtype in FLOATS


def tiled(dims: tuple[int, ...], dtype: str) -> bool:
    rows = 8 * max(1, 32 // max(DTYPES[dtype].bits, 8))
    return len(dims) >= 2 and dims[-1] > 128 and dims[-2] > rows


def has_sign(dims: tuple[int, ...], dtype: str) -> bool:
    return dtype != "u8"


def make_tile(rng: np.random.Generator, right: Array) -> Array:
    rows = 8 * max(1, 4 // right.dtype.itemsize)
    return edited(lambda r, dims: one_tile(r, dims, rows))(rng, right)


def zero_tile(rng: np.random.Generator, right: Array) -> Array:
    rows = 8 * max(1, 4 // right.dtype.itemsize)
    return edited(lambda r, dims: one_tile(r, dims, rows), "zero")(rng, right)


CORRUPTIONS = (
    Corruption("all zero", lambda rng, right: right * 0, r"all zero$"),
    Corruption("negated", lambda rng, right: 0 - right, r"negated$", has_sign),
    Corruption("rolled by a lane", rolled(1, -1), r"rolled by 1 along dimension \d$"),
    Corruption("rolled by 8 rows", rolled(8, 0), r"rolled by (8|-8) along dimension 0$", lambda d, t: d[0] >= 16),
    Corruption("rolled back", rolled(-3, -1), r"rolled by -3 along dimension \d$"),
    Corruption("transposed", lambda rng, right: right.swapaxes(-1, -2).copy(), r"transposed", square),
    Corruption(
        "laid out transposed",
        lambda rng, right: np.array(right.T.tolist(), right.dtype).reshape(right.shape),
        r"transposed",
        ranked(2),
    ),
    Corruption("reversed", lambda rng, right: right[..., ::-1].copy(), r"reversed along dimension \d$"),
    Corruption("scaled", lambda rng, right: right + right + right, r"scaled by 3$", has_sign),
    Corruption("scaled by 1.09", lambda rng, x: (x.astype("f8") * 1.09).astype(x.dtype), r"scaled by 1\.", is_float),
    Corruption("offset", lambda rng, right: right + right.dtype.type(7), r"constant offset 7$"),
    Corruption("shuffled", shuffled, r"permuted"),
    Corruption("one tile", make_tile, r"one \d+x128 tile at \[", tiled),
    Corruption("zero tile", zero_tile, r"zero, one \d+x128 tile at \[", tiled),
    Corruption("every 4th lane", edited(lanes(4)), r"every 4th lane from 1$"),
    Corruption("every 2nd lane zero", edited(lanes(2), "zero"), r"zero, every 2nd lane from 1$"),
    Corruption("tail", edited(tail), r"tail from \d+ along dimension \d$"),
    Corruption("zero tail", edited(tail, "zero"), r"zero, tail from \d+ along dimension \d$"),
    Corruption("flat tail", edited(flat_tail), r"tail from (flat index )?\d+", lambda d, t: True),
    Corruption("one row", edited(one_row), r"one (row|slice)", ranked(2)),
    Corruption("one row zero", edited(one_row, "zero"), r"zero, one (row|slice)", ranked(2)),
    Corruption("one column", edited(one_column), r"one (column|slice)", ranked(2)),
    Corruption("NaN only", edited(some, "nan"), r"NaN only", is_float),
    Corruption("all NaN", lambda rng, right: right * np.nan, r"NaN only$", is_float),
    Corruption("drift", drifted, r"ulp drift$", is_float),
    Corruption("one element", edited(one), r"(\w+, )?one element$"),
    Corruption("scattered", edited(some), r"scattered$"),
)  # fmt: skip


def reference(rng: np.random.Generator, dims: tuple[int, ...], dtype: str) -> tuple[Ball, Array]:
    """Right values, and a ball around them that is as wide as one rounding or two."""
    right = draw(rng, dims, np.dtype(DTYPES[dtype].numpy))
    if dtype not in FLOATS:
        return from_array(DTYPES[dtype], right), right
    mid = right.astype(np.float64)
    rad = np.abs(mid) * rng.uniform(0.5, 1.5, dims) * 2.0 ** -(DTYPES[dtype].mantissa + 1)
    return Ball(DTYPES[dtype], mid, rad), right


def label(rng: np.random.Generator, corruption: Corruption, dims: tuple[int, ...], dtype: str) -> str | None:
    ball, right = reference(rng, dims, dtype)
    with np.errstate(all="ignore"):
        wrong = corruption.make(rng, right).astype(right.dtype)
    compared = compare_output(ball, wrong, ArrayShape(DTYPES[dtype], dims))
    if not compared.outside:
        return None
    argument = draw(rng, dims, right.dtype)
    return describe(ball, wrong, compared, {"argument 0": argument})


def cases() -> list[tuple[Corruption, tuple[int, ...], str]]:
    return [
        (corruption, dims, dtype)
        for corruption, dims, dtype in itertools.product(CORRUPTIONS, SHAPES, FLOATS + INTEGERS)
        if corruption.fits(dims, dtype)
    ]


def accuracy(chosen: list[tuple[Corruption, tuple[int, ...], str]], seed: int) -> tuple[int, list[str]]:
    """Cases in which anything was wrong, and those that were named otherwise."""
    rng = np.random.default_rng(seed)
    tried, missed = 0, []
    for corruption, dims, dtype in chosen:
        got = label(rng, corruption, dims, dtype)
        if got is not None:
            tried += 1
            if not re.match(corruption.label, got):
                missed.append(f"{corruption.name} {dtype}{list(dims)}: {got}")
    return tried, missed


def test_at_least_95_percent_of_corruptions_are_named() -> None:
    tried, missed = accuracy(cases()[::8], 11)
    assert tried > 95
    assert len(missed) <= 0.05 * tried, "\n".join(missed)


@pytest.mark.slow
def test_at_least_95_percent_of_all_corruptions_are_named() -> None:
    tried, missed = accuracy(cases(), 12)
    assert tried > 750
    assert len(missed) <= 0.05 * tried, "\n".join(missed)


def said(right: Array, wrong: Array, dtype: str = "f32", **candidates: Array) -> str:
    compared = compare_output(from_array(DTYPES[dtype], right), wrong, ArrayShape(DTYPES[dtype], right.shape))
    return describe(from_array(DTYPES[dtype], right), wrong, compared, candidates)


def test_stale_names_the_array_whose_values_were_left() -> None:
    rng = np.random.default_rng(0)
    right, x, y = (rng.standard_normal((64, 64)).astype("f4") for _ in range(3))
    assert said(right, y.copy(), x=x, y=y) == "stale: equals y"
    partly = right.copy()
    partly[40:] = x[40:]
    assert said(right, partly, x=x, y=y) == "stale: equals x, tail from 40 along dimension 0"
    assert said(right, y.reshape(64, 64), x=x, y=y.reshape(4096)) == "stale: equals y"


def test_few_distinct_values_do_not_make_a_pattern() -> None:
    rng = np.random.default_rng(1)
    for trial in range(30):
        right = rng.random((20, 20)) < 0.5
        wrong = right.copy()
        wrong[tuple(rng.integers(0, 20, (2, 12)))] ^= True
        said_of_it = said(right, wrong, "pred", x=rng.random((20, 20)) < 0.5)
        assert not re.match("rolled|shifted|transposed|reversed|stale|permuted", said_of_it), (trial, said_of_it)


def test_a_roll_of_one_hot_rows_is_seen_although_nearly_all_is_zero() -> None:
    hot = np.random.default_rng(5).integers(0, 50, 300)
    right = (np.arange(50) == hot[:, None]).astype("i4")
    wrong = np.take(right, [(i - 2) % 50 for i in range(50)], axis=1)
    assert said(right, wrong, "s32") == "rolled by 2 along dimension 1"


def test_a_shift_that_does_not_wrap() -> None:
    right = np.random.default_rng(2).standard_normal((10, 40)).astype("f4")
    wrong = np.zeros_like(right)
    wrong[:, 5:] = right[:, :-5]
    # The five columns that came in from outside count as unpredicted.
    assert said(right, wrong) == "shifted by 5 along dimension 1"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1.0, 2.0, 3.0, 9.0], "one element"),
        ([1.0, np.nan, 3.0, 4.0], "NaN only, one element"),
        ([0.0, 0.0, 0.0, 0.0], "all zero"),
        ([5.0, 5.0, 5.0, 5.0], "constant 5"),
        ([np.inf, np.inf, 3.0, 4.0], "infinite only, first 2 along dimension 0"),
    ],
)
def test_small_outputs(wrong: list[float], words: str) -> None:
    assert said(np.array([1.0, 2.0, 3.0, 4.0], "f4"), np.array(wrong, "f4")) == words


def test_scalars_and_complex() -> None:
    assert said(np.array(3.0, "f4"), np.array(4.0, "f4")) == "the only element"
    z = (np.random.default_rng(3).standard_normal((2, 500)).astype("f4")).view("c8")
    assert said(z, -z, "c64") == "negated"
    assert said(z, 2 * z, "c64").startswith("scaled by 2")


def test_several_rows_and_tiles() -> None:
    rng = np.random.default_rng(4)
    right = rng.standard_normal((64, 512)).astype("f4")
    rows, tiles, stride = right.copy(), right.copy(), right.copy()
    rows[[3, 17, 40]] += rng.standard_normal((3, 512)).astype("f4")
    tiles[8:16, 128:256] += rng.standard_normal((8, 128)).astype("f4")
    tiles[40:48, 256:384] += rng.standard_normal((8, 128)).astype("f4")
    stride.reshape(-1)[7::1001] += 1 + rng.random(stride.reshape(-1)[7::1001].shape).astype("f4")
    assert said(right, rows) == "3 of 64 rows"
    assert said(right, tiles) == "2 of 32 8x128 tiles"
    assert said(right, stride) == "every 1001st element"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [t.name for t in DTYPES.values() if t.numpy is not None])
def test_nothing_that_a_target_may_return_upsets_it(name: str) -> None:
    dtype = DTYPES[name]
    rng = np.random.default_rng(len(name))
    for dims in ((), (1,), (2,), (1, 1), (3, 1, 4), (17, 9), (300,), (2, 1, 3, 1, 2)):
        for kind in ("normal", "edges", "zeros", "stamps"):
            right, wrong = (draw_input(ArrayShape(dtype, dims), Domain(), seed, 0, kind) for seed in (1, 2))
            ball = from_array(dtype, right)
            rad = np.where(np.isfinite(ball.mid), np.abs(ball.mid) / 64, 0.0) if dtype.mantissa else None
            ball = Ball(dtype, ball.mid, rad, rng.random(dims) < 0.2 if rng.random() < 0.5 else None)
            compared = compare_output(ball, wrong, ArrayShape(dtype, dims))
            words = describe(ball, wrong, compared, {"a": right, "b": np.zeros(dims, np.int8), "c": np.ones((), "c16")})
            assert words
            assert (words == "none") == (compared.outside == 0)
