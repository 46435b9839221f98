"""Finds what a program can use as the value of each of its parameters.

Planned in rounds: where each parameter's array will lie under a class of inputs (`boxes`) is followed forward through
the whole module; what some instruction needs and does not get is followed back, and narrows the boxes. Nothing is
narrowed for a need that is met, so that ordinary programs get ordinary inputs. All of it is advice for drawing inputs,
never a condition: a program is right or wrong on any input.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape
from assay.inputs.domain import ANY, Domain
from assay.inputs.flat import Node, flatten
from assay.inputs.rules.rule import View
from assay.inputs.span import ANY_NUMBER, INF, Span, inward, limits
from assay.inputs.traits import SEEDS, traits
from assay.inputs.walk import Walk

ROUNDS = 32
TRIES = 5
"""How often one need is gone for; what comes nearer to it each time may never come there."""
ATTEMPTS = 3
"""Plans that are tried, with other choices where there is one; the one that leaves the least unmet is taken."""

Box = Callable[[ArrayShape, Domain], Span]
"""Where the elements of an array of a class lie before anything is known of it but its traits."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a module for one class of inputs.

    boxes: where each parameter's array will lie. asked: to what the module's needs narrow it. domains: both and the
    traits, for drawing. view: what each value may be then. unmet: needs that are not met: node, what it should be, and
    the node that asks.
    """

    walk: Walk
    boxes: tuple[Span, ...]
    asked: tuple[Span, ...]
    domains: tuple[Domain, ...]
    view: View
    unmet: tuple[tuple[int, Span, int], ...]
    stubborn: tuple[Domain, ...]
    """As `domains`, where what cannot be met was gone for all the same, as far as there was a way."""


_last: tuple[Module, Walk] | None = None


def walk_of(module: Module) -> Walk:
    """The module made flat; the last one is kept, for classes of inputs come one after another."""
    global _last
    if _last is None or _last[0] is not module:
        _last = (module, Walk.of(flatten(module)))
    return _last[1]


def domains(module: Module, box: Box | None = None, grid: bool = False) -> list[Domain]:
    """One domain for each array among the entry's parameters, tuples flattened."""
    return list(plan(module, box, grid).domains)


def plan(module: Module, box: Box | None = None, grid: bool = False) -> Plan:
    """A plan for inputs of a class whose arrays lie in `box`, by default of ordinary values. grid: see `View`."""
    walk = walk_of(module)
    flat = walk.flat
    kinds = _kinds(walk)
    defaults = [
        (box or ordinary)(flat.nodes[k].shape, domain) for k, domain in zip(flat.parameters, kinds, strict=True)
    ]
    usual = box is None or box is ordinary
    first = walk.forward(defaults, likely=True, grid=grid)
    # Ordinary values do not overflow after many sums: it is the bounds that are too wide by then.
    hopeless = {(k, k) for k, sums in enumerate(walk.sums()) if sums > SUMS} if usual else set()
    hopeless |= {(k, by) for k, _, by in walk.unmet(first) if k != by and walk.guarded(k, by)}

    def drawn_from(found: _Found) -> tuple[Domain, ...]:
        four = zip(flat.parameters, found[0], found[1], defaults, kinds, strict=True)
        return tuple(_domain(flat.nodes[k], box, asked, default, kind, usual) for k, box, asked, default, kind in four)

    found = _best(walk, defaults, first, hopeless)
    stubborn = drawn_from(found)
    for _ in range(min(3, _effort(walk))):
        # What cannot be met must not bend the inputs: plan again without it. Indices are better nearly in range.
        more = {(k, by) for k, _, by in found[3] if flat.nodes[k].dtype.is_float}
        if not more:
            break
        hopeless |= more
        found = _best(walk, defaults, first, hopeless)
    boxes, asked, view, _ = found
    unmet = tuple(_movable(walk, walk.unmet(view)))
    return Plan(walk, tuple(boxes), tuple(asked), drawn_from(found), view, unmet, stubborn)


def _kinds(walk: Walk) -> list[Domain]:
    """What is asked of each parameter beside its range."""
    flat = walk.flat
    if not flat.conditions and not any(node.opcode in SEEDS for node in flat.nodes):
        return [ANY] * len(flat.parameters)
    # Constants and iotas are all that handing on traits asks of a view.
    view = walk.forward([limits(flat.nodes[k].dtype) for k in flat.parameters], likely=True)
    known = traits(flat, view)
    return [known.get(k, ANY) for k in flat.parameters]


SUMS = 3
"""Long sums on one way, each taken to be wider than it is, after which a bound beyond a type says little."""


_Found = tuple[list[Span], list[Span], View, list[tuple[int, Span, int]]]


def _effort(walk: Walk) -> int:
    """How often a large module is walked: planning takes a second or two for ten thousand instructions."""
    return max(1, 20_000 // (len(walk.flat.nodes) + 1))


def _best(walk: Walk, defaults: list[Span], first: View, without: set[tuple[int, int]]) -> _Found:
    best: _Found | None = None
    for attempt in range(min(ATTEMPTS, _effort(walk))):
        found = _planned(walk, defaults, first, attempt, without)
        if best is None or len(found[3]) < len(best[3]):
            best = found
        if not best[3]:
            break
    assert best is not None
    return best


def _planned(walk: Walk, defaults: list[Span], first: View, attempt: int, without: set[tuple[int, int]]) -> _Found:
    """Meets needs one after another, those next to the parameters first, for what meets one changes what the next one
    has to do; in a large module many at a time."""
    flat = walk.flat
    size = len(flat.nodes)
    place = {number: k for k, number in enumerate(flat.parameters)}
    asked = [ANY_NUMBER] * len(defaults)
    boxes = list(defaults)
    view = replace(first, attempt=attempt)
    unmet = _movable(walk, walk.unmet(view), without)
    wanted = sorted(unmet + _movable(walk, walk.wishes(view)), key=lambda need: need[0])
    given_up: set[tuple[int, int]] = set()
    tries: Counter[tuple[int, int]] = Counter()
    for _ in range(min(ROUNDS, 1 + _effort(walk))):
        some = [need for need in wanted if (need[0], need[2]) not in given_up]
        if not some:
            break
        some = some[: max(1, len(some) * size // 2000)]
        changed: dict[int, Span] = {}
        # What leaves its type is judged by bounds that are far too wide after many products: it may cost some of an
        # array's range, not all of it.
        for leaves, least in ((False, 2.0**-12), (True, 2.0**-4)):
            reached, _ = walk.narrowed(view, [need for need in some if (need[0] == need[2]) is leaves])
            for number, span in reached.items():
                k, node = place[number], flat.nodes[number]
                met = asked[k].meet(span)
                if met == asked[k] or met.meet(limits(node.dtype)).empty:
                    continue
                box = fitted(node, defaults[k], met)
                if node.dtype.is_float and _withered(box, defaults[k], least):
                    continue
                asked[k] = met
                changed[number] = boxes[k] = box
        if changed:
            view = walk.moved(view, boxes, changed)
            wanted = unmet = _movable(walk, walk.unmet(view), without)
        for need in some:
            tries[need[0], need[2]] += 1
            if not changed or tries[need[0], need[2]] >= TRIES:
                given_up.add((need[0], need[2]))
    return boxes, asked, view, unmet


def _movable(
    walk: Walk, needs: list[tuple[int, Span, int]], without: Collection[tuple[int, int]] = ()
) -> list[tuple[int, Span, int]]:
    """Those that inputs can do something about, those next to the parameters first."""
    found = (need for need in needs if walk.flat.moving[need[0]] and (need[0], need[2]) not in without)
    return sorted(found, key=lambda need: need[0])


def _withered(box: Span, default: Span, least: float) -> bool:
    """Whether next to nothing is left of what a class draws: such inputs would show nothing."""
    return not box.low < box.high or box.most < least * min(1.0, default.most)


def fitted(node: Node, default: Span, asked: Span) -> Span:
    """The part of the default that is asked for; where that is next to nothing, something as wide beside it."""
    inside = limits(node.dtype)
    asked = inward(node.dtype, asked.meet(inside))
    if not node.dtype.is_float and asked.finite and asked != inside:
        return asked
    both = default.meet(asked)
    width = default.high - default.low
    if not both.empty and (both.high - both.low >= width / 64 or both.high - both.low == asked.high - asked.low):
        return both
    low, high = asked.low, asked.high
    if low >= default.high - width / 64:
        high = min(high, low + max(width, abs(low)))
    elif high <= default.low + width / 64:
        low = max(low, high - max(width, abs(high)))
    else:
        low, high = max(low, default.low), min(high, default.high)
    return inward(node.dtype, Span(low, high, asked.gap if low < 0 < high else 0.0)) if low <= high else asked


def ordinary(shape: ArrayShape, domain: Domain) -> Span:
    """Where most of the class `normal` lies."""
    dtype = shape.dtype
    ends = limits(dtype)
    if dtype.is_float:
        most = NORMAL * 2.0 ** -weight_shift(domain.fan_in)
        if dtype.mantissa == 0:
            return Span(ends.low, most).meet(ends)
        return Span(max(ends.low, -most), min(ends.high, most))
    if dtype.is_complex or dtype.kind == "pred" or dtype.bits <= 16:
        return ends
    if not shape.dims or domain.steps:
        return Span(1, 16)
    return ends if dtype.kind == "unsigned" else Span(-100, 100)


NORMAL = 3.0
"""What is taken for the greatest of an array of normal numbers when inputs are planned; a few in a thousand are not."""
FARTHEST = 6.5
"""A normal number is beyond this once in 10**10."""


def weight_shift(terms: int) -> int:
    """The power of two nearest to the root of the number of terms, by which weights are scaled."""
    if terms <= 1:
        return 0
    return round(0.5 * math.log2(terms))


def _domain(node: Node, box: Span, asked: Span, default: Span, kind: Domain, usual: bool) -> Domain:
    """What to tell those who draw: bounds only where the class would leave them."""
    if asked == ANY_NUMBER or node.dtype.kind == "pred" or node.dtype.is_complex:
        return kind
    if not node.dtype.is_float:
        low = asked.low if asked.low > -INF else box.low
        high = asked.high if asked.high < INF else box.high
        if asked.low == -INF and asked.high == INF:
            return replace(kind, nonzero=asked.gap)
        return replace(kind, low=low, high=max(low, high), nonzero=asked.gap if low < 0 < high else 0)
    reach = FARTHEST / NORMAL if usual else 1.0
    low, high = (end * reach for end in (default.low, default.high))
    if asked.low <= low and asked.high >= high:
        return replace(kind, nonzero=asked.gap)
    if 0 <= asked.low <= FLOOR and asked.high >= high and default.low < 0:
        return replace(kind, positive=True)
    if box.low == default.low:
        box = box._replace(low=max(low, asked.low))
    if box.high == default.high:
        box = box._replace(high=min(high, asked.high))
    box = inward(node.dtype, box)
    return replace(kind, low=box.low, high=box.high, nonzero=box.gap if box.low < 0 < box.high else 0.0)


FLOOR = 2.0**-7
"""What a positive array has at least."""
