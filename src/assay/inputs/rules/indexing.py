"""Indices into an array: they must be inside."""

from __future__ import annotations

from collections.abc import Iterator

from assay.hlo import attributes
from assay.inputs.flat import Node
from assay.inputs.rules import reduction
from assay.inputs.rules.rule import Asked, Narrow, Need, Needs, Rule, View
from assay.inputs.span import Span


def _inside(highest: list[int]) -> Span:
    """From 0 to the least of `highest`, one number for each component of an index."""
    return Span(0, max(0, min(highest, default=0)))


def _gather_needs(view: View, node: Node) -> Iterator[Need]:
    dims = attributes.gather_dims(node.instruction)
    operand = view.nodes[node.operands[0]].dims
    asked = _inside([operand[d] - dims.slice_sizes[d] for d in dims.start_index_map])
    yield 1, asked, asked


def _scatter_needs(view: View, node: Node) -> Iterator[Need]:
    dims = attributes.scatter_dims(node.instruction)
    operand, _, updates = (view.nodes[k].dims for k in node.operands)
    windowed = [d for d in range(len(operand)) if d not in (*dims.inserted_window_dims, *dims.input_batching_dims)]
    window = dict.fromkeys(range(len(operand)), 1)
    window.update(zip(windowed, (updates[d] for d in dims.update_window_dims), strict=True))
    asked = _inside([operand[d] - window[d] for d in dims.scatter_dims_to_operand_dims])
    yield 1, asked, asked


def _slice_needs(view: View, node: Node) -> Iterator[Need]:
    update = node.opcode == "dynamic-update-slice"
    sizes = view.nodes[node.operands[1]].dims if update else node.dims
    first = 2 if update else 1
    room = [size - part for size, part in zip(view.nodes[node.operands[0]].dims, sizes, strict=True)]
    for k in range(first, len(node.operands)):
        # One operand a dimension, or, in the old form, one vector of them all.
        here = room[k - first] if not view.nodes[node.operands[k]].dims else min(room, default=0)
        asked = Span(0, max(0, here))
        yield k, asked, asked


def _first(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]]


def _gather(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]]


def _update(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]].join(view.spans[node.operands[1]])


def _to_first(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, want


def _to_both(view: View, node: Node, want: Span) -> Iterator[Asked]:
    yield 0, want
    yield 1, want


def _with(rule: Rule, needs: Needs, narrow: Narrow | None = None) -> Rule:
    return Rule(rule.forward, narrow or rule.narrow, needs, rule.back)


RULES: dict[str, Rule] = {
    "dynamic-slice":        Rule(_first, _to_first, _slice_needs),
    "dynamic-update-slice": Rule(_update, _to_both, _slice_needs),
    "gather":               Rule(_gather, _to_first, _gather_needs),
    "scatter":              _with(reduction.RULES["scatter"], _scatter_needs),
}  # fmt: skip
