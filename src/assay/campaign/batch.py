"""Several generated programs as one compilation.

They are traced and lowered in one go, each a function that is called; compiled and run as one module; and judged one by
one, so that a wrong result is its program's. What a program costs is then its own instructions and not a compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.checking import api
from assay.generate.plan import Plan
from assay.generate.source import together
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import TupleShape
from assay.isolate.graph.alone import attributes
from assay.programs.program import Program
from assay.toolchain import Worker


@dataclass(frozen=True, slots=True)
class Member:
    """number: of the program in its campaign. inputs: the class of the values that it is run on. choices: what makes
    the plan again, with the number of operations that it was to have, or with the template.
    """

    number: int
    plan: Plan
    inputs: str
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
    needed = {p.name for p in parameters}
    stack = [r.name for r in results]
    while stack:
        if (at := stack.pop()) not in needed:
            needed.add(at)
            stack.extend(entry.by_name[at].operands)
    position = {p.name: i for i, p in enumerate(parameters)}
    kept = []
    for instruction in entry.instructions:
        if instruction.name in position:
            kept.append(_numbered(instruction, position[instruction.name]))
        elif instruction.name in needed:
            kept.append(instruction)
    shape = TupleShape(tuple(r.shape for r in results))
    kept.append(Instruction("results", "tuple", shape, tuple(r.name for r in results)))
    main = Computation(entry.name, tuple(kept), "results", entry.attributes)
    others = tuple(c for c in module.computations if c.name != entry.name)
    whole = Module(name, (*others, main), entry.name, attributes(module))
    return Module(name, reachable(whole), entry.name, whole.attributes)


def _numbered(parameter: Instruction, number: int) -> Instruction:
    return Instruction(parameter.name, "parameter", parameter.shape, (), {}, None, number)
