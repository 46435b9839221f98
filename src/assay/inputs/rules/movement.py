"""What only moves elements, or makes them another type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.literal import Literal, literal_array
from assay.hlo.shape import ArrayShape
from assay.inputs.flat import Node
from assay.inputs.rules.rule import Asked, Need, Rule, View
from assay.inputs.span import EVERYTHING, INF, Span, limits, whole


def _first(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]]


def _to_first(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, want


MOVED = Rule(_first, _to_first, back=_to_first)
PICKED = Rule(_first, _to_first)
"""Not every element of the operand is in the result, so that the result says nothing for certain of the operand."""


def _joined(view: View, node: Node) -> Span:
    found = view.spans[node.operands[0]]
    for k in node.operands[1:]:
        found = found.join(view.spans[k])
    return found


def _to_all(view: View, node: Node, want: Span) -> Iterator[Asked]:
    for k in range(len(node.operands)):
        yield k, want


def _pad(view: View, node: Node) -> Span:
    array, filling = (view.spans[k] for k in node.operands)
    padding = attributes.padding(node.instruction)
    return array if all(low <= 0 and high <= 0 and not inner for low, high, inner in padding) else array.join(filling)


def _bitcast(view: View, node: Node) -> Span:
    x = view.nodes[node.operands[0]]
    return view.spans[node.operands[0]] if x.dtype == node.dtype else whole(node.dtype)


def _bitcast_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    """Bits that stand for another type are another number: there a demand ends."""
    if view.nodes[node.operands[0]].dtype == node.dtype:
        yield 0, want


def _convert(view: View, node: Node) -> Span:
    x, source = view.spans[node.operands[0]], view.nodes[node.operands[0]].dtype
    if node.dtype.kind == "pred":
        return Span(1 if x.least > 0 else 0, 0 if x.low == x.high == 0 else 1)
    if node.dtype.is_complex or source.is_complex:
        return whole(node.dtype)
    if node.dtype.is_float:
        return Span(_float(x.low), _float(x.high), _float(x.gap), x.nan)
    if source.is_float:
        ends = limits(node.dtype)
        if x.nan or not (ends.low - 1 < x.low and x.high < ends.high + 1):
            return ends  # what a target makes of these is its own affair
        return Span(math.ceil(x.low) if x.low < 0 else math.floor(x.low), _toward_zero(x.high))
    return x


def _toward_zero(x: float) -> int:
    return math.floor(x) if x >= 0 else math.ceil(x)


def _float(x: float) -> float:
    try:
        return float(x)
    except OverflowError:
        return INF if x > 0 else -INF


def _convert_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if node.dtype.kind != "pred" and not view.nodes[node.operands[0]].dtype.is_complex:
        yield 0, want


def _convert_back(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if node.dtype.is_float and view.nodes[node.operands[0]].dtype.is_float:
        yield 0, want


def _select(view: View, node: Node) -> Span:
    choice, on_true, on_false = node.operands
    if view.spans[choice].low == 1:
        return view.spans[on_true]
    if view.spans[choice].high == 0:
        return view.spans[on_false]
    spans = [view.spans[on_true], view.spans[on_false]]
    if (number := _told_apart(view, choice)) is not None:
        compared, place = number
        if node.operands[1 + place] == compared:
            spans[place] = spans[place]._replace(nan=False)
    return spans[0].join(spans[1])


def _told_apart(view: View, choice: int) -> tuple[int, int] | None:
    """x, and which operand of a select it would be where it is a number, for a predicate x != x or x == x."""
    made = view.nodes[choice]
    if made.opcode != "compare" or len(set(made.operands)) != 1:
        return None
    direction = made.instruction.attributes.get("direction", "")
    return (made.operands[0], direction == "NE") if direction in ("NE", "EQ") else None


def _select_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    size = wrapped_index(view, node)
    if size is None:
        yield 1, want
        yield 2, want
    elif want.finite:
        # select(i < 0, i + n, i): negative indices count from the end, and they are worth a try.
        yield 2, Span(want.low if want.high != size - 1 else -size, want.high)


def wrapped_index(view: View, node: Node) -> int | None:
    """n where the node is select(i < 0, i + n, i), which is how NumPy's negative indices are lowered."""
    _, on_true, on_false = node.operands
    added = view.nodes[on_true]
    if added.opcode != "add" or on_false not in added.operands:
        return None
    other = view.spans[added.operands[1] if added.operands[0] == on_false else added.operands[0]]
    return int(other.low) if other.low == other.high and 0 < other.low < INF and node.dtype.is_integer else None


def _iota(view: View, node: Node) -> Span:
    last = node.dims[attributes.integer(node.instruction, "iota_dimension", 0)] - 1 if node.dims else 0
    number = float if node.dtype.is_float else int
    return Span(number(0), number(max(0, last)))


@lru_cache(maxsize=4096)
def _literal_span(shape: ArrayShape, literal: Literal) -> Span:
    if shape.dtype.is_complex or not 0 < shape.size <= 1 << 20:
        return EVERYTHING
    try:
        values = literal_array(shape, literal)
    except AssayError:
        return whole(shape.dtype)
    if not shape.dtype.is_float:
        if shape.dtype.kind == "pred" or shape.dtype.bits < 8:
            values = values.astype("int64")
        return Span(int(values.min()), int(values.max()))
    numbers = values.astype("float64")
    known = numbers[numbers == numbers]
    if not known.size:
        return Span(0.0, 0.0, 0.0, True)  # all are NaN, so that any bounds hold
    least = float(abs(known).min())
    return Span(float(known.min()), float(known.max()), least, known.size < numbers.size)


def _constant(view: View, node: Node) -> Span:
    literal = node.instruction.literal
    return whole(node.dtype) if literal is None else _literal_span(node.shape, literal)


def _reduce_precision(view: View, node: Node) -> Span:
    """As `span.stored`, for a type of any digits and exponents; below its smallest normal number it flushes to zero."""
    x = view.spans[node.operands[0]]
    digits = attributes.integer(node.instruction, "mantissa_bits")
    most = _largest_exponent(node)
    low, high = x.low - abs(x.low) * 2.0**-digits, x.high + abs(x.high) * 2.0**-digits
    if 0 < low < 2 * 2.0**-most:
        low = 0.0
    if -2 * 2.0**-most < high < 0:
        high = 0.0
    top = 2.0**most * (2 - 2.0**-digits)
    return Span(-INF if low < -top else low, INF if high > top else high, 0.0, x.nan)


def _largest_exponent(node: Node) -> int:
    bits = attributes.integer(node.instruction, "exponent_bits")
    return min(1023, (1 << (bits - 1)) - 1)


def _reduce_precision_needs(view: View, node: Node) -> Iterator[Need]:
    most = 2.0 ** _largest_exponent(node)
    yield 0, Span(-most, most), Span(-most / 2, most / 2)


def _unfed(view: View, node: Node) -> Span:
    """A phi or a parameter, whose span the walk sets."""
    return view.spans[node.operands[0]] if node.operands else whole(node.dtype)


def _guard(view: View, node: Node) -> Span:
    """A loop's counter inside the body: it is below the limit."""
    counter, limit = (view.spans[k] for k in node.operands)
    high = min(counter.high, limit.high - 1)
    return Span(min(counter.low, high), high)


def _size(view: View, node: Node) -> Span:
    dimension = attributes.int_list(node.instruction, "dimensions", required=True)[0]
    return Span(0, view.nodes[node.operands[0]].dims[dimension])


def _missing_is_zero(view: View, node: Node) -> Span:
    """A device that nothing is sent to has zeros."""
    return view.spans[node.operands[0]].join(Span(0, 0))


def _topk(view: View, node: Node) -> Span:
    """The largest values, and where they stand in the last dimension."""
    array = view.nodes[node.operands[0]]
    return Span(0, max(0, array.dims[-1] - 1)) if node.index else view.spans[node.operands[0]]


def _unknown(view: View, node: Node) -> Span:
    return whole(node.dtype)


RULES: dict[str, Rule] = {
    "all-gather":               MOVED,
    "all-gather-start":         MOVED,
    "all-to-all":               PICKED,
    "bitcast":                  Rule(_bitcast, _bitcast_back, back=_bitcast_back),
    "bitcast-convert":          Rule(_bitcast, _bitcast_back, back=_bitcast_back),
    "broadcast":                MOVED,
    "collective-broadcast":     Rule(_missing_is_zero, _to_first),
    "collective-permute":       Rule(_missing_is_zero, _to_first),
    "collective-permute-start": Rule(_missing_is_zero, _to_first),
    "concatenate":              Rule(_joined, _to_all, back=_to_all),
    "constant":                 Rule(_constant),
    "convert":                  Rule(_convert, _convert_narrow, back=_convert_back),
    "copy":                     MOVED,
    "dynamic-reshape":          PICKED,
    "get-dimension-size":       Rule(_size),
    "guard":                    Rule(_guard, _to_first),
    "iota":                     Rule(_iota),
    "pad":                      Rule(_pad, _to_all),
    "parameter":                Rule(_unfed),
    "phi":                      Rule(_joined, _to_all),
    "reduce-precision":         Rule(_reduce_precision, _to_first, _reduce_precision_needs),
    "reshape":                  MOVED,
    "reverse":                  MOVED,
    "select":                   Rule(_select, _select_narrow),
    "set-dimension-size":       PICKED,
    "shuffle":                  Rule(_unknown),
    "slice":                    PICKED,
    "sort":                     MOVED,
    "topk":                     Rule(_topk),
    "transpose":                MOVED,
}  # fmt: skip
