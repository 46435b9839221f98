"""What no rounding reaches is worked out once, and what one reaches is not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from elements import POLICY
from jax import lax
from xla_cpu import hlo_text

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.sampled import Sampling
from assay.reference.settled import Settled


def settled(module: Module, *arguments: np.ndarray) -> Settled:
    found = Settled()
    evaluate(module, arguments, POLICY, on_value=found.see)
    return found


def noise(key, x):
    return jnp.exp(x) * jax.random.bits(key, (64,)).astype(jnp.float32)


def ranked(key, x):
    order = jnp.argsort(key)
    return jnp.cumsum(jnp.sin(x))[order], order


def called(key, x):
    f = jax.jit(lambda k: jnp.sort(k))
    return jnp.exp(x)[:2] * f(key).astype(jnp.float32) + f(key + 1).astype(jnp.float32)


def looped(key, x):
    def body(i, carry):
        return jnp.sin(carry) + jnp.sort(key)[0].astype(jnp.float32) * 1e-9 + i

    return lax.fori_loop(0, 5, body, x)


@pytest.mark.parametrize("function", [noise, ranked, called, looped])
def test_sampled_runs_give_the_same_with_it_and_without(function) -> None:
    """Midpoints bit for bit: they draw nothing."""
    key, x = np.array([3, 11], np.uint32), np.linspace(-1, 1, 64, dtype=np.float32)
    module = parse_module(hlo_text(function, key, x))
    values = settled(module, key, x).values
    plain = [Sampling(module, [key, x], POLICY, known=known) for known in ({}, values)]
    for sampling in plain:
        for _ in range(4):
            sampling.more()
    first, second = (sampling.bounds() for sampling in plain)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a.mid, b.mid)
        assert (a.rad is None) == (b.rad is None)
        if a.rad is not None:
            assert np.median(b.rad) < 3 * np.median(a.rad) < 9 * np.median(b.rad)


def test_the_rounds_of_a_random_number_are_not_run_again() -> None:
    key, x = np.array([3, 11], np.uint32), np.linspace(-1, 1, 64, dtype=np.float32)
    module = parse_module(hlo_text(noise, key, x))
    values = settled(module, key, x).values
    counts = []
    for known in ({}, values):
        count = 0

        def see(computation, instruction, value):
            nonlocal count
            count += 1

        evaluate(module, [key, x], POLICY, rng=np.random.default_rng(0), known=known, on_value=see)
        counts.append(count)
    assert counts[1] < counts[0] / 5


def test_what_runs_more_than_once_is_not_kept() -> None:
    key, x = np.array([3, 11], np.uint32), np.linspace(-1, 1, 64, dtype=np.float32)
    for function in (called, looped):
        module = parse_module(hlo_text(function, key, x))
        runs: dict[tuple[str, str], int] = {}

        def see(computation, instruction, value, runs=runs):
            at = (computation.name, instruction.name)
            runs[at] = runs.get(at, 0) + 1

        evaluate(module, [key, x], POLICY, on_value=see)
        kept = settled(module, key, x).values
        assert all(runs[at] == 1 for at in kept)
    assert not settled(parse_module(hlo_text(looped, key, x)), key, x).values, "its sort is in the loop"


def test_no_more_is_kept_than_was_asked_for() -> None:
    key = np.arange(1000, dtype=np.uint32)
    module = parse_module(hlo_text(lambda k: jnp.sort(k)[::-1], key))
    for memory, kept in ((3999, 0), (4000, 1)):
        found = Settled(memory)
        evaluate(module, [key], POLICY, on_value=found.see)
        assert len(found.values) == kept
