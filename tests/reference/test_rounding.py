"""The quick way to round a whole array gives what the full rule gives an element; pieces; noise of sampled runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.evaluator import evaluate
from assay.reference.noise import FEW, POOL, Noise
from assay.reference.pieces import BLOCK, pieces
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.rounding import before_rounding, committed, drawn_bound, settled, stored
from assay.reference.value import Ball, total

POLICIES = {
    "flushes": Policy("flushes"),
    "keeps": Policy("keeps", flush_subnormals=False),
    "rounds": Policy("rounds", excess_precision=False),
}
MIXTURES = ("plain", "whole", "with zeros", "wide", "special")


def midpoints(dtype, mixture, n, rng):
    most, least = dtype.max, 2.0**dtype.min_exponent
    plain = rng.standard_normal(n)
    match mixture:
        case "plain":
            return plain
        case "whole":
            return np.rint(4 * plain)
        case "with zeros":
            return np.maximum(plain, 0.0)
        case "wide":
            low, high = np.log2(least) - 4, min(np.log2(most) + 1, 1023.9)
            return np.exp2(rng.uniform(low, high, n)) * rng.choice([-1, 1], n)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, most, -most, most * 0.999999]
    edges += [least, -least / 2, least * 40, least / 1e6]
    return np.where(rng.random(n) < 0.5, rng.choice(edges, n), plain)


def radii(mid, kind, rng):
    size = np.where(np.isfinite(mid), np.minimum(np.abs(mid), 1e300), 0.0)
    match kind:
        case "none":
            return None
        case "small":
            return size * 2.0**-20 * rng.random(mid.shape)
        case "some exact":
            return np.where(rng.random(mid.shape) < 0.5, 0.0, size * 2.0**-10)
    return 2 * size * rng.random(mid.shape) + (rng.random(mid.shape) < 0.1)


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "f16", "f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_quick_rule_is_the_full_one(policy, name):
    dtype = DTYPES[name]
    kinds = ("none", "small", "some exact", "wide")
    with np.errstate(all="ignore"):
        for case in itertools.product(MIXTURES, kinds, (None, 1.5), (False, True), (False, True)):
            mixture, kind, ulps, known, further = case
            rng = np.random.default_rng(len(repr(case)))
            mid = midpoints(dtype, mixture, 700, rng)
            rad = radii(mid, kind, rng)
            error = radii(mid, "some exact", rng) if further else None
            before = before_rounding(dtype, mid, rad, ulps, error)
            local = committed(policy, dtype, mid, rad, ulps, error, known)
            full = settled(dtype, mid, total(rad, local), None, policy, before)
            found = stored(policy, dtype, mid, rad, None, ulps, error, known)
            np.testing.assert_array_equal(found.mid, full.mid, str(case))
            np.testing.assert_array_equal(filled(found.rad, mid), filled(full.rad, mid), str(case))
            np.testing.assert_array_equal(filled(found.und, mid), filled(full.und, mid), str(case))
            drawn = drawn_bound(policy, dtype, mid, rad, ulps, error)
            rule = total(rad, committed(policy, dtype, mid, rad, ulps, error, False))
            np.testing.assert_array_equal(drawn, np.where(np.isfinite(rule), rule, 0.0), str(case))


def filled(part, like):
    return np.zeros(like.shape) if part is None else part + np.zeros(like.shape)


def test_large_arrays_are_rounded_as_small_ones_are():
    rng = np.random.default_rng(0)
    dtype, policy = DTYPES["f32"], POLICIES["flushes"]
    mid = midpoints(dtype, "special", 3 * BLOCK + 5, rng)
    rad = radii(mid, "some exact", rng)
    with np.errstate(all="ignore"):
        whole = stored(policy, dtype, mid, rad, None, 1.5, None, True)
        for start in range(0, mid.size, 9973):
            at = slice(start, start + 50)
            part = stored(policy, dtype, mid[at], rad[at], None, 1.5, None, True)
            np.testing.assert_array_equal(whole.mid[at], part.mid)
            np.testing.assert_array_equal(filled(whole.rad, mid)[at], filled(part.rad, part.mid))
            np.testing.assert_array_equal(filled(whole.und, mid)[at], filled(part.und, part.mid))


@pytest.mark.parametrize(
    "dims", [(), (7,), (0, 5), (3 * BLOCK,), (2, BLOCK, 3), (5, 4 * BLOCK), (BLOCK, 7, 2), (3, 1, 2 * BLOCK + 1)]
)
def test_pieces_cover_each_element_once(dims):
    count = np.zeros(dims, int)
    for index in pieces(dims):
        count[index] += 1
    assert (count == 1).all()


@pytest.mark.parametrize("dims", [(5, FEW // 10), (FEW * 4, 3), (POOL,)])
def test_noise_is_uniform_around_its_shift(dims):
    noise = Noise(np.random.default_rng(0))
    draws = np.stack([noise.draw(dims, 0.25) for _ in range(40)]) - 0.25
    assert np.abs(draws).max() <= 1
    assert abs(draws.mean()) < 0.03
    assert abs(np.square(draws).mean() - 1 / 3) < 0.02
    if draws[0].size <= FEW * 20:  # stretches of one pool are not correlated
        pairs = np.corrcoef(draws.reshape(40, -1))[np.triu_indices(40, 1)]
        assert abs(pairs.mean()) < 0.02


MODULE = parse_module(
    "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n"
    "  %p = f32[2]{0} parameter(0)\n  ROOT %r = f32[2]{0} negate(%p)\n}\n"
)


def test_arguments_may_be_balls():
    given = Ball(DTYPES["f32"], np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    found = evaluate(MODULE, [given], for_target("cpu")).value
    assert found.mid.tolist() == [-1.0, -2.0]
    assert found.rad.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(("dtype", "dims"), [("f64", (2,)), ("f32", (3,))])
def test_a_ball_that_does_not_fit_its_parameter_is_refused(dtype, dims):
    with pytest.raises(InputError, match="parameter p"):
        evaluate(MODULE, [Ball(DTYPES[dtype], np.zeros(dims))], for_target("cpu"))
