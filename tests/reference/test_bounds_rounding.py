"""The rounding rules of docs/bounds.md against rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from elements import POLICY, apply, ball
from exact import flushed, fraction, holds, nearest, undecided
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.hlo.shape import DTYPES
from assay.reference.rounding import stored
from assay.reference.value import from_array, round_to

TYPES = ("f32", "bf16", "f16", "f64")
OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}
KEPT = replace(POLICY, flush_subnormals=False)


def values(dtype: str) -> st.SearchStrategy[float]:
    """Values of the type, over its whole range and next to powers of two and to each other."""
    kind = DTYPES[dtype]
    digits = kind.mantissa + 1
    significand = st.one_of(
        st.integers(1 << (digits - 1), (1 << digits) - 1),
        st.integers(0, 3).map(lambda k: (1 << (digits - 1)) + k),
        st.integers(0, 3).map(lambda k: (1 << digits) - 1 - k),
    )
    top = 1024 if dtype == "f64" else int(np.log2(kind.max)) + 1
    exponent = st.one_of(st.integers(-digits, 3), st.integers(kind.min_exponent - kind.mantissa, top - digits))
    return st.tuples(significand, exponent, st.sampled_from((1, -1))).map(
        lambda t: float(round_to(kind, np.array(np.ldexp(float(t[0]), t[1]) * t[2])))
    )


@st.composite
def pairs(draw):
    dtype = draw(st.sampled_from(TYPES))
    return dtype, draw(values(dtype)), draw(values(dtype))


@settings(max_examples=120, deadline=None)
@given(pairs(), st.sampled_from(sorted(OPERATIONS)), st.booleans())
@example(("f32", 1.0, 2.0**-24), "add", True)  # a tie
@example(("f16", -1.0, 60000.0), "divide", True)  # a subnormal result of a subnormal reciprocal
@example(("f64", 1.0, 2.0**-53 * 1.5), "add", True)
@example(("f64", 2.0**-538, 2.0**-537), "multiply", False)  # half the smallest subnormal
@example(("f64", -(2.0**-1022), -(1 - 2.0**-53)), "multiply", True)  # less than the smallest normal, and rounded to it
@example(("f32", -(2.0**-126), -(1 - 2.0**-24)), "multiply", True)
@example(("f64", 2.0**-1021 - 2.0**-1074, 2.0), "divide", True)
def test_a_correctly_rounded_result_and_the_true_one(pair, opcode, flush):
    """Of exact operands: truth, truth rounded, and both with subnormals flushed where they may be."""
    dtype, a, b = pair
    if not np.isfinite([a, b]).all() or (opcode == "divide" and b == 0):
        return
    policy = POLICY if flush else KEPT
    got = apply(opcode, *(_entering(dtype, x, policy) for x in (a, b)), policy=policy)
    true = OPERATIONS[opcode](fraction(a), fraction(b))
    rounded = nearest(true, dtype)
    if rounded is None:
        assert undecided(got) or np.isinf(got.mid[0]), "an overflow"
        return
    if dtype != "f64" or abs(true) >= Fraction(2) ** -1074:  # nothing holds what lies between 0 and that
        assert holds(got, true)
    assert holds(got, rounded)
    if flush and dtype != "f16":
        assert holds(got, flushed(rounded, dtype))
        # Processors flush what is too small before it is rounded, or as it would be rounded with more of an exponent.
        assert flushed(true, dtype) != 0 or holds(got, Fraction(0))
        if opcode != "divide" or flushed(fraction(b), dtype) != 0:
            dry = OPERATIONS[opcode](flushed(fraction(a), dtype), flushed(fraction(b), dtype))
            assert holds(got, flushed(nearest(dry, dtype) or Fraction(0), dtype))


def _entering(dtype, x, policy):
    """As the evaluator takes in an argument."""
    from assay.hlo.module import Computation, Instruction, Module
    from assay.hlo.shape import ArrayShape
    from assay.reference.context import Context

    kind = DTYPES[dtype]
    parameter = Instruction("p", "parameter", ArrayShape(kind, (1,)), parameter_number=0)
    module = Module("m", (Computation("e", (parameter,), "p"),), "e")
    return Context(module, policy, lambda name, arguments: arguments[0]).entering(
        from_array(kind, np.array([x], np.float64))
    )


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(("bf16", "f16")), st.data(), st.sampled_from(sorted(OPERATIONS)))
def test_excess_precision_is_allowed(dtype, data, opcode):
    """A narrow result may stay in f32: exactly rounded there, and rounded twice on the way back."""
    a, b = data.draw(values(dtype)), data.draw(values(dtype))
    if (opcode == "divide" and b == 0) or abs(a) < 2.0**-100 or abs(b) < 2.0**-100:
        return
    got = apply(opcode, ball(dtype, [a]), ball(dtype, [b]))
    wide = nearest(OPERATIONS[opcode](fraction(a), fraction(b)), "f32")
    if wide is None or nearest(wide, dtype) is None:
        return
    assert holds(got, wide)
    assert holds(got, nearest(wide, dtype))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TYPES), st.data(), st.sampled_from(sorted(OPERATIONS)))
def test_an_exact_result_has_no_radius(dtype, data, opcode):
    """Small integers and powers of two: where the result is representable, a wrong last bit shows."""
    a = data.draw(st.integers(-128, 128))
    b = data.draw(st.sampled_from([1, 2, 4, 64, -8]) if opcode == "divide" else st.integers(-128, 128))
    true = OPERATIONS[opcode](Fraction(a), Fraction(b))
    if nearest(true, dtype) != true or dtype == "f64":
        return
    got = apply(opcode, ball(dtype, [float(a)]), ball(dtype, [float(b)]))
    assert got.rad is None or got.rad[0] == 0
    assert fraction(got.mid[0]) == true


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(("f32", "bf16", "f16")), st.integers(-40, 40), st.floats(0, 2))
def test_overflow_is_decided_or_open(dtype, steps, share):
    """Next to the largest value: infinite for sure only where every legal result is, finite only where none is."""
    kind = DTYPES[dtype]
    unit = Fraction(2) ** (int(np.log2(kind.max)) - kind.mantissa - 3)  # an eighth of the last step
    total = Fraction(kind.max) + steps * unit
    a = fraction(float(round_to(kind, np.array(float(total / 2)))))
    b = total - a  # may have more digits than the type
    rad = float(unit * Fraction(share))
    got = apply("add", ball(dtype, [float(a)]), ball(dtype, [float(b)], rad))
    results = set()
    for d in (-1, 0, 1):
        end = total + d * fraction(rad)
        results.add(nearest(end, dtype) is None)
        if dtype != "f32":
            results.add(nearest(end, "f32") is None)
    if undecided(got):
        return
    assert len(results) == 1, "rounding decides, but the ball does not say so"
    assert np.isinf(got.mid[0]) == results.pop()


@pytest.mark.parametrize("dtype", TYPES)
def test_the_radius_bites(dtype):
    """A result one step off is outside for most operands, so that the rules above are not met by wide balls."""
    rng = np.random.default_rng(0)
    kind = DTYPES[dtype]
    a, b = (round_to(kind, rng.uniform(1, 2, 400)) for _ in range(2))
    for opcode in ("add", "multiply"):
        got = apply(opcode, ball(dtype, a), ball(dtype, b))
        step = 2.0 ** (np.floor(np.log2(got.mid)) - kind.mantissa)
        wrong = round_to(kind, got.mid) + 2 * step
        assert (np.abs(wrong - got.mid) > got.rad).all()


@pytest.mark.parametrize("name", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f16"])
def test_next_to_the_largest_value_nothing_overflows(name):
    """Sums below the midpoint of the largest value and what would follow it are rounded down to that."""
    dtype = DTYPES[name]
    top = Fraction(dtype.max)
    half_step = Fraction(2) ** (dtype_exponent(top) - dtype.mantissa - 1)
    for below in (Fraction(1, 4), Fraction(3, 4), Fraction(1), Fraction(5, 2), Fraction(-1, 4), Fraction(-1, 2)):
        true = top - below * half_step
        got = stored(KEPT, dtype, np.array([float(true)]), None, None, ulps=None, error=None, known=False)
        assert not undecided(got)
        assert holds(got, true)
        assert holds(got, nearest(true, name))


def dtype_exponent(x: Fraction) -> int:
    return int(np.floor(np.log2(float(x))))
