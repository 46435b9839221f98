"""batch-norm-* against XLA:CPU, which expands them, and against the textbook."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from xla_cpu import assert_hlo_agrees, outside, reference

from assay.errors import Unsupported

RNG = np.random.default_rng(8)


def operands(*names):
    return [
        RNG.normal(size=(4, 5, 6) if name in "xg" else 5).astype(np.float32) ** (2 if name == "v" else 1)
        for name in names
    ]


def text(operation, parameters, result):
    lines = [f"  p{i} = f32[{'4,5,6' if name in 'xg' else '5'}] parameter({i})" for i, name in enumerate(parameters)]
    names = ", ".join(f"p{i}" for i in range(len(parameters)))
    return (
        "HloModule m\n\nENTRY e {\n"
        + "\n".join(lines)
        + f"\n  ROOT r = {result} {operation}({names}), epsilon=0.001, feature_index=1\n}}\n"
    )


def test_inference():
    x, s, o, m, v = operands(*"xsomv")
    (ball,) = assert_hlo_agrees(text("batch-norm-inference", "xsomv", "f32[4,5,6]"), x, s, o, m, v)
    x, s, o, m, v = (a.astype(float) for a in (x, s, o, m, v))
    across = (None, slice(None), None)
    want = (x - m[across]) / np.sqrt(v[across] + np.float32(0.001)) * s[across] + o[across]
    np.testing.assert_allclose(ball.mid, want, rtol=1e-10, atol=1e-10)
    assert (ball.rad < 1e-5 * (1 + np.abs(ball.mid)) * 10).all()


def test_training():
    x, s, o = operands(*"xso")
    out, mean, variance = assert_hlo_agrees(text("batch-norm-training", "xso", "(f32[4,5,6], f32[5], f32[5])"), x, s, o)
    np.testing.assert_allclose(mean.mid, x.astype(float).mean((0, 2)), atol=1e-12)
    np.testing.assert_allclose(variance.mid, x.astype(float).var((0, 2)), atol=1e-12)
    assert out.rad.max() < 1e-3


def test_gradient():
    x, s, m, v, g = operands(*"xsmvg")
    balls = assert_hlo_agrees(text("batch-norm-grad", "xsmvg", "(f32[4,5,6], f32[5], f32[5])"), x, s, m, v, g)
    np.testing.assert_allclose(balls[2].mid, g.astype(float).sum((0, 2)), atol=1e-12)


def test_more_elements_than_the_type_counts_are_refused():
    """A mean over 16 elements in f8e3m4, which ends at 15.5: what they are divided by is not said."""
    hlo = text("batch-norm-training", "xso", "(f8e3m4[4,5,6], f8e3m4[5], f8e3m4[5])").replace("f32[", "f8e3m4[")
    with pytest.raises(Unsupported, match="does not hold the 24 elements"):
        reference(hlo, [x.astype(jnp.float8_e3m4) for x in operands(*"xso")])


@pytest.mark.usefixtures("x64")
def test_epsilon_is_a_float_of_32_bits():
    """XLA keeps it as one: in f64 the difference shows."""
    x, one = np.linspace(-1, 1, 12).reshape(4, 3), np.ones(3)
    text = """HloModule m

ENTRY %e {
  %x = f64[4,3] parameter(0)
  %s = f64[3] parameter(1)
  ROOT %r = (f64[4,3], f64[3], f64[3]) batch-norm-training(%x, %s, %s), epsilon=0.001, feature_index=1
}
"""
    ball, *_ = assert_hlo_agrees(text, x, one)
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + np.float64(np.float32(0.001))) + 1
    np.testing.assert_allclose(ball.mid, expected, rtol=1e-14)


def test_inference_may_be_folded_into_one_product():
    """XLA's batchnorm_expander: x a + (offset - mean a), a = scale / sqrt(variance + epsilon)."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 1, (200, 50)).astype(np.float32)
    scale, offset, mean, variance = (rng.uniform(0.5, 3, 50).astype(np.float32) for _ in range(4))
    text = """HloModule m

ENTRY %e {
  %x = f32[200,50] parameter(0)
  %s = f32[50] parameter(1)
  %o = f32[50] parameter(2)
  %m = f32[50] parameter(3)
  %v = f32[50] parameter(4)
  ROOT %r = f32[200,50] batch-norm-inference(%x, %s, %o, %m, %v), epsilon=0.001, feature_index=1
}
"""
    (ball,) = assert_hlo_agrees(text, x, scale, offset, mean, variance)
    factor = scale / np.sqrt(variance + np.float32(0.001))
    assert not outside(ball, x * factor + (offset - mean * factor)).any()
    assert not outside(ball, (x - mean) * (1 / np.sqrt(variance + np.float32(0.001))) * scale + offset).any()
    wrong = x * factor + (offset - mean * factor * np.float32(1.00001))
    assert outside(ball, wrong).mean() > 0.5
