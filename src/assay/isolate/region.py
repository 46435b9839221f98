"""What changed between two modules: the instructions of either side that have no counterpart on the other.

Values are matched from the parameters down, by what they compute (`expressions`), and from the results up, by what
becomes of them. Below a change everything computes something else, yet is used as before: it has a counterpart by the
second. What has none by the first, and either none by the second or nothing changed above it, is the change, together
with what the other side has in its place; but for an instruction between two changes that stands in both with the same
name, attributes and operands. Where the change lies in a computation that an instruction calls, it is looked for there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_instruction
from assay.isolate.expressions import Expressions, Key, Ref, flat, walk


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction and the computation it stands in."""

    computation: str
    instruction: Instruction

    @property
    def text(self) -> str:
        return print_instruction(self.instruction)


@dataclass(frozen=True, slots=True)
class Region:
    """The changed instructions before and after, in program order."""

    before: tuple[Place, ...]
    after: tuple[Place, ...]


def changed(before: Module, after: Module) -> Region:
    """The smallest changed region that matching finds; empty on both sides where both compute the same."""
    expressions = Expressions()
    return _changed(expressions, before, before.entry, after, after.entry)


@dataclass(frozen=True, slots=True)
class _Step:
    """One value-making instruction: the key of what it computes, and the numbers it takes and gives."""

    place: Place
    key: Key
    operands: tuple[Ref, ...]
    result: Ref

    @property
    def text(self) -> tuple[Any, ...]:
        """What is written there, but for layouts and what does not enter the value."""
        return self.place.instruction.name, self.key[0], self.key[1], self.place.instruction.operands


@dataclass(slots=True)
class _Side:
    """One computation, calls and fusions entered. down: the numbers of its values. up: what becomes of each. uses: what
    becomes of the results of each instruction.
    """

    module: Module
    steps: list[_Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    down: set[int] = field(default_factory=set)
    up: dict[int, int] = field(default_factory=dict)
    uses: set[Any] = field(default_factory=set)

    def use(self, step: _Step) -> tuple[Any, ...]:
        """What becomes of the results of an instruction."""
        return tuple(self.up[number] for number in flat(step.result))


def _side(expressions: Expressions, module: Module, computation: Computation) -> _Side:
    side = _Side(module)
    expressions.enter(module)

    def number(where: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Ref:
        key = expressions.key(where, instruction, operands)
        result = expressions.symbol(where, instruction, operands)
        side.steps.append(_Step(Place(where.name, instruction), key, operands, result))
        return result

    arguments = [expressions.parameter(i, p.shape) for i, p in enumerate(computation.parameters)]
    root = walk(module, computation, arguments, number)[computation.root_name]
    side.results = flat(root)
    side.down = {n for ref in (*arguments, *(step.result for step in side.steps)) for n in flat(ref)}
    _look_up(side)
    return side


def _look_up(side: _Side) -> None:
    users: dict[int, list[Any]] = {}
    for index, number in enumerate(side.results):
        users.setdefault(number, []).append(("result", index))
    seen: set[Any] = set()
    for step in reversed(side.steps):
        if step.result in seen:  # computed twice: users of both are users of one value
            continue
        seen.add(step.result)
        after = tuple(_fate(side, users, number) for number in flat(step.result))
        side.uses.add((step.key[0], step.key[1], after))
        for position, operand in enumerate(step.operands):
            for place, number in enumerate(flat(operand)):
                users.setdefault(number, []).append((step.key[0], step.key[1], position, place, after))


def _fate(side: _Side, users: dict[int, list[Any]], number: int) -> int:
    if number not in side.up:
        side.up[number] = hash(tuple(sorted(map(hash, users.get(number, ())))))
    return side.up[number]


def _changed(expressions: Expressions, before: Module, old: Computation, after: Module, new: Computation) -> Region:
    a, b = _side(expressions, before, old), _side(expressions, after, new)
    gone, come = _without_counterpart(a, b), _without_counterpart(b, a)
    gone, come = _with_replaced(a, gone, b, come), _with_replaced(b, come, a, gone)
    if not gone and not come and a.results != b.results:  # the results alone are others, or in another order
        return Region((Place(old.name, old.root),), (Place(new.name, new.root),))
    inner = _inside(expressions, a, gone, b, come)
    if inner is not None:
        return inner
    return Region(_places(gone), _places(come))


def _without_counterpart(mine: _Side, other: _Side) -> list[_Step]:
    found = []
    written = {step.text for step in other.steps}
    for step in mine.steps:
        if other.down.issuperset(flat(step.result)) or step.text in written:
            continue
        same_use = (step.key[0], step.key[1], mine.use(step)) in other.uses
        new_above = any(not other.down.issuperset(flat(operand)) for operand in step.operands)
        if not (same_use and new_above):
            found.append(step)
    return found


def _with_replaced(mine: _Side, changed_: list[_Step], other: _Side, theirs: list[_Step]) -> list[_Step]:
    """And the instructions in whose place the other side's stand: their results are used in the same way."""
    uses = {other.use(step) for step in theirs}
    names = {id(step) for step in changed_}
    return [
        step
        for step in mine.steps
        if id(step) in names or (mine.use(step) in uses and not other.down.issuperset(flat(step.result)))
    ]


def _inside(
    expressions: Expressions, a: _Side, gone: Sequence[_Step], b: _Side, come: Sequence[_Step]
) -> Region | None:
    """The change in a computation that one instruction calls, where that is all that changed."""
    if len(gone) != 1 or len(come) != 1 or gone[0].key[0] != come[0].key[0]:
        return None
    old, new = called(gone[0].place.instruction), called(come[0].place.instruction)
    differing = [i for i, (x, y) in enumerate(zip(gone[0].key[1], come[0].key[1], strict=False)) if x != y]
    if len(old) != len(new) or len(differing) != 1:
        return None
    at = differing[0]
    found = _changed(expressions, a.module, a.module.by_name[old[at]], b.module, b.module.by_name[new[at]])
    return found if found.before or found.after else None


def _places(steps: Sequence[_Step]) -> tuple[Place, ...]:
    unique: dict[tuple[str, str], Place] = {}
    for step in steps:
        unique.setdefault((step.place.computation, step.place.instruction.name), step.place)
    return tuple(unique.values())
