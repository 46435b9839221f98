"""The rules for sums and products of many terms of docs/bounds.md: the exact result (rational arithmetic, or a sum
rounded once) and the results of many orders, an adversary's among them, lie in the ball.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import fsum, inf

import jax.numpy as jnp
import numpy as np
import pytest
from elements import POLICY
from exact import all_hold, fraction, nearest
from jax import lax
from xla_cpu import hlo_text, reference

CERTAIN = replace(POLICY, confidence=inf)
TYPES = {"f32": np.float32, "bf16": jnp.bfloat16, "f16": np.float16}
INPUTS = ("random", "positive", "range", "equal", "nearly equal", "cancelling")
STAGNANT = ("one large", "ties")  # most terms are below the last digit of the sum


def draw(rng: np.random.Generator, inputs: str, shape: tuple[int, int], dtype) -> np.ndarray:
    """(n, results)."""
    n = shape[0]
    unit = float(jnp.finfo(dtype).eps) / 2
    x = rng.normal(size=shape)
    if inputs == "positive":
        x = rng.uniform(0.5, 1.5, shape)
    elif inputs == "range":
        x = x * 2.0 ** rng.uniform(-6, 3, shape)
    elif inputs == "equal":
        x = np.full(shape, 0.1)
    elif inputs == "nearly equal":
        x = 0.7 * (1 + 8 * unit * rng.integers(-2, 3, shape))
    elif inputs == "cancelling":
        x[n // 2 : n // 2 * 2] = -x[: n // 2]
        x = rng.permuted(x, axis=0)
    elif inputs == "one large":
        x = np.where(np.arange(n)[:, None] == n - 1, 1.0, unit * rng.uniform(0.4, 0.99, shape))
    elif inputs == "ties":  # next to 1, half of a step is a tie
        x = np.where(np.arange(n)[:, None] == 0, 1.0, unit * rng.choice([1, 1, 3, -1], shape))
    return x.astype(dtype)


def in_turn(terms: np.ndarray) -> np.ndarray:
    total = terms[0].copy()
    for term in terms[1:]:
        total = total + term
    return total


def pairwise(terms: np.ndarray) -> np.ndarray:
    while len(terms) > 1:
        odd = terms[-1:] if len(terms) % 2 else terms[:0]
        terms = np.concatenate([terms[: len(terms) - 1 : 2] + terms[1::2], odd])
    return terms[0]


def lanes(terms: np.ndarray, width: int) -> np.ndarray:
    padded = np.concatenate([terms, np.zeros((-len(terms) % width, terms.shape[1]), terms.dtype)])
    side = in_turn(padded.reshape(-1, width, terms.shape[1]))
    return pairwise(side)


def orders(terms: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    yield "in turn", in_turn(terms)
    yield "reversed", in_turn(terms[::-1])
    yield "pairwise", pairwise(terms)
    yield "8 lanes", lanes(terms, 8)
    yield "shuffled", in_turn(rng.permuted(terms, axis=0))
    for name, keys in {"value": terms, "size": np.abs(terms), "sign": np.sign(terms)}.items():
        order = np.argsort(keys.astype(np.float64), axis=0, kind="stable")
        yield f"by {name}", in_turn(np.take_along_axis(terms, order, 0))
        yield f"by {name}, falling", in_turn(np.take_along_axis(terms, order[::-1], 0))


def check(ball, terms: np.ndarray, rng: np.random.Generator, declared, steps: bool, what: str) -> None:
    """The exact sum, and every order in f32 and, where `steps`, in the declared type."""
    exact = np.array([fsum(map(float, column)) for column in terms.astype(np.float64).T])
    assert all_hold(ball, exact).all(), (what, "the exact sum")
    held = {np.float32} | ({declared} if steps else set())
    for step in held:
        for name, found in orders(terms.astype(step), rng):
            for stored in (found, found.astype(declared)):
                bad = ~all_hold(ball, stored.astype(np.float64))
                assert not bad.any(), (what, name, np.dtype(step).name, stored[bad][:3], ball.mid[bad][:3])


# name: (program, its operands from terms (n, m), terms in the order of the results, whether steps may be rounded)
def _zero(x):
    return x.dtype.type(0)


SUMS = {
    "reduce": (lambda x: lax.reduce(x, _zero(x), lax.add, (0,)), lambda x: (x,), True),
    "reduce-window": (
        lambda x: lax.reduce_window(x, _zero(x), lax.add, (x.shape[0], 1), (1, 1), "VALID")[0], lambda x: (x,), True,
    ),
    "cumulative": (lambda x: lax.cumsum(x, 0)[-1], lambda x: (x,), True),
    "scatter-add": (
        lambda x: x[0].at[jnp.tile(jnp.arange(x.shape[1]), len(x) - 1)].add(x[1:].reshape(-1)), lambda x: (x,), True,
    ),
    "dot": (lambda a, x: lax.dot(a, x)[0], lambda x: (np.ones((2, len(x)), x.dtype), x), False),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID")[:, 0, 0],
        lambda x: (np.ascontiguousarray(x.T)[:, None], np.ones((1, 1, len(x)), x.dtype)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_in_every_order(name, dtype):
    program, operands, steps = SUMS[name]
    for n in (3, 130):
        for inputs in INPUTS:
            rng = np.random.default_rng([n, len(inputs)])
            x = draw(rng, inputs, (n, 8), TYPES[dtype])
            xs = operands(x)
            (ball,) = reference(hlo_text(program, *xs), xs, POLICY)
            check(ball, x, rng, TYPES[dtype], steps, f"{n} terms, {inputs}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", SUMS)
def test_long_sums_in_every_order(name, dtype):
    program, operands, steps = SUMS[name]
    for n in (65, 300, 1024, 4096):
        for inputs in INPUTS:
            rng = np.random.default_rng([n, len(inputs)])
            x = draw(rng, inputs, (n, 24), TYPES[dtype])
            xs = operands(x)
            (ball,) = reference(hlo_text(program, *xs), xs, POLICY)
            check(ball, x, rng, TYPES[dtype], steps, f"{n} terms, {inputs}")


LOST = "products below the last digit of their sum are not looked for: that takes the products one by one"
STAGNANT_SUMS = [
    pytest.param(name, dtype, marks=[pytest.mark.xfail(reason=LOST, strict=True)] if unseen else [])
    for name in SUMS
    for dtype in ("f32", "f16")
    for unseen in [name in ("dot", "convolution") and dtype == "f32"]
]


@pytest.mark.parametrize(("name", "dtype"), STAGNANT_SUMS)
def test_terms_below_the_last_digit(name, dtype):
    """A term below half a last digit is lost or doubled, and those of many do not average."""
    program, operands, steps = SUMS[name]
    for inputs in STAGNANT:
        rng = np.random.default_rng(len(inputs))
        x = draw(rng, inputs, (1024, 6), TYPES[dtype])
        xs = operands(x)
        (ball,) = reference(hlo_text(program, *xs), xs, POLICY)
        check(ball, x, rng, TYPES[dtype], steps, inputs)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("n", [100, 300])
def test_narrow_sums_that_absorb_their_terms(dtype, n):
    """1 and halves of its last digit: n u / (1 + n u) of the sum of magnitudes is lost from the large end on."""
    unit = float(jnp.finfo(TYPES[dtype]).eps) / 2
    column = np.array([1.0] + [unit] * (n - 1)).astype(TYPES[dtype])
    x = np.stack([column, column[::-1]], axis=1)
    (ball,) = reference(hlo_text(SUMS["reduce"][0], x), [x], POLICY)
    check(ball, x, np.random.default_rng(0), TYPES[dtype], True, "absorbed")


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_terms_in_all_orders(n):
    """Every permutation and both bracketings of the last step, with rational arithmetic at every step."""
    rng = np.random.default_rng(n)
    x = np.concatenate([draw(rng, inputs, (n, 4), np.float16) for inputs in (*INPUTS, *STAGNANT)], axis=1)
    (ball,) = reference(hlo_text(SUMS["reduce"][0], x), [x], POLICY)
    for column in range(x.shape[1]):
        terms = [fraction(v) for v in x[:, column]]
        for order in permutations(terms):
            total = order[0]
            for term in order[1:]:
                total = nearest(total + term, "f16") or Fraction(0)
            assert abs(total - fraction(ball.mid[column])) <= fraction(ball.rad[column]) * (1 + Fraction(1, 10**12))


def test_the_certain_bound_holds_for_the_worst_of_sums():
    """1 and n halves of its last digit, summed from 1 on in f32: every step loses its term. The deterministic form."""
    n = 2000
    x = np.full((n, 2), np.float32(2.0**-24))
    x[0] = 1
    for terms in (x, x[::-1].copy()):
        (ball,) = reference(hlo_text(SUMS["reduce"][0], terms), [terms], CERTAIN)
        assert (in_turn(x) == 1).all()
        assert all_hold(ball, np.ones(2)).all()
        assert (ball.rad <= n * 2.0**-24 * 1.001 * (1 + n * 2.0**-24)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_two_arrays(dtype):
    """Dots whose products round too: contracted or not, in f32, whatever the declared type."""
    for n in (3, 130):
        for inputs in ("random", "positive", "range", "equal"):
            rng = np.random.default_rng([n, len(inputs)])
            a, b = (draw(rng, inputs, (n, 12), TYPES[dtype]) for _ in range(2))
            left, right = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
            program = hlo_text(lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), left, right)
            (ball,) = reference(program, [left, right], POLICY)
            wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
            exact = [
                float(sum((fraction(p) * fraction(q) for p, q in zip(x, y, strict=True)), Fraction(0)))
                for x, y in zip(a.T, b.T, strict=True)
            ]
            assert all_hold(ball, np.array(exact)).all()
            found = dict(orders(wide_a * wide_b, rng))
            for step in (1, -1):
                total = np.zeros(12, np.float32)
                for p, q in zip(wide_a[::step], wide_b[::step], strict=True):
                    total = (p.astype(np.float64) * q + total).astype(np.float32)
                found[f"contracted {step:+}"] = total
            for name, value in found.items():
                for stored in (value, value.astype(TYPES[dtype])):
                    assert all_hold(ball, stored.astype(np.float64)).all(), (n, inputs, name)


@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_many_factors(dtype):
    kind = TYPES[dtype]
    for n in (3, 40, 300):
        rng = np.random.default_rng(n)
        x = np.exp(rng.normal(size=(n, 12)) / n**0.5).astype(kind)
        (ball,) = reference(hlo_text(lambda x: lax.reduce(x, x.dtype.type(1), lax.mul, (0,)), x), [x], POLICY)
        exact = []
        for column in x.T:
            product = Fraction(1)
            for factor in column:
                product *= fraction(factor)
            exact.append(float(product))
        assert all_hold(ball, np.array(exact)).all()
        for step in {np.float32, kind}:
            for terms in (
                x,
                x[::-1],
                np.sort(x.astype(np.float64), axis=0),
                np.sort(x.astype(np.float64), axis=0)[::-1],
            ):
                total = np.ones(12, step)
                for factor in terms.astype(step):
                    total = total * factor
                assert all_hold(ball, total.astype(np.float64)).all()
                assert all_hold(ball, total.astype(kind).astype(np.float64)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_powers_by_products(dtype):
    """Equal factors next to 1, whose errors are partly alike, and smaller ones, whose product stays at a subnormal step
    that it cannot leave.
    """
    eps = float(jnp.finfo(TYPES[dtype]).eps)
    factors = np.concatenate([1 + np.arange(-40, 41) * eps / 2, [0.98, 0.9, 0.84375, 0.6]]).astype(TYPES[dtype])
    for n in (30, 1000):
        x = np.repeat(factors[None], n, axis=0)
        (ball,) = reference(hlo_text(lambda x: lax.reduce(x, x.dtype.type(1), lax.mul, (0,)), x), [x], POLICY)
        total = np.ones(len(factors), TYPES[dtype])
        for row in x:
            with np.errstate(over="ignore"):
                total = total * row
        assert all_hold(ball, total.astype(np.float64)).all(), n
        assert all_hold(ball, factors.astype(np.float64) ** n).all(), n


def test_partial_products_next_to_overflow():
    """A partial product may overflow by its roundings alone, in an order that takes the large factors first."""
    rng = np.random.default_rng(1)
    x = np.exp(np.abs(rng.normal(size=(256, 400))) * rng.choice([1, -1], (256, 400)) * 0.107).astype(np.float16)
    program = hlo_text(lambda x: lax.reduce(x, x.dtype.type(1), lax.mul, (0,)), x)
    (ball,) = reference(program, [x], POLICY)
    falling = np.sort(x, axis=0)[::-1]
    total = falling[0]
    highest = total.astype(np.float64)
    for factor in falling[1:]:
        with np.errstate(over="ignore"):
            total = total * factor
        highest = np.maximum(highest, total)
    assert np.isinf(highest).any(), "some of these overflow"
    assert np.isfinite(highest).any()
    assert all_hold(ball, total.astype(np.float64)).all()


def test_radii_of_terms_add_up():
    """The terms of a sum and of a dot anywhere in their balls."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(50, 6)).astype(np.float32) for _ in range(2))

    def program(x, y):
        a, b = jnp.exp(x), jnp.tanh(y)
        return lax.reduce(a, np.float32(0), lax.add, (0,)), lax.dot_general(a, b, (((0,), (0,)), ((1,), (1,))))

    sums, dots = reference(hlo_text(program, x, y), [x, y], POLICY)
    wide_x, wide_y = np.exp(x.astype(np.float64)), np.tanh(y.astype(np.float64))
    for side_x in (-1, 1):
        for side_y in (-1, 1):
            # A routine always off the same way, by as much as is measured.
            a = (wide_x * (1 + side_x * 2.0**-23)).astype(np.float32)
            b = (wide_y * (1 + side_y * 2 * 2.0**-23)).astype(np.float32)
            assert all_hold(sums, in_turn(a).astype(np.float64)).all()
            assert all_hold(dots, in_turn(a * b).astype(np.float64)).all()


@pytest.mark.parametrize("n", [8, 60, 256])
def test_transforms(n):
    """Against sums of 80-bit products: the true transform, and a radix-2 one in complex64."""
    rng = np.random.default_rng(n)
    for x in (rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n)), np.ones((2, n)), np.eye(2, n) * 1e3):
        x = x.astype(np.complex64)
        (ball,) = reference(hlo_text(lambda x: lax.fft(x, "FFT", (n,)), x), [x], POLICY)
        k = np.arange(n)
        angle = -2 * np.pi * (np.outer(k, k) % n) / n
        weights = np.cos(angle.astype(np.longdouble)) + 1j * np.sin(angle.astype(np.longdouble))
        exact = (x.astype(np.clongdouble) @ weights).astype(np.complex128)
        rad = 0.0 if ball.rad is None else ball.rad
        slack = 1e-13 * np.abs(x).sum(1, keepdims=True)
        assert (np.abs(exact - ball.mid) <= rad + slack).all()
        if n & (n - 1) == 0:
            assert (np.abs(_radix_2(x) - ball.mid) <= rad + slack).all()


def _radix_2(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    if n == 1:
        return x
    even, odd = _radix_2(x[..., ::2]), _radix_2(x[..., 1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64) * odd
    return np.concatenate([even + turned, even - turned], axis=-1)
