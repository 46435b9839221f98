"""Bounds from above in float32 against exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from assay.reference.upper import operand, upper_bound


def exact(a: np.ndarray, b: np.ndarray) -> list[list[Fraction]]:
    rows = [[Fraction(float(x)) for x in row] for row in a]
    columns = [[Fraction(float(x)) for x in column] for column in b.T]
    return [[sum((x * y for x, y in zip(r, c, strict=True)), Fraction(0)) for c in columns] for r in rows]


def spread(rng: np.random.Generator, dims: tuple[int, int], octaves: float) -> np.ndarray:
    return np.exp2(rng.uniform(-octaves, 0, dims)) * (rng.random(dims) < 0.9)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e25, 1e-300])
@pytest.mark.parametrize("octaves", [0.01, 3, 40, 70, 200])
def test_bounds_lie_above_and_near(octaves: float, scale: float) -> None:
    rng = np.random.default_rng(int(octaves))
    a, b = spread(rng, (12, 700), octaves) * scale, spread(rng, (700, 3), octaves)
    a[3] = 0.0
    found = upper_bound(np.matmul, operand(a), operand(b), 700)
    for row, wanted in zip(found, exact(a, b), strict=True):
        for got, true in zip(row, wanted, strict=True):
            assert (got == 0) == (true == 0)
            rounding = Fraction(708, 2**53)  # where it is taken in float64
            assert true * (1 - rounding) <= Fraction(float(got)) <= true * (1 + Fraction(708, 2**22))


@pytest.mark.parametrize("value", [0.0, np.inf, np.nan])
def test_what_float32_cannot_hold_is_taken_in_float64(value: float) -> None:
    a, b = np.full((70, 70), value), np.random.default_rng(0).random((70, 70))
    np.testing.assert_array_equal(upper_bound(np.matmul, operand(a), operand(b), 70), a @ b)


def test_equal_terms_whose_rounding_errors_add_up_stay_below() -> None:
    a, b = np.full((2, 1 << 16), 1 / 3), np.full((1 << 16, 2), 1 / 3)
    found = upper_bound(np.matmul, operand(a), operand(b), 1 << 16)
    assert (found >= 65536 / 9).all()
    assert (found <= 65536 / 9 * 1.02).all()
