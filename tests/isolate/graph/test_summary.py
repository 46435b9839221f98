"""Four numbers against NumPy and the fractions module, and ranges against every result that a ball allows."""

from __future__ import annotations

import math
import struct
from dataclasses import astuple
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from assay.hlo.shape import DTYPES
from assay.isolate.graph import summary as module
from assay.isolate.graph.summary import ANYTHING, Allowed, Summary, expected, summarize
from assay.reference.value import Ball, from_array


def exactly(values) -> Summary:
    """In exact arithmetic."""
    numbers = [Fraction(float(v)) for v in np.ravel(values)]
    mean = sum(numbers) / len(numbers)
    variance = sum((n - mean) ** 2 for n in numbers) / len(numbers)
    return Summary(float(min(numbers)), float(max(numbers)), float(mean), math.sqrt(variance))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, ml_dtypes.int4, bool]
)
@pytest.mark.parametrize("block", [7, 1 << 18])
def test_the_four_numbers(dtype, block, monkeypatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    rng = np.random.default_rng(0)
    array = (rng.standard_normal((5, 9)) * 5).astype(np.int8).clip(0, 7).astype(dtype)
    if np.dtype(dtype).kind == "f":
        array = (rng.standard_normal((5, 9)) * 1000).astype(dtype)
    np.testing.assert_allclose(astuple(summarize(array)), astuple(exactly(array)), rtol=1e-12)


def test_complex_numbers_are_their_parts() -> None:
    array = np.array([1 + 2j, -3 + 0.5j], np.complex64)
    assert summarize(array) == exactly([1, 2, -3, 0.5])


def test_sixteen_bytes() -> None:
    packed = summarize(np.array([1.0, 2.0, 4.0], np.float32)).packed()
    assert len(packed) == 16
    least, greatest, mean, deviation = struct.unpack("<4f", packed)
    assert (least, greatest) == (1.0, 4.0)
    np.testing.assert_allclose([mean, deviation], [7 / 3, np.std([1, 2, 4])], rtol=1e-7)


def test_nan_infinity_and_nothing() -> None:
    assert all(math.isnan(v) for v in astuple(summarize(np.array([1.0, np.nan]))))
    least, greatest, mean, deviation = astuple(summarize(np.array([1.0, np.inf])))
    assert (least, greatest, mean) == (1.0, np.inf, np.inf)
    assert math.isnan(deviation)
    assert summarize(np.zeros((0, 3))) == Summary(0, 0, 0, 0)


DTYPE_NAMES = ("f32", "bf16", "f16", "f64", "f8e4m3fn")


@pytest.mark.parametrize("name", DTYPE_NAMES)
@pytest.mark.parametrize("block", [5, 1 << 18])
def test_whatever_lies_in_a_ball_is_allowed(name, block, monkeypatch) -> None:
    """Ends and inner points of the balls, each element by itself or all alike, stored in the type."""
    monkeypatch.setattr(module, "BLOCK", block)
    dtype = DTYPES[name]
    rng = np.random.default_rng(1)
    for scale in (1.0, 1e-3, 30.0):
        mid = rng.standard_normal((4, 6)) * scale
        for width in (0.0, 1e-9, 1e-3, 0.3):
            rad = np.abs(rng.standard_normal(mid.shape)) * width * scale
            _, found = expected(Ball(dtype, mid, rad if width else None))
            for _ in range(40):
                move = rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)], mid.shape if rng.integers(2) else ())
                stored = (mid + rad * move).astype(dtype.numpy)
                assert found.has(summarize(stored))


def test_what_lies_outside_is_not_allowed() -> None:
    mid = np.linspace(-1, 1, 1000)
    ball = Ball(DTYPES["f32"], mid, np.full(mid.shape, 1e-5))
    middle, found = expected(ball)
    assert found.has(middle)
    for wrong in (mid + 3e-5, mid * 1.001, np.where(mid == 1, 1.1, mid), np.where(mid == -1, -0.9, mid), mid[:-1]):
        assert not found.has(summarize(wrong.astype(np.float32)))


def test_a_ball_without_radius_is_exact_to_f32() -> None:
    array = np.random.default_rng(2).standard_normal(4096).astype(np.float32)
    _, found = expected(from_array(DTYPES["f32"], array))
    assert found.has(summarize(array))
    changed = array.copy()
    changed[17] += 0.01
    assert not found.has(summarize(changed))


@pytest.mark.parametrize("name", ["s32", "u8", "pred", "s4"])
def test_integers_are_exact(name) -> None:
    dtype = DTYPES[name]
    array = np.array([0, 1, 1, 0, 1]).astype(dtype.numpy)
    _, found = expected(from_array(dtype, array))
    assert found.has(summarize(array))
    assert not found.has(summarize(np.array([0, 1, 1, 1, 1]).astype(dtype.numpy)))


def test_an_undecided_element_leaves_everything_open() -> None:
    mid = np.ones(4)
    _, found = expected(Ball(DTYPES["f32"], mid, None, np.array([False, True, False, False])))
    assert found.open
    assert found.has(summarize(np.array([np.nan, 1, 2, 3])))


def test_what_may_overflow_may_be_infinite() -> None:
    ball = Ball(DTYPES["f16"], np.array([1.0, 65500.0]), np.array([0.1, 100.0]))
    _, found = expected(ball)
    assert not found.open
    assert found.has(summarize(np.array([1.0, np.inf], np.float16)))
    assert found.has(summarize(np.array([1.0, 65472.0], np.float16)))
    assert not found.has(summarize(np.array([2.0, np.inf], np.float16)))


def test_decided_infinities_and_nans_are_expected() -> None:
    _, infinite = expected(Ball(DTYPES["f32"], np.array([1.0, np.inf]), np.array([0.1, 0.0])))
    assert infinite.has(summarize(np.array([1.05, np.inf])))
    assert not infinite.has(summarize(np.array([1.05, 1e30])))
    assert not infinite.has(summarize(np.array([1.05, np.nan])))
    _, nan = expected(Ball(DTYPES["f32"], np.array([1.0, np.nan]), None))
    assert nan.has(summarize(np.array([1.0, np.nan])))
    assert not nan.has(summarize(np.array([1.0, 2.0])))


def test_complex_balls() -> None:
    mid = np.array([1 + 1j, -2 + 0.5j])
    _, found = expected(Ball(DTYPES["c64"], mid, np.array([0.1, 0.2])))
    assert found.has(summarize((mid + np.array([0.1j, -0.2])).astype(np.complex64)))
    assert not found.has(summarize((mid + np.array([0.5j, 0.0])).astype(np.complex64)))


def test_anything() -> None:
    assert ANYTHING.open
    assert ANYTHING.has(Summary(math.nan, math.inf, -math.inf, 0))
    assert not Allowed(Summary(0, 0, 0, 0), Summary(1, 1, 1, 1)).open
