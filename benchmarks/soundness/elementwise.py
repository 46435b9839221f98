"""Operations on elements, real and complex: what a correct compiler may make of one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from formats import F32, FORMATS, Array, Format, flush, nearest, ulp
from jax import lax
from measure import ELEMENTWISE, Case, policy
from scipy import special

Named = Iterator[tuple[str, Array]]
EXPONENTS = {"f32": (-126, 127), "bf16": (-126, 127), "f16": (-20, 15)}


@dataclass(frozen=True, slots=True)
class Operation:
    """compiled: for jax. exact: in float64. routine: the opcode whose routine the target has, None where it rounds
    correctly. low, high: where the operands lie, None for anywhere. further: legal results of its own.
    """

    compiled: Callable[..., Any]
    exact: Callable[..., Array]
    operands: int = 1
    routine: str | None = None
    low: float | None = None
    high: float | None = None
    further: Callable[..., Named] | None = None


def draw(rng: np.random.Generator, count: int, to: Format, low: float | None, high: float | None) -> Array:
    """Four in five of ordinary size (where a function bends), one over all exponents; subnormals among them."""
    if low is not None and high is not None:
        x = rng.uniform(low, high, count)
        if low >= 0:
            x[::2] = np.exp(rng.uniform(np.log(1e-4), np.log(high), count)[::2])
    else:
        x = rng.normal(size=count) * rng.choice([0.3, 1, 3], count)
    first, last = EXPONENTS[to.name]
    wild = np.ldexp(1 + rng.random(count), rng.integers(first, last, count))
    x[::5] = (wild if low is not None and low >= 0 else wild * rng.choice([-1, 1], count))[::5]
    x[: count // 1000] = np.ldexp(rng.random(count // 1000), to.low)
    return x.astype(to.numpy)


def by_reciprocal(to: Format, a: Array, b: Array) -> Named:
    """a (1 / b), the reciprocal rounded, where it is a normal number; in f32 for narrow types."""
    for step in {to.name: to, "f32": F32}.values():
        reciprocal = nearest(1 / b, step)
        usable = (np.abs(reciprocal) <= step.largest) & (np.abs(reciprocal) >= 2.0**step.low)
        yield f"reciprocal in {step.name}", nearest(np.where(usable, a * reciprocal, a / b), to)


def power_by_products(to: Format, a: Array, b: Array) -> Named:
    yield "exp(b log a)", nearest(np.where(a > 0, np.exp2(b * np.log2(np.abs(a))), np.power(a, b)), to)


def negated_sum(to: Format, a: Array, b: Array) -> Named:
    """-(-a - b), b + a."""
    yield "negated", nearest(-(-a - b), to)


REAL: dict[str, Operation] = {
    "add": Operation(lambda a, b: a + b, np.add, 2, further=negated_sum),
    "subtract": Operation(lambda a, b: a - b, np.subtract, 2),
    "multiply": Operation(lambda a, b: a * b, np.multiply, 2),
    "divide": Operation(lambda a, b: a / b, np.divide, 2, further=by_reciprocal),
    "remainder": Operation(lax.rem, np.fmod, 2),
    "maximum": Operation(lax.max, np.maximum, 2),
    "minimum": Operation(lax.min, np.minimum, 2),
    "clamp": Operation(lax.clamp, lambda a, b, c: np.minimum(np.maximum(a, b), c), 3),
    "negate": Operation(lax.neg, np.negative),
    "abs": Operation(lax.abs, np.abs),
    "sign": Operation(lax.sign, np.sign),
    "floor": Operation(lax.floor, np.floor),
    "round-nearest-even": Operation(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.rint),
    "select": Operation(lambda a, b: lax.select(a < b, a, b), lambda a, b: np.where(a < b, a, b), 2),
    "exponential": Operation(lax.exp, np.exp, routine="exponential"),
    "exponential-minus-one": Operation(lax.expm1, np.expm1, routine="exponential-minus-one"),
    "log": Operation(lax.log, np.log, routine="log", low=0, high=1e4),
    "log-plus-one": Operation(lax.log1p, np.log1p, routine="log-plus-one", low=-0.99, high=1e4),
    "sqrt": Operation(lax.sqrt, np.sqrt, routine="sqrt", low=0, high=1e4),
    "rsqrt": Operation(lax.rsqrt, lambda x: 1 / np.sqrt(x), routine="rsqrt", low=0, high=1e4),
    "cbrt": Operation(lax.cbrt, np.cbrt, routine="cbrt"),
    "tanh": Operation(lax.tanh, np.tanh, routine="tanh"),
    "sine": Operation(lax.sin, np.sin, routine="sine"),
    "cosine": Operation(lax.cos, np.cos, routine="cosine"),
    "tan": Operation(lax.tan, np.tan, routine="tan"),
    "erf": Operation(lax.erf, special.erf, routine="erf"),
    "atan2": Operation(lax.atan2, np.arctan2, 2, routine="atan2"),
    "power": Operation(lax.pow, np.power, 2, routine="power", low=0, high=30, further=power_by_products),
}


def real_variants(operation: Operation, to: Format, xs: tuple[Array, ...], rng: np.random.Generator) -> Named:
    """Correctly rounded; by way of f32; with subnormals flushed; the routine at either end of its accuracy."""
    wide = tuple(x.astype(np.float64) for x in xs)
    with np.errstate(all="ignore"):
        true = operation.exact(*wide)
        yield "correctly rounded", nearest(true, to)
        yield "by way of f32", nearest(nearest(true, F32), to)
        if to.flushed:
            yield "result flushed", flush(nearest(true, to), to)
            dry = operation.exact(*(flush(x, to) for x in wide))
            yield "operands flushed", flush(nearest(dry, to), to)
        else:
            yield "kept in f32", nearest(nearest(true, F32), to)
        ulps = policy().routine_ulps(operation.routine, to.name) if operation.routine else None
        if ulps is not None:
            step = ulps * ulp(true, replace(to, low=-1 << 20))  # a routine is as accurate below the normal range
            yield "routine, high", nearest(true + step, to)
            yield "routine, low", nearest(true - step, to)
            yield "routine, somewhere", nearest(true + rng.uniform(-1, 1, true.shape) * step, to)
        if operation.further is not None:
            yield from operation.further(to, *wide)


# ---------------------------------------------------------------- complex


def _parts(z: Array) -> tuple[Array, Array]:
    return z.real.astype(np.float32), z.imag.astype(np.float32)


def _joined(re: Array, im: Array) -> Array:
    return (re + 1j * im.astype(np.complex64)).astype(np.complex64)


def _fma(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.float64) * b + c).astype(np.float32)


def complex_products(a: Array, b: Array) -> Named:
    (p, q), (r, s) = _parts(a), _parts(b)
    yield "four products", _joined(p * r - q * s, p * s + q * r)
    yield "contracted", _joined(_fma(p, r, -(q * s)), _fma(p, s, q * r))
    yield "contracted, other", _joined(_fma(-q, s, p * r), _fma(q, r, p * s))
    yield "by NumPy", a * b


def complex_quotients(a: Array, b: Array) -> Named:
    (p, q), (r, s) = _parts(a), _parts(b)
    yield "by NumPy", a / b
    scale = r * r + s * s
    yield "by the conjugate", _joined((p * r + q * s) / scale, (q * r - p * s) / scale)
    swap = np.abs(r) < np.abs(s)  # Smith 1962
    big, small = np.where(swap, s, r), np.where(swap, r, s)
    share = small / big
    below = big + small * share
    re = np.where(swap, p * share + q, p + q * share)
    im = np.where(swap, q * share - p, q - p * share)
    yield "Smith", _joined(re / below, im / below)


def complex_sizes(z: Array) -> Named:
    x, y = _parts(z)
    yield "hypot", np.hypot(x, y)
    yield "in f64", np.hypot(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)


def complex_exponentials(z: Array) -> Named:
    x, y = _parts(z)
    yield "by parts", _joined(np.exp(x) * np.cos(y), np.exp(x) * np.sin(y))
    yield "by NumPy", np.exp(z)


def complex_logarithms(z: Array) -> Named:
    yield "by NumPy", np.log(z)


def complex_roots(z: Array) -> Named:
    yield "by NumPy", np.sqrt(z)
    x, y = _parts(z)
    t = np.sqrt((np.hypot(x, y) + np.abs(x)) / 2)
    other = y / (2 * t)
    right = x >= 0
    yield "by halves", _joined(np.where(right, t, np.abs(other)), np.where(right, other, np.copysign(t, y)))


# opcode, exact function, how many operands, further legal results; as HLO, for jax writes some of them out
COMPLEX: dict[str, tuple[str, Callable[..., Array], int, Callable[..., Named]]] = {
    "complex multiply": ("multiply", np.multiply, 2, complex_products),
    "complex divide": ("divide", np.divide, 2, complex_quotients),
    "complex abs": ("abs", np.abs, 1, complex_sizes),
    "complex exponential": ("exponential", np.exp, 1, complex_exponentials),
    "complex log": ("log", np.log, 1, complex_logarithms),
    "complex sqrt": ("sqrt", np.sqrt, 1, complex_roots),
}


def complex_variants(name: str, xs: tuple[Array, ...]) -> Named:
    """The routine's error counts relative to the modulus."""
    opcode, exact, _, further = COMPLEX[name]
    with np.errstate(all="ignore"):
        true = exact(*(x.astype(np.complex128) for x in xs))
        held, dtype = (np.complex64, "c64") if true.dtype.kind == "c" else (np.float32, "f32")
        yield "correctly rounded", true.astype(held)
        ulps = None if opcode == "multiply" else policy().routine_ulps(opcode, dtype)
        if ulps is not None:
            size = np.where(true == 0, 1.0, np.abs(true))
            for side in (-1, 1):
                yield f"routine {side:+}", (true + side * ulps * ulp(np.abs(true), F32) * true / size).astype(held)
        yield from further(*xs)


OPERATIONS = (*REAL, "convert", "reduce-precision", *COMPLEX)


def cases(name: str, elements: int, seed: int, dtypes: Sequence[str]) -> Iterator[Case]:
    """The cases of one operation. Complex operations are there in c64 alone, which stands for f32."""
    rng = np.random.default_rng([seed, *name.encode()])
    if name in COMPLEX:
        if "f32" in dtypes:
            yield _complex_case(name, elements, rng)
        return
    for dtype in dtypes:
        to = FORMATS[dtype]
        if name in REAL:
            yield _real_case(name, to, elements, rng)
        elif to is not F32:
            yield _narrowing(name, to, draw(rng, elements, F32, None, None))


def _case(
    name: str, dtype: str, function: Callable[..., Any] | str, operands: tuple[Array, ...], variants: Any
) -> Case:
    return Case(name, dtype, "mixed", 1, ELEMENTWISE, function, operands, variants, (name, dtype))


def _real_case(name: str, to: Format, elements: int, rng: np.random.Generator) -> Case:
    operation = REAL[name]
    xs = tuple(draw(rng, elements, to, operation.low, operation.high) for _ in range(operation.operands))
    if name == "clamp":
        xs = (np.minimum(xs[0], xs[2]), xs[1], np.maximum(xs[0], xs[2]))
    return _case(name, to.name, operation.compiled, xs, lambda: real_variants(operation, to, xs, rng))


def _complex_case(name: str, elements: int, rng: np.random.Generator) -> Case:
    opcode, _, count, _ = COMPLEX[name]

    def part() -> Array:
        return rng.normal(size=elements) * 2.0 ** rng.uniform(-6, 4, elements)

    zs = tuple((part() + 1j * part()).astype(np.complex64) for _ in range(count))
    result = "f32" if opcode == "abs" else "c64"
    operands = ", ".join("ab"[:count])
    parameters = "".join(f"  {'ab'[i]} = c64[{elements}] parameter({i})\n" for i in range(count))
    text = f"HloModule m\n\nENTRY e {{\n{parameters}  ROOT r = {result}[{elements}] {opcode}({operands})\n}}\n"
    return _case(name, "c64", text, zs, lambda: complex_variants(name, zs))


def _narrowing(name: str, to: Format, x: Array) -> Case:
    """f32 to a narrower type, or to its digits alone: `reduce-precision` knows no subnormals."""
    wide = x.astype(np.float64)

    def variants() -> Named:
        found = nearest(wide, to)
        if name == "reduce-precision":  # rounded as if there were no lower end, then flushed below the type's
            step = ulp(wide, replace(to, low=-1 << 20))
            found = np.where(np.abs(found) > 2.0**to.low, found, flush(np.rint(wide / step) * step, to))
        yield "correctly rounded", found
        if name == "convert":
            with np.errstate(over="ignore"):
                yield "by NumPy", x.astype(to.numpy)
            if to.flushed:
                yield "flushed", flush(found, to)

    if name == "convert":
        return _case(name, to.name, lambda x: lax.convert_element_type(x, to.numpy), (x,), variants)
    bits = {"bf16": (8, 7), "f16": (5, 10)}[to.name]
    return _case(name, to.name, lambda x: lax.reduce_precision(x, *bits), (x,), variants)
