"""Which of two values is nowhere above the other, by what they are made of: min(x, y) or log(x), and x."""

from __future__ import annotations

from dataclasses import dataclass

from assay.inputs.flat import Node
from assay.inputs.rules.rule import View

STEPS = 32
DEPTH = 4
"""Instructions on a way between the two that are looked at; a way may fork at each."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which of two values is nowhere above the other, NaN aside, by what they are made of. Rounding keeps order, and a
    value that the type holds rounds to itself, so that it holds after rounding too.

    same: for each node the first that computes the same. view: None to ask whether some view may say so.
    """

    nodes: list[Node]
    same: list[int]
    view: View | None = None

    def at_least(self, number: int, low: float) -> bool:
        return self.view is None or self.view.spans[number].low >= low

    def at_most(self, number: int, high: float) -> bool:
        return self.view is None or self.view.spans[number].high <= high

    def bare(self, number: int) -> int:
        """Under double negations and magnitudes of what is not negative."""
        for _ in range(STEPS):
            number = self.same[number]
            node = self.nodes[number]
            inner = self.nodes[node.operands[0]] if node.operands else node
            if node.opcode == "abs" and inner.opcode == "negate" and self.at_least(inner.operands[0], 0):
                number = inner.operands[0]
            elif node.opcode == "abs" and self.at_least(node.operands[0], 0):
                number = node.operands[0]
            elif node.opcode == "negate" and inner.opcode == "negate":
                number = inner.operands[0]
            else:
                break
        return self.same[number]

    def below(self, one: int, other: int, depth: int = DEPTH) -> bool:
        one, other = self.bare(one), self.bare(other)
        if one == other:
            return True
        a, b, less = self.nodes[one], self.nodes[other], depth - 1
        if not depth or a.dims != b.dims:
            return False
        match a.opcode:
            case "minimum" if any(self.below(k, other, less) for k in a.operands):
                return True
            case "maximum" if all(self.below(k, other, less) for k in a.operands):
                return True
            case "log" if self.below(a.operands[0], other, less):
                return True
            case "sine" | "tanh" if self.at_least(a.operands[0], 0) and self.below(a.operands[0], other, less):
                return True
            case "sine" | "tanh" if self.at_most(a.operands[0], 0) and self._opposite(other, a.operands[0]):
                return True
            case "sqrt" if self.at_least(a.operands[0], 1) and self.below(a.operands[0], other, less):
                return True
            case "subtract" if self.at_least(a.operands[1], 0) and self.below(a.operands[0], other, less):
                return True
            case "add" if any(
                self.at_most(v, 0) and self.below(u, other, less) for u, v in (a.operands, a.operands[::-1])
            ):
                return True
            case "negate" if self._magnitude(a.operands[0], other):
                return True
            case "negate" if self.bare(a.operands[0]) == other and self.at_least(other, 0):
                return True
            case "negate" if b.opcode == "negate" and self.below(b.operands[0], a.operands[0], less):
                return True
        match b.opcode:
            case "negate":
                return self.bare(b.operands[0]) == one and self.at_most(one, 0)
            case "maximum":
                return any(self.below(one, k, less) for k in b.operands)
            case "minimum":
                return all(self.below(one, k, less) for k in b.operands)
            case "exponential":
                return self.below(one, b.operands[0], less)
            case "sine" | "tanh" if self._opposite(one, b.operands[0]):
                return self.at_least(b.operands[0], 0)  # -x, and the sine of x
            case "sine" | "tanh":
                return self.at_most(b.operands[0], 0) and self.below(one, b.operands[0], less)
            case "sqrt":
                inner = b.operands[0]
                return self.at_most(inner, 1) and self.at_least(inner, 0) and self.below(one, inner, less)
            case "subtract":
                return self.at_most(b.operands[1], 0) and self.below(one, b.operands[0], less)
            case "add":
                pairs = (b.operands, b.operands[::-1])
                return any(self.at_least(v, 0) and self.below(one, u, less) for u, v in pairs)
            case "abs":
                return self.below(one, b.operands[0], less) or self._opposite(one, b.operands[0])
        return False

    def _magnitude(self, magnitude: int, x: int) -> bool:
        node = self.nodes[magnitude]
        return node.opcode == "abs" and self.bare(node.operands[0]) == x

    def _opposite(self, one: int, x: int) -> bool:
        node = self.nodes[one]
        return node.opcode == "negate" and self.bare(node.operands[0]) == self.bare(x)


def first_alike(nodes: list[Node]) -> list[int]:
    """For each node the first that is computed by the same operation of the same values; of max(x, x) and of x with
    x - x added, x itself.
    """
    first: dict[tuple[object, ...], int] = {}
    same: list[int] = []
    zeros: set[int] = set()
    for number, node in enumerate(nodes):
        if node.opcode not in _NUMBERED or any(k >= number for k in node.operands):
            same.append(number)
            continue
        operands = [same[k] for k in node.operands]
        found = first.setdefault((node.opcode, node.dtype, node.dims, *operands), number)
        if node.opcode in ("maximum", "minimum") and operands[0] == operands[1]:
            found = operands[0]
        elif node.opcode in ("add", "subtract"):
            if operands[1] in zeros:
                found = operands[0]
            elif node.opcode == "add" and operands[0] in zeros:
                found = operands[1]
            elif _cancels(nodes, same, node.opcode, operands):
                zeros.add(found)
        same.append(found)
    return same


def _cancels(nodes: list[Node], same: list[int], opcode: str, operands: list[int]) -> bool:
    """Whether two values make zero, where they are finite."""
    if opcode == "subtract":
        return operands[0] == operands[1]
    pairs = (operands, operands[::-1])
    return any(nodes[y].opcode == "negate" and same[nodes[y].operands[0]] == x for x, y in pairs)


_NUMBERED = frozenset(
    (
        "abs", "add", "divide", "exponential", "log", "logistic", "maximum", "minimum", "multiply", "negate", "power",
        "rsqrt", "sine", "sqrt", "subtract", "tanh",
    )
)  # fmt: skip
"""Operations of elements that are told by their operands alone."""
