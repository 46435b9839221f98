"""The orders in which a compiler may sum, and some that only an adversary would choose.

Terms are (n, results) arrays of the type they are accumulated in, so that NumPy's own addition rounds every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from formats import Array

Order = Callable[[Array], Array]


def in_turn(terms: Array) -> Array:
    """((t0 + t1) + t2) + ..; a loop, for NumPy's own reduction has an order of its own."""
    total = terms[0].copy()
    for term in terms[1:]:
        np.add(total, term, out=total)
    return total


def pairwise(terms: Array) -> Array:
    """A balanced tree of neighbours."""
    while len(terms) > 1:
        odd = terms[-1:] if len(terms) % 2 else terms[:0]
        terms = np.concatenate([terms[0 : len(terms) - 1 : 2] + terms[1::2], odd])
    return terms[0]


def lanes(width: int) -> Order:
    """`width` sums side by side over every width-th term, as vector registers hold them, then a tree of the lanes."""

    def order(terms: Array) -> Array:
        whole = len(terms) // width * width
        if whole == 0:
            return in_turn(terms)
        side = in_turn(terms[:whole].reshape(whole // width, width, -1).reshape(whole // width, -1))
        found = pairwise(side.reshape(width, -1))
        for term in terms[whole:]:
            found = found + term
        return found

    return order


def blocks(length: int) -> Order:
    """Blocks of `length` neighbours, each in turn, then the blocks in turn."""

    def order(terms: Array) -> Array:
        whole = len(terms) // length * length
        if whole == 0:
            return in_turn(terms)
        parts = terms[:whole].reshape(whole // length, length, -1)
        found = in_turn(in_turn(np.swapaxes(parts, 0, 1).reshape(length, -1)).reshape(whole // length, -1))
        for term in terms[whole:]:
            found = found + term
        return found

    return order


def orders(rng: np.random.Generator) -> dict[str, Order]:
    """By name. The last four are an adversary's: each result's own terms sorted."""
    return {
        "in turn": in_turn,
        "reversed": lambda t: in_turn(t[::-1]),
        "pairwise": pairwise,
        "8 lanes": lanes(8),
        "16 lanes": lanes(16),
        "blocks of 128": blocks(128),
        "shuffled": lambda t: in_turn(t[rng.permutation(len(t))]),
        "ascending": lambda t: in_turn(np.sort(t, axis=0)),
        "descending": lambda t: in_turn(np.sort(t, axis=0)[::-1]),
        "by size": lambda t: in_turn(np.take_along_axis(t, np.argsort(np.abs(t), axis=0), 0)),
        "positive first": lambda t: in_turn(np.take_along_axis(t, np.argsort(t < 0, axis=0, kind="stable"), 0)),
    }


def contracted(a: Array, b: Array) -> Array:
    """sum a b in turn with fused multiply-adds: f32 products are exact in float64, so each step rounds (all but) once.

    a, b: (n, results) float32.
    """
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = (x.astype(np.float64) * y + total).astype(np.float32)
    return total


def every_order(terms: Array, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    for name, order in orders(rng).items():
        yield name, order(terms)
