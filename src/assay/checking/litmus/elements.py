"""Preconditions of single elements: divisors, exponents, shifts, conversions, bits of NaN; and of single matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.checking.litmus.look import KEPT, Look, Said, Site
from assay.hlo.attributes import flag, word
from assay.hlo.shape import DType
from assay.reference.context import UNUSUAL, unit_roundoff
from assay.reference.value import Array, Ball, Value, as_ball

_COPIES = frozenset(("bitcast", "broadcast", "copy", "reshape", "reverse", "slice", "transpose"))


def _elements(broken: Array, doubtful: Array, why: str) -> Look:
    return Look(broken, doubtful & ~broken, why, elementwise=True)


def _open(ball: Ball) -> Array:
    return np.zeros(ball.mid.shape, np.bool_) if ball.und is None else np.asarray(ball.und)


def integers_alone(site: Site) -> Said | None:
    """Floats have a rule for every case."""
    return None if site.instruction.array.dtype.is_integer else KEPT


def divisor(site: Site, operands: Sequence[Value]) -> Look:
    a, b = (as_ball(operand) for operand in operands)
    bad = b.mid == 0
    doubt = _open(b)
    if a.dtype.kind == "signed":
        least = -(1 << (a.dtype.bits - 1))
        bad = bad | ((a.mid == least) & (b.mid == -1))
        doubt = doubt | (_open(a) & (b.mid == -1))
    return _elements(bad & ~doubt, doubt, "an integer divided by zero, or the least one by -1")


def exponent(site: Site, operands: Sequence[Value]) -> Look:
    power = as_ball(operands[1])
    return _elements((power.mid < 0) & ~_open(power), _open(power), "an integer to a negative power")


def shift(site: Site, operands: Sequence[Value]) -> Look:
    amount = as_ball(operands[1])
    bad = (amount.mid < 0) | (amount.mid >= amount.dtype.bits)
    return _elements(bad & ~_open(amount), _open(amount), f"a shift of {amount.dtype} by its width or more")


# ---- conversions


def narrows(site: Site) -> Said | None:
    source, target = site.operand_dtype(0), site.instruction.array.dtype
    if source is None or not (source.is_float or source.is_complex):
        return KEPT
    return None if target.is_integer or target.name in UNUSUAL else KEPT


def convert(site: Site, operands: Sequence[Value]) -> Look:
    a, target = as_ball(operands[0]), site.instruction.array.dtype
    mid = a.mid.real if a.dtype.is_complex else a.mid
    rad = 0.0 if a.rad is None else a.rad
    low, high = convertible(target)
    with np.errstate(invalid="ignore"):
        inside = (mid - rad >= low) & (mid + rad <= high)
        outside = (mid + rad < low) | (mid - rad > high)
    bad = (outside | np.isnan(mid)) & ~_open(a)
    return _elements(bad, _open(a) | ~inside, f"a value that {target} does not have")


def convertible(dtype: DType) -> tuple[float, float]:
    """The floats, inclusive, that have a value in the type; what truncates to an integer's ends is among them."""
    if dtype.is_integer:
        signed = dtype.kind == "signed"
        low, high = (-(1 << (dtype.bits - 1)) if signed else 0), (1 << (dtype.bits - signed)) - 1
        below = float(np.nextafter(float(low - 1), 0.0)) if dtype.bits < 53 else (float(low) if signed else -1 + 2**-53)
        return below, float(np.nextafter(float(high + 1), 0.0))
    if dtype.name == "f8e8m0fnu":
        return 2.0**-127, float(dtype.max)
    return -float(dtype.max), float(dtype.max)


def reads_float_bits(site: Site) -> Said | None:
    """Not where they are a constant's, as in `jax.lax.nextafter`: no operation gave them."""
    source = site.operand_dtype(0)
    same = source is not None and source.name == site.instruction.array.dtype.name
    reads = source is not None and (source.is_float or source.is_complex) and not same
    return None if reads and not _constant(site) else KEPT


def _constant(site: Site) -> bool:
    """Whether the operand is a constant that was moved at most."""
    made = site.computation.by_name[site.instruction.operands[0]]
    while made.opcode in _COPIES:
        made = site.computation.by_name[made.operands[0]]
    return made.opcode == "constant"


def nan_bits(site: Site, operands: Sequence[Value]) -> Look:
    a = as_ball(operands[0])
    same = a.dims == site.instruction.array.dims
    return Look(np.isnan(a.mid) & ~_open(a), _open(a), "the bits of a NaN", elementwise=same)


# ---- matrices, intervals


def definite(site: Site, operands: Sequence[Value]) -> Look:
    """By the eigenvalues; those within rounding of zero decide nothing."""
    a = as_ball(operands[0])
    n = a.dims[-1]
    if a.mid.size == 0:
        return Look(np.zeros((), np.bool_), np.zeros((), np.bool_))
    lower = flag(site.instruction, "lower")
    half = np.tril(a.mid) if lower else np.triu(a.mid)
    strict = np.tril(a.mid, -1) if lower else np.triu(a.mid, 1)
    whole = (half + np.conj(np.swapaxes(strict, -1, -2))).reshape(-1, n, n)
    finite = np.isfinite(whole).all((1, 2))
    values = np.linalg.eigvalsh(np.where(finite[:, None, None], whole, np.eye(n)))
    slack = 8 * n * unit_roundoff(a.dtype) * np.abs(values).max(1)
    if a.rad is not None:
        slack = slack + n * a.rad.reshape(-1, n, n).max((1, 2))
    skew = np.abs(np.imag(np.diagonal(whole, axis1=1, axis2=2))).max(1) > slack
    doubt = _open(a).reshape(-1, n * n).any(1)
    bad = (~finite | (values[:, 0] < -slack) | skew) & ~doubt
    unsure = doubt | (values[:, 0] <= slack)

    def spread(mask: Array) -> Array:
        return np.broadcast_to(mask.reshape(*a.dims[:-2], 1, 1), a.dims)

    return _elements(spread(bad), spread(unsure), "a matrix that is not positive definite")


def uniform(site: Site) -> Said | None:
    return None if word(site.instruction, "distribution", "") == "rng_uniform" else KEPT


def interval(site: Site, operands: Sequence[Value]) -> Look:
    low, high = (as_ball(operand) for operand in operands)
    unsure = bool((_open(low) | _open(high)).any()) or low.rad is not None or high.rad is not None
    empty = not bool(low.mid < high.mid)
    return Look(np.asarray(empty and not unsure), np.asarray(unsure), "an interval whose upper end is not above")
