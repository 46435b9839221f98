"""Intermediate results that overflow in one legal evaluation and not in another: every one of them is inside."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from elements import POLICY

from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape
from assay.oracle.compare import OutputComparison, compare_output
from assay.reference.evaluator import evaluate
from assay.reference.value import Array, Ball, as_ball

MAX = float(np.finfo(np.float32).max)
SPECIAL = (MAX, -MAX, MAX / 2, -MAX / 4, 1.5, -1.0, 3e-20, np.inf, -np.inf, 0.0, 2.0**-100)

FORMS = {
    "a b + c": ("m = f32[COUNT] multiply(a, b)\n  ROOT r = f32[COUNT] add(m, c)", 1, 1),
    "c - a b": ("m = f32[COUNT] multiply(a, b)\n  ROOT r = f32[COUNT] subtract(c, m)", -1, 1),
    "-(a b) - c": (
        "m = f32[COUNT] multiply(a, b)\n  n = f32[COUNT] negate(m)\n  ROOT r = f32[COUNT] subtract(n, c)",
        -1,
        -1,
    ),
    "a dot over one element + c": (
        "d = f32[COUNT] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={}, "
        "rhs_contracting_dims={}\n  n = f32[COUNT,1] reshape(d)\n  m = f32[COUNT] reshape(n)\n"
        "  ROOT r = f32[COUNT] add(m, c)",
        1,
        1,
    ),
    "a convolution of one element + c": (
        "x = f32[1,COUNT] reshape(a)\n  w = f32[1,COUNT] reshape(b)\n  v = f32[1,COUNT] convolution(x, w), "
        "dim_labels=bf_io->bf, feature_group_count=COUNT\n  m = f32[COUNT] reshape(v)\n  ROOT r = f32[COUNT] add(m, c)",
        1,
        1,
    ),
}


def compared(ball: Ball, result: Array) -> OutputComparison:
    return compare_output(ball, result, ArrayShape(ball.dtype, ball.dims))


@pytest.mark.parametrize(
    ("quotient", "scale"),
    [("q = f32[3] power(a, two)", 2.0**70), ("q = f32[3] divide(a, tiny)", 2.0**100)],
)
def test_so_may_what_becomes_a_product(quotient: str, scale: float) -> None:
    """x**2 is x x, and x / 2**-100 is x 2**100."""
    text = f"""HloModule m
ENTRY e {{ a = f32[3] parameter(0)
  c = f32[3] parameter(1)
  t = f32[] constant(2)
  two = f32[3] broadcast(t), dimensions={{}}
  u = f32[] constant({2.0**-100})
  tiny = f32[3] broadcast(u), dimensions={{}}
  {quotient}
  ROOT r = f32[3] add(q, c) }}
"""
    a, c = np.float32([scale, scale, 1.5]), np.float32([-np.inf, 1.0, -np.inf])
    found = as_ball(evaluate(parse_module(text), [a, c], POLICY).value)
    und = np.zeros(3, bool) if found.und is None else found.und
    assert und.tolist() == [True, False, False], "NaN where the quotient is rounded, else -inf"
    assert found.mid[2] == -np.inf


@pytest.mark.parametrize("form", FORMS)
def test_a_product_that_is_added_may_be_too_large_for_its_type(form: str) -> None:
    """FMA takes the product as it is: against an infinity the sum is that infinity, which is NaN where the product is
    rounded to the other one.
    """
    body, of_product, of_other = FORMS[form]
    a, b, c = (np.array(x, np.float32) for x in zip(*product(SPECIAL, repeat=3), strict=True))
    text = f"""HloModule m
ENTRY e {{ a = f32[COUNT] parameter(0)
  b = f32[COUNT] parameter(1)
  c = f32[COUNT] parameter(2)
  {body} }}
""".replace("COUNT", str(a.size))
    ball = as_ball(evaluate(parse_module(text), [a, b, c], POLICY).value)
    with np.errstate(all="ignore"):
        separate = np.float32(of_product) * (a * b) + np.float32(of_other) * c
        wide = [x.astype(np.longdouble) for x in (a, b, c)]
        fused = (of_product * (wide[0] * wide[1]) + of_other * wide[2]).astype(np.float32)
    assert not np.array_equal(separate, fused, equal_nan=True)
    for result in (separate, fused):
        assert compared(ball, result).outside == 0
    undecided = compared(ball, fused).undecided
    assert 0 < undecided < a.size / 4
    assert compared(ball, -fused).outside > a.size / 2


@pytest.mark.parametrize(
    ("update", "decided"),
    [
        ((MAX, MAX, -np.inf), False),
        ((MAX, MAX, -MAX), False),
        ((np.inf, 1.0, -1.0), True),
        ((np.inf, MAX / 2, -np.inf), True),
        ((np.nan, MAX, MAX), True),
    ],
)
def test_a_scattered_sum_in_any_order(update: tuple[float, ...], decided: bool) -> None:
    count = len(update)
    text = """HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
ENTRY e { x = f32[2] parameter(0)
  i = s32[COUNT] parameter(1)
  u = f32[COUNT] parameter(2)
  ROOT r = f32[2] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }
""".replace("COUNT", str(count))
    values = np.array(update, np.float32)
    arguments = [np.zeros(2, np.float32), np.zeros(count, np.int32), values]
    ball = as_ball(evaluate(parse_module(text), arguments, POLICY).value)
    with np.errstate(all="ignore"):
        sums = {float(np.add.accumulate(np.array((0, *order), np.float32))[-1]) for order in permutations(update)}
    for found in sums:
        assert compared(ball, np.array([found, 0], np.float32)).outside == 0, found
    assert (len({str(found) for found in sums}) == 1) == decided
    assert (compared(ball, np.zeros(2, np.float32)).undecided == 0) == decided


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_a_transform_may_overflow_before_it_is_divided_or_cancels(kind: str) -> None:
    """An algorithm that sums first, in f32, and one that divides first."""
    n, half = 7, 4
    real_in, real_out = kind == "RFFT", kind == "IRFFT"
    takes, gives = half if real_out else n, half if real_in else n
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1, (2, takes)) * np.array([[MAX], [1.0]]) + (0 if real_in else 0j)
    x = x.astype(np.float32 if real_in else np.complex64)
    text = f"""HloModule m
ENTRY e {{ x = {"f32" if real_in else "c64"}[2,{takes}] parameter(0)
  ROOT r = {"f32" if real_out else "c64"}[2,{gives}] fft(x), fft_type={kind}, fft_length={{{n}}} }}
"""
    ball = as_ball(evaluate(parse_module(text), [x], POLICY).value)
    whole = {"FFT": np.fft.fft, "IFFT": np.fft.ifft, "RFFT": np.fft.rfft, "IRFFT": lambda a: np.fft.irfft(a, n)}[kind]
    held = np.float32 if real_out else np.complex64
    with np.errstate(all="ignore"):
        right = whole(x.astype(np.float64 if real_in else np.complex128)).astype(held)
        early = right.copy()
        early[0] = np.inf
    for result in (right, early):
        assert compared(ball, result).outside == 0
    wrong = right.copy()
    wrong[1] = np.inf
    assert compared(ball, wrong).outside == gives


@pytest.mark.parametrize(
    "products",
    ["m = f32[2,3] multiply(a, b)", "m = f32[2,3] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}"],
)
def test_products_that_are_summed_may_be_too_large_for_their_type(products: str) -> None:
    """By FMAs the first row is inf + 0 - 2**129, which is inf, and one by one inf - inf; of the second nothing is."""
    module = parse_module(
        "HloModule m\nsum { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q) }\n"
        "ENTRY e { a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n c = f32[2,1] parameter(2)\n"
        f" d = f32[1,3] parameter(3)\n {products}\n z = f32[] constant(0)\n"
        " ROOT r = f32[2] reduce(m, z), dimensions={1}, to_apply=sum }"
    )
    large = np.float32(2.0**127)
    c, d = np.array([[4.0], [2.0**-30]], np.float32), np.array([[large, 0.0, -large]], np.float32)
    a, b = np.broadcast_to(c, (2, 3)).copy(), np.broadcast_to(d, (2, 3)).copy()
    found = as_ball(evaluate(module, [a, b, c, d], POLICY).value)
    assert found.und is not None
    assert found.und.tolist() == [True, False]
