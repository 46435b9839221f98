"""Honest programs raise no alarm. Each was one once, or is of the kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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


DRAWN = np.random.default_rng(1).standard_normal((9, 17))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: jnp.median(x, 1), np.float64),  # floor of 0.5 * 16
        (lambda x: jnp.quantile(x, 0.25, 1), np.float64),
        (lambda x: lax.cumlogsumexp(x, 1), ml_dtypes.bfloat16),  # a window of a body that is not known, sampled
        (lambda x: lax.cumprod(x, 1), np.float16),  # subnormal on the way
        (lambda x: x.astype(jnp.float4_e2m1fn), np.float32),
        (lambda x: (jnp.abs(x) + 0.25).astype(jnp.float8_e8m0fnu), np.float32),
        (lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 0.5), np.float32),  # cancels next to 1 and 2
        pytest.param(  # trip counts hang on rounding
            lambda x: jax.scipy.special.gammainc(2.5, jnp.abs(x) + 0.5), np.float32, marks=pytest.mark.slow
        ),
    ],
    ids=["median", "quantile", "cumlogsumexp", "cumprod", "f4", "e8m0", "gammaln", "gammainc"],
)
def test_what_can_be_decided_is(function, dtype):
    with jax.enable_x64(dtype == np.float64):
        report = assay.check(function, DRAWN.astype(dtype))
    assert report.exit_code == 0, str(report)
    outputs = [output for case in report.cases for output in case.outputs]
    assert sum(o.undecided for o in outputs) < 0.01 * sum(o.elements for o in outputs)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_are_arguments(impl):
    assert assay.check(lambda key: jax.random.uniform(key, (3,)), jax.random.key(0, impl=impl)).ok


def test_an_unknown_option_is_named():
    with pytest.raises(InputError, match="no option 'sed'"):
        assay.check(jnp.sort, np.ones(3), sed=3)


QUIET = Path(__file__).parents[2] / "benchmarks/quiet"


def quiet(*options, **more):
    return subprocess.Popen([sys.executable, str(QUIET), *options], text=True, **more)


@pytest.mark.slow
def test_a_part_of_the_quiet_list_killed_and_resumed(tmp_path):
    """Every program is checked once whatever happens, and all of them agree."""
    options = ("--filter", r"jax\.nn: (relu|sigmoid|silu)\(", "--resume", str(tmp_path / "q.jsonl"))
    first = quiet(*options, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 200
    while not (tmp_path / "q.jsonl").exists() or not (tmp_path / "q.jsonl").read_text():
        assert time.monotonic() < end
        assert first.poll() is None
        time.sleep(0.1)
    first.kill()
    first.wait()
    with (tmp_path / "q.jsonl").open("a") as file:
        file.write('{"title": "cut sh')
    before = len((tmp_path / "q.jsonl").read_text().splitlines())
    second = quiet(*options, stdout=subprocess.PIPE)
    told, _ = second.communicate()
    assert second.returncode == 0, told
    records = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    titles = [record["title"] for record in records]
    assert len(set(titles)) == len(titles) > before > 5
    assert all(case["verdict"] == "agree" for record in records for case in record["cases"])
    assert f"{len(titles)} programs" in told.splitlines()[-1]


def test_the_quiet_list_is_long_and_has_no_program_twice():
    code = "from everything import everything; print(len({e.title for e in everything()}), len(everything()))"
    told = subprocess.check_output(
        [sys.executable, "-c", code], cwd=QUIET, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"}
    )
    distinct, count = map(int, told.split())
    assert distinct == count >= 1000
