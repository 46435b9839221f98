"""What no single piece shows: pieces that are wrong together, compiled as one, and the fewest that still are.

A bug that vanishes when a piece is cut out needs its neighbours. From a piece where the graph first differs the set
grows, operands backwards and users forwards, until the mismatch shows; then it shrinks by halves until no piece can be
left out. Every set is convex: with two pieces it has all that lies on the ways between them, so that it is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from assay.checking.bounds import Step
from assay.hlo.attributes import called
from assay.hlo.graph import called_order, users
from assay.hlo.module import Computation, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.shape import ArrayShape
from assay.isolate.graph.alone import Closures, attributes, together
from assay.isolate.graph.cut import cut
from assay.isolate.graph.piece import Cut, Operand, Piece
from assay.isolate.graph.trace import indexed_leaves
from assay.isolate.graph.values import Values, values
from assay.oracle.verdict import FINDINGS, Verdict

Judge = Callable[[Piece], Verdict]
Names = frozenset[str]

BUDGET = 200
"""Judgements: each compiles a program."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One computation of a module as units: pieces, and loops, branches and calls whole, by the name of the instruction
    that ends one.

    units: the instructions that are a unit's own, in program order. owner: of an instruction, its unit. before, after:
    the units whose values one takes, and that take its own, whatever tuples and bitcasts lie between.
    """

    module: Module
    computation: Computation
    units: Mapping[str, tuple[str, ...]]
    owner: Mapping[str, str]
    before: Mapping[str, Names]
    after: Mapping[str, Names]
    users: Mapping[str, tuple[str, ...]]
    known: Values
    closures: Closures
    header: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to. piece: the smallest neighbourhood that shows `verdict`, None where none does, with `why`.

    units: the pieces in it, all of one computation, in program order. radius: how far from the start the first that
    showed it reached. judged: how many were. minimal: whether no unit can be left out; not where the budget ended.
    """

    piece: Piece | None
    units: tuple[str, ...] = ()
    verdict: Verdict = Verdict.AGREE
    radius: int = 0
    judged: int = 0
    minimal: bool = False
    why: str = ""


def graph_of(module: Module, computation: str, made: Cut | None = None) -> Graph:
    """made: the module's cut, where it is there already."""
    found = made or cut(module)
    home = module.by_name[computation]
    own: dict[str, tuple[str, ...]] = {}
    for piece in found.pieces:
        if piece.computation == computation:
            brought = frozenset(piece.brought)
            own[piece.name] = tuple(name for name in piece.instructions if name not in brought)
    for left in found.left:
        if left.computation == computation and left.opcode in CONTROL_FLOW:
            own[left.name] = (left.name,)
    units = {i.name: own[i.name] for i in home.instructions if i.name in own}
    owner = {name: unit for unit, names in units.items() for name in names}
    makers: dict[str, Names] = {}
    before: dict[str, Names] = {}
    after: dict[str, set[str]] = {unit: set() for unit in units}
    for instruction in home.instructions:
        made_by = frozenset[str]().union(*(makers[operand] for operand in instruction.operands))
        unit = owner.get(instruction.name)
        if unit is not None:
            before[unit] = before.get(unit, frozenset()) | made_by - {unit}
            made_by = frozenset((unit,))
        makers[instruction.name] = made_by
    for unit, others in before.items():
        for other in others:
            after[other].add(unit)
    closures = Closures(module, {c.name: place for place, c in enumerate(called_order(module))})
    known = values(module, home, {})
    behind = {unit: frozenset(others) for unit, others in after.items()}
    return Graph(module, home, units, owner, before, behind, users(home), known, closures, attributes(module))


def hull(graph: Graph, units: Collection[str]) -> Names:
    """The smallest convex set of units that has all of `units`."""
    return frozenset(graph.owner[name] for name in _members(graph, units) if name in graph.owner)


def neighbourhood(graph: Graph, units: Collection[str]) -> Piece:
    """The hull of `units` as one program: it is given the values that come from outside, and gives those that are used
    there, each array once. Its name is that of the last instruction.
    """
    members = _members(graph, units)
    instructions = [i for i in graph.computation.instructions if i.name in members]
    outputs = list(_outputs(graph, members))
    return together(graph.module, graph.computation, instructions, outputs, graph.known, graph.closures, graph.header)


def grown(graph: Graph, units: Collection[str], radius: int) -> Names:
    """The hull of `units` and of all within `radius` steps of them, either way."""
    found, edge = set(units), set(units)
    for _ in range(radius):
        edge = {other for unit in edge for other in graph.before[unit] | graph.after[unit]} - found
        if not edge:
            break
        found |= edge
    return hull(graph, found)


def find(
    graph: Graph,
    start: Collection[str],
    judge: Judge,
    budget: int = BUDGET,
    step: Step = lambda _: None,
) -> Found:
    """Grows from the units `start`, or begins with the whole computation where there are none, until `judge` gives a
    verdict that is a finding; then shrinks. What cannot be judged shows nothing.
    """
    search = _Search(graph, judge, budget, step)
    try:
        shown, radius = search.grow(frozenset(start))
    except _Spent:
        return Found(None, judged=search.judged, why=f"{budget} neighbourhoods were judged, and none is wrong")
    if shown is None:
        return Found(None, judged=search.judged, why="compiled as one program, the computation is not wrong")
    minimal = True
    try:
        shown = search.shrink(shown)
    except _Spent:
        minimal, shown = False, search.smallest
    ordered = tuple(unit for unit in graph.units if unit in shown)
    return Found(neighbourhood(graph, shown), ordered, search.verdicts[shown], radius, search.judged, minimal)


def search(
    module: Module,
    judge: Judge,
    suspects: Mapping[str, Collection[str]] = MappingProxyType({}),
    budget: int = BUDGET,
    step: Step = lambda _: None,
) -> Found:
    """`find` in the entry, and where a loop, a branch or a call is all that is left, in what it runs.

    suspects: by computation, the units to start from.
    """
    made = cut(module)
    home, judged = module.entry_name, 0
    found: Found | None = None
    todo = [home]
    while todo:
        name = todo.pop(0)
        graph = graph_of(module, name, made)
        start = [unit for unit in suspects.get(name, ()) if unit in graph.units]
        inner = find(graph, start, judge, budget - judged, step)
        judged += inner.judged
        if inner.piece is not None:
            found = inner
            (first, *others) = inner.units
            instruction = graph.computation.by_name[first]
            todo = list(called(instruction)) if not others and instruction.opcode in CONTROL_FLOW else []
        elif found is None:
            found = inner
    assert found is not None
    return replace(found, judged=judged)


class _Spent(Exception):
    """The budget of judgements is used up."""


@dataclass(slots=True)
class _Search:
    """verdicts: of the sets that were judged. wanted: the verdict that is looked for, once one was seen."""

    graph: Graph
    judge: Judge
    budget: int
    step: Step
    verdicts: dict[Names, Verdict] = field(default_factory=dict)
    wanted: Verdict | None = None
    smallest: Names = frozenset()

    @property
    def judged(self) -> int:
        return len(self.verdicts)

    def shows(self, units: Names) -> bool:
        if units not in self.verdicts:
            if self.judged >= self.budget:
                raise _Spent
            self.step(f"neighbourhood {self.judged + 1}: {len(units)} pieces as one program")
            self.verdicts[units] = self.judge(neighbourhood(self.graph, units))
        verdict = self.verdicts[units]
        if verdict not in FINDINGS or (self.wanted is not None and verdict != self.wanted):
            return False
        self.wanted, self.smallest = verdict, units
        return True

    def grow(self, start: Names) -> tuple[Names | None, int]:
        """Radii 0, 1, 2, 4, ...: each set costs a compilation, and a shrink is by halves."""
        every = frozenset(self.graph.units)
        radius, last = 0, frozenset[str]()
        while start and last != every:
            units = grown(self.graph, start, radius)
            if units == last:
                break  # what hangs together with the start is all there
            if self.shows(units):
                return units, radius
            radius, last = max(1, 2 * radius), units
        return (every, radius) if every and last != every and self.shows(every) else (None, radius)

    def shrink(self, units: Names) -> Names:
        """Delta debugging: tries to leave out halves, quarters, ... and at last each unit."""
        chunks = 2
        while len(units) > 1:
            smaller = next((s for s in self._without_one(units, chunks) if self.shows(s)), None)
            if smaller is not None:
                units = smaller
                chunks = max(2, min(chunks - 1, len(units)))
            elif chunks >= len(units):
                break
            else:
                chunks = min(2 * chunks, len(units))
        return units

    def _without_one(self, units: Names, chunks: int) -> Iterator[Names]:
        """The hulls of one chunk alone and of all but one, where that is smaller; chunks are in program order."""
        ordered = [unit for unit in self.graph.units if unit in units]
        size = -(-len(ordered) // chunks)
        parts = [ordered[at : at + size] for at in range(0, len(ordered), size)]
        halves = [hull(self.graph, part) for part in parts if chunks == 2]
        others = (hull(self.graph, units - frozenset(part)) for part in parts)
        return (smaller for smaller in chain(halves, others) if len(smaller) < len(units))


def _members(graph: Graph, units: Collection[str]) -> Names:
    """The instructions of the hull: own ones of units, and whatever lies on a way from one to another."""
    order = graph.computation.instructions
    wanted = {name for unit in units for name in graph.units[unit]}
    while True:
        places = [at for at, i in enumerate(order) if i.name in wanted]
        between = order[places[0] : places[-1] + 1] if places else ()
        down: set[str] = set()
        for instruction in between:
            if instruction.name in wanted or not down.isdisjoint(instruction.operands):
                down.add(instruction.name)
        up: set[str] = set()
        for instruction in reversed(between):
            if instruction.name in wanted or not up.isdisjoint(graph.users[instruction.name]):
                up.add(instruction.name)
        found = down & up
        whole = {name for one in found if one in graph.owner for name in graph.units[graph.owner[one]]}
        if whole <= found:
            return frozenset(found)
        wanted = found | whole


def _outputs(graph: Graph, members: Names) -> Iterator[Operand]:
    """The arrays of members that others use, each once under whatever names; all of the last unit where none does."""
    home = graph.computation
    outside = [n for n in members if n == home.root_name or any(u not in members for u in graph.users[n])]
    leaving = [i for i in home.instructions if i.name in frozenset(outside)]
    given: dict[Operand, None] = {}
    for instruction in leaving or [i for i in home.instructions if i.name in members][-1:]:
        for index, shape in indexed_leaves(instruction.shape):
            source = graph.known.element(home, instruction.name, index)
            base = source if source.index else graph.known.base[source.name]
            if base.name in members and isinstance(shape, ArrayShape):
                given.setdefault(base)
    return iter(given)
