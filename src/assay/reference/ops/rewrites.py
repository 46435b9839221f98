"""What a compiler may make of two neighbouring operations, and the error that this adds.

The rules are those of XLA's algebraic simplifier that change rounding: constants of two sums or products are put
together, factors are regrouped, a division becomes a product with a reciprocal or with rsqrt, exponentials are merged.
Each function gives the further absolute error of the second operation before its own rounding, None for none.
"""

from __future__ import annotations

import numpy as np

from assay.hlo.literal import literal_array
from assay.hlo.module import Instruction
from assay.hlo.shape import ArrayShape, DType
from assay.reference.context import Context
from assay.reference.rounding import flushes, smallest_normal, unit_roundoff
from assay.reference.value import Array, Ball, round_to, union

SUMS = {"add", "subtract"}
PRODUCTS = {"multiply", "divide", "power", "dot", "convolution"}
"""What may be one product in the end: a quotient by a constant, a square, a contraction over one element."""
ROUNDINGS = {"multiply": 1, "divide": 2, "parameter": 2}


def summed_constants(ctx: Context, instr: Instruction, dtype: DType) -> float:
    """(x + c) + d may become x + (c + d) with the rounding of c + d, c and d being constants; also with minus signs."""
    makers = ctx.makers(instr)
    if not any(made.opcode in SUMS for made in makers):
        return 0.0
    error = 0.0
    for first, second in ((0, 1), (1, 0)):
        d = scalar_constant(makers[second])
        if makers[first].opcode in SUMS and d is not None:
            for c in map(scalar_constant, ctx.makers(makers[first])):
                if c is not None:
                    both = np.array([c + d, c - d])
                    error = max(error, float(np.abs(round_to(dtype, both) - both).max()))
    return error if np.isfinite(error) else 0.0


def scalar_constant(made: Instruction) -> float | None:
    """The value of a float constant without dimensions."""
    if made.literal is None or not isinstance(made.shape, ArrayShape) or made.shape.dims:
        return None
    return float(literal_array(made.shape, made.literal)[()]) if made.shape.dtype.is_float else None


def may_regroup(ctx: Context, instr: Instruction, opcodes: set[str]) -> int:
    """How many operands come from one of `opcodes`, or from where it is not known."""
    return sum(maker in opcodes or maker == "parameter" for maker in ctx.producers(instr))


def regrouped_products(ctx: Context, instr: Instruction, dtype: DType, mid: Array, rad: Array | None) -> Array | None:
    """(a b) c may become a (b c), and (a b) / c become a (b R(1/c)): as many roundings as there were, one more for a
    reciprocal, but perhaps of products that do not fit where the first one did. A product among the operands is granted
    one unit roundoff and a quotient two, as far as `rad` does not hold them already.

    A product of products that is representable is so in every grouping: the odd parts of its factors are no longer
    than its own.
    """
    if ctx.rng is not None:  # a sampled run has drawn for the inner product
        return None
    count = sum(ROUNDINGS.get(maker, 0) for maker in ctx.producers(instr))
    if not count:
        return None
    inner = count * (1.01 * unit_roundoff(dtype)) * np.abs(mid)
    error = inner if rad is None else np.maximum(inner - rad, 0.0)
    error = np.where(np.isfinite(error), error, 0.0)
    if rad is None and instr.opcode == "multiply":
        return np.where(round_to(dtype, mid) == mid, 0.0, error)
    return error


def overflow_unseen(ctx: Context, instr: Instruction, a: Ball, b: Ball, mid: Array) -> Array | None:
    """Where a product has overflowed that need not be rounded before it is added to something (FMA): against another
    infinity the sum is then that one and not NaN, and a number may bring it back into range. None for nowhere.

    A product of an infinity is not told from one that overflows. A device that flushes subnormals, a TPU, rounds every
    product: its units have no such operation (`assay.llo.semantics` has all that kernels are made of).
    """
    if ctx.flushed or not ctx.policy.excess_precision or a.dtype.is_complex or np.isfinite(mid).all():
        return None
    found: Array | None = None
    for one, other, product in ((a, b, _is_product(ctx, instr, 0)), (b, a, _is_product(ctx, instr, 1))):
        infinite = np.isinf(one.mid)
        if product and infinite.any():
            back = np.abs(other.mid) >= a.dtype.max * 2.0**-26  # the least by which a product can be too large
            found = union(found, infinite & np.where(np.isinf(other.mid), np.isnan(mid), back))
    return found if found is not None and found.any() else None


def overflow_unseen_in_sum(
    ctx: Context, instr: Instruction, x: Ball, found: Array, axes: tuple[int, ...]
) -> Array | None:
    """The same of a reduction by addition over products: each may be added by an FMA."""
    if ctx.flushed or not ctx.policy.excess_precision or not x.dtype.is_float or np.isfinite(x.mid).all():
        return None
    if not _is_product(ctx, instr, 0):
        return None
    infinite, size = np.isinf(x.mid), np.abs(x.mid)
    back = (np.where(np.isfinite(size), size, 0.0) >= x.dtype.max * 2.0**-26).any(axis=axes)
    open_ = infinite.any(axis=axes) & ~np.isnan(x.mid).any(axis=axes) & (np.isnan(found) | back)
    return open_ if open_.any() else None


def _is_product(ctx: Context, instr: Instruction, operand: int) -> bool:
    """Whether an operand is a product, or the negative of one."""
    made = _maker(ctx, instr, operand)
    return made is not None and made.opcode in PRODUCTS


def _maker(ctx: Context, instr: Instruction, operand: int) -> Instruction | None:
    """Seen through negations."""
    makers = ctx.makers(instr)
    while makers and makers[operand].opcode == "negate":
        makers, operand = ctx.makers(makers[operand]), 0
    return makers[operand] if makers else None


def unrounded(ctx: Context, instr: Instruction, dtype: DType, *operands: Ball) -> Array | None:
    """Of a sum in a sampled run what its products may be off from what all others see of them: FMA takes a product as
    it is, and where it is worked out again for each that needs it one may have it rounded and another not. So x c less
    its own largest element need not be zero there.
    """
    if not ctx.draws or ctx.flushed or not ctx.policy.excess_precision or not dtype.is_float:
        return None
    assert ctx.rng is not None
    error: Array | None = None
    for number, operand in enumerate(operands):
        made = _maker(ctx, instr, number)
        if made is not None and ctx.inexact.get(id(made)) and ctx.rng.random() >= ctx.declared:
            size = np.where(np.isfinite(operand.mid), np.abs(operand.mid), 0.0)
            error = unit_roundoff(dtype) * size if error is None else error + unit_roundoff(dtype) * size
    return error


def merged_exponentials(ctx: Context, instr: Instruction, dtype: DType, mid: Array) -> Array | None:
    """Where exp(a) exp(b) may become exp(a + b), and exp(a)**b exp(a b): the exponent is the result's logarithm, by
    which its rounding is multiplied.
    """
    makers = ctx.producers(instr)[: 1 if instr.opcode == "power" else None]
    if not ctx.policy.merges_exponentials or not {"exponential", "parameter"}.issuperset(makers):
        return None
    if ctx.plain:
        return np.zeros(())
    size = np.abs(mid)
    usable = np.isfinite(mid) & (size > 0)
    return np.where(usable, 1.1 * unit_roundoff(dtype) * np.abs(np.log(np.where(usable, size, 1.0))) * size, 0.0)


def logarithm(ctx: Context, instr: Instruction, dtype: DType, mid: Array) -> Array | None:
    """log(a**b) may become b log(a), one rounding more. To make a of log(exp(a)) is no liberty where exp overflows
    (openxla/xla#42732).
    """
    if ctx.producers(instr)[0] not in ("power", "parameter"):
        return None
    return np.where(np.isfinite(mid), 1.1 * unit_roundoff(dtype) * np.abs(mid), 0.0)


def reciprocal(ctx: Context, dtype: DType, mid: Array, rad: Array | None, a: Ball, b: Ball) -> Array:
    """a / b may become a (1 / b) with the reciprocal rounded: u (1 + u) before the product's own rounding. Nothing
    where a or b is a power of two. A subnormal reciprocal is rounded to its own step where the target keeps them
    (XLA:CPU takes x / 60000 in f16 as x times a reciprocal of nine bits).
    """
    if ctx.plain:
        return np.zeros(())
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    size = np.abs(mid) if rad is None else np.abs(mid) + rad
    share: Array | float = 1.1 * u
    if not flushes(ctx.policy, dtype) and (np.abs(b.mid) > 1 / tiny).any():
        share = share + np.maximum(tiny * u * np.abs(b.mid) - u, 0.0)
    least = size if size.min(initial=np.inf) >= tiny else np.where(size > 0, np.maximum(size, tiny), 0.0)
    error = np.asarray(share * least)
    plain = power_of_two(b.mid)
    if a.rad is None:
        plain = plain | (power_of_two(a.mid) & (size >= tiny) & (np.abs(b.mid) <= 1 / tiny))
    error[~np.isfinite(error) | plain] = 0.0
    return error


def lost_reciprocal(ctx: Context, *divisors: Ball) -> Array | None:
    """Where a target may make zero of a quotient, or of what it works out by one, since the divisor's reciprocal is
    subnormal; None for nowhere. Of complex divisors the target forms the square of the size.
    """
    if not ctx.policy.flushes_reciprocals:
        return None
    found: Array | None = None
    for b in divisors:
        if b.dtype.bits > (64 if b.dtype.is_complex else 32):
            continue
        size = np.abs(b.mid) if b.rad is None else np.abs(b.mid) + b.rad
        most = 2.0**63 if b.dtype.is_complex else 2.0**126
        if (large := (size > most) & np.isfinite(b.mid)).any():
            found = large if found is None else found | large
    return found


def power_of_two(x: Array) -> Array:
    """By the bits of a float64: zeros and infinities count, subnormal numbers do not."""
    found: Array = (x.view(np.int64) & ((1 << 52) - 1)) == 0
    return found


def root_reciprocal(ctx: Context, instr: Instruction, dtype: DType, mid: Array) -> Array | None:
    """a / sqrt(b) may become a rsqrt(b), with the error of rsqrt's routine."""
    if ctx.producers(instr)[1] not in ("sqrt", "power", "parameter"):
        return None
    ulps = ctx.policy.routine_ulps("rsqrt", dtype.name)
    if ulps is None:
        return None
    return np.where(np.isfinite(mid), (2 * ulps + 1) * unit_roundoff(dtype) * np.abs(mid), 0.0)
