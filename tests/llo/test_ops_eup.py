"""The EUP's functions against mpmath: correctly rounded, through the queue and in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

EXACT: dict[str, Callable[[Any], Any]] = {
    "vrcp.f32": lambda x: 1 / x,
    "vrsqrt.f32": lambda x: 1 / mpmath.sqrt(x),
    "vexp2.f32": lambda x: mpmath.mpf(2) ** x,
    "vlog2.f32": lambda x: mpmath.log(x, 2),
    "vtanh.f32": mpmath.tanh,
}
ENDS: dict[str, list[tuple[float, float]]] = {
    "vrcp.f32": [(0.0, math.inf), (-0.0, -math.inf), (math.inf, 0.0), (-math.inf, -0.0), (1e-40, math.inf)],
    "vrsqrt.f32": [(0.0, math.inf), (-0.0, -math.inf), (math.inf, 0.0), (-1.0, math.nan)],
    "vexp2.f32": [
        (0.0, 1.0),
        (math.inf, math.inf),
        (-math.inf, 0.0),
        (128.0, math.inf),
        (-127.0, 0.0),
        (-126.0, 2.0**-126),
    ],
    "vlog2.f32": [(0.0, -math.inf), (1.0, 0.0), (8.0, 3.0), (math.inf, math.inf), (-2.0, math.nan)],
    "vtanh.f32": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (30.0, 1.0)],
}


@pytest.mark.parametrize("name", EXACT)
def test_results_are_correctly_rounded(name: str, run: Any) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(8, 128)) * 2.0 ** rng.integers(-9, 6, (8, 128))).astype(np.float32)
    if name in ("vrsqrt.f32", "vlog2.f32"):
        x = np.abs(x)
    ran = run([(name, 0, 0, 5), ("vpop.erf", 1, 0, 5), (name + ".pop", 2, 0)], {0: x.view(np.uint32)})
    assert np.array_equal(ran.v(1), ran.v(2))
    with mpmath.workprec(200):
        for value, got in zip(x.ravel().tolist(), ran.floats(1).ravel().tolist(), strict=True):
            exact = EXACT[name](mpmath.mpf(value))
            below, above = (float(np.nextafter(np.float32(got), np.float32(s * np.inf))) for s in (-1, 1))
            error = abs(exact - mpmath.mpf(got))
            assert error <= abs(exact - mpmath.mpf(below)), (name, value)
            assert error <= abs(exact - mpmath.mpf(above)), (name, value)


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_the_line(name: str, run: Any) -> None:
    for value, wanted in [*ENDS[name], (math.nan, math.nan)]:
        word = int(np.float32(value).view(np.uint32))
        got = float(run([(name + ".pop", 1, 0)], {0: word}).floats(1)[0, 0])
        assert (
            math.isnan(got)
            if math.isnan(wanted)
            else (got, math.copysign(1, got)) == (wanted, math.copysign(1, wanted))
        )


def test_powers(run: Any) -> None:
    x, y = np.float32(1.7).view(np.uint32), np.float32(-3.25).view(np.uint32)
    got = float(run([("vpow.f32", 2, 0, 1)], {0: x, 1: y}).floats(2)[0, 0])
    with mpmath.workprec(200):
        exact = mpmath.mpf(float(np.float32(1.7))) ** mpmath.mpf(-3.25)
        assert abs(exact - got) <= 0.5 * float(np.spacing(np.float32(got)))
