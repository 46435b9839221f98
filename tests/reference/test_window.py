"""reduce-window and select-and-scatter against XLA:CPU and direct loops."""

from __future__ import annotations

import itertools
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from xla_cpu import assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.hlo.attributes import WindowDim
from assay.reference.ops.window import windowed
from assay.reference.policy import Policy

POLICY = Policy("xla-cpu", accumulate={"bf16": "f32", "f16": "f32"})
RNG = np.random.default_rng(4)

# window, strides, padding, base dilation, window dilation; of (6, 9)
CASES = [
    ((2, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((2, 3), (2, 1), ((1, 0), (2, 2)), (1, 1), (1, 1)),
    ((3, 2), (1, 2), ((-1, 2), (1, -3)), (1, 1), (1, 1)),
    ((2, 2), (1, 1), ((0, 1), (1, 0)), (2, 3), (1, 1)),
    ((2, 3), (1, 2), ((2, 0), (1, 1)), (1, 1), (3, 2)),
    ((3, 4), (2, 3), ((-2, 3), (4, -1)), (2, 2), (2, 3)),
    ((1, 9), (1, 1), ((0, 0), (8, 0)), (1, 1), (1, 1)),
    ((6, 9), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((9, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
]


def normal(*dims, dtype=np.float32, scale=1.0):
    return (RNG.normal(size=dims) * scale).astype(dtype)


def window(x, init, op, case):
    size, strides, padding, base, dilation = case
    return lax.reduce_window(x, np.asarray(init, x.dtype), op, size, strides, padding, base, dilation)


def test_windowed_is_its_definition():
    x = RNG.integers(-99, 99, 50)
    for size, stride, step in itertools.product(range(1, 12), (1, 2, 3), (1, 2)):
        w = WindowDim(size, stride, window_dilation=step)
        places = range(0, 50 - (size - 1) * step, stride)
        want = [x[p : p + (size - 1) * step + 1 : step] for p in places]
        for ufunc in (np.add, np.maximum, np.multiply):
            np.testing.assert_array_equal(windowed(ufunc, x, (w,)), [ufunc.reduce(t) for t in want])


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_known_bodies_agree_with_xla(dtype):
    low, high = (-np.inf, np.inf) if np.dtype(dtype).kind != "i" and dtype != np.uint8 else (0, 100)
    ops = [(lax.add, 0), (lax.max, low), (lax.min, high), (lax.mul, 1)]

    def f(x):
        return [window(x, init, op, case) for op, init in ops for case in CASES]

    x = normal(6, 9, dtype=dtype) if low else RNG.integers(0, 9, (6, 9)).astype(dtype)
    assert_agree(f, x, policy=POLICY)


def test_an_initial_value_that_is_no_identity_pads():
    (ball,) = assert_agree(lambda x: window(x, 0.5, lax.max, CASES[1]), normal(6, 9))
    assert (ball.mid >= 0.5).all()


def test_any_body_agrees_with_xla():
    def logaddexp(a, b):
        m = lax.max(a, b)
        return m + lax.log(lax.exp(a - m) + lax.exp(b - m))

    assert_agree(lambda x: [window(x, -30, logaddexp, case) for case in CASES[:3]], normal(6, 9))


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("kind", ["random", "constant", "steps", "integers"])
def test_cumulative_sums(n, kind):
    x = {
        "random": normal(n),
        "constant": np.full(n, 0.1, np.float32),
        "steps": np.repeat(np.array([0.1, 0.7], np.float32), n // 2),
        "integers": RNG.integers(-5, 6, n).astype(np.float32),
    }[kind]
    (ball,) = assert_agree(lambda x: lax.reduce_window(x, np.float32(0), lax.add, (n,), (1,), ((n - 1, 0),)), x)
    np.testing.assert_allclose(ball.mid, np.cumsum(x, dtype=np.float64), rtol=1e-12, atol=1e-12)
    assert not outside(ball, np.add.accumulate(x, dtype=np.float32)).any()
    if kind == "integers":
        assert ball.exact


def test_a_long_window_is_quick():
    x = normal(100_000)
    text = hlo_text(lambda x: lax.reduce_window(x, np.float32(0), lax.add, (10**5,), (1,), ((10**5 - 1, 0),)), x)
    start = time.perf_counter()
    (ball,) = reference(text, [x])
    assert time.perf_counter() - start < 5
    assert (ball.rad[:100] < 1e-2).all()
    assert (ball.rad < 20).all()


def test_cumulative_functions_of_jax():
    x = normal(8, 300, scale=0.5)
    assert_agree(lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 1), lax.cummin(x, 1), lax.cumlogsumexp(x, 1)), x)
    assert_agree(lambda x: jnp.cumprod(x, 1), 1 + 0.01 * normal(8, 300))


def test_pooling_gradients_agree_with_xla():
    x = normal(2, 9, 8, 3)

    def pool(x, padding, size, strides):
        return lax.reduce_window(x, -np.inf, lax.max, (1, *size, 1), (1, *strides, 1), padding)

    def loss(x):
        return [
            (pool(x, padding, size, strides) ** 2).sum()
            for padding in ("VALID", "SAME")
            for size, strides in (((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 1)))
        ]

    assert_agree(jax.jacrev(loss), x)
    assert_agree(
        lambda x: jax.grad(lambda x: lax.reduce_window(x, np.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum())(
            x
        ),
        x,
    )


def test_ties_go_to_the_first():
    x = RNG.integers(0, 3, (1, 8, 8, 1)).astype(np.float32)
    (ball,) = assert_agree(
        jax.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()), x
    )
    assert ball.und is None


def test_rivals_are_undecided():
    x = np.array([1, 1 + 1e-7, 3, 2, 5, 5], np.float32)

    def f(x):
        return jax.vjp(lambda y: lax.reduce_window(y, -np.inf, lax.max, (2,), (2,), "VALID"), jnp.exp(x))[1](
            np.ones(3, np.float32)
        )[0]

    (ball,) = assert_agree(f, x, decided=False)
    assert ball.und.tolist() == [True, True, False, False, True, True]


def test_a_wrong_window_is_outside():
    x = normal(64, 128)
    (ball,) = reference(
        hlo_text(lambda x: window(x, -np.inf, lax.max, ((2, 1), (2, 1), ((0, 0), (0, 0)), (1, 2), (1, 1))), x), [x]
    )
    wrong = np.repeat(np.maximum(x[::2], x[1::2]), 2, 1)[:, :-1]
    assert outside(ball, wrong)[:, 1::2].all()
    assert not outside(ball, wrong)[:, ::2].any()


@pytest.mark.parametrize("body", [lax.add, lax.max])
def test_padding_may_or_may_not_count_an_initial_value_that_is_not_neutral(body):
    """XLA:CPU takes padding out of a variadic window; the interpreter of StableHLO counts the initial value for it."""
    text = f"""HloModule m

%fold {{
  %a0 = f32[] parameter(0)
  %a1 = s32[] parameter(1)
  %a2 = f32[] parameter(2)
  %a3 = s32[] parameter(3)
  %r0 = f32[] {"add" if body is lax.add else "maximum"}(%a0, %a2)
  %r1 = s32[] add(%a1, %a3)
  ROOT %r = (f32[], s32[]) tuple(%r0, %r1)
}}

ENTRY %e {{
  %x = f32[4] parameter(0)
  %y = s32[4] parameter(1)
  %a = f32[] constant(3)
  %b = s32[] constant(3)
  ROOT %r = (f32[5], s32[5]) reduce-window(%x, %y, %a, %b), window={{size=2 pad=1_1}}, to_apply=%fold
}}
"""
    first, second = assert_hlo_agrees(text, np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32), decided=False)
    assert second.und.any()
    assert body is lax.add or first.und is None or not first.und.any()


@pytest.mark.parametrize("dtype", ["f32", "s32"])
def test_a_window_of_nothing_but_padding_scatters_nothing(dtype):
    text = f"""HloModule m

%ge {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %r = pred[] compare(%a, %b), direction=GE
}}

%add {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %r = {dtype}[] add(%a, %b)
}}

ENTRY %e {{
  %x = {dtype}[4] parameter(0)
  %s = {dtype}[6] parameter(1)
  %z = {dtype}[] constant(0)
  ROOT %r = {dtype}[4] select-and-scatter(%x, %s, %z), window={{size=2 stride=1 pad=3_0}}, select=%ge, scatter=%add
}}
"""
    numpy = np.float32 if dtype == "f32" else np.int32
    x, source = np.array([1, 2, 3, 4], numpy), np.array([100, 10, 1, 2, 3, 4], numpy)
    (ball,) = assert_hlo_agrees(text, x, source)
    np.testing.assert_array_equal(ball.mid, [1, 2, 3, 4])
