"""Bounds from a spread of runs, where rigorous radii say nothing.

Interval radii forget that errors are shared: through a deep graph they grow by the norm of every layer, and in the end they say
nothing. A sampled run draws every rounding at random within what the policy allows and lets it go through the program as real
errors do, shared ones included (stochastic arithmetic: Vignes 1993; Parker 1997, "Monte Carlo Arithmetic"). The bound
of an element is `SAFETY` times the largest deviation seen in `runs` runs.

How sure is it? For Gaussian errors of one size, the chance that an honest result lies outside is below 20 / SAFETY**runs
(the smallness of all `runs` draws together): 5e-9 an element at 8 runs. Elements that happened to move little in all
runs are lifted to a share of their array's typical relative deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.hlo.module import Module
from assay.reference.context import unit_roundoff
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, flatten

SAFETY = 16.0
FLOOR = 0.25  # share of the array's median relative deviation that every element is granted


@dataclass(slots=True)
class _Spread:
    """What the runs have shown of one output: the largest deviation from the centre, and where runs contradict each other."""

    largest: Array | None
    und: Array


def sampled_bounds(
    module: Module,
    arguments: Sequence[Array],
    centre: Sequence[Ball | Token],
    policy: Policy,
    *,
    runs: int = 8,
    seed: int = 0,
    memory_limit: int = 8 << 30,
    progress: Callable[[int, int], None] | None = None,
    deadline: Callable[[], None] | None = None,
) -> list[Ball | Token]:
    """For each output leaf a ball with the midpoint of `centre` (the ball run) and a radius from `runs` sampled runs.

    An element is undecided where a run could not decide it, where integers differ between runs, or where a run is finite
    and another one is not.
    """
    spreads: list[_Spread | None] = [None] * len(centre)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        result = evaluate(module, arguments, policy, rng=rng, memory_limit=memory_limit, deadline=deadline)
        for index, (leaf, ball) in enumerate(zip(flatten(result.value), centre, strict=True)):
            if isinstance(leaf, Ball) and isinstance(ball, Ball):
                spreads[index] = _widen(spreads[index], leaf, ball)
        if progress is not None:
            progress(run + 1, runs)
    return [_bound(ball, spread) if isinstance(ball, Ball) else ball for ball, spread in zip(centre, spreads, strict=True)]


def _widen(spread: _Spread | None, leaf: Ball, centre: Ball) -> _Spread:
    und = np.zeros(centre.mid.shape, bool) if leaf.und is None else leaf.und.copy()
    largest: Array | None = None
    if centre.dtype.is_float or centre.dtype.is_complex:
        with np.errstate(all="ignore"):
            same = (leaf.mid == centre.mid) | (np.isnan(leaf.mid) & np.isnan(centre.mid))
            both = np.isfinite(leaf.mid) & np.isfinite(centre.mid)
            largest = np.where(both, np.abs(leaf.mid - centre.mid), 0.0)
            und |= ~both & ~same
    else:
        und |= leaf.mid != centre.mid
    if spread is None:
        return _Spread(largest, und)
    if largest is not None and spread.largest is not None:
        largest = np.maximum(largest, spread.largest)
    return _Spread(largest, und | spread.und)


def _bound(centre: Ball, spread: _Spread | None) -> Ball:
    assert spread is not None
    und = spread.und if spread.und.any() else None
    if spread.largest is None:
        return Ball(centre.dtype, centre.mid, None, und)
    finite = np.isfinite(centre.mid)
    size = np.where(finite, np.abs(centre.mid), 0.0)
    moved = finite & (size > 0) & (spread.largest > 0)
    relative = np.median(spread.largest[moved] / size[moved]) if moved.any() else 0.0
    # One rounding at the output is always granted.
    rad = SAFETY * np.maximum(spread.largest, FLOOR * relative * size) + 2 * unit_roundoff(centre.dtype) * size
    return Ball(centre.dtype, centre.mid, np.where(finite, rad, 0.0), und)
