"""dot and ragged-dot against exact arithmetic, hand-worked cases and XLA:CPU."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from xla_cpu import assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.errors import Unsupported
from assay.reference.policy import Policy

POLICY = Policy("xla-cpu", accumulate={"bf16": "f32", "f16": "f32", "f8e4m3fn": "f32", "f8e5m2": "f32"})
RNG = np.random.default_rng(1)


def normal(*dims: int, dtype: object = np.float32, scale: float = 1.0) -> np.ndarray:
    return (RNG.normal(size=dims) * scale).astype(dtype)


DOTS = [
    ((5, 7), (7, 3), ((1,), (0,)), ((), ())),
    ((7, 5), (3, 7), ((0,), (1,)), ((), ())),
    ((2, 5, 7), (2, 7, 3), ((2,), (1,)), ((0,), (0,))),
    ((5, 2, 7), (7, 3, 2), ((2,), (0,)), ((1,), (2,))),
    ((3, 4, 5), (4, 5, 6), ((1, 2), (0, 1)), ((), ())),
    ((3, 4, 5), (5, 4, 6), ((1, 2), (1, 0)), ((), ())),
    ((7,), (7,), ((0,), (0,)), ((), ())),
    ((4,), (3,), ((), ()), ((), ())),
    ((0, 4), (4, 3), ((1,), (0,)), ((), ())),
    ((2, 0), (0, 3), ((1,), (0,)), ((), ())),
    ((64, 300), (300, 48), ((1,), (0,)), ((), ())),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64])
def test_dot_agrees_with_xla(dtype):
    def f(*pairs):
        return [lax.dot_general(x, y, dims[2:]) for x, y, dims in zip(pairs[::2], pairs[1::2], DOTS, strict=True)]

    arrays = [normal(*dims, dtype=dtype) for pair in DOTS for dims in pair[:2]]
    if dtype == np.complex64:
        arrays = [x + 1j * normal(*x.shape) for x in arrays]
    wide = np.complex128 if dtype == np.complex64 else np.float64
    balls = assert_agree(f, *arrays, policy=POLICY)
    for ball, x, y, dims in zip(balls, arrays[::2], arrays[1::2], DOTS, strict=True):
        exact = lax_dot_numpy(x.astype(wide), y.astype(wide), *dims[2:])
        np.testing.assert_allclose(ball.mid, exact, rtol=1e-12, atol=1e-12)


def lax_dot_numpy(x, y, contracting, batch):
    letters = iter("abcdefghijklmnop")
    xs, ys = [""] * x.ndim, [""] * y.ndim
    out = ""
    for i, j in zip(*batch, strict=True):
        xs[i] = ys[j] = next(letters)
        out += xs[i]
    for i, j in zip(*contracting, strict=True):
        xs[i] = ys[j] = next(letters)
    for names in (xs, ys):
        for k, name in enumerate(names):
            if not name:
                names[k] = next(letters)
                out += names[k]
    return np.einsum(f"{''.join(xs)},{''.join(ys)}->{out}", x, y)


def test_operands_of_other_types_are_converted():
    types = [
        (np.float32, np.float64),
        (np.int8, np.float32),
        (np.int32, np.float32),
        (np.float32, np.complex64),
        (ml_dtypes.bfloat16, np.float32),
    ]
    arrays = [
        (RNG.normal(size=dims) * 20).astype(t) for pair in types for t, dims in zip(pair, ((6, 9), (9, 5)), strict=True)
    ]
    with jax.enable_x64(True):
        assert_agree(lambda *x: [jnp.dot(a, b) for a, b in zip(x[::2], x[1::2], strict=True)], *arrays, policy=POLICY)
    f8 = normal(6, 9, dtype=ml_dtypes.float8_e4m3fn), normal(9, 5, dtype=ml_dtypes.float8_e5m2)
    assert_agree(lambda x, y: lax.dot(x, y, preferred_element_type=np.float32), *f8, policy=POLICY)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_products_wrap(name):
    info = np.iinfo(name)
    x = RNG.integers(info.min, info.max, (6, 11), dtype=name, endpoint=True)
    y = RNG.integers(info.min, info.max, (11, 5), dtype=name, endpoint=True)
    with jax.enable_x64(True):
        (ball,) = assert_agree(lambda x, y: lax.dot(x, y), x, y)
    assert ball.exact
    bits = info.bits
    for i in range(6):
        for j in range(5):
            total = sum(int(p) * int(q) for p, q in zip(x[i], y[:, j], strict=True))
            assert (total - int(ball.mid[i, j])) % 2**bits == 0


def test_preferred_type_is_the_accumulator():
    x, y = normal(4, 600, dtype=ml_dtypes.bfloat16), normal(600, 4, dtype=ml_dtypes.bfloat16)
    (wide,) = assert_agree(lambda x, y: lax.dot(x, y, preferred_element_type=np.float32), x, y)
    (narrow,) = reference(hlo_text(lambda x, y: lax.dot(x, y), x, y), [x, y])
    assert wide.dtype.name == "f32"
    assert narrow.dtype.name == "bf16"
    assert wide.rad.max() < 1e-2 * narrow.rad.max()
    s8 = RNG.integers(-128, 128, (4, 100)).astype(np.int8)
    assert_agree(lambda x: lax.dot(x, x.T, preferred_element_type=np.int32), s8)


def test_small_integers_in_floats_have_no_radius():
    x = RNG.integers(-8, 9, (20, 100)).astype(np.float32)
    y = RNG.integers(-8, 9, (100, 20)).astype(np.float32)
    (ball,) = assert_agree(lambda x, y: x @ y, x, y)
    assert ball.exact


def test_bound_holds_in_any_order_and_bites():
    """f32 sums in adversarial orders stay inside; a wrong element of an operand does not."""
    k = 400
    x, y = normal(8, k), normal(k, 8)
    (ball,) = reference(hlo_text(lambda x, y: x @ y, x, y), [x, y])
    products = x[:, None, :] * y.T[None]
    orders = [
        products,
        products[..., ::-1],
        np.sort(products, -1),
        np.take_along_axis(products, np.argsort(np.abs(products), -1), -1),
        np.take_along_axis(products, np.argsort(-np.abs(products), -1), -1),
    ]
    for terms in orders:
        total = np.add.accumulate(terms, axis=-1, dtype=np.float32)[..., -1]
        assert not outside(ball, total).any()
    exact = [
        [sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x[i], y[:, j], strict=True)) for j in range(8)]
        for i in range(8)
    ]
    assert (np.abs(ball.mid - np.array(exact, float)) < 1e-12).all()
    swapped = x[:, ::-1] @ y
    dropped = x[:, :-1] @ y[:-1]
    assert outside(ball, swapped).mean() > 0.95
    assert outside(ball, dropped).mean() > 0.95


@pytest.mark.parametrize("k", [1000, 30_000])
def test_sums_of_equal_terms_get_the_deterministic_bound(k):
    """A sequential f32 sum of equal products drifts far beyond sqrt(k) u."""
    x, y = np.full((3, k), 0.1, np.float32), np.full((k, 40), 0.7, np.float32)
    (ball,) = assert_agree(lambda x, y: x @ y, x, y)
    total = np.add.accumulate(np.full(k, np.float32(0.1) * np.float32(0.7)), dtype=np.float32)[-1]
    assert not outside(ball, np.broadcast_to(total, (3, 40))).any()


def test_radii_and_doubt_go_through():
    def f(x, y):
        return jnp.floor(jnp.exp(x)) @ y, jnp.exp(x) @ jnp.sin(y)

    x, y = normal(6, 9), normal(9, 5)
    balls = assert_agree(f, x, y, decided=False)
    assert balls[1].rad is not None


def test_specials():
    x = np.array([[np.inf, 1.0], [np.nan, 0.0], [1.0, -1.0], [3e38, 3e38]], np.float32)
    y = np.array([[1.0, 0.0, np.inf], [1.0, 2.0, np.inf]], np.float32)
    (ball,) = assert_agree(lambda x, y: lax.dot(x, y), x, y, decided=False)
    assert np.isnan(ball.mid[1]).all()
    assert ball.mid[0, 0] == np.inf
    assert np.isnan(ball.mid[0, 1])
    # A partial sum that may overflow on the way to a finite result is not decided.
    z = np.array([[3e38, 3e38, -3e38]], np.float32)
    (ball,) = reference(hlo_text(lambda z: lax.dot(z, np.ones((3, 1), np.float32)), z), [z])
    assert ball.und.all()


def test_ragged_dot():
    x, w = normal(10, 6), normal(3, 6, 4)
    text = """HloModule m

ENTRY e {
  x = f32[10,6] parameter(0)
  w = f32[3,6,4] parameter(1)
  g = s32[3] parameter(2)
  ROOT r = f32[10,4] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, GROUPS
}
"""
    text = text.replace("GROUPS", "lhs_ragged_dims={0}, rhs_group_dims={0}")
    for sizes in ([3, 0, 5], [10, 0, 0], [0, 0, 0], [4, 4, 2]):
        (ball,) = reference(text, [x, w, np.array(sizes, np.int32)])
        want = np.zeros((10, 4))
        start = 0
        for group, size in enumerate(sizes):
            want[start : start + size] = x[start : start + size].astype(float) @ w[group].astype(float)
            start += size
        np.testing.assert_allclose(ball.mid, want, atol=1e-12)
        got = np.asarray(lax.ragged_dot(x, w, np.array(sizes, np.int32)))
        assert not outside(ball, got).any()


def test_ragged_contraction():
    x, y = normal(6, 10), normal(10, 4)
    text = """HloModule m

ENTRY e {
  x = f32[6,10] parameter(0)
  y = f32[10,4] parameter(1)
  g = s32[2] parameter(2)
  ROOT r = f32[2,6,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}
}
"""
    (ball,) = reference(text, [x, y, np.array([3, 6], np.int32)])
    want = np.stack([x[:, :3].astype(float) @ y[:3], x[:, 3:9].astype(float) @ y[3:9]])
    np.testing.assert_allclose(ball.mid, want, atol=1e-6)


def test_group_sizes_that_are_undecided():
    """Which rows belong to which group is open, and with it the whole result; no program is refused for it."""
    text = """HloModule m

ENTRY e {
  x = f32[6,3] parameter(0)
  w = f32[2,3,4] parameter(1)
  f = f32[2] parameter(2)
  k = f32[] constant(0.7)
  b = f32[2] broadcast(k), dimensions={}
  m = f32[2] multiply(f, b)
  g = s32[2] convert(m)
  ROOT r = f32[6,4] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, GROUPS
}
""".replace("GROUPS", "lhs_ragged_dims={0}, rhs_group_dims={0}")
    (ball,) = reference(text, [normal(6, 3), normal(2, 3, 4), np.array([10, 30], np.float32)])
    assert ball.dims == (6, 4)
    assert ball.und.all()
    sharp = text.replace("constant(0.1)", "constant(0.125)")
    (ball,) = reference(sharp, [normal(6, 3), normal(2, 3, 4), np.array([16, 32], np.float32)])
    assert ball.und is None
    with pytest.raises(Unsupported, match="negative group sizes"):
        reference(sharp, [normal(6, 3), normal(2, 3, 4), np.array([16, -32], np.float32)])


def test_precision_algorithms():
    x, y = normal(16, 64), normal(64, 16)
    for preset in ("BF16_BF16_F32", "BF16_BF16_F32_X3", "F32_F32_F32"):
        algorithm = getattr(lax.DotAlgorithmPreset, preset)
        assert_agree(lambda x, y, a=algorithm: lax.dot(x, y, precision=a), x, y)


def test_sparsity_is_refused():
    text = """HloModule m

ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[16,4] parameter(1)
  m = u16[4,2] parameter(2)
  ROOT r = f32[4,4] dot(x, y, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sparsity=L.1@2:4
}
"""
    with pytest.raises(Unsupported, match="dot"):
        reference(text, [normal(4, 8), normal(16, 4), np.zeros((4, 2), np.uint16)])


def test_level_zero_agrees_too():
    x, y = normal(33, 257), normal(257, 17)
    text = hlo_text(lambda x, y: x @ y, x, y)
    assert_hlo_agrees(text, x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_terms_may_overflow_before_they_meet_an_infinity(dtype):
    """inf + inf - inf is NaN in one order and what is left of it in no other: nobody can say which is right."""
    huge = np.finfo(dtype).max * dtype(0.75)
    x = np.array([huge, huge, -np.inf], dtype)
    ones = np.ones(3, dtype)
    with jax.enable_x64(True):
        for function in (lambda a, b: a @ b, lambda a, b: jnp.sum(a * b)):
            (ball,) = reference(hlo_text(function, x, ones), [x, ones])
            assert ball.und is not None
            assert ball.und.all()
        (ball,) = reference(hlo_text(jnp.dot, x, ones), [dtype([1, 2, -np.inf]), ones])
        assert ball.mid == -np.inf
        assert ball.und is None or not ball.und.any()
