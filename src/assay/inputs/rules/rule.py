"""What a rule is, and what it sees.

`forward` tells what a result may be from what its operands may be; it is right for every element, NaN included.
`needs` tells what an instruction asks of its operands whatever becomes of the result. `narrow` tells how the operands
may be narrowed so that a result is within what is wanted of it, given what they may be now: a choice among many, never
more than advice. `back` tells what an operand must be where the result is known: it holds for certain, and with it
contradictions are proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from assay.inputs.flat import Node
from assay.inputs.span import Span


@dataclass(slots=True)
class View:
    """nodes and their spans. likely: sums are judged as those of values that are no conspiracy, for planning; else by
    the worst case. moving: which nodes depend on a parameter. attempt: how often planning failed before, for choices
    that may be made in another way. grid: inputs are few distinct numbers, so that differences are often zero."""

    nodes: Sequence[Node]
    spans: list[Span]
    moving: Sequence[bool]
    likely: bool = False
    attempt: int = 0
    grid: bool = False


Asked = tuple[int, Span]
"""Operand number, and what is wanted of it."""

Need = tuple[int, Span, Span]
"""Operand number, what it must be for a finite result, and what is comfortable."""

Forward = Callable[[View, Node], Span]
Narrow = Callable[[View, Node, Span], Iterable[Asked]]
Needs = Callable[[View, Node], Iterable[Need]]


def nothing(view: View, node: Node, want: Span) -> Iterator[Asked]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Rule:
    forward: Forward
    narrow: Narrow = nothing
    needs: Needs | None = None
    back: Narrow = nothing
