"""The rule for sampled bounds of docs/bounds.md: legal evaluations of deep graphs lie within the spread of the sampled
runs, and wrong ones do not.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from elements import POLICY
from jax import lax
from xla_cpu import hlo_text, run_hlo

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES, ArrayShape
from assay.oracle.compare import compare_output
from assay.reference.evaluator import evaluate
from assay.reference.policy_tpu import TPU_V5E
from assay.reference.sampled import Sampling, _bound, _Spread
from assay.reference.value import Ball, as_ball

LAYERS = 10


def network(dtype):
    def run(x, *weights):
        for w in weights:
            x = jnp.tanh(lax.dot(x, w)) + x * dtype(0.5)
            x = x - lax.reduce(x, dtype(0), lax.add, (1,))[:, None] / dtype(x.shape[1])
        return x

    return run


def emulated(x, weights, dtype, step, reverse):
    """In NumPy: every operation rounded to `step`, dots summed in f32 from either end, the result in `dtype`."""

    def rounded(v):
        return v.astype(step).astype(np.float64)

    x = x.astype(np.float64)
    for w in weights:
        total = np.zeros((len(x), w.shape[1]), np.float32)
        columns = range(w.shape[0])
        for k in reversed(columns) if reverse else columns:
            total = total + (x[:, k, None] * w.astype(np.float64)[k]).astype(np.float32)
        x = rounded(rounded(np.tanh(rounded(total))) + rounded(x * 0.5))
        total = np.zeros(len(x), step)
        for k in range(x.shape[1]):
            total = total + x[:, k].astype(step)
        x = rounded(x - rounded(total.astype(np.float64) / x.shape[1])[:, None])
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16], ids=["f32", "bf16"])
def test_legal_runs_lie_within_the_spread(dtype):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(24, 32)).astype(dtype)
    weights = [(rng.normal(size=(32, 32)) / 5).astype(dtype) for _ in range(LAYERS)]
    text = hlo_text(network(dtype), x, *weights)
    module = parse_module(text)
    sampling = Sampling(module, [x, *weights], POLICY)
    early = []
    for _ in range(12):
        sampling.more()
        early.append(sampling.least(12))
    (ball,) = sampling.bounds()
    for (less,) in early:  # what few runs say of all is never too much
        assert (as_ball(less).rad <= as_ball(ball).rad).all()
        assert (as_ball(less).mid == as_ball(ball).mid).all()
    shape = ArrayShape(as_ball(ball).dtype, x.shape)
    legal = [emulated(x, weights, dtype, step, reverse) for step in {np.float32, dtype} for reverse in (False, True)]
    legal += [run_hlo(text, [x, *weights])[0], run_hlo(text, [x, *weights], xla_backend_optimization_level=0)[0]]
    for result in legal:
        assert compare_output(as_ball(ball), np.asarray(result), shape).outside == 0
    # It says more than the radii do, and enough to see one weight that is missing.
    radii = as_ball(evaluate(module, [x, *weights], POLICY).value)
    assert np.median(as_ball(ball).rad) < 0.3 * np.median(radii.rad)
    missing = [*weights[:-1], np.where(np.eye(32) > 0, 0, weights[-1].astype(np.float64)).astype(dtype)]
    wrong = emulated(x, missing, dtype, dtype, False)
    assert compare_output(as_ball(ball), wrong, shape).outside > x.size / 8


@pytest.mark.parametrize("terms", [8, 64, 512])
def test_products_of_a_tpu_are_off_as_their_operands_are(terms):
    """f32 operands kept to bf16, whichever way they are rounded: inside, by a bound no wider than that needs."""
    rng = np.random.default_rng(terms)
    a, b = rng.normal(size=(64, terms)).astype(np.float32), rng.normal(size=(terms, 64)).astype(np.float32)
    module = parse_module(hlo_text(lambda x, y: lax.dot(x, y), a, b))
    sampling = Sampling(module, [a, b], TPU_V5E)
    for _ in range(12):
        sampling.more()
    ball = as_ball(sampling.bounds()[0])

    def cut(x, way):
        bits = x.view(np.uint32).astype(np.uint64)
        if way == "nearest":
            return x.astype(jnp.bfloat16).astype(np.float64)
        return (bits + (0xFFFF if way == "away" else 0) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(float)

    for way in ("nearest", "towards zero", "away"):
        off = np.abs(cut(a, way) @ cut(b, way) - a.astype(float) @ b.astype(float))
        assert (off <= ball.rad).mean() > 0.999
        assert (off <= 1.5 * ball.rad).all()
    nearest = np.abs(cut(a, "nearest") @ cut(b, "nearest") - a.astype(float) @ b.astype(float))
    assert np.median(ball.rad) < 40 * np.sqrt(np.square(nearest).mean())


@pytest.mark.parametrize(
    ("dtype", "low", "high", "asked"),
    [
        (jnp.bfloat16, 0.99, 1.01, lambda y: jnp.where(y == 1, 5.0, 2.0)),
        (jnp.float16, 0.999, 1.001, lambda y: jnp.where(y == 1, 5.0, 2.0)),
        (jnp.float8_e5m2, -1e-4, 1e-4, lambda y: jnp.ceil(jnp.abs(y).astype(jnp.float32))),
        (jnp.float8_e5m2, -1e-4, 1e-4, lambda y: jnp.where(y == 0, 1.0, 3.0)),
        (jnp.bfloat16, 0.99, 1.01, lambda y: jnp.sign(y.astype(jnp.float32) - 1)),
    ],
)
def test_a_rounding_makes_values_equal_where_a_draw_never_does(dtype, low, high, asked):
    """What NumPy gives with every declared rounding in place is a right result."""
    x = np.linspace(low, high, 4001, dtype=np.float32)

    def f(x):
        return asked(x.astype(dtype)) * jnp.float32(1.0)

    want = np.asarray(asked(jnp.asarray(x.astype(dtype)))).astype(np.float32)
    module = parse_module(hlo_text(f, x))
    sampling = Sampling(module, [x], POLICY)
    for _ in range(12):
        sampling.more()
    (ball,) = sampling.bounds()
    shape = module.entry.root.shape
    assert isinstance(shape, ArrayShape)
    assert compare_output(ball, want, shape).outside == 0
    assert ball.rad is not None
    assert ball.rad.any(), "next to the step either is right"


NORMALISED = """HloModule m
largest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}}

shifted {{
  v = f32[2,33] parameter(0)
  least = f32[] constant(-inf)
  m = f32[2] reduce(v, least), dimensions={{1}}, to_apply=largest
  w = f32[2,33] broadcast(m), dimensions={{0}}
  ROOT s = f32[2,33] subtract(v, w)
}}

ENTRY e {{
  x = f32[2,33] parameter(0)
  c = f32[] parameter(1)
  y = f32[2,33] broadcast(c), dimensions={{}}
  v = f32[2,33] multiply(x, y)
  {shift}
  ROOT r = f32[2,33] exponential(s)
}}
"""
INLINED = """least = f32[] constant(-inf)
  m = f32[2] reduce(v, least), dimensions={1}, to_apply=largest
  w = f32[2,33] broadcast(m), dimensions={0}
  s = f32[2,33] subtract(v, w)"""


@pytest.mark.parametrize("shift", ["s = f32[2,33] call(v), to_apply=shifted", INLINED], ids=["called", "inlined"])
@pytest.mark.parametrize(("factor", "exact"), [(0.1, False), (0.25, True)])
def test_a_product_may_be_rounded_for_one_and_not_for_another(shift, factor, exact):
    """FMA: fma(x, c, -max(x c)) is the rounding of x c where x is the largest, and exp of it nothing or infinite."""
    x = np.logspace(17, 19, 66, dtype=np.float32).reshape(2, 33)
    c = np.float32(factor)
    sampling = Sampling(parse_module(NORMALISED.format(shift=shift)), [x, c], POLICY)
    for _ in range(12):
        sampling.more()
    (ball,) = sampling.bounds()
    rounded, kept = x * c, x.astype(np.longdouble) * c
    with np.errstate(all="ignore"):
        for product in (rounded, kept):
            want = np.exp((product - rounded.max(1, keepdims=True)).astype(np.float32))
            assert compare_output(ball, want, ArrayShape(ball.dtype, ball.dims)).outside == 0
        assert (want[:, -1] == 1).all() == exact
    und = np.zeros(x.shape, bool) if ball.und is None else ball.und
    assert und[:, -1].any() != exact, "by a power of two nothing is rounded"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mid", [5e-324, 1e-310, 1.0, 1e308])
@pytest.mark.parametrize("squares", [1e-300, 1.0, 1e300, np.inf])
def test_a_spread_of_any_size_gives_a_radius_that_is_a_number(mid, squares):
    """Squares overflow, and quotients by the smallest values."""
    centre = Ball(DTYPES["f64"], np.array([mid, 1.0, mid]))
    largest = np.sqrt(np.full(3, squares))
    (ball,) = [_bound(_Spread(centre, largest, np.full(3, squares), np.zeros(3, bool)), 12)]
    assert not np.isnan(ball.rad).any()
    assert (ball.rad >= largest).all()


JUMPS = {
    "remainder": (lax.rem, np.fmod),
    "floor": (lambda a, b: lax.floor(a / b), lambda a, b: np.floor(narrowed(a / b))),
    "sign": (lambda a, b: lax.sign(b - a), lambda a, b: np.sign(b - a)),
}


def narrowed(values):
    """As bf16 holds them."""
    return np.asarray(values).astype(jnp.bfloat16).astype(np.float64)


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("seed", range(3))
def test_a_jump_that_is_hit_where_all_is_rounded_as_declared_is_not_excluded(jump, seed):
    """3x + 1 in bf16 is 3x for a large x: what jumps where two values are equal does so on the target, and hardly ever
    where an error is drawn.
    """
    bf16 = jnp.bfloat16
    on_target, exact = JUMPS[jump]
    x = np.arange(1, 1200, 3).astype(bf16)

    def run(x):
        total = lax.reduce(lax.broadcast_in_dim(x, (*x.shape, 3), (0,)), bf16(0), lax.add, (1,))
        return on_target(total, total + bf16(1))

    total = narrowed(3 * x.astype(np.float64))  # twice x is exact, so that it is rounded once
    right = narrowed(exact(total, narrowed(total + 1))).astype(bf16)
    assert (total == narrowed(total + 1)).sum() > 20
    sampling = Sampling(parse_module(hlo_text(run, x)), (x,), POLICY, seed=seed)
    for _ in range(4):
        sampling.more()
    (ball,) = sampling.bounds()
    assert compare_output(as_ball(ball), right, ArrayShape(DTYPES["bf16"], x.shape)).outside == 0


@pytest.mark.parametrize("seed", range(6))
def test_whether_two_are_equal_is_open_where_they_are_once_rounded_and_flushed(seed):
    """tanh(50 - 0.3i) = 1 - 4e-44i, to the last digit of f32: a target that flushes has 1."""
    z = np.array([50 - 0.3j, 0.5 - 0.3j], np.complex64)

    def run(z):
        return lax.eq(lax.tanh(z), lax.tanh(z * np.complex64(40)))

    sampling = Sampling(parse_module(hlo_text(run, z)), (z,), POLICY, seed=seed)
    for _ in range(4):
        sampling.more()
    (ball,) = sampling.bounds()
    assert as_ball(ball).und[0]
    assert not as_ball(ball).und[1]
