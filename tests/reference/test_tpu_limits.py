"""Where a TPU's own arithmetic runs out: what it computes there is open, next to it nothing is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, as_ball, flatten

TPU, CPU = for_target("tpu:v5e"), for_target("cpu")
MAX = float(np.finfo(np.float32).max)


def value(body: str, *arguments: np.ndarray, policy: object = TPU, more: str = "") -> Ball:
    module = parse_module(f"HloModule m\n{more}\nENTRY e {{ {body} }}")
    return as_ball(evaluate(module, arguments, policy).value)  # type: ignore[arg-type]


def open_(ball: Ball) -> list[bool]:
    return (np.zeros(ball.dims, bool) if ball.und is None else ball.und).tolist()


@pytest.mark.parametrize("opcode", ["divide", "remainder", "atan2"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_divisor_whose_reciprocal_is_subnormal(opcode: str, dtype: str) -> None:
    """1 / 2**126 is the smallest normal f32; of what is larger the chip's reciprocal is zero, so 2**127 / 2**127 is."""
    numpy_type = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    a = np.array([2.0**127, 3.0, 2.0**127, np.inf, 1.0], numpy_type)
    b = np.array([2.0**127, 2.0**126, -(2.0**127), 2.0, np.inf], numpy_type)
    if opcode == "atan2":  # either of the two may divide
        a[2] = 1.0
    body = f"a = {dtype}[5] parameter(0)\n b = {dtype}[5] parameter(1)\n ROOT r = {dtype}[5] {opcode}(a, b)"
    assert open_(value(body, a, b)) == [True, False, True, False, False]
    assert not any(open_(value(body, a, b, policy=CPU)))


def test_a_complex_divisor_is_squared() -> None:
    a = np.array([1 + 1j, 1 + 1j], np.complex64)
    b = np.array([2.0**64, 2.0**62], np.complex64)
    body = "a = c64[2] parameter(0)\n b = c64[2] parameter(1)\n ROOT r = c64[2] divide(a, b)"
    assert open_(value(body, a, b)) == [True, False]


@pytest.mark.parametrize("precision", ["default", "high", "highest"])
def test_what_rounds_to_infinity_in_eight_digits(precision: str) -> None:
    """The largest f32 is an infinite bf16, and 0 times that is no number."""
    limit = 2.0**128 - 2.0**119
    below = float(np.nextafter(np.float32(limit), np.float32(0)))
    assert np.isinf(np.float32(limit).astype(ml_dtypes.bfloat16))
    assert np.isfinite(np.float32(below).astype(ml_dtypes.bfloat16))
    a = np.array([[MAX, 0.0], [below, 0.0], [limit, 0.0], [1.0, 2.0]], np.float32)
    b = np.array([[0.0], [3.0]], np.float32)
    body = (
        "a = f32[4,2] parameter(0)\n b = f32[2,1] parameter(1)\n ROOT r = f32[4,1] dot(a, b), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    asked = f"{body}, operand_precision={{{precision},{precision}}}"
    assert open_(value(asked, a, b)) == [[True], [False], [True], [False]]
    assert not np.any(open_(value(body, a, b, policy=CPU)))


def test_results_of_another_type_than_the_body() -> None:
    """libtpu's bfloat16-propagation leaves windows of several operands with a result of bf16 and a body of f32."""
    body = """p = f32[] parameter(0)
  i = f32[] parameter(1)
  q = f32[] parameter(2)
  j = f32[] parameter(3)
  ge = pred[] compare(p, q), direction=GE
  a = f32[] select(ge, p, q)
  b = f32[] select(ge, i, j)
  ROOT t = (f32[], f32[]) tuple(a, b)"""
    x = np.random.default_rng(0).normal(size=(5, 1)).astype(np.float32)
    text = """x = f32[5,1] parameter(0)
  low = f32[] constant(-inf)
  n = f32[] constant(0)
  ROOT w = (bf16[4,1], f32[4,1]) reduce-window(x, x, low, n), window={size=2x1}, to_apply=body"""
    module = parse_module(f"HloModule m\nbody {{ {body} }}\nENTRY e {{ {text} }}")
    first, second = (leaf for leaf in flatten(evaluate(module, [x], TPU).value) if isinstance(leaf, Ball))
    assert (first.dtype.name, second.dtype.name) == ("bf16", "f32")
    wanted = np.maximum(x[:-1], x[1:])
    np.testing.assert_array_equal(second.mid, wanted)
    assert first.rad is None or (np.abs(first.mid - wanted) <= first.rad + 2.0**-8 * np.abs(wanted)).all()
