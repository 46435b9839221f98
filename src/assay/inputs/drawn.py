"""Draws inputs and looks at what becomes of them: finite, not all alike, and each input of some effect.

What is planned by intervals (`ranges`) is evaluated once by the reference, midpoints alone. Where values are not
finite, the inputs are mended: elements that lead to them are replaced by others that do not, and where that is not
enough other plans are tried; the best is kept. What is left is told.

The plan is the same on every machine; a mended array may differ in the few elements next to a brink, where the last
digit of a machine's exponential decides. Store the arrays, or say `check=False`, where that matters.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.errors import AssayError, InputError, ReferenceLimit, Unsupported
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape
from assay.inputs.classes import BOXES, CLASSES, GRIDDED, MEANT
from assay.inputs.conflict import core
from assay.inputs.domain import Domain
from assay.inputs.generate import draw
from assay.inputs.ranges import Plan, plan
from assay.inputs.span import INF, Span, inward, limits
from assay.inputs.survey import Survey, flat_outputs, moved, survey
from assay.reference.value import Array

LOOKS = 28
"""Evaluations after which no further set is begun: there may be nothing to find."""
ROWS = 3
"""Sets of which each row is one guess."""
MENDS = 3
"""How often a set of inputs is mended: what replaces one place may come to something else further on."""
MATTERS = 24
"""Inputs of which it is seen one by one whether they matter; of more, some are drawn."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A set of inputs and what is known of it.

    outcome: `finite` (every output element), `not finite` (some are not), `invalid(unsatisfiable: names)` where no
    inputs can be (the instructions whose needs exclude each other), `unchecked` or `unchecked(why)`.
    finite: the share of the outputs' float elements that are finite. strange: values on the way that are not, constants
    aside. sensitivity: for each array the greatest share of an output that moves when it is drawn anew; None where that
    was not looked at. notes: what else there is to say, in words.
    """

    arrays: list[Array]
    outcome: str = "unchecked"
    finite: float | None = None
    strange: int | None = None
    sensitivity: tuple[float | None, ...] = ()
    notes: tuple[str, ...] = ()


def draw_inputs(
    module: Module,
    seed: int,
    input_class: str = "normal",
    *,
    check: bool = True,
    sensitivity: bool = False,
    seconds: float = 60.0,
) -> Drawn:
    """Inputs of a class for `module`, checked and mended.

    check: whether to evaluate the program at all. sensitivity: whether to see which inputs matter, at the price of one
    evaluation an input. seconds: after which no further evaluation is begun, and one that runs is left.
    Raises InputError for a class that there is not.
    """
    if input_class not in CLASSES:
        raise InputError(f"no input class {input_class!r}; there is: {', '.join(CLASSES)}")
    planned = plan(module, BOXES[input_class], input_class in GRIDDED)
    arrays = _arrays(module, planned.domains, seed, input_class)
    if not check:
        return _refused(planned, arrays) or Drawn(arrays, notes=tuple(_needs(planned)))
    search = _Search(module, seed, input_class, time.monotonic() + seconds, planned)
    try:
        first = search.look(arrays)
        if not search.clean(first) and (refused := _refused(planned, arrays)):
            return refused
        best = search.best(planned, first)
    except (Unsupported, ReferenceLimit, _Late) as error:
        return Drawn(arrays, f"unchecked({error})", notes=tuple(_needs(planned)))
    notes = list(search.notes)
    scores: tuple[float | None, ...] = ()
    if sensitivity:
        best, scores = search.weighed(planned, best)
        dull = [k for k, score in enumerate(scores) if score == 0]
        notes += [f"input {k} has no effect" for k in dull]
    arrays, seen = best
    notes += [f"output {k} is nearly the same in every element" for k in flat_outputs(seen.outputs)]
    notes += [f"{o.opcode} {o.instruction}: {int(o.where.sum())} values not finite" for o in seen.origins[:4]]
    outcome = "not finite" if seen.lost else "finite"
    share = 1.0 if not seen.elements else 1 - seen.lost / seen.elements
    return Drawn(arrays, outcome, share, seen.strange, scores, tuple(notes))


def _arrays(module: Module, domains: Sequence[Domain], seed: int, input_class: str) -> list[Array]:
    return [
        draw(shape, domain, seed, index, input_class)
        for index, (shape, domain) in enumerate(zip(module.arrays, domains, strict=True))
    ]


def _refused(planned: Plan, arrays: list[Array]) -> Drawn | None:
    """What to say where no inputs can be."""
    nodes = planned.walk.flat.nodes
    names = dict.fromkeys(nodes[k].instruction.name for k in core(planned.walk))
    if not names:
        return None
    return Drawn(arrays, f"invalid(unsatisfiable: {', '.join(names)})", notes=tuple(_needs(planned)))


def _needs(planned: Plan) -> Iterator[str]:
    nodes = planned.walk.flat.nodes
    for number, want, by in planned.unmet[:4]:
        name = nodes[number].instruction.name
        asks = f"{nodes[by].opcode} {nodes[by].instruction.name} wants" if by != number else "it would be finite with"
        now = planned.view.spans[number]
        wish = "what is not 0" if want.low == -INF and want.high == INF else f"{want.low:.3g} to {want.high:.3g}"
        yield f"{name} may be {now.low:.3g} to {now.high:.3g}; {asks} {wish}"


class _Late(AssayError):
    """The time that was given is over."""


_State = tuple[list[Array], Survey]


class _Search:
    """Looks for inputs with which the program stays finite."""

    def __init__(self, module: Module, seed: int, input_class: str, until: float, planned: Plan) -> None:
        self.module = module
        self.seed = seed
        self.input_class = input_class
        self.until = until
        self.notes: list[str] = []
        self.looks = 0
        masked = zip(planned.walk.flat.nodes, planned.walk.masked(), strict=True)
        self.masked = {(n.computation.name, n.instruction.name) for n, hidden in masked if hidden}
        key = [seed % 2**64, zlib.crc32(input_class.encode()), 0x6D656E64]
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))

    def deadline(self) -> None:
        if time.monotonic() > self.until:
            raise _Late("its time is over")

    def look(self, arrays: list[Array]) -> _State:
        self.looks += 1
        return arrays, survey(self.module, arrays, self.deadline)

    def clean(self, state: _State) -> bool:
        """Whether all that is not finite is thrown away by a select, or meant."""
        seen = state[1]
        return not seen.lost and all((o.computation, o.instruction) in self.masked for o in seen.origins)

    def best(self, planned: Plan, first: _State) -> _State:
        if self.clean(first) or self.input_class in MEANT:
            return first
        arrays = first[0]
        best = state = first
        try:
            for candidate, rows in self.candidates(planned, arrays):
                if candidate is not arrays:
                    state = self.look(candidate)
                if self.looks > LOOKS:
                    break
                for _ in range(MENDS):
                    best = min(best, state, key=lambda s: s[1].rank)
                    mended = self.mended(planned, state, rows) if state[1].origins else None
                    if mended is None:
                        break
                    state = self.look(mended)
                best = min(best, state, key=lambda s: s[1].rank)
                if self.clean(best):
                    break
        except _Late:
            self.notes.append("the time was over before other inputs were tried")
        return best

    def candidates(self, planned: Plan, arrays: list[Array]) -> Iterator[tuple[list[Array], bool]]:
        """Inputs to mend, those nearest to what was planned first, and whether what is fine or not there is a row."""
        yield arrays, False
        if planned.stubborn != planned.domains:
            yield _arrays(self.module, planned.stubborn, self.seed, self.input_class), False
        for low, high in RANGES[:2]:
            yield self.within(planned, low, high), False
        yield self.plain(planned, arrays, PLAIN), False
        yield self.plain(planned, arrays, PLAIN / 16, rows=True), True
        yield self.plain(planned, arrays, MADE), False
        yield self.plain(planned, arrays, PLAIN, rows=True), True
        yield self.plain(planned, arrays, PLAIN), False
        yield self.plain(planned, arrays, MADE), False
        for low, high in RANGES[2:]:
            yield self.within(planned, low, high), False
        for further in range(1, ROWS + 1):
            drawn = self.within(planned, *RANGES[0], further)
            yield [_alike(self.rng, array) for array in drawn], True

    def within(self, planned: Plan, low: float, high: float, further: int = 0) -> list[Array]:
        domains = [_inside(d, s, low, high) for d, s in zip(planned.domains, self.module.arrays, strict=True)]
        return _arrays(self.module, domains, self.seed + further, "log-uniform")

    def plain(self, planned: Plan, arrays: list[Array], values: Array, rows: bool = False) -> list[Array]:
        """Few numbers, whole ones most of them: exponents that may be taken of a negative base, and what is zero
        exactly. rows: the same all along a row.
        """
        found = []
        for shape, domain, array in zip(self.module.arrays, planned.domains, arrays, strict=True):
            if not shape.dtype.is_float or domain.definite or not shape.dims:
                found.append(array)
                continue
            dims = (*shape.dims[:-1], 1) if rows else shape.dims
            drawn = values[self.rng.integers(0, values.size, dims)]
            ends = limits(shape.dtype)
            found.append(np.broadcast_to(np.clip(drawn, ends.low, ends.high), shape.dims).astype(array.dtype))
        return found

    def mended(self, planned: Plan, state: _State, rows: bool) -> list[Array] | None:
        """The same arrays, each place (or row) at which something begins not to be finite filled from one where nothing
        does, in all arrays of that shape alike. None where no place tells."""
        arrays, seen = state
        mended, changed = list(arrays), False
        for shape in {array.shape for array in arrays if array.ndim}:
            where: Array = np.zeros(shape, bool)
            for origin in seen.origins:
                spread = _spread(origin.where, shape)
                if spread is not None:
                    where |= spread
            if rows:
                where = np.asarray(where.reshape(-1, shape[-1]).any(axis=1))
            places, good = np.flatnonzero(where), np.flatnonzero(~where)
            if not places.size or not good.size:
                continue
            chosen = good[self.rng.integers(0, good.size, places.size)]
            for k, array in enumerate(mended):
                if array.shape == shape and not (planned.domains[k].distinct or planned.domains[k].ordered):
                    flat = array.reshape((-1, shape[-1]) if rows else -1).copy()
                    flat[places] = flat[chosen]
                    mended[k], changed = flat.reshape(shape), True
        return mended if changed else None

    # ---- which inputs matter

    def weighed(self, planned: Plan, state: _State) -> tuple[_State, tuple[float | None, ...]]:
        """Scores, and inputs that are smaller or larger where that gives more of them an effect."""
        scores = self.scores(planned, state)
        if all(score != 0 for score in scores) and not flat_outputs(state[1].outputs):
            return state, scores
        if self.input_class in MEANT:
            return state, scores
        for factor in (0.125, 2.0**-6, 8.0):
            try:
                domains = [_scaled(d, s, factor) for d, s in zip(planned.domains, self.module.arrays, strict=True)]
                other = self.look(
                    [
                        (a * a.dtype.type(factor)) if d is not e else a
                        for a, d, e in zip(state[0], domains, planned.domains, strict=True)
                    ]
                )
                if other[1].rank > state[1].rank:
                    continue
                better = self.scores(planned, other)
            except _Late:
                break
            if _dull(better, other) < _dull(scores, state):
                state, scores = other, better
                self.notes.append(f"inputs scaled by {factor:g}, for more of them to matter")
            if not _dull(scores, state):
                break
        return state, scores

    def scores(self, planned: Plan, state: _State) -> tuple[float | None, ...]:
        arrays, seen = state
        found: list[float | None] = [None] * len(arrays)
        order = self.rng.permutation(len(arrays))[:MATTERS] if len(arrays) > MATTERS else np.arange(len(arrays))
        shapes = self.module.arrays
        for k in order.tolist():
            other = draw(shapes[k], planned.domains[k], self.seed + 1, k, self.input_class)
            if (other == arrays[k]).all():
                continue
            try:
                after = survey(self.module, [*arrays[:k], other, *arrays[k + 1 :]], self.deadline)
            except _Late:
                self.notes.append("the time was over before every input was looked at")
                break
            found[k] = moved(seen.outputs, after.outputs)
        return tuple(found)


RANGES = ((-(2.0**12), 2.0**12), (0.5, 2.0), (-(2.0**3), 2.0**3), (1.0, 2.0**6), (2.0**-6, 2.0**-1))
"""Where many functions are finite, tried one after another; of wide ones the places that are fine are kept."""
_WHOLE = [0, 1, 2, 3, 4, 5, 8, 9, 11, 16, 64, 1e3, 1e9, 0.5, 0.25]
PLAIN = np.array([*_WHOLE, *np.negative(_WHOLE[1:])])
MADE = np.array(
    [0, 1, -1, 2, -2, *np.exp([1, 2, 3, -1, -2, -3]), *np.log([2, 3, 4]), np.pi / 2, -np.pi / 2, 20, -20, 1e-20, -1e-20]
)
"""Of which functions make whole numbers."""


def _alike(rng: np.random.Generator, array: Array) -> Array:
    """Rows whose elements differ by less than a factor of two, for sums and maxima that take a row together."""
    if array.ndim < 2 or not array.size or array.dtype.kind in "biu":
        return array
    factor = np.asarray(0.5 + 0.5 * rng.random(array.shape), np.float32)
    made: Array = np.asarray(array[..., :1].astype(np.float32) * factor)
    return made.astype(array.dtype)


def _spread(where: Array, shape: tuple[int, ...]) -> Array | None:
    """A mask over an array of another shape: the same, or one whose last or first dimensions were reduced."""
    if where.shape == shape:
        return where
    rank = where.ndim
    if 0 < rank < len(shape) and shape[:rank] == where.shape:
        return np.broadcast_to(where.reshape(where.shape + (1,) * (len(shape) - rank)), shape)
    if 0 < rank < len(shape) and shape[-rank:] == where.shape:
        return np.broadcast_to(where, shape)
    return None


def _inside(domain: Domain, shape: ArrayShape, low: float, high: float) -> Domain:
    """A float domain moved to a range, whatever was planned; mending picks what is fine there."""
    if not shape.dtype.is_float or domain.definite:
        return domain
    ends = limits(shape.dtype)
    cut = inward(shape.dtype, Span(max(low, ends.low), min(high, ends.high)))
    if cut.low >= cut.high:
        return domain
    least = cut.high * 2.0**-24 if cut.low < 0 else 0.0
    return replace(domain, low=cut.low, high=cut.high, positive=False, nonzero=least)


def _scaled(domain: Domain, shape: ArrayShape, factor: float) -> Domain:
    """Another object where an array of this domain may be scaled."""
    free = shape.dtype.is_float and shape.dtype.bits >= 16 and not domain.bounded and not domain.definite
    return replace(domain) if free else domain


def _dull(scores: Sequence[float | None], state: _State) -> int:
    return sum(score == 0 for score in scores) + len(flat_outputs(state[1].outputs))
