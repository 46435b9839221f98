"""What a compilation reached: opcodes by element type, pairs of opcodes, kinds of fusions, custom calls.

A feature is a text. The optimized module says of most instructions which program they come from, since jax writes the
names of functions into their metadata; so what was reached is put down to a program, and no compiler source is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from assay.errors import InputError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape
from assay.targets.snapshots import NO_PASS, read

_PROGRAM = re.compile(r"jit\(p(\d+)\)")
_DULL = frozenset(("parameter", "tuple", "get-tuple-element", "constant"))


def reached(module: Module) -> dict[str, int]:
    """feature -> the number of a program that reached it; -1 where the optimized module does not say which."""
    found: dict[str, int] = {}
    for computation in module.computations:
        for feature, instruction in _features(module, computation):
            number = program_of(instruction)
            if number >= 0 or feature not in found:
                found[feature] = number
    return found


def program_of(instruction: Instruction) -> int:
    """The number of the program that an instruction of an optimized batch comes from; -1 where it does not say."""
    number = _PROGRAM.search(instruction.attributes.get("metadata", ""))
    return int(number.group(1)) if number else -1


def _features(module: Module, computation: Computation) -> Iterator[tuple[str, Instruction]]:
    for instruction in computation.instructions:
        opcode = instruction.opcode
        if opcode in _DULL:
            continue
        dtype = instruction.shape.dtype.name if isinstance(instruction.shape, ArrayShape) else "tuple"
        yield f"{opcode} {dtype}", instruction
        for detail in ("kind", "custom_call_target", "direction"):
            if detail in instruction.attributes:
                yield f"{opcode} {instruction.attributes[detail]}", instruction
        for operand in computation.operands(instruction):
            if operand.opcode not in _DULL:
                yield f"{opcode} of {operand.opcode}", instruction


def passes(folder: Path) -> set[str]:
    """The passes that changed a module, by the snapshots of one compilation; none where they are not whole."""
    try:
        snapshots = read(folder)
    except InputError:
        return set()
    return {snapshot.after for snapshot in snapshots} - NO_PASS
