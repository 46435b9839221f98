"""Honest programs raise no alarm. Each was one once, or is of the kind."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import assay
from assay.checking.api import Request, check_path
from assay.errors import InputError


def test_subnormals_that_a_target_takes_for_zeros():
    report = check_path(str(Path(__file__).with_name("subnormals.py")), Request())
    assert report.exit_code == 0, str(report)


BF16 = np.abs(np.random.default_rng(0).standard_normal((17, 33))).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jax.grad(lambda y: jnp.cumsum(y).astype(jnp.float32).sum())(x),  # partial sums stored in bf16
        lambda x: jax.grad(lambda y: jnp.polyval(y[0, :4], y).astype(jnp.float32).sum())(x),  # reduced step by step
        lambda x: x + lax.reduce(jnp.ones_like(x), jnp.bfloat16(0), lax.add, (0, 1)),  # folded by XLA's evaluator
        lambda x: jnp.tan(x.astype(jnp.float32) * 2),
    ],
    ids=["cumsum", "polyval", "constant", "tan"],
)
def test_narrow_sums(function):
    report = assay.check(function, BF16)
    assert report.exit_code != 1, str(report)
    for output in report.cases[0].outputs:
        assert output.outside + output.undecided <= output.elements


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_are_arguments(impl):
    assert assay.check(lambda key: jax.random.uniform(key, (3,)), jax.random.key(0, impl=impl)).ok


def test_an_unknown_option_is_named():
    with pytest.raises(InputError, match="no option 'sed'"):
        assay.check(jnp.sort, np.ones(3), sed=3)
