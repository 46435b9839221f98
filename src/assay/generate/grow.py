"""Grows a plan from the types of its results backwards: every hole is filled with an operation that gives its type,
which opens holes for its operands, until none of the budget is left and the rest are parameters and constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from assay.generate import tour
from assay.generate.draw import Draw, running
from assay.generate.form import REGISTRY, Form, Hole, Made, Site, weight_in
from assay.generate.grammar import Grammar
from assay.generate.leaves import constant
from assay.generate.plan import PART, Node, Plan
from assay.generate.types import Several, Type

TRIES = 6
"""Forms asked for one hole before it is left to be a parameter."""
TWICE = 0.12
"""How often one value may be two operands of an operation."""


@dataclass(slots=True)
class _Slot:
    """A value: open while it has no node. many: where it is a tuple. peers: slots that some operation takes beside it;
    it had better not be the same value as those, or what comes out is nothing: x - x, x == x.
    """

    hole: Hole
    node: str = ""
    operands: tuple[int, ...] = ()
    text: str = ""
    bodies: tuple[Plan, ...] = ()
    many: Several | None = None
    peers: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Growth:
    """more: results beyond those that were asked for, where there may be any."""

    draw: Draw
    grammar: Grammar
    depth: int
    more: list[int] | None = None
    slots: list[_Slot] = field(default_factory=list)
    open: list[int] = field(default_factory=list)

    def hole(self, hole: Hole, beside: Sequence[int] = ()) -> int:
        """A slot for the hole: now and then one that is there already and not yet filled, so that no cycle comes."""
        if not hole.leaf and self.draw.chance(self.grammar.shared):
            twice = self.draw.chance(TWICE)
            fitting = [i for i in self.open if self.slots[i].hole == hole and (twice or i not in beside)]
            if fitting:
                return self.draw.pick(fitting)
        self.slots.append(_Slot(hole))
        self.open.append(len(self.slots) - 1)
        return len(self.slots) - 1

    def operands(self, holes: Sequence[Hole]) -> tuple[int, ...]:
        """Slots for the operands of one operation."""
        found: list[int] = []
        for hole in holes:
            found.append(self.hole(hole, found))
        for at in found:
            self.slots[at].peers.update(found)
        return tuple(found)

    def fill(self, budget: int) -> int:
        """Fills one open slot; returns the operations that this took, 0 where none was found for it."""
        growing = [i for i in self.open if not self.slots[i].hole.leaf]
        if not growing:
            return 0
        # The newest half of the time, so that chains come about as well as bushes.
        at = growing[-1] if self.draw.chance(0.5) else self.draw.pick(growing)
        slot = self.slots[at]
        self.open.remove(at)
        if (found := choose(self.draw, self.grammar, slot.hole.type, self.depth, budget)) is None:
            self.open.insert(0, at)
            slot.hole = Hole(slot.hole.type, leaf=True)
            return 0
        self.place(at, *found)
        return 1 + sum(body.operations for body in found[1].bodies)

    def place(self, at: int, name: str, made: Made) -> tuple[int, ...]:
        """Makes a slot that is no longer open an operation; returns its operands."""
        whole = self.slots[at]
        if made.parts:
            whole = _Slot(whole.hole, many=Several(made.parts))
            self.slots.append(whole)
            self._parts(len(self.slots) - 1, at, made)
        whole.node, whole.text, whole.bodies = name, made.text, made.bodies
        whole.operands = self.operands(made.operands)
        return whole.operands

    def begin(self, root: int, begun: tuple[Type, Made, int, Made], pair: tuple[str, str]) -> None:
        """The pair as the first two operations."""
        _, made, operand, inner = begun
        self.open.remove(root)
        at = self.place(root, pair[0], made)[operand]
        if at in self.open:
            self.open.remove(at)
            self.place(at, pair[1], inner)

    def _parts(self, whole: int, asked: int, made: Made) -> None:
        """Uses every part of a tuple: for the slot that asked, for open ones of its type, or as one more result."""
        for i, type_ in enumerate(made.parts):
            at = asked if i == made.at else self._open_for(type_)
            if at is not None:
                self.slots[at].node, self.slots[at].text, self.slots[at].operands = PART, f"{{0}}[{i}]", (whole,)

    def _open_for(self, type_: Type) -> int | None:
        fitting = [i for i in self.open if self.slots[i].hole == Hole(type_)]
        if fitting:
            self.open.remove(fitting[-1])
            return fitting[-1]
        if self.more is None or len(self.more) > 2 or self.draw.chance(0.3):
            return None
        self.slots.append(_Slot(Hole(type_)))
        self.more.append(len(self.slots) - 1)
        return self.more[-1]

    def plan(self, roots: Sequence[int], given: Sequence[Type]) -> Plan:
        """Closes what is open with parameters and constants. given: parameters that there are in any case."""
        parameters = [_Slot(Hole(type_)) for type_ in given]
        fresh: list[_Slot] = list(parameters)
        leaves: dict[int, _Slot] = {}
        for at in sorted(self.open):
            slot = self.slots[at]
            hole = slot.hole
            taken = {id(leaves[p]) for p in slot.peers if p in leaves}
            fitting = [p for p in fresh if p.hole == hole and (id(p) not in taken or self.draw.chance(TWICE))]
            if fitting and not hole.leaf and self.draw.chance(0.75 if given else 0.4):
                leaves[at] = self.draw.pick(fitting)
            elif not hole.leaf and fresh and at not in roots and self.draw.chance(self.grammar.constants):
                slot.node, slot.text = constant(self.draw, hole.type)
            else:
                leaves[at] = _Slot(hole)
                fresh.append(leaves[at])
        return _ordered(self.slots, roots, leaves, fresh)


def choose(draw: Draw, grammar: Grammar, type_: Type, depth: int, budget: int) -> tuple[str, Made] | None:
    """A form that gives the type, with what it made of it; None where none of those tried can."""
    forms, cumulative = candidates(grammar, type_.dtype, depth < grammar.depth and budget > 1, depth > 0)
    if not forms:
        return None
    site = Site(draw, grammar, depth, budget)
    for _ in range(TRIES):
        chosen = draw.weighted(forms, cumulative)
        made = chosen.inverse(site, type_)
        if made is not None and all(hole.type.extent <= grammar.most for hole in made.operands):
            return chosen.name, made
    return None


@lru_cache(maxsize=4096)
def candidates(grammar: Grammar, dtype: str, lifts: bool, inside: bool) -> tuple[list[Form], list[float]]:
    """The forms that can give an element type, and the running sums of their weights. lifts: whether those with bodies
    may be among them; inside: whether this is for a body.
    """
    found = []
    for known in REGISTRY.forms.values():
        if dtype not in known.results or (known.lifts and not lifts) or (known.outermost and inside):
            continue
        if (weight := weight_in(grammar, known)) > 0:
            found.append((known, weight))
    return [form for form, _ in found], running([weight for _, weight in found])


def grow(
    draw: Draw,
    grammar: Grammar,
    roots: Sequence[Type],
    budget: int,
    depth: int = 0,
    given: Sequence[Type] = (),
    more: bool = False,
    pair: tuple[str, str] | None = None,
) -> Plan:
    """A plan with results of these types and about `budget` operations.

    given: types of parameters that it has in any case, in this order; others follow. more: whether it may have results
    after these, where an operation has several. pair: the operations to begin with; see `tour`.
    """
    growth = _Growth(draw, grammar, depth, [] if more else None)
    left = budget
    results = []
    if pair is not None and (begun := tour.begun(draw, grammar, pair)) is not None:
        results.append(growth.hole(Hole(begun[0])))
        growth.begin(results[0], begun, pair)
        left, roots = left - 2, roots[1:]
    results += [growth.hole(Hole(type_)) for type_ in roots]
    stuck = 0
    while left > 0 and growth.open and stuck < 8:
        spent = growth.fill(left)
        stuck = stuck + 1 if spent == 0 else 0
        left -= spent
    return growth.plan([*results, *(growth.more or [])], given)


def _ordered(slots: list[_Slot], roots: Sequence[int], leaves: dict[int, _Slot], parameters: list[_Slot]) -> Plan:
    """Nodes with operands first: parameters, then the rest by depth-first search from the results."""
    nodes = [Node(slot.hole.type, "") for slot in parameters]
    number = {id(slot): i for i, slot in enumerate(parameters)}
    place: dict[int, int] = {at: number[id(slot)] for at, slot in leaves.items()}
    for root in roots:
        stack = [root]
        while stack:
            at = stack[-1]
            slot = slots[at]
            waiting = [o for o in slot.operands if o not in place] if at not in place else []
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if at not in place:
                operands = tuple(place[o] for o in slot.operands)
                nodes.append(Node(slot.many or slot.hole.type, slot.node, operands, slot.text, slot.bodies))
                place[at] = len(nodes) - 1
    return Plan(tuple(nodes), tuple(range(len(parameters))), tuple(place[root] for root in roots))
