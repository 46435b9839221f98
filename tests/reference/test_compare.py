"""Comparisons and selection."""

from __future__ import annotations

import numpy as np
import pytest
from elements import FLOATS, INTEGERS, POLICY, apply, ball, draw
from jax import lax
from xla_cpu import assert_agree

from assay.hlo.shape import DTYPES
from assay.reference.value import Ball

pytestmark = pytest.mark.usefixtures("x64")

DIRECTIONS = ("eq", "ne", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda d: np.dtype(d).name)
def test_agrees(dtype):
    x = draw(dtype)
    y = np.where(np.arange(len(x)) % 3 == 0, x, draw(dtype, seed=1))
    for name in DIRECTIONS:
        assert_agree(getattr(lax, name), x, y, policy=POLICY)
    assert_agree(lambda x, y: lax.select(x > y, x, y), x, y, policy=POLICY)


def compared(direction, a, b, **attributes):
    return apply("compare", a, b, out="pred", attributes={"direction": direction, **attributes})


@pytest.mark.parametrize(
    ("direction", "answers"),
    [
        ("LT", [True, None, False, None]),
        ("GE", [False, None, True, None]),
        ("LE", [True, None, False, None]),
        ("EQ", [False, None, False, None]),
        ("NE", [True, None, True, None]),
    ],
)
def test_decided_where_balls_do_not_overlap(direction, answers):
    got = compared(direction, ball("f32", [0, 1, 3, 1], 0.25), ball("f32", [1, 1.25, 1, 1], 0.125))
    assert [None if u else bool(m) for m, u in zip(got.mid, got.und, strict=True)] == answers


def test_touching_balls_decide_strict_comparisons():
    got = compared("LT", ball("f32", [1.0], 0.5), ball("f32", [0.25], 0.25))
    assert got.und is None or not got.und.any()
    assert not got.mid[0]


def test_nan_and_itself():
    x = ball("f32", [np.nan, 1.0], 0.0)
    assert compared("NE", x, x).mid.tolist() == [True, False]
    inexact = ball("f32", [1.0, 2.0], 0.5)
    assert compared("NE", inexact, inexact).und is None  # x != x asks for NaN alone


def test_total_order():
    got = compared(
        "LT", ball("f32", [1, np.inf, np.nan, -0.0]), ball("f32", [np.nan, np.nan, 1, 0.0]), type="TOTALORDER"
    )
    assert got.mid[:3].tolist() == [True, True, False]
    assert got.und.tolist() == [False, False, False, True]


def pred(values, und):
    return Ball(DTYPES["pred"], np.array(values), None, np.array(und))


def test_an_undecided_predicate_gives_the_hull():
    got = apply(
        "select",
        pred([True, False, True], [True, False, True]),
        ball("f32", [1, 2, 5], 0.1),
        ball("f32", [3, 4, 5]),
        out="f32",
    )
    assert np.allclose(got.mid, [2, 4, 5])
    assert np.allclose(got.rad, [1.1, 0, 0.1])
    assert got.und is None or not got.und.any()


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
def test_a_hull_holds_both_whatever_their_sizes(dtype):
    rng = np.random.default_rng(5)
    one, other = (rng.normal(size=4000) * 10.0 ** rng.uniform(-37, 37, 4000) for _ in range(2))
    if dtype[0] == "c":
        one, other = one + 1j * rng.permutation(one), other + 1j * rng.permutation(other)
    a, b = (Ball(DTYPES[dtype], x) for x in (one, other))
    always = pred(np.ones(4000, bool), np.ones(4000, bool))
    got = apply("select", always, a, b, out=dtype)
    for x in (one, other):
        if dtype[0] == "c":
            assert (np.abs(got.mid - x) <= got.rad).all()
        else:  # as those do who ask for the ends in float64
            assert ((got.mid - got.rad <= x) & (x <= got.mid + got.rad)).all()


def test_an_undecided_predicate_of_integers():
    a, b = (Ball(DTYPES["s32"], np.array(v, np.int32)) for v in ([1, 2], [1, 3]))
    assert apply("select", pred([True, True], [True, True]), a, b, out="s32").und.tolist() == [False, True]


def test_an_undecided_predicate_between_number_and_nan():
    got = apply("select", pred([True], [True]), ball("f32", [np.nan]), ball("f32", [1.0]), out="f32")
    assert got.und.tolist() == [True]


def test_a_scalar_predicate():
    got = apply("select", Ball(DTYPES["pred"], np.array(False)), ball("f32", [1, 2]), ball("f32", [3, 4]), out="f32")
    assert got.mid.tolist() == [3, 4]


def test_taint_of_the_branch_not_taken_is_dropped():
    tainted = Ball(DTYPES["f32"], np.array([1.0]), None, np.array([True]))
    got = apply("select", Ball(DTYPES["pred"], np.array([False])), tainted, ball("f32", [2.0]), out="f32")
    assert not got.und.any()
