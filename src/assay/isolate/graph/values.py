"""Which names of a computation stand for one value, and which values stand in the text of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape
from assay.isolate.graph.piece import Operand

SAME = frozenset(("opt-barrier", "domain", "add-dependency"))
"""Instructions whose value is that of their first operand."""
_WRITTEN = frozenset(("constant", "iota", "partition-id", "replica-id"))
_SPREADING = frozenset(
    (
        "broadcast", "bitcast", "reshape", "transpose", "reverse", "slice", "copy", "copy-start", "copy-done",
        "async-done", "convert", "negate", "tuple", "get-tuple-element", *SAME,
    )
)  # fmt: skip
_STEPS = 8  # from a constant on: each user of a chain has all of it, which must not grow with the graph


@dataclass(frozen=True, slots=True)
class Values:
    """source: for each instruction the value that it names, itself for most. base: the same through bitcasts of arrays.
    written: the instructions that are constants in all but name, or memory that nothing was written to.
    """

    source: Mapping[str, Operand]
    base: Mapping[str, Operand]
    written: frozenset[str]

    def element(self, computation: Computation, name: str, index: tuple[int, ...]) -> Operand:
        """The value that the leaf at `index` of the instruction's tuple names."""
        return _inside(computation, self.source, self.source[name], index)


def values(module: Module, computation: Computation, spreading: dict[str, bool]) -> Values:
    """In one walk over the instructions. spreading: what is known of called computations, which is added to."""
    source: dict[str, Operand] = {}
    base: dict[str, Operand] = {}
    steps: dict[str, int] = {}
    for instruction in computation.instructions:
        name, opcode = instruction.name, instruction.opcode
        if opcode in SAME:
            source[name] = source[instruction.operands[0]]
        elif opcode == "get-tuple-element":
            index = (int(instruction.attributes["index"]),)
            source[name] = _inside(computation, source, source[instruction.operands[0]], index)
        else:
            source[name] = Operand(name)
        found = source[name]
        through = computation.by_name[found.name]
        bits = through.opcode == "bitcast" and not found.index and isinstance(through.shape, ArrayShape)
        base[name] = base[through.operands[0]] if bits else found
        count = _steps(module, instruction, steps, spreading)
        if count is not None and count <= _STEPS:
            steps[name] = count
    return Values(source, base, frozenset(steps))


def _inside(computation: Computation, source: Mapping[str, Operand], at: Operand, index: tuple[int, ...]) -> Operand:
    name, path = at.name, at.index + index
    while path and (instruction := computation.by_name[name]).opcode == "tuple":
        at = source[instruction.operands[path[0]]]
        name, path = at.name, at.index + path[1:]
    return Operand(name, path)


def _steps(
    module: Module, instruction: Instruction, steps: Mapping[str, int], spreading: dict[str, bool]
) -> int | None:
    """How many instructions lie between this one and the constants it comes from; None where it comes from others."""
    if instruction.opcode in _WRITTEN or is_memory(instruction):
        return 0
    if any(operand not in steps for operand in instruction.operands):
        return None
    if instruction.opcode in _SPREADING or _spreads(module, instruction, spreading):
        return 1 + max((steps[operand] for operand in instruction.operands), default=0)
    return None


def is_memory(instruction: Instruction) -> bool:
    """Whether it gives memory that nothing was written to (libtpu)."""
    target = instruction.attributes.get("custom_call_target", "") if instruction.opcode == "custom-call" else ""
    return target == '"AllocateBuffer"'


def _spreads(module: Module, instruction: Instruction, spreading: dict[str, bool]) -> bool:
    """Whether it runs nothing but constants and what spreads them (XLA:CPU's `wrapped_broadcast`, a `slice-start`)."""
    if instruction.opcode not in ("fusion", "async-start"):
        return False
    name = called(instruction)[0]
    if name not in spreading:
        free = _WRITTEN | _SPREADING | {"parameter"}
        spreading[name] = all(i.opcode in free for i in module.by_name[name].instructions)
    return spreading[name]
