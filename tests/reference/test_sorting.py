"""sort and topk: jax's comparators, any comparator, radii as order statistics, ties, NaN and signed zeros."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, hlo_text, outside, reference, undecided

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.context import Context
from assay.reference.ops.ordering import lexicographic
from assay.reference.registry import find
from assay.reference.value import Ball, from_array

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
MANY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def awkward(rng: np.random.Generator, shape, dtype) -> np.ndarray:
    """Many ties, and every special value where the type has them."""
    values = rng.integers(-5, 6, shape).astype(np.float64)
    if np.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return values.astype(np.int64).astype(dtype)
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-3], shape)
    return np.where(rng.random(shape) < 0.4, special, values).astype(dtype)


# ---------------------------------------------------------------- against XLA


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.int8, np.uint8, np.uint32, np.bool_])
@pytest.mark.parametrize("axis", [0, 1])
def test_sort_with_payload_is_xlas(dtype, axis):
    x = awkward(np.random.default_rng(axis), (17, 5), dtype)
    assert_agree(lambda x: lax.sort((x, lax.broadcasted_iota(np.int32, x.shape, axis)), axis, num_keys=1), x)


def test_several_keys():
    rng = np.random.default_rng(3)
    x, y = awkward(rng, (4, 40), np.float32), awkward(rng, (4, 40), np.int32)
    assert_agree(lambda x, y: lax.sort((x, y, lax.broadcasted_iota(np.int32, x.shape, 1)), num_keys=2), x, y)
    assert_agree(lambda x, y: lax.sort((y, x, lax.broadcasted_iota(np.int32, x.shape, 1)), num_keys=2), x, y)


def test_complex_keys():
    rng = np.random.default_rng(4)
    re, im = awkward(rng, (50,), np.float32), awkward(rng, (50,), np.float32)
    assert_agree(lambda a, b: lax.sort(lax.complex(a, b)), re, im)


def test_jnp_orders():
    x = awkward(np.random.default_rng(5), (3, 30), np.float32)
    assert_agree(lambda x: (jnp.sort(x, descending=True), jnp.argsort(x), jnp.lexsort((x[0], x[1]))), x)
    assert_agree(lambda x: (jnp.unique(x, size=7), jnp.median(jnp.where(jnp.isfinite(x), x, 0))), x)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_topk_is_xlas(dtype):
    x = awkward(np.random.default_rng(6), (6, 20), dtype)
    x = np.where(np.isnan(x.astype(np.float32)), np.ones_like(x), x)
    x = np.where(x == 0, np.zeros_like(x), x)
    assert_agree(lambda x: lax.top_k(x, 4), x)


def test_empty_and_tiny():
    for shape in ((0,), (3, 0), (1,), (2, 1)):
        assert_agree(lambda x: lax.sort((x, x), num_keys=1), np.ones(shape, np.float32))
    assert_agree(lambda x: lax.top_k(x, 0), np.ones((3, 4), np.float32))


# ---------------------------------------------------------------- comparators


BODIES = {
    # direction through swapped sides
    "swapped": ("ROOT k = pred[] compare(b, a), direction=GT", True),
    "descending": ("ROOT k = pred[] compare(a, b), direction=GT", True),
    "through a function": (
        "n = s32[] negate(a)\n m = s32[] negate(b)\n ROOT k = pred[] compare(n, m), direction=LT",
        True,
    ),
    "select on equality": (
        "e = pred[] compare(a, b), direction=EQ\n l = pred[] compare(a, b), direction=LT\n"
        " t = pred[] compare(p, q), direction=GT\n ROOT k = pred[] select(e, t, l)",
        True,
    ),
    "ties by the second": (
        "e = pred[] compare(a, b), direction=EQ\n l = pred[] compare(a, b), direction=LT\n"
        " t = pred[] compare(p, q), direction=GT\n u = pred[] and(t, e)\n ROOT k = pred[] or(u, l)",
        True,
    ),
    "a sum of both": (
        "s = s32[] add(a, p)\n t = s32[] add(b, q)\n ROOT k = pred[] compare(s, t), direction=LT",
        False,
    ),
    "different functions": (
        "n = s32[] negate(a)\n m = s32[] negate(b)\n d = s32[] subtract(n, m)\n z = s32[] constant(0)\n"
        " ROOT k = pred[] compare(d, z), direction=LT",
        False,
    ),
}


def sort_text(body: str, shape: str, stable: bool = True) -> str:
    return f"""HloModule m
c {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  p = s32[] parameter(2)
  q = s32[] parameter(3)
  {body}
}}
ENTRY e {{
  x = s32[{shape}] parameter(0)
  y = s32[{shape}] parameter(1)
  ROOT s = (s32[{shape}], s32[{shape}]) sort(x, y), dimensions={{1}}, is_stable={str(stable).lower()}, to_apply=c
}}"""


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_comparators(name, n):
    body, structural = BODIES[name]
    text = sort_text(body, f"3,{n}")
    assert (lexicographic(parse_module(text), "c") is not None) == structural
    rng = np.random.default_rng(n)
    x = rng.integers(-6, 6, (3, n)).astype(np.int32)
    y = np.arange(3 * n, dtype=np.int32).reshape(3, n) if name != "a sum of both" else x[:, ::-1].copy()
    assert_hlo_agrees(text, x, y)


ORDERED_BITS = """
  x = s32[] bitcast-convert(A)
  y = s32[] bitcast-convert(B)
  z = s32[] constant(0)
  m = s32[] constant(2147483647)
  w = s32[] broadcast(m), dimensions={}
  nx = pred[] compare(x, z), direction=LT
  ny = pred[] compare(y, z), direction=LT
  fx = s32[] xor(w, x)
  fy = s32[] xor(w, y)
  cx = s32[] select(nx, fx, x)
  cy = s32[] select(ny, fy, y)
  gt = pred[] compare(cx, cy), direction=GT
  lt = pred[] compare(cy, cx), direction=GT
  eq = pred[] compare(gt, lt), direction=EQ
  by = pred[] compare(p, q), direction=LT
  ROOT k = pred[] select(eq, by, gt)
"""


def bits_text(body: str) -> str:
    return f"""HloModule m
c {{
  A = f32[] parameter(0)
  B = f32[] parameter(1)
  p = s32[] parameter(2)
  q = s32[] parameter(3)
  {body}
}}
ENTRY e {{
  v = f32[3,40] parameter(0)
  s = f32[] parameter(1)
  t = f32[3,40] broadcast(s), dimensions={{}}
  x = f32[3,40] multiply(v, t)
  i = s32[3,40] iota(), iota_dimension=1
  ROOT s.1 = (f32[3,40], s32[3,40]) sort(x, i), dimensions={{1}}, is_stable=false, to_apply=c
}}"""


def test_floats_ordered_by_their_bits():
    """The comparator that the TPU compiler makes of a stable sort in total order: bits of inexact floats, ties broken
    by position through (x < y) == (y < x).
    """
    x = np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32)
    x[0, 3] = x[0, 30] = np.float32(0.7)
    text = bits_text(ORDERED_BITS)
    keys = lexicographic(parse_module(text), "c")
    assert keys is not None
    assert [(key.operand, key.descending, key.total) for key in keys] == [(0, True, True), (1, False, False)]
    values, places = assert_hlo_agrees(text, x, np.float32(0.3), decided=False)
    assert undecided([values]) == 0
    # What is in doubt is the order of two equal inexact values alone: the target may keep more digits of the one.
    assert undecided([places]) == 2
    np.testing.assert_array_equal(places.mid, np.argsort(-x, 1, kind="stable"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(2147483647)", "constant(2147483646)"),
        ("compare(x, z), direction=LT", "compare(x, z), direction=LE"),
        ("ROOT k = pred[] select(eq, by, gt)", "ROOT k = pred[] select(eq, gt, by)"),
        ("compare(cy, cx), direction=GT", "compare(cx, cy), direction=GT"),
    ],
)
def test_bits_that_are_no_such_order(old, new):
    assert old in ORDERED_BITS
    keys = lexicographic(parse_module(bits_text(ORDERED_BITS.replace(old, new, 1))), "c") or ()
    assert not any(key.total for key in keys)


def test_a_body_that_is_no_order_decides_nothing():
    text = sort_text("ROOT k = pred[] compare(a, b), direction=LE", "2,5")
    assert undecided(reference(text, [np.zeros((2, 5), np.int32), np.zeros((2, 5), np.int32)])) > 0


def test_unstable_ties():
    x = np.array([[3, 1, 1, 2], [4, 3, 2, 1]], np.int32)
    y = np.array([[5, 6, 7, 8], [1, 2, 3, 4]], np.int32)
    for body in (
        "ROOT k = pred[] compare(a, b), direction=LT",
        BODIES["different functions"][0].replace("negate", "abs"),
    ):
        keys, payload = reference(sort_text(body, "2,4", stable=False), [x, y])
        assert keys.und is None or not keys.und.any() or "abs" in body
        np.testing.assert_array_equal(payload.und, [[True, True, False, False], [False] * 4])
    same = np.array([[5, 6, 6, 8], [1, 2, 3, 4]], np.int32)
    _, payload = reference(sort_text("ROOT k = pred[] compare(a, b), direction=LT", "2,4", stable=False), [x, same])
    assert payload.und is None or not payload.und.any()


def test_partial_order_of_floats():
    """Without a total order a NaN is neither before nor after anything: nothing is decided."""
    text = """HloModule m
c {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT k = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[2,4] parameter(0)
  ROOT s = f32[2,4] sort(x), dimensions={1}, is_stable=true, to_apply=c
}"""
    x = np.array([[3, np.nan, 1, 2], [1, -0.0, 0.0, -1]], np.float32)
    (ball,) = reference(text, [x])
    np.testing.assert_array_equal(ball.und, [[True] * 4, [False] * 4])


# ---------------------------------------------------------------- radii


def sorted_balls(keys: Ball, payload: Ball, descending: bool = False, stable: bool = True) -> tuple[Ball, Ball]:
    direction = "GT" if descending else "LT"
    text = f"""HloModule m
c {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  p = s32[] parameter(2)
  q = s32[] parameter(3)
  ROOT k = pred[] compare(a, b), direction={direction}, type=TOTALORDER
}}
ENTRY e {{
  x = f32[{keys.dims[0]}] parameter(0)
  y = s32[{keys.dims[0]}] parameter(1)
  ROOT s = (f32[{keys.dims[0]}], s32[{keys.dims[0]}]) sort(x, y), dimensions={{0}}, is_stable={str(stable).lower()},
    to_apply=c
}}"""
    module = parse_module(text)
    context = Context(module, POLICY, lambda name, arguments: arguments[0])
    return find("sort")(context, module.entry.root, keys, payload)


@MANY
@given(st.data(), st.integers(1, 12), st.booleans(), st.booleans())
def test_every_realisation_lies_in_the_result(data, n, descending, stable):
    """Draw values within the keys' balls, sort them, and find keys and decided payload where the result says."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    mid = rng.integers(-3, 4, n) + np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
    rad = np.where(rng.random(n) < 0.5, 0.0, rng.choice([1e-3, 0.4, 1.0], n))
    und = rng.random(n) < 0.05
    keys = Ball(DTYPES["f32"], mid, rad, und if und.any() else None)
    payload = from_array(DTYPES["s32"], rng.integers(0, 3, n) if rng.random() < 0.3 else np.arange(n))
    out, moved = sorted_balls(keys, payload, descending, stable)
    for _ in range(20):
        real = mid + rad * rng.choice([-1, 1, 0, rng.uniform(-1, 1)], n)
        real = np.where(und, rng.normal(size=n) * 10, real) + 0.0
        order = np.argsort(-real if descending else real, kind="stable")
        if not stable:  # shuffle within ties
            shuffled = rng.permutation(n)
            order = shuffled[np.argsort((-real if descending else real)[shuffled], kind="stable")]
        sure = np.ones(n, bool) if out.und is None else ~out.und
        reach = 0.0 if out.rad is None else out.rad
        assert (np.abs(real[order] - out.mid) <= reach + 1e-9)[sure].all()
        same = payload.mid[order] == moved.mid
        assert same[np.ones(n, bool) if moved.und is None else ~moved.und].all()


def test_only_overlapping_keys_are_in_doubt():
    keys = Ball(DTYPES["f32"], np.array([5.0, 1.0, 1.1, 3.0]), np.array([0.1, 0.2, 0.2, 0.0]), None)
    out, moved = sorted_balls(keys, from_array(DTYPES["s32"], np.arange(4)))
    np.testing.assert_allclose(out.mid, [1.0, 1.1, 3.0, 5.0])
    np.testing.assert_array_equal(moved.und, [True, True, False, False])
    np.testing.assert_array_equal(moved.mid[2:], [3, 0])


def test_floats_that_travel_with_keys_in_doubt_are_enclosed():
    keys = Ball(DTYPES["f32"], np.array([5.0, 1.0, 1.1, 3.0]), np.array([0.1, 0.2, 0.2, 0.0]), None)
    payload = Ball(DTYPES["f32"], np.array([7.0, 2.0, -1.0, 4.0]), np.array([0.0, 0.5, 0.0, 0.0]), None)
    _, moved = sorted_balls(keys, payload)
    assert moved.und is None or not moved.und.any()
    for place in (0, 1):
        for value, bad in ((2.5, False), (1.5, False), (-1.0, False), (2.6, True), (-1.1, True)):
            assert outside(moved, np.where(np.arange(4) == place, value, moved.mid))[place] == bad
    np.testing.assert_array_equal(moved.mid[2:], [4.0, 7.0])
    assert not moved.rad[2:].any()
    payload = Ball(DTYPES["f32"], np.array([7.0, 2.0, np.inf, 4.0]), None, None)
    _, moved = sorted_balls(keys, payload)
    np.testing.assert_array_equal(moved.und, [True, True, False, False])


def test_topk_carries_radii():
    text = """HloModule m
ENTRY e {
  x = f32[5] parameter(0)
  ROOT t = (f32[2], s32[2]) topk(x), k=2, largest=true
}"""
    module = parse_module(text)
    context = Context(module, POLICY, lambda name, arguments: arguments[0])
    keys = Ball(DTYPES["f32"], np.array([1.0, 9.0, 5.0, 4.9, 2.0]), np.full(5, 0.1), None)
    values, indices = find("topk")(context, module.entry.root, keys)
    np.testing.assert_allclose(values.mid, [9.0, 5.0])
    np.testing.assert_array_equal(indices.und, [False, True])


def test_signs_of_zeros_and_nans_are_not_trusted():
    mixed = from_array(DTYPES["f32"], np.array([0.0, -0.0, 1.0, 2.0]))
    _, moved = sorted_balls(mixed, from_array(DTYPES["s32"], np.arange(4)))
    np.testing.assert_array_equal(moved.und, [True, True, False, False])
    nan = from_array(DTYPES["f32"], np.array([0.0, np.nan, 1.0]))
    _, moved = sorted_balls(nan, from_array(DTYPES["s32"], np.arange(3)))
    assert moved.und.all()


@pytest.mark.parametrize("zeros", ["dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}", "multiply(a, b)", "negate(a)"])
def test_zeros_that_all_have_an_unknown_sign_are_not_alike(zeros):
    """A contraction over one element is the product, whose zeros have signs, or a sum from +0, whose have none."""
    text = f"""HloModule m
ENTRY e {{
  a = f32[5] parameter(0)
  b = f32[5] parameter(1)
  z = f32[5] {zeros}
  ROOT t = (f32[5], s32[5]) topk(z), k=5, largest=true
}}
"""
    a, b = np.zeros(5, np.float32), np.array([-1, 2, -3, 4, -5], np.float32)
    assert_hlo_agrees(text, a, b, decided=False)
    plain = text.replace(zeros, "copy(a)")
    assert_hlo_agrees(plain, a, b)


def test_corruptions_are_seen():
    x = np.random.default_rng(1).normal(size=200).astype(np.float32)
    values, order = reference(hlo_text(lambda x: lax.sort((x, lax.iota(np.int32, 200)), num_keys=1), x), [x])
    got = np.argsort(x, kind="stable").astype(np.int32)
    assert not outside(order, got).any()
    got[[3, 4]] = got[[4, 3]]
    assert outside(order, got).sum() == 2
    wrong = np.sort(x)
    wrong[7] = np.nextafter(wrong[7], np.float32(9))
    assert outside(values, wrong).sum() == 1


def test_fast():
    n = 300_000
    x = np.random.default_rng(1).normal(size=n).astype(np.float32)
    text = hlo_text(lambda x: lax.sort((x, lax.iota(np.int32, n)), num_keys=1), x)
    start = time.process_time()
    reference(text, [x])
    assert time.process_time() - start < 3
