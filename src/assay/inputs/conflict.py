"""Proves that no inputs at all keep every value finite and every operand where its instruction can use it.

Spans of all that the types hold are narrowed by what instructions need, forward by the rules and backward by what
holds for certain of operands (`Rule.back`), until nothing changes or nothing is left. A need whose result a select may
throw away is no need. What is left out of the proof (overflow inside a sum, say) can only make it fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from assay.inputs.rules import View
from assay.inputs.span import INF, Span, limits, smallest, stored, whole
from assay.inputs.walk import Walk

SWEEPS = 8
LARGEST = 20_000
"""Nodes up to which a proof is tried, and of needs the core is minimal where there are few."""

Need = tuple[int, Span, int]


def core(walk: Walk) -> tuple[int, ...]:
    """The nodes whose needs exclude each other, none of which could be left out; () where none are found to."""
    if len(walk.flat.nodes) > LARGEST:
        return ()
    view = walk.forward([_all(walk, k) for k in walk.flat.parameters])
    needs = certain_needs(walk, view)
    if not needs or not contradicts(walk, view, needs):
        return ()
    kept = list(needs)
    step = max(1, len(kept) // 2)
    while step:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + step :]
            if contradicts(walk, view, rest):
                kept = rest
            else:
                start += step
        step //= 2
    return tuple(dict.fromkeys(by for _, _, by in kept))


def certain_needs(walk: Walk, view: View) -> list[Need]:
    """What instructions need of values that nothing masks; `view` is of all that there may be."""
    masked = walk.masked()
    needs = walk.unmet(view, hard_only=True)
    return [need for need in needs if not masked[need[2]] and not _may_be_whole(walk, view, need)]


def _may_be_whole(walk: Walk, view: View, need: Need) -> bool:
    """Whether it is the base of a power whose exponent may happen to be an integer, so that it may be negative."""
    node = walk.flat.nodes[need[2]]
    if node.opcode != "power" or need[0] == need[2]:
        return False
    exponent = view.spans[node.operands[1]]
    return not exponent.finite or math.ceil(exponent.low) <= exponent.high


def _all(walk: Walk, number: int) -> Span:
    dtype = walk.flat.nodes[number].dtype
    return whole(dtype) if dtype.is_complex else limits(dtype)


def contradicts(walk: Walk, everything: View, needs: Sequence[Need]) -> bool:
    """Whether nothing is left for some value once all these needs are met; `everything` is all that there may be."""
    nodes = walk.flat.nodes
    view = replace(everything, spans=list(everything.spans))
    spans = view.spans
    uncertain = _may_be_nan(walk, view, {by for _, _, by in needs})
    for number, span, _ in needs:
        spans[number] = spans[number].meet(span)
        if spans[number].empty:
            return True
    loops = {k for phi in walk.flat.phis for k in (phi, *nodes[phi].operands)}
    for _ in range(SWEEPS):
        before = list(spans)
        for number in range(len(nodes) - 1, -1, -1):
            node = nodes[number]
            if number in loops or not node.operands or 0 in node.dims or uncertain[number]:
                continue
            for operand, span in _certain(walk, view, number):
                k = node.operands[operand]
                spans[k] = spans[k].meet(stored(nodes[k].dtype, span))
                if spans[k].empty:
                    return True
        for number, node in enumerate(nodes):
            if node.operands and number not in loops:
                spans[number] = spans[number].meet(walk.value(view, number))
                if spans[number].empty:
                    return True
        if spans == before:
            return False
    return False


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
    ulp, tiny = 2.0**-dtype.mantissa, smallest(dtype)
    low, high = span.low - abs(span.low) * ulp - tiny, span.high + abs(span.high) * ulp + tiny
    return Span(span.low if low != low else low, span.high if high != high else high)


def _certain(walk: Walk, view: View, number: int) -> list[tuple[int, Span]]:
    span = view.spans[number]
    if span.low == -INF and span.high == INF and not span.gap:
        return []
    try:
        return list(walk.rules[number].back(view, walk.flat.nodes[number], _before_rounding(walk, number, span)))
    except (AssertionError, IndexError, ValueError, ZeroDivisionError, OverflowError):
        return []
