"""Preconditions of single elements that no rounding can break: by the intervals that `inputs.walk` proves of every
value, from those of the arguments. Bounds around one value forget that a clamp keeps it in range whatever it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from assay.checking.litmus.elements import convertible
from assay.hlo.module import Computation, Instruction, Module
from assay.inputs.flat import Node, flatten
from assay.inputs.rules import View
from assay.inputs.span import Span, whole
from assay.inputs.walk import EXACT, Walk
from assay.reference.value import Array

LARGEST = 20_000
"""Nodes up to which it is tried."""
MARGIN = 2.0**-6
"""What a function, or a product in fewer bits, may be off by as a share of it: more than any policy grants."""

_ROUNDED_ONCE = EXACT | frozenset(
    (
        "add", "ceil", "convert", "floor", "multiply", "parameter", "phi", "reduce-precision", "round-nearest-afz",
        "round-nearest-even", "select", "sign", "subtract",
    )
)  # fmt: skip


class _Loose(Walk):
    """Where functions are as a compiler may approximate them."""

    def value(self, view: View, number: int) -> Span:
        span, node = Walk.value(self, view, number), self.flat.nodes[number]
        if not node.dtype.is_float or node.opcode in _ROUNDED_ONCE:
            return span
        return Span(_beyond(span.low, -MARGIN), _beyond(span.high, MARGIN), 0.0, span.nan)


def _beyond(end: float, share: float) -> float:
    return end + share * abs(end) if math.isfinite(end) else end


class Spans:
    """Of all values of a module on its arguments, worked out when they are first asked for."""

    def __init__(self, module: Module, arguments: Sequence[Array]) -> None:
        self.module, self.arguments = module, arguments
        self._known: tuple[Walk, list[Span]] | None = None

    def keeps(self, contract: str, computation: Computation, instruction: Instruction) -> bool:
        """Whether it is proved, at every visit, that an instruction keeps a precondition."""
        if (proof := PROOFS.get(contract)) is None:
            return False
        if self._known is None:
            made = Walk.of(flatten(self.module))
            loose = _Loose(made.flat, made.rules, made.facts, made.users, made.needing, made.floats)
            if len(made.flat.nodes) > LARGEST:
                return False
            pairs = zip(self.arguments, made.flat.parameters, strict=True)
            given = [_of(array, made.flat.nodes[k]) for array, k in pairs]
            self._known = loose, loose.forward(given).spans
        walk, spans = self._known
        where = computation.name, instruction.name
        visits = [
            n
            for n in walk.flat.nodes
            if (n.computation.name, n.instruction.name, n.opcode) == (*where, n.instruction.opcode)
        ]
        return bool(visits) and all(
            proof(node, [(walk.flat.nodes[k], spans[k]) for k in node.operands]) for node in visits
        )


def _of(array: Array, node: Node) -> Span:
    if node.dtype.is_complex or array.size == 0:
        return whole(node.dtype)
    if not node.dtype.is_float:
        wide = array.astype(np.int64) if array.dtype.itemsize < 8 else array
        return Span(int(np.min(wide)), int(np.max(wide)))
    wide = array.astype(np.float64)
    return whole(node.dtype) if np.isnan(wide).any() else Span(float(np.min(wide)), float(np.max(wide)))


Proof = Callable[[Node, Sequence[tuple[Node, Span]]], bool]
"""Given a node, and its operands with their spans."""


def _numbers(node: Node, operands: Sequence[tuple[Node, Span]]) -> bool:
    ((operand, span),) = operands
    return operand.dtype.is_float and not span.nan


def _converts(node: Node, operands: Sequence[tuple[Node, Span]]) -> bool:
    ((operand, span),) = operands
    low, high = convertible(node.dtype)
    return operand.dtype.is_float and not span.nan and low <= span.low and span.high <= high


def _shifts(node: Node, operands: Sequence[tuple[Node, Span]]) -> bool:
    amount = operands[1][1]
    return amount.low >= 0 and amount.high < node.dtype.bits


def _divides(node: Node, operands: Sequence[tuple[Node, Span]]) -> bool:
    (_, a), (_, b) = operands
    overflows = node.dtype.kind == "signed" and a.low <= -(1 << (node.dtype.bits - 1)) and b.low <= -1 <= b.high
    return b.least > 0 and not overflows


def _raises(node: Node, operands: Sequence[tuple[Node, Span]]) -> bool:
    return operands[1][1].low >= 0


PROOFS: dict[str, Proof] = {
    "nan-bits": _numbers,
    "convert-in-range": _converts,
    "shift-within": _shifts,
    "nonzero-divisor": _divides,
    "natural-exponent": _raises,
}
