"""Arithmetic on elements: operands and result have one shape. Midpoints in float64, where f32 arithmetic is exact or rounds once.

Bounds are those of interval arithmetic in midpoint-radius form (Rump 1999, "Fast and parallel interval arithmetic").
"""

from __future__ import annotations

import numpy as np

from assay.hlo.module import Instruction
from assay.reference.context import Context, mark
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value, total, union, wrap


def _inexact(ball: Ball) -> bool:
    return ball.dtype.is_float or ball.dtype.is_complex


def product_radius(a: Ball, b: Ball) -> Array | None:
    """Radius of a product: |a|rb + ra|b| + ra rb."""
    parts: list[Array] = []
    if b.rad is not None:
        parts.append(np.abs(a.mid) * b.rad)
    if a.rad is not None:
        parts.append(a.rad * (np.abs(b.mid) if b.rad is None else np.abs(b.mid) + b.rad))
    # An infinity times a zero radius is no error.
    return total(*(np.where(np.isnan(p), 0.0, p) for p in parts))


@operation("add")
def add(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.kind == "pred":
        return Ball(a.dtype, a.mid | b.mid, None, und)
    if not _inexact(a):
        return Ball(a.dtype, wrap(a.dtype, a.mid + b.mid), None, und)
    return ctx.rounded(a.dtype, a.mid + b.mid, total(a.rad, b.rad), und)


@operation("subtract")
def subtract(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if not _inexact(a):
        return Ball(a.dtype, wrap(a.dtype, a.mid - b.mid), None, und)
    return ctx.rounded(a.dtype, a.mid - b.mid, total(a.rad, b.rad), und)


@operation("multiply")
def multiply(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    und = union(a.und, b.und)
    if a.dtype.kind == "pred":
        return Ball(a.dtype, a.mid & b.mid, None, und)
    if not _inexact(a):
        return Ball(a.dtype, wrap(a.dtype, a.mid * b.mid), None, und)
    if a.dtype.is_complex:
        raise NotImplementedError
    return ctx.rounded(a.dtype, a.mid * b.mid, product_radius(a, b), und)


@operation("negate")
def negate(ctx: Context, instr: Instruction, a: Ball) -> Value:
    mid = -a.mid if _inexact(a) else wrap(a.dtype, np.negative(a.mid))
    return Ball(a.dtype, mid, a.rad, a.und)
