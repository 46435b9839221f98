"""Several generated programs as one compilation.

They are traced and lowered in one go, each a function that is called; compiled and run as one module; and judged one by
one, so that a wrong result is its program's. What a program costs is then its own instructions and not a compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.checking import api
from assay.generate.plan import Plan
from assay.generate.source import together
from assay.hlo.graph import live, reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import TupleShape
from assay.isolate.graph.alone import attributes
from assay.programs.program import Program
from assay.toolchain import Worker


@dataclass(frozen=True, slots=True)
class Member:
    """number: of the program in its campaign. inputs: the classes of the values that it is run on. choices: what makes
    the plan again, with the number of operations that it was to have, or with the template.
    """

    number: int
    plan: Plan
    inputs: tuple[str, ...]
    choices: tuple[int, ...] = ()
    operations: int = 0
    template: str = ""

    @property
    def name(self) -> str:
        return f"p{self.number}"


@dataclass(frozen=True, slots=True)
class Lowered:
    """payload: StableHLO of all of them. programs: each with the module that it is alone."""

    payload: bytes
    module: Module
    programs: tuple[Program, ...]


def lower(members: Sequence[Member], wide: bool, worker: Worker, folder: Path, target: str) -> Lowered:
    """Raises UserFileError where one of them does not trace, RequestRefused where it does not lower."""
    path = folder / "batch.py"
    path.write_text(together([(m.name, m.plan) for m in members], wide))
    case = worker.load(path, "together", platform=api.platform_of(target)).cases[0]
    if case.error is not None:
        raise NotLowered(str(case.error))
    module = parse_module(case.hlo, source="a generated batch")
    programs = tuple(
        Program(member.name, print_for_compiler(alone).encode(), "hlo-text", alone)
        for member, alone in zip(members, split(module, members), strict=True)
    )
    return Lowered(case.stablehlo, module, programs)


class NotLowered(Exception):
    """One of a batch does not trace or lower: the generator's fault, or jax's."""


def split(module: Module, members: Sequence[Member]) -> Iterator[Module]:
    """The module of each: its parameters, all that its results need, and its results."""
    entry = module.entry
    root = entry.root
    values = [entry.by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
    parameter = result = 0
    for member in members:
        own = entry.parameters[parameter : parameter + len(member.plan.parameters)]
        wanted = values[result : result + len(member.plan.results)]
        yield _alone(module, member.name, own, wanted)
        parameter += len(own)
        result += len(wanted)


def _alone(module: Module, name: str, parameters: Sequence[Instruction], results: Sequence[Instruction]) -> Module:
    entry = module.entry
    shape = TupleShape(tuple(r.shape for r in results))
    root = Instruction("results", "tuple", shape, tuple(r.name for r in results))
    whole = Computation(entry.name, (*entry.instructions, root), root.name, entry.attributes)
    own = {p.name: replace(p, attributes={}, parameter_number=i) for i, p in enumerate(parameters)}
    needed = live(whole) | own.keys()
    main = replace(whole, instructions=tuple(own.get(i.name, i) for i in whole.instructions if i.name in needed))
    others = tuple(c for c in module.computations if c.name != entry.name)
    made = Module(name, (*others, main), entry.name, attributes(module))
    return replace(made, computations=reachable(made))
