"""Bounds from a spread of runs, where rigorous radii say nothing.

Interval radii forget that errors are shared: through a deep graph they grow by the norm of every layer, and in the
end they say nothing. A sampled run draws every rounding at random within what the policy allows and lets it go
through the program as real errors do, shared ones included (stochastic arithmetic: Vignes 1993; Parker 1997, "Monte
Carlo Arithmetic"). The bound of an element is `SAFETY` times the root mean square of its deviations in the runs.

A rounding also makes results zero, one, or equal to another, which a draw never does, and programs ask for that; so
now and then an instruction's results are rounded to their declared type and nothing else, and in the first run all are.

How sure is it? The independent part of what is drawn has 1.3 times the spread of honest rounding, so that an honest
result lies outside only where a t-distributed variable with as many degrees of freedom as there are runs exceeds 1.3
* SAFETY: 3e-7 an element at 12 runs, most of it from elements that happened to move little in all runs, which are
lifted towards what is typical of their array. A mismatch that rests on a sampled bound is confirmed with more runs
before it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.hlo.module import Module
from assay.reference.context import smallest_normal, unit_roundoff
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.settled import Known
from assay.reference.value import Array, Ball, Token, flatten

SAFETY = 8.0
LARGEST = 1.5  # and never less than this times the largest deviation seen: a branch that one run took
FLOOR = 0.5  # an element is granted this share of its array's median deviation, absolute or relative,
DECLARED = 0.25  # the share of instructions in a run that give values of their type, beside a first run of them alone
LIFT = 4.0  # but no more than this times its own: one that rounding does not reach stays exact


@dataclass(slots=True)
class _Spread:
    """What the runs have shown of one output: the plain midpoints, the largest deviation from them, and where runs
    contradict each other. `squares` sums the squared deviations.
    """

    centre: Ball
    largest: Array | None
    squares: Array | None
    und: Array


def midpoints(
    module: Module,
    arguments: Sequence[Array],
    policy: Policy,
    *,
    flushed: bool = False,
    memory_limit: int = 8 << 30,
    deadline: Callable[[], None] | None = None,
) -> list[Ball | Token]:
    """A run without errors: for each output leaf the result in exact arithmetic, with no radius. Every decision is
    taken as the midpoints have it. Raises what `evaluate` raises.
    """
    result = evaluate(
        module,
        arguments,
        policy,
        rng=np.random.default_rng(0),
        amplitude=0.0,
        flushed=flushed,
        memory_limit=memory_limit,
        deadline=deadline,
    )
    return flatten(result.value)


@dataclass(slots=True)
class Sampling:
    """Sampled runs of one module, one after another. runs: how many there have been, beside the one without errors.

    `more`, and `bounds` where there was none yet, raise what `evaluate` raises.
    """

    module: Module
    arguments: Sequence[Array]
    policy: Policy
    seed: int = 0
    flushed: bool = False
    resolved: int | None = None
    memory_limit: int = 8 << 30
    known: Known = field(default_factory=dict)
    runs: int = 0
    _spreads: list[_Spread | Token] = field(default_factory=list)

    def more(self, deadline: Callable[[], None] | None = None) -> None:
        """One run more; before the first also the one without errors, before the second, for sampling mostly ends after
        one, that in which every instruction gives what its type has next to its result, and zero where it may be
        flushed: most likely the target's own, where a remainder jumps as no error drawn hits it.
        """
        if not self._spreads:
            centres = self._run(0, 0.0, deadline)
            self._spreads = [_start(leaf) if isinstance(leaf, Ball) else leaf for leaf in centres]
        elif self.runs == 1:
            self._widened(self._run(0, 1.0, deadline, nearest=True))
        self._widened(self._run(self.runs + 1, 1.0, deadline))
        self.runs += 1

    def _widened(self, leaves: Sequence[Ball | Token]) -> None:
        for spread, leaf in zip(self._spreads, leaves, strict=True):
            if isinstance(spread, _Spread) and isinstance(leaf, Ball):
                _widen(spread, leaf)

    def bounds(self) -> list[Ball | Token]:
        """For each output leaf a ball whose radius comes from the runs so far, at least one, around the one without
        errors.

        An element is undecided where a run could not decide it, where integers differ between runs, or where a run is
        finite and another one is not.
        """
        return self._told(lambda spread: _bound(spread, self.runs))

    def least(self, runs: int) -> list[Ball | Token]:
        """Balls that lie inside those of so many runs in all, whatever those to come show; nor is more undecided."""
        return self._told(lambda spread: _bound(spread, runs, lifted=False))

    def _told(self, bound: Callable[[_Spread], Ball]) -> list[Ball | Token]:
        return [bound(spread) if isinstance(spread, _Spread) else spread for spread in self._spreads]

    def _run(
        self, number: int, amplitude: float, deadline: Callable[[], None] | None, nearest: bool = False
    ) -> list[Ball | Token]:
        result = evaluate(
            self.module,
            self.arguments,
            self.policy,
            rng=np.random.default_rng([self.seed, number]),
            amplitude=amplitude,
            declared=1.0 if number == 1 else DECLARED,
            flushed=self.flushed or nearest,
            nearest=nearest,
            resolved=self.resolved,
            known=self.known,
            memory_limit=self.memory_limit,
            deadline=deadline,
        )
        return flatten(result.value)


def _start(centre: Ball) -> _Spread:
    inexact = centre.dtype.is_float or centre.dtype.is_complex
    und = np.zeros(centre.mid.shape, bool) if centre.und is None else np.array(centre.und)
    if not inexact:
        return _Spread(centre, None, None, und)
    return _Spread(centre, np.zeros(centre.mid.shape), np.zeros(centre.mid.shape), und)


def _widen(spread: _Spread, leaf: Ball) -> None:
    centre = spread.centre
    if leaf.und is not None:
        spread.und |= leaf.und
    if spread.largest is None or spread.squares is None:
        spread.und |= leaf.mid != centre.mid
        return
    with np.errstate(all="ignore"):
        same = (leaf.mid == centre.mid) | (np.isnan(leaf.mid) & np.isnan(centre.mid))
        both = np.isfinite(leaf.mid) & np.isfinite(centre.mid)
        spread.und |= ~both & ~same
        moved = np.where(both, np.abs(leaf.mid - centre.mid), 0.0)
        np.maximum(spread.largest, moved, out=spread.largest)
        spread.squares += np.square(moved)


def _bound(spread: _Spread, runs: int, lifted: bool = True) -> Ball:
    """With as many runs as the spread is of, or, to see how small it can get, with more. lifted: where an element moved
    little, by what is typical of its array, which more runs may make less.
    """
    centre = spread.centre
    und = spread.und if spread.und.any() else None
    if spread.largest is None or spread.squares is None:
        return Ball(centre.dtype, centre.mid, None, und)
    finite = np.isfinite(centre.mid)
    size = np.where(finite, np.abs(centre.mid), 0.0)
    deviation = np.sqrt(spread.squares / runs)
    moved = finite & (size > 0) & (deviation > 0)
    moved &= np.isfinite(deviation)  # the squares of the largest values overflow
    if lifted and moved.any():
        absolute = np.median(deviation[moved])
        with np.errstate(over="ignore"):  # of the smallest ones
            relative = np.median(deviation[moved] / size[moved])
        deviation = np.clip(np.maximum(absolute, relative * size) * FLOOR, deviation, LIFT * deviation)
    # One rounding at the output is always granted.
    rad = np.maximum(SAFETY * deviation, LARGEST * spread.largest) + 2 * unit_roundoff(centre.dtype) * size
    tiny = 2 * smallest_normal(centre.dtype)
    rad = np.where((size < tiny) & (spread.largest > 0), np.maximum(rad, tiny), rad)  # one subnormal stands for another
    return Ball(centre.dtype, centre.mid, np.where(finite, rad, 0.0), und)
