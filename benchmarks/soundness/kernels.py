"""Fused kernels, each written once over an arithmetic: `Traced` makes a JAX program of it, `Emulated` evaluates it in
NumPy as one legal compilation would, with a manner of its own of rounding, contracting, dividing and summing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from formats import F32, F64, FORMATS, Array, Format, flush, nearest, ulp
from jax import lax
from measure import ACCUMULATION, ELEMENTWISE, Case, policy
from orders import Order, blocks, in_turn, lanes, pairwise
from scipy import special

ROUTINES: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "exponential": (lax.exp, np.exp),
    "log": (lax.log, np.log),
    "tanh": (lax.tanh, np.tanh),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
    "erf": (lax.erf, special.erf),
    "sine": (lax.sin, np.sin),
    "cosine": (lax.cos, np.cos),
}


class Traced:
    """The operations as JAX records them."""

    def routine(self, opcode: str, x: Any) -> Any:
        return ROUTINES[opcode][0](x)

    def constant(self, value: float, like: Any) -> Any:
        return like.dtype.type(value)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def mul_add(self, a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def div(self, a: Any, b: Any) -> Any:
        return a / b

    def sqrt(self, a: Any) -> Any:
        return lax.sqrt(a)

    def maximum(self, a: Any, b: Any) -> Any:
        return lax.max(a, b)

    def sum(self, x: Any) -> Any:
        return lax.reduce(x, x.dtype.type(0), lax.add, (1,))[:, None]

    def largest(self, x: Any) -> Any:
        return lax.reduce(x, x.dtype.type(-np.inf), lax.max, (1,))[:, None]

    def matmul(self, a: Any, b: Any) -> Any:
        return lax.dot(a, b)


@dataclass(frozen=True)
class Emulated:
    """step: the type to which every operation is rounded. declared: the program's. contracts: a b + c rounds once.
    reciprocal: a / b is a (1 / b). side: where in its permitted error a routine lies, -1 to 1; None for anywhere.
    order: of sums, whose steps are rounded to `step`. dry: flushes subnormals.
    """

    declared: Format
    step: Format
    rng: np.random.Generator
    contracts: bool = False
    reciprocal: bool = False
    side: float | None = 0.0
    order: Order = in_turn
    dry: bool = False

    def rounded(self, x: Array) -> Array:
        x = nearest(x, self.step)
        return flush(x, self.step) if self.dry and self.declared.flushed else x

    def routine(self, opcode: str, x: Array) -> Array:
        true = ROUTINES[opcode][1](x)
        ulps = policy().routine_ulps(opcode, self.declared.name) or 0.0
        side = self.rng.uniform(-1, 1, true.shape) if self.side is None else self.side
        off = side * ulps * ulp(true, replace(self.declared, low=-1 << 20))
        return self.rounded(true + off)

    def constant(self, value: float, like: Array) -> Array:
        return nearest(np.asarray(value), self.declared)

    def add(self, a: Array, b: Array) -> Array:
        return self.rounded(a + b)

    def mul(self, a: Array, b: Array) -> Array:
        return self.rounded(a * b)

    def mul_add(self, a: Array, b: Array, c: Array) -> Array:
        return self.rounded(a * b + c) if self.contracts else self.add(self.mul(a, b), c)

    def div(self, a: Array, b: Array) -> Array:
        return self.mul(a, self.rounded(1 / b)) if self.reciprocal else self.rounded(a / b)

    def sqrt(self, a: Array) -> Array:
        return self.rounded(np.sqrt(a))

    def maximum(self, a: Array, b: Array) -> Array:
        return np.maximum(a, b)

    def sum(self, x: Array) -> Array:
        found = self.order(np.ascontiguousarray(x.T).astype(self.step.numpy))
        return found.astype(np.float64)[:, None]

    def largest(self, x: Array) -> Array:
        return x.max(axis=1, keepdims=True)

    def matmul(self, a: Array, b: Array) -> Array:
        """Narrow products are accumulated in f32, whatever the other steps are rounded to."""
        kept = F32 if self.step.digits < F32.digits else self.step
        total = np.zeros((a.shape[0], b.shape[1]))
        turn = range(a.shape[1]) if self.order is in_turn else reversed(range(a.shape[1]))
        for k in turn:
            product = a[:, k, None] * b[k]
            total = nearest(total + (product if self.contracts else nearest(product, kept)), kept)
        return self.rounded(total)


def manners(declared: Format, rng: np.random.Generator) -> dict[str, Emulated]:
    strict = Emulated(declared, declared, rng)
    wide = replace(strict, step=F32)
    return {
        "every step rounded": strict,
        "kept in f64": replace(strict, step=F64, contracts=True, order=pairwise),
        "kept in f32, contracted": replace(wide, contracts=True, order=lanes(8)),
        "by reciprocals": replace(strict, reciprocal=True, order=lambda t: in_turn(t[::-1])),
        "by reciprocals in f32": replace(wide, reciprocal=True, contracts=True, order=blocks(16)),
        "routines high": replace(strict, side=1.0, order=lanes(16)),
        "routines low": replace(strict, side=-1.0, order=pairwise),
        "routines anywhere": replace(strict, side=None, contracts=True, order=blocks(128)),
        "routines anywhere in f32": replace(wide, side=None, reciprocal=True, order=pairwise),
        "flushed, sorted": replace(strict, dry=True, order=lambda t: in_turn(np.sort(t, axis=0))),
    }


# ---------------------------------------------------------------- the kernels: (arithmetic, operands) -> result


def softmax(o: Any, x: Any) -> Any:
    e = o.routine("exponential", o.add(x, -o.largest(x)))
    return o.div(e, o.sum(e))


def log_softmax(o: Any, x: Any) -> Any:
    moved = o.add(x, -o.largest(x))
    return o.add(moved, -o.routine("log", o.sum(o.routine("exponential", moved))))


def layer_norm(o: Any, x: Any, scale: Any, shift: Any) -> Any:
    n = o.constant(x.shape[1], x)
    centred = o.add(x, -o.div(o.sum(x), n))
    variance = o.div(o.sum(o.mul(centred, centred)), n)
    normal = o.mul(centred, o.routine("rsqrt", o.add(variance, o.constant(1e-5, x))))
    return o.mul_add(normal, scale, shift)


def rms_norm(o: Any, x: Any, scale: Any) -> Any:
    square = o.div(o.sum(o.mul(x, x)), o.constant(x.shape[1], x))
    return o.mul(o.mul(x, o.routine("rsqrt", o.add(square, o.constant(1e-6, x)))), scale)


def gelu_tanh(o: Any, x: Any) -> Any:
    cube = o.mul(o.mul(x, x), x)
    inner = o.mul(o.constant(0.7978846, x), o.mul_add(o.constant(0.044715, x), cube, x))
    return o.mul(o.mul(o.constant(0.5, x), x), o.add(o.constant(1.0, x), o.routine("tanh", inner)))


def gelu_erf(o: Any, x: Any) -> Any:
    inner = o.routine("erf", o.mul(x, o.constant(0.70710678, x)))
    return o.mul(o.mul(o.constant(0.5, x), x), o.add(o.constant(1.0, x), inner))


def _logistic(o: Any, x: Any) -> Any:
    one = o.constant(1.0, x)
    return o.div(one, o.add(one, o.routine("exponential", -x)))


def gated_silu(o: Any, x: Any, gate: Any) -> Any:
    return o.mul(o.mul(x, _logistic(o, x)), gate)


def dense_relu(o: Any, x: Any, weight: Any, bias: Any) -> Any:
    return o.maximum(o.add(o.matmul(x, weight), bias), o.constant(0.0, x))


def adam(o: Any, p: Any, g: Any, m: Any, v: Any) -> Any:
    m = o.mul_add(o.constant(0.9, p), m, o.mul(o.constant(0.1, p), g))
    v = o.mul_add(o.constant(0.999, p), v, o.mul(o.constant(0.001, p), o.mul(g, g)))
    step = o.div(m, o.add(o.sqrt(v), o.constant(1e-8, p)))
    return o.add(p, -o.mul(o.constant(0.01, p), step))


def rotary(o: Any, x: Any, y: Any, angle: Any) -> Any:
    return o.mul_add(x, o.routine("cosine", angle), -o.mul(y, o.routine("sine", angle)))


def attention_row(o: Any, q: Any, k: Any, v: Any) -> Any:
    """softmax(q k / 8) v for 64 queries."""
    return o.matmul(softmax(o, o.mul(o.matmul(q, k), o.constant(0.125, q))), v)


@dataclass(frozen=True, slots=True)
class Kernel:
    """shapes: of the operands for rows and columns. length: of the sums in it. positive: which operands are not
    negative. chained: several sums one after another, for which there is no bar, since a radius takes the errors of
    the first to conspire in the second.
    """

    function: Callable[..., Any]
    shapes: Callable[[int, int], tuple[tuple[int, ...], ...]]
    length: int = 1
    positive: tuple[int, ...] = ()
    chained: bool = False

    @property
    def limit(self) -> float:
        return np.inf if self.chained else ELEMENTWISE if self.length == 1 else ACCUMULATION


def same(count: int) -> Callable[[int, int], tuple[tuple[int, ...], ...]]:
    return lambda rows, columns: ((rows, columns),) * count


KERNELS: dict[str, Kernel] = {
    "softmax": Kernel(softmax, same(1), 64),
    "log-softmax": Kernel(log_softmax, same(1), 64),
    "layer norm": Kernel(layer_norm, lambda r, c: ((r, c), (1, c), (1, c)), 64),
    "rms norm": Kernel(rms_norm, lambda r, c: ((r, c), (1, c)), 64),
    "gelu by tanh": Kernel(gelu_tanh, same(1)),
    "gelu by erf": Kernel(gelu_erf, same(1)),
    "logistic": Kernel(_logistic, same(1)),
    "gated silu": Kernel(gated_silu, same(2)),
    "dense, bias, relu": Kernel(dense_relu, lambda r, c: ((r, c), (c, c), (1, c)), 64),
    "adam step": Kernel(adam, same(4), positive=(3,)),
    "rotary embedding": Kernel(rotary, same(3)),
    "attention": Kernel(attention_row, lambda r, c: ((r, c), (c, c), (c, c)), 64, chained=True),
}


def variants(
    kernel: Kernel, to: Format, xs: tuple[Array, ...], rng: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    wide = tuple(x.astype(np.float64) for x in xs)
    for name, arithmetic in manners(to, rng).items():
        with np.errstate(all="ignore"):
            yield name, nearest(kernel.function(arithmetic, *wide), to)


def cases(name: str, elements: int, seed: int, dtypes: Sequence[str]) -> Iterator[Case]:
    kernel = KERNELS[name]
    for dtype in dtypes:
        to = FORMATS[dtype]
        rng = np.random.default_rng([seed, *name.encode()])
        xs = [rng.normal(size=shape).astype(to.numpy) for shape in kernel.shapes(max(1, elements // 64), 64)]
        for i in kernel.positive:
            xs[i] = np.abs(xs[i])
        yield Case(
            name, dtype, "normal", kernel.length, kernel.limit, lambda *xs: kernel.function(Traced(), *xs), tuple(xs),
            lambda t=to, x=tuple(xs), r=rng: variants(kernel, t, x, r), (name, dtype),
        )  # fmt: skip
