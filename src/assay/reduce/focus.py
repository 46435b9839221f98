"""Outputs and instructions of the entry: from the whole program to the piece that is wrong.

In program order the bug lies in a window. Its end is found by making what is alive at a place the results, its
beginning by making what is alive there parameters; each by halves, for where a bug shows, it mostly shows in what is
larger as well. Where it does not, chunks are cut out one by one, large ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from assay.errors import HloTypeError
from assay.hlo.graph import users
from assay.hlo.module import Computation
from assay.hlo.shape import ArrayShape, TupleShape, compatible
from assay.reduce.candidate import Candidate
from assay.reduce.edit import cut, outputs, replaced, with_constants
from assay.reduce.search import Search

_SMALL = frozenset(("parameter", "constant", "iota", "tuple"))
"""What is as small as what would stand in its place."""


def wrong_outputs(search: Search) -> bool:
    """Only the results that are wrong, or one of them."""
    current, names = search.current, outputs(search.current)
    wrong = [names[i] for i in search.known.outputs if i < len(names)]
    if len(names) == 1:
        return False
    values = search.values()
    choices = [[name] for name in dict.fromkeys((*wrong, *names))]
    if 1 < len(wrong) < len(names):
        choices.insert(1, wrong)
    made = (possible(partial(cut, current, c, (), values, f"results {', '.join(c)}")) for c in choices)
    return search.first(made) is not None


def windows(search: Search) -> bool:
    """The end of the window, then its beginning."""
    before = search.current.size
    _by_halves(search, _ending)
    _by_halves(search, _beginning)
    return search.current.size < before


def _by_halves(search: Search, make: Callable[[Candidate, int, Search], Candidate | None]) -> None:
    """Cuts at places that leave less and less, as long as it is still seen: first an eighth of the program, then more
    of it, then by halves between what was enough and what was not.
    """
    while (count := len(search.current.module.entry.instructions)) > 2:
        current = search.current
        places = sorted({max(1, count * share // 16) for share in (1, 2, 4, 8, 12, 14, 15)} | {count - 1})
        if search.first(make(current, place, search) for place in places) is None:
            return


def _ending(candidate: Candidate, place: int, search: Search) -> Candidate | None:
    """The first `place` instructions: what later ones, or the results, need of them are the results."""
    entry = candidate.module.entry
    order = entry.instructions
    needed = {*outputs(candidate)}
    for instruction in reversed(order[place:]):
        if instruction.name in needed or instruction.name == entry.root_name:
            needed.update(instruction.operands)
    made = [i for i in order[:place] if i.name in needed and i.opcode not in _SMALL]
    alive = [i.name for i in made if isinstance(i.shape, ArrayShape)]
    if not alive:
        return None
    words = f"the first {place} of {len(order)} instructions"
    return possible(partial(cut, candidate, alive, (), search.values(), words))


def _beginning(candidate: Candidate, place: int, search: Search) -> Candidate | None:
    """The last `place` instructions."""
    order = candidate.module.entry.instructions
    gone = [i.name for i in order[: len(order) - place] if i.opcode not in _SMALL]
    if not gone:
        return None
    words = f"the last {place} of {len(order)} instructions"
    return possible(partial(cut, candidate, outputs(candidate), gone, search.values(), words))


def possible(make: Callable[[], Candidate | None]) -> Candidate | None:
    """The candidate, None where there is none such."""
    try:
        return make()
    except HloTypeError:
        return None


def chunks(search: Search, computation: str) -> bool:
    """Takes instructions out of a computation, many at once and then fewer."""
    before = search.current.size
    size = max(1, len(_names(search, computation)) // 2)
    while True:
        position = 0
        while position < len(names := _names(search, computation)):
            starts = range(position, len(names), size)
            taken = search.first(_without(search, computation, names[start : start + size]) for start in starts)
            if taken is None:
                break
            position = max(0, starts[taken] - size)
        if size == 1:
            return search.current.size < before
        size = max(1, min(size // 2, len(names) // 2))


def _names(search: Search, computation: str) -> Sequence[str]:
    there = search.current.module.by_name.get(computation)
    return [] if there is None else [i.name for i in reversed(there.instructions) if i.opcode not in _SMALL]


def _without(search: Search, computation: str, names: Sequence[str]) -> Candidate | None:
    current, module = search.current, search.current.module
    words = f"without {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    values = search.values()
    if computation != module.entry_name:
        return possible(partial(with_constants, current, computation, names, values, words))
    kept = _results_without(module.entry, outputs(current), set(names))
    return possible(partial(cut, current, kept, names, values, words)) if kept else None


def _results_without(entry: Computation, results: Sequence[str], gone: set[str]) -> list[str]:
    """Results that are not taken out; where all are, what those that are gone are made of."""
    kept = [name for name in results if name not in gone]
    if kept:
        return kept
    below: dict[str, None] = {}
    todo = list(results)
    while todo:
        for operand in entry.by_name[todo.pop()].operands:
            if operand in gone or entry.by_name[operand].opcode == "tuple":
                todo.append(operand)
            elif entry.by_name[operand].opcode not in _SMALL and isinstance(entry.by_name[operand].shape, ArrayShape):
                below[operand] = None
    return list(below)


def by_operands(search: Search, computation: str) -> bool:
    """Takes one instruction at a time out by reading an operand of its in its place, or for a parameter another."""
    before = search.current.size

    def made() -> Iterator[Candidate | None]:
        current = search.current
        there = current.module.by_name.get(computation)
        if there is None:
            return
        used = users(there)
        for instruction in reversed(there.instructions):
            if not used[instruction.name] and instruction.name != there.root_name:
                continue
            for operand in _in_place(there, instruction.name):
                words = f"{operand} for {instruction.name}"
                yield possible(partial(replaced, current, there, {instruction.name: operand}, words))

    while search.first(made()) is not None:
        pass
    return search.current.size < before


def _in_place(computation: Computation, name: str) -> Iterator[str]:
    """What stands before an instruction and may be read for it."""
    instruction = computation.by_name[name]
    for operand in dict.fromkeys(instruction.operands):
        if _alike(computation, operand, name):
            yield operand
    if instruction.opcode == "parameter":
        for other in computation.parameters:
            if other.name != name and _alike(computation, other.name, name) and _before(computation, other.name, name):
                yield other.name


def _alike(computation: Computation, a: str, b: str) -> bool:
    one, other = computation.by_name[a].shape, computation.by_name[b].shape
    return isinstance(one, ArrayShape | TupleShape) and compatible(one, other)


def _before(computation: Computation, a: str, b: str) -> bool:
    return next(i.name for i in computation.instructions if i.name in (a, b)) == a
