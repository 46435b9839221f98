"""Sums, products, quotients, powers and what else takes two numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from assay.inputs.flat import Node
from assay.inputs.rules.rule import Asked, Need, Rule, View
from assay.inputs.span import INF, Span, limits, round_in, smallest, whole

HUGE = 1e300
"""Stands for infinity where room is shared out."""


NEAREST = 2.0**-10


def times(x: float, y: float) -> float:
    """A product of bounds, of which zero stays zero."""
    return 0 if x == 0 or y == 0 else x * y


# ---- sums


def sum_span(a: Span, b: Span) -> Span:
    low, high = a.low + b.low, a.high + b.high
    nan = a.nan or b.nan or (a.low == -INF and b.high == INF) or (a.high == INF and b.low == -INF)
    return Span(low if low == low else -INF, high if high == high else INF, 0.0, nan)


def _add(view: View, node: Node) -> Span:
    return sum_span(view.spans[node.operands[0]], view.spans[node.operands[1]])


def _subtract(view: View, node: Node) -> Span:
    if node.operands[0] == node.operands[1]:
        x = view.spans[node.operands[0]]
        return Span(0, 0, 0.0, x.nan or not x.finite)
    return sum_span(view.spans[node.operands[0]], view.spans[node.operands[1]].negated())


def share(want: Span, a: Span, b: Span, moves_a: bool, moves_b: bool, whole_numbers: bool) -> tuple[Span, Span]:
    """Where a and b may be so that a + b is as wanted: each gives way by its share of the room."""
    if not moves_a or not moves_b:
        fixed, free = (b, a) if moves_a else (a, b)
        low, high = want.low - fixed.low, want.high - fixed.high
        asked = Span(low, max(low, high) if low > -INF else high)
        if want.gap and want.low <= 0 <= want.high:  # the sum must not be zero: to the side that is nearer
            below, above = -fixed.high - want.gap, -fixed.low + want.gap
            side = abs(free.high - above) >= abs(free.low - below)
            asked = asked.meet(Span(above, INF) if side else Span(-INF, below))
        return (asked, Span(-INF, INF)) if moves_a else (Span(-INF, INF), asked)
    if want.gap and want.low < want.gap:
        want = Span(want.gap, want.high) if want.high >= want.gap else Span(want.low, -want.gap)
    a, b = (Span(max(-HUGE, x.low), min(HUGE, x.high)) for x in (a, b))
    low_a, low_b = _raised(want.low, a, b)
    high_a, high_b = (-end for end in _raised(-want.high, a.negated(), b.negated()))
    if whole_numbers:
        low_a, low_b, high_a, high_b = (
            *(round_in(x, math.ceil) for x in (low_a, low_b)),
            *(round_in(x, math.floor) for x in (high_a, high_b)),
        )
    return Span(low_a, high_a), Span(low_b, high_b)


def _raised(least: float, a: Span, b: Span) -> tuple[float, float]:
    """The least a and b may be for a sum of at least `least`: the lower one is raised, to the level of the other, and
    then both. Neither so far that next to nothing is left of it, as long as the other can make up for it. Minus
    infinity for one that stays."""
    if a.low + b.low >= least:
        return -INF, -INF
    low_a, low_b = max(a.low, least - b.low), b.low
    if a.low > b.low:
        low_a, low_b = a.low, max(b.low, least - a.low)
    if least > 2 * max(a.low, b.low):
        low_a = low_b = least / 2
    cap_a, cap_b = (x.high - min(x.high - x.low, max(abs(x.high), 2.0**-10)) / 4 for x in (a, b))
    if low_a > cap_a:
        low_a, low_b = cap_a, max(low_b, least - cap_a)
    elif low_b > cap_b:
        low_a, low_b = max(low_a, least - cap_b), cap_b
    return (-INF if low_a <= a.low else low_a), (-INF if low_b <= b.low else low_b)


def _add_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands
    if one == other:
        yield 0, Span(want.low / 2, want.high / 2, want.gap / 2)
        return
    spans = share(want, view.spans[one], view.spans[other], view.moving[one], view.moving[other], node.dtype.is_integer)
    yield from enumerate(spans)


def _subtract_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands
    a, b = share(
        want, view.spans[one], view.spans[other].negated(), view.moving[one], view.moving[other], node.dtype.is_integer
    )
    yield 0, a
    yield 1, b.negated()


def _add_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if node.operands[0] == node.operands[1] and not node.dtype.is_integer:
        yield 0, Span(want.low / 2, want.high / 2, want.gap / 2)
        return
    for k, other in ((0, 1), (1, 0)):
        yield k, sum_span(want, view.spans[node.operands[other]].negated())


def _subtract_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, sum_span(want, view.spans[node.operands[1]])
    yield 1, sum_span(view.spans[node.operands[0]], want.negated())


# ---- products


def product_span(a: Span, b: Span) -> Span:
    ends = [times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    nan = a.nan or b.nan or (a.least == 0 and not b.finite) or (b.least == 0 and not a.finite)
    return Span(min(ends), max(ends), times(a.least, b.least), nan)


def square_span(x: Span) -> Span:
    return Span(times(x.least, x.least), times(x.most, x.most), times(x.gap, x.gap), x.nan)


def _multiply(view: View, node: Node) -> Span:
    one, other = node.operands
    if one == other:
        return square_span(view.spans[one])
    return product_span(view.spans[one], view.spans[other])


def _side(span: Span) -> int:
    """1 where all elements are positive or zero, -1 where negative or zero, 0 where both occur."""
    return 1 if span.low >= 0 else -1 if span.high <= 0 else 0


def factors(want: Span, a: Span, b: Span, moves_a: bool, moves_b: bool, flip: bool = False) -> list[Span | None]:
    """Where a and b may be so that a * b is as wanted; None for one that may stay.

    Signs: one that is settled stays. Magnitudes: the larger factor gives way first, then both alike. flip: two
    factors whose signs are open become negative, not positive.
    """
    result = product_span(a, b)
    needed = 0
    if result.low < want.low and want.low >= 0:
        needed = 1
    elif result.high > want.high and want.high <= 0:
        needed = -1
    side_a, side_b = _side(a), _side(b)
    if needed:
        if not side_a and side_b and moves_a:
            side_a = needed * side_b
        elif not side_b and side_a and moves_b:
            side_b = needed * side_a
        elif not side_a and not side_b and moves_a and moves_b:
            side_a = -1 if flip else 1
            side_b = needed * side_a
        if side_a * side_b != needed:
            return [None, None]
    upper = want.high if needed > 0 else -want.low if needed < 0 else min(want.high, -want.low)
    if not needed and side_a * side_b:
        upper = want.high if side_a * side_b > 0 else -want.low
    lower = max(want.gap, want.low if needed > 0 else -want.high if needed < 0 else 0.0)
    most_a, most_b = _split_down(upper, min(a.most, HUGE), min(b.most, HUGE), moves_a, moves_b)
    least_a, least_b = _split_up(lower, a.least, b.least, most_a, most_b, moves_a, moves_b)
    return [
        _sided(side_a, least_a, most_a, a) if moves_a else None,
        _sided(side_b, least_b, most_b, b) if moves_b else None,
    ]


def _split_down(upper: float, a: float, b: float, moves_a: bool, moves_b: bool) -> tuple[float, float]:
    """The greatest magnitudes of two factors whose product is at most `upper`."""
    if upper < 0 or times(a, b) <= upper or a == 0 or b == 0:
        return a, b
    if not moves_a or not moves_b:
        return (upper / b, b) if moves_a else (a, upper / a)
    root = math.sqrt(upper)
    if b <= root:
        return upper / b, b
    if a <= root:
        return a, upper / a
    return root, root


def _split_up(
    lower: float, a: float, b: float, most_a: float, most_b: float, moves_a: bool, moves_b: bool
) -> tuple[float, float]:
    """The least magnitudes of two factors whose product is at least `lower`, none above half its greatest."""
    if lower <= 0 or times(a, b) >= lower:
        return a, b
    if not moves_a or not moves_b:
        fixed = b if moves_a else a
        other = lower / fixed if fixed > 0 else 0.0
        return (other, b) if moves_a else (a, other)
    root = math.sqrt(lower)
    if a >= root:
        return a, lower / a
    if b >= root:
        return lower / b, b
    one = min(root, most_a / 2)
    other = min(lower / one if one else root, most_b / 2)
    return max(one, lower / other if other else 0.0), other


def _sided(side: int, least: float, most: float, old: Span) -> Span:
    """Open where nothing changes."""
    most = INF if most >= min(old.most, HUGE) else most
    least = 0.0 if least <= old.least else least
    if side > 0:
        return Span(least, most)
    return Span(-most, -least) if side < 0 else Span(-most, most, least)


def _yielded(spans: list[Span | None]) -> Iterator[Asked]:
    for k, span in enumerate(spans):
        if span is not None:
            yield k, span


def _multiply_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands
    if one == other:
        most = math.sqrt(want.high) if 0 <= want.high < INF else INF
        least = math.sqrt(max(0, want.low, want.gap))
        yield 0, _signed(view.spans[one], least, most, node.dtype.is_integer)
        return
    found = factors(
        want, view.spans[one], view.spans[other], view.moving[one], view.moving[other], view.attempt % 2 == 1
    )
    if node.dtype.is_integer:
        exact = _exact_factor(view, node, want)
        if exact is not None:
            yield exact
            return
    yield from _yielded(found)


def _signed(old: Span, least: float, most: float, whole_numbers: bool) -> Span:
    if whole_numbers:
        least, most = math.ceil(least), math.floor(most) if most < INF else most
    if old.low >= 0:
        return Span(least, most)
    return Span(-most, -least) if old.high <= 0 else Span(-most, most, least)


def _exact_factor(view: View, node: Node, want: Span) -> Asked | None:
    """Of an integer times a positive constant."""
    for k, other in ((0, 1), (1, 0)):
        by = view.spans[node.operands[other]]
        if by.low == by.high and by.low > 0:
            low = want.low if want.low == -INF else -((-int(want.low)) // int(by.low))
            high = want.high if want.high == INF else int(want.high) // int(by.low)
            return k, Span(low, high)
    return None


def _multiply_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if node.dtype.is_integer:
        return  # products wrap
    one, other = node.operands
    if one == other:
        most = math.sqrt(want.high) if 0 <= want.high < INF else INF
        yield 0, Span(-most, most, math.sqrt(max(0.0, want.low)))
        return
    for k, by in ((0, other), (1, one)):
        span = view.spans[by]
        if span.least > 0:
            yield k, quotient_span(want, span)
        elif want.least > 0 and span.finite and span.most > 0:
            side = _side(span) * _side(want)
            least = want.least / span.most
            yield k, Span(least, INF) if side > 0 else Span(-INF, -least) if side < 0 else Span(-INF, INF, least)


# ---- quotients


def reciprocal(b: Span) -> Span:
    if b.least == 0:
        low = 0.0 if b.low >= 0 else -INF
        high = 0.0 if b.high <= 0 else INF
        return Span(low, high, 1 / b.most if 0 < b.most < INF else 0.0)
    least, most = (1 / b.most if b.most < INF else 0.0), 1 / b.least
    if b.low >= 0:
        return Span(least, most, least)
    if b.high <= 0:
        return Span(-most, -least, least)
    return Span(-most, most, least)


def quotient_span(a: Span, b: Span) -> Span:
    if b.least == 0:
        nan = a.nan or b.nan or a.least == 0 or not (a.finite and b.finite)
        side_a, side_b = _side(a), _side(b)
        if side_a and side_b:  # but an infinity of either sign, where a zero has either sign
            return Span(-INF, INF, 0.0, nan)
        return Span(-INF, INF, 0.0, nan)
    nan = a.nan or b.nan or not (a.finite or b.finite)
    inverse = reciprocal(b)
    ends = [times(x, y) for x in (a.low, a.high) for y in (inverse.low, inverse.high)]
    return Span(min(ends), max(ends), times(a.least, inverse.least), nan)


def _divide(view: View, node: Node) -> Span:
    a, b = (view.spans[k] for k in node.operands)
    if node.dtype.is_integer:
        return _integer_quotient(node, a, b)
    if node.dtype.is_complex:
        return whole(node.dtype)
    if node.operands[0] == node.operands[1]:
        return Span(1.0, 1.0, 0.0, a.nan or a.least == 0 or not a.finite)
    return quotient_span(a, hardly_zero(b) if view.likely else b)


def hardly_zero(b: Span) -> Span:
    """Of numbers that are spread about zero next to none is much nearer to it than the farthest."""
    return b._replace(gap=min(b.most, HUGE) * NEAREST) if b.least == 0 and b.most > 0 else b


def _integer_quotient(node: Node, a: Span, b: Span) -> Span:
    if b.least == 0:  # XLA: -1, or all ones
        return whole(node.dtype)
    ends = [_toward_zero(int(x), int(y)) for x in (a.low, a.high) for y in _integer_ends(b)]
    return Span(min(ends), max(ends))


def _integer_ends(b: Span) -> list[float]:
    ends = {b.low, b.high}
    if b.low < 0 < b.high:
        ends |= {-max(1, b.gap), max(1, b.gap)}
    return sorted(ends)


def _toward_zero(a: int, b: int) -> int:
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


def nonzero(view: View, node: Node) -> Iterator[Need]:
    """A divisor is not zero."""
    if node.dtype.is_integer:
        yield 1, Span(-INF, INF, 1), Span(-INF, INF, 1)
    elif node.dtype.is_float:
        b = view.spans[node.operands[1]]
        if view.likely and not view.grid and b.low < 0 < b.high and not given(view, node.operands[1]):
            return  # computed numbers on both sides of zero: none is zero but by chance
        soft = max(smallest(node.dtype), min(2.0 ** (-6 * (view.attempt + 1)), b.most / 8))
        yield 1, Span(-INF, INF, smallest(node.dtype)), Span(-INF, INF, soft)


def given(view: View, number: int) -> bool:
    """Whether a value is a parameter's, but for its place."""
    for _ in range(16):
        node = view.nodes[number]
        if node.opcode not in ("broadcast", "reshape", "copy", "bitcast", "transpose", "slice", "convert"):
            break
        number = node.operands[0]
    return node.opcode == "parameter"


def _divide_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands
    a, b = view.spans[one], view.spans[other]
    if node.dtype.is_integer:
        if b.low == b.high and b.low > 0:
            rest = b.low - 1
            yield 0, Span(want.low * b.low, want.high * b.low + rest if want.high < INF else INF)
        return
    inverse = reciprocal(hardly_zero(b) if view.likely else b)
    found = factors(want, a, inverse, view.moving[one], view.moving[other], view.attempt % 2 == 1)
    if found[0] is not None:
        yield 0, found[0]
    if found[1] is not None:
        divisor = reciprocal(found[1])
        yield 1, divisor


def _divide_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if not node.dtype.is_float or not want.finite:
        return
    a, b = (view.spans[k] for k in node.operands)
    if b.finite:
        yield 0, product_span(want, b)
    if want.least > 0 and a.finite:
        yield 1, quotient_span(a, want)


# ---- powers


def _power(view: View, node: Node) -> Span:
    base, exponent = (view.spans[k] for k in node.operands)
    if not node.dtype.is_float:
        return whole(node.dtype)
    constant = _constant_exponent(exponent)
    if constant is not None and constant == int(constant):
        raised = _integer_power(base, int(constant))
        return raised._replace(nan=raised.nan or exponent.nan)
    if base.low < 0:
        return _signed_power(base, exponent)
    logs = Span(_log2(base.low), _log2(base.high))
    found = product_span(logs, exponent)
    nan = base.nan or exponent.nan or not (exponent.finite and base.finite)
    low = _exp2(found.low) if base.low > 0 or exponent.low >= 0 else -INF  # of a zero that is negative
    return Span(low, _exp2(found.high), 0.0, nan)


def _signed_power(base: Span, exponent: Span) -> Span:
    """Of a base that may be negative: then a number where the exponent is an integer alone, NaN elsewhere."""
    low, high = (
        float(way(x)) if math.isfinite(x) else x for way, x in ((math.ceil, exponent.low), (math.floor, exponent.high))
    )
    if low == high and base.high < 0 and math.isfinite(low):
        return _integer_power(base, int(low))._replace(nan=True)
    odd = low < high or (low == high and low % 2 == 1)
    most = _exp2(product_span(Span(_log2(base.least), _log2(base.most)), exponent).high)
    return Span(-most if odd else 0.0, most, 0.0, True)


def _constant_exponent(exponent: Span) -> float | None:
    return exponent.low if exponent.low == exponent.high and math.isfinite(exponent.low) else None


def _integer_power(base: Span, n: int) -> Span:
    if n == 0:
        return Span(1.0, 1.0, 0.0, base.nan)
    if n < 0:
        return quotient_span(Span(1.0, 1.0), _integer_power(base, -n))
    if n % 2 == 0:
        return Span(_to_the(base.least, n), _to_the(base.most, n), 0.0, base.nan)
    return Span(_to_the(base.low, n), _to_the(base.high, n), _to_the(base.gap, n), base.nan)


def _to_the(x: float, n: int) -> float:
    magnitude = _exp2(n * math.log2(abs(x))) if 0 < abs(x) < INF else abs(x)
    return math.copysign(magnitude, x) if n % 2 else magnitude


def _log2(x: float) -> float:
    return -INF if x <= 0 else math.log2(x) if x < INF else INF


def _exp2(x: float) -> float:
    return INF if x >= 1024 else 0.0 if x < -1100 else math.exp2(x)


def _power_needs(view: View, node: Node) -> Iterator[Need]:
    exponent = view.spans[node.operands[1]]
    constant = _constant_exponent(exponent)
    if not node.dtype.is_float:
        return
    soft = max(smallest(node.dtype), 2.0 ** (-6 * (view.attempt + 1)))
    if constant is not None and constant == int(constant):
        if constant < 0:
            yield 0, Span(-INF, INF, smallest(node.dtype)), Span(-INF, INF, soft)
    elif exponent.low >= 0:
        yield 0, Span(0.0, INF), Span(soft, INF)
    else:
        yield 0, Span(smallest(node.dtype), INF), Span(soft, INF)


def _power_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands
    base, exponent = view.spans[one], view.spans[other]
    constant = _constant_exponent(exponent)
    most, least = min(want.high, HUGE), max(want.low, want.gap)
    if constant is not None and constant == int(constant) and base.low < 0:
        if constant == 0 or most <= 0:
            return
        least_base, most_base = (
            (_exp2(_log2(end) / abs(constant)) if end > 0 else 0.0)
            for end in ((least, most) if constant > 0 else (1 / most, 1 / least if least > 0 else INF))
        )
        yield 0, _signed(base, least_base, most_base, False)
        return
    if want.high <= 0:
        return
    logs = Span(max(-1074, _log2(base.low)), min(1024, _log2(base.high)))
    asked = factors(
        Span(_log2(least), _log2(most)), logs, exponent, view.moving[one], view.moving[other], view.attempt % 2 == 1
    )
    if asked[0] is not None:
        yield 0, Span(_exp2(asked[0].low), _exp2(asked[0].high))
    if asked[1] is not None:
        yield 1, asked[1]


def _power_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    """What is negative is an odd power of what is negative; of zero only the power 0 is neither zero nor infinite."""
    if not node.dtype.is_float:
        return
    if want.high < 0:
        yield 0, Span(-INF, 0.0 if want.low == -INF else -5e-324)
    if want.least > 0 and want.finite and view.spans[node.operands[0]].most == 0:
        yield 1, Span(0.0, 0.0)


# ---- the rest


def _remainder(view: View, node: Node) -> Span:
    a, b = (view.spans[k] for k in node.operands)
    if node.dtype.is_complex or (b.least == 0 and node.dtype.is_integer):
        return whole(node.dtype)
    most = min(a.most, b.most - 1 if node.dtype.is_integer else b.most)
    nan = a.nan or b.nan or b.least == 0 or not a.finite
    return Span(-most if a.low < 0 else 0, most if a.high > 0 else 0, 0.0, nan)


def _extremum(view: View, node: Node) -> Span:
    a, b = (view.spans[k] for k in node.operands)
    pick = max if node.opcode == "maximum" else min
    return Span(pick(a.low, b.low), pick(a.high, b.high), min(a.least, b.least), a.nan or b.nan)


def _extremum_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    """Both operands, so that each is what the result is taken from now and then."""
    for k in (0, 1):
        yield k, want


def _extremum_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    for k in (0, 1):
        yield k, Span(-INF, want.high) if node.opcode == "maximum" else Span(want.low, INF)


def _clamp(view: View, node: Node) -> Span:
    least, x, most = (view.spans[k] for k in node.operands)
    low, high = min(max(x.low, least.low), most.low), min(max(x.high, least.high), most.high)
    return Span(min(low, high), max(low, high), 0.0, least.nan or x.nan or most.nan)


def _clamp_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 1, want


def _atan2(view: View, node: Node) -> Span:
    y, x = (view.spans[k] for k in node.operands)
    return Span(-math.pi, math.pi, 0.0, y.nan or x.nan) if node.dtype.is_float else whole(node.dtype)


def _bitwise(view: View, node: Node) -> Span:
    """No bit of either is above the highest of both, where neither is negative."""
    a, b = (view.spans[k] for k in node.operands)
    if a.low < 0 or b.low < 0:
        if node.opcode == "and" and max(a.low, b.low) >= 0:
            return Span(0, a.high if a.low >= 0 else b.high)
        return whole(node.dtype)
    if node.opcode == "and":
        return Span(1 if a.low == b.low == 1 and node.dtype.kind == "pred" else 0, min(a.high, b.high))
    top = (1 << max(int(a.high).bit_length(), int(b.high).bit_length())) - 1
    return Span(max(a.low, b.low) if node.opcode == "or" else 0, top)


def _shift(view: View, node: Node) -> Span:
    """To the right by a known number of bits, of what is not negative."""
    a, by = (view.spans[k] for k in node.operands)
    if node.opcode == "shift-right-arithmetic" and node.dtype.kind != "signed":
        return whole(node.dtype)  # the highest bit counts as a sign
    if node.opcode == "shift-left" or a.low < 0 or by.low < 0 or by.high >= node.dtype.bits:
        signed = node.opcode == "shift-right-arithmetic" and node.dtype.kind == "signed"
        return Span(min(a.low, 0), max(a.high, 0)) if signed and by.low >= 0 else whole(node.dtype)
    return Span(int(a.low) >> int(by.high), int(a.high) >> int(by.low))


def _shift_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    by = view.spans[node.operands[1]]
    if by.low == by.high and 0 <= by.low < node.dtype.bits and want.finite and node.opcode != "shift-left":
        yield 0, Span(int(want.low) << int(by.low), ((int(want.high) + 1) << int(by.low)) - 1)


def _unknown(view: View, node: Node) -> Span:
    return whole(node.dtype)


def _compare(view: View, node: Node) -> Span:
    return Span(0, 1)


def _complex(view: View, node: Node) -> Span:
    return limits(node.dtype)


RULES: dict[str, Rule] = {
    "add":                    Rule(_add, _add_narrow, back=_add_back),
    "and":                    Rule(_bitwise),
    "atan2":                  Rule(_atan2),
    "clamp":                  Rule(_clamp, _clamp_narrow),
    "compare":                Rule(_compare),
    "complex":                Rule(_complex),
    "divide":                 Rule(_divide, _divide_narrow, nonzero, _divide_back),
    "maximum":                Rule(_extremum, _extremum_narrow, back=_extremum_back),
    "minimum":                Rule(_extremum, _extremum_narrow, back=_extremum_back),
    "mulhi":                  Rule(_unknown),
    "multiply":               Rule(_multiply, _multiply_narrow, back=_multiply_back),
    "or":                     Rule(_bitwise),
    "power":                  Rule(_power, _power_narrow, _power_needs, _power_back),
    "remainder":              Rule(_remainder, needs=nonzero),
    "shift-left":             Rule(_shift),
    "shift-right-arithmetic": Rule(_shift, _shift_narrow),
    "shift-right-logical":    Rule(_shift, _shift_narrow),
    "subtract":               Rule(_subtract, _subtract_narrow, back=_subtract_back),
    "xor":                    Rule(_bitwise),
}  # fmt: skip
