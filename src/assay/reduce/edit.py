"""Cutting, replacing, inlining: from one candidate to another. All of them raise HloTypeError where the edit does not
fit what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from assay.errors import HloTypeError
from assay.hlo.literal import literal_from_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, TupleShape, compatible
from assay.reduce.candidate import Candidate, tidied, with_computation, with_operands
from assay.reduce.values import Seen
from assay.reference.value import Array

LARGEST_CONSTANT = 1 << 12
"""Elements of an array that is written into a module; more belong into a parameter."""


def cut(candidate: Candidate, outputs: Sequence[str], gone: Collection[str], seen: Seen, words: str) -> Candidate:
    """The entry with `outputs` for its results and without `gone`: what others read of those is a parameter, with the
    reference's value.
    """
    entry = candidate.module.entry
    gone = _with_elements(entry, gone)
    needed = set(outputs)
    for instruction in reversed(entry.instructions):
        if instruction.name in needed and instruction.name not in gone:
            needed.update(instruction.operands)
    arguments = list(candidate.arguments)
    found: list[Instruction] = []
    for instruction in entry.instructions:
        if instruction.name not in needed:
            continue
        if instruction.name in gone and instruction.parameter_number is None:
            if not isinstance(instruction.shape, ArrayShape):
                raise HloTypeError(f"{instruction.name} is no array, and no parameter can stand for it")
            arguments.append(seen.array(entry.name, instruction))
            instruction = Instruction(
                instruction.name, "parameter", instruction.shape, parameter_number=len(arguments) - 1
            )
        found.append(instruction)
    computation = _rooted(entry, found, outputs)
    module = with_computation(candidate.module, computation)
    return tidied(module, arguments, words)


def _with_elements(computation: Computation, gone: Collection[str]) -> set[str]:
    """A tuple that is only put together stays; what takes an element of one that is gone goes with it."""
    found = {name for name in gone if computation.by_name[name].opcode != "tuple"}
    for instruction in computation.instructions:
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] in found:
            found.add(instruction.name)
    return found


def _rooted(computation: Computation, instructions: list[Instruction], outputs: Sequence[str]) -> Computation:
    """The instructions with a root that gives `outputs`."""
    by_name = {i.name: i for i in instructions}
    if len(outputs) == 1:
        return replace(computation, instructions=tuple(instructions), root_name=outputs[0])
    shapes = tuple(by_name[name].shape for name in outputs)
    root = Instruction(unused(computation, "results"), "tuple", TupleShape(shapes), tuple(outputs))
    return replace(computation, instructions=(*instructions, root), root_name=root.name)


def unused(computation: Computation, wanted: str, also: Collection[str] = ()) -> str:
    """A name that no instruction has."""
    name, number = wanted, 0
    while name in computation.by_name or name in also:
        number += 1
        name = f"{wanted}.{number}"
    return name


def outputs(candidate: Candidate) -> tuple[str, ...]:
    """The names of the results, in order."""
    root = candidate.module.entry.root
    return root.operands if root.opcode == "tuple" else (root.name,)


def with_constants(candidate: Candidate, name: str, gone: Collection[str], seen: Seen, words: str) -> Candidate:
    """A computation that is not the entry without `gone`: what others read of those is a constant, the value of the
    first time that it ran.
    """
    computation = candidate.module.by_name[name]
    gone = _with_elements(computation, gone)
    found: list[Instruction] = []
    for instruction in computation.instructions:
        if instruction.name in gone and instruction.parameter_number is None:
            if isinstance(instruction.shape, ArrayShape):
                found.append(constant(instruction, seen.array(name, instruction)))
            continue
        found.append(instruction)
    _need_operands(found)
    module = with_computation(candidate.module, replace(computation, instructions=tuple(found)))
    return tidied(module, candidate.arguments, words)


def _need_operands(instructions: Sequence[Instruction]) -> None:
    there = {i.name for i in instructions}
    for instruction in instructions:
        if missing := next((name for name in instruction.operands if name not in there), None):
            raise HloTypeError(f"{instruction.name} needs {missing}, which is no array")


def constant(instruction: Instruction, value: Array) -> Instruction:
    """A constant in the place of an instruction of array shape. Raises HloTypeError where it would be too large."""
    shape = instruction.array
    if shape.size > LARGEST_CONSTANT:
        raise HloTypeError(f"{instruction.name} has {shape.size} elements, too many for a constant")
    return Instruction(instruction.name, "constant", shape, literal=literal_from_array(shape, value))


def replaced(candidate: Candidate, computation: Computation, names: Mapping[str, str], words: str) -> Candidate:
    """The computation with some instructions read, wherever they are read, from others that stand before them."""
    found = tuple(with_operands(i, names) for i in computation.instructions)
    root = names.get(computation.root_name, computation.root_name)
    if not compatible(computation.by_name[root].shape, computation.root.shape):
        raise HloTypeError(f"{root} is no result such as {computation.root_name}")
    module = with_computation(candidate.module, replace(computation, instructions=found, root_name=root))
    return tidied(module, candidate.arguments, words)


def inlined(
    module: Module, computation: Computation, instruction: Instruction, callee: Computation, operands: Sequence[str]
) -> Module:
    """The body of `callee`, given `operands`, in the place of an instruction."""
    names: dict[str, str] = dict(zip((p.name for p in callee.parameters), operands, strict=True))
    taken: set[str] = set()
    body: list[Instruction] = []
    for inner in callee.instructions:
        if inner.parameter_number is not None:
            continue
        name = unused(computation, inner.name, taken)
        taken.add(name)
        inner = with_operands(inner, names)
        names[inner.name] = name
        body.append(replace(inner, name=name, attributes=_unordered(inner.attributes)))
    result = names[callee.root_name]
    found: list[Instruction] = []
    for other in computation.instructions:
        if other.name == instruction.name:
            found += body
        else:
            found.append(with_operands(other, {instruction.name: result}))
    root = result if computation.root_name == instruction.name else computation.root_name
    return with_computation(module, replace(computation, instructions=tuple(found), root_name=root))


def _unordered(attributes: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in attributes.items() if k != "control-predecessors"}
