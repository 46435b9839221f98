"""Sums of many terms, and what else makes one number of many: reductions, windows, scatters, dots, convolutions.

A sum of n terms of either sign and magnitude m may be n m; when inputs are planned it is taken to be what a sum of
values that know nothing of each other hardly ever exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from assay.hlo import attributes
from assay.inputs.flat import Node
from assay.inputs.rules.arithmetic import factors, product_span, sum_span, times
from assay.inputs.rules.rule import Asked, Forward, Need, Rule, View
from assay.inputs.span import INF, Span, whole

SPREAD = 0.75
"""Times the root of n and the greatest magnitude of a term. Of products of normal numbers, each taken to be at most 3
(`ranges.NORMAL`), that makes 6 standard deviations of their sum."""

LEAST = 2.0**-7
"""Of 16 terms that are not negative one is hardly ever smaller than this share of the greatest there may be."""


def sum_of(term: Span, count: int, likely: bool) -> Span:
    """The sum of `count` terms."""
    if count == 0:
        return Span(0, 0)
    low, high = times(term.low, count), times(term.high, count)
    nan = term.nan or (term.low == -INF and term.high == INF)
    if likely and count > 1 and term.finite and isinstance(term.low, float):
        middle, half = (term.low + term.high) / 2, (term.high - term.low) / 2
        few = LEAST * max(1, count // 16)
        width = SPREAD * half * math.sqrt(count)
        if term.low >= 0:
            low = max(low, term.high * few)  # hardly all of them are at their least
            high = min(high, count * middle + width)
        elif term.high <= 0:
            high, low = min(high, term.low * few), max(low, count * middle - width)
        else:
            low, high = max(low, count * min(0.0, middle) - width), min(high, count * max(0.0, middle) + width)
    return Span(low, high, 0.0, nan)


def _terms(view: View, node: Node) -> int:
    """How many elements go into one of the result."""
    array = view.nodes[node.operands[0]]
    if node.opcode == "reduce":
        return math.prod(array.dims[d] for d in attributes.int_list(node.instruction, "dimensions"))
    if node.opcode == "reduce-window":
        return math.prod(w.size for w in attributes.window(node.instruction))
    if node.opcode == "scatter":
        updates = math.prod(view.nodes[node.operands[2]].dims)
        return updates if not view.likely else min(updates, 4 + 4 * updates // max(1, math.prod(node.dims)))
    groups = attributes.replica_groups(node.instruction)
    return max((len(group) for group in groups), default=64)


def _combined(kind: str | None, first: Span, term: Span, count: int, likely: bool, node: Node) -> Span:
    """`first` combined with between 0 and `count` of the terms."""
    if kind == "add" and not node.dtype.is_complex:
        some = sum_of(term, count, likely)
        if likely:
            return sum_span(first, some)
        # Any number of terms may be missing (a window over an edge).
        return sum_span(first, Span(min(0, some.low), max(0, some.high), 0.0, some.nan))
    if kind == "multiply" and node.dtype.is_float:
        most = _raised(max(1.0, term.most), count)
        least = _raised(min(1.0, term.least), count)
        found = product_span(first, Span(least if term.low >= 0 else -most, most, 0.0, term.nan))
        return Span(found.low, found.high, 0.0, found.nan)
    if kind == "maximum":
        return Span(
            max(first.low, term.low) if count else first.low, max(first.high, term.high), 0.0, first.nan or term.nan
        )
    if kind == "minimum":
        return Span(
            min(first.low, term.low), min(first.high, term.high) if count else first.high, 0.0, first.nan or term.nan
        )
    if kind == "assign":
        return first.join(term)
    return whole(node.dtype)


def _raised(base: float, count: int) -> float:
    if base in (0.0, 1.0, INF) or count == 0:
        return 1.0 if count == 0 else base
    exponent = count * math.log2(base)
    return INF if exponent >= 1024 else 0.0 if exponent < -1100 else math.exp2(exponent)


def _partial(rule: Forward) -> Forward:
    """Sums on the way may be infinite with either sign, where the terms are large enough."""

    def forward(view: View, node: Node) -> Span:
        span = rule(view, node)
        if node.dtype.is_float and span.low < -node.dtype.max and span.high > node.dtype.max:
            return span._replace(nan=True)
        return span

    return forward


def _reduce(view: View, node: Node) -> Span:
    array, init = (view.spans[k] for k in node.operands)
    count = _terms(view, node)
    if node.kind == "add" and node.opcode == "reduce" and not node.dtype.is_complex:
        return sum_span(init, sum_of(array, count, view.likely))
    if node.kind in ("maximum", "minimum") and node.opcode == "reduce-window":
        # A window over an edge may be all padding.
        other = _combined(node.kind, init, array, count, view.likely, node)
        return other if _unpadded(node) else init.join(other)
    return _combined(node.kind, init, array, count, view.likely, node)


def _unpadded(node: Node) -> bool:
    return all(w.pad_low <= 0 and w.pad_high <= 0 and w.base_dilation == 1 for w in attributes.window(node.instruction))


def _reduce_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    term = view.spans[node.operands[0]]
    count = max(1, _terms(view, node))
    if node.kind == "add":
        yield 0, term_of(want, term, sum_of(term, count, view.likely), count)
    elif node.kind == "multiply":
        most = want.high ** (1 / count) if 0 < want.high < INF else INF
        least = max(want.low, want.gap, 0.0) ** (1 / count)
        if want.low > 0 or term.low >= 0:
            yield 0, Span(least, most)
        else:
            yield 0, Span(-min(most, (-want.low) ** (1 / count) if want.low < 0 else most), most, least)
    elif node.kind in ("maximum", "minimum"):
        yield 0, Span(want.low, want.high)


def term_of(want: Span, term: Span, total: Span, count: int) -> Span:
    """Where a term may be so that the sum is as wanted: the side that is too long is shortened by as much."""
    low, high = -INF, INF
    if want.gap and want.low <= 0 <= want.high:
        want = Span(want.gap, want.high) if total.high >= -total.low else Span(want.low, -want.gap)
    if total.high > want.high:
        if want.high <= 0:
            high = want.high / count
        else:
            high = want.high / count if total.high == INF else max(term.high, 0.0) * (want.high / total.high)
    if total.low < want.low:
        if want.low >= 0:
            low = want.low / count
        else:
            low = want.low / count if total.low == -INF else min(term.low, 0.0) * (want.low / total.low)
    return Span(low, high)


def _scatter(view: View, node: Node) -> Span:
    array, _, updates = (view.spans[k] for k in node.operands)
    if node.kind == "add" and not node.dtype.is_complex:
        some = sum_of(updates, _terms(view, node), view.likely)
        return sum_span(array, Span(min(0, some.low), max(0, some.high), 0.0, some.nan))
    if node.kind in ("maximum", "minimum"):
        return array.join(_combined(node.kind, array, updates, 1, view.likely, node))
    return _combined(node.kind, array, updates, _terms(view, node), view.likely, node)


def _scatter_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    array, _, updates = node.operands
    if node.kind == "add":
        now = _scatter(view, node)
        yield 0, term_of(want, view.spans[array], now, 1)
        yield 2, term_of(want, view.spans[updates], now, max(1, _terms(view, node)))
    else:
        yield 0, want
        yield 2, want


# ---- sums of products


def _depth(view: View, node: Node) -> int:
    """How many products go into one element of a dot or a convolution."""
    if node.opcode == "convolution":
        dims = attributes.convolution_dims(node.instruction)
        kernel = view.nodes[node.operands[1]].dims
        return math.prod(kernel[d] for d in dims.rhs_spatial) * kernel[dims.rhs_input_feature]
    dims_of_dot = attributes.dot_dims(node.instruction)
    left = view.nodes[node.operands[0]].dims
    return math.prod(left[d] for d in dims_of_dot.lhs_contracting)


def _products(view: View, node: Node) -> Span:
    if node.dtype.is_complex:
        return whole(node.dtype)
    a, b = (view.spans[k] for k in node.operands[:2])
    term = product_span(a, b)
    if node.dtype.is_float:  # of integers, too, which a dot may sum as floats
        term = Span(float(term.low), float(term.high), 0.0, term.nan)
    found = sum_of(term, _depth(view, node), view.likely)
    partial = node.opcode != "dot"  # a window over an edge, a ragged group: terms may be missing
    if partial and not view.likely:
        found = Span(min(0, found.low), max(0, found.high), 0.0, found.nan)
    return found


def _products_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    one, other = node.operands[:2]
    a, b = view.spans[one], view.spans[other]
    depth = max(1, _depth(view, node))
    term = product_span(a, b)
    asked = term_of(want, term, _products(view, node), depth)
    if one == other:
        most = math.sqrt(min(asked.high, -asked.low)) if asked.low < 0 < asked.high else INF
        yield 0, Span(-most, most)
        return
    for k, span in enumerate(factors(asked, a, b, view.moving[one], view.moving[other], view.attempt % 2 == 1)):
        if span is not None:
            yield k, span


def _group_sizes(view: View, node: Node) -> Iterator[Need]:
    """No size is negative; comfortably, the groups have about as many rows as there are."""
    sizes = view.nodes[node.operands[2]]
    (axis,) = attributes.int_list(node.instruction, "lhs_ragged_dims", required=True)
    rows = view.nodes[node.operands[0]].dims[axis]
    yield 2, Span(0, rows), Span(0, max(1, 2 * rows // max(1, math.prod(sizes.dims))))


def _scaled_dot(view: View, node: Node) -> Span:
    return whole(node.dtype)


def _select_and_scatter(view: View, node: Node) -> Span:
    _, source, init = (view.spans[k] for k in node.operands)
    if node.dtype.is_complex:
        return whole(node.dtype)
    window = math.prod(w.size for w in attributes.window(node.instruction))
    some = sum_of(source, window, view.likely)
    plain = sum_span(init, Span(min(0, some.low), max(0, some.high), 0.0, some.nan))
    return plain if node.kind == "add" else whole(node.dtype)


def _to_source(view: View, node: Node, want: Span) -> Iterator[Asked]:
    window = max(1, math.prod(w.size for w in attributes.window(node.instruction)))
    source = view.spans[node.operands[1]]
    yield 1, term_of(want, source, sum_of(source, window, view.likely), window)


def _across(view: View, node: Node) -> Span:
    """A reduction over devices, whose values are alike."""
    term = view.spans[node.operands[0]]
    count = _terms(view, node)
    if node.kind == "add" and not node.dtype.is_complex:
        return sum_of(term, 1, view.likely).join(sum_of(term, count, view.likely))
    if node.kind == "multiply" and node.dtype.is_float:
        return _combined(node.kind, term, term, count, view.likely, node)
    return term if node.kind in ("maximum", "minimum", "and", "or") else whole(node.dtype)


def _across_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    term = view.spans[node.operands[0]]
    yield 0, term_of(want, term, _across(view, node), _terms(view, node)) if node.kind == "add" else want


ACROSS = Rule(_partial(_across), _across_narrow)

RULES: dict[str, Rule] = {
    "all-reduce":         ACROSS,
    "all-reduce-start":   ACROSS,
    "collective-reduce":  ACROSS,
    "convolution":        Rule(_partial(_products), _products_narrow),
    "dot":                Rule(_partial(_products), _products_narrow),
    "ragged-dot":         Rule(_partial(_products), _products_narrow, _group_sizes),
    "reduce":             Rule(_partial(_reduce), _reduce_narrow),
    "reduce-scatter":     ACROSS,
    "reduce-window":      Rule(_partial(_reduce), _reduce_narrow),
    "scaled-dot":         Rule(_scaled_dot),
    "scatter":            Rule(_partial(_scatter), _scatter_narrow),
    "select-and-scatter": Rule(_partial(_select_and_scatter), _to_source),
}  # fmt: skip
