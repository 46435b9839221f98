"""The kernels of a TPU program, each once: what its instruction does, as a program of its own, beside its LLO.

Known: libtpu compiles kernels that are alike once (`assay.llo.files`). Instructions that share a kernel count as one
only where their HLO is the same as well: a kernel that was shared wrongly is judged by each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from assay.hlo.attributes import word
from assay.hlo.fingerprint import fingerprint
from assay.hlo.graph import called_order
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.isolate.graph.alone import Closures
from assay.isolate.graph.cut import running
from assay.isolate.graph.piece import Left
from assay.llo.aliasing import shared_memory
from assay.llo.files import Dump, KernelFiles
from assay.reference.evaluator import Steps
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, Value, flatten, from_array

_SPREADING = frozenset(("copy", "bitcast", "broadcast", "reshape", "transpose", "copy-start", "copy-done"))
_NAMING = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"))


@dataclass(frozen=True, slots=True)
class Kernel:
    """One that is compiled, for one meaning. key: of both. name, computation: of its first instruction; instances: of
    all.

    alone: its parameters stand for the operands' values, one that is used twice once; constants stay in. files: its
    LLO, of the module itself or of one that is to be judged by it. inputs, outputs: arrays in the kernel's order, with
    layouts. shared: output -> the input in whose memory it lies.
    """

    key: str
    name: str
    computation: str
    instances: tuple[str, ...]
    alone: Module
    files: KernelFiles
    inputs: tuple[ArrayShape, ...]
    outputs: tuple[ArrayShape, ...]
    shared: Mapping[int, int]

    @property
    def instruction(self) -> Instruction:
        return self.alone.entry.root

    @property
    def memory(self) -> bool:
        """Whether it only reserves memory, which others write."""
        return word(self.instruction, "custom_call_target", "") == "AllocateBuffer"

    @property
    def promised(self) -> bool:
        """Whether the kernel may use what its instruction does not: a value that only a token depends on, as the starts
        of the groups of a ragged dot, whose mask says the same.
        """
        return any(
            instruction.opcode == "after-all" and instruction.operands
            for computation in self.alone.computations
            for instruction in computation.instructions
        )

    def operands(self, arguments: Sequence[Array], policy: Policy) -> list[Array]:
        """What the kernel gets, one array for each of `inputs`, for arguments of `alone`, one for each of its
        parameters' arrays. Raises what the reference does for a constant.
        """
        entry, given = self.alone.entry, list(arguments)
        steps = Steps(self.alone, policy, flushed=True)
        values: dict[str, Value] = {}
        for instruction in entry.instructions:
            if instruction.parameter_number is not None:
                values[instruction.name] = _argument(instruction.shape, given)
            elif instruction.name != entry.root_name:
                before = [values[name] for name in instruction.operands]
                values[instruction.name] = steps.step(entry, instruction, before)
        arrays = [ball for name in self.instruction.operands for ball in flatten(values[name])]
        balls = [ball for ball in arrays if isinstance(ball, Ball)]
        return [
            np.asarray(np.asarray(b.mid).astype(shape.dtype.numpy)) for b, shape in zip(balls, self.inputs, strict=True)
        ]


def kernels(module: Module, dump: Dump) -> list[Kernel]:
    """Every kernel of `dump` that an instruction of `module` runs, in program order of the first instruction."""
    closures = _closures(module)
    found: dict[str, Kernel] = {}
    instances: dict[str, list[str]] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            files = dump.kernel(instruction.name)
            if files is None:
                continue
            kernel = _kernel(computation, instruction, files, closures)
            found.setdefault(kernel.key, kernel)
            instances.setdefault(kernel.key, []).append(instruction.name)
    return [replace(kernel, instances=tuple(instances[key])) for key, kernel in found.items()]


def kernel_of(module: Module, dump: Dump, name: str) -> Kernel | None:
    """The kernel of one instruction; None where it has none."""
    files = dump.kernel(name)
    inside = next((c for c in module.computations if name in c.by_name), None)
    return None if files is None or inside is None else _kernel(inside, inside.by_name[name], files, _closures(module))


def without_kernel(module: Module, dump: Dump) -> list[Left]:
    """Computing instructions of the program that no dumped kernel does: by DMA, by the scalar core, or nobody knows."""
    left = []
    for computation in running(module):
        for i in computation.instructions:
            if dump.kernel(i.name) is None and i.opcode not in _NAMING and i.opcode not in CONTROL_FLOW:
                left.append(Left(i.name, computation.name, i.opcode, _why(i)))
    return left


def _why(instruction: Instruction) -> str:
    if instruction.opcode.startswith(("copy", "async-", "slice-")) or instruction.opcode in ("copy", "slice"):
        return "a copy, done by DMA"
    if word(instruction, "custom_call_target", "") in ("AllocateBuffer", "ConcatBitcast"):
        return "only names memory"
    if all(leaf.size <= 1 for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)):
        return "done by the scalar core of the program that calls the kernels"
    return "the dump has no LLO of it"


def alone(module: Module, computation: Computation, instruction: Instruction) -> Module:
    """One instruction as a program: see `Kernel.alone`. Operands that are one value under two shapes are so here."""
    return _alone(computation, instruction, _closures(module))


def _alone(computation: Computation, instruction: Instruction, closures: Closures) -> Module:
    names = tuple(dict.fromkeys(instruction.operands))
    sources = {name: _source(computation, name) for name in names}
    kept: dict[str, Instruction] = {}
    parameters: dict[str, Instruction] = {}
    for name in names:
        chain = constant_chain(computation, name)
        if not chain and [*sources.values()].count(sources[name]) > 1:
            chain = [computation.by_name[name]] if name != sources[name] else []
            chain = [replace(i, operands=(sources[name],)) for i in chain]
            _take(parameters, computation.by_name[sources[name]])
        elif not chain:
            _take(parameters, computation.by_name[name])
        kept.update({i.name: i for i in chain})
    body = (*parameters.values(), *kept.values(), instruction)
    entry = Computation(f"{instruction.name}.alone", body, instruction.name)
    return Module(instruction.name, (*closures.of((*kept.values(), instruction)), entry), entry.name)


def _take(parameters: dict[str, Instruction], value: Instruction) -> None:
    number = len(parameters)
    parameters.setdefault(value.name, Instruction(value.name, "parameter", value.shape, parameter_number=number))


def _source(computation: Computation, name: str) -> str:
    """The value that a bitcast of bitcasts is."""
    while computation.by_name[name].opcode == "bitcast":
        name = computation.by_name[name].operands[0]
    return name


def constant_chain(computation: Computation, name: str) -> list[Instruction]:
    """The instructions that make a value which is constant in all but name, operands first; none for another."""
    chain = [computation.by_name[name]]
    while chain[-1].opcode in _SPREADING and len(chain[-1].operands) == 1:
        chain.append(computation.by_name[chain[-1].operands[0]])
    return chain[::-1] if chain[-1].opcode in ("constant", "iota") else []


def _closures(module: Module) -> Closures:
    return Closures(module, {c.name: place for place, c in enumerate(called_order(module))})


def _kernel(computation: Computation, instruction: Instruction, files: KernelFiles, closures: Closures) -> Kernel:
    given = computation.operands(instruction)
    inputs = arrays_of(*(operand.shape for operand in given))
    program = _alone(computation, instruction, closures)
    return Kernel(
        blake2b(f"{files.name} {fingerprint(program)}".encode(), digest_size=16).hexdigest(),
        instruction.name,
        computation.name,
        (instruction.name,),
        program,
        files,
        inputs,
        arrays_of(instruction.shape),
        shared_memory(instruction, len(inputs), tuple(operand.shape for operand in given)),
    )


def arrays_of(*shapes: Shape) -> tuple[ArrayShape, ...]:
    """The arrays in shapes, in order."""
    return tuple(leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _argument(shape: Shape, given: list[Array]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_argument(element, given) for element in shape.elements)
    return from_array(shape.dtype, given.pop(0)) if isinstance(shape, ArrayShape) else Token()
