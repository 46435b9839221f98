"""What small radii contribute to functions, against mpmath: enough, and little more than that."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from assay.reference.ops.transcendental import FUNCTIONS

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
