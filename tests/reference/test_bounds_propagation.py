"""The propagation rules of docs/bounds.md: whatever the operands are within their balls, the true result and the
rounded one are in the result's ball, or the element is undecided. In rational arithmetic and mpmath.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from elements import apply, ball
from exact import fraction, holds, nearest, undecided
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_bounds_rounding import OPERATIONS, TYPES, values

from assay.hlo.shape import DTYPES
from assay.reference.ops.complex import FUNCTIONS as COMPLEX
from assay.reference.ops.transcendental import FUNCTIONS
from assay.reference.policy import Policy

SHARES = (Fraction(-1), Fraction(-1, 3), Fraction(0), Fraction(1, 2), Fraction(1))
EXACT = Policy("exact routines", ulps={name: dict.fromkeys(DTYPES, 0.0) for name in (*FUNCTIONS, "atan2", "power")})


def _truncated_remainder(a: Fraction, b: Fraction) -> Fraction:
    whole = int(a / b)  # toward zero
    return a - whole * b


def _half_even(x: Fraction) -> Fraction:
    return Fraction(round(x))


EXACT_UNARY = {
    "negate": lambda x: -x,
    "abs": abs,
    "sign": lambda x: Fraction((x > 0) - (x < 0)),
    "floor": lambda x: Fraction(x.__floor__()),
    "ceil": lambda x: Fraction(x.__ceil__()),
    "round-nearest-even": _half_even,
    "round-nearest-afz": lambda x: Fraction(int(abs(x) + Fraction(1, 2))) * ((x > 0) - (x < 0)),
}
EXACT_BINARY = {**OPERATIONS, "remainder": _truncated_remainder, "maximum": max, "minimum": min}


def radii(x: float) -> st.SearchStrategy[float]:
    """From far below an ulp of x to twice its size; zero too."""
    return st.one_of(
        st.just(0.0), st.floats(-20, 0.3).map(lambda e: abs(x) * 10.0**e), st.floats(-9, 0.3).map(lambda e: 10.0**e)
    )


@st.composite
def balls(draw):
    dtype = draw(st.sampled_from(TYPES))
    ordinary = st.integers(-4096, 4096).map(lambda n: n / 64)
    x = draw(st.one_of(ordinary, values(dtype).filter(lambda v: 1e-4 < abs(v) < 1e4)))
    return x, draw(radii(x))


@settings(max_examples=60, deadline=None)
@given(balls(), balls(), st.sampled_from(sorted(EXACT_BINARY)))
def test_two_operands(first, second, opcode):
    (a, ra), (b, rb) = first, second
    got = apply(opcode, ball("f32", [a], ra), ball("f32", [b], rb))
    function = EXACT_BINARY[opcode]
    for da in SHARES:
        for db in SHARES:
            x, y = fraction(a) + da * fraction(ra), fraction(b) + db * fraction(rb)
            if y == 0 and opcode in ("divide", "remainder"):
                assert undecided(got) or not np.isfinite(got.mid[0])
                continue
            true = function(x, y)
            assert holds(got, true), (x, y)
            if opcode in OPERATIONS:
                assert holds(got, nearest(true, "f32") or true), (x, y)


@pytest.mark.parametrize(
    ("a", "ra", "b", "rb"),
    [
        (32.0, 1.0, 9.0078125, 1.0),
        (3.0, 0.0, 3.5, 1.0),
        (-7.0, 0.5, 3.5, 0.25),
        (7.0, 0.0, 2.0, 0.0),
        (5.0, 0.25, 7.0, 1.0),
    ],
)
def test_a_remainder_jumps_where_the_quotient_does(a, ra, b, rb):
    """Also where only the divisor moves, or moves with the remainder."""
    got = apply("remainder", ball("f32", [a], ra), ball("f32", [b], rb))
    counts = {int((a + da * ra) / (b + db * rb)) for da in (-1, 1) for db in (-1, 1)}
    assert undecided(got) == (len(counts) > 1)


@settings(max_examples=60, deadline=None)
@given(balls(), st.sampled_from(sorted(EXACT_UNARY)))
def test_one_operand(operand, opcode):
    """Where a sign or a whole number depends on the error, the element says so."""
    x, r = operand
    assume(r == 0 or (x - r != x and x + r != x))  # no number lies that near another
    got = apply(opcode, ball("f32", [x], r))
    for share in SHARES:
        assert holds(got, EXACT_UNARY[opcode](fraction(x) + share * fraction(r)))


@settings(max_examples=50, deadline=None)
@given(balls(), balls(), balls())
def test_clamp(low, x, high):
    assume(low[0] <= high[0])
    got = apply("clamp", *(ball("f32", [mid], rad) for mid, rad in (low, x, high)))
    for a in SHARES:
        for b in SHARES:
            for c in SHARES:
                bottom, at, top = (
                    fraction(mid) + share * fraction(rad)
                    for (mid, rad), share in zip((low, x, high), (a, b, c), strict=True)
                )
                assert holds(got, min(max(bottom, at), top))


COMPARISONS = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(balls(), balls(), st.sampled_from(sorted(COMPARISONS)))
def test_comparisons_are_decided_or_open(first, second, direction):
    (a, ra), (b, rb) = first, second
    assume(all(r == 0 or (x - r != x and x + r != x) for x, r in (first, second)))  # no number lies that near another
    got = apply("compare", ball("f32", [a], ra), ball("f32", [b], rb), out="pred", attributes={"direction": direction})
    answers = {
        COMPARISONS[direction](fraction(a) + da * fraction(ra), fraction(b) + db * fraction(rb))
        for da in SHARES
        for db in SHARES
    }
    assert undecided(got) or answers == {bool(got.mid[0])}


@settings(max_examples=50, deadline=None)
@given(balls(), st.sampled_from(("s32", "u8", "s8", "pred")))
def test_conversions_to_integers_are_decided_or_open(operand, to):
    x, r = operand
    assume(r == 0 or (x - r != x and x + r != x))
    got = apply("convert", ball("f32", [x], r), out=to)
    found = set()
    for share in SHARES:
        at = fraction(x) + share * fraction(r)
        if to == "pred":
            found.add(int(at != 0))
        else:
            low, high = (0, 255) if to == "u8" else (-(2 ** (int(to[1:]) - 1)), 2 ** (int(to[1:]) - 1) - 1)
            found.add(min(max(int(at), low), high))
    assert undecided(got) or found == {int(got.mid[0])}


@settings(max_examples=60, deadline=None)
@given(balls(), balls(), balls(), balls())
def test_select_by_an_open_predicate(left, right, a, b):
    """The hull of both branches where the predicate is open, one of them elsewhere."""
    (x, rx), (y, ry) = left, right
    assume(all(r == 0 or (x - r != x and x + r != x) for x, r in (left, right)))
    pred = apply("compare", ball("f32", [x], rx), ball("f32", [y], ry), out="pred", attributes={"direction": "LT"})
    got = apply("select", pred, ball("f32", [a[0]], a[1]), ball("f32", [b[0]], b[1]), out="f32")
    for da in SHARES:
        for db in SHARES:
            chosen = a if fraction(x) + da * fraction(rx) < fraction(y) + db * fraction(ry) else b
            for share in SHARES:
                assert holds(got, fraction(chosen[0]) + share * fraction(chosen[1]))


# ---------------------------------------------------------------- functions

TRUTH = {
    "exponential": mpmath.exp, "exponential-minus-one": mpmath.expm1, "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log, "log-plus-one": mpmath.log1p, "log2": lambda x: mpmath.log(x, 2),
    "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "sine": mpmath.sin, "cosine": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh,
    "erf": mpmath.erf, "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
}  # fmt: skip


def _inside_the_ball(got, i, true, size=0.0):
    mid = complex(got.mid[i]) if np.iscomplexobj(got.mid) else float(got.mid[i])
    if not np.isfinite(mid):
        return mid != mid or abs(true) > 1.7e308
    rad = 0.0 if got.rad is None else float(got.rad[i])
    own = 2.0**-48 * max(abs(mid), size)  # the midpoint is a float64 computation
    return abs(true - mpmath.mpmathify(mid)) <= rad * (1 + 1e-9) + own


@pytest.mark.parametrize("opcode", sorted(TRUTH))
def test_functions_of_balls(opcode):
    """With routines that make no error at all, so that the propagated radius stands alone; radii up to three times the
    operand, from subnormal operands to ones that overflow.
    """
    assert set(TRUTH) == set(FUNCTIONS)
    rng = np.random.default_rng(len(opcode))
    n = 25
    x = np.concatenate([rng.uniform(-9, 9, n), rng.uniform(-1.1, 1.1, n), 2.0 ** rng.uniform(-40, 8, n)])
    x = x.astype(np.float32).astype(np.float64)
    r = np.abs(x) * 10.0 ** rng.uniform(-14, 0.5, len(x))
    got = apply(opcode, ball("f64", x, r), policy=EXACT)
    und = np.zeros(len(x), bool) if got.und is None else got.und
    with mpmath.workdps(30):
        for i in np.flatnonzero(~und):
            for share in (-1, -0.5, 0.1, 1):
                true = TRUTH[opcode](mpmath.mpf(float(x[i])) + share * mpmath.mpf(float(r[i])))
                if isinstance(true, mpmath.mpc):
                    assert np.isnan(got.mid[i]), "outside the domain for certain"
                    continue
                assert _inside_the_ball(got, i, true), (x[i], r[i], share)


@pytest.mark.parametrize("opcode", ["atan2", "power"])
def test_functions_of_two_balls(opcode):
    rng = np.random.default_rng(1)
    n = 80
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 1, n)
    y = rng.normal(size=n) * 3 if opcode == "atan2" else rng.choice([-2, -1, 0, 0.5, 1, 2, 3, 1.7], n)
    if opcode == "power":
        x = np.where(y == np.rint(y), x, np.abs(x))
    rx = np.abs(x) * 10.0 ** rng.uniform(-12, 0.2, n)
    ry = np.where(rng.random(n) < 0.5, 0.0, np.abs(y) * 10.0 ** rng.uniform(-12, -0.5, n))
    got = apply(opcode, ball("f64", x, rx), ball("f64", y, ry), policy=EXACT)
    und = np.zeros(n, bool) if got.und is None else got.und
    assert und.mean() < 0.6
    truth = mpmath.atan2 if opcode == "atan2" else mpmath.power
    with mpmath.workdps(30):
        for i in np.flatnonzero(~und):
            for dx in (-1, 0.3, 1):
                for dy in (-1, 0.3, 1):
                    a, b = mpmath.mpf(x[i]) + dx * mpmath.mpf(rx[i]), mpmath.mpf(y[i]) + dy * mpmath.mpf(ry[i])
                    assert _inside_the_ball(got, i, truth(a, b)), (x[i], rx[i], y[i], ry[i], dx, dy)


COMPLEX_TRUTH = {
    "exponential": mpmath.exp, "exponential-minus-one": lambda z: mpmath.exp(z) - 1, "log": mpmath.log,
    "log-plus-one": lambda z: mpmath.log(1 + z), "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "tanh": mpmath.tanh, "tan": mpmath.tan, "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "sine": mpmath.sin, "cosine": mpmath.cos,
}  # fmt: skip


@pytest.mark.parametrize("opcode", sorted(COMPLEX_TRUTH))
def test_functions_of_disks(opcode):
    assert set(COMPLEX_TRUTH) == set(COMPLEX)
    rng = np.random.default_rng(len(opcode))
    n = 25
    z = (rng.normal(size=n) + 1j * rng.normal(size=n)) * 10.0 ** rng.uniform(-2, 0.5, n)
    r = np.abs(z) * 10.0 ** rng.uniform(-10, 0, n)
    got = apply(opcode, ball("c128", z, r), policy=EXACT)
    und = np.zeros(n, bool) if got.und is None else got.und
    assert und.mean() < 0.7
    with mpmath.workdps(30):
        for i in np.flatnonzero(~und):
            for angle in np.linspace(0, 2 * np.pi, 7):
                at = mpmath.mpc(complex(z[i])) + mpmath.mpf(float(r[i])) * mpmath.expjpi(angle / np.pi)
                assert _inside_the_ball(got, i, COMPLEX_TRUTH[opcode](at), 1.0), (z[i], r[i], angle)
