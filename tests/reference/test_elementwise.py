"""Arithmetic: XLA:CPU's results and every legal evaluation lie in the ball, small corruptions do not; integers by
hand.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from elements import FLOATS, INTEGERS, POLICY, apply, ball, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from xla_cpu import assert_agree, hlo_text, outside, reference

from assay.hlo.shape import DTYPES
from assay.reference.value import Ball, from_array

pytestmark = pytest.mark.usefixtures("x64")

BINARY = ("add", "sub", "mul", "div", "rem", "max", "min")
UNARY = ("abs", "neg", "sign", "floor", "ceil")


def names(dtype):
    return np.dtype(dtype).name


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
@pytest.mark.parametrize("name", BINARY)
def test_float_binary_agrees(name, dtype):
    assert_agree(getattr(lax, name), draw(dtype), draw(dtype, seed=1), policy=POLICY, decided=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
def test_float_unary_agrees(dtype):
    x = draw(dtype)
    for name in UNARY:
        assert_agree(getattr(lax, name), x, policy=POLICY, decided=False)
    assert_agree(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), x, policy=POLICY)
    assert_agree(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), x, policy=POLICY)
    assert_agree(lax.clamp, draw(dtype, seed=1), x, draw(dtype, seed=2), policy=POLICY)
    assert_agree(lax.is_finite, x, policy=POLICY)


@pytest.mark.parametrize("dtype", INTEGERS, ids=names)
def test_integer_operations_agree(dtype):
    x, y = draw(dtype), draw(dtype, seed=1)
    for name in (*BINARY, "bitwise_and", "bitwise_or", "bitwise_xor"):
        assert_agree(getattr(lax, name), x, y, decided=name != "div")
    amount = (np.abs(y.astype(np.int64)) % 70).astype(dtype)
    for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
        assert_agree(getattr(lax, name), x, amount)
    for name in (
        "bitwise_not",
        "population_count",
        "clz",
        "sign",
        *(("abs", "neg") if np.dtype(dtype).kind == "i" else ()),
    ):
        assert_agree(getattr(lax, name), x)


INTEGER_RULES = [
    ("divide", "s32", [7, -7, 7, -7, 5, -(2**31), 0], [2, 2, -2, -2, 0, -1, 0], [3, -3, -3, 3, -1, -(2**31), -1]),
    ("remainder", "s32", [7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1], [1, -1, 1, -1, 5, 0]),
    ("divide", "u8", [5, 255], [0, 2], [255, 127]),
    ("divide", "s4", [-8, 7, 3], [-1, -2, 0], [-8, -3, -1]),
    ("add", "s4", [7, -8], [1, -1], [-8, 7]),
    ("multiply", "u4", [15, 5], [15, 3], [1, 15]),
    ("shift-left", "s8", [-1, -1, -1], [7, 8, -1], [-128, 0, 0]),
    ("shift-right-arithmetic", "s8", [-128, -128, 64], [3, 100, 100], [-16, -1, 0]),
    ("shift-right-arithmetic", "u8", [200, 100], [1, 9], [228, 0]),
    ("shift-right-logical", "s4", [-1, -1], [1, 4], [7, 0]),
    ("power", "s32", [2, 2, -1, -1, 1, 0, 3], [10, -1, -1, -2, -5, 0, 40], [1024, 0, -1, 1, 1, 1, 689956897]),
    ("mulhi", "s32", [2**30, -(2**31), -1], [8, -(2**31), 1], [2, 2**30, -1]),
    ("mulhi", "u64", [2**63, 2**64 - 1], [2, 2**64 - 1], [1, 2**64 - 2]),
    ("mulhi", "s64", [-1, -(2**63)], [1, -(2**63)], [-1, 2**62]),
    ("maximum", "s8", [-3, 5], [2, 4], [2, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "dtype", "a", "b", "want"), INTEGER_RULES)
def test_integer_rules(opcode, dtype, a, b, want):
    held = np.dtype(f"{'int' if dtype[0] == 's' else 'uint'}{max(8, int(dtype[1:]))}")
    got = apply(opcode, *(from_array(DTYPES[dtype], np.array(v, held)) for v in (a, b)))
    assert got.mid.tolist() == want
    neither = [opcode == "divide" and x == y == 0 for x, y in zip(a, b, strict=True)]
    assert got.exact if not any(neither) else got.und.tolist() == neither


def test_unary_integer_rules():
    def ints(*v):
        return from_array(DTYPES["s8"], np.array(v, np.int8))

    assert apply("abs", ints(-128, -3)).mid.tolist() == [-128, 3]
    assert apply("negate", ints(-128, 3)).mid.tolist() == [-128, -3]
    assert apply("count-leading-zeros", ints(0, 1, -1)).mid.tolist() == [8, 7, 0]
    assert apply("popcnt", ints(0, 7, -1)).mid.tolist() == [0, 3, 8]


def rounded_float32(q: Fraction) -> Fraction:
    """The nearest float32, ties to even: exact arithmetic."""
    if q == 0:
        return q
    size, shift = abs(q), 0
    while size >= 1 << 24:
        size, shift = size / 2, shift + 1
    while size < 1 << 23:
        size, shift = size * 2, shift - 1
    return (1 if q > 0 else -1) * Fraction(round(size)) * Fraction(2) ** shift


small = st.integers(-(2**12), 2**12).map(lambda n: n / 256)
OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}


@settings(max_examples=150, deadline=None)
@given(small, small, st.integers(0, 40), st.integers(0, 40), st.sampled_from(sorted(OPERATIONS)))
def test_bounds_hold_in_exact_arithmetic(a, b, ra, rb, opcode):
    """Every corner of the operands' balls, in exact arithmetic and rounded, lies in the result's ball."""
    ra, rb = ra / 4096, rb / 4096
    got = apply(opcode, ball("f32", [a], ra), ball("f32", [b], rb))
    if got.und is not None and got.und.any():
        assert opcode == "divide"
        assert abs(b) <= rb
        return
    for da, db in product((-1, 0, 1), repeat=2):
        x, y = Fraction(a) + da * Fraction(ra), Fraction(b) + db * Fraction(rb)
        if opcode == "divide" and y == 0:
            continue
        true = OPERATIONS[opcode](x, y)
        rad = Fraction(0) if got.rad is None else Fraction(float(got.rad[0]))
        assert abs(true - Fraction(float(got.mid[0]))) <= rad * (1 + Fraction(1, 10**12))
        assert abs(rounded_float32(true) - Fraction(float(got.mid[0]))) <= rad * (1 + Fraction(1, 10**12))


def test_legal_rewritings_lie_in_the_ball():
    """Products with a rounded reciprocal, contracted products and sums, and sums grouped anew, in NumPy's float32."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=20000).astype(np.float32) for _ in range(3))
    f32 = [from_array(DTYPES["f32"], v) for v in (a, b, c)]
    quotient = apply("divide", f32[0], f32[1])
    assert not outside(quotient, a * (np.float32(1) / b)).any()
    fused = apply("add", apply("multiply", f32[0], f32[1]), f32[2])
    assert not outside(fused, (a.astype(np.float64) * b + c).astype(np.float32)).any()
    assert not outside(fused, a * b + c).any()
    (grouped,) = reference(hlo_text(lambda a, b, c: a * b * c, a, b, c), (a, b, c), POLICY)
    assert not outside(grouped, a * (b * c)).any()
    for name, got in (("quotient", quotient), ("fused", fused), ("grouped", grouped)):
        honest = 2.0**-23 * np.abs(got.mid)
        assert np.median(got.rad / honest) < 8, name


def test_constants_are_put_together():
    """(x + c) + d -> x + (c + d) and (x c) d -> x (c d), where the first form is exact or nearly so and the second not;
    also by way of subtractions, and as XLA:CPU does it.
    """
    f32 = np.float32
    c, d = f32(1) + f32(2.0**-23), f32(2.0**-24) + f32(2.0**-40)
    x = np.concatenate([np.full(50, -c), -c * (1 + np.arange(50, dtype=f32) * f32(2.0**-22))]).astype(f32)
    for signs in product((1, -1), repeat=2):
        first, second = f32(signs[0]) * c, f32(signs[1]) * d
        got = assert_agree(lambda x, c=first, d=second: x + c + d, x, policy=POLICY)[0]
        assert not outside(got, x + (first + second)).any()
        got = assert_agree(lambda x, c=first, d=second: (x - -c) - -d, x, policy=POLICY)[0]
        assert not outside(got, x + (first + second)).any()
    x = np.random.default_rng(0).normal(size=2000).astype(f32)
    got = assert_agree(lambda x: x * f32(3) * f32(1.1), x, policy=POLICY)[0]
    assert not outside(got, x * (f32(3) * f32(1.1))).any()
    got = assert_agree(lambda x: (x * f32(3)) * (x * f32(1.1)), x, policy=POLICY)[0]
    assert not outside(got, (x * x) * (f32(3) * f32(1.1))).any()


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32], ids=names)
def test_divisions_by_constants_agree(dtype):
    """As products with a rounded reciprocal, subnormal ones in f16."""
    x = (np.random.default_rng(0).normal(size=3000) * 100).astype(dtype)
    for c in (60000.0, 33333.0, 20000.0, 7.0, 3.0, 0.3, 1e-3):
        assert_agree(lambda x, c=c: x / x.dtype.type(c), x, policy=POLICY, decided=False)
    ones = np.ones(3000, dtype)
    assert_agree(lambda a, b: a / (b + b.dtype.type(3)), ones, x, policy=POLICY, decided=False)


def test_exact_cases_have_no_radius():
    whole = from_array(DTYPES["f32"], np.arange(-50, 50, dtype=np.float32))
    two = from_array(DTYPES["f32"], np.full(100, 8, np.float32))
    for opcode in ("add", "subtract", "multiply", "divide", "maximum"):
        assert apply(opcode, whole, two).rad is None or not apply(opcode, whole, two).rad.any(), opcode


@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16], ids=names)
def test_corruptions_are_seen(dtype):
    x, y = (np.random.default_rng(i).normal(size=500).astype(dtype) for i in range(2))
    for function in (lax.add, lax.mul, lax.div, lambda a, b: a * b + a, lambda a, b: a / b - b):
        (got,) = reference(hlo_text(function, x, y), (x, y), POLICY)
        clean = np.asarray(function(x, y)).astype(np.float64)
        ulp = 2.0 * np.abs(clean) * 2.0 ** -(DTYPES[got.dtype.name].mantissa + 1)
        assert not outside(got, clean).any()
        assert outside(got, clean + 64 * ulp).mean() > 0.85
        assert outside(got, np.roll(clean, 1)).mean() > 0.9


def test_signs_of_zeros_are_not_trusted():
    one, zeros = ball("f32", [1, 1, 0]), ball("f32", [0.0, -0.0, 0.0])
    got = apply("divide", one, zeros)
    assert got.und.tolist() == [False, True, False]
    assert got.mid[0] == np.inf
    assert np.isnan(got.mid[2])
    assert np.signbit(apply("add", ball("f32", [-0.0]), ball("f32", [0.0])).mid[0])  # x + 0 -> x


def test_infinity_times_zero():
    infinite = ball("f32", [np.inf] * 4)
    small_ball = apply("exponential", ball("f32", [-110.0, -100.0, 0.0, -200.0]))
    got = apply("multiply", infinite, small_ball)
    assert np.isnan(got.mid[[0, 3]]).all()  # tensorflow#123169: it rounds to zero for sure
    assert got.und.tolist() == [False, True, False, False]  # a subnormal may be flushed
    assert got.mid[2] == np.inf


def test_extremes_of_balls():
    got = apply("maximum", ball("f32", [0, 5, 1], 1.0), ball("f32", [0.5, 0, 10], 1.0))
    assert np.allclose(got.mid, [0.5, 5, 10])
    assert np.allclose(got.rad, [1, 1, 1])
    assert np.isnan(apply("maximum", ball("f32", [np.nan]), ball("f32", [1.0])).mid[0])


def test_discontinuities():
    x = ball("f32", [0.5, 2.01, 3.0], 0.1)
    assert apply("floor", x).und.tolist() == [False, True, True]
    assert apply("round-nearest-even", x).und.tolist() == [True, False, False]
    assert apply("sign", ball("f32", [0.05, 2.0], 0.1)).und.tolist() == [True, False]
    assert apply("floor", ball("f32", [3.0])).exact
    assert apply("remainder", ball("f32", [5.5, 6.0], 0.1), ball("f32", [2.0, 2.0])).und.tolist() == [False, True]


def test_round_half_away_is_exact_next_to_a_half():
    below = np.nextafter(0.5, 0)
    assert apply("round-nearest-afz", ball("f64", [below, 0.5, -2.5])).mid.tolist() == [0, 1, -3]


def test_undecided_predicates_are_settled_by_the_other():
    pred = DTYPES["pred"]
    a = Ball(pred, np.array([True, False]), None, np.array([True, True]))
    b = Ball(pred, np.array([False, True]))
    assert apply("and", a, b).und.tolist() == [False, True]
    assert apply("or", a, b).und.tolist() == [True, False]


def test_blocks_give_what_whole_arrays_give():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(3, 70000)).astype(np.float32) for _ in range(2))
    whole = [from_array(DTYPES["f32"], v) for v in (a, b)]
    got = apply("divide", *whole)
    part = apply("divide", *(from_array(DTYPES["f32"], v[1, 40000:41000]) for v in (a, b)))
    assert np.array_equal(got.mid[1, 40000:41000], part.mid)
    assert np.array_equal(got.rad[1, 40000:41000], part.rad)
    assert apply("multiply", whole[0], whole[0]).dims == (3, 70000)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_a_quotient_of_equal_integers_may_be_simplified(dtype):
    """XLA makes x / x one for every x, although 0 / 0 is -1 elsewhere."""
    x = np.array([0, 3, -1 if dtype[0] == "i" else 1], dtype)
    (ball,) = assert_agree(lambda x: lax.div(x, x), x, decided=False)
    assert ball.und.tolist() == [True, False, False]
