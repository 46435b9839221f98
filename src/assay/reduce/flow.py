"""Loops, branches and calls: opened, run fewer times, carrying less."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from assay.hlo.attributes import branches, called
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.isolate.graph.cut import running
from assay.reduce.candidate import Candidate, tidied
from assay.reduce.edit import inlined
from assay.reduce.focus import possible
from assay.reduce.search import Search
from assay.reduce.signature import invariants, pruned_call, pruned_conditional, pruned_while, with_constant

GROWTH = 40
"""Instructions that a body in the place of a call may add: they are taken out later."""


def opened(search: Search) -> bool:
    """The body of a loop, of a branch or of a call in its place, all of them or one."""

    def made() -> Iterator[Candidate | None]:
        current, places = search.current, _places(search.current.module)
        if len(places) > 1:
            yield possible(partial(_all_opened, current))
        for computation, instruction in places:
            for which in range(len(_bodies(instruction))):
                yield possible(partial(_opened, current, computation, instruction, which))

    found = False
    while search.first(made(), grow=GROWTH) is not None:
        found = True
    return found


def _places(module: Module) -> list[tuple[Computation, Instruction]]:
    """The loops, branches and calls that run, and where."""
    return [(c, i) for c in running(module) for i in c.instructions if i.opcode in CONTROL_FLOW]


def _bodies(instruction: Instruction) -> tuple[str, ...]:
    """The computations that may stand in its place."""
    if instruction.opcode == "conditional":
        return branches(instruction)
    return called(instruction)[-1:] if instruction.opcode == "call" else (instruction.attributes["body"],)


def _opened(candidate: Candidate, computation: Computation, instruction: Instruction, which: int) -> Candidate:
    module = candidate.module
    callee = module.by_name[_bodies(instruction)[which]]
    operands = instruction.operands if instruction.opcode != "conditional" else (instruction.operands[which + 1],)
    made = inlined(module, module.by_name[computation.name], instruction, callee, operands)
    return tidied(made, candidate.arguments, f"the body of {instruction.name}")


def _all_opened(candidate: Candidate) -> Candidate:
    """Every loop once, the first of each branch, every call."""
    current = candidate
    for _ in range(1000):
        entry = current.module.entry
        found = next((i for i in entry.instructions if i.opcode in CONTROL_FLOW), None)
        if found is None:
            break
        current = _opened(current, entry, found, 0)
    return Candidate(current.module, current.arguments, "the bodies of all loops, branches and calls")


def carries(search: Search) -> bool:
    """Loops, branches and calls that take and give less."""
    before = search.current.size

    def made() -> Iterator[Candidate | None]:
        current, module = search.current, search.current.module
        for where, instruction in _places(module):
            if instruction.opcode == "call":
                yield possible(partial(pruned_call, current, where, instruction))
            elif instruction.opcode == "conditional":
                yield possible(partial(pruned_conditional, current, where, instruction))
            else:
                yield possible(partial(pruned_while, current, where, instruction))
                values = search.values()
                yield possible(partial(with_constant, current, where, instruction, values))
                for index in invariants(module, where, instruction):
                    yield possible(partial(with_constant, current, where, instruction, values, (index,)))

    while search.first(made()) is not None:
        pass
    return search.current.size < before
