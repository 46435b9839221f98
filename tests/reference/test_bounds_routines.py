"""The rule for routines of docs/bounds.md: a routine as inaccurate as the policy lets it be, at either end and rounded
to the type, is in the ball; one that is a little worse is not.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath
import numpy as np
import pytest
from elements import apply, ball
from exact import all_hold, nearest
from test_bounds_propagation import TRUTH
from test_bounds_rounding import fraction

from assay.hlo.shape import DTYPES
from assay.reference.policies import XLA_CPU, XLA_CPU_OLDER
from assay.reference.value import round_to

ROUTINES = sorted(set(XLA_CPU.ulps) & set(TRUTH))
POSITIVE = {"log", "log2", "sqrt", "rsqrt", "log-plus-one", "acosh"}
POLICIES = {"newest": XLA_CPU, "older": XLA_CPU_OLDER}


def operands(opcode: str, dtype: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(len(opcode))
    x = rng.normal(size=count) * rng.choice([0.1, 1, 4], count)
    x[::4] *= 2.0 ** rng.uniform(-12, 3, len(x[::4]))
    if opcode in ("exponential", "exponential-minus-one"):
        x[::7] = np.log(DTYPES[dtype].max) - rng.uniform(0.05, 2, len(x[::7]))  # next to overflow
    x = np.abs(x) if opcode in POSITIVE else x
    x = round_to(DTYPES[dtype], x)
    return x[x != 0]


def true_values(opcode: str, x: np.ndarray) -> list[mpmath.mpf]:
    return _true_values(opcode, tuple(map(float, x)))


@lru_cache
def _true_values(opcode: str, x: tuple[float, ...]) -> list[mpmath.mpf]:
    with mpmath.workdps(40):
        return [TRUTH[opcode](mpmath.mpf(v)) for v in x]


def ulp(dtype: str, size: np.ndarray) -> np.ndarray:
    """Of the binade of a number, without a lower end: a routine is as accurate below the normal range."""
    binade = np.floor(np.log2(np.where(size == 0, 1.0, size)))
    return np.where(size == 0, 0.0, 2.0 ** (binade - DTYPES[dtype].mantissa))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("opcode", ROUTINES)
def test_the_worst_legal_routine_is_inside(opcode, dtype, policy):
    chosen = POLICIES[policy]
    x = operands(opcode, dtype, 70)
    got = apply(opcode, ball(dtype, x), policy=chosen)
    true = np.array([float(t) for t in true_values(opcode, x)])
    size = np.abs(true)
    step = ulp(dtype, size)
    off = (chosen.routine_ulps(opcode, dtype) or 0.0) * step
    near = size > DTYPES[dtype].max / 8
    off += np.where(near, chosen.near_overflow.get(opcode, {}).get(dtype, 0.0) * step, 0.0)
    off += chosen.per_octave.get(opcode, {}).get(dtype, 0.0) * np.abs(np.log2(np.abs(x))) * step
    off += chosen.absolute.get(opcode, {}).get(dtype, 0.0) * 2.0 ** -DTYPES[dtype].mantissa
    for end in (true - off, true, true + off, true - off / 2):
        assert all_hold(got, end).all(), "kept in more precision"
        stored = np.array([_stored(dtype, v) for v in end])
        assert all_hold(got, stored).all(), "rounded to the type"


def _stored(dtype: str, value: float) -> float:
    found = nearest(fraction(value), dtype)
    return np.copysign(np.inf, value) if found is None else float(found)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("opcode", ROUTINES)
def test_a_worse_routine_is_outside(opcode, dtype):
    """Two and a half times what is allowed, and an ulp more."""
    x = operands(opcode, dtype, 70)
    got = apply(opcode, ball(dtype, x), policy=XLA_CPU)
    off = 2.5 * (XLA_CPU.routine_ulps(opcode, dtype) or 0.0) + 1.5
    off = off + 2.5 * XLA_CPU.per_octave.get(opcode, {}).get(dtype, 0.0) * np.abs(np.log2(np.abs(x)))
    wrong = got.mid + off * ulp(dtype, np.abs(got.mid))
    decided = np.isfinite(got.mid) & (np.abs(got.mid) > 2 * 2.0 ** DTYPES[dtype].min_exponent)
    decided &= True if got.und is None else ~got.und
    assert not all_hold(got, wrong)[decided].any()


def test_midpoints_are_true():
    """Against 40 digits, far better than any ulp that is allowed."""
    for opcode in ROUTINES:
        x = operands(opcode, "f32", 60)
        got = apply(opcode, ball("f32", x), policy=XLA_CPU)
        for mid, true in zip(got.mid, true_values(opcode, x), strict=True):
            assert np.isinf(mid) or abs(true - mpmath.mpf(float(mid))) <= 2.0**-49 * abs(true), opcode
