"""Conversions: every pair of types against XLA:CPU, saturation and ties by hand, bits, explicit rounding."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from elements import FLOATS, INTEGERS, POLICY, apply, ball, draw
from jax import lax
from xla_cpu import assert_agree

from assay.hlo.shape import DTYPES
from assay.reference.policies import STRICT
from assay.reference.value import Ball, from_array

pytestmark = pytest.mark.usefixtures("x64")

FLOAT8 = [
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e3m4,
]
NARROW_INTEGERS = [jnp.int4, jnp.uint4]
NAMES = {dtype.numpy: name for name, dtype in DTYPES.items() if dtype.numpy is not None}


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS], ids=lambda d: np.dtype(d).name)
def test_every_pair_agrees(source):
    x = draw(source, 1500)
    for target in (*FLOATS, *INTEGERS, np.bool_, np.complex64, *NARROW_INTEGERS):
        assert_agree(lambda x, t=target: lax.convert_element_type(x, t), x, policy=POLICY, decided=False)


@pytest.mark.parametrize("narrow", FLOAT8, ids=lambda d: np.dtype(d).name)
def test_eight_bits(narrow):
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.normal(size=500) * rng.choice([0.01, 1, 50], 500),
            np.arange(-20, 20),
            [0, -0.0, np.inf, np.nan, 448, 464, 480],
        ]
    )
    for source in (np.float32, np.float64, np.float16):
        assert_agree(lambda x: lax.convert_element_type(x, narrow), x.astype(source), policy=POLICY, decided=False)
    a = x[np.isfinite(x)].astype(narrow)
    a = a[np.isfinite(a.astype(np.float32))]
    for target in (np.float32, np.int8, np.int32, np.bool_):
        assert_agree(lambda x, t=target: lax.convert_element_type(x, t), a, policy=POLICY)
    for function in (lax.add, lax.mul, lax.div):
        assert_agree(function, a, np.roll(a, 1), policy=POLICY, decided=False)


def test_int4():
    """jax#17672: the sign of an int4 was lost."""
    x = np.arange(-8, 8).astype(jnp.int4)
    (got,) = assert_agree(lambda x: lax.convert_element_type(x, np.int8), x)
    assert got.mid.tolist() == list(range(-8, 8))


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        ("s8", [0, 127, -128, 127, -128, -1, 2]),
        ("u8", [0, 255, 0, 255, 0, 0, 2]),
        ("s4", [0, 7, -8, 7, -8, -1, 2]),
        ("s32", [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 2]),
        ("u32", [0, 2**32 - 1, 0, 3 * 10**9, 0, 0, 2]),
        ("s64", [0, 2**63 - 1, -(2**63), 3 * 10**9, -3 * 10**9, -1, 2]),
        ("u64", [0, 2**64 - 1, 0, 3 * 10**9, 0, 0, 2]),
    ],
)
def test_saturation(dtype, want):
    x = ball("f64", [np.nan, np.inf, -np.inf, 3e9, -3e9, -1.7, 2.9])
    assert apply("convert", x, out=dtype).mid.tolist() == want


def test_a_ball_across_a_whole_number_is_undecided():
    got = apply("convert", ball("f32", [1.5, 1.99, -0.5, 300.0], 0.1), out="s8")
    assert got.und.tolist() == [False, True, False, False]
    assert got.mid.tolist() == [1, 1, 0, 127]
    assert apply("convert", ball("f32", [0.05, 1.0], 0.1), out="pred").und.tolist() == [True, False]


def test_narrowing_rounds_or_not():
    x = 1 + 2.0**-9
    kept = apply("convert", ball("f32", [x]), out="bf16")
    assert kept.mid[0] == x
    assert kept.rad[0] == 2.0**-9  # both 1 and x
    assert apply("convert", ball("f32", [1.5]), out="bf16").exact
    down = apply("convert", apply("convert", ball("f32", [x]), out="bf16", policy=STRICT), out="f32", policy=STRICT)
    assert down.exact  # a target that skips no rounding has 1 and nothing else
    assert down.mid[0] == 1


def test_overflow_of_a_narrow_type():
    assert apply("convert", ball("f32", [1e6]), out="f16").und.tolist() == [True]  # may be kept in f32
    assert apply("convert", ball("f32", [1e6]), out="f16", policy=STRICT).mid[0] == np.inf
    assert apply("convert", ball("f64", [1e300]), out="f32").mid[0] == np.inf


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float32, np.int32),
        (np.float32, np.uint8),
        (np.float64, np.uint32),
        (np.float16, np.int16),
        (np.uint32, np.float32),
        (np.uint64, np.uint16),
    ],
)
def test_bits_agree(source, target):
    rng = np.random.default_rng(0)
    x = (
        rng.normal(size=300).astype(source)
        if np.dtype(source).kind == "f"
        else rng.integers(0, 2**30, 300).astype(source)
    )
    assert_agree(lambda x: lax.bitcast_convert_type(x, target), x, policy=POLICY)
    if np.dtype(source).itemsize > np.dtype(target).itemsize:
        parts = np.asarray(lax.bitcast_convert_type(x, target))
        assert_agree(lambda x: lax.bitcast_convert_type(x, source), parts, policy=POLICY, decided=False)


def test_bits_of_inexact_values_are_undecided():
    assert apply("bitcast-convert", ball("f32", [1.0, 2.0], [0.1, 0.0]), out="s32").und.tolist() == [True, False]
    assert apply("bitcast-convert", ball("f32", [-0.0, np.nan, 1.0]), out="s32").und.tolist() == [True, True, False]


@pytest.mark.parametrize(("narrow", "bits"), [("f4e2m1fn", 4), ("f8e8m0fnu", 8), ("f6e2m3fn", 6)])
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_types_without_infinity_saturate(source, narrow, bits):
    """The ball reaches from the operand to the nearest value that the format has, which outside its range is its
    end.
    """
    values = np.unique(np.arange(1 << bits, dtype=np.uint8).view(DTYPES[narrow].numpy).astype(np.float64))
    values = values[np.isfinite(values)]
    x = draw(source, 3000, 5)
    x = x[np.isfinite(x) & ((x > values[0] / 2) | (values[0] < 0))]
    found = apply("convert", ball(NAMES[np.dtype(source)], x), out=narrow)
    assert found.und is None or not found.und.any()
    wide = x.astype(np.float64)
    distance = np.abs(wide[:, None] - values)  # (elements, values)
    least = distance.min(1)
    rad = np.zeros(wide.shape) if found.rad is None else found.rad
    assert (found.mid == wide).all()
    assert (rad == least).all()
    assert_agree(lambda x: lax.convert_element_type(x, DTYPES[narrow].numpy), x, policy=POLICY) if bits != 6 else None


@pytest.mark.parametrize("fields", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 23), (2, 3), (8, 0)])
def test_reduce_precision_agrees(fields):
    rng = np.random.default_rng(0)
    x = np.ldexp(1 + rng.random(5000), rng.integers(-149, 127, 5000)).astype(np.float32)
    x[:8] = [np.nan, np.inf, 0, -0.0, 65519, 65520, 3.4e38, 1 + 2.0**-11]
    (got,) = assert_agree(lambda x: lax.reduce_precision(x, *fields), x, policy=POLICY)
    if fields != (8, 23) and fields[0] < 8:
        assert got.rad is None
    assert_agree(lambda x: lax.reduce_precision(x * x + x, *fields), x, policy=POLICY, decided=False)


def test_reduce_precision_is_exact_and_monotone():
    attributes = {"exponent_bits": "8", "mantissa_bits": "7"}
    assert apply("reduce-precision", ball("f32", [1 + 2.0**-9]), attributes=attributes).mid.tolist() == [1]
    inside = apply("reduce-precision", ball("f32", [1.001], 1e-4), attributes=attributes)
    assert inside.mid[0] == 1
    assert inside.rad is None
    across = apply("reduce-precision", ball("f32", [1 + 2.0**-8], 1e-4), attributes=attributes)
    assert across.mid[0] == 1 + 2.0**-8
    assert across.rad[0] == 2.0**-8  # either 1 or 1 + 2**-7


def test_complex_parts():
    z = Ball(DTYPES["c64"], np.array([1 + 2j]))
    assert apply("convert", z, out="f32").mid.tolist() == [1]
    assert apply("convert", from_array(DTYPES["s32"], np.array([3])), out="c64").mid.tolist() == [3 + 0j]
