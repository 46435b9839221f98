"""Routines: XLA:CPU over the whole range, mpmath inside and corruptions outside, radii that hold, domains."""

from __future__ import annotations

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from elements import FLOATS, POLICY, apply, ball, draw
from jax import lax
from xla_cpu import assert_agree, hlo_text, outside, reference

from assay.reference.ops.transcendental import FUNCTIONS
from assay.reference.policies import XLA_CPU, XLA_CPU_OLDER, for_target

pytestmark = pytest.mark.usefixtures("x64")

LAX = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "tanh", "logistic", "sin", "cos", "tan", "erf",
    "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip


@pytest.mark.parametrize("name", LAX)
def test_agrees(name):
    function = getattr(lax, name)
    for dtype in FLOATS:
        assert_agree(function, draw(dtype), policy=POLICY, decided=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_two_operands_agree(dtype):
    x, y = draw(dtype), draw(dtype, seed=1)
    assert_agree(lax.atan2, x, y, policy=POLICY, decided=False)
    assert_agree(lax.pow, x, y, policy=POLICY, decided=False)


def test_loops_and_tails_agree():
    """XLA:CPU compiles scalars in a loop and odd tails by other code than vectors."""
    x = np.abs(draw(np.float32, 300))
    for name in ("exp", "tanh", "log1p", "cbrt", "rsqrt", "erf"):
        function = getattr(lax, name)
        assert_agree(lambda x, f=function: lax.map(f, x), x, policy=POLICY, decided=False)
        assert_agree(function, x[:7], policy=POLICY, decided=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("count", [1, 4, 15, 4000])
def test_an_angle_by_a_constant_agrees(dtype, count):
    """XLA:CPU has other code for atan2(x, 1) than for atan2(x, y): 5 ulps next to 2**-10, where it gives x."""
    x = (np.linspace(2.0**-12, 2.0**-9, count) * np.resize([1, -1], count)).astype(dtype)
    for by in (1, -1, 2):
        assert_agree(lambda x, by=by: lax.atan2(x, lax.full_like(x, by)), x, policy=POLICY, decided=False)
        assert_agree(lambda x, by=by: lax.atan2(lax.full_like(x, by), x), x, policy=POLICY, decided=False)


COMPOSITES = {
    "softmax": lambda x, y: jnp.exp(x - 3) / (jnp.exp(x - 3) + jnp.exp(y - 3)),
    "layer norm": lambda x, y: (x - y) / jnp.sqrt(x * x + y * y + 1e-5),
    "a/sqrt": lambda x, y: x / jnp.sqrt(jnp.abs(y) + 1),
    "log pow": lambda x, y: jnp.log((jnp.abs(x) + 0.1) ** y),
    "exp*exp": lambda x, y: jnp.exp(x) * jnp.exp(y),
    "exp/exp": lambda x, y: jnp.exp(x) / jnp.exp(y),
    "pow exp": lambda x, y: jnp.exp(x) ** y,
    "cube": lambda x, y: x**3.0 + y,
    "gelu": lambda x, y: x * 0.5 * (1 + lax.erf(y * 0.7)),
    "constants": lambda x, y: x * 3.3 * 7.7 + y / 3.3 / 7.7,
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_rewritings_agree(name):
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float16, jnp.bfloat16):
        x, y = ((rng.normal(size=4000) * 2).astype(dtype) for _ in range(2))
        assert_agree(COMPOSITES[name], x, y, policy=POLICY, decided=False)


TRUTH = {
    "exponential": mpmath.exp, "exponential-minus-one": mpmath.expm1, "exp2": lambda x: mpmath.mpf(2) ** x,
    "log": mpmath.log, "log-plus-one": mpmath.log1p, "log2": lambda x: mpmath.log(x, 2),
    "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "cbrt": mpmath.cbrt,
    "sine": mpmath.sin, "cosine": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh,
    "erf": mpmath.erf, "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
}  # fmt: skip
RANGES = {
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9)),
    **dict.fromkeys(("log", "log2", "sqrt", "rsqrt", "cbrt"), (0.01, 50)),
    "acosh": (1.2, 50),
    "log-plus-one": (-0.9, 50),
}


@pytest.mark.parametrize("opcode", sorted(TRUTH))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_truth_lies_in_the_ball(opcode, dtype):
    """Anywhere in the operand's ball, for radii from far below an ulp to a tenth of the value."""
    assert set(TRUTH) == set(FUNCTIONS)
    rng = np.random.default_rng(0)
    low, high = RANGES.get(opcode, (-9, 9))
    x = rng.uniform(low, high, 60)
    if dtype == "f32":
        x = x.astype(np.float32).astype(np.float64)
    r = np.abs(x) * 10.0 ** rng.uniform(-17, -1, 60)
    got = apply(opcode, ball(dtype, x, r))
    und = np.zeros(60, bool) if got.und is None else got.und
    assert und.mean() < 0.5
    with mpmath.workdps(40):
        for i in np.flatnonzero(~und):
            for share in (-1, -0.3, 0, 1):
                true = TRUTH[opcode](mpmath.mpf(float(x[i])) + share * mpmath.mpf(float(r[i])))
                assert abs(true - mpmath.mpf(float(got.mid[i]))) <= got.rad[i] * (1 + 1e-12), (x[i], r[i], share)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "rsqrt", "sqrt", "log1p"])
def test_corruptions_are_seen(name):
    x = np.random.default_rng(0).uniform(0.1, 4, 2000).astype(np.float32)
    function = getattr(lax, name)
    (got,) = reference(hlo_text(function, x), (x,), POLICY)
    clean = np.asarray(function(x)).astype(np.float64)
    assert not outside(got, clean).any()
    assert outside(got, clean * (1 + 64 * 2.0**-23)).mean() > 0.99


def test_powers_in_balls():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 5, 200), rng.choice([-2, -1, 0, 1, 2, 3, 0.5, 2.7], 200)
    rx, ry = x * 10.0 ** rng.uniform(-9, -1, 200), np.where(y == np.rint(y), 0, 1e-3)
    x = np.where((y == np.rint(y)) & (rng.random(200) < 0.5), -x, x)
    got = apply("power", ball("f32", x, rx), ball("f32", y, ry))
    assert got.und is None or not got.und.any()
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            with np.errstate(invalid="ignore"):
                true = np.power(x + dx * rx, y + dy * ry)
            assert (np.abs(true - got.mid) <= got.rad * (1 + 1e-9)).all()


def test_powers_at_the_edges():
    def power(a, b, ra=0.0, rb=0.0):
        return apply("power", ball("f32", [a], ra), ball("f32", [b], rb))

    assert power(-2, 3).mid[0] == -8
    assert np.isnan(power(-2, 0.5).mid[0])
    assert power(0.0, 0).mid[0] == 1
    assert power(-np.inf, 0.5).und.tolist() == [True]  # a square root would give NaN
    assert power(1, np.nan).und.tolist() == [True]
    for radius, open_ in ((0.2, True), (0.05, False)):  # 1 and 0 are not only where the midpoint is
        assert bool(np.any(power(1.1, np.nan, radius).und)) == open_
        assert bool(np.any(power(np.nan, -0.1, 0.0, radius).und)) == open_
    assert power(0.0, -1, 0.1).und.tolist() == [True]
    assert not power(0.1, 2, 0.5).und
    assert power(-0.1, 0.5, 0.5).und.tolist() == [True]


def test_domains():
    got = apply("log", ball("f32", [0.0, -1.0, 0.1, -3.0, np.inf], [0, 0, 0.2, 0.5, 0]))
    assert got.und.tolist() == [False, False, True, False, False]
    assert got.mid[0] == -np.inf
    assert np.isnan(got.mid[[1, 3]]).all()
    assert apply("sqrt", ball("f32", [0.0])).mid[0] == 0
    assert apply("sqrt", ball("f32", [0.01], 0.1)).und.tolist() == [True]
    assert apply("rsqrt", ball("f32", [-0.0])).und.tolist() == [True]
    assert apply("tan", ball("f32", [np.pi / 2], 1e-3)).und.tolist() == [True]


def test_overflow_is_decided_or_marked():
    got = apply("exponential", ball("f32", [100.0, 88.722839, 80.0]))
    assert got.mid[0] == np.inf
    assert got.und.tolist() == [False, True, False]
    assert apply("exponential", ball("f64", [709.8], 0.5)).und.tolist() == [True]


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64, jnp.float8_e5m2])
def test_the_logistic_vanishes_where_its_exponential_overflows(dtype):
    edge = -float(np.log(np.float64(jnp.finfo(dtype).max)))
    x = (edge * np.linspace(0.8, 1.3, 200)).astype(dtype)
    (ball,) = assert_agree(lax.logistic, x, decided=False)
    if dtype == jnp.float16:
        given = x.astype(np.float64)
        assert not outside(ball, np.where(given < 1.001 * edge, 0.0, ball.mid).astype(dtype)).any()
        kept = given > 0.999 * edge
        assert (ball.rad[kept] < 0.1 * ball.mid[kept]).all()


def test_atan2_crosses_its_cut():
    got = apply("atan2", ball("f32", [1e-9, 1.0, 0.0, -0.0], [1e-8, 0.1, 0, 0]), ball("f32", [-1.0, -1.0, -1.0, -1.0]))
    assert got.und.tolist() == [True, False, False, True]


def test_policies():
    assert for_target("cpu", "0.12.0.1") is XLA_CPU
    assert for_target("cpu", "0.4.30") is XLA_CPU_OLDER
    assert for_target("cpu") is XLA_CPU_OLDER
    for opcode, row in XLA_CPU.ulps.items():
        for dtype, ulps in row.items():
            assert XLA_CPU_OLDER.ulps[opcode][dtype] >= ulps, (opcode, dtype)


WIDE = np.array([0.0, 0.3, 1.0, 5.0, 60.0, 400.0, 1e3, 1e5, 1e20, 1e36])


@pytest.mark.parametrize("opcode", [*sorted(FUNCTIONS), "power", "divide", "multiply", "subtract", "remainder"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_wide_balls_hold_every_value_or_are_undecided(opcode, dtype):
    """exp([-1e35, 1e35]) once was 0 for certain: its radius, 0 times infinity, was taken for none."""
    x, r, y = (a.ravel() for a in np.meshgrid(np.concatenate([WIDE, -WIDE]), WIDE, [-3.0, 0.5, 1e20, 2.0]))
    two = opcode not in FUNCTIONS
    function = {
        "power": np.power, "divide": np.divide, "multiply": np.multiply, "subtract": np.subtract, "remainder": np.fmod
    }.get(opcode)  # fmt: skip
    for ry in (0.0, 1e-3, 1e19) if two else (None,):
        got = apply(opcode, ball(dtype, x, r), *([ball(dtype, y, ry)] if two else []))
        decided = np.ones(x.shape, bool) if got.und is None else ~got.und
        rad = np.zeros(x.shape) if got.rad is None else got.rad
        limit, least = got.dtype.max, 2.0 ** (got.dtype.min_exponent - got.dtype.mantissa - 1)
        with np.errstate(all="ignore"):
            for share in np.linspace(-1, 1, 9):
                a = x + share * r
                value = function(a, y + share * ry) if two else FUNCTIONS[opcode].value(a)
                value = np.where(np.abs(value) > limit, np.copysign(np.inf, value), value)
                held = np.abs(value - got.mid) <= rad * (1 + 1e-9) + 4e-16 * np.abs(got.mid) + least
                held |= (value == got.mid) | (np.isnan(value) & np.isnan(got.mid))
                wrong = decided & ~held
                assert not wrong.any(), (x[wrong][0], r[wrong][0], y[wrong][0], ry, value[wrong][0], got.mid[wrong][0])
