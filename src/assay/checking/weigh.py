"""A target's outputs against the bounds: a first look, and a second one that a mismatch must stand as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from assay.checking.bounds import Bounds, Leaves
from assay.errors import WorkerError
from assay.oracle.compare import OutputComparison, compare_output
from assay.oracle.drift import Drift, first_look, second_look
from assay.programs.program import Array
from assay.reference.value import Ball


@dataclass(frozen=True, slots=True)
class Weighed:
    """balls, sampled: the bounds that were used, and for each whether it is sampled. comparisons: one an array.
    drifts: likewise, None where there is none to speak of.
    """

    balls: Leaves
    sampled: list[bool]
    comparisons: list[OutputComparison]
    drifts: list[Drift | None]

    @property
    def outside(self) -> int:
        return sum(comparison.outside for comparison in self.comparisons)

    @property
    def wrong(self) -> bool:
        return self.outside > 0 or any(self.drifts)


def weigh(bounds: Bounds, target: Sequence[Array]) -> Weighed:
    """With the bounds that hold but for a stated probability. Raises what `evaluate` raises."""
    plain = bounds.plain()
    comparisons = compare(bounds, plain, target)
    none: list[Drift | None] = [None] * len(comparisons)
    broken = any(comparison.outside for comparison in comparisons)
    if broken and bounds.settings.kind != "sampled":  # a rigorous bound that is broken needs no other
        return Weighed(plain, [False] * len(plain), comparisons, none)
    balls, sampled = bounds.sharp()
    if balls is not plain:
        comparisons = compare(bounds, balls, target)
        if any(comparison.outside for comparison in comparisons):
            return Weighed(balls, sampled, comparisons, none)
    return Weighed(balls, sampled, comparisons, _drifts(bounds, target))


def surely_inside(bounds: Bounds, target: Sequence[Array]) -> bool:
    """Whether a few sampled runs are enough to see that `weigh` would find nothing outside; where they are not, there
    need not be anything outside. Raises what `evaluate` raises.
    """

    def inside(leaves: Leaves) -> bool:
        return not any(comparison.outside for comparison in compare(bounds, leaves, target))

    return inside(bounds.plain()) and any(map(inside, bounds.growing()))


def weigh_again(bounds: Bounds, target: Sequence[Array], first: Weighed) -> Weighed:
    """What was wrong at a first look, with the widest bounds."""
    again = first
    if first.outside:
        widest = bounds.certain(first.sampled)
        again = dataclasses.replace(first, balls=widest, comparisons=compare(bounds, widest, target))
    return again if again.outside else dataclasses.replace(again, drifts=_drifts(bounds, target, surely=True))


def weigh_other(bounds: Bounds, target: Sequence[Array], like: Weighed) -> Weighed:
    """Other results of the program against the bounds that were used before."""
    surely = any(like.drifts)
    drifts: list[Drift | None] = _drifts(bounds, target, surely) if surely else [None] * len(target)
    return Weighed(like.balls, like.sampled, compare(bounds, like.balls, target), drifts)


def _drifts(bounds: Bounds, target: Sequence[Array], surely: bool = False) -> list[Drift | None]:
    """The suspicious ones."""
    places = [place for place, ball in enumerate(bounds.plain()) if isinstance(ball, Ball)]
    found: list[Drift | None] = []
    for place, array in zip(places, target, strict=True):
        measure = bounds.measures()[place]
        drift = None if measure is None else first_look(measure, array)
        if drift is not None and drift.suspicious and surely:
            assert measure is not None
            drift = second_look(measure, array, bounds.runs(place), bounds.nearest(place))
        found.append(drift if drift is not None and drift.suspicious else None)
    return found


def compare(bounds: Bounds, balls: Leaves, target: Sequence[Array]) -> list[OutputComparison]:
    """One comparison for each array among the outputs. Raises WorkerError where the target's are other arrays."""
    arrays = [ball for ball in balls if isinstance(ball, Ball)]
    if len(arrays) != len(target):
        raise WorkerError(f"{bounds.module.name}: the target gave {len(target)} outputs, the program has {len(arrays)}")
    triples = zip(arrays, target, bounds.module.results, strict=True)
    return [compare_output(ball, array, shape) for ball, array, shape in triples]
