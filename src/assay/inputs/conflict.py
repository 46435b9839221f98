"""Proves that no inputs at all keep every value finite and every operand where its instruction can use it.

Spans of all that the types hold are narrowed by what instructions need, forward by the rules and backward by what
holds for certain of operands (`Rule.back`), until nothing changes or nothing is left. A need whose result a select may
throw away is no need. What is left out of the proof (overflow inside a sum, say) can only make it fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from assay.hlo.shape import DType
from assay.inputs.idioms import touches_zero
from assay.inputs.rules import View
from assay.inputs.span import EVERYTHING, INF, Span, limits, signed_alike, smallest, stored, whole
from assay.inputs.walk import Walk

SWEEPS = 8
LARGEST = 20_000
"""Nodes up to which a proof is tried, and of needs the core is minimal where there are few."""

LEAST = 5e-324
"""Not zero."""

Need = tuple[int, Span, int]


def core(walk: Walk) -> tuple[int, ...]:
    """The nodes whose needs exclude each other, none of which could be left out; () where none are found to."""
    if len(walk.flat.nodes) > LARGEST:
        return ()
    view = walk.forward([_all(walk, k) for k in walk.flat.parameters])
    needs = certain_needs(walk, view)
    if not needs:
        return ()
    kept = list(needs)
    sound: list[bool] | None = None
    if contradicts(walk, view, needs) is None:
        sound = finite(walk, view)
        if contradicts(walk, view, needs, sound) is None:
            return ()
    step = max(1, len(kept) // 2)
    while step:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + step :]
            if contradicts(walk, view, rest, _without(sound, needs, rest)) is not None:
                kept = rest
            else:
                start += step
        step //= 2
    if not kept:  # of values whose instructions need nothing, some cannot be finite
        left = contradicts(walk, view, (), _without(sound, needs, ()))
        return () if left is None else (left,)
    return tuple(dict.fromkeys(by for _, _, by in kept))


def _without(sound: Sequence[bool] | None, needs: Sequence[Need], kept: Sequence[Need]) -> list[bool] | None:
    """Finite nodes, but for those whose needs are left out."""
    if sound is None:
        return None
    dropped = {by for _, _, by in needs} - {by for _, _, by in kept}
    return [known and k not in dropped for k, known in enumerate(sound)]


def finite(walk: Walk, view: View) -> list[bool]:
    """For each node whether it is finite wherever every value is that is not thrown away: a float that comes of no
    infinite constant but the start of a maximum, and of nothing that a select may hide.
    """
    masked, nodes = walk.masked(), walk.flat.nodes
    if walk.flat.phis:
        return [False] * len(nodes)
    found: list[bool] = []
    for number, node in enumerate(nodes):
        operands = node.operands
        if node.opcode == "reduce" and node.kind in EXTREMA and 0 not in nodes[operands[0]].dims:
            operands = operands[: len(operands) // 2]
        constant = node.instruction.literal is not None and not (
            view.spans[number].finite and not view.spans[number].nan
        )
        found.append(not (masked[number] or constant) and all(found[k] for k in operands))
    return found


ROOTS = ("power", "rsqrt")
EXTREMA = ("maximum", "minimum")


def certain_needs(walk: Walk, view: View) -> list[Need]:
    """What instructions need of values that nothing masks; `view` is of all that there may be. EVERYTHING of the base
    of a power: that it is not negative, or the exponent an integer.
    """
    masked = walk.masked()
    needs = [need for need in walk.unmet(view, hard_only=True) if not masked[need[2]]]
    return [(need[0], EVERYTHING, need[2]) if _may_be_whole(walk, view, need) else need for need in needs]


def _may_be_whole(walk: Walk, view: View, need: Need) -> bool:
    """Whether it is the base of a power whose exponent may happen to be an integer, so that it may be negative."""
    node = walk.flat.nodes[need[2]]
    if node.opcode != "power" or need[0] == need[2]:
        return False
    return _holds_whole(view.spans[node.operands[1]])


def _all(walk: Walk, number: int) -> Span:
    dtype = walk.flat.nodes[number].dtype
    return whole(dtype) if dtype.is_complex else limits(dtype)


def contradicts(walk: Walk, everything: View, needs: Sequence[Need], sound: Sequence[bool] | None = None) -> int | None:
    """The node for whose value nothing is left once all these needs are met, None where there is none; `everything` is
    all that there may be. sound: nodes that are finite besides.
    """
    nodes = walk.flat.nodes
    view = replace(everything, spans=list(everything.spans))
    spans = view.spans
    uncertain = _may_be_nan(walk, view, {by for _, _, by in needs})
    if sound is not None:
        uncertain = [maybe and not kept for maybe, kept in zip(uncertain, sound, strict=True)]
        for number, kept in enumerate(sound):
            if kept and nodes[number].dtype.is_float:
                spans[number] = spans[number].meet(limits(nodes[number].dtype))
                if spans[number].empty:
                    return number
    for number, span, _ in needs:
        spans[number] = spans[number].meet(span)
        if spans[number].empty:
            return number
    loops = {k for phi in walk.flat.phis for k in (phi, *nodes[phi].operands)}
    zeros = [k for k in touches_zero(nodes) if not uncertain[k]]
    for _ in range(SWEEPS):
        before = list(spans)
        for number in range(len(nodes) - 1, -1, -1):
            node = nodes[number]
            if number in loops or not node.operands or 0 in node.dims or uncertain[number]:
                continue
            exact = walk.exact(node)
            for operand, span in _certain(walk, view, number, exact):
                k = node.operands[operand]
                dtype = nodes[k].dtype
                spans[k] = spans[k].meet(span if exact else signed_alike(dtype, stored(dtype, span), span))
                if spans[k].empty:
                    return k
        for number in zeros:
            if spans[number].least > 0:
                return number
        for _, span, by in needs:
            if span == EVERYTHING and by not in loops and (left := _raised(view, by)) is not None:
                return left
        for number, node in enumerate(nodes):
            if node.operands and number not in loops:
                spans[number] = spans[number].meet(walk.value(view, number))
                if sound is not None and sound[number] and node.opcode in ROOTS and spans[node.operands[0]].low >= 0:
                    spans[number] = spans[number].meet(Span(0.0, INF))  # negative of a negative zero alone, infinite
                if spans[number].empty:
                    return number
        if spans == before:
            return None
    return None


def _raised(view: View, number: int) -> int | None:
    """Narrows base and exponent of a power that is a number and finite: the operand of which nothing is left."""
    base, exponent = view.nodes[number].operands
    spans = view.spans
    low, high = spans[exponent].low, spans[exponent].high
    negative = spans[base].high < 0 or (spans[base].high == 0 and spans[number].least > 0)  # 0 to the 0 is 1
    if negative and math.isfinite(low) and math.isfinite(high):
        spans[exponent] = spans[exponent].meet(Span(math.ceil(low), math.floor(high)))
    elif not _holds_whole(spans[exponent]):
        spans[base] = spans[base].meet(Span(0.0, INF))
    if high < 0:
        spans[base] = spans[base].meet(Span(-INF, INF, LEAST))
    return next((k for k in (base, exponent) if spans[k].empty), None)


def _holds_whole(exponent: Span) -> bool:
    return not exponent.finite or math.ceil(exponent.low) <= exponent.high


def _may_be_nan(walk: Walk, view: View, needed: set[int]) -> list[bool]:
    """For each node whether it may be NaN although the instructions `needed` get what they need. Of such a value
    nothing follows for its operands."""
    found: list[bool] = []
    for number, node in enumerate(walk.flat.nodes):
        known = [k for k in node.operands if k < number]
        begins = view.spans[number].nan and (
            walk.rules[number].needs is not None
            or not all(view.spans[k].finite for k in node.operands)
            or not any(view.spans[k].nan for k in node.operands)
        )
        found.append((begins and number not in needed) or any(found[k] for k in known))
    return found


def _before_rounding(walk: Walk, number: int, span: Span) -> Span:
    """What a result may be before it is rounded to lie in the span: a last digit more, and what underflows to zero."""
    dtype = walk.flat.nodes[number].dtype
    if not dtype.is_float:
        return span
    gap = -_most_before(dtype, -span.gap) if span.gap else 0.0
    return Span(-_most_before(dtype, -span.low), _most_before(dtype, span.high), gap)


def _most_before(dtype: DType, high: float) -> float:
    """The greatest that may round to `high` or below: a last digit more. What is positive stays so."""
    ulp, tiny = 2.0**-dtype.mantissa, smallest(dtype)
    if high >= 0:
        return max(high + high * ulp, tiny)
    return high * (1 - ulp) if high <= -tiny else high / 2


def _certain(walk: Walk, view: View, number: int, exact: bool) -> list[tuple[int, Span]]:
    span = view.spans[number]
    if span.low == -INF and span.high == INF and not span.gap:
        return []
    try:
        before = span if exact else _before_rounding(walk, number, span)
        return list(walk.rules[number].back(view, walk.flat.nodes[number], before))
    except (AssertionError, IndexError, ValueError, ZeroDivisionError, OverflowError):
        return []
