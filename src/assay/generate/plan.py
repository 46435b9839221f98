"""A generated program before it is text: values in order, each with the form that made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.generate.types import Type


@dataclass(frozen=True, slots=True)
class Node:
    """One value. form: its name; empty for a parameter. operands: numbers of nodes that stand earlier. text: see
    `form.Made`.
    """

    type: Type
    form: str
    operands: tuple[int, ...] = ()
    text: str = ""
    bodies: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """nodes: operands first. parameters, results: numbers of nodes."""

    nodes: tuple[Node, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def parameter_types(self) -> tuple[Type, ...]:
        return tuple(self.nodes[i].type for i in self.parameters)

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
                if node.form and self.nodes[operand].form:
                    yield node.form, self.nodes[operand].form
            for body in node.bodies:
                yield from body.edges()


LEAVES = frozenset({"constant", "literal", "iota", "index"})
