"""Spans: what is known of the elements of one array, or asked of them, as an interval.

Bounds are Python numbers: int for integers and predicates, exact at any width; float for the rest. A span of a complex
array says nothing (`EVERYTHING`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from assay.hlo.shape import DType

INF = math.inf


class Span(NamedTuple):
    """Every element v has low <= v <= high and |v| >= gap, or is NaN where `nan` allows it."""

    low: float
    high: float
    gap: float = 0.0
    nan: bool = False

    @property
    def least(self) -> float:
        """The least magnitude of an element."""
        return max(self.gap, self.low, -self.high, 0)

    @property
    def most(self) -> float:
        """The greatest magnitude of an element."""
        return max(abs(self.low), abs(self.high))

    @property
    def finite(self) -> bool:
        return self.low > -INF and self.high < INF

    @property
    def empty(self) -> bool:
        return self.low > self.high or self.gap > max(-self.low, self.high)

    def within(self, other: Span) -> bool:
        """Whether every element fits `other`, NaN aside."""
        return other.low <= self.low and self.high <= other.high and (not other.gap or other.gap <= self.least)

    def meet(self, other: Span) -> Span:
        """What satisfies both. A gap that reaches beyond an end moves the other one."""
        low, high, gap = max(self.low, other.low), min(self.high, other.high), max(self.gap, other.gap)
        if gap:
            low = gap if -gap < low < gap else low
            high = -gap if -gap < high < gap else high
        return Span(low, high, gap, self.nan and other.nan)

    def join(self, other: Span) -> Span:
        """What holds for the elements of either."""
        least = min(self.least, other.least) if self.gap or other.gap else 0.0
        return Span(min(self.low, other.low), max(self.high, other.high), least, self.nan or other.nan)

    def negated(self) -> Span:
        return Span(-self.high, -self.low, self.gap, self.nan)


EVERYTHING = Span(-INF, INF, 0.0, True)
ANY_NUMBER = Span(-INF, INF)
TRUTH = Span(0, 1)


@lru_cache(maxsize=256)
def limits(dtype: DType) -> Span:
    """The finite values of a type."""
    if dtype.kind == "pred":
        return TRUTH
    if dtype.kind == "signed":
        return Span(-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
    if dtype.kind == "unsigned":
        return Span(0, 2**dtype.bits - 1)
    if dtype.is_complex:
        return ANY_NUMBER
    if dtype.mantissa == 0:
        return Span(2.0**dtype.min_exponent, dtype.max, 2.0**dtype.min_exponent)
    return Span(-dtype.max, dtype.max)


@lru_cache(maxsize=256)
def whole(dtype: DType) -> Span:
    """Whatever a type holds, infinities and NaN included."""
    if dtype.is_integer or dtype.kind == "pred":
        return limits(dtype)
    return EVERYTHING


@lru_cache(maxsize=64)
def smallest(dtype: DType) -> float:
    """The smallest positive normal value."""
    return float(2.0**dtype.min_exponent)


@lru_cache(maxsize=64)
def _grain(dtype: DType) -> tuple[float, float, float, float]:
    """One ulp as a share of the value, the smallest subnormal, where rounding overflows, the largest value."""
    ulp = 2.0**-dtype.mantissa
    tiny = max(5e-324, float(2.0 ** max(-1074, dtype.min_exponent - dtype.mantissa)))
    return ulp, tiny, dtype.max * (1 - ulp / 4), dtype.max


SLACK = 2.0**-36
"""What a bound in double precision may be off by, as a share of it: many of its own roundings."""


def rounded(dtype: DType, span: Span) -> Span:
    """A computed span as a result of the type, rounded once, to nearest, or not at all. What is at most 1 is then at
    most 1: to round does not go past a number that the type holds.
    """
    if not dtype.is_float or dtype.mantissa > 30 or dtype.mantissa == 0:
        return stored(dtype, span)
    wide = stored(dtype, span)
    low, high = wide.low, wide.high
    if smallest(dtype) <= abs(span.low) <= dtype.max:
        low = max(low, _nearest(dtype, span.low, -SLACK))
    if smallest(dtype) <= abs(span.high) <= dtype.max:
        high = min(high, _nearest(dtype, span.high, SLACK))
    return Span(low, high, wide.gap, wide.nan)


def signed_alike(dtype: DType, near: Span, exact: Span) -> Span:
    """`near` without the zero that rounding alone has brought into it: for numbers of a type, narrower ones of which
    may be held in f32.
    """
    if not dtype.is_float:
        return near
    least = 2.0 ** min(-149, dtype.min_exponent - dtype.mantissa)
    low = max(near.low, least) if exact.low > 0 else near.low
    high = min(near.high, -least) if exact.high < 0 else near.high
    return Span(low, high, near.gap, near.nan)


def _nearest(dtype: DType, value: float, slack: float) -> float:
    """`value`, by a share of it to the right (or left), before or after it is rounded to the nearest of the type."""
    moved = value + abs(value) * slack
    fraction, exponent = math.frexp(moved)
    near = math.ldexp(round(math.ldexp(fraction, dtype.mantissa + 1)), exponent - dtype.mantissa - 1)
    if near == value:
        return value
    return min(near, moved) if slack < 0 else max(near, moved)


def stored(dtype: DType, span: Span) -> Span:
    """A computed span as the type holds it: one ulp wider on each side, and beyond the largest value infinite.

    Integers wrap, so that one that leaves its type may be anything. Where a type has no infinity, NaN stands for it.
    """
    low, high, gap, nan = span
    if not dtype.is_float:
        if dtype.is_complex:
            return EVERYTHING
        ends = limits(dtype)
        if low >= ends.low and high <= ends.high:
            return Span(low, high, gap, False)
        return ends
    ulp, tiny, brink, largest = _grain(dtype)
    if low and low > -INF:
        low = low - abs(low) * ulp - tiny if low < INF else largest
    if high and high < INF:
        high = high + abs(high) * ulp + tiny if high > -INF else -largest
    gap = max(0.0, gap - gap * ulp - tiny) if gap else 0.0
    if low < -brink:
        low, nan = (-INF, nan) if dtype.has_inf else (-largest, True)
    if high > brink:
        high, nan = (INF, nan) if dtype.has_inf else (largest, True)
    return Span(low, high, gap, nan)


def held(dtype: DType, span: Span) -> Span:
    """A computed span as the type holds it, its roundings aside."""
    if not dtype.is_float:
        return stored(dtype, span)
    if span.high > dtype.max or span.low < -dtype.max:
        return stored(dtype, span)
    return span


def inward(dtype: DType, span: Span) -> Span:
    """The span cut to bounds with few digits, which the type holds exactly.

    Elements drawn inside cannot be rounded out of it, and the last digits of a machine's logarithm do not show. Where
    nothing would be left, more digits are kept.
    """
    if not dtype.is_float:
        low, high = (round_in(end, way) for end, way in ((span.low, math.ceil), (span.high, math.floor)))
        return Span(low, max(low, high), span.gap)
    most = dtype.mantissa + 1
    for bits in sorted({min(most, bits) for bits in (8, 16, 24, 40, 53)}):
        low, high = cut_up(span.low, bits), -cut_up(-span.high, bits)
        gap = cut_up(span.gap, bits)
        found = Span(low, high, gap)
        if low < high and (span.low == -INF or span.high == INF or high - low > 0.7 * (span.high - span.low)):
            return found
    return found if not found.empty else Span(span.low, max(span.low, span.high), span.gap)


def round_in(value: float, way: object) -> float:
    assert callable(way)
    return value if isinstance(value, int) or not math.isfinite(value) else int(way(value))


def cut_up(value: float, bits: int) -> float:
    """The next number up that has so many binary digits."""
    if value == 0 or not math.isfinite(value):
        return value
    fraction, exponent = math.frexp(value)
    return math.ldexp(math.ceil(fraction * 2**bits), exponent - bits)
