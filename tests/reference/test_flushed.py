"""On a device without subnormals every result that is one is zero, in midpoints and in balls."""

from __future__ import annotations

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.sampled import Sampling
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


ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
TIMES = ADD.replace("add", "times").replace("times(a", "multiply(a")
SUBNORMAL = {
    "multiply": "r = f32[8] multiply(x, y)",
    "divide": "l = f32[] constant(1e30)\n ls = f32[8] broadcast(l), dimensions={}\n d = f32[8] divide(x, ls)\n"
    " h = f32[] constant(1e-1)\n hs = f32[8] broadcast(h), dimensions={}\n r = f32[8] multiply(d, hs)",
    "subtract": "u = f32[8] multiply(x, z)\n h = f32[] constant(1.09)\n hs = f32[8] broadcast(h), dimensions={}\n"
    " v = f32[8] multiply(u, hs)\n r = f32[8] subtract(v, u)",
    "exponential": "h = f32[] constant(-9e10)\n hs = f32[8] broadcast(h), dimensions={}\n e = f32[8] multiply(x, hs)\n"
    " r = f32[8] exponential(e)",
    "dot": "r = f32[8] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={}, "
    "rhs_contracting_dims={}",
    "convolution": "f = f32[8,1,1] reshape(x)\n s = f32[1] slice(y), slice={[0:1]}\n k = f32[1,1,1] reshape(s)\n"
    " c = f32[8,1,1] convolution(f, k), window={size=1}, dim_labels=b0f_0io->b0f\n r = f32[8] reshape(c)",
    "reduce": "p = f32[8] multiply(x, y)\n f = f32[8,1] reshape(p)\n o = f32[] constant(0)\n"
    " r = f32[8] reduce(f, o), dimensions={1}, to_apply=add",
    "product": "f = f32[8,1] reshape(x)\n g = f32[8,1] reshape(y)\n c = f32[8,2] concatenate(f, g), dimensions={1}\n"
    " o = f32[] constant(1)\n r = f32[8] reduce(c, o), dimensions={1}, to_apply=times",
    "window": "p = f32[8] multiply(x, y)\n o = f32[] constant(0)\n"
    " r = f32[8] reduce-window(p, o), window={size=2 pad=1_0}, to_apply=add",
    "complex": "c = c64[8] complex(x, x)\n d = c64[8] complex(y, y)\n m = c64[8] multiply(c, d)\n r = f32[8] imag(m)",
}


@pytest.mark.parametrize("target", ["cpu", "tpu:v5e"])
@pytest.mark.parametrize("name", SUBNORMAL)
def test_whether_a_subnormal_result_is_zero_is_open_in_sampled_runs_too(name: str, target: str) -> None:
    """An error drawn is never exactly what makes a result zero."""
    text = f"""HloModule m\n{ADD}{TIMES}
    ENTRY e {{ x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n z = f32[8] parameter(2)
      {SUBNORMAL[name]}
      zero = f32[] constant(0)\n zeros = f32[8] broadcast(zero), dimensions={{}}
      ROOT same = pred[8] compare(r, zeros), direction=EQ }}"""
    x = np.linspace(1, 1.001, 8, dtype=np.float32) * np.float32(1e-9)
    arguments = [x, np.full(8, 1e-30, np.float32), np.full(8, 3e-29, np.float32)]
    module, policy = parse_module(text), for_target(target)
    assert policy.flush_subnormals
    exact = as_ball(evaluate(module, arguments, policy).value)
    assert exact.und is not None
    assert exact.und.all()
    sampling = Sampling(module, arguments, policy)
    for _ in range(8):
        sampling.more()
    (found,) = sampling.bounds()
    assert isinstance(found, Ball)
    assert found.und is not None
    assert found.und.all()


TINY = np.float32(1e-39)
EXTREME = {
    "minimum": "ROOT r = f32[2] minimum(x, y)",
    "maximum": "n = f32[2] negate(x)\n m = f32[2] negate(y)\n ROOT r = f32[2] maximum(n, m)",
    "clamp": "l = f32[] constant(-1)\n ls = f32[2] broadcast(l), dimensions={}\n ROOT r = f32[2] clamp(ls, x, y)",
    "reduce": "a = f32[2,1] reshape(x)\n b = f32[2,1] reshape(y)\n c = f32[2,2] concatenate(a, b), dimensions={1}\n"
    " o = f32[] constant(inf)\n ROOT r = f32[2] reduce(c, o), dimensions={1}, to_apply=least",
    "scatter": "i = s32[2,1] iota(), iota_dimension=0\n ROOT r = f32[2] scatter(x, i, y), update_window_dims={}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=least",
}


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("name", EXTREME)
def test_of_zero_and_a_subnormal_either_is_the_least(name: str, drawn: bool) -> None:
    """Read as zero they are equal, and XLA:CPU hands on the subnormal. A normal number is no tie."""
    least = ADD.replace("add", "least").replace("least(a", "minimum(a")
    module = parse_module(
        f"HloModule m\n{least}ENTRY e {{ x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n {EXTREME[name]} }}"
    )
    arguments = [np.array([0, 1], np.float32), np.array([TINY, TINY], np.float32)]
    if drawn:
        sampling = Sampling(module, arguments, for_target("cpu"))
        for _ in range(12):
            sampling.more()
        (found,) = sampling.bounds()
    else:
        found = as_ball(evaluate(module, arguments, for_target("cpu")).value)
    assert isinstance(found, Ball)
    assert found.rad is not None
    sign = -1 if name == "maximum" else 1
    for truth in (0.0, sign * float(TINY)):
        assert abs(found.mid[0] - truth) <= found.rad[0]
    assert abs(found.mid[1]) + found.rad[1] < 1e-37


INFINITE = {
    "reduce": "a = f32[3,1] reshape(x)\n b = f32[3,1] reshape(y)\n c = f32[3,2] concatenate(a, b), dimensions={1}\n"
    " o = f32[] constant(1)\n ROOT r = f32[3] reduce(c, o), dimensions={1}, to_apply=times",
    "scatter": "i = s32[3,1] iota(), iota_dimension=0\n ROOT r = f32[3] scatter(x, i, y), update_window_dims={}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=times",
    "multiply": "ROOT r = f32[3] multiply(x, y)",
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinity_times_what_may_be_read_as_zero_is_open(name: str) -> None:
    """It is a NaN on XLA:CPU. Times an ordinary number it is decided, and one infinity alone is itself."""
    module = parse_module(
        f"HloModule m\n{TIMES}ENTRY e {{ x = f32[3] parameter(0)\n y = f32[3] parameter(1)\n {INFINITE[name]} }}"
    )
    arguments = [np.array([np.inf] * 3, np.float32), np.array([TINY, 2, -np.inf], np.float32)]
    found = as_ball(evaluate(module, arguments, for_target("cpu")).value)
    assert found.und is not None
    assert found.und.tolist() == [True, False, False]
    assert found.mid[1:].tolist() == [np.inf, -np.inf]
    assert found.rad is None or not np.isnan(found.rad).any()


def test_products_of_one_element_beside_a_subnormal_keep_an_infinity() -> None:
    body = "o = f32[] constant(1)\n ROOT r = f32[2] reduce(x, o), dimensions={1}, to_apply=times"
    module = parse_module(f"HloModule m\n{TIMES}ENTRY e {{ x = f32[2,1] parameter(0)\n {body} }}")
    found = as_ball(evaluate(module, [np.array([[np.inf], [TINY]], np.float32)], for_target("cpu")).value)
    assert found.mid[0] == np.inf
    assert found.rad is not None
    assert not np.isnan(found.rad).any()
    assert found.und is None or not found.und[0]


@pytest.mark.parametrize("balls", [False, True])
def test_bits_that_are_subnormal_may_be_handed_on_as_they_are(balls: bool) -> None:
    """No arithmetic made them, and a device flushes where it computes: what is stored may be either."""
    bits = np.array([1, -(1 << 31) + 5, 0x3F800000, 0], np.int32)
    body = "p = s32[4] parameter(0)\n  ROOT r = f32[4] bitcast-convert(p)"
    module = parse_module(f"HloModule m\nENTRY e {{ {body} }}")
    exact = bits.view(np.float32).astype(np.float64)
    if balls:
        found = as_ball(evaluate(module, [bits], TPU, flushed=True).value)
        assert found.rad is not None
        for truth in (exact, np.where(np.abs(exact) < 2.0**-126, 0.0, exact)):
            assert (np.abs(found.mid - truth) <= found.rad).all()
        return
    seen = set()
    for seed in range(20):
        value_ = evaluate(module, [bits], TPU, rng=np.random.default_rng(seed), flushed=True).value
        seen.add(float(as_ball(value_).mid[0]))
    assert seen == {0.0, float(exact[0])}
