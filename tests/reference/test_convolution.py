"""convolution against XLA:CPU, a direct sum in NumPy, and its own speed."""

from __future__ import annotations

import itertools
import time

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from xla_cpu import assert_agree, hlo_text, outside, reference

from assay.reference.ops import convolution_products
from assay.reference.policy import Policy

POLICY = Policy("xla-cpu", accumulate={"bf16": "f32", "f16": "f32"})
RNG = np.random.default_rng(2)

# lhs, rhs, strides, padding, lhs dilation, rhs dilation, feature groups, batch groups, dimension numbers
SOLID = ("NDHWC", "DHWIO", "NDHWC")
MIXED = ("NHWDC", "HWDIO", "DNHWC")
CASES = [
    ((2, 7, 6, 4), (3, 3, 4, 5), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1, ("NHWC", "HWIO", "NHWC")),
    ((2, 4, 7, 6), (5, 4, 3, 2), (2, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1, ("NCHW", "OIHW", "NCHW")),
    ((2, 7, 6, 4), (3, 2, 4, 5), (1, 2), ((-1, 2), (3, -2)), (1, 1), (1, 1), 1, 1, ("NHWC", "HWIO", "NHWC")),
    ((2, 5, 6, 4), (3, 3, 4, 5), (1, 1), ((2, 1), (0, 3)), (2, 3), (1, 1), 1, 1, ("NHWC", "HWIO", "NHWC")),
    ((2, 9, 8, 4), (3, 2, 4, 5), (1, 1), ((1, 1), (1, 1)), (1, 1), (2, 3), 1, 1, ("NHWC", "HWIO", "NHWC")),
    ((2, 9, 8, 4), (3, 2, 4, 5), (2, 3), ((-1, 4), (2, 1)), (3, 2), (2, 3), 1, 1, ("NHWC", "HWIO", "CHWN")),
    ((2, 7, 6, 6), (3, 3, 2, 9), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3, 1, ("NHWC", "HWIO", "NHWC")),
    ((2, 7, 6, 4), (3, 3, 1, 8), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4, 1, ("NHWC", "HWIO", "NHWC")),
    ((6, 7, 6, 4), (3, 3, 4, 9), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 3, ("NHWC", "HWIO", "NHWC")),
    ((3, 11, 2), (4, 2, 3), (2,), ((1, 2),), (1,), (1,), 1, 1, ("NWC", "WIO", "NWC")),
    ((3, 5), (5, 4), (), (), (), (), 1, 1, ((0, 1), (1, 0), (0, 1))),
    ((1, 4, 5, 3, 2), (2, 2, 2, 2, 3), (1, 2, 1), ((1, 0), (0, 1), (1, 1)), (1,) * 3, (1,) * 3, 1, 1, SOLID),
    ((2, 3, 4), (9, 4, 2), (1,), ((0, 0),), (1,), (1,), 1, 1, ("NWC", "WIO", "NWC")),
    # matrix products: a free dimension, a contracted one, a batch, and all of them at once
    ((2, 3, 4), (1, 4, 5), (1,), ((0, 0),), (1,), (1,), 1, 1, ("NWC", "WIO", "NWC")),
    ((3, 2, 4), (5, 3, 4), (1,), ((0, 0),), (1,), (1,), 1, 1, ("WNC", "OWI", "CWN")),
    ((2, 3, 4), (3, 4, 5), (2,), ((0, 0),), (3,), (1,), 1, 1, ("NWC", "WIO", "NWC")),
    ((2, 4, 6, 3), (4, 6, 5, 3), (3, 2), ((0, 0), (0, 0)), (4, 3), (1, 1), 1, 1, ("NHCW", "HIOW", "CWHN")),
    ((2, 3, 5, 4, 7), (3, 5, 1, 7, 6), (2, 1, 1), ((0, 0),) * 3, (3, 1, 1), (1,) * 3, 1, 1, MIXED),
    ((2, 5, 3, 4, 7), (5, 3, 1, 7, 6), (3, 2, 1), ((0, 0),) * 3, (1, 3, 1), (1,) * 3, 1, 1, MIXED),
    ((2, 3, 6), (3, 2, 9), (2,), ((0, 0),), (3,), (1,), 3, 1, ("NWC", "WIO", "NWC")),
    ((6, 3, 4), (3, 4, 9), (2,), ((0, 0),), (3,), (1,), 1, 3, ("NWC", "WIO", "NWC")),
    ((2, 3, 4), (3, 4, 5), (1,), ((0, 0),), (3,), (1,), 1, 1, ("NWC", "WIO", "NWC")),  # nearly a batch: another stride
    ((2, 3, 4), (2, 4, 5), (1,), ((0, 0),), (3,), (1,), 1, 1, ("NWC", "WIO", "NWC")),
]  # fmt: skip


def conv(lhs, rhs, case, **options):
    *_, strides, padding, lhs_dilation, rhs_dilation, groups, batch_groups, numbers = case
    if not strides:
        numbers = lax.ConvDimensionNumbers(*numbers)
    return lax.conv_general_dilated(
        lhs, rhs, strides, padding, lhs_dilation, rhs_dilation, numbers, groups, batch_groups, **options
    )


def arrays(dtype):
    for case in CASES:
        for dims in case[:2]:
            x = RNG.normal(size=dims)
            if dtype == np.complex64:
                x = x + 1j * RNG.normal(size=dims)
            if np.dtype(dtype).kind == "i":
                x = x * 50
            yield x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.int32])
def test_agrees_with_xla(dtype):
    def f(*xs):
        return [conv(a, b, case) for a, b, case in zip(xs[::2], xs[1::2], CASES, strict=True)]

    assert_agree(f, *arrays(dtype), policy=POLICY)


def test_complex_agrees_with_xla():
    x, w = RNG.normal(size=(2, 6, 5, 3)), RNG.normal(size=(3, 2, 3, 4))
    x, w = (x + 1j * x[::-1]).astype(np.complex64), (w - 2j * w[::-1]).astype(np.complex64)
    assert_agree(lambda x, w: conv(x, w, CASES[0]), x, w)


def direct(x, w, strides, padding, lhs_dilation, rhs_dilation):
    """NHWC by HWIO, term by term."""
    x = lax.pad(x, 0.0, ((0, 0, 0), *((low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation)), (0, 0, 0)))  # noqa: B905
    x = np.asarray(x, np.float64)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape, rhs_dilation)]  # noqa: B905
    places = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:], reach, strides)]  # noqa: B905
    out = np.zeros((len(x), *places, w.shape[-1]))
    for at in itertools.product(*map(range, places)):
        for k in itertools.product(range(w.shape[0]), range(w.shape[1])):
            row, column = (p * s + i * d for p, s, i, d in zip(at, strides, k, rhs_dilation))  # noqa: B905
            out[:, at[0], at[1]] += x[:, row, column] @ w[k].astype(np.float64)
    return out


@pytest.mark.parametrize("case", CASES[2:5], ids=str)
def test_midpoint_is_the_direct_sum(case):
    x, w = (RNG.normal(size=dims).astype(np.float32) for dims in case[:2])
    (ball,) = reference(hlo_text(lambda x, w: conv(x, w, case), x, w), [x, w])
    np.testing.assert_allclose(ball.mid, direct(x, w, *case[2:6]), atol=1e-12)


PRODUCTS = [
    "size=1", "size=3", "size=3 stride=2 lhs_dilate=3", "size=3 stride=7", "size=3 rhs_reversal=1",
    "size=3 stride=2 lhs_dilate=3 rhs_reversal=1", "size=1 rhs_dilate=5",
]  # fmt: skip


@pytest.mark.parametrize("window", PRODUCTS)
@pytest.mark.parametrize("special", [None, np.inf, np.nan])
def test_a_matrix_product_is_the_same_as_the_windows(window, special, monkeypatch):
    """On one path and on the other, infinities that meet the zeros of a dilation included."""
    places, size = (3, 1) if "size=1" in window else (3 if "dilate=3" in window else 1, 3)
    text = f"""HloModule m

ENTRY e {{
  x = f32[2,3,4] parameter(0)
  w = f32[{size},4,5] parameter(1)
  ROOT c = f32[2,{places},5] convolution(x, w), window={{{window}}}, dim_labels=b0f_0io->b0f
}}
"""
    x, w = RNG.normal(size=(2, 3, 4)).astype(np.float32), RNG.normal(size=(size, 4, 5)).astype(np.float32)
    if special is not None:
        x[1, 2, 0] = w[0, 1, 2] = special
    calls = []
    made = convolution_products.product
    monkeypatch.setattr(convolution_products, "product", lambda *args: calls.append(1) or made(*args))
    (ball,) = reference(text, [x, w])
    assert bool(calls) is (special is None or "dilate=3" not in window)
    monkeypatch.setattr(convolution_products, "roles", lambda *args: None)
    (wanted,) = reference(text, [x, w])
    np.testing.assert_allclose(ball.mid, wanted.mid, rtol=1e-13)
    assert ball.rad is not None
    np.testing.assert_allclose(ball.rad, wanted.rad, rtol=1e-6)
    np.testing.assert_array_equal(ball.und is None, wanted.und is None)
    if ball.und is not None:
        np.testing.assert_array_equal(ball.und, wanted.und)


def test_reversed_windows():
    text = """HloModule m

ENTRY e {
  x = f32[2,7,6,4] parameter(0)
  w = f32[3,2,4,5] parameter(1)
  ROOT c = f32[2,5,5,5] convolution(x, w), window={size=3x2 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f
}
"""
    x, w = RNG.normal(size=(2, 7, 6, 4)).astype(np.float32), RNG.normal(size=(3, 2, 4, 5)).astype(np.float32)
    (ball,) = reference(text, [x, w])
    np.testing.assert_allclose(ball.mid, direct(x, w[::-1], (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)), atol=1e-12)


def test_gradients_agree_with_xla():
    x, w = RNG.normal(size=(2, 9, 8, 3)).astype(np.float32), RNG.normal(size=(3, 3, 3, 4)).astype(np.float32)

    def loss(x, w):
        return (lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum()

    assert_agree(jax.grad(loss, (0, 1)), x, w)


def test_small_integers_have_no_radius_and_a_wrong_tap_shows():
    x, w = RNG.integers(-4, 5, (2, 9, 8, 3)).astype(np.float32), RNG.integers(-4, 5, (3, 3, 3, 4)).astype(np.float32)
    (ball,) = assert_agree(lambda x, w: conv(x, w, CASES[0]), x, w)
    assert ball.exact
    x, w = RNG.normal(size=x.shape).astype(np.float32), RNG.normal(size=w.shape).astype(np.float32)
    (ball,) = reference(hlo_text(lambda x, w: conv(x, w, CASES[0]), x, w), [x, w])
    w[1, 2, 0] *= 1.001
    assert outside(ball, np.asarray(conv(x, w, CASES[0]))).mean() > 0.7


def test_infinite_weights_and_padding_are_left_open():
    x, w = np.ones((1, 4, 4, 1), np.float32), np.full((3, 3, 1, 1), np.inf, np.float32)
    (ball,) = assert_agree(lambda x, w: conv(x, w, CASES[0]), x, w, decided=False)
    assert ball.und.any()


def test_speed():
    """The three convolutions of a residual block, bounds included."""
    x = RNG.normal(size=(4, 28, 28, 64)).astype(np.float32)
    w = RNG.normal(size=(3, 3, 64, 64)).astype(np.float32)

    def f(x, w):
        out, back = jax.vjp(lambda x, w: conv(x, w, CASES[0]), x, w)
        return out, *back(out)

    text = hlo_text(f, x, w)
    start = time.perf_counter()
    reference(text, [x, w])
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(("image", "window"), [((1, 2, 2, 1), (1, 3)), ((1, 2, 0, 1), (1, 1)), ((0, 3, 3, 1), (2, 2))])
def test_no_places_at_all(image, window):
    """A window larger than the image, an empty image, and an empty batch."""

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), [(0, 0), (0, 0)], dimension_numbers=("NHWC", "HWIO", "NHWC"))

    (ball,) = assert_agree(f, np.ones(image, np.float32), np.ones((*window, 1, 4), np.float32))
    assert ball.mid.size == 0
