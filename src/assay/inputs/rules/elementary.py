"""Functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from assay.inputs.flat import Node
from assay.inputs.rules.rule import Asked, Need, Rule, View
from assay.inputs.span import ANY_NUMBER, EVERYTHING, INF, Span, limits, smallest, whole

Function = Callable[[float], float]


# ---- total versions of what `math` has: beyond the ends of a type infinite, outside of a domain its end


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.7 else INF


def _exp2(x: float) -> float:
    return math.exp2(x) if x < 1024 else INF


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 709.7 else INF


def _log(x: float) -> float:
    return -INF if x <= 0 else math.log(x)


def _log2(x: float) -> float:
    return -INF if x <= 0 else math.log2(x)


def _log1p(x: float) -> float:
    return -INF if x <= -1 else math.log1p(x)


def _square(x: float) -> float:
    return 0.0 if x <= 0 else x * x


def _sqrt(x: float) -> float:
    return 0.0 if x <= 0 else math.sqrt(x)


def _rsqrt(x: float) -> float:
    return INF if x <= 0 else 1 / math.sqrt(x)


def _rsqrt_back(y: float) -> float:
    return INF if y <= 0 else 0.0 if y > 1e200 else 1 / (y * y)


def _cbrt(x: float) -> float:
    return math.cbrt(x)


def _cube(x: float) -> float:
    return x * x * x


def _tanh(x: float) -> float:
    return math.tanh(x)


def _atanh(y: float) -> float:
    return -INF if y <= -1 else INF if y >= 1 else math.atanh(y)


def _logistic(x: float) -> float:
    return 0.0 if x < -745 else 1 / (1 + math.exp(-x))


def _logit(y: float) -> float:
    return -INF if y <= 0 else INF if y >= 1 else math.log(y / (1 - y))


def _erf_back(y: float) -> float:
    if abs(y) >= 1:
        return math.copysign(INF, y)
    low, high = -6.0, 6.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


def _tan(y: float) -> float:
    return math.tan(y) if abs(y) < 1.57 else math.copysign(INF, y)


def _sinh(x: float) -> float:
    return math.sinh(x) if abs(x) < 710 else math.copysign(INF, x)


def _asinh(x: float) -> float:
    return math.asinh(x) if math.isfinite(x) else x


def _asin(x: float) -> float:
    return math.asin(max(-1.0, min(1.0, x)))


def _acosh(x: float) -> float:
    return 0.0 if x <= 1 else math.acosh(x) if x < INF else INF


def _cosh(x: float) -> float:
    return math.cosh(x) if abs(x) < 710 else INF


def _acosh_back(y: float) -> float:
    return _cosh(max(0.0, y))


def _sin(y: float) -> float:
    return math.sin(max(-math.pi / 2, min(math.pi / 2, y)))


# ---- monotone functions


def _monotone(f: Function, domain: Span, view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    nan = x.nan or x.low < domain.low or x.high > domain.high
    if x.low > domain.high or x.high < domain.low:
        return EVERYTHING
    return Span(f(max(x.low, domain.low)), f(min(x.high, domain.high)), 0.0, nan)


def _rising_back(inverse: Function, view: View, node: Node, want: Span) -> Iterator[Asked]:
    low = -INF if want.low == -INF else inverse(want.low)
    high = INF if want.high == INF else inverse(want.high)
    yield 0, Span(low, high)


def rising(f: Function, inverse: Function, domain: Span = ANY_NUMBER, needs: object = None) -> Rule:
    """A function that grows with its argument."""
    back = partial(_rising_back, inverse)
    return Rule(partial(_monotone, f, domain), back, needs, back)  # type: ignore[arg-type]


def _rsqrt_forward(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    if x.high < 0:
        return EVERYTHING
    low = _rsqrt(x.high) if x.low > 0 else -INF  # of a zero that is negative
    return Span(low, _rsqrt(x.low), 0.0, x.nan or x.low < 0)


def _rsqrt_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, Span(_rsqrt_back(want.high), _rsqrt_back(want.low))


def _acos(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    half = math.pi / 2
    return Span(half - _asin(x.high), half - _asin(x.low), 0.0, x.nan or x.low < -1 or x.high > 1)


def _acos_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, Span(-1.0 if want.high >= math.pi else math.cos(want.high), 1.0 if want.low <= 0 else math.cos(want.low))


# ---- what they need


def _at_least(low: float, soft: float) -> Callable[[View, Node], Iterator[Need]]:
    """More than `low`: comfortably by `soft`, with less comfort each time that planning failed."""

    def needs(view: View, node: Node) -> Iterator[Need]:
        dtype = node.dtype
        margin = soft ** (view.attempt + 1)
        room = view.spans[node.operands[0]].high - low
        margin = max(smallest(dtype), min(margin, room / 8) if room > 0 else margin)
        if low:  # next to it the type is coarser than next to zero
            margin = max(margin, abs(low) * 2.0**-dtype.mantissa)
        least = smallest(dtype) if not low else low + abs(low) * 2.0 ** -(dtype.mantissa + 1)
        yield 0, Span(least, INF), Span(low + margin, INF)

    return needs


def _between(low: float, high: float, opened: bool) -> Callable[[View, Node], Iterator[Need]]:
    def needs(view: View, node: Node) -> Iterator[Need]:
        margin = 2.0**-node.dtype.mantissa if opened else 0.0
        asked = Span(low + margin, high - margin)
        yield 0, asked, asked

    return needs


# ---- the others


def _negate(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]].negated()


def _negate_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, want.negated()


def _abs(view: View, node: Node) -> Span:
    if view.spans[node.operands[0]] is EVERYTHING:
        return Span(0, INF, 0.0, True)
    x = view.spans[node.operands[0]]
    return Span(x.least, x.most, x.gap, x.nan)


def _abs_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    x = view.spans[node.operands[0]]
    if want.high < 0:
        return
    least = max(want.low, want.gap, 0)
    if least > 0 and x.low >= 0:
        yield 0, Span(least, want.high)
    elif least > 0 and x.high <= 0:
        yield 0, Span(-want.high, -least)
    else:
        yield 0, Span(-want.high, want.high, least)


def _sign(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    one = 1 if node.dtype.is_integer else 1.0
    low = one if x.low > 0 else -one if x.low < 0 else 0
    high = -one if x.high < 0 else one if x.high > 0 else 0
    return Span(low, high, one if x.gap else 0, x.nan)


def _whole(f: Callable[[float], float]) -> Rule:
    """A function that rounds to an integer."""

    def forward(view: View, node: Node) -> Span:
        x = view.spans[node.operands[0]]
        low, high = (float(f(end)) if math.isfinite(end) else end for end in (x.low, x.high))
        return Span(low, high, 0.0, x.nan)

    return Rule(forward, _same_back)


def _same_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, want


def _away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def _wave(view: View, node: Node) -> Span:
    """Sine and cosine: between their ends, or up to 1 or down to -1 where the span has such a place in it."""
    x = view.spans[node.operands[0]]
    nan = x.nan or not x.finite
    turn = 2 * math.pi
    if not x.finite or x.most > 1e3 or x.high - x.low >= turn:
        return Span(-1.0, 1.0, 0.0, nan)
    wave, top = (math.sin, math.pi / 2) if node.opcode == "sine" else (math.cos, 0.0)
    ends = wave(x.low), wave(x.high)
    peak, trough = (math.ceil((x.low - at) / turn) <= (x.high - at) / turn for at in (top, top + math.pi))
    return Span(-1.0 if trough else min(ends), 1.0 if peak else max(ends), 0.0, nan)


def _wave_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    """The nearest stretch in which the function takes the values that are wanted."""
    low, high = max(-1.0, want.low), min(1.0, want.high)
    if low > high:
        return
    if want.gap > 0 and low < 0 < high:
        low, high = (want.gap, high) if high >= want.gap else (low, -want.gap)
    x = view.spans[node.operands[0]]
    middle = (x.low + x.high) / 2 if x.finite else 0.0
    if node.opcode == "sine":
        stretches = [(math.asin(low), math.asin(high)), (math.pi - math.asin(high), math.pi - math.asin(low))]
    elif high >= 1:
        stretches = [(-math.acos(low), math.acos(low))]
    else:
        stretches = [(math.acos(high), math.acos(low)), (-math.acos(low), -math.acos(high))]
    turn = 2 * math.pi
    near = []
    for one, other in stretches:
        shift = turn * round((middle - (one + other) / 2) / turn) if abs(middle) < 1e4 else 0.0
        near.append(Span(one + shift, other + shift))
    yield 0, min(near, key=lambda span: abs(span.low + span.high - 2 * middle))


def _wave_needs(view: View, node: Node) -> Iterator[Need]:
    ends = limits(node.dtype)
    yield 0, ends, ends


def _tan_forward(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    if x.low > -1.57 and x.high < 1.57:
        return Span(math.tan(x.low), math.tan(x.high), 0.0, x.nan)
    return Span(-INF, INF, 0.0, x.nan or not x.finite)


def _tan_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, Span(-1.5 if want.low == -INF else math.atan(want.low), 1.5 if want.high == INF else math.atan(want.high))


def _cosh_forward(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    return Span(_cosh(x.least), _cosh(x.most), 0.0, x.nan)


def _cosh_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if want.high >= 1:
        yield 0, Span(-_acosh(want.high), _acosh(want.high), _acosh(want.low))


def _bits(view: View, node: Node) -> Span:
    """A count of bits, or a truth."""
    return Span(0, view.nodes[node.operands[0]].dtype.bits)


def _not(view: View, node: Node) -> Span:
    x = view.spans[node.operands[0]]
    if node.dtype.kind == "pred":
        return Span(1 - x.high, 1 - x.low)
    if node.dtype.kind == "signed":
        return Span(-1 - x.high, -1 - x.low)
    return Span(2**node.dtype.bits - 1 - x.high, 2**node.dtype.bits - 1 - x.low)


def _truth(view: View, node: Node) -> Span:
    return Span(0, 1)


def _unknown(view: View, node: Node) -> Span:
    return whole(node.dtype)


def _real_part(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]] if node.dtype == view.nodes[node.operands[0]].dtype else EVERYTHING


_POSITIVE = _at_least(0.0, 2.0**-10)

RULES: dict[str, Rule] = {
    "abs":                   Rule(_abs, _abs_back, back=_abs_back),
    "acos":                  Rule(_acos, _acos_narrow, _between(-1.0, 1.0, False)),
    "acosh":                 rising(_acosh, _acosh_back, Span(1.0, INF), _between(1.0, INF, False)),
    "asin":                  rising(_asin, _sin, Span(-1.0, 1.0), _between(-1.0, 1.0, False)),
    "asinh":                 rising(_asinh, _sinh),
    "atan":                  rising(math.atan, _tan),
    "atanh":                 rising(_atanh, _tanh, Span(-1.0, 1.0), _between(-1.0, 1.0, True)),
    "cbrt":                  rising(_cbrt, _cube),
    "ceil":                  _whole(math.ceil),
    "count-leading-zeros":   Rule(_bits),
    "cosine":                Rule(_wave, _wave_narrow, _wave_needs),
    "cosh":                  Rule(_cosh_forward, _cosh_narrow),
    "erf":                   rising(math.erf, _erf_back),
    "exp2":                  rising(_exp2, _log2),
    "exponential":           rising(_exp, _log),
    "exponential-minus-one": rising(_expm1, _log1p),
    "floor":                 _whole(math.floor),
    "imag":                  Rule(_unknown),
    "is-finite":             Rule(_truth),
    "log":                   rising(_log, _exp, Span(0.0, INF), _POSITIVE),
    "log2":                  rising(_log2, _exp2, Span(0.0, INF), _POSITIVE),
    "log-plus-one":          rising(_log1p, _expm1, Span(-1.0, INF), _at_least(-1.0, 2.0**-5)),
    "logistic":              rising(_logistic, _logit),
    "negate":                Rule(_negate, _negate_back, back=_negate_back),
    "not":                   Rule(_not),
    "popcnt":                Rule(_bits),
    "real":                  Rule(_real_part),
    "round-nearest-afz":     _whole(_away),
    "round-nearest-even":    _whole(round),
    "rsqrt":                 Rule(_rsqrt_forward, _rsqrt_narrow, _POSITIVE, _rsqrt_narrow),
    "sign":                  Rule(_sign),
    "sine":                  Rule(_wave, _wave_narrow, _wave_needs),
    "sinh":                  rising(_sinh, _asinh),
    "sqrt":                  rising(_sqrt, _square, Span(0.0, INF), _between(0.0, INF, False)),
    "tan":                   Rule(_tan_forward, _tan_narrow, _wave_needs),
    "tanh":                  rising(_tanh, _atanh),
}  # fmt: skip
