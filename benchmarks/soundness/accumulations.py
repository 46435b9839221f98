"""Sums and products of 4 to 4,096 terms, wherever HLO has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from formats import F16, F32, FORMATS, Array, Format
from jax import lax
from measure import ACCUMULATION, Case
from orders import contracted, every_order, in_turn, pairwise

LENGTHS = (4, 16, 64, 256, 1024, 4096)
INPUTS = ("random", "positive", "range", "equal")
Named = Iterator[tuple[str, Array]]


def draw(rng: np.random.Generator, inputs: str, shape: tuple[int, ...], to: Format) -> Array:
    """random: both signs. positive: of one sign and size. range: over many binades. equal: one value, which rounds."""
    if inputs == "positive":
        x = rng.uniform(0.5, 1.5, shape)
    elif inputs == "range":
        low, high = (-8, 3) if to is F16 else (-20, 20)
        x = rng.normal(size=shape) * 2.0 ** rng.uniform(low, high, shape)
    elif inputs == "equal":
        x = np.full(shape, 0.1)
    else:
        x = rng.normal(size=shape)
    return x.astype(to.numpy)


def sums(terms: Array, rng: np.random.Generator, to: Format, *, steps: bool) -> Named:
    """Every order of sums of terms (n, results) of type `to`: in f32, and where `steps`, with every step rounded to
    `to`.
    """
    if to is not F32:
        wide = terms.astype(np.float32)
        yield "f32 pairwise", pairwise(wide)
        yield "f32 in turn", in_turn(wide)
    if steps or to is F32:
        yield from every_order(terms, rng)
    else:
        yield from every_order(terms.astype(np.float32), rng)


def products(a: Array, b: Array, rng: np.random.Generator, to: Format) -> Named:
    """Sums of products of a, b (n, results) in f32, contracted or not."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    yield "contracted", contracted(a, b)
    yield "contracted, reversed", contracted(a[::-1], b[::-1])
    yield from every_order(a * b, rng)


# -- each maker gives (function, operands, variants) for `n` terms and about `count` operand elements


def reduce_add(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    x = draw(rng, inputs, (n, max(1, count // n)), to)
    return lambda x: lax.reduce(x, x.dtype.type(0), lax.add, (0,)), (x,), partial(sums, x, rng, to, steps=True)


def reduce_rows(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    x = draw(rng, inputs, (max(1, count // n), n), to)
    return (
        lambda x: lax.reduce(x, x.dtype.type(0), lax.add, (1,)),
        (x,),
        partial(sums, np.ascontiguousarray(x.T), rng, to, steps=True),
    )


def dot(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    rows = max(1, int(np.sqrt(count // n)))
    a, b = draw(rng, inputs, (rows, n), to), draw(rng, inputs, (n, rows), to)
    left = np.repeat(a.T[:, :, None], rows, 2).reshape(n, -1)
    right = np.repeat(b[:, None, :], rows, 1).reshape(n, -1)
    return lambda a, b: lax.dot(a, b), (a, b), partial(products, left, right, rng, to)


def batched_dot(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    a, b = (draw(rng, inputs, (max(1, count // n), n), to) for _ in range(2))
    return (
        lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))),
        (a, b),
        partial(products, np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), rng, to),
    )


def convolution(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    """Windows of 4 over n / 4 channels, into 4 features."""
    channels, features = n // 4, 4
    width = max(1, count // n // features) + 3
    x, w = draw(rng, inputs, (1, channels, width), to), draw(rng, inputs, (features, channels, 4), to)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], 4, axis=1)  # (channels, places, 4)
    left = np.moveaxis(windows, 2, 1).reshape(n, 1, -1)
    right = np.moveaxis(w, 0, 2).reshape(n, features, 1)
    shape = (n, features, left.shape[2])
    left, right = (np.broadcast_to(v, shape).reshape(n, -1) for v in (left, right))
    return (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID"),
        (x, w),
        partial(products, left, right, rng, to),
    )


def reduce_window(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    x = draw(rng, inputs, (n + max(1, count // n) - 1,), to)
    terms = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(x, n).T)
    return (
        lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (n,), (1,), "VALID"),
        (x,),
        partial(sums, terms, rng, to, steps=True),
    )


def cumulative_sum(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    """Eight of the n prefixes, so that each can be summed in every order; and as scans."""
    step = max(1, n // 8)
    x = draw(rng, inputs, (n, max(1, count // n // (n // step))), to)

    def variants() -> Named:
        for name, scanned in _scans(x, to):
            yield name, scanned[step - 1 :: step]
        several = [dict(sums(x[:k], rng, to, steps=True)) for k in range(step, n + 1, step)]
        for name in several[0]:
            yield name, np.stack([found[name] for found in several])

    return lambda x: lax.cumsum(x, 0)[step - 1 :: step], (x,), variants


def _scans(x: Array, to: Format) -> Named:
    """All prefix sums in several manners, in the type and in f32."""
    for name, held in {"": x, "f32 ": x.astype(np.float32)}.items():
        yield name + "scan by doubling", _scan_by_doubling(held)
        for length in (16, 128):
            if len(x) > length:
                parts = held.reshape(len(x) // length, length, -1)
                inner = np.stack([_scan_in_turn(part) for part in parts])
                inner[1:] = inner[1:] + _scan_in_turn(inner[:, -1])[:-1, None]
                yield f"{name}scan in blocks of {length}", inner.reshape(x.shape)
        if to is F32:
            return


def _scan_in_turn(x: Array) -> Array:
    found = x.copy()
    for i in range(1, len(x)):
        found[i] = found[i - 1] + x[i]
    return found


def _scan_by_doubling(x: Array) -> Array:
    found, step = x.copy(), 1
    while step < len(x):
        found = np.concatenate([found[:step], found[step:] + found[:-step]])
        step *= 2
    return found


def scatter_add(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    """n - 1 updates of each element, in an order that is shuffled."""
    results = max(1, count // n)
    base, updates = draw(rng, inputs, (results,), to), draw(rng, inputs, (n - 1, results), to)
    places = rng.permuted(np.tile(np.arange(results, dtype=np.int32), (n - 1, 1)), axis=1)
    rank = np.argsort(places, axis=1, kind="stable")
    terms = np.concatenate([base[None], np.take_along_axis(updates, rank, 1)])

    def function(base: Any, places: Any, updates: Any) -> Any:
        return base.at[places.reshape(-1)].add(updates.reshape(-1))

    return function, (base, places, updates), partial(sums, terms, rng, to, steps=True)


def sum_of_squares(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    x = draw(rng, inputs, (n, max(1, count // n)), to)

    def variants() -> Named:
        if to is F32:
            yield from products(x, x, rng, to)
        else:
            yield "f32 contracted", contracted(x.astype(np.float32), x.astype(np.float32))
            yield from sums(x * x, rng, to, steps=True)

    return lambda x: lax.reduce(x * x, x.dtype.type(0), lax.add, (0,)), (x,), variants


def mean(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    """n is a power of two, so that the division is exact."""
    function, operands, inner = reduce_add(rng, inputs, n, count, to)

    def variants() -> Named:
        for name, value in inner():
            yield name, value / value.dtype.type(n)

    return lambda x: function(x) / x.dtype.type(n), operands, variants


def reduce_multiply(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    """Factors next to 1, or the product leaves every type."""
    shape = (n, max(1, count // n))
    spread = {"random": 1.0, "positive": 0.1, "range": 1.0 if to is F16 else 2.0, "equal": 0.0}[inputs] / np.sqrt(n)
    x = np.exp(spread * rng.normal(size=shape)) if spread else np.full(shape, 1 + 2 / (3 * n))
    x = (x * (rng.choice([-1, 1], shape) if inputs == "random" else 1)).astype(to.numpy)
    return lambda x: lax.reduce(x, x.dtype.type(1), lax.mul, (0,)), (x,), partial(_products_of_all, x, rng, to)


def _products_of_all(x: Array, rng: np.random.Generator, to: Format) -> Named:
    for name, held in (("", x), ("f32 ", x.astype(np.float32))):
        if name and to is F32:
            return
        for order, terms in {
            "in turn": held,
            "reversed": held[::-1],
            "shuffled": held[rng.permutation(len(x))],
            "ascending": np.sort(held, axis=0),
            "descending": np.sort(held, axis=0)[::-1],
        }.items():
            found = terms[0]
            for term in terms[1:]:
                found = found * term
            yield name + order, found
        tree = held
        while len(tree) > 1:
            tree = tree[0::2] * tree[1::2]
        yield name + "pairwise", tree[0]


def reduce_maximum(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    x = draw(rng, inputs, (n, max(1, count // n)), to)

    def variants() -> Named:
        yield "any order", x.astype(np.float64).max(axis=0)

    return lambda x: lax.reduce(x, x.dtype.type(-np.inf), lax.max, (0,)), (x,), variants


def fft(rng: np.random.Generator, inputs: str, n: int, count: int, to: Format) -> Any:
    rows = max(1, count // n)
    x = (draw(rng, inputs, (rows, n), to) + 1j * draw(rng, inputs, (rows, n), to)).astype(np.complex64)

    def variants() -> Named:
        yield "scipy", scipy.fft.fft(x)
        yield "radix 2", _radix_2(x)
        yield "by conjugates", np.conj(scipy.fft.ifft(np.conj(x), norm="forward"))
        yield "along columns", scipy.fft.fft(np.ascontiguousarray(x.T), axis=0).T
        if n <= 16:
            angle = np.exp(-2j * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n).astype(np.complex64)
            yield "as a matrix product", x @ angle

    return lambda x: lax.fft(x, "FFT", (n,)), (x,), variants


def _radix_2(x: Array) -> Array:
    """Decimation in time with complex64 at every step."""
    n = x.shape[-1]
    if n == 1:
        return x
    even, odd = _radix_2(x[..., ::2]), _radix_2(x[..., 1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64) * odd
    return np.concatenate([even + turned, even - turned], axis=-1)


MAKERS: dict[str, Callable[..., Any]] = {
    "reduce add": reduce_add,
    "reduce add, rows": reduce_rows,
    "dot": dot,
    "dot, batched": batched_dot,
    "convolution": convolution,
    "reduce-window": reduce_window,
    "cumulative sum": cumulative_sum,
    "scatter add": scatter_add,
    "sum of squares": sum_of_squares,
    "mean": mean,
    "reduce multiply": reduce_multiply,
    "reduce maximum": reduce_maximum,
    "fft": fft,
}


def cases(
    operation: str,
    elements: int,
    seed: int,
    dtypes: Sequence[str],
    lengths: Sequence[int] = LENGTHS,
    inputs: Sequence[str] = INPUTS,
) -> Iterator[Case]:
    """`elements`: terms in all, so that there are elements / length sums. Equal terms are there for soundness: their
    errors vanish or conspire.
    """
    for dtype in dtypes:
        if operation == "fft" and dtype != "f32":
            continue
        for n in lengths:
            for kind in inputs:
                rng = np.random.default_rng([seed, n, *operation.encode()])
                function, operands, variants = MAKERS[operation](rng, kind, n, elements, FORMATS[dtype])
                limit = np.inf if kind == "equal" else ACCUMULATION
                yield Case(operation, dtype, kind, n, limit, function, operands, variants, (operation, dtype, n))
