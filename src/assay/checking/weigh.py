"""A target's outputs against the bounds: a first look, and a second one that a mismatch must stand as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.checking.bounds import Bounds, Leaves
from assay.errors import WorkerError
from assay.hlo.shape import ArrayShape, leaves
from assay.oracle.compare import OutputComparison, compare_output
from assay.programs.program import Array
from assay.reference.value import Ball


@dataclass(frozen=True, slots=True)
class Weighed:
    """balls, sampled: the bounds that were used, and for each whether it is sampled. comparisons: one an array."""

    balls: Leaves
    sampled: list[bool]
    comparisons: list[OutputComparison]

    @property
    def outside(self) -> int:
        return sum(comparison.outside for comparison in self.comparisons)


def weigh(bounds: Bounds, target: Sequence[Array]) -> Weighed:
    """With the bounds that hold but for a stated probability. Raises what `evaluate` raises."""
    plain = bounds.plain()
    weighed = Weighed(plain, [False] * len(plain), compare(bounds, plain, target))
    if weighed.outside:  # a rigorous bound that is broken needs no other
        return weighed
    balls, sampled = bounds.sharp()
    return Weighed(balls, sampled, compare(bounds, balls, target)) if any(sampled) else weighed


def weigh_again(bounds: Bounds, target: Sequence[Array], first: Weighed) -> Weighed:
    """What was outside at a first look, with the widest bounds."""
    widest = bounds.certain(first.sampled)
    return Weighed(widest, first.sampled, compare(bounds, widest, target))


def compare(bounds: Bounds, balls: Leaves, target: Sequence[Array]) -> list[OutputComparison]:
    """One comparison for each array among the outputs. Raises WorkerError where the target's are other arrays."""
    arrays = [ball for ball in balls if isinstance(ball, Ball)]
    if len(arrays) != len(target):
        raise WorkerError(f"{bounds.module.name}: the target gave {len(target)} outputs, the program has {len(arrays)}")
    shapes = [s for s in leaves(bounds.module.entry.root.shape) if isinstance(s, ArrayShape)]
    return [compare_output(ball, array, shape) for ball, array, shape in zip(arrays, target, shapes, strict=True)]
