"""The classes of inputs: what kind of values, and where they lie before anything is known of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.hlo.shape import ArrayShape, DType
from assay.inputs.domain import Domain
from assay.inputs.ranges import FLOOR, NORMAL, Box, ordinary, weight_shift
from assay.inputs.span import Span, limits
from assay.reference.value import Array

Generator = np.random.Generator
Draw = Callable[[Generator, "Want"], Array]


@dataclass(frozen=True, slots=True)
class Want:
    """A run of elements to draw: `count` of them from flat index `start` on, of a real or integer type.

    scalar: the parameter has no dimensions. part: 0, or 1 for imaginary parts.
    """

    dtype: DType
    domain: Domain
    start: int
    count: int
    scalar: bool = False
    part: int = 0


# ---- the classes


def _normal(rng: Generator, want: Want) -> Array:
    """Ordinary values. Floats: N(0, 1), or uniform between bounds; weights of a sum of n products are scaled by about
    1/sqrt(n), a power of two, so that deep programs neither explode nor saturate. Integers: see `_usual`."""
    dtype, domain = want.dtype, want.domain
    if not dtype.is_float:
        return _usual(rng, want)
    most = NORMAL * 2.0 ** -weight_shift(domain.fan_in)
    if domain.bounded and (domain.low > -most or domain.high < most):
        low, high = _ends(domain, -4.0, 4.0)
        return low + (high - low) * rng.random(want.count)
    values: Array = rng.standard_normal(want.count, np.float64 if dtype.name == "f64" else np.float32)
    if domain.positive:
        return np.asarray(np.maximum(np.abs(values), max(FLOOR, _smallest(dtype))))
    if domain.fan_in > 1:
        values *= 2.0 ** -weight_shift(domain.fan_in)
    return _clipped(values, domain)


def _usual(rng: Generator, want: Want) -> Array:
    """Integers: any in the domain. Without one: any bits where a type is narrow or unsigned (random keys), small
    magnitudes in s32 and s64, and 1 to 16 for a scalar, which may count something."""
    dtype = want.dtype
    if dtype.kind == "pred":
        return rng.integers(0, 2, want.count, np.uint8)
    least, greatest = _limits(dtype)
    if want.domain.bounded:
        low, high = integer_ends(want)
    elif want.scalar or want.domain.steps:
        low, high = min(1, greatest), min(16, greatest)
    elif dtype.bits <= 16 or dtype.kind == "unsigned":
        low, high = least, greatest
    else:
        low, high = -100, 100
    return _uniform(rng, dtype, low, high, want.count)


def _log_uniform(rng: Generator, want: Want) -> Array:
    """All magnitudes alike, over the middle half of the type's exponents: a product of two does not overflow."""
    dtype = want.dtype
    if not dtype.is_float:
        if dtype.kind == "pred" or want.domain.bounded or want.domain.steps:
            return _usual(rng, want)
        bits = rng.integers(0, dtype.bits, want.count, np.int64)
        values = rng.integers(0, 2**64, want.count, np.uint64, endpoint=False) >> (63 - bits).astype(np.uint64)
        return values if dtype.kind == "unsigned" else _wrapped(dtype, values)
    least, greatest = _middle(dtype)
    domain = want.domain
    if not domain.bounded:
        exponent = rng.integers(least, greatest, want.count, np.int64, endpoint=True)
        values = np.ldexp(1.0 + rng.random(want.count), exponent)
        sign = 1.0 if domain.positive else rng.integers(0, 2, want.count) * 2.0 - 1.0
        return values * sign
    low, high = max(domain.low, -dtype.max), min(domain.high, dtype.max)
    if low >= 0 or high <= 0:
        near, far = (low, high) if low >= 0 else (-high, -low)
        return np.copysign(_magnitudes(rng, want.count, near, far, least), 1.0 if low >= 0 else -1.0)
    up, down = (_magnitudes(rng, want.count, domain.nonzero, end, least) for end in (high, -low))
    return np.where(rng.integers(0, 2, want.count) == 1, up, -down)


def _middle(dtype: DType) -> tuple[int, int]:
    """The middle half of a type's exponents."""
    return -((-dtype.min_exponent) // 2), (int(np.frexp(dtype.max)[1]) - 1) // 2


def _magnitudes(rng: Generator, count: int, near: float, far: float, least: int) -> Array:
    """Between two magnitudes, each power of two alike; from a thousandth of the greater where the lesser is zero."""
    top = int(np.frexp(far)[1])
    bottom = int(np.frexp(near)[1]) - 1 if near > 0 else min(least, top - 10)
    exponent = rng.integers(min(bottom, top), top, count, np.int64)
    return np.clip(np.ldexp(1.0 + rng.random(count), exponent), near, far)


def _small_integers(rng: Generator, want: Want) -> Array:
    """-3 to 3: sums of products are exact in any order, so that every bound is zero and a wrong index cannot hide."""
    if want.dtype.kind == "pred" or (not want.dtype.is_float and want.domain.bounded):
        return _usual(rng, want)
    values = rng.integers(-3, 3, want.count, np.int64, endpoint=True)
    if want.domain.positive or want.domain.steps:
        values = np.abs(values) % 4 + 1
    if want.dtype.is_float:
        return _gridded(values.astype(np.float64), want.domain)
    return np.clip(np.abs(values) if want.dtype.kind == "unsigned" else values, *_limits(want.dtype))


def _sparse_integers(rng: Generator, want: Want) -> Array:
    """One in sixteen is 1 or -1, the rest 0: exact even where a type holds few integers and its sums are long."""
    if not want.dtype.is_float:
        return _small_integers(rng, want)
    values = rng.integers(0, 32, want.count, np.int64)
    if want.domain.positive:
        return _gridded(np.where(values == 0, 2.0, 1.0), want.domain)
    return _gridded(np.where(values == 0, 1.0, np.where(values == 1, -1.0, 0.0)), want.domain)


def _gridded(values: Array, domain: Domain) -> Array:
    """Integers of a few units, on the coarsest grid of a power of two of which the domain has enough points."""
    if not domain.bounded:
        return values
    low, high = domain.low, domain.high
    most, least = float(values.max(initial=0.0)), float(values.min(initial=0.0))
    if low <= least and most <= high:
        return values
    width = min(high, 2.0**60) - max(low, -(2.0**60))
    step = min(1.0, 2.0 ** (int(np.frexp(width / max(1.0, most - least))[1]) - 1)) if width > 0 else 1.0
    offset = 0.0
    if low > least * step:
        offset = np.ceil(low / step) * step - least * step
    elif high < most * step:
        offset = np.floor(high / step) * step - most * step
    return np.clip(values * step + offset, low, high)


def _stamps(rng: Generator, want: Want) -> Array:
    """Each element its own flat index, modulo an odd number up to which the type holds all integers: every place has
    another value than its neighbours, and rows of a power of two differ."""
    dtype, domain = want.dtype, want.domain
    index: Array = np.arange(want.start, want.start + want.count, dtype=np.int64) + want.part
    stamp: Array
    if dtype.kind == "pred":
        stamp = index % 3 == 0
    elif dtype.is_float and dtype.mantissa == 0:
        stamp = np.ldexp(1.0, index % 7)
    elif dtype.is_float:
        count = modulus(dtype)
        if domain.bounded:
            least, greatest = _ends(domain, 0.0, float(count))
            stamp = least + (greatest - least) * ((index % count) / count)
        else:
            stamp = index % count + int(domain.positive)
    else:
        low, high = integer_ends(want) if domain.bounded else (0, min(_limits(dtype)[1], 2**62))
        if domain.steps:
            low, high = min(1, _limits(dtype)[1]), min(16, _limits(dtype)[1])
        stamp = low + index % (high - low + 1)
    return stamp


def _zeros(rng: Generator, want: Want) -> Array:
    """Zero with either sign. Where zero is no value of the type or no index, the value next to it."""
    if want.dtype.is_float:
        values = np.where(rng.integers(0, 2, want.count) == 1, -0.0, 0.0)
        return np.ones(want.count) if want.dtype.mantissa == 0 else _clipped(values, want.domain)
    zeros = np.zeros(want.count, np.int64)
    return np.clip(zeros, *integer_ends(want)) if want.domain.bounded else zeros


_HALVES = np.array([0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.5, -2.5])


def _ties(rng: Generator, want: Want) -> Array:
    """Few distinct values, most of them halves: equal sort keys, and roundings that must go to even."""
    if want.dtype.kind == "pred" or want.domain.steps:
        return _usual(rng, want)
    if want.dtype.is_float:
        values = _HALVES[rng.integers(0, _HALVES.size, want.count)]
        return _clipped(np.abs(values) + 0.5 if want.domain.positive else values, want.domain)
    low, high = integer_ends(want) if want.domain.bounded else _limits(want.dtype)
    middle = min(max(0, low), high)
    return _uniform(rng, want.dtype, max(low, middle - 2), min(high, middle + 2), want.count)


def _edges(rng: Generator, want: Want) -> Array:
    """Half of them the ends of the type and of its subnormals, infinities, NaN, 1 and its neighbours; half ordinary."""
    plain = _normal(rng, want)
    if want.dtype.kind == "pred" or want.domain.steps:
        return plain
    special = _special_floats(want.dtype) if want.dtype.is_float else _special_integers(want)
    chosen = special[rng.integers(0, special.size, want.count)]
    return np.where(rng.integers(0, 2, want.count) == 1, chosen, plain.astype(chosen.dtype))


def _wild(rng: Generator, want: Want) -> Array:
    """All magnitudes that the type has, whatever the program makes of them: on the way results overflow and vanish."""
    dtype = want.dtype
    if not dtype.is_float or not dtype.mantissa or want.domain.steps:
        return _log_uniform(rng, want)
    least, greatest = dtype.min_exponent, int(np.frexp(dtype.max)[1]) - 1
    exponent = rng.integers(least, greatest, want.count, np.int64, endpoint=True)
    values = np.ldexp(1.0 + rng.random(want.count), exponent)
    sign = rng.integers(0, 2, want.count) * 2.0 - 1.0
    return np.asarray(np.minimum(values, dtype.max) * sign)


def _wide(shape: ArrayShape, domain: Domain) -> Span:
    dtype = shape.dtype
    if not dtype.is_float:
        return ordinary(shape, domain) if dtype.kind == "pred" or domain.steps else limits(dtype)
    least, greatest = _middle(dtype)
    most = min(dtype.max, 2.0 ** (greatest + 1))
    return Span(2.0**least if dtype.mantissa == 0 else -most, most, 2.0**least)


def _few(most: float) -> Box:
    def box(shape: ArrayShape, domain: Domain) -> Span:
        if shape.dtype.is_complex or domain.steps or shape.dtype.kind == "pred":
            return ordinary(shape, domain)
        ends = limits(shape.dtype)
        number = float if shape.dtype.is_float else int
        return Span(max(ends.low, number(-most)), min(ends.high, number(most)))

    return box


def _counted(shape: ArrayShape, domain: Domain) -> Span:
    dtype = shape.dtype
    if dtype.kind == "pred" or domain.steps or dtype.is_complex or (dtype.mantissa == 0 and dtype.is_float):
        return ordinary(shape, domain)
    return Span(0.0, float(modulus(dtype))) if dtype.is_float else Span(0, min(int(limits(dtype).high), 2**62))


def modulus(dtype: DType) -> int:
    """An odd number up to which the type holds all integers."""
    return min((1 << (dtype.mantissa + 1)) - 1, int(min(dtype.max, 2.0**62)))


BOXES: dict[str, Box] = {
    "normal":          ordinary,
    "log-uniform":     _wide,
    "small-integers":  _few(3),
    "sparse-integers": _few(1),
    "stamps":          _counted,
    "zeros":           ordinary,
    "ties":            _few(3),
    "edges":           ordinary,
    "wild":            _wide,
}  # fmt: skip
"""Where the elements of each class lie; of `edges` those that are ordinary, of `zeros` what takes the place of one that
cannot be."""

GRIDDED = frozenset(("small-integers", "sparse-integers", "stamps", "ties"))
"""Classes of few distinct numbers, or whole ones."""

MEANT = frozenset(("edges", "wild", "zeros"))
"""Classes that are to show what becomes of NaN, infinities and zeros: they keep them wherever the type has them."""

CLASSES: dict[str, Draw] = {
    "normal":         _normal,
    "log-uniform":    _log_uniform,
    "small-integers": _small_integers,
    "sparse-integers": _sparse_integers,
    "stamps":         _stamps,
    "zeros":          _zeros,
    "ties":           _ties,
    "edges":          _edges,
    "wild":           _wild,
}  # fmt: skip


# ---- what they are made of


def _special_floats(dtype: DType) -> Array:
    tiny, eps = _smallest(dtype), 2.0**-dtype.mantissa
    values = [1.0, 1.0 + eps, 1.0 - eps / 2, 2.0, dtype.max, tiny, tiny * eps, tiny * (1 - eps), 0.5, 1.0 / 3.0]
    if dtype.mantissa:
        values += [0.0] + [-value for value in (0.0, *values)]
    with np.errstate(all="ignore"):
        if np.isnan(np.asarray(np.nan).astype(dtype.numpy).astype(np.float64)):
            values += [np.nan] + ([np.inf, -np.inf] if dtype.has_inf else [])
    return np.array(values)


def _special_integers(want: Want) -> Array:
    low, high = integer_ends(want) if want.domain.bounded else _limits(want.dtype)
    values = {low, low + 1, high - 1, high, -1, 0, 1, 2**31 - 1, 2**31, 2**24 + 1, 2**53 + 1}
    inside = sorted(value for value in values if low <= value <= high)
    return np.array(inside, np.uint64 if want.dtype.kind == "unsigned" else np.int64)


def _smallest(dtype: DType) -> float:
    return float(2.0**dtype.min_exponent)


def _limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype.kind == "signed":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def integer_ends(want: Want) -> tuple[int, int]:
    """The domain's bounds clipped to the type; where nothing is left, the nearest value of the type."""
    least, greatest = _limits(want.dtype)
    low = int(min(max(want.domain.low, least), greatest)) if want.domain.low > least else least
    high = int(max(min(want.domain.high, greatest), least)) if want.domain.high < greatest else greatest
    return (low, high) if low <= high else (low, low)


def _ends(domain: Domain, low: float, high: float) -> tuple[float, float]:
    """The domain's bounds; a side that is free is as far from the other as `low` from `high`."""
    width = high - low
    if domain.low > -np.inf and domain.high < np.inf:
        return domain.low, max(domain.low, domain.high)
    if domain.low > -np.inf:
        return domain.low, domain.low + width
    if domain.high < np.inf:
        return domain.high - width, domain.high
    return low, high


def _clipped(values: Array, domain: Domain) -> Array:
    return np.clip(values, domain.low, domain.high) if domain.bounded else values


def _uniform(rng: Generator, dtype: DType, low: int, high: int, count: int) -> Array:
    return rng.integers(low, high, count, np.uint64 if dtype.kind == "unsigned" else np.int64, endpoint=True)


def _wrapped(dtype: DType, values: Array) -> Array:
    """Unsigned draws of up to 64 bits, as signed numbers of the type's width."""
    shift = np.uint64(64 - dtype.bits)
    result: Array = (values << shift).view(np.int64) >> np.int64(64 - dtype.bits)
    return result
