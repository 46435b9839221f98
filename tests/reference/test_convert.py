"""Conversions: every pair of types against XLA:CPU, saturation and ties by hand, bits, explicit rounding."""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from elements import FLOATS, INTEGERS, POLICY, apply, ball, draw
from jax import lax
from xla_cpu import assert_agree, assert_hlo_agrees, reference

from assay.errors import Unsupported
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


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [(w, n) for w in ("int8", "uint8", "uint32", "int64", "bfloat16") for n in ("int4", "uint2")] + [("int4", "uint2")],
)
def test_bits_below_a_byte_agree(wide, narrow):
    """Taken apart by XLA:CPU, and put together again."""
    source, target = jnp.dtype(wide), jnp.dtype(narrow)
    rng = np.random.default_rng(0)
    x = np.asarray(rng.normal(size=256) if wide == "bfloat16" else rng.integers(-(2**60), 2**60, 256)).astype(source)
    assert_agree(lambda x: lax.bitcast_convert_type(x, target), x, policy=POLICY)
    parts = np.asarray(lax.bitcast_convert_type(x, target))
    assert_agree(lambda x: lax.bitcast_convert_type(x, source), parts, policy=POLICY, decided=False)


def test_parts_of_a_byte_by_hand():
    """The lowest bits come first."""
    text = "HloModule m\nENTRY e {{\n  p = {} parameter(0)\n  ROOT r = {} bitcast-convert(p)\n}}"
    (apart,) = reference(text.format("s8[3]", "s4[3,2]"), [np.array([0x7A, -1, 0x13], np.int8)])
    assert apart.mid.tolist() == [[-6, 7], [-1, -1], [3, 1]]
    (whole,) = reference(text.format("u4[2,2]", "u8[2]"), [np.array([[10, 7], [15, 15]], ml_dtypes.uint4)])
    assert whole.mid.tolist() == [0x7A, 0xFF]


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


# ---------------------------------------------------------------- stochastic

STOCHASTIC = """HloModule m

ENTRY e {{
  a = {source}[{n}] parameter(0)
  r = u{bits}[{n}] parameter(1)
  ROOT c = {target}[{n}] stochastic-convert(a, r)
}}
"""


def rounded_by_chance(value: float, word: int, bits: int, low: int, high: int) -> int:
    """In exact arithmetic."""
    if value != value:
        return 0
    if value in (np.inf, -np.inf):
        return high if value > 0 else low
    exact = abs(Fraction(value))
    whole, rest = divmod(exact, 1)
    whole += word < int(rest * 2**bits)
    return int(max(low, min(high, whole if value >= 0 else -whole)))


@pytest.mark.parametrize(("source", "bits"), [("f32", 32), ("f64", 64), ("bf16", 16), ("f16", 16)])
@pytest.mark.parametrize("target", ["s8", "s32"])
def test_stochastic_convert_is_decided_by_its_random_words(source, bits, target):
    rng = np.random.default_rng(bits)
    values = np.concatenate([rng.normal(size=300) * 3, [127.5, -127.5, -128.5, 130, 0.5, -0.5, 0, np.nan, np.inf]])
    x = values.astype(DTYPES[source].numpy)
    half = rng.integers(0, 2**bits, len(x), dtype=np.uint64)
    half[:150] = [
        int(abs(float(v)) % 1 * 2**bits) - i % 2 if abs(float(v)) % 1 else i % 2 for i, v in enumerate(x[:150])
    ]
    words = half.astype(f"uint{bits}")
    text = STOCHASTIC.format(source=source, target=target, bits=bits, n=len(x))
    (ball,) = assert_hlo_agrees(text, x, words)
    low, high = np.iinfo(DTYPES[target].numpy).min, np.iinfo(DTYPES[target].numpy).max
    expected = [rounded_by_chance(float(v), int(w), bits, low, high) for v, w in zip(x, words, strict=True)]
    np.testing.assert_array_equal(ball.mid, expected)


def test_stochastic_convert_of_balls_and_to_floats():
    values, words = ball("f32", [1.25, 1.25, 3.0], [1e-3, 0.3, 1e-9]), from_array(DTYPES["u32"], np.array([5, 5, 0]))
    found = apply("stochastic-convert", values, words, out="s32")
    assert found.mid.tolist() == [2, 2, 3]
    assert found.und.tolist() == [False, True, True]
    with pytest.raises(Unsupported, match="to bf16"):
        reference(STOCHASTIC.format(source="f32", target="bf16", bits=32, n=2), [np.ones(2, np.float32)] * 2)


# ---------------------------------------------------------------- every value of 16 bits, by the formats' definitions

# exponent bits, fraction bits, bias, what lies beyond the largest value: infinity, NaN, or nothing (it saturates).
# IEEE 754-2019; Micikevicius et al. 2022 and OCP OFP8; Noune et al. 2022 (fnuz); OCP MX v1.0.
FORMATS = {
    "f16":           (5, 10, 15, "inf"),
    "bf16":          (8, 7, 127, "inf"),
    "f8e5m2":        (5, 2, 15, "inf"),
    "f8e4m3":        (4, 3, 7, "inf"),
    "f8e3m4":        (3, 4, 3, "inf"),
    "f8e4m3fn":      (4, 3, 7, "last is nan"),
    "f8e4m3b11fnuz": (4, 3, 11, "nan"),
    "f8e5m2fnuz":    (5, 2, 16, "nan"),
    "f8e4m3fnuz":    (4, 3, 8, "nan"),
    "f6e2m3fn":      (2, 3, 1, "saturates"),
    "f6e3m2fn":      (3, 2, 3, "saturates"),
    "f4e2m1fn":      (2, 1, 1, "saturates"),
}  # fmt: skip


def positive_values(exponent_bits, fraction_bits, bias, beyond):
    """All finite values from zero up, in order of their codes."""
    codes = np.arange(1 << (exponent_bits + fraction_bits))
    exponents, fractions = codes >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    normal = np.ldexp(1 + fractions / 2.0**fraction_bits, exponents - bias)
    values = np.where(exponents == 0, np.ldexp(fractions / 2.0**fraction_bits, 1 - bias), normal)
    if beyond == "inf":
        values = values[exponents < (1 << exponent_bits) - 1]
    return values[:-1] if beyond == "last is nan" else values


def nearest(x, exponent_bits, fraction_bits, bias, beyond):
    """To the nearest value, ties to the even code; what would be the next value and more overflows."""
    values = positive_values(exponent_bits, fraction_bits, bias, beyond)
    step = values[-1] - values[-2]
    grid = np.append(values, values[-1] + step)
    above = np.clip(np.searchsorted(grid, np.abs(x)), 1, len(grid) - 1)
    down, up = grid[above - 1], grid[above]
    odd = (above - 1) % 2 == 1
    middle = (down + up) / 2
    code = np.where((np.abs(x) > middle) | ((np.abs(x) == middle) & odd), above, above - 1)
    code = np.where(np.abs(x) >= grid[-1], len(grid) - 1, code)
    over = {"inf": np.inf, "saturates": values[-1]}.get(beyond, np.nan)
    return np.copysign(np.append(values, over)[code], x)


@pytest.mark.parametrize("source", ["f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e3m4", "f4e2m1fn", "f6e2m3fn"])
def test_every_value_of_16_bits_and_less(source):
    positive = positive_values(*FORMATS[source])
    x = np.concatenate([-positive[1:], positive])
    assert np.array_equal(np.sort(np.abs(x)), np.sort(np.abs(x.astype(DTYPES[source].numpy).astype(float))))
    for target, form in FORMATS.items():
        if target == source:
            continue
        want = nearest(x, *form)
        found = apply("convert", ball(source, x), out=target)
        decided = np.ones(x.shape, bool) if found.und is None else ~found.und
        overflows = ~np.isfinite(want) | (np.abs(x) > DTYPES[target].max)
        assert (decided | overflows).all(), f"{source} to {target}"
        rad = np.zeros(x.shape) if found.rad is None else found.rad
        near = (np.abs(found.mid - want) <= rad) | (found.mid == want) | (np.isnan(found.mid) & np.isnan(want))
        assert (near | ~decided).all(), f"{source} to {target}: {x[~near & decided][:4]}"
        step = np.spacing(np.float64(1)) + 2.0 ** -form[1] * np.abs(want) + 2.0 ** (2 - form[2] - form[1])
        assert (rad <= step)[decided & np.isfinite(want) & ~overflows].all(), f"{source} to {target}"


@pytest.mark.parametrize("source", ["f16", "bf16", "f8e5m2", "f8e4m3fn"])
def test_every_value_to_integers(source):
    positive = positive_values(*FORMATS[source])
    x = np.concatenate([-positive[1:], positive, [np.nan, np.inf, -np.inf]])
    for target in ("s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        if DTYPES[target].numpy is None:
            continue
        bits = DTYPES[target].bits
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if target[0] == "s" else (0, 2**bits - 1)
        found = apply("convert", ball(source, x), out=target)
        assert found.exact
        for value, got in zip(x[:: max(1, len(x) // 3000)], found.mid[:: max(1, len(x) // 3000)], strict=True):
            want = 0 if np.isnan(value) else high if value == np.inf else low if value == -np.inf else int(value)
            assert int(got) == max(low, min(high, want)), f"{value} to {target}"


@pytest.mark.parametrize("exponent_bits", [3, 5, 8])
def test_a_tie_without_fraction_bits_goes_to_the_even_exponent(exponent_bits):
    x = np.float32([1.5, 3, 6, -3, 12, 0.75, 0.375, 1.25, 1.75, 5, 7])
    (ball,) = assert_agree(lambda x: lax.reduce_precision(x, exponent_bits, 0), x)
    np.testing.assert_array_equal(ball.mid[:4], [2, 2, 8, -2])
