"""f64 operations that round nothing, against exact fractions."""

from __future__ import annotations

import operator
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from elements import apply
from xla_cpu import assert_agree

from assay.hlo.shape import DTYPES
from assay.reference.value import Ball, from_array

pytestmark = pytest.mark.usefixtures("x64")

RNG = np.random.default_rng(7)
OPERATIONS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def operands(count=4000):
    """Ordinary numbers, numbers of few bits, integers, neighbours, zeros, and the ends of the range."""
    few = np.ldexp(RNG.integers(-(2**26), 2**26, count).astype(float), RNG.integers(-60, 60, count))
    kinds = [
        RNG.normal(size=count),
        few,
        RNG.integers(-100, 100, count) / 2.0,
        np.ldexp(RNG.normal(size=count), RNG.integers(-1000, 1000, count)),
        np.nextafter(1.0, 2.0) * RNG.integers(-3, 3, count),
    ]
    return np.choose(RNG.integers(0, len(kinds), count), kinds)


@pytest.mark.parametrize("opcode", OPERATIONS)
def test_an_error_free_operation_has_no_radius_and_no_other_has_none(opcode):
    a, b = operands(), operands()
    ball = apply(opcode, *(from_array(DTYPES["f64"], each) for each in (a, b)))
    rad = np.zeros(a.shape) if ball.rad is None else ball.rad
    finite = np.isfinite(ball.mid) & ((np.abs(ball.mid) > 1e-300) | (a == 0) | (b == 0) | (a == b))
    exact = [OPERATIONS[opcode](Fraction(x), Fraction(y)) for x, y in zip(a[finite], b[finite], strict=True)]
    off = np.array([z != Fraction(mid) for z, mid in zip(exact, ball.mid[finite], strict=True)])
    small = np.abs(ball.mid[finite]) < 1e-270  # bits may be lost below the smallest subnormal: no claim there
    assert (rad[finite][off] > 0).all()
    found = (rad[finite][~off & ~small] == 0).mean()
    assert found > (0.9 if opcode != "multiply" else 0.6), found
    assert 100 < off.sum() < off.size - 100


def test_a_division_by_a_power_of_two():
    a, b = operands(), np.ldexp(RNG.choice([-1.0, 1.0], 4000), RNG.integers(-300, 300, 4000))
    ball = apply("divide", *(from_array(DTYPES["f64"], each) for each in (a, b)))
    usual = (np.abs(a) > 1e-150) & (np.abs(a) < 1e150)
    assert ball.rad is None or not ball.rad[usual].any()
    thirds = apply("divide", *(from_array(DTYPES["f64"], each) for each in (np.ones(9), np.full(9, 3.0))))
    assert (thirds.rad > 0).all()


def test_inexact_operands_keep_their_radius():
    x = Ball(DTYPES["f64"], np.arange(1.0, 9.0), np.full(8, 1e-9))
    assert (apply("add", x, from_array(DTYPES["f64"], np.ones(8))).rad >= 1e-9).all()


def test_a_floor_behind_exact_arithmetic_is_decided():
    """The index of a median is 0.5 (n - 1), floored."""
    x = RNG.normal(size=(5, 65))
    assert_agree(
        lambda x: (jnp.median(x, 1), jnp.floor(x[:, 0] * 0 + 0.5 * 64), jnp.floor(jnp.arange(9.0) / 2 + 0.5)), x
    )
