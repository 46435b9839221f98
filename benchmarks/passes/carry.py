"""A fault planted into a chain of snapshots: made in one of them, and again in each later one in which the same
instruction still stands.

The chain ends with the last of those: what later passes would have made of the wrong instruction is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from faults import FAULTS, Fault

from assay.hlo.graph import live, reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape


@dataclass(frozen=True)
class Planted:
    """at: the snapshot that the fault was made in. modules: those from there on, edited."""

    kind: str
    at: int
    instruction: str
    opcode: str
    modules: tuple[Module, ...]


def plant(modules: Sequence[Module], kind: str, rng: np.random.Generator, longest: int = 4) -> Planted | None:
    """The fault at a random pass: one of the snapshots (but the first) that have a place for it, and one of its places.

    Of `longest` places the one that can be carried farthest. None where no snapshot has a place.
    """
    fault = FAULTS[kind]
    for at in rng.permutation(np.arange(1, len(modules))):
        here = places(modules[at], fault)
        if not here:
            continue
        some = rng.permutation(len(here))[:longest]
        tries = [_carried(modules, int(at), kind, here[p]) for p in some]
        return max(tries, key=lambda planted: len(planted.modules))
    return None


def edited(module: Module, fault: Fault, computation: str, instruction: str) -> Module | None:
    """The module with the fault made at one instruction; None where it does not apply."""
    inside = module.by_name[computation]
    edit = fault(module, inside, inside.by_name[instruction])
    if edit is None:
        return None
    new: list[Instruction] = []
    for i in inside.instructions:
        new += [*edit.before, edit.replacement] if i.name == instruction else [i]
    changed = replace(inside, instructions=tuple(new))
    return replace(module, computations=tuple(changed if c.name == computation else c for c in module.computations))


def _carried(modules: Sequence[Module], at: int, kind: str, place: tuple[str, str]) -> Planted:
    original = modules[at].by_name[place[0]].by_name[place[1]]
    found: list[Module] = []
    for module in modules[at:]:
        where = _standing(module, original)
        made = None if where is None else edited(module, FAULTS[kind], *where)
        if made is None:
            break
        found.append(made)
    return Planted(kind, at, original.name, original.opcode, tuple(found))


def _standing(module: Module, original: Instruction) -> tuple[str, str] | None:
    """Where the same instruction stands: of its name, opcode, type and arity, and needed for the result."""
    found = [
        (c.name, original.name)
        for c in reachable(module)
        if (i := c.by_name.get(original.name)) is not None
        and (i.opcode, _type(i), len(i.operands)) == (original.opcode, _type(original), len(original.operands))
        and i.name in live(c)
    ]
    return found[0] if len(found) == 1 else None


def places(module: Module, fault: Fault) -> list[tuple[str, str]]:
    names: dict[str, int] = {}
    for c in module.computations:
        for i in c.instructions:
            names[i.name] = names.get(i.name, 0) + 1
    return [
        (c.name, i.name)
        for c in reachable(module)
        for i in c.instructions
        if names[i.name] == 1 and i.name in live(c) and edited_applies(module, fault, c, i)
    ]


def edited_applies(module: Module, fault: Fault, c: Computation, i: Instruction) -> bool:
    try:
        return fault(module, c, i) is not None
    except AssertionError:
        return False  # of tuples, for which no fault is meant


def _type(i: Instruction) -> tuple[str, tuple[int, ...]] | str:
    return (i.shape.dtype.name, i.shape.dims) if isinstance(i.shape, ArrayShape) else str(type(i.shape))
