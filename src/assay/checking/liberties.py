"""What a mismatch may be put down to, beyond the skipped rounding that another compilation shows.

Each is a liberty that some allow a compiler; a mismatch that one of them explains whole is classed so, and stays a
mismatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assay.checking.bounds import Bounds
from assay.checking.promises import ties_alone
from assay.checking.weigh import Weighed, weigh, weigh_again
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, leaves
from assay.oracle.verdict import MismatchClass
from assay.programs.program import Array
from assay.reference.policies import strict
from assay.reference.rounding import smallest_normal
from assay.reference.value import Ball, Token

RUINED = 0.5
"""Of the size of an output: an error as large as that is no rounding, whatever the compiler may skip."""


def explained(bounds: Bounds, weighed: Weighed, target: Sequence[Array]) -> MismatchClass:
    """The liberty that explains all elements outside, or MISCOMPILE."""
    if not weighed.outside:
        return MismatchClass.MISCOMPILE
    if _flushed(weighed, target):
        return MismatchClass.FLUSHED_SUBNORMAL
    if ties_alone(bounds, weighed, target):
        return MismatchClass.SORT_TIE
    return MismatchClass.MISCOMPILE


def _flushed(weighed: Weighed, target: Sequence[Array]) -> bool:
    """Whether every element outside is zero where the reference has a subnormal of its type: it was not to be flushed,
    or the policy's bound would hold the zero.
    """
    balls = [leaf for leaf in weighed.balls if isinstance(leaf, Ball)]
    for ball, array, compared in zip(balls, target, weighed.comparisons, strict=True):
        mask = compared.outside_mask
        if mask is None:
            continue
        if not ball.dtype.is_float:
            return False
        mid, got = ball.mid[mask], array[mask].astype(np.float64)
        if not ((got == 0) & (mid != 0) & (np.abs(mid) < smallest_normal(ball.dtype))).all():
            return False
    return True


def ruined(bounds: Bounds, target: Sequence[Array]) -> Weighed | None:
    """Where a compiler that may skip declared roundings did so, and nothing of the result is left: an output outside
    the bounds with every rounding in place, and as far off as it is large. None for no such output, and where the
    target may not, or does not, skip any. Raises what `evaluate` raises.
    """
    policy = bounds.settings.policy
    if not policy.excess_precision or not narrows(bounds.module) or not any(map(_loose, bounds.plain())):
        return None
    settings = replace(bounds.settings, policy=strict(policy), own=policy)
    exact = Bounds(bounds.module, bounds.arguments, settings, bounds.step, bounds.seconds, [], bounds.flushed)
    weighed = weigh(exact, target)
    if weighed.outside:
        weighed = weigh_again(exact, target, weighed)
    if not weighed.outside:
        return None
    balls = [ball for ball in weighed.balls if isinstance(ball, Ball)]
    lost = [_lost(ball, array) for ball, array in zip(balls, target, strict=True)]
    return weighed if max(lost) >= RUINED else None


def _loose(ball: Ball | Token) -> bool:
    """Whether the radii leave room for an error of `RUINED`: two results within R of M differ by at most 2 R / (M - R)
    of the smaller one, which is less where 5 R < M, in the norms of the whole output.
    """
    if not isinstance(ball, Ball) or not ball.dtype.is_float or ball.rad is None:
        return False
    known = np.isfinite(ball.mid) if ball.und is None else np.isfinite(ball.mid) & ~ball.und
    mid, rad = ball.mid[known], ball.rad[known]
    size = float(np.max(np.abs(mid), initial=0.0))
    return size == 0.0 or bool(5 * np.linalg.norm(rad / size) >= np.linalg.norm(mid / size))


def narrows(module: Module) -> bool:
    """Whether something in it is rounded to a float narrower than f32."""
    return any(
        isinstance(leaf, ArrayShape) and leaf.dtype.is_float and leaf.dtype.bits < 32
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode in ("convert", "reduce-precision") or instruction.parameter_number is None
        for leaf in leaves(instruction.shape)
    )


def _lost(ball: Ball, target: Array) -> float:
    """How large the error of an output is, relative to the output, over its decided finite elements."""
    if not ball.dtype.is_float:
        return 0.0
    mid, got = ball.mid, target.astype(np.float64)
    sound = np.isfinite(mid) & np.isfinite(got)
    if ball.und is not None:
        sound &= ~ball.und
    mid, got = mid[sound], got[sound]
    size = float(np.max(np.abs(mid), initial=0.0))
    return float(np.linalg.norm((got - mid) / size) / np.linalg.norm(mid / size)) if size > 0.0 else 0.0
