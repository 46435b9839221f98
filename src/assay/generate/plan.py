"""A generated program before it is text: values in order, each with the form that made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.generate.types import Several, Type

PART = "part"
"""What takes one element of a tuple."""
LEAVES = frozenset({"constant", "literal", "iota", PART})
"""What computes nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value. form: its name; empty for a parameter. operands: numbers of nodes that stand earlier. text: see
    `form.Made`.
    """

    type: Type | Several
    form: str
    operands: tuple[int, ...] = ()
    text: str = ""
    bodies: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """nodes: operands first. parameters, results: numbers of nodes, whose types are arrays."""

    nodes: tuple[Node, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def parameter_types(self) -> tuple[Type, ...]:
        return self._arrays(self.parameters)

    @property
    def result_types(self) -> tuple[Type, ...]:
        return self._arrays(self.results)

    def _arrays(self, numbers: tuple[int, ...]) -> tuple[Type, ...]:
        types = (self.nodes[i].type for i in numbers)
        return tuple(t for t in types if isinstance(t, Type))

    @property
    def operations(self) -> int:
        """Those that compute; those of bodies are counted once."""
        return sum(1 for node in self.walk() if node.form and node.form not in LEAVES)

    def walk(self) -> Iterator[Node]:
        """Every node, those of bodies included."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.walk()

    def edges(self) -> Iterator[tuple[str, str]]:
        """(form, form whose result it takes), within one computation."""
        for node in self.nodes:
            for operand in node.operands:
                taken = self.nodes[operand]
                if taken.form == PART:
                    taken = self.nodes[taken.operands[0]]
                if node.form not in ("", PART) and taken.form:
                    yield node.form, taken.form
            for body in node.bodies:
                yield from body.edges()
