"""A module with arguments, how large it is, and what every edit ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from assay.errors import HloTypeError
from assay.hlo.attributes import called
from assay.hlo.fingerprint import fingerprint
from assay.hlo.graph import live, reachable
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.printer import print_shape
from assay.hlo.shape import ArrayShape, TupleShape, leaves
from assay.isolate.graph.alone import attributes
from assay.isolate.graph.cut import running
from assay.reference.value import Array

_CONTROL = "control-predecessors"


@dataclass(frozen=True, order=True)
class Size:
    """What is made smaller, in this order.

    flow: loops, branches and calls that run. instructions: of all computations, parameters and constants among them.
    elements: of all their results. types: results of other types than f32, s32 and pred. words: length of attributes.
    values: how far numbers are from zeros and ones.
    """

    flow: int
    instructions: int
    elements: int
    types: int
    words: int
    values: int


@dataclass(frozen=True)
class Candidate:
    """arguments: one array for each array among the entry's parameters. words: what was done to make it."""

    module: Module
    arguments: tuple[Array, ...]
    words: str = ""

    @cached_property
    def size(self) -> Size:
        everything = [i for c in self.module.computations for i in c.instructions]
        arrays = [leaf for i in everything for leaf in leaves(i.shape) if isinstance(leaf, ArrayShape)]
        flow = sum(i.opcode in CONTROL_FLOW for c in running(self.module) for i in c.instructions)
        elements = sum(array.size for array in arrays)
        types = sum(array.dtype.name not in ("f32", "s32", "pred") for array in arrays)
        words = sum(len(k) + len(v) for i in everything for k, v in i.attributes.items())
        written = sum(_roughness(i) for i in everything if i.literal is not None)
        return Size(flow, len(everything), elements, types, words, written + sum(map(roughness, self.arguments)))

    @cached_property
    def key(self) -> str:
        """The same for candidates that are the same program on the same arguments."""
        digest = blake2b(fingerprint(self.module).encode(), digest_size=16)
        for array in self.arguments:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def _roughness(constant: Instruction) -> int:
    shape, literal = constant.shape, constant.literal
    assert literal is not None
    if isinstance(shape, ArrayShape) and shape.dtype.numpy is not None:
        return roughness(literal_array(shape, literal))
    return len(literal.text)


def roughness(array: Array) -> int:
    """0 for zeros; for each other element its bits, and more where it is not one or not whole."""
    if array.dtype == np.bool_:
        return int(np.count_nonzero(array))
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        bits = np.ceil(np.log2(1.0 + np.minimum(np.nan_to_num(np.abs(wide), nan=2.0**64), 2.0**64)))
        rough = bits + (wide != 0) * (wide != 1) + 8 * (wide != np.round(wide))
    return int(rough.sum())


def tidied(module: Module, arguments: Sequence[Array], words: str = "") -> Candidate:
    """Without what the results do not need: instructions, elements of tuples that are known, parameters of the entry,
    computations. The entry's parameters are arrays (`flattened`), and `arguments` has one for each number. Raises
    HloTypeError where the module is not well formed.
    """
    computations = {c.name: c for c in module.computations}
    for computation in tuple(running(module)):
        computations[computation.name] = without_dead(_untupled(computation), computation.name == module.entry_name)
    entry, kept = _numbered(computations[module.entry_name], arguments)
    computations[module.entry_name] = entry
    return Candidate(_headed(replace(module, computations=tuple(computations.values()))), kept, words)


def _untupled(computation: Computation) -> Computation:
    """An element of a tuple whose elements are known is that element."""
    same: dict[str, str] = {}
    found: list[Instruction] = []
    for instruction in computation.instructions:
        instruction = with_operands(instruction, same)
        if instruction.opcode == "get-tuple-element":
            source = computation.by_name[instruction.operands[0]]
            if source.opcode == "tuple":
                element = source.operands[int(instruction.attributes["index"])]
                same[instruction.name] = same.get(element, element)
                continue
        found.append(instruction)
    root = same.get(computation.root_name, computation.root_name)
    return replace(computation, instructions=tuple(found), root_name=root)


def with_operands(instruction: Instruction, names: Mapping[str, str]) -> Instruction:
    """The instruction with its operands under other names."""
    if names and any(name in names for name in instruction.operands):
        return replace(instruction, operands=tuple(names.get(name, name) for name in instruction.operands))
    return instruction


def without_dead(computation: Computation, parameters_too: bool) -> Computation:
    """Parameters of called computations stay: those that call them give them."""
    needed = live(computation)
    if not parameters_too:
        needed.update(parameter.name for parameter in computation.parameters)
    kept = tuple(_freed(i, needed) for i in computation.instructions if i.name in needed)
    return replace(computation, instructions=kept)


def _freed(instruction: Instruction, there: set[str]) -> Instruction:
    """Without an order after instructions that are gone."""
    text = instruction.attributes.get(_CONTROL)
    if text is None:
        return instruction
    names = [name for name in text.strip("{} ").replace(",", " ").split() if name in there]
    rest = {k: v for k, v in instruction.attributes.items() if k != _CONTROL}
    return replace(instruction, attributes={**rest, _CONTROL: f"{{{', '.join(names)}}}"} if names else rest)


def _numbered(entry: Computation, arguments: Sequence[Array]) -> tuple[Computation, tuple[Array, ...]]:
    """The entry's parameters counted from 0, with the arguments of those that are there."""
    numbers = {p.name: number for number, p in enumerate(entry.parameters)}
    kept = tuple(arguments[p.parameter_number or 0] for p in entry.parameters)
    instructions = tuple(
        replace(i, parameter_number=numbers[i.name]) if i.name in numbers else i for i in entry.instructions
    )
    return replace(entry, instructions=instructions), kept


def _headed(module: Module) -> Module:
    """Only what the entry reaches, under a header that fits its parameters and results."""
    there = {c.name for c in reachable(module)}
    computations = tuple(c for c in module.computations if c.name in there)
    shapes = ", ".join(print_shape(p.shape) for p in module.entry.parameters)
    layout = f"{{({shapes})->{print_shape(module.entry.root.shape)}}}"
    header = {**attributes(module), "entry_computation_layout": layout}
    return Module(module.name, computations, module.entry_name, header)


def flattened(module: Module) -> Module:
    """The module with a parameter of the entry for each array: tuples are made of them inside. Raises HloTypeError
    where a parameter holds what is no array.
    """
    entry = module.entry
    if all(isinstance(p.shape, ArrayShape) for p in entry.parameters):
        return module
    parameters: list[Instruction] = []
    tuples: list[Instruction] = []

    def part(name: str, shape: TupleShape | ArrayShape) -> str:
        if isinstance(shape, ArrayShape):
            parameters.append(Instruction(name, "parameter", shape, parameter_number=len(parameters)))
            return name
        parts = []
        for index, element in enumerate(shape.elements):
            if not isinstance(element, ArrayShape | TupleShape):
                raise HloTypeError(f"parameter {name} holds what is no array; such a program is not reduced")
            parts.append(part(f"{name}.part{index}", element))
        tuples.append(Instruction(name, "tuple", shape, tuple(parts)))
        return name

    for parameter in entry.parameters:
        if not isinstance(parameter.shape, ArrayShape | TupleShape):
            raise HloTypeError(f"parameter {parameter.name} is no array; such a program is not reduced")
        part(parameter.name, parameter.shape)
    rest = tuple(i for i in entry.instructions if i.parameter_number is None)
    entry = replace(entry, instructions=(*parameters, *tuples, *rest))
    return with_computation(module, entry)


def with_computation(module: Module, computation: Computation) -> Module:
    """The module with `computation` in the place of the one of its name."""
    return replace(
        module, computations=tuple(computation if c.name == computation.name else c for c in module.computations)
    )


def callers(module: Module) -> dict[str, int]:
    """How many instructions call each computation."""
    found: dict[str, int] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            for name in called(instruction):
                found[name] = found.get(name, 0) + 1
    return found
