"""What small radii contribute to functions, against mpmath: enough, and little more than that."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.evaluator import Steps
from assay.reference.ops.transcendental import FUNCTIONS
from assay.reference.policies import for_target
from assay.reference.value import Ball, as_ball, enclosing

ANYWHERE = [-300.0, -20.0, -3.0, -1e-3, 0.0, 1e-9, 0.5, 1.5707963267948966, 5.0, 18.0, 300.0]
POSITIVE = [1e-30, 1e-3, 0.7, 1.0, 3.0, 1e20]
CASES = {
    "exponential": (mpmath.exp, ANYWHERE),
    "log": (mpmath.log, POSITIVE),
    "log-plus-one": (mpmath.log1p, [1e-9, 0.3, 5.0]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), POSITIVE),
    "tanh": (mpmath.tanh, ANYWHERE),
    "logistic": (lambda x: 1 / (1 + mpmath.exp(-x)), ANYWHERE),
    "sine": (mpmath.sin, ANYWHERE),
    "cosine": (mpmath.cos, ANYWHERE),
}


@pytest.mark.parametrize("share", [1e-13, 1e-8, 9e-4])
@pytest.mark.parametrize("opcode", CASES)
def test_reach_covers_the_ends_and_is_tight(opcode: str, share: float) -> None:
    truth, places = CASES[opcode]
    x = np.array(places)
    r = share * (np.minimum(np.abs(x), 1.0) if places is POSITIVE else np.ones_like(x))
    function = FUNCTIONS[opcode]
    reach = function.reach(x, r, function.value(x))
    with mpmath.workdps(60):
        for at, off, got in zip(x, r, reach, strict=True):
            middle = truth(mpmath.mpf(at))
            ends = max(abs(truth(mpmath.mpf(at) + sign * mpmath.mpf(off)) - middle) for sign in (-1, 1))
            assert ends <= mpmath.mpf(float(got)) * (1 + mpmath.mpf(2) ** -50), (at, off)
            # Near the top of a curve, and where it is flat, the slope is known to 2**-25 and 2**-48.
            flat = {"sine": 2.0**-24, "cosine": 2.0**-24, "tanh": 2.0**-47, "logistic": 2.0**-50}.get(opcode, 0.0)
            assert got <= float(ends) * 1.01 + flat * off + off * off, (at, off)


def test_the_faster_tanh_is_within_what_it_says() -> None:
    x = np.concatenate([np.linspace(-25, 25, 4001), [1e-300, -1e-9, 1e-4, 400.0, -1e300, np.inf, -np.inf]])
    rough = FUNCTIONS["tanh"].rough
    assert rough is not None
    with mpmath.workdps(40):
        for at, got in zip(x, rough(x), strict=True):
            true = mpmath.tanh(mpmath.mpf(at)) if np.isfinite(at) else mpmath.mpf(np.sign(at))
            assert abs(mpmath.mpf(float(got)) - true) <= abs(true) * mpmath.mpf(2) ** -50
    assert np.isnan(rough(np.array([np.nan]))).all()
    assert np.signbit(rough(np.array([-0.0]))).all()


ENDS = np.array([0.0, 1.0, -1.0, 1e-30, -3.0, 7e8, 2.0**-126, 1e37, -1.7e38, 3.4e38])


def test_ends_of_unlike_sizes_are_both_enclosed() -> None:
    """Half of 1e38 - 1 is half of 1e38 in float64: the 1 was lost, and -1 was not in [-1, 1e38]."""
    low, high = (x.reshape(-1) for x in np.meshgrid(ENDS, ENDS))
    low, high = np.minimum(low, high), np.maximum(low, high)
    mid, rad = enclosing(low, high)
    assert (mid - rad <= low).all()
    assert (mid + rad >= high).all()
    assert (rad[low == high] == 0).all()
    assert (rad <= (high - low) * 0.5000001).all()


LESS = "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT%s }"
SORT = "ENTRY e { x = f32[1,5] parameter(0)\n ROOT r = f32[1,5] sort(x), dimensions={1}, to_apply=less }"


@pytest.mark.parametrize("order", ["", ", type=TOTALORDER"])
@pytest.mark.parametrize("open_", [True, False])
def test_a_sorted_value_beside_one_of_which_little_is_known_is_enclosed(open_: bool, order: str) -> None:
    """Zeros are as wide as a neighbour that may be read as zero, so that order statistics have unlike ends."""
    module = parse_module(f"HloModule m\n{LESS % order}\n{SORT}")
    large = 1.7014117e38
    mid, rad = np.array([[0.0, -1, -1, -1, -large]]), np.array([[0.0, 6e-8, 6e-8, 6e-8, large * (1 + 1e-6)]])
    x = Ball(DTYPES["f32"], mid, rad, np.array([[False, False, False, False, True]]) if open_ else None)
    entry = module.entry
    found = as_ball(Steps(module, for_target("tpu:v5e"), balls=True).step(entry, entry.root, [x]))
    assert found.rad is not None
    known = np.ones(5, bool) if found.und is None else ~found.und[0]
    assert known.sum() >= 3
    for last in (-3.4e38, -2.0, 0.0, 3e31, *((np.inf,) if open_ else ())):
        right = np.sort(np.append(mid[0, :4], last))
        assert (found.mid - found.rad <= right)[0, known].all(), last
        assert (found.mid + found.rad >= right)[0, known].all(), last
