"""Judged against the definition: a target element is right when some number of its ball rounds to it.

The tests enumerate all values of the narrow types and count with exact fractions; nothing rounds as `compare` does.
"""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import AssayError
from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.oracle import compare
from assay.oracle.compare import blocks, compare_output, round_out, ulp
from assay.reference.value import Array, Ball, from_array, held_dtype

F32, F64, BF16, C64 = (DTYPES[name] for name in ("f32", "f64", "bf16", "c64"))
NARROW = [t for t in DTYPES.values() if t.is_float and t.bits <= 16 and t.numpy is not None]
EIGHT = [t for t in NARROW if t.bits <= 8]


def values_of(dtype: DType) -> Array:
    """Every value of a type of at most 16 bits, in float64."""
    raw = np.arange(1 << dtype.bits, dtype=np.uint16 if dtype.bits > 8 else np.uint8)
    with np.errstate(all="ignore"):
        return raw.view(dtype.numpy).astype(np.float64)


def nearest(dtype: DType, x: Fraction, ordered: list[float]) -> float:
    """The finite value of `dtype` nearest to x, ties to the even bit pattern; infinity or NaN past half a last step."""
    largest, before = Fraction(ordered[-1]), Fraction(ordered[-2])
    end = largest + (largest - before) / 2
    if overflows(dtype) and (abs(x) > end or (abs(x) == end and pattern(dtype, ordered[-1]) % 2 == 1)):
        return math.copysign(math.inf, x) if dtype.has_inf else math.nan
    at = bisect.bisect(ordered, x)
    best = sorted(ordered[max(0, at - 2) : at + 2], key=lambda v: abs(Fraction(v) - x))[:2]
    if len(best) > 1 and abs(Fraction(best[0]) - x) == abs(Fraction(best[1]) - x):
        even = [v for v in best if pattern(dtype, v) % 2 == 0]
        return even[0]
    return best[0]


def pattern(dtype: DType, value: float) -> int:
    return int(np.asarray([value]).astype(np.float32).astype(dtype.numpy).view(np.uint8)[0])


def overflows(dtype: DType) -> bool:
    return dtype.name not in ("f4e2m1fn", "f6e2m3fn", "f6e3m2fn")


def one(ball: Ball, target: object) -> compare.OutputComparison:
    array = np.asarray(target).astype(ball.dtype.numpy)
    return compare_output(ball, array, ArrayShape(ball.dtype, ball.mid.shape))


def real(dtype: DType, mid: list[float], rad: list[float] | None = None, und: list[bool] | None = None) -> Ball:
    return Ball(
        dtype,
        np.array(mid, np.float64),
        None if rad is None else np.array(rad, np.float64),
        None if und is None else np.array(und),
    )


# ---- rounding at the output


@pytest.mark.parametrize("dtype", [t for t in EIGHT if t.mantissa], ids=str)
def test_round_out_rounds_once_for_every_tie_and_its_neighbours(dtype: DType) -> None:
    finite = sorted({float(v) for v in values_of(dtype) if math.isfinite(v)})
    points = set(finite)
    for low, high in itertools.pairwise(finite):
        middle = (low + high) / 2
        points |= {middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), math.nextafter(middle, math.inf)}
    step = finite[-1] - finite[-2]
    points |= {finite[-1] + step * f for f in (0.25, 0.5 - 2.0**-30, 0.5, 0.75, 1.0, 3.0)}
    xs = sorted(points)
    got = round_out(dtype, np.array(xs))
    for x, y in zip(xs, got, strict=True):
        want = nearest(dtype, Fraction(x), finite)
        assert y == want or (math.isnan(y) and math.isnan(want)), (x, y, want)


@pytest.mark.parametrize("dtype", [*NARROW, F32, F64], ids=str)
@pytest.mark.parametrize("dims", [(), (1,), (0,), (2, 3)], ids=str)
@pytest.mark.parametrize("value", [1.0, 1 + 2.0**-30])
def test_round_out_keeps_the_dimensions(dtype: DType, dims: tuple[int, ...], value: float) -> None:
    assert round_out(dtype, np.full(dims, value)).shape == dims


def test_round_out_of_bfloat16_rounds_once_where_a_cast_by_way_of_float32_rounds_twice() -> None:
    just_above_a_tie = np.array([1 + 2.0**-8 + 2.0**-40])
    assert just_above_a_tie.astype(BF16.numpy).astype(np.float64)[0] == 1.0
    assert round_out(BF16, just_above_a_tie)[0] == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", [*NARROW, F32, F64], ids=str)
def test_every_value_is_itself_and_is_right(dtype: DType) -> None:
    every = values_of(dtype) if dtype.bits <= 16 else np.array([0.0, -0.0, 1.5, dtype.max, 2.0**-140, np.inf, np.nan])
    result = one(Ball(dtype, every), every)
    assert result.outside == 0
    if overflows(dtype):
        assert result.masked == int((~np.isfinite(every)).sum())
    assert result.worst_ulp == result.worst_bound == 0


@pytest.mark.parametrize("dtype", [t for t in EIGHT if t.mantissa], ids=str)
def test_inside_is_what_some_number_of_the_ball_rounds_to(dtype: DType) -> None:
    rng = np.random.default_rng(5)
    every = values_of(dtype)
    finite = sorted({float(v) for v in every if math.isfinite(v)})
    mids = rng.uniform(finite[0], finite[-1], 60) * rng.choice([1.0, 0.1, 0.01], 60)
    rads = np.abs(mids) * rng.choice([0.0, 0.01, 0.1, 0.5, 1.0], 60)
    for mid, rad in zip(mids, rads, strict=True):
        # The ends, in exact arithmetic, and all values between: rounding is monotone.
        low = nearest(dtype, Fraction(mid) - Fraction(rad), finite)
        high = nearest(dtype, Fraction(mid) + Fraction(rad), finite)
        floor = -math.inf if math.isnan(low) else low
        ceiling = math.inf if math.isnan(high) else high
        allowed = (floor <= every) & (every <= ceiling) | (np.isnan(every) & (math.isnan(low) or math.isnan(high)))
        result = one(Ball(dtype, np.full(every.shape, mid), np.full(every.shape, rad)), every)
        outside = np.zeros(every.shape, bool) if result.outside_mask is None else result.outside_mask
        np.testing.assert_array_equal(outside, ~allowed, err_msg=f"{mid} {rad}")


def test_a_result_in_excess_precision_may_round_at_the_output() -> None:
    f16 = DTYPES["f16"]
    assert one(real(f16, [65519.9], [0.01]), [65504.0]).outside == 0
    assert one(real(f16, [65519.9], [0.01]), [np.inf]).outside == 1
    assert one(real(f16, [65519.9], [0.2]), [np.inf]).outside == 0  # straddles the threshold of overflow
    e4m3fn = DTYPES["f8e4m3fn"]
    assert one(real(e4m3fn, [460.0], [10.0]), [np.nan]).outside == 0
    assert one(real(e4m3fn, [460.0], [10.0]), [448.0]).outside == 0
    assert one(real(e4m3fn, [440.0], [10.0]), [np.nan]).outside == 1
    assert one(real(e4m3fn, [600.0], [10.0]), [448.0]).outside == 1  # no saturation


def test_float64_ends_are_not_lost_to_rounding() -> None:
    # mid + rad is not representable: 1 + 2**-53 rounds to 1, yet the ball reaches half a step further.
    assert one(real(F64, [1.0], [2.0**-53]), [1.0 + 2.0**-52]).outside == 0
    assert one(real(F64, [1.0], [2.0**-54]), [1.0 + 2.0**-51]).outside == 1
    assert one(real(F64, [1.0]), [np.nextafter(1.0, 2)]).outside == 1


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(0, 1), st.floats(-1, 1), st.integers(0, 2**20)
)
@settings(max_examples=200, deadline=None)
def test_whatever_lies_in_the_ball_is_never_outside_when_stored(
    mid: float, relative: float, where: float, seed: int
) -> None:
    noise = np.random.default_rng(seed).uniform(-1, 1)
    for dtype in (F32, F64, *NARROW):
        if dtype.mantissa == 0 or abs(mid) * 2 > dtype.max:
            continue
        rad = abs(mid) * relative * 0.5
        inside = mid + where * noise * rad * (1 - 2.0**-20)
        stored = round_out(dtype, np.array([inside]))
        assert one(real(dtype, [mid], [rad]), stored).outside == 0, dtype


# ---- NaN, infinities, zeros, undecided


def test_special_values() -> None:
    mid = [np.nan, np.nan, np.inf, np.inf, -np.inf, 1.0, 1.0, 0.0, -0.0]
    got = [np.nan, 1.0, np.inf, -np.inf, 5.0, np.nan, np.inf, -0.0, 0.0]
    result = one(real(F32, mid, [0.0] * 9), got)
    assert result.outside_mask is not None
    assert result.outside_mask.tolist() == [False, True, False, True, True, True, True, False, False]
    assert result.masked == 2
    assert result.judged == 7
    assert result.worst_ulp == result.worst_bound == math.inf


def test_undecided_elements_are_counted_and_never_judged() -> None:
    result = one(real(F32, [1.0, np.nan, 3.0], [0.0, 0.0, 0.0], [True, True, False]), [9.0, 1.0, 3.0])
    assert (result.outside, result.undecided, result.masked, result.worst_ulp) == (0, 2, 0, 0.0)
    ints = Ball(DTYPES["s32"], np.array([1, 2], np.int32), None, np.array([True, False]))
    assert one(ints, [7, 2]).undecided == 1


def test_a_type_without_nan_leaves_nan_unjudged() -> None:
    assert one(real(DTYPES["f4e2m1fn"], [np.nan, 1.0]), [3.0, 1.0]).undecided == 1


# ---- integers and complex


@pytest.mark.parametrize("name", ["pred", "s4", "u4", "s8", "u32", "s64", "u64"])
def test_integers_are_equal_or_outside(name: str) -> None:
    dtype = DTYPES[name]
    right = np.array([0, 1, 1, 0], held_dtype(dtype))
    wrong = np.array([0, 1, 0, 0], held_dtype(dtype))
    assert one(Ball(dtype, right), right).outside == 0
    result = one(Ball(dtype, right), wrong)
    assert (result.outside, result.peak, result.peak_target, result.worst_ulp) == (1, (2,), 0, 1.0)
    assert result.worst_bound == math.inf


def test_large_integers_are_told_apart() -> None:
    dtype = DTYPES["s64"]
    result = one(Ball(dtype, np.array([2**62 + 1])), np.array([2**62]))
    assert result.outside == 1
    assert result.worst_ulp >= 1


def test_a_complex_element_is_right_when_the_disk_reaches_its_cell() -> None:
    def outside(mid: complex, rad: float, target: complex) -> int:
        ball = Ball(C64, np.array([mid], np.complex128), np.array([rad]))
        return compare_output(ball, np.array([target], np.complex64), ArrayShape(C64, (1,))).outside

    half = 2.0**-24  # half a step above 1, in each part
    assert outside(1 + 1j, 0.1, 1.09 + 1j) == 0
    assert outside(1 + 1j, 0.1, 1.09 + 1.09j) == 1  # in the square, not in the disk
    assert outside(1 + half * 0.9 + 1j, 0.2 * half, 1 + 1j) == 0
    assert outside(1 + half * 1.3 + 1j, 0.2 * half, 1 + 1j) == 1
    assert outside(1 + half * 1.1 + 1j, 0.2 * half, 1 + 1j) == 0
    assert outside(1 + 1j, 0.0, 1 + 1j) == 0
    assert outside(1 + 1j, 0.0, np.nextafter(np.float32(1), np.float32(2)) + 1j) == 1
    assert outside(1 + 1j, 0.1, complex(math.nan, 1)) == 1
    assert outside(complex(math.inf, 2), 0.0, complex(math.inf, 3)) == 0  # a part beside infinity is left alone
    assert outside(complex(math.inf, 2), 0.0, complex(-math.inf, 2)) == 1
    assert outside(complex(math.nan, math.nan), 0.0, 1 + 1j) == 1
    assert outside(complex(math.nan, math.nan), 0.0, complex(math.nan, math.nan)) == 0


def test_complex_statistics() -> None:
    ball = Ball(C64, np.array([3 + 4j, 1 + 0j]), np.array([1.0, 1.0]))
    result = one(ball, [3 + 4.5j, 1 + 0j])
    assert result.worst_bound == 0.5
    assert result.worst_ulp == 0.5 / 2.0**-21  # |mid| = 5 lies in [4, 8)
    assert result.outside == 0


# ---- statistics


@pytest.mark.parametrize("dtype", [F32, F64, BF16, DTYPES["f16"]], ids=str)
def test_ulp_is_the_distance_to_the_next_value_away_from_zero(dtype: DType) -> None:
    positive = [1.0, 1.5, 2.0, 3.99, 1000.0, 2.0**dtype.min_exponent, 2.0 ** (dtype.min_exponent - 1)]
    for x in positive:
        stored = np.asarray(x).astype(dtype.numpy)
        bits = stored.view(f"u{stored.dtype.itemsize}")
        after = (bits + bits.dtype.type(1)).view(dtype.numpy)
        assert float(ulp(dtype, np.asarray(float(stored)))) == float(after) - float(stored)
        assert float(ulp(dtype, np.asarray(-float(stored)))) == float(after) - float(stored)


def test_worst_bound_and_bias() -> None:
    result = one(real(F32, [1.0, 2.0, 4.0], [0.5, 0.5, 1.0]), [1.25, 2.25, 4.5])
    assert (result.worst_bound, result.bias, result.outside) == (0.5, 0.5, 0)
    assert one(real(F32, [1.0, 2.0], [0.5, 0.5]), [0.0, 2.0]).worst_bound == 2.0
    assert one(real(F32, [1.0, 2.0], [0.5, 0.5]), [-9.0, 3.0]).bias == 0.0  # each clipped to one


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_worst_bound_tells_whether_any_element_is_outside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[str(rng.choice(["f32", "bf16", "f8e5m2", "f64"]))]
    mid = rng.standard_normal(20)
    rad = np.abs(mid) * 10.0 ** rng.uniform(-9, -1, 20) * (rng.random(20) < 0.8)
    target = round_out(dtype, mid + rad * rng.uniform(-1.2, 1.2, 20))
    result = one(Ball(dtype, mid, rad), target)
    assert (result.worst_bound > 1) == (result.outside > 0)


def test_box_and_peak() -> None:
    right = np.arange(24.0).reshape(2, 3, 4)
    wrong = right.copy()
    wrong[1, 0, 2] += 1
    wrong[1, 2, 1] += 5
    result = one(Ball(F32, right, np.full(right.shape, 0.25)), wrong)
    assert result.outside == 2
    assert result.box == ((1, 1), (0, 2), (1, 2))
    assert result.peak == (1, 2, 1)
    assert (result.peak_target, result.peak_reference, result.peak_radius) == (26.0, 21.0, 0.25)


# ---- shapes and size


def test_scalars_and_empty_arrays() -> None:
    for dtype in (F32, C64, DTYPES["s32"], DTYPES["pred"]):
        right = Ball(dtype, np.zeros((), held_dtype(dtype)))
        assert one(right, 0).outside == 0
        result = one(right, 1)
        assert (result.outside, result.box, result.peak) == (1, (), ())
        empty = one(Ball(dtype, np.zeros((0, 3), held_dtype(dtype))), np.zeros((0, 3)))
        assert (empty.elements, empty.outside, empty.box) == (0, 0, None)


@pytest.mark.parametrize("dims", [(), (7,), (3, 5), (2, 3, 4), (1, 1, 9), (50, 1), (2, 0, 3)])
@pytest.mark.parametrize("limit", [1, 4, 7, 100])
def test_blocks_cover_every_element_once(dims: tuple[int, ...], limit: int) -> None:
    count = np.zeros(dims, int)
    for block in blocks(dims, limit):
        count[block] += 1
        assert np.size(count[block]) <= limit
    assert (count == 1).all()


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    mid = rng.standard_normal((5, 6, 7))
    wrong = mid + 1e-3 * (rng.random(mid.shape) < 0.1) * rng.uniform(1, 2, mid.shape)
    ball = Ball(F32, mid, np.abs(mid) * 1e-6, rng.random(mid.shape) < 0.1)
    whole = one(ball, wrong)
    monkeypatch.setattr(compare.blocks, "__defaults__", (4,))
    parts = one(ball, wrong)
    assert whole.outside > 0
    assert parts.peak == whole.peak
    assert parts.box == whole.box
    assert parts.bias == pytest.approx(whole.bias)
    np.testing.assert_array_equal(parts.outside_mask, whole.outside_mask)
    assert (parts.outside, parts.undecided) == (whole.outside, whole.undecided)
    assert (parts.worst_ulp, parts.worst_bound) == (whole.worst_ulp, whole.worst_bound)


def test_radius_and_marks_may_be_broadcast_views() -> None:
    mid = np.broadcast_to(np.array([1.0, 2.0]), (3, 2))
    ball = Ball(F32, mid, np.broadcast_to(np.array(0.5), (3, 2)), np.broadcast_to(np.array([False, True]), (3, 2)))
    result = one(ball, [[1.2, 0.0]] * 3)
    assert (result.outside, result.undecided) == (0, 3)


def test_what_is_not_the_same_array_is_our_own_failure() -> None:
    ball = from_array(F32, np.zeros(3, np.float32))
    with pytest.raises(AssayError, match=r"target returned float32\[4\]"):
        compare_output(ball, np.zeros(4, np.float32), ArrayShape(F32, (3,)))
    with pytest.raises(AssayError, match="target returned int8"):
        compare_output(ball, np.zeros(3, np.int8), ArrayShape(F32, (3,)))
    with pytest.raises(AssayError, match="reference has f32"):
        compare_output(ball, np.zeros(3, np.float64), ArrayShape(F64, (3,)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [*NARROW, F32], ids=str)
def test_rounding_what_is_too_large_says_nothing(dtype: DType) -> None:
    assert round_out(dtype, np.array([1e300, -1e300, np.inf, np.nan, 1.0]))[4] == 1.0
