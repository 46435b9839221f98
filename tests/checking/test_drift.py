"""Systematic errors too small to see in any one element, and honest results that must not look like them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from xla_cpu import hlo_text

from assay.checking.bounds import Bounds, Settings
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.checking.weigh import weigh, weigh_again
from assay.hlo.parse import parse_module
from assay.oracle.drift import constant_factors
from assay.oracle.verdict import Verdict
from assay.programs.program import from_hlo
from assay.reference.policies import for_target
from assay.toolchain import Worker, host

SETTINGS = Settings(for_target("cpu", jax.__version__))
RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 512)).astype(ml_dtypes.bfloat16)
THIRDS = RNG.choice([0.3, 0.7, 1.1, 1.7], (64, 512)).astype(ml_dtypes.bfloat16)


def swiglu(x):
    return jax.nn.silu(x) * x * jax.nn.sigmoid(x)


def softmax(x):
    return jax.nn.softmax(x, -1)


def wrong(function, x, by=1.0):
    target = np.asarray(jax.jit(function)(x))
    target = (target.astype(np.float64) * by).astype(target.dtype)
    bounds = Bounds(parse_module(hlo_text(function, x)), [x], SETTINGS)
    first = weigh(bounds, [target])
    return weigh_again(bounds, [target], first) if first.wrong else first


@pytest.mark.parametrize("function", [swiglu, softmax])
@pytest.mark.parametrize("by", [1.01, 0.99])
def test_one_percent_is_seen(function, by):
    found = wrong(function, X, by)
    assert found.wrong
    if not found.outside:
        assert found.drifts[0].mean == pytest.approx(by - 1, abs=2e-3)
        assert found.drifts[0].allowed < 8e-3


@pytest.mark.parametrize(
    "function",
    [
        swiglu,
        softmax,
        lambda x: x / 3 / 7 * 1.1,  # constants may be folded, each rounded once
        lambda x: x * jnp.bfloat16(0.3) * jnp.bfloat16(0.7) * jnp.bfloat16(1.3),
        lambda x: softmax(x)[:1] * jnp.ones_like(x),  # every row the same
        lambda x: x / jnp.sum(jnp.abs(x), dtype=jnp.bfloat16),  # one divisor for all
    ],
)
@pytest.mark.parametrize("x", [X, THIRDS, X[:, ::-1].copy()], ids=["normal", "four values", "reversed"])
def test_honest_results_do_not_drift(function, x):
    assert not wrong(function, x).wrong


def small_updates(steps, by):
    """Each is below half a last digit, so that rounding to nearest loses every one of them."""

    def run(p):
        for _ in range(steps):
            p = p - by * p
        return p

    return run


def average(x, decay):
    return jax.lax.scan(lambda e, row: (e * decay + row * (1 - decay), None), x[0] * 0, x)[0]


@pytest.mark.parametrize(
    "function",
    [
        small_updates(3, jnp.bfloat16(1.8e-3)),
        small_updates(12, jnp.bfloat16(1e-3)),
        lambda x: ((x + x * jnp.bfloat16(0.0017)) + x * jnp.bfloat16(0.0018)) + x * jnp.bfloat16(0.0019),
        lambda x: jax.lax.fori_loop(0, 50, lambda _, p: p * jnp.bfloat16(0.99), x),
        lambda x: average(jnp.abs(x), jnp.bfloat16(0.995)),
        lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.bfloat16),
        lambda x: (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + jnp.bfloat16(1e-5)),
        lambda x: jax.lax.reduce(jnp.abs(x)[:, :200], jnp.bfloat16(0), jax.lax.add, (1,))[:, None] + x * 0,
    ],
)
@pytest.mark.parametrize("values", ["normal", "few", "narrow"])
def test_roundings_that_do_not_average_out_are_no_drift(function, values):
    """Each of these was a false alarm, or is of the kind."""
    x = {"normal": X, "few": THIRDS, "narrow": (1.4 + 0.05 * RNG.random((64, 512))).astype(X.dtype)}[values]
    assert not wrong(function, x).wrong


def test_constants_that_are_no_powers_of_two_count():
    text = hlo_text(lambda x: x * 3 / 4 + x / jnp.bfloat16(0.3) + x * 0.5 + x**2, X)
    assert constant_factors(parse_module(text)) == 2


def test_a_drift_is_told_as_one():
    """By a compiler that makes every element 1 % too large."""
    text = hlo_text(swiglu, X)

    class Drifting(Worker):
        def run(self, compiled, arrays, timeout_s=None):
            return [(a.astype(np.float64) * 1.01).astype(a.dtype) for a in super().run(compiled, arrays, timeout_s)]

    with Drifting(host()) as worker:
        program = from_hlo("swiglu", text, text.encode(), "hlo-text")
        case = judge(program, [X], "X", Executed(worker, program), SETTINGS)
    (output,) = case.outputs
    assert case.verdict == Verdict.MISMATCH
    assert output.outside or output.drift == pytest.approx(0.01, abs=2e-3)
