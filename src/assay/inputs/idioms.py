"""Facts that intervals alone do not see, because two operands depend on each other.

- x - max(x) is at most 0, x - min(x) at least; the sum of exp(x - max(x)) along the maximum is at least 1.
- e / sum(e), for e >= 0, is between 0 and 1.
- mean(x*x) - mean(x)**2 is a variance: negative by no more than rounding.
- d * rsqrt(mean(d*d) + eps) is at most the root of the number of elements.
- x + -x is 0; min(x, y) - x, -|x| - x, log(x) - x and the like are at most 0; x / -x is -1, x * -x at most 0.

Each is looked for by the structure of the graph, through fusions and whatever only spreads, reshapes or converts, and
only where dimensions line up: the reduced value must come back to the places that it was reduced from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assay.hlo import attributes
from assay.inputs.flat import Flat, Node
from assay.inputs.order import Order, first_alike
from assay.inputs.rules.reduction import LEAST
from assay.inputs.rules.rule import View
from assay.inputs.span import ANY_NUMBER, INF, Span, limits

Fact = Callable[[View], Span]
"""What more is known of a node, from the spans of all of them."""

_STEPS = 32
_NAMING = frozenset(("copy", "bitcast", "convert", "reduce-precision"))


def facts(flat: Flat) -> dict[int, Fact]:
    """The facts of each node that has some."""
    found: dict[int, Fact] = {}
    same = first_alike(flat.nodes)
    for number, node in enumerate(flat.nodes):
        finder = _FINDERS.get(node.opcode)
        if finder is not None and (node.dtype.is_float or node.opcode == "select"):
            for fact in finder(flat.nodes, node, number, same):
                found[number] = fact
    return found


def plain(nodes: list[Node], number: int) -> int:
    """The node under copies and float conversions, which leave each element where it is and nearly what it is."""
    for _ in range(_STEPS):
        node = nodes[number]
        if node.opcode not in _NAMING or not node.dtype.is_float or nodes[node.operands[0]].dims != node.dims:
            break
        if not nodes[node.operands[0]].dtype.is_float:
            break
        number = node.operands[0]
    return number


def spread(nodes: list[Node], number: int) -> tuple[int, dict[int, int]]:
    """The node whose elements are spread over `number`, and for each of its dimensions which one of `number` it is.

    Dimensions of one element are left out.
    """
    place = {d: d for d in range(len(nodes[number].dims))}
    for _ in range(_STEPS):
        node = nodes[number]
        if node.opcode == "broadcast":
            where = attributes.int_list(node.instruction, "dimensions")
            place = {k: place[d] for k, d in enumerate(where) if d in place}
        elif node.opcode in ("reshape", "bitcast", "copy", "convert", "reduce-precision"):
            inner = nodes[node.operands[0]]
            if (node.opcode == "bitcast" and inner.dtype != node.dtype) or not inner.dtype.is_float:
                break
            mapped = _reshaped(inner.dims, node.dims)
            if mapped is None:
                break
            place = {k: place[d] for k, d in mapped.items() if d in place}
        else:
            break
        number = node.operands[0]
    return number, place


def _reshaped(inner: tuple[int, ...], outer: tuple[int, ...]) -> dict[int, int] | None:
    """Which dimension each one comes to lie in, where a reshape only adds and removes dimensions of one element."""
    if inner == outer:
        return {d: d for d in range(len(inner))}
    mine = [d for d, size in enumerate(inner) if size != 1]
    others = [d for d, size in enumerate(outer) if size != 1]
    if [inner[d] for d in mine] != [outer[d] for d in others]:
        return None
    return dict(zip(mine, others, strict=True))


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A value that spreads a reduction: the node that reduces, and where the dimensions of its result come to lie."""

    node: Node
    place: dict[int, int]
    unless_infinite: bool = False
    """Whether zero stands for it where it is infinite."""


def _reduction(nodes: list[Node], number: int, kind: str) -> _Reduced | None:
    reduced, place = spread(nodes, number)
    masked = False
    for _ in range(3):
        node = nodes[reduced]
        finite = node.opcode == "select" and nodes[spread(nodes, node.operands[0])[0]].opcode == "is-finite"
        masked = masked or finite
        # max(max(x), -inf) or the like, as jax.nn.softmax has it: still not less. jax.nn.logsumexp has zero for a
        # maximum that is infinite.
        candidates = node.operands[1:2] if finite else node.operands if node.opcode == kind else ()
        for operand in candidates:
            inner, further = spread(nodes, operand)
            if nodes[inner].opcode in ("reduce", kind, "select"):
                reduced, place = inner, {k: place[d] for k, d in further.items() if d in place}
                break
        else:
            break
    node = nodes[reduced]
    return _Reduced(node, place, masked) if node.opcode == "reduce" and node.kind == kind else None


def _aligned(nodes: list[Node], number: int, reduced: _Reduced) -> tuple[int, ...] | None:
    """Whether the array that was reduced is the one that is spread over `number`, and each dimension that was kept has
    come back to where it is there. If so, the dimensions of `number` that were reduced; None otherwise."""
    root, mine = spread(nodes, number)
    array, inside = spread(nodes, reduced.node.operands[0])
    if root != array:
        return None
    over = attributes.int_list(reduced.node.instruction, "dimensions")
    kept = [d for d in range(len(nodes[reduced.node.operands[0]].dims)) if d not in over]
    gone = []
    for d, size in enumerate(nodes[root].dims):
        if size == 1:
            continue
        if d not in mine or d not in inside:
            return None
        if inside[d] in over:
            gone.append(mine[d])
        elif reduced.place.get(kept.index(inside[d])) != mine[d]:
            return None
    return tuple(gone)


def _always(span: Span) -> Fact:
    return lambda view: span


def _if_finite(number: int, span: Span) -> Fact:
    return lambda view: span if view.likely or view.spans[number].finite else Span(-INF, INF)


def _ordered(nodes: list[Node], one: int, other: int, same: list[int]) -> Iterator[Fact]:
    """Of one - other."""
    maybe = Order(nodes, same)
    if not maybe.below(one, other) and not maybe.below(other, one):
        return

    def difference(view: View) -> Span:
        order = Order(nodes, same, view)
        return Span(0.0 if order.below(other, one) else -INF, 0.0 if order.below(one, other) else INF)

    yield difference


def _opposite(nodes: list[Node], node: Node, same: list[int]) -> bool:
    """Whether one of two operands is the other negated."""
    pairs = (node.operands, node.operands[::-1])
    first = ((same[x], nodes[same[y]]) for x, y in pairs)
    return any(made.opcode == "negate" and same[made.operands[0]] == x for x, made in first)


_NOT_NEGATIVE = frozenset(("abs", "exponential", "logistic", "rsqrt", "sqrt"))


def _signed(nodes: list[Node], number: int, same: list[int]) -> tuple[int, int]:
    """A value that this one has the sign of, and whether the same sign (1) or the other (-1)."""
    sign = 1
    for _ in range(_STEPS):
        number = same[number]
        node = nodes[number]
        if node.opcode == "negate":
            sign = -sign
        elif node.opcode == "sine":
            inner = same[node.operands[0]]
            while nodes[inner].opcode == "negate":
                inner = same[nodes[inner].operands[0]]
            if nodes[inner].opcode not in ("sine", "tanh"):
                break  # of what may lie beyond pi
        elif node.opcode == "divide" and nodes[same[node.operands[1]]].opcode in _NOT_NEGATIVE:
            pass
        elif node.opcode not in ("tanh", "asinh", "cbrt"):
            break
        number = node.operands[0]
    return same[number], sign


def _sign_of_two(nodes: list[Node], node: Node, same: list[int]) -> Iterator[Fact]:
    """Of a product or quotient of two values that have the sign of one."""
    (one, sign), (other, and_sign) = (_signed(nodes, k, same) for k in node.operands)
    if one == other:
        yield _always(Span(0.0, INF) if sign == and_sign else Span(-INF, 0.0))


def _extrema(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    if _opposite(nodes, node, same):
        yield _always(Span(0.0, INF) if node.opcode == "maximum" else Span(-INF, 0.0))


def touches_zero(nodes: list[Node]) -> list[int]:
    """Nodes of which some element is zero: x - max(x), max(x) - x, and those of minima."""
    found = []
    for number, node in enumerate(nodes):
        if node.opcode != "subtract" or not node.dtype.is_float or 0 in node.dims:
            continue
        for one, other in (node.operands, node.operands[::-1]):
            for kind in ("maximum", "minimum"):
                reduced = _reduction(nodes, other, kind)
                if reduced is not None and plain(nodes, one) == one and _begins_alike(nodes, one, reduced):
                    found.append(number)
    return found


def _begins_alike(nodes: list[Node], number: int, reduced: _Reduced) -> bool:
    """Whether it is the array that was reduced, as it is, from the end of its type on."""
    start = nodes[reduced.node.operands[1]].instruction.literal
    infinite = start is not None and "inf" in start.text
    return infinite and reduced.node.operands[0] == number and _aligned(nodes, number, reduced) is not None


def _additions(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    for one, other in (node.operands, node.operands[::-1]):
        if nodes[other].opcode == "negate":
            yield from _ordered(nodes, one, nodes[other].operands[0], same)
            return


def _subtractions(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    ordered = list(_ordered(nodes, node.operands[0], node.operands[1], same))
    yield from ordered
    if ordered:
        return
    for (one, other), sign in ((node.operands, 1), (node.operands[::-1], -1)):
        for kind, side in (("maximum", -sign), ("minimum", sign)):
            found = _reduction(nodes, other, kind)
            if found is not None and _aligned(nodes, one, found) is not None:
                span = Span(0.0, INF) if side > 0 else Span(-INF, 0.0)
                yield _if_finite(one, span) if found.unless_infinite else _always(span)
                return
    x, y = plain(nodes, node.operands[0]), plain(nodes, node.operands[1])
    if x == y and node.operands[0] != node.operands[1]:
        # x - f32(f16(x)): what rounding leaves.
        coarse = max(_coarseness(nodes, k) for k in node.operands)
        yield lambda view: _around(view.spans[x].most * coarse)
        return
    if _variance(nodes, node):
        one = node.operands[0]
        slack = 2.0 ** (6 - node.dtype.mantissa)

        def variance(view: View) -> Span:
            most = max(0.0, view.spans[one].high)
            return Span(most * LEAST / 8 if view.likely else -slack * most, INF)

        yield variance


def _around(most: float) -> Span:
    return Span(-most, most) if most == most and most < INF else Span(-INF, INF)


def _coarseness(nodes: list[Node], number: int) -> float:
    """How far copies and conversions may have moved a value, as a share of it (and whole of what underflows)."""
    most = 0.0
    for _ in range(_STEPS):
        node = nodes[number]
        if node.opcode == "reduce-precision" or node.dtype.min_exponent > -126:
            return 1.0
        most += 2.0**-node.dtype.mantissa
        if node.opcode not in _NAMING:
            break
        number = node.operands[0]
    return min(1.0, most)


def _sums(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    """Sums of exp(x - max(x)) along the dimensions of the maximum: the largest term is 1."""
    if node.kind != "add":
        return
    term = nodes[plain(nodes, node.operands[0])]
    if term.opcode not in ("exponential", "exp2"):
        return
    difference = nodes[plain(nodes, term.operands[0])]
    if difference.opcode != "subtract":
        return
    found = _reduction(nodes, difference.operands[1], "maximum")
    over = None if found is None else _aligned(nodes, difference.operands[0], found)
    if over is not None and set(over) <= set(attributes.int_list(node.instruction, "dimensions")):
        init, array, loose = node.operands[1], difference.operands[0], found is not None and found.unless_infinite

        def largest(view: View) -> Span:
            if loose and not view.likely and not view.spans[array].finite:
                return Span(-INF, INF)
            return Span(0.5 + min(0.0, view.spans[init].low), INF)

        yield largest


def _quotients(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    if _opposite(nodes, node, same):
        yield _always(Span(-1.0, -1.0))
        return
    if same[node.operands[0]] == same[node.operands[1]]:
        yield _always(Span(1.0, 1.0))
        return
    if signs := list(_sign_of_two(nodes, node, same)):
        yield from signs
        return
    found = _reduction(nodes, node.operands[1], "add")
    if found is None or _aligned(nodes, node.operands[0], found) is None:
        return
    x, init = node.operands[0], found.node.operands[1]
    slack = 1 + 2.0 ** (6 - node.dtype.mantissa)

    def part(view: View) -> Span:
        return Span(0.0, slack) if view.spans[x].low >= 0 and view.spans[init].low >= 0 else Span(-INF, INF)

    yield part


def _selections(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    """select(i < 0, i + n, i): NumPy's negative indices."""
    choice, on_true, on_false = node.operands
    test, added = nodes[choice], nodes[on_true]
    if test.opcode != "compare" or test.operands[0] != on_false or test.instruction.attributes.get("direction") != "LT":
        return
    if added.opcode != "add" or on_false not in added.operands or not node.dtype.is_integer:
        return
    other = added.operands[1] if added.operands[0] == on_false else added.operands[0]
    limit = test.operands[1]

    def wrapped(view: View) -> Span:
        index, size, zero = view.spans[on_false], view.spans[other], view.spans[limit]
        if zero.low != 0 or zero.high != 0 or index.high + size.high > limits(node.dtype).high:
            return ANY_NUMBER
        above = Span(max(0, index.low), index.high) if index.high >= 0 else None
        below = Span(index.low + size.low, min(-1, index.high) + size.high) if index.low < 0 else None
        return above.join(below) if above and below else above or below or ANY_NUMBER

    yield wrapped


def _variance(nodes: list[Node], node: Node) -> bool:
    """mean(x*x) - mean(x)**2, both means over the same dimensions and by the same factor."""
    squares, squared = (nodes[plain(nodes, k)] for k in node.operands)
    if squared.opcode != "multiply" or plain(nodes, squared.operands[0]) != plain(nodes, squared.operands[1]):
        return False
    one, other = _mean(nodes, squares), _mean(nodes, nodes[plain(nodes, squared.operands[0])])
    if one is None or other is None or one[1:] != other[1:]:
        return False
    term = nodes[plain(nodes, one[0])]
    if term.opcode != "multiply" or term.operands[0] != term.operands[1]:
        return False
    return plain(nodes, term.operands[0]) == plain(nodes, other[0])


def _mean(nodes: list[Node], node: Node) -> tuple[int, tuple[int, ...], dict[int, int]] | None:
    """Of a mean: what is averaged, over which dimensions, and where those that are left come to lie."""
    if node.opcode not in ("divide", "multiply"):
        return None
    total, place = spread(nodes, node.operands[0])
    by, _ = spread(nodes, node.operands[1])
    literal = nodes[by].instruction.literal
    if nodes[total].opcode != "reduce" or nodes[total].kind != "add" or literal is None or nodes[by].dims:
        return None
    over = attributes.int_list(nodes[total].instruction, "dimensions")
    array = nodes[total].operands[0]
    count = math.prod(nodes[array].dims[d] for d in over)
    share = float(literal.text.strip("{} ")) * (1.0 if node.opcode == "multiply" else 1 / max(1, count) ** 2)
    return (array, over, place) if abs(share * count - 1) < 1e-2 else None


def _products(nodes: list[Node], node: Node, number: int, same: list[int]) -> Iterator[Fact]:
    """d * rsqrt(mean(d*d) + eps) is at most the root of the number of elements, as normalisations have it."""
    if _opposite(nodes, node, same):
        yield _always(Span(-INF, 0.0))
        return
    if signs := list(_sign_of_two(nodes, node, same)):
        yield from signs
        return
    for one, other in (node.operands, node.operands[::-1]):
        root, _ = spread(nodes, other)
        if nodes[root].opcode != "rsqrt":
            continue
        inner = nodes[plain(nodes, nodes[root].operands[0])]
        if inner.opcode == "add":
            candidates: tuple[int, ...] = inner.operands
        else:
            candidates = (nodes[root].operands[0],)
        for candidate in candidates:
            found = _mean(nodes, nodes[spread(nodes, candidate)[0]])
            if found is None:
                continue
            square = nodes[plain(nodes, found[0])]
            if square.opcode != "multiply" or plain(nodes, square.operands[0]) != plain(nodes, square.operands[1]):
                continue
            if plain(nodes, square.operands[0]) == plain(nodes, one):
                count = math.prod(nodes[found[0]].dims[d] for d in found[1])
                most = 2.0 * math.sqrt(max(1, count))
                yield _always(Span(-most, most))
                return


_FINDERS: dict[str, Callable[[list[Node], Node, int, list[int]], Iterator[Fact]]] = {
    "add": _additions,
    "maximum": _extrema,
    "minimum": _extrema,
    "subtract": _subtractions,
    "reduce": _sums,
    "divide": _quotients,
    "multiply": _products,
    "select": _selections,
}
