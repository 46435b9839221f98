"""Names the pattern of a mismatch: what the wrong values are, and where they lie.

A *relation* predicts the target's value at each element from the reference (it is zero, negated, rolled, ...) or from
another array (stale). It explains the mismatch when it is right for 99 % of the outside elements, within the bound of
the element it predicts from, and when it cannot well be chance: an array of few distinct values is like many others.
The first that explains is told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from assay.hlo.shape import DType
from assay.oracle.compare import OutputComparison, round_out, ulp
from assay.oracle.position import locate
from assay.reference.value import Array, Ball, held_dtype

EXPLAINED = 0.99
SAMPLE = 100_000
"""Elements at which a relation is tested; a search looks at far fewer first."""

PROBES = 128
SEARCH = 1 << 19
CHANCE = 1e-4
"""How likely a relation may be to hold by chance."""


def describe(
    ball: Ball, target: Array, comparison: OutputComparison, candidates: Mapping[str, Array] | None = None
) -> str:
    """The pattern of the elements of `target` that lie outside `ball`, in a few words.

    candidates: other arrays by name (the program's arguments), whose values the target may show instead of its own.
    """
    mask = comparison.outside_mask
    if mask is None or not comparison.outside:
        return "none"
    with np.errstate(all="ignore"):
        return _described(ball, target, mask, candidates or {})


def _described(ball: Ball, target: Array, mask: Array, candidates: Mapping[str, Array]) -> str:
    scene = _Scene.of(ball, target, mask)
    relation = next((r for r in _relations(scene, candidates) if scene.holds(r)), None)
    if relation is None:
        return locate(mask, None, ball.dtype)
    if relation.loose:
        place = locate(mask, None, ball.dtype)
        return relation.whole if place in ("everywhere", "scattered") else f"{relation.part}, {place}"
    if scene.explained(relation, scene.all) >= EXPLAINED:
        return relation.whole
    place = locate(mask, scene.blank(relation, mask), ball.dtype)
    return f"{relation.part}, {place}"


# What is predicted at some flat indices: values, how far the target may be from them, and where there is a prediction.
Prediction = tuple[Array, Array | float, Array | None]


@dataclass(frozen=True, slots=True)
class _Relation:
    """whole, part: how it is told of the whole output and of a part of it. loose: it holds of right elements too."""

    whole: str
    part: str
    predict: Callable[[Array], Prediction]
    loose: bool = False


@dataclass(frozen=True, slots=True)
class _Scene:
    """The arrays, and two sets of flat indices: outside elements, and elements in general."""

    dtype: DType
    dims: tuple[int, ...]
    ball: Ball
    target: Array
    outside: Array
    all: Array
    count: int

    @staticmethod
    def of(ball: Ball, target: Array, mask: Array) -> _Scene:
        outside = np.flatnonzero(mask)
        return _Scene(
            ball.dtype, mask.shape or (1,), ball, target, _thin(outside), _thin(np.arange(mask.size)), int(outside.size)
        )

    def at(self, array: Array, flat: Array) -> Array:
        return np.asarray(np.broadcast_to(array, self.dims)[np.unravel_index(flat, self.dims)])

    def seen(self, flat: Array) -> Array:
        return self.at(self.target, flat).astype(held_dtype(self.dtype))

    def expected(self, flat: Array) -> Prediction:
        """The reference's own values."""
        values = self.at(self.ball.mid, flat)
        known = None if self.ball.und is None else ~self.at(self.ball.und, flat)
        return values, self.slack(values, flat), known

    def slack(self, values: Array, flat: Array) -> Array | float:
        if not (self.dtype.is_float or self.dtype.is_complex):
            return 0.0
        rad = 0.0 if self.ball.rad is None else self.at(self.ball.rad, flat)
        return np.where(np.isfinite(values), rad + ulp(self.dtype, np.abs(values)), 0.0)

    def holds(self, relation: _Relation) -> bool:
        """Whether it explains the outside elements; a few are asked first."""
        few = _thin(self.outside, PROBES)
        return self.explained(relation, few) >= EXPLAINED and self.explained(relation, self.outside) >= EXPLAINED

    def explained(self, relation: _Relation, flat: Array) -> float:
        hit, known = self.hits(relation, flat)
        sure = int(known.sum())
        # A relation that has no prediction for half of the elements explains nothing.
        return float((hit & known).sum() / sure) if sure >= 0.5 * flat.size else 0.0

    def hits(self, relation: _Relation, flat: Array) -> tuple[Array, Array]:
        values, slack, known = relation.predict(flat)
        seen = self.seen(flat)
        return _matches(seen, values, slack), np.ones(flat.shape, np.bool_) if known is None else known

    def blank(self, relation: _Relation, mask: Array) -> Array | None:
        """Elements that are inside and yet as the relation says; None where the array is too large to look at each."""
        if mask.size > 1 << 24:
            return None
        flat = np.flatnonzero(~mask)
        hit, known = self.hits(relation, flat)
        found = np.zeros(mask.size, np.bool_)
        found[flat[hit & known]] = True
        return found.reshape(mask.shape)

    def surprise(self) -> float:
        """Logarithm of the odds against hitting the outside values by draws from the reference's values."""
        probes = _thin(self.outside, PROBES)
        pool = self.at(self.ball.mid, _thin(self.all, 2048))
        seen = self.seen(probes)
        slack = self.slack(seen, probes)
        wide = np.reshape(slack, (-1, 1)) if isinstance(slack, np.ndarray) else slack
        share = _matches(seen[:, None], pool[None, :], wide).mean(axis=1)
        return float(-np.log(np.maximum(share, 1 / 2048)).mean()) * self.count


def _matches(seen: Array, values: Array, slack: Array | float) -> Array:
    with np.errstate(all="ignore"):
        if seen.dtype.kind in "fc":
            apart = np.abs(seen - values)
            both_nan = np.isnan(seen) & np.isnan(values)
            return np.asarray((seen == values) | (apart <= slack) | both_nan)
        return np.asarray(seen == values)


def _thin(flat: Array, limit: int = SAMPLE) -> Array:
    """At most `limit` of the indices, at random: a fixed step might fall in with a pattern's own."""
    if flat.size <= limit:
        return flat
    return np.sort(np.random.default_rng(0).choice(flat, limit, replace=False))


def _relations(scene: _Scene, candidates: Mapping[str, Array]) -> Iterator[_Relation]:
    """Every relation worth a test, the plainest first."""
    yield from _constants(scene)
    if scene.dtype.kind not in ("pred", "unsigned"):
        yield _mapped(scene, "negated", lambda values: -values)
    if scene.count < 2:
        return
    surprise = scene.surprise()
    if surprise > _needed(1):
        yield from _stale(scene, candidates)
    if surprise > _needed(sum(scene.dims)):
        yield from _rolled(scene)
    if surprise > _needed(24):
        yield from _reversed(scene)
        yield from _transposed(scene)
    if surprise > _needed(sum(scene.dims)):
        yield from _rolled_flat(scene)
    if scene.dtype.kind == "pred":
        if scene.count == scene.all.size:
            yield _mapped(scene, "negated", np.logical_not)
        return
    yield from _scaled(scene)
    yield from _offset(scene)
    if scene.dtype.is_float or scene.dtype.is_complex:
        yield _drift(scene)
    if surprise > _needed(1):
        yield from _permuted(scene)


def _needed(tries: int) -> float:
    return math.log(max(tries, 1) / CHANCE)


def _constants(scene: _Scene) -> Iterator[_Relation]:
    """One value wherever the target is wrong."""
    seen = scene.seen(scene.outside)
    if scene.dtype.is_float or scene.dtype.is_complex:
        yield _constant("NaN only", "NaN only", np.nan)
        if not scene.dtype.is_complex:
            sign = 1 if (seen > 0).mean() >= 0.5 else -1
            yield _constant("infinite only", "infinite only", sign * np.inf)
    yield _constant("all zero", "zero", 0)
    if scene.count >= 4 and scene.dtype.kind != "pred":
        values, counts = np.unique(seen, return_counts=True)
        value = values[int(np.argmax(counts))]
        words = f"constant {value.item():.6g}" if scene.dtype.is_float else f"constant {value.item()}"
        yield _constant(words, words, value)


def _constant(whole: str, part: str, value: object) -> _Relation:
    return _Relation(whole, part, lambda flat: (np.full(flat.shape, value), 0.0, None))


def _mapped(scene: _Scene, words: str, change: Callable[[Array], Array]) -> _Relation:
    """A function of the value that belongs there."""

    def predict(flat: Array) -> Prediction:
        values, slack, known = scene.expected(flat)
        return change(values), slack, known

    return _Relation(words, words, predict)


def _moved(scene: _Scene, words: str, origin: Callable[[Array], Array]) -> _Relation:
    """The value that belongs to another place; `origin` maps flat indices to flat indices, -1 for none."""

    def predict(flat: Array) -> Prediction:
        source = origin(flat)
        values, slack, known = scene.expected(np.maximum(source, 0))
        there = source >= 0
        return values, slack, there if known is None else known & there

    return _Relation(words, words, predict)


def _stale(scene: _Scene, candidates: Mapping[str, Array]) -> Iterator[_Relation]:
    """Another array of as many elements, in the same place or in the same row-major order."""
    for name, array in candidates.items():
        if array.size != math.prod(scene.dims):
            continue
        try:
            with np.errstate(all="ignore"):
                values = array.reshape(-1).astype(held_dtype(scene.dtype))
        except (TypeError, ValueError):
            continue

        def predict(flat: Array, values: Array = values) -> Prediction:
            chosen = values[flat]
            inexact = scene.dtype.is_float or scene.dtype.is_complex
            return chosen, ulp(scene.dtype, np.abs(chosen)) if inexact else 0.0, None

        yield _Relation(f"stale: equals {name}", f"stale: equals {name}", predict)


def _rolled(scene: _Scene) -> Iterator[_Relation]:
    """The value k places before along one dimension, with or without wrapping around."""
    for d, size in enumerate(scene.dims):
        if size < 2:
            continue
        stride = math.prod(scene.dims[d + 1 :])
        for k in _shifts(scene, stride, size):
            wrapped = partial(_along, k=k, size=size, stride=stride, wrap=True)
            cut = partial(_along, k=k, size=size, stride=stride, wrap=False)
            yield _moved(scene, f"rolled by {k} along dimension {d}", wrapped)
            yield _moved(scene, f"shifted by {k} along dimension {d}", cut)


def _along(flat: Array, k: int, size: int, stride: int, wrap: bool) -> Array:
    """Flat indices of the elements k places before along a dimension; -1 beyond its ends, where it does not wrap."""
    index = flat // stride % size
    before = index - k
    base = flat - index * stride
    return np.where(wrap | ((before >= 0) & (before < size)), base + before % size * stride, -1)


def _shifts(scene: _Scene, stride: int, size: int) -> list[int]:
    """Distances along a dimension at which most probes find their value, the shortest first."""
    probes = _thin(scene.outside, max(8, min(PROBES, SEARCH // size)))
    index = probes // stride % size
    bases, line = np.unique(probes - index * stride, return_inverse=True)
    lines = bases[:, None] + np.arange(size) * stride  # (lines that hold a probe, size)
    values, slack, _ = scene.expected(lines.reshape(-1))
    wide = slack.reshape(lines.shape)[line] if isinstance(slack, np.ndarray) else slack
    hit = _matches(scene.seen(probes)[:, None], values.reshape(lines.shape)[line], wide)  # (probes, size)
    probe, place = np.nonzero(hit)
    votes = np.bincount((index[probe] - place) % size, minlength=size)
    votes[0] = 0
    found = np.flatnonzero(votes >= 0.5 * probes.size)
    signed = [int(k) if k <= size // 2 else int(k) - size for k in found]
    return sorted(signed, key=lambda k: (-int(votes[k % size]) // max(1, probes.size // 16), abs(k)))[:6]


def _rolled_flat(scene: _Scene) -> Iterator[_Relation]:
    """The value k places before in row-major order, across rows."""
    total = math.prod(scene.dims)
    if len(scene.dims) < 2 or total > SEARCH:
        return
    for k in _shifts(scene, 1, total)[:3]:
        yield _moved(scene, f"rolled by {k} in flat order", partial(_along, k=k, size=total, stride=1, wrap=True))


def _reversed(scene: _Scene) -> Iterator[_Relation]:
    for d, size in enumerate(scene.dims):
        if size < 2:
            continue
        stride = math.prod(scene.dims[d + 1 :])

        def origin(flat: Array, size: int = size, stride: int = stride) -> Array:
            index = flat // stride % size
            return np.asarray(flat + (size - 1 - 2 * index) * stride)

        yield _moved(scene, f"reversed along dimension {d}", origin)
    if len(scene.dims) > 1:
        last = math.prod(scene.dims) - 1
        yield _moved(scene, "reversed in flat order", lambda flat: last - flat)


def _transposed(scene: _Scene) -> Iterator[_Relation]:
    """The reference with its dimensions in another order, laid out as if that were the output's shape."""
    rank = len(scene.dims)
    if rank < 2:
        return
    identity = tuple(range(rank))
    orders = itertools.permutations(identity) if rank <= 4 else _swaps(rank)
    for order in orders:
        if order == identity or not _moves_elements(scene.dims, order):
            continue
        moved = tuple(scene.dims[d] for d in order)

        def origin(flat: Array, order: tuple[int, ...] = order, moved: tuple[int, ...] = moved) -> Array:
            there = np.unravel_index(flat, moved)
            here = [there[order.index(d)] for d in range(rank)]
            return np.asarray(np.ravel_multi_index(here, scene.dims))

        yield _moved(scene, f"transposed ({', '.join(map(str, order))})", origin)


def _swaps(rank: int) -> Iterator[tuple[int, ...]]:
    for a, b in itertools.combinations(range(rank), 2):
        order = list(range(rank))
        order[a], order[b] = b, a
        yield tuple(order)


def _moves_elements(dims: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether the permutation is more than moving dimensions of size 1."""
    large = [d for d in order if dims[d] > 1]
    return large != sorted(large)


def _scaled(scene: _Scene) -> Iterator[_Relation]:
    seen, (values, _, _) = scene.seen(scene.outside), scene.expected(scene.outside)
    with np.errstate(all="ignore"):
        usable = np.isfinite(values) & np.isfinite(seen) & (values != 0)
        if np.unique(values[usable]).size < 3:
            return
        ratio = seen[usable].astype(np.complex128 if scene.dtype.is_complex else np.float64) / values[usable]
        factor = np.median(ratio.real) + 1j * np.median(ratio.imag) if scene.dtype.is_complex else np.median(ratio)
    near_one = 8 * 2.0**-scene.dtype.part.mantissa if not scene.dtype.is_integer else 0.0
    if not np.isfinite(factor) or abs(factor - 1) <= near_one or factor == 0:
        return

    def predict(flat: Array) -> Prediction:
        expected, slack, known = scene.expected(flat)
        made = expected * factor
        if scene.dtype.is_integer:
            return np.trunc(made).astype(expected.dtype), 0.0, known
        return made, np.abs(factor) * slack + 2 * ulp(scene.dtype, np.abs(made)), known

    words = f"scaled by {_number(factor)}"
    yield _Relation(words, words, predict)


def _offset(scene: _Scene) -> Iterator[_Relation]:
    seen, (values, _, _) = scene.seen(scene.outside), scene.expected(scene.outside)
    wide = np.complex128 if scene.dtype.is_complex else np.float64
    with np.errstate(all="ignore"):
        apart = seen.astype(wide) - values.astype(wide)
    apart = apart[np.isfinite(apart)]
    if apart.size < 3 or np.unique(values).size < 3:
        return
    offset = np.median(apart.real) + 1j * np.median(apart.imag) if scene.dtype.is_complex else np.median(apart)
    if offset == 0:
        return

    def predict(flat: Array) -> Prediction:
        expected, slack, known = scene.expected(flat)
        if scene.dtype.is_integer:
            return expected + np.asarray(offset).astype(expected.dtype), 0.0, known
        made = expected + offset
        return made, slack + ulp(scene.dtype, np.abs(made)), known

    # An offset within the slack of what it is added to would explain any small error.
    _, slack, _ = scene.expected(scene.outside)
    if np.median(np.asarray(slack)) * 4 > abs(offset):
        return
    words = f"constant offset {_number(offset)}"
    yield _Relation(words, words, predict)


def _permuted(scene: _Scene) -> Iterator[_Relation]:
    """The outside elements, or all of them, hold each other's values."""
    if scene.dtype.is_complex:
        return
    size = math.prod(scene.dims)
    sets = [scene.outside] if scene.outside.size == scene.count else []
    if scene.all.size == size:
        sets.append(scene.all)
    if any(_same_values(scene, flat) for flat in sets):
        yield _Relation("permuted", "permuted", lambda flat: (scene.seen(flat), 0.0, None), loose=True)


def _same_values(scene: _Scene, flat: Array) -> bool:
    """Whether target and reference have the same values at these places, in whatever order."""
    seen = np.sort(scene.seen(flat))
    values, slack, _ = scene.expected(flat)
    order = np.argsort(values, kind="stable")
    values = values[order]
    if not scene.dtype.is_float:
        return bool((seen == values).all())
    if (seen == round_out(scene.dtype, values)).mean() >= 0.999:
        return True
    # Where the array's halves already look alike, so would any values of the same kind.
    wide = np.asarray(slack)[order]
    half = values.size // 2
    alike = _matches(values[::2][:half], values[1::2][:half], wide[::2][:half]).mean() if half else 1.0
    return bool(alike < 0.9 and _matches(seen, values, wide).mean() >= EXPLAINED)


def _drift(scene: _Scene) -> _Relation:
    """Small relative errors: less than the root of the type's precision, at the element's own scale or the output's."""
    values, _, _ = scene.expected(scene.all)
    size = np.abs(values[np.isfinite(values)]).astype(np.float64)
    scale = float(np.sqrt(np.mean(np.square(size)))) / 16 if size.size else 0.0
    limit = 2.0 ** (0.4 * scene.dtype.part.mantissa)

    def predict(flat: Array) -> Prediction:
        expected, _, known = scene.expected(flat)
        near = limit * ulp(scene.dtype, np.maximum(np.abs(expected), scale))
        return expected, np.where(np.isfinite(expected), near, 0.0), known

    return _Relation("ulp drift", "ulp drift", predict, loose=True)


def _number(value: object) -> str:
    number = np.asarray(value).item()
    return f"{number:.4g}"
