"""reduce, its bodies, and the bounds of sums, products and maxima."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from xla_cpu import POLICY as PLAIN
from xla_cpu import assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.errors import Unsupported
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.bodies import component_kinds
from assay.reference.context import Context
from assay.reference.evaluator import evaluate
from assay.reference.ops.reduction import body_kind, call_batched, extremum_kind
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.value import as_ball, from_array

POLICY = Policy("xla-cpu", accumulate={"bf16": "f32", "f16": "f32"})
RNG = np.random.default_rng(3)
FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]


def normal(*dims, dtype=np.float32, scale=1.0):
    return (RNG.normal(size=dims) * scale).astype(dtype)


# ---------------------------------------------------------------- bodies


def bodies(text):
    return parse_module("HloModule m\n\n" + text + "\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)", "add"),
        ("a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] multiply(b, a)", "multiply"),
        ("a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] subtract(a, b)", None),
        ("a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, a)", None),
        ("a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] copy(b)", "assign"),
        ("a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)", "assign"),
        ("ROOT a = f32[] parameter(0)\n  b = f32[] parameter(1)", None),
        ("a = pred[] parameter(0)\n  b = pred[] parameter(1)\n  ROOT r = pred[] or(a, b)", "or"),
        (
            "a = bf16[] parameter(0)\n  b = bf16[] parameter(1)\n  c = f32[] convert(a)\n  d = f32[] convert(b)\n"
            "  s = f32[] add(c, d)\n  ROOT r = bf16[] convert(s)",
            "add",
        ),
        (
            "a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = bf16[] convert(a)\n  d = bf16[] convert(b)\n"
            "  s = bf16[] add(c, d)\n  ROOT r = f32[] convert(s)",
            None,
        ),
    ],
)
def test_body_kind(body, kind):
    module = bodies("f {\n  " + body + "\n}")
    assert body_kind(module, "f") == kind


def test_body_kind_looks_through_calls():
    module = bodies(
        "g {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] maximum(p, q)\n}\n\n"
        "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] call(b, a), to_apply=g\n}"
    )
    assert body_kind(module, "f") == "maximum"


def test_component_kinds():
    module = bodies(
        "f {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] parameter(2)\n  d = s32[] parameter(3)\n"
        "  s = f32[] add(a, c)\n  t = s32[] maximum(d, b)\n  ROOT r = (f32[], s32[]) tuple(s, t)\n}"
    )
    assert component_kinds(module, "f", 2) == ("add", "maximum")


def test_argument_bodies_are_recognised():
    for f, kind in ((jnp.argmax, "maximum"), (jnp.argmin, "minimum")):
        for dtype in (np.float32, np.int32):
            module = parse_module(hlo_text(lambda x, f=f: f(x, 1), np.ones((2, 3), dtype)))
            kinds = [extremum_kind(module, c.name) for c in module.computations]
            assert kind in kinds


def test_call_batched():
    module = bodies(
        "g {\n  p = f32[] parameter(0)\n  c = f32[] constant(2)\n  ROOT r = f32[] multiply(p, c)\n}\n\n"
        "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  k = f32[] constant(3)\n"
        "  d = f32[] call(a), to_apply=g\n  t = pred[] compare(a, b), direction=LT\n"
        "  ROOT r = (f32[], pred[], f32[]) tuple(d, t, k)\n}\n\n"
        "h {\n  a = f32[] parameter(0)\n  b = f32[3] broadcast(a), dimensions={}\n  ROOT r = f32[] slice(b)\n}"
    )
    ctx = Context(module, PLAIN, lambda name, values: values[0])
    x, y = (from_array(DTYPES["f32"], np.arange(6.0).reshape(2, 3) * s) for s in (1, -1))
    doubled, less, three = call_batched(ctx, "f", [x, y])
    np.testing.assert_array_equal(doubled.mid, 2 * x.mid)
    np.testing.assert_array_equal(less.mid, x.mid < y.mid)
    assert three.mid.shape == (2, 3)
    with pytest.raises(Unsupported, match="broadcast"):
        call_batched(ctx, "h", [x])


# ---------------------------------------------------------------- known bodies


@pytest.mark.parametrize("dtype", FLOATS)
def test_known_bodies_agree_with_xla(dtype):
    def f(x):
        zero, one = np.zeros((), dtype), np.ones((), dtype)
        return [
            lax.reduce(x, init, op, axes)
            for op, init in ((lax.add, zero), (lax.mul, one), (lax.max, -one * 9), (lax.min, one * 9), (lax.add, one))
            for axes in ((0,), (1,), (0, 2), (0, 1, 2), ())
        ]

    with jax.enable_x64(True):
        assert_agree(f, normal(2, 3, 4, dtype=dtype), policy=POLICY, decided=dtype != np.float16)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.bool_])
def test_integers_agree_with_xla(dtype):
    x = RNG.integers(0, 256, (4, 5, 6)).astype(np.uint8).astype(dtype)
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    ops = [(lax.max, zero), (lax.min, one), (lax.bitwise_and, one), (lax.bitwise_or, zero), (lax.bitwise_xor, zero)]
    if dtype != np.bool_:
        ops += [(lax.add, zero), (lax.mul, one)]
    balls = assert_agree(lambda x: [lax.reduce(x, init, op, (0, 2)) for op, init in ops], x)
    assert all(ball.exact for ball in balls)


def test_complex_agrees_with_xla():
    x = (normal(7, 9) + 1j * normal(7, 9)).astype(np.complex64)
    assert_agree(lambda x: (x.sum(0), x.prod(1), x.sum()), x)


def test_nothing_to_reduce():
    x = np.zeros((3, 0, 2), np.float32)
    balls = assert_agree(lambda x: (x.sum(1), lax.reduce(x, np.float32(7), lax.max, (1,)), x.sum(0)), x)
    assert [b.dims for b in balls] == [(3, 2), (3, 2), (0, 2)]


@pytest.mark.parametrize("n", [10, 300, 4096])
@pytest.mark.parametrize("kind", ["random", "positive", "constant", "two values", "ramp", "near"])
def test_sums_in_any_order_lie_inside(n, kind):
    x = {
        "random": normal(4, n),
        "positive": np.abs(normal(4, n)),
        "constant": np.broadcast_to(normal(4, 1), (4, n)).copy(),
        "two values": RNG.choice(np.array([0.1, 0.7], np.float32), (4, n)),
        "ramp": np.linspace(1, 2, 4 * n, dtype=np.float32).reshape(4, n),
        "near": (1 + 1e-6 * normal(4, n)).astype(np.float32),
    }[kind]
    (ball,) = reference(hlo_text(lambda x: x.sum(1), x), [x])
    exact = np.array([float(sum(map(Fraction, map(float, row)))) for row in x])
    np.testing.assert_allclose(ball.mid, exact, rtol=1e-13, atol=1e-12)
    for terms in (x, x[:, ::-1], np.sort(x), np.sort(x)[:, ::-1], np.take_along_axis(x, np.argsort(np.abs(x)), 1)):
        assert not outside(ball, np.add.accumulate(terms, 1, dtype=np.float32)[:, -1]).any()
        lanes = np.pad(terms, ((0, 0), (0, -n % 8))).reshape(4, -1, 8)
        assert not outside(ball, np.add.accumulate(lanes, 1, dtype=np.float32)[:, -1].sum(1, dtype=np.float32)).any()


def test_a_million_equal_terms():
    x = np.full((2, 10**6), 0.1, np.float32)
    (ball,) = assert_agree(lambda x: x.sum(1), x)
    sequential = np.add.accumulate(x, 1, dtype=np.float32)[:, -1]
    assert (np.abs(sequential - ball.mid) > 1e-3 * ball.mid).all()
    assert not outside(ball, sequential).any()


def test_sums_of_small_integers_are_exact_and_others_bite():
    x = RNG.integers(-9, 10, (5, 1000)).astype(np.float32)
    (ball,) = assert_agree(lambda x: x.sum(1), x)
    assert ball.exact
    x = np.abs(normal(50, 4096))
    (ball,) = reference(hlo_text(lambda x: x.sum(1), x), [x])
    assert outside(ball, np.delete(x, 17, 1).sum(1, dtype=np.float64)).mean() > 0.5


def test_a_reduction_of_bf16_may_round_every_step():
    """XLA:CPU keeps some of these sums in f32 and others, such as those of constants, in bf16."""
    x = np.abs(normal(3, 500, dtype=ml_dtypes.bfloat16))
    (ball,) = assert_agree(lambda x: lax.reduce(x, np.zeros((), x.dtype), lax.add, (1,)), x, policy=POLICY)
    stepwise = np.add.accumulate(x, axis=1, dtype=x.dtype)[:, -1]
    assert not outside(ball, stepwise.astype(np.float64)).any()
    ones = np.ones((17, 33), ml_dtypes.bfloat16)
    assert_agree(lambda x: x + lax.reduce(ones, np.zeros((), x.dtype), lax.add, (0, 1)), x[:1, :1], policy=POLICY)


def test_products_of_wild_size_are_undecided():
    x = np.array([[1e30, 1e30, 1e-30, 1e-30], [1e-30, 1e-30, 0.5, 0.5], [1e30, 1e30, 2, 2], [0, 1, 2, 3]], np.float32)
    (ball,) = assert_agree(lambda x: x.prod(1), x, decided=False)
    assert ball.und.tolist() == [True, False, False, False]
    assert ball.mid[2] == np.inf


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
def test_partial_products_that_vanish_are_bounded(dtype, flush):
    """Whatever the order, and wherever a subnormal is flushed, the product lies in its ball, and that is decided."""
    info = ml_dtypes.finfo(dtype)
    dtype = np.dtype(dtype).type
    low, room = info.minexp // 2 - 1, min(info.maxexp // 4, 40)
    x = np.ldexp(1 + RNG.random((40, 5)), [low, low, room, room - 3, 0]).astype(dtype)
    policy = POLICY if flush else replace(POLICY, flush_subnormals=False)
    (ball,) = reference(hlo_text(lambda x: lax.reduce(x, np.ones((), dtype), lax.mul, (1,)), x), [x], policy)
    assert ball.und is None or not ball.und.any()
    for order in permutations(range(5)):
        partial = x[:, order[0]]
        for k in order[1:]:
            partial = partial * x[:, k]
            if flush and dtype is not np.float16:
                partial = np.where(np.abs(partial) < info.smallest_normal, dtype(0), partial)
        assert not outside(ball, partial).any()


def test_overflow_on_the_way():
    """A partial sum that is infinite stays so, unless the sum of the other sign may be infinite too."""
    x = np.array([[3e38, 3e38, -3e38], [3e38, 3e38, -1e38], [3e38, 3e38, 3e38], [-1e38, -1e38, 1e38]], np.float32)
    (ball,) = assert_agree(lambda x: x.sum(1), x, decided=False)
    assert ball.und.tolist() == [True, False, False, False]
    assert ball.mid[1] == np.inf
    z = (x[:3] + 1j * x[:3]).astype(np.complex64)
    balls = assert_agree(lambda z: (z.sum(1), z.prod(1)), z, decided=False)
    assert all(ball.und.all() for ball in balls)


def test_eight_bit_sums_round_at_every_step():
    x = np.ones(34, ml_dtypes.float8_e5m2)
    (ball,) = assert_agree(lambda x: x.sum(), x, policy=Policy("xla-cpu", accumulate={"f8e5m2": "f32"}))
    assert ball.mid == 34


def test_maxima_of_balls_and_nan():
    x = normal(5, 8)
    x[1, 3] = np.nan
    x[2, 2] = np.inf
    x[3] = -np.inf
    assert_agree(lambda x: (x.max(1), x.min(1)), x)
    balls = assert_agree(lambda x: (jnp.exp(x).max(1), jnp.exp(x).min(1)), normal(5, 8))
    assert all(ball.rad is not None and (ball.rad < 1e-5 * ball.mid).all() for ball in balls)
    (ball,) = reference(hlo_text(lambda x: x.max(1), x), [x], Policy("either", nan_minmax="either"))
    assert ball.und.tolist() == [False, True, False, False, False]


# ---------------------------------------------------------------- argmax, any body


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_])
def test_argmax_agrees_with_xla(dtype):
    x = RNG.integers(0, 6, (20, 7)).astype(dtype)
    if dtype == np.float32:
        x[3, 4] = np.nan
        x[5] = -np.inf
        x[6, 2] = np.inf
    assert_agree(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.argmax(x, 0)), x)


def test_argmax_is_undecided_only_where_balls_meet():
    x = np.array([[1, 2, 3], [1, 3, 3], [3, 2, 3 + 1e-7], [5, 3, 1]], np.float32)
    (ball,) = assert_agree(lambda x: jnp.argmax(jnp.exp(x), 1), x, decided=False)
    assert ball.und.tolist() == [False, True, True, False]


def test_two_nan_leave_the_index_open():
    x = np.array([[1, np.nan, 3, np.nan], [1, np.nan, 3, 2]], np.float32)
    (ball,) = assert_agree(lambda x: jnp.argmax(x, 1), x, decided=False)
    assert ball.und.tolist() == [True, False]
    assert ball.mid[1] == 1


def test_any_body_agrees_with_xla():
    def logaddexp(a, b):
        m = lax.max(a, b)
        return m + lax.log(lax.exp(a - m) + lax.exp(b - m))

    def affine(a, b):
        return a[0] * b[0], b[1] + a[1] * b[0]

    def f(x):
        y = lax.reduce(x, np.float32(-1e30), logaddexp, (1,))
        p, q = lax.reduce((x, x + 1), (np.float32(1), np.float32(0)), affine, (1,))
        return y, p, q

    assert_agree(f, normal(6, 13))


def test_complex_maximum_agrees_with_xla():
    x = (RNG.integers(-2, 3, (6, 9)) + 1j * RNG.integers(-2, 3, (6, 9))).astype(np.complex64)
    assert_agree(lambda x: (x.max(1), x.min(0)), x)


def test_a_body_that_is_not_associative_is_undecided():
    x = normal(3, 9)
    (ball,) = reference(hlo_text(lambda x: lax.reduce(x, np.float32(0), lambda a, b: a - 2 * b, (1,)), x), [x])
    assert ball.und.all()


def test_variadic_components():
    x = normal(4, 50)
    text = """HloModule m

f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  t = f32[] maximum(b, d)
  ROOT r = (f32[], f32[]) tuple(s, t)
}

ENTRY e {
  x = f32[4,50] parameter(0)
  z = f32[] constant(0)
  ROOT r = (f32[4], f32[4]) reduce(x, x, z, z), dimensions={1}, to_apply=f
}
"""
    assert_hlo_agrees(text, x)


def test_sampled_runs_stay_near():
    x = np.abs(normal(10, 2000))
    text = hlo_text(lambda x: (x.sum(1), x.max(1), jnp.argmax(x, 1)), x)
    exact = x.astype(float).sum(1)
    for seed in range(4):
        total, largest, index = reference(text, [x], PLAIN, np.random.default_rng(seed))
        assert total.rad is None
        assert (total.mid != exact).any()
        np.testing.assert_allclose(total.mid, exact, rtol=1e-4)
        np.testing.assert_array_equal(index.mid, x.argmax(1))
        np.testing.assert_array_equal(largest.mid, x.max(1))


@pytest.mark.parametrize("count", [1, 2, 32, 33, 100, 1000])
@pytest.mark.parametrize("body", [lax.add, lax.mul, lax.max, lax.min, lambda a, b: a + b + a * b])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_an_initial_value_that_is_not_neutral_counts_as_often_as_the_compiler_likes(count, body, dtype):
    """XLA:CPU drops it where there is one element, and counts it once for each part of a long reduction."""
    x = np.random.default_rng(0).integers(-1, 2, (count, 5)).astype(dtype)
    (ball,) = assert_agree(lambda x: lax.reduce(x, dtype(2), body, [0]), x, decided=False)
    if 1 < count <= 32:
        assert ball.und is None or not ball.und.any()


@pytest.mark.parametrize("n", [1, 3])
def test_a_sum_of_nothing_but_minus_zero_is_a_zero_of_unknown_sign(n):
    """XLA:CPU leaves out the initial 0, and gives -0; with it the sum is 0. One 0 among the terms decides."""
    text = f"""HloModule m
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }}
ENTRY e {{ x = f32[3,{n}] parameter(0)
  z = f32[] constant(0)
  s = f32[3] reduce(x, z), dimensions={{1}}, to_apply=add
  ROOT r = s32[3] bitcast-convert(s) }}
"""
    x = np.array([[-0.0] * n, [0.0] * n, [-0.0] * (n - 1) + [0.0]], np.float32)
    found = as_ball(evaluate(parse_module(text), [x], for_target("cpu")).value)
    assert found.und is not None
    assert found.und.tolist() == [True, False, False]
    assert found.mid[1:].tolist() == [0, 0]
