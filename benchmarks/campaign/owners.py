"""Which program of a batch an instruction of the batch's optimized module belongs to: the one whose results need it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.hlo.attributes import called
from assay.hlo.graph import reachable
from assay.hlo.module import Module

Owners = dict[tuple[str, str], int]
"""(computation, instruction) -> the number of the program; those that several share, or none needs, are left out."""


def owners(module: Module, results: Sequence[int]) -> Owners:
    """results: for each result of the entry the program that it is of."""
    entry = module.entry
    values = entry.root.operands if entry.root.opcode == "tuple" else (entry.root_name,)
    if len(values) != len(results):
        return {}
    needs: dict[str, set[int]] = {name: set() for name in entry.by_name}
    for name, number in zip(values, results, strict=True):
        needs[name].add(number)
    of: dict[str, set[int]] = {}
    found: Owners = {}
    for computation in reversed(reachable(module)):  # callers first
        inside = needs if computation.name == entry.name else {}
        whole = of.get(computation.name, set())
        for i in reversed(computation.instructions):
            mine = inside.get(i.name, set()) if computation.name == entry.name else whole
            if inside:
                for operand in i.operands:
                    inside[operand] |= mine
            for name in called(i):
                of.setdefault(name, set()).update(mine)
            if len(mine) == 1:
                found[computation.name, i.name] = next(iter(mine))
    return found
