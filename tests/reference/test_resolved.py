"""What is open for another reason than rounding, taken one way (0) and another (1): each is one that plain Python
finds, the elements are decided, and what rounding decides stays open.
"""

from __future__ import annotations

from functools import cmp_to_key, reduce

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.context import CHOICES
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.sampled import Sampling
from assay.reference.value import Ball, flatten

POLICY = for_target("cpu", "0.12.0.1")
RNG = np.random.default_rng(0)


def balls(text: str, arguments, resolved: int | None) -> list[Ball]:
    found = evaluate(parse_module(f"HloModule m\n{text}"), arguments, POLICY, resolved=resolved)
    return [leaf for leaf in flatten(found.value) if isinstance(leaf, Ball)]


def open_and_both(text: str, *arguments) -> list[list[np.ndarray]]:
    """The outputs by each choice; without one each output has an undecided element, by a choice none."""
    assert all(ball.und is not None and ball.und.any() for ball in balls(text, arguments, None))
    taken = [balls(text, arguments, choice) for choice in CHOICES]
    assert all(ball.und is None or not ball.und.any() for found in taken for ball in found)
    return [[ball.mid for ball in found] for found in taken]


# ---------------------------------------------------------------- sorts

SORT = """less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=%s }
ENTRY e { x = s32[40] parameter(0)
  y = s32[40] parameter(1)
  s = (s32[40], s32[40]) sort(x, y), dimensions={0}, is_stable=%s, to_apply=less
  ROOT w = s32[40] get-tuple-element(s), index=1 }
"""
KEYS, NUMBERS = RNG.integers(0, 6, 40).astype(np.int32), np.arange(40, dtype=np.int32)


@pytest.mark.parametrize("sign", [1, -1])
def test_equals_keep_their_order_or_turn_it_around(sign: int) -> None:
    first, second = open_and_both(SORT % ("LT" if sign == 1 else "GT", "false"), KEYS, NUMBERS)
    assert list(first[0]) == sorted(NUMBERS, key=lambda n: (sign * KEYS[n], n))
    assert list(second[0]) == sorted(NUMBERS, key=lambda n: (sign * KEYS[n], -n))


@pytest.mark.parametrize("stable", ["true", "false"])
def test_a_comparator_that_calls_equals_less_is_an_order_all_the_same(stable: str) -> None:
    first, second = open_and_both(SORT % ("LE", stable), KEYS, NUMBERS)
    assert list(first[0]) == sorted(NUMBERS, key=lambda n: (KEYS[n], n))
    assert list(second[0]) == sorted(NUMBERS, key=lambda n: (KEYS[n], -n))


def test_a_comparator_that_looks_at_one_side_alone() -> None:
    """less(a, b) = b > 2: who is above 2 comes after who is not, and that is all it says."""
    text = SORT % ("LT", "true")
    text = text.replace("ROOT r", "t = s32[] constant(2)\n  ROOT r").replace("compare(a, b)", "compare(t, b)")

    def order(m: int, n: int) -> int:
        less, more = KEYS[n] > 2, KEYS[m] > 2
        return 0 if less == more else -1 if less else 1

    first, _ = open_and_both(text, KEYS, NUMBERS)
    assert list(first[0]) == sorted(NUMBERS, key=cmp_to_key(order))


def test_a_stable_sort_of_ties_needs_no_choice() -> None:
    for choice in CHOICES:
        (found,) = balls(SORT % ("LT", "true"), [KEYS, NUMBERS], choice)
        np.testing.assert_array_equal(found.mid, np.argsort(KEYS, kind="stable"))


# ---------------------------------------------------------------- reductions

BODIES = {
    "add": (lambda a, b: a + b, 5), "multiply": (lambda a, b: a * b, 3), "xor": (lambda a, b: a ^ b, 6),
    "maximum": (max, 90), "minimum": (min, -90), "and": (lambda a, b: a & b, 6), "or": (lambda a, b: a | b, 129),
}  # fmt: skip


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("terms", [1, 40])
def test_how_often_an_initial_value_counts(body: str, terms: int) -> None:
    function, start = BODIES[body]
    text = f"""f {{ a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] {body}(a, b) }}
ENTRY e {{ x = s32[{terms}] parameter(0)
  z = s32[] constant({start})
  ROOT r = s32[] reduce(x, z), dimensions={{0}}, to_apply=f }}
"""
    x = RNG.integers(-50, 50, terms).astype(np.int32)
    x = {"and": x | 16, "or": x & 7}.get(body, x)  # so that the initial value makes a difference
    first, second = open_and_both(text, x)
    ints = [int(v) for v in x]
    assert int(first[0]) == wrapped(reduce(function, ints, start))
    none = terms == 1 or body in ("maximum", "minimum", "and", "or")
    assert int(second[0]) == wrapped(reduce(function, ints if none else [start, *ints, start]))


def test_floats_count_an_initial_value_twice_within_their_bound() -> None:
    text = """f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[3,50] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=f }
"""
    x, start = RNG.standard_normal((3, 50)).astype(np.float32), np.float32(7.25)
    for choice, count in zip(CHOICES, (1, 2), strict=True):
        (ball,) = balls(text, [x, start], choice)
        truth = x.astype(np.float64).sum(1) + count * float(start)
        assert ball.und is None
        assert ball.rad is not None
        assert (np.abs(ball.mid - truth) <= ball.rad).all()
        assert (ball.rad < 1e-3).all()
        sampling = Sampling(parse_module(f"HloModule m\n{text}"), [x, start], POLICY, resolved=choice)
        for _ in range(12):
            sampling.more()
        (drawn,) = sampling.bounds()
        assert isinstance(drawn, Ball)
        assert drawn.und is None
        assert (np.abs(drawn.mid - truth) <= drawn.rad).all()


def test_padding_counts_the_initial_value_or_does_not() -> None:
    text = """f { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
ENTRY e { x = s32[5] parameter(0)
  z = s32[] constant(100)
  ROOT r = s32[5] reduce-window(x, z), window={size=3 pad=2_0}, to_apply=f }
"""
    x = np.array([1, 2, 4, 8, 16], np.int32)
    first, second = open_and_both(text, x)
    np.testing.assert_array_equal(first[0], [301, 203, 107, 114, 128])
    np.testing.assert_array_equal(second[0], [101, 103, 107, 114, 128])


def test_two_orders_of_a_body_that_is_not_associative() -> None:
    text = """f { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] subtract(a, b) }
ENTRY e { x = s32[4] parameter(0)
  z = s32[] constant(0)
  ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=f }
"""
    first, second = open_and_both(text, np.array([1, 10, 100, 1000], np.int32))
    assert int(first[0]) == 0 - ((1 - 10) - (100 - 1000))
    assert int(second[0]) == (0 - (1 - 10)) - (100 - 1000)


# ---------------------------------------------------------------- scatters, gathers

SCATTER = """f { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] %s }
ENTRY e { x = s32[6] parameter(0)
  i = s32[9,1] parameter(1)
  u = s32[9] parameter(2)
  ROOT r = s32[6] scatter(x, i, u), to_apply=f, update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1 %s }
"""
PLACES = np.array([[3], [0], [3], [5], [0], [3], [1], [9], [5]], np.int32)  # 9 is outside
UPDATES, BASE = np.arange(10, 19, dtype=np.int32), np.arange(6, dtype=np.int32)


def test_the_first_assignment_wins_or_the_last() -> None:
    first, second = open_and_both(SCATTER % ("copy(b)", ""), BASE, PLACES, UPDATES)
    by_hand = BASE.copy(), BASE.copy()
    for found, order in zip(by_hand, (range(8, -1, -1), range(9)), strict=True):
        for k in order:
            if PLACES[k, 0] < 6:
                found[PLACES[k, 0]] = UPDATES[k]
    np.testing.assert_array_equal(first[0], by_hand[0])
    np.testing.assert_array_equal(second[0], by_hand[1])


@pytest.mark.parametrize("promise", ["unique_indices=true", "indices_are_sorted=true"])
def test_a_promise_that_is_broken_is_not_heard(promise: str) -> None:
    found = open_and_both(SCATTER % ("add(a, b)", f", {promise}"), BASE, PLACES, UPDATES)
    by_hand = BASE.copy()
    for place, update in zip(PLACES[:, 0], UPDATES, strict=True):
        if place < 6:
            by_hand[place] += update
    for each in found:
        np.testing.assert_array_equal(each[0], by_hand)


def test_a_gather_of_indices_that_are_not_sorted() -> None:
    text = """ENTRY e { x = s32[6] parameter(0)
  i = s32[3,1] parameter(1)
  ROOT r = s32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1}, indices_are_sorted=true }
"""
    for each in open_and_both(text, BASE * 7, np.array([[4], [0], [2]], np.int32)):
        np.testing.assert_array_equal(each[0], [28, 0, 14])


# ---------------------------------------------------------------- memory, signs


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "u32", "pred", "c64"])
def test_memory_that_nobody_wrote_holds_zeros_or_ones(dtype: str) -> None:
    text = f"""ENTRY e {{ u = {dtype}[2] parameter(0)
  b = {dtype}[4] custom-call(), custom_call_target="AllocateBuffer"
  o = s32[] constant(1)
  ROOT w = {dtype}[4] dynamic-update-slice(b, u, o) }}
"""
    u = np.array([0, 1]).astype(DTYPES[dtype].numpy)
    (without,) = balls(text, [u], None)
    np.testing.assert_array_equal(without.und, [True, False, False, True])
    first, second = (balls(text, [u], choice)[0] for choice in CHOICES)
    np.testing.assert_array_equal(first.mid.astype(complex), [0, 0, 1, 0])
    np.testing.assert_array_equal(second.mid.astype(complex), [1, 0, 1, 1])


def test_what_a_bitcast_reads_of_padding_stays_open() -> None:
    """An earlier bitcast may have left the right elements there (see test_a_bitcast_may_hide_elements_in_padding)."""
    text = """ENTRY e { x = s32[2,3]{1,0:T(2,4)} parameter(0)
  ROOT b = s32[2,4]{1,0:T(2,4)} bitcast(x) }
"""
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    for choice in (None, *CHOICES):
        (found,) = balls(text, [x], choice)
        np.testing.assert_array_equal(found.mid[:, :3], x)
        np.testing.assert_array_equal(found.und, [[False, False, False, True]] * 2)


def test_a_nan_has_a_sign_and_so_has_a_zero() -> None:
    text = """ENTRY e { x = f32[2] parameter(0)
  ROOT r = u32[2] bitcast-convert(x) }
"""
    first, second = open_and_both(text, np.array([np.nan, -0.0], np.float32))
    assert [hex(int(v)) for v in first[0]] == ["0x7fc00000", "0x0"]
    assert [hex(int(v)) for v in second[0]] == ["0xffc00000", "0x80000000"]


@pytest.mark.parametrize("direction", ["LT", "GT", "LE", "GE", "EQ", "NE"])
def test_the_total_order_of_signs(direction: str) -> None:
    text = f"""ENTRY e {{ x = f32[7] parameter(0)
  y = f32[7] parameter(1)
  ROOT r = pred[7] compare(x, y), direction={direction}, type=TOTALORDER }}
"""
    nan, inf = np.nan, np.inf
    x = np.array([-nan, nan, 1, -0.0, 0.0, -inf, -nan], np.float32)
    y = np.array([inf, -inf, -nan, 0.0, -0.0, -nan, nan], np.float32)
    ask = {"LT": np.less, "GT": np.greater, "LE": np.less_equal, "GE": np.greater_equal, "EQ": np.equal,
           "NE": np.not_equal}[direction]  # fmt: skip
    for choice, sign in zip(CHOICES, (1, -1), strict=True):
        # By hand: every NaN, and every zero that is written -0, has the sign of the choice.
        def rank(v: np.ndarray, sign: int = sign) -> np.ndarray:
            zero = np.where((v == 0) & np.signbit(v) & (sign < 0), -0.5, 0.0)
            return np.where(np.isnan(v), sign * 9.0, np.where(v == 0, zero, np.clip(v, -8, 8)))

        (ball,) = balls(text, [x, y], choice)
        assert ball.und is None
        np.testing.assert_array_equal(ball.mid, ask(rank(x), rank(y)))


# ---------------------------------------------------------------- what no choice touches

ROUNDED = """ENTRY e { x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  s = f32[64] add(x, y)
  d = f32[64] subtract(s, y)
  c = pred[64] compare(d, x), direction=GT
  ROOT i = s32[64] convert(c) }
"""


def test_what_rounding_decides_stays_open() -> None:
    x, y = (RNG.standard_normal(64).astype(np.float32) for _ in range(2))
    (plain,) = balls(ROUNDED, [x, y], None)
    assert plain.und is not None
    assert plain.und.mean() > 0.5
    for choice in CHOICES:
        (taken,) = balls(ROUNDED, [x, y], choice)
        np.testing.assert_array_equal(taken.und, plain.und)


def test_a_sort_whose_order_rounding_decides_stays_open() -> None:
    text = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=%s }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  n = s32[4] iota(), iota_dimension=0
  s = f32[4] add(x, y)
  d = f32[4] subtract(s, y)
  t = (f32[4], s32[4]) sort(d, n), dimensions={0}, is_stable=%s, to_apply=less
  ROOT w = s32[4] get-tuple-element(t), index=1 }
"""
    x = np.array([0.1, np.nextafter(np.float32(0.1), np.float32(1)), 5, 7], np.float32)
    y = np.full(4, 1000, np.float32)
    for direction in ("LT", "LE"):  # by keys, and by asking the comparator
        for stable in ("true", "false"):
            for choice in CHOICES:
                (ball,) = balls(text % (direction, stable), [x, y], choice)
                assert ball.und is not None
                assert ball.und[:2].all()


DECIDED = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[8,64] parameter(0)
  i = s32[5,1] parameter(1)
  z = f32[] constant(0)
  s = f32[8,64] sort(x), dimensions={1}, is_stable=true, to_apply=less
  t = f32[8] reduce(s, z), dimensions={1}, to_apply=add
  w = f32[8,64] reduce-window(x, z), window={size=1x5 pad=0_0x2_2}, to_apply=add
  u = f32[5,64] slice(x), slice={[0:5], [0:64]}
  p = f32[8,64] scatter(s, i, u), to_apply=add, update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1
  ROOT r = (f32[8,64], f32[8], f32[8,64], f32[8,64]) tuple(s, t, w, p) }
"""


def test_what_is_decided_is_the_same_by_any_choice() -> None:
    arguments = [RNG.standard_normal((8, 64)).astype(np.float32), np.array([[2], [2], [7], [0], [2]], np.int32)]
    plain = balls(DECIDED, arguments, None)
    for choice in CHOICES:
        for one, other in zip(plain, balls(DECIDED, arguments, choice), strict=True):
            assert one.und is None or not one.und.any()
            assert other.und is None or not other.und.any()
            np.testing.assert_array_equal(one.mid, other.mid)
            np.testing.assert_array_equal(
                np.zeros(()) if one.rad is None else one.rad, np.zeros(()) if other.rad is None else other.rad
            )
