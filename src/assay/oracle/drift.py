"""Errors that are too small to see in any one element and point the same way in all of them.

Where roundings of many different values average out, their mean over thousands of elements of a bf16 output is far
below a thousandth, while a constant that is 1 % off moves every element by 1 %. So the mean relative error of an output
is looked at, each element weighted by how well its value is known.

Roundings do not always average out: an update below half a last digit is lost, every time. So the mean that the program
has with every result rounded to the nearest value is granted, and all between it and none. Two constants that were
folded into one, or a divisor that became its reciprocal, are rounded once, and the error is in every element: `FOLDED`
roundoffs are granted for each factor that is a constant, and `GRANTED` in any case. Values that many elements share (a
row's sum, a scale) are rounded too; how much they move the mean is seen in runs of the reference with random legal
rounding.

No more is made of it than it can bear. Left alone are programs with loops, with sums or products in a narrow type, or
with a type that is narrower still than the output's; outputs that are less well known than a few roundings leave them,
of few different values, or moved by what their elements share; and types of more than `WIDEST` mantissa bits, in which
an error of a thousandth is seen in the elements themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.hlo.attributes import computation as called_computation
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType, leaves
from assay.reference.context import smallest_normal, unit_roundoff
from assay.reference.value import Array, Ball

GRANTED = 1.0  # unit roundoffs
FOLDED = 0.75
SPREAD = 6.0  # standard deviations
WIDEST = 10  # bits of f16
LOOSE = 24.0  # unit roundoffs: an element less well known than that does not count
FEWEST = 1024  # elements, by weight
DISTINCT = 128  # values, of a sample of 4,096
_SAMPLE = 4096


@dataclass(frozen=True, slots=True)
class Drift:
    """mean: of (target - reference) / reference. allowed: what a correct compiler may leave. Both relative, without
    sign of the value: 0.01 says that all elements are 1 % too far from zero.
    """

    mean: float
    allowed: float

    @property
    def suspicious(self) -> bool:
        return abs(self.mean) > self.allowed


@dataclass(frozen=True, slots=True)
class Scale:
    """Weighs the elements of one output: sum of weight * (target - mid) / mid, the weights adding up to 1.

    weight: over mid, 0 for elements that do not count. granted: a mean error that tells of nothing.
    """

    weight: Array
    mid: Array
    granted: float

    def mean_error(self, target: Array) -> float:
        """Of an array of the output's shape, any float type."""
        with np.errstate(all="ignore"):
            error = target.astype(np.float64) - self.mid
            return float((np.where(np.isfinite(error), error, 0.0) * self.weight).sum())


def scale(ball: Ball, factors: int) -> Scale | None:
    """For an output of a program that multiplies with so many constants; None where a drift cannot be told from
    rounding.
    """
    if ball.rad is None or ball.mid.size < FEWEST:
        return None
    u = unit_roundoff(ball.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(ball.mid)
        share = ball.rad / size
        usable = (share > 0) & (share <= LOOSE * u) & (size > 256 * smallest_normal(ball.dtype)) & np.isfinite(size)
        if ball.und is not None:
            usable &= ~ball.und
        weight = np.where(usable, np.maximum(share, u) ** -2.0, 0.0)
        total = weight.sum()
        if total == 0 or total**2 / np.square(weight).sum() < FEWEST or _few_values(ball.mid[usable]):
            return None
        return Scale(np.where(usable, weight / (total * ball.mid), 0.0), ball.mid, (GRANTED + FOLDED * factors) * u)


def _few_values(values: Array) -> bool:
    sample = np.abs(values[:: max(1, values.size // _SAMPLE)])
    return np.unique(sample).size < DISTINCT


def first_look(measure: Scale, target: Array) -> Drift:
    """With what constants may do alone: nearly all honest outputs are well within."""
    return Drift(measure.mean_error(target), measure.granted)


def second_look(measure: Scale, target: Array, runs: Sequence[Array], nearest: Array) -> Drift:
    """With what shared values may do besides, seen in `runs` of the reference with random legal rounding, and with what
    rounding to nearest does everywhere. Not suspicious where shared values do more than constants.
    """
    mean, rounded = measure.mean_error(target), measure.mean_error(nearest)
    spread = SPREAD * float(np.sqrt(np.square([measure.mean_error(run) for run in runs]).mean()))
    reach = max(0.0, rounded if mean > 0 else -rounded)
    return Drift(mean, math.inf if spread > measure.granted else reach + measure.granted + spread)


def bearable(module: Module, dtype: DType) -> bool:
    """Whether rounding errors of outputs of `dtype` may be expected to average out, and not to show by themselves (see
    above).
    """
    if not dtype.is_float or dtype.mantissa > WIDEST:
        return False
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode in ("while", "conditional", "scatter", "select-and-scatter", "custom-call"):
                return False
            floats = [s.dtype for s in leaves(instruction.shape) if isinstance(s, ArrayShape) and s.dtype.is_float]
            if any(narrower.mantissa < dtype.mantissa for narrower in floats):
                return False
            if instruction.opcode in ("reduce", "reduce-window") and any(t.mantissa <= WIDEST for t in floats):
                body = module.by_name[called_computation(instruction, "to_apply")]
                if body.root.opcode not in ("maximum", "minimum"):
                    return False
    return True


_SAME = {"bitcast", "broadcast", "convert", "copy", "reshape", "optimization-barrier", "opt-barrier"}


def constant_factors(module: Module) -> int:
    """Multiplications and divisions by constants that are no powers of two."""
    return sum(
        any(_rounded_constant(computation, operand) for operand in instruction.operands)
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode in ("multiply", "divide", "power")
    )


def _rounded_constant(computation: Computation, name: str) -> bool:
    made: Instruction = computation.by_name[name]
    while made.opcode in _SAME:
        made = computation.by_name[made.operands[0]]
    if made.literal is None:
        return False
    if not isinstance(made.shape, ArrayShape) or made.shape.size != 1 or made.shape.dtype.is_complex:
        return True
    value = literal_array(made.shape, made.literal).reshape(-1)[0]
    return bool(abs(np.frexp(np.float64(value))[0]) != 0.5)
