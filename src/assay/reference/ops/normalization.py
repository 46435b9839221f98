"""`batch-norm-training`, `-inference` and `-grad`, as XLA expands them (batchnorm_expander.cc): their error is that of
the operations they are made of. The variance is E[x^2] - E[x]^2 there, whose cancellation is part of the bound.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.reference.context import Context
from assay.reference.folds import fold, over_axes
from assay.reference.ops.movement import moved
from assay.reference.registry import find, operation
from assay.reference.value import Ball, Value, as_ball, round_to, union


class _Channels:
    """The steps that the three operations share, for one operand with its feature axis."""

    def __init__(self, ctx: Context, instr: Instruction, x: Ball) -> None:
        self.ctx = ctx
        self.instr = instr
        self.dims = x.mid.shape
        self.axis = attributes.integer(instr, "feature_index")
        self.dtype = x.dtype
        self.others = tuple(d for d in range(len(self.dims)) if d != self.axis)
        self.count = prod(self.dims[d] for d in self.others)
        if self.dtype.is_float and self.count > self.dtype.max:
            raise Unsupported(instr.opcode, f"{self.dtype} does not hold the {self.count} elements a channel has")

    def constant(self, value: float) -> Ball:
        return Ball(self.dtype, round_to(self.dtype, np.asarray(value, np.float64)))

    def apply(self, opcode: str, *operands: Ball) -> Ball:
        shape = np.broadcast_shapes(*(x.mid.shape for x in operands))
        spread = [moved(x, lambda part: np.broadcast_to(part, shape)) for x in operands]
        return as_ball(find(opcode)(self.ctx, replace(self.instr, opcode=opcode), *spread))

    def across(self, x: Ball) -> Ball:
        """A value a channel, against the operand's shape."""
        shape = [1] * len(self.dims)
        shape[self.axis] = self.dims[self.axis]
        return moved(x, lambda part: np.broadcast_to(part.reshape(shape), self.dims))

    def sum(self, x: Ball) -> Ball:
        return fold(self.ctx, "add", x, self.constant(0.0), over_axes(self.ctx, self.dims, self.others))

    def mean(self, x: Ball) -> Ball:
        return self.apply("divide", self.sum(x), self.constant(self.count))

    def scale(self, variance: Ball) -> Ball:
        """1 / sqrt(variance + epsilon)"""
        return self.apply("rsqrt", self.apply("add", variance, self.epsilon()))

    def epsilon(self) -> Ball:
        """An f32 in XLA (xla_data.proto), whatever the operand's type: 0.001 in f64 is 0.0010000000474974513."""
        return self.constant(float(np.float32(attributes.number(self.instr, "epsilon"))))


@operation("batch-norm-inference")
def batch_norm_inference(
    ctx: Context, instr: Instruction, x: Ball, scale: Ball, offset: Ball, mean: Ball, variance: Ball
) -> Value:
    """(x - mean) s scale + offset, or x a + (offset - mean a) with a = s scale, as XLA's batchnorm_expander writes it:
    the ball holds both.
    """
    c = _Channels(ctx, instr, x)
    factor = c.apply("multiply", scale, c.scale(variance))
    shift = c.apply("subtract", offset, c.apply("multiply", mean, factor))
    folded = c.apply("add", c.apply("multiply", x, c.across(factor)), c.across(shift))
    return _either(_normalized(c, x, scale, offset, mean, variance), folded)


def _either(one: Ball, other: Ball) -> Ball:
    """`one`, with room for what another way to compute it allows."""
    und = union(one.und, other.und)
    apart = np.where(np.isfinite(one.mid) & np.isfinite(other.mid), np.abs(one.mid - other.mid), 0.0)
    reach = apart if other.rad is None else apart + other.rad
    rad = np.asarray(reach if one.rad is None else np.maximum(one.rad, reach))
    same = (one.mid == other.mid) | np.isnan(one.mid) & np.isnan(other.mid) | np.isfinite(one.mid - other.mid)
    rad = np.where(np.isfinite(one.mid), rad, 0.0)
    return Ball(one.dtype, one.mid, rad if rad.any() else None, und if same.all() else union(und, ~same))


def _normalized(c: _Channels, x: Ball, scale: Ball, offset: Ball, mean: Ball, variance: Ball) -> Ball:
    centred = c.apply("subtract", x, c.across(mean))
    scaled = c.apply("multiply", c.apply("multiply", centred, c.across(c.scale(variance))), c.across(scale))
    return c.apply("add", scaled, c.across(offset))


@operation("batch-norm-training")
def batch_norm_training(ctx: Context, instr: Instruction, x: Ball, scale: Ball, offset: Ball) -> Value:
    c = _Channels(ctx, instr, x)
    mean = c.mean(x)
    variance = c.apply("subtract", c.mean(c.apply("multiply", x, x)), c.apply("multiply", mean, mean))
    variance = c.apply("maximum", variance, c.constant(0.0))
    return _normalized(c, x, scale, offset, mean, variance), mean, variance


@operation("batch-norm-grad")
def batch_norm_grad(
    ctx: Context, instr: Instruction, x: Ball, scale: Ball, mean: Ball, variance: Ball, grad: Ball
) -> Value:
    """n = elements a channel, s = 1 / sqrt(variance + epsilon), m = x - mean:

    grad_offset = sum(g); grad_scale = sum(g m) s; grad_x = scale s / n (n g - sum(g) - m sum(g m) / (variance +
    epsilon))
    """
    c = _Channels(ctx, instr, x)
    centred = c.apply("subtract", x, c.across(mean))
    weighted = c.sum(c.apply("multiply", grad, centred))
    grad_offset = c.sum(grad)
    s = c.scale(variance)
    grad_scale = c.apply("multiply", weighted, s)
    slope = c.apply("divide", weighted, c.apply("add", variance, c.epsilon()))
    count = c.constant(c.count)
    inner = c.apply("subtract", c.apply("multiply", grad, count), c.across(grad_offset))
    inner = c.apply("subtract", inner, c.apply("multiply", centred, c.across(slope)))
    factor = c.apply("divide", c.apply("multiply", scale, s), count)
    return c.apply("multiply", inner, c.across(factor)), grad_scale, grad_offset
