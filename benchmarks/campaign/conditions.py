"""Wrong compilers: a kind of wrong computation, and the condition under which a compiler makes it.

A compiler's fault is seldom of every instruction: it is of one type, of dimensions that are no multiple of a tile, of
what stands in a fusion. So a condition is up to two clauses, drawn from a seed and of different families; the clauses
know nothing of the generator. A fault with none is wrong of all that its kind applies to.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("isolation", "passes")]

from carry import edited_applies
from faults import FAULTS as REWRITES
from kinds import KINDS as WRONG

from assay.hlo.attributes import called
from assay.hlo.graph import live, reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape

KINDS = {**WRONG, **REWRITES}


@dataclass(frozen=True, slots=True)
class Fault:
    """clauses: all must hold; each is a family's name, a colon, and a clause of it."""

    kind: str
    clauses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "; ".join((self.kind, *self.clauses))

    @staticmethod
    def of(name: str) -> Fault:
        kind, *clauses = name.split("; ")
        return Fault(kind, tuple(clauses))


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction where it stands. fused: whether its computation is a fusion's. inner: whether it is in a loop, a
    branch or a reduction, or in a fusion there. uses: of its value.
    """

    computation: Computation
    instruction: Instruction
    fused: bool
    inner: bool
    uses: int

    @property
    def shape(self) -> ArrayShape | None:
        """What it computes; of a comparison, what it compares."""
        i = self.instruction
        shape = self.computation.by_name[i.operands[0]].shape if i.opcode == "compare" else i.shape
        return shape if isinstance(shape, ArrayShape) else None


Clause = Callable[[Site], bool]


def _typed(*names: str) -> Clause:
    return lambda site: site.shape is not None and site.shape.dtype.name in names


def _of(holds: Callable[[ArrayShape], bool]) -> Clause:
    return lambda site: site.shape is not None and holds(site.shape)


def _has_operand(*opcodes: str) -> Clause:
    return lambda site: any(operand.opcode in opcodes for operand in site.computation.operands(site.instruction))


TYPES: dict[str, Clause] = {
    "f32": _typed("f32"),
    "bf16 or f16": _typed("bf16", "f16"),
    "signed integers": _typed("s8", "s16", "s32", "s64"),
    "unsigned integers": _typed("u8", "u16", "u32", "u64"),
    "8 or 16 bits": _typed("s8", "u8", "s16", "u16"),
}
DIMENSIONS: dict[str, Clause] = {
    "one over 127": _of(lambda s: any(d > 127 for d in s.dims)),
    "one over 255": _of(lambda s: any(d > 255 for d in s.dims)),
    "none a multiple of 8": _of(lambda s: bool(s.dims) and all(d % 8 for d in s.dims)),
    "a minor one that is a multiple of 8": _of(lambda s: bool(s.dims) and s.dims[-1] % 8 == 0),
    "one of 1": _of(lambda s: 1 in s.dims),
    "rank 1": _of(lambda s: len(s.dims) == 1),
    "rank 2": _of(lambda s: len(s.dims) == 2),
    "rank 3 or more": _of(lambda s: len(s.dims) >= 3),
}
PLACES: dict[str, Clause] = {
    "in a fusion": lambda site: site.fused,
    "in no fusion": lambda site: not site.fused,
    "in a loop, a branch or a reduction": lambda site: site.inner,
    "a value used twice": lambda site: site.uses > 1,
    "of a constant": _has_operand("constant", "broadcast", "iota"),
    "of a parameter": _has_operand("parameter"),
    "of a reshape, a transpose or a bitcast": _has_operand("bitcast", "reshape", "transpose", "copy"),
}
FAMILIES = {"type": TYPES, "dimensions": DIMENSIONS, "place": PLACES}
FLOATS, INTEGERS = ("f32", "bf16 or f16"), ("signed integers", "unsigned integers", "8 or 16 bits")
OF_TYPES = {
    **dict.fromkeys(("negated", "scaled", "last lane lost"), FLOATS),
    **dict.fromkeys(("clamp off by one", "trip count off by one"), INTEGERS),
    "wrong iota width": ("f32", "signed integers", "unsigned integers"),
    "rounded too far": (),
}
"""The types that a kind is of, where it is not of all: a clause of another would never hold."""
SCALAR = ("trip count off by one",)
"""Kinds of scalars, which have no dimensions."""
SOURCES = ("wrong iota width",)
"""Kinds of what has no operands: a clause about one would never hold."""
IN_A_LOOP = ("trip count off by one",)


def faults(seed: int, each: int) -> Iterator[Fault]:
    """Of every kind the wide one, and then `each` narrower ones, all different."""
    for kind in KINDS:
        yield Fault(kind)
        own, seen = random.Random(f"{seed}/{kind}"), set[Fault]()
        while len(seen) < min(each, _narrower(kind)):
            fault = Fault(kind, _drawn(kind, own))
            if fault not in seen:
                seen.add(fault)
                yield fault


def _families(kind: str) -> dict[str, list[str]]:
    found = {"type": list(OF_TYPES.get(kind, TYPES)), "dimensions": list(DIMENSIONS), "place": list(PLACES)}
    if kind in SCALAR:
        found["dimensions"] = []
    if kind in SOURCES:
        found["place"] = [place for place in PLACES if not place.startswith("of a ")]
    if kind in IN_A_LOOP:
        found["place"] = ["of a constant", "of a parameter"]
    return {family: clauses for family, clauses in found.items() if clauses}


def _narrower(kind: str) -> int:
    """How many there are, of one clause alone: a bound on what can be drawn."""
    return sum(map(len, _families(kind).values()))


def _drawn(kind: str, own: random.Random) -> tuple[str, ...]:
    families = _families(kind)
    chosen = own.sample(sorted(families), own.randint(1, min(2, len(families))))
    return tuple(f"{family}: {own.choice(families[family])}" for family in sorted(chosen))


# ---- where it applies


Place = tuple[str, str]
"""A computation and an instruction in it, by name."""


def places(module: Module, fault: Fault) -> list[Place]:
    """Where a compiler with the fault is wrong, of all that the module's results need."""
    clauses = [FAMILIES[family][clause] for family, clause in (c.split(": ") for c in fault.clauses)]
    make = KINDS[fault.kind]
    return [
        (site.computation.name, site.instruction.name)
        for site in _sites(module)
        if all(clause(site) for clause in clauses) and edited_applies(module, make, site.computation, site.instruction)
    ]


def _sites(module: Module) -> Iterator[Site]:
    """All but those in a library's fusions (kCustom): what it has no kernel of, XLA:CPU refuses as it runs."""
    calls = [i for c in module.computations for i in c.instructions if i.opcode == "fusion"]
    fused = {name for i in calls for name in called(i)}
    library = {name for i in calls if i.attributes.get("kind") == "kCustom" for name in called(i)}
    outer = {
        module.entry_name,
        *(name for i in module.entry.instructions if i.opcode == "fusion" for name in called(i)),
    }
    for computation in (c for c in reachable(module) if c.name not in library):
        alive = live(computation)
        uses: dict[str, int] = {}
        for i in computation.instructions:
            for name in set(i.operands) if i.name in alive else ():
                uses[name] = uses.get(name, 0) + 1
        for i in computation.instructions:
            if i.name in alive and i.opcode != "parameter":
                where = computation.name in fused, computation.name not in outer
                yield Site(computation, i, *where, uses.get(i.name, 0))


def made(module: Module, fault: Fault, at: Sequence[Place]) -> Module:
    """The module with the fault at all these places, each edit made of the instruction as it was."""
    wrong: dict[str, set[str]] = {}
    for computation, name in at:
        wrong.setdefault(computation, set()).add(name)
    return replace(
        module,
        computations=tuple(
            _wrong(module, c, fault, wrong[c.name]) if c.name in wrong else c for c in module.computations
        ),
    )


def _wrong(module: Module, computation: Computation, fault: Fault, names: set[str]) -> Computation:
    new: list[Instruction] = []
    for i in computation.instructions:
        edit = KINDS[fault.kind](module, computation, i) if i.name in names else None
        new += [i] if edit is None else [*edit.before, edit.replacement]
    return replace(computation, instructions=tuple(new))
