"""The rewriting rules of docs/bounds.md: contraction, regrouping, reciprocals, roots, merged exponentials and powers by
products, each carried out in rational arithmetic with the roundings that the rewritten form has.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from elements import POLICY
from exact import all_hold, fraction, nearest
from jax import lax
from xla_cpu import hlo_text, reference

from assay.reference.policies import XLA_CPU_OLDER

TYPES = {"f32": np.float32, "bf16": jnp.bfloat16, "f16": np.float16}
Round = Callable[[Fraction], Fraction]


def rounder(dtype: str) -> Round:
    def rounded(q: Fraction) -> Fraction:
        found = nearest(q, dtype)
        assert found is not None, "the operands of these tests do not overflow"
        return found

    return rounded


def operands(dtype: str, count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random significands, and some next to ties and powers of two; not far from 1."""
    rng = np.random.default_rng([seed, len(dtype)])
    unit = float(jnp.finfo(TYPES[dtype]).eps)
    found = []
    for _ in range(3):
        x = rng.uniform(0.5, 4, count) * rng.choice([-1, 1], count)
        x[::5] = 1 + unit * rng.integers(-4, 8, len(x[::5]))
        x[1::7] = 2.0 ** rng.integers(-2, 3, len(x[1::7]))
        found.append(x.astype(TYPES[dtype]))
    return tuple(found)


FORMS = {
    # program: (the program, its legal evaluations from a, b, c and a rounding)
    "a b + c": (
        lambda a, b, c: a * b + c,
        [lambda a, b, c, r: r(a * b + c), lambda a, b, c, r: r(r(a * b) + c)],
    ),
    "a b - a c": (
        lambda a, b, c: a * b - a * c,
        [
            lambda a, b, c, r: r(a * b - r(a * c)),
            lambda a, b, c, r: r(r(a * b) - a * c),
            lambda a, b, c, r: r(r(a * b) - r(a * c)),
        ],
    ),
    "a / b": (lambda a, b, c: a / b, [lambda a, b, c, r: r(a / b), lambda a, b, c, r: r(a * r(1 / b))]),
    "a / b / c": (
        lambda a, b, c: a / b / c,
        [
            lambda a, b, c, r: r(r(a / b) / c),
            lambda a, b, c, r: r(a / r(b * c)),
            lambda a, b, c, r: r(r(a * r(1 / b)) * r(1 / c)),
        ],
    ),
    "a / (b / c)": (
        lambda a, b, c: a / (b / c),
        [lambda a, b, c, r: r(a / r(b / c)), lambda a, b, c, r: r(r(a * c) / b), lambda a, b, c, r: r(a * r(c / b))],
    ),
    "a b c": (
        lambda a, b, c: a * b * c,
        [lambda a, b, c, r: r(r(a * b) * c), lambda a, b, c, r: r(a * r(b * c)), lambda a, b, c, r: r(r(a * c) * b)],
    ),
    "(a b)(a c)": (
        lambda a, b, c: (a * b) * (a * c),
        [
            lambda a, b, c, r: r(r(a * b) * r(a * c)),
            lambda a, b, c, r: r(r(a * a) * r(b * c)),
            lambda a, b, c, r: r(r(r(a * b) * a) * c),
            lambda a, b, c, r: r(r(r(b * c) * a) * a),
        ],
    ),
    "a**3": (
        lambda a, b, c: a**3.0,
        [lambda a, b, c, r: r(a**3), lambda a, b, c, r: r(r(a * a) * a)],
    ),
    "a**2": (lambda a, b, c: a**2.0, [lambda a, b, c, r: r(a * a)]),
    "b a**-1": (lambda a, b, c: b * a**-1.0, [lambda a, b, c, r: r(b * r(1 / a)), lambda a, b, c, r: r(b / a)]),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FORMS)
def test_exact_forms(name, dtype):
    """Every step rounded to the type, and where it is narrow every step in f32 with one rounding at the end."""
    program, forms = FORMS[name]
    xs = operands(dtype, 60)
    (got,) = reference(hlo_text(program, *xs), xs, POLICY)
    exact = [[fraction(v) for v in x] for x in xs]
    for form in forms:
        for step in {dtype, "f32"}:
            found = [form(*row, rounder(step)) for row in zip(*exact, strict=True)]
            assert all_hold(got, np.array([float(v) for v in found])).all(), step
            stored = [rounder(dtype)(v) for v in found]
            assert all_hold(got, np.array([float(v) for v in stored])).all(), step


CONSTANTS = (0.1, 1.0 + 2.0**-7, 60000.0, 2.0**-9 * 1.01)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "divide"])
def test_constants_put_together(opcode, dtype):
    """(x o c) o d by way of one constant, where x is chosen so that the first form rounds as little as it can."""
    kind, r = TYPES[dtype], rounder(dtype)
    operation = {"add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div}[opcode]
    for c in CONSTANTS[:2]:
        for d in CONSTANTS:
            first, second = (np.asarray(v, kind) for v in (c, d))
            x = np.concatenate([operands(dtype, 30)[0], np.full(4, -first), np.full(4, first), np.full(4, 2 * first)])
            x = x.astype(kind)
            text = hlo_text(lambda x, c=first, d=second: operation(operation(x, c), d), x)
            (got,) = reference(text, (x,), POLICY)
            p, q = fraction(first), fraction(second)
            for i, value in enumerate(map(fraction, x)):
                if opcode in ("add", "subtract"):
                    sign = 1 if opcode == "add" else -1
                    forms = [r(r(value + sign * p) + sign * q), r(value + sign * r(p + q))]
                elif opcode == "multiply":
                    forms = [nearest(value * p * q, dtype), nearest(value * (nearest(p * q, dtype) or p * q), dtype)]
                else:
                    forms = [nearest((nearest(value / p, dtype) or value / p) / q, dtype)]
                    forms.append(nearest(value / (nearest(p * q, dtype) or p * q), dtype))
                for form in forms:
                    if form is not None:
                        near = abs(form - fraction(got.mid[i]))
                        rad = 0 if got.rad is None else fraction(got.rad[i])
                        assert near <= rad * (1 + Fraction(1, 10**12)), (c, d, float(value))


def unlucky(rng: np.random.Generator) -> tuple[np.float32, np.float32]:
    """Constants c, d for which the roundings of 1/c and of its product with d add up."""
    c, d = ((1 + rng.random((300, 1))).astype(np.float32), (1 + rng.random((1, 300))).astype(np.float32))
    product = (1 / c) * d
    off = np.abs(product.astype(np.float64) * c / d - 1)
    i, j = np.unravel_index(np.argmax(off), off.shape)
    return c[i, 0], d[0, j]


@pytest.mark.parametrize("form", ["x d / c", "x / c d", "x / c / d", "x d / c in whole numbers"])
def test_constants_of_products_and_quotients(form):
    """As one constant, reciprocals and all, where its roundings go the same way and the first operation is exact."""
    rng = np.random.default_rng(8)
    for _ in range(4):
        c, d = unlucky(rng)
        if form.endswith("numbers"):
            d = np.float32(np.rint(d * 8))
        x = np.concatenate([np.arange(1, 1500), 1 + rng.random(1500)]).astype(np.float32)
        program = {"x / c d": lambda x, c=c, d=d: x / c * d, "x / c / d": lambda x, c=c, d=d: x / c / d}.get(
            form, lambda x, c=c, d=d: x * d / c
        )
        (got,) = reference(hlo_text(program, x), (x,), POLICY)
        reciprocal = np.float32(1) / c
        one = reciprocal * (np.float32(1) / d if form == "x / c / d" else d)
        assert all_hold(got, (x * one).astype(np.float64)).all()
        assert all_hold(got, np.asarray(jax.jit(program)(x)).astype(np.float64)).all()


# ---------------------------------------------------------------- with routines


def _ends(policy, opcode, dtype, true):
    """A routine's results at either end of its accuracy, rounded."""
    ulps = policy.routine_ulps(opcode, dtype) or 0.0
    step = 2.0 ** (np.floor(np.log2(np.abs(true))) - jnp.finfo(TYPES[dtype]).nmant)
    return [true + side * ulps * step for side in (-1, 0, 1)]


def _rounded(dtype, x):
    return np.array([float(rounder(dtype)(fraction(v))) for v in np.asarray(x, np.float64)])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_root_below_becomes_a_reciprocal_root(dtype):
    a, b, _ = operands(dtype, 200)
    b = np.abs(b).astype(b.dtype)
    (got,) = reference(hlo_text(lambda a, b: a / lax.sqrt(b), a, b), (a, b), POLICY)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for root in _ends(POLICY, "rsqrt", dtype, 1 / np.sqrt(wide_b)):
        assert all_hold(got, _rounded(dtype, wide_a * _rounded(dtype, root))).all()
    assert all_hold(got, _rounded(dtype, wide_a / _rounded(dtype, np.sqrt(wide_b)))).all()


MERGED = {
    "exp(a) exp(b)": (lambda a, b: jnp.exp(a) * jnp.exp(b), lambda a, b, r: (r(a + b), mpmath.exp)),
    "exp(a) / exp(b)": (lambda a, b: jnp.exp(a) / jnp.exp(b), lambda a, b, r: (r(a - b), mpmath.exp)),
    "exp(a) ** b": (lambda a, b: jnp.exp(a) ** b, lambda a, b, r: (r(a * b), mpmath.exp)),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MERGED)
def test_merged_exponentials(name, dtype):
    """As compilers before jaxlib 0.11.2 had it: the rounding of the exponent is multiplied by it."""
    program, form = MERGED[name]
    rng = np.random.default_rng(5)
    a, b = ((rng.uniform(-2.9, 2.9, 200)).astype(TYPES[dtype]) for _ in range(2))
    (got,) = reference(hlo_text(program, a, b), (a, b), XLA_CPU_OLDER)
    exponents = []
    for x, y in zip(a, b, strict=True):
        exponent, function = form(fraction(x), fraction(y), rounder(dtype))
        exponents.append(float(function(mpmath.mpf(float(exponent)))))
    for end in _ends(XLA_CPU_OLDER, "exponential", dtype, np.array(exponents)):
        assert all_hold(got, _rounded(dtype, end)).all()


def test_a_logarithm_of_a_power():
    rng = np.random.default_rng(6)
    a, b = (rng.uniform(0.1, 4, 300).astype(np.float32) for _ in range(2))
    (got,) = reference(hlo_text(lambda a, b: jnp.log(a**b), a, b), (a, b), POLICY)
    for log in _ends(POLICY, "log", "f32", np.log(a.astype(np.float64))):
        assert all_hold(got, _rounded("f32", b.astype(np.float64) * _rounded("f32", log))).all()


def test_a_logarithm_of_an_exponential_that_overflows_is_infinite():
    """openxla/xla#42732: log(exp(x)) became x up to jaxlib 0.11.0, a mistake that is not to be pardoned."""
    x = np.array([1.0, 100.0, -3.0, np.inf], np.float32)
    (got,) = reference(hlo_text(lambda x: jnp.log(jnp.exp(x)), x), (x,), XLA_CPU_OLDER)
    assert got.und is None or not got.und.any()
    assert got.mid[1] == np.inf


def test_what_is_not_rewritten_stays_tight():
    """Operands that are arguments: nothing to regroup, so that the last bit shows."""
    a, b, _ = operands("f32", 1000)
    for function in (lax.add, lax.sub, lax.mul):
        (got,) = reference(hlo_text(function, a, b), (a, b), POLICY)
        clean = np.asarray(function(a, b))
        assert all_hold(got, clean.astype(np.float64)).all()
        wrong = np.nextafter(clean, np.float32(np.inf)).astype(np.float64)
        tie = np.abs(clean.astype(np.float64) - got.mid) * 2 > np.abs(wrong - clean) * 0.999
        assert not all_hold(got, wrong)[~tie].any()
    assert jax.devices()[0].platform == "cpu"
