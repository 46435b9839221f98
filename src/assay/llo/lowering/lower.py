"""A kernel's bytecode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from assay.llo.code import Code
from assay.llo.lowering.bundles import Issue
from assay.llo.lowering.emit import DROPPED, Emitter
from assay.llo.lowering.regions import PHIS, Flow
from assay.llo.lowering.registers import Registers
from assay.llo.program import Allocation, Instruction, Kernel, Value
from assay.llo.semantics.table import OPS


def lower(kernel: Kernel, allocations: Sequence[Allocation] | None = None) -> Code:
    """The bytecode of one stage of a kernel. allocations: for bundles, which have none of their own; those of the stage
    before. Raises Unsupported with the name of an opcode, or of a form of one, whose meaning is not established.
    """
    instructions = list(kernel.walk())
    registers = Registers(bool(kernel.bundles) or any(_in_register(i) for i in instructions))
    emitter = Emitter(registers)
    body: Flow | Issue = Issue(emitter, kernel.bundles) if kernel.bundles else Flow(emitter, kernel.regions)
    body.lower()
    body.records.append(emitter.bare("halt"))
    body.lines.append(instructions[-1].line if instructions else 1)
    latched = any(".vlgmr" in i.opcode for i in instructions)
    return Code(
        kernel.name,
        kernel.source,
        np.asarray(body.records, np.int32),
        np.asarray(body.lines, np.int32),
        registers.count("V"),
        registers.count("M"),
        registers.count("S"),
        {number: bits for bits, number in registers.constants["V"].items()},
        {number: bits for bits, number in registers.constants["M"].items()},
        {number: bits for bits, number in registers.constants["S"].items()},
        tuple(emitter.arguments),
        tuple(kernel.allocations if allocations is None else allocations),
        tuple((number, name, offset) for (name, offset), number in registers.offsets.items()),
        {"implicit_latch": int(not latched)},
    )


def unknown_opcodes(kernel: Kernel) -> Counter[str]:
    """Opcodes that are in no table, with how often each occurs."""
    known = PHIS | DROPPED | {"inlined_call_operand", "sbr.rel", "reloc"}
    families = ("int_to_ptr.", "scalar_lea.", "dma.")
    return Counter(
        i.opcode
        for i in kernel.walk()
        if i.opcode not in known and i.opcode not in OPS and not i.opcode.startswith(families)
    )


def _in_register(instruction: Instruction) -> bool:
    values = (instruction.dst, *instruction.operands)
    return any(isinstance(value, Value) and value.register is not None for value in values)
