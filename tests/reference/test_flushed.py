"""On a device without subnormals every result that is one is zero, in midpoints and in balls."""

from __future__ import annotations

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, as_ball

TPU = for_target("tpu:v5e")


def value(body: str, *arguments: np.ndarray, flushed: bool, balls: bool) -> Ball:
    module = parse_module(f"HloModule m\nENTRY e {{ {body} }}")
    rng = None if balls else np.random.default_rng(0)
    return as_ball(evaluate(module, arguments, TPU, rng=rng, amplitude=0.0, flushed=flushed).value)


PRODUCT = """p = f32[4] parameter(0)
  small = f32[] constant(1e-30)
  smalls = f32[4] broadcast(small), dimensions={}
  ROOT m = f32[4] multiply(p, smalls)"""
BACK = (
    PRODUCT.replace("ROOT m", "m")
    + """
  large = f32[] constant(1e30)
  larges = f32[4] broadcast(large), dimensions={}
  ROOT r = f32[4] multiply(m, larges)"""
)
P = np.array([1e-9, -1e-9, 1e-7, 0.0], np.float32)  # the first two products are subnormal


@pytest.mark.parametrize("balls", [False, True])
def test_subnormal_results_are_zero(balls: bool) -> None:
    found = value(PRODUCT, P, flushed=True, balls=balls)
    np.testing.assert_array_equal(found.mid == 0, [True, True, False, True])
    np.testing.assert_array_equal(np.signbit(found.mid), [False, True, False, False])
    assert found.rad is None or not found.rad[[0, 1, 3]].any()
    found = value(BACK, P, flushed=True, balls=balls)
    np.testing.assert_allclose(found.mid, [0, 0, 1e-7, 0], rtol=1e-6)
    assert found.rad is None or not found.rad[[0, 1, 3]].any()


def test_without_it_they_may_be_kept() -> None:
    np.testing.assert_allclose(value(PRODUCT, P, flushed=False, balls=False).mid, P * 1e-30, rtol=1e-6)
    found = value(BACK, P, flushed=False, balls=True)
    assert found.rad is not None
    for truth in (P, np.array([0, 0, 1e-7, 0])):
        assert (np.abs(found.mid - truth) <= found.rad + 1e-13).all()


@pytest.mark.parametrize("balls", [False, True])
def test_subnormal_arguments_are_read_as_zero(balls: bool) -> None:
    body = BACK.replace("constant(1e-30)", "constant(1)")
    found = value(body, np.array([1e-39, -1e-39, 1e-30, 0.0], np.float32), flushed=True, balls=balls)
    np.testing.assert_allclose(found.mid, [0, 0, 1, 0], rtol=1e-6)


def test_complex_parts_are_flushed_one_by_one() -> None:
    body = "p = c64[1] parameter(0)\n ROOT n = c64[1] multiply(p, p)"
    found = value(body, np.array([1e-20 + 0j], np.complex64), flushed=True, balls=False)
    assert found.mid[0] == 0
    body = "p = f32[1] parameter(0)\n q = f32[1] parameter(1)\n ROOT n = c64[1] complex(p, q)"
    found = value(body, np.array([1.0], np.float32), np.array([1e-39], np.float32), flushed=True, balls=False)
    assert found.mid[0] == 1


def test_f16_has_its_subnormals() -> None:
    """They are computed in f32, where they are normal."""
    body = """p = f16[1] parameter(0)
      c = f16[] constant(0.5)
      b = f16[1] broadcast(c), dimensions={}
      ROOT m = f16[1] multiply(p, b)"""
    found = value(body, np.array([2.0**-20], np.float16), flushed=True, balls=False)
    assert found.mid[0] == 2.0**-21


@pytest.mark.parametrize("balls", [True, False])
@pytest.mark.parametrize("flushed", [True, False])
def test_an_infinite_part_leaves_the_flushed_one_alone(flushed: bool, balls: bool) -> None:
    """A product with 1j is NaN beside an infinity."""
    z = np.array([complex(np.inf, 1e-39), complex(1e-39, -np.inf), complex(-np.inf, np.inf)], np.complex64)
    found = value("x = c64[3] parameter(0)\n  ROOT r = c64[3] copy(x)", z, flushed=flushed, balls=balls)
    assert found.mid.real.tolist()[0] == np.inf
    assert found.mid.real.tolist()[2] == -np.inf
    assert found.mid.imag.tolist()[1:] == [-np.inf, np.inf]
    assert not np.isnan(found.mid.real).any()
    assert not np.isnan(found.mid.imag).any()
