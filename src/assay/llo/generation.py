"""Which TPU a dump was compiled for, as far as its text says.

Known (measured on v5e and v6e, libtpu 0.0.42.1 to 0.0.52): a v5e's kernel is handed hbm addresses in units of 512 bytes
and shifts them by 4 to have DMA granules; on a v6e they are granules, and go into the DMA as they are. A matrix unit
256 columns wide is fed in two halves (`vmatprep`, `vmatpush1`), one of 128 is not. Other kernels may be of either.
"""

from __future__ import annotations

from assay.errors import InputError
from assay.llo.program import Immediate, Instruction, Kernel, Value

V5E, V6E = "v5e", "v6e"
_WIDE = ("vmatprep.", "vmatpush1.", "vmatpush2.", "vmatpush3.")


def generation_of(kernel: Kernel) -> tuple[str, Instruction] | None:
    """`v5e` or `v6e`, and the instruction that says so; None where none does."""
    hbm = {i.dst.name for i in kernel.walk() if i.opcode == "inlined_call_operand" and i.dst and i.words[:4] == "hbm "}
    for instruction in kernel.walk():
        opcode, operands = instruction.opcode, instruction.operands
        if opcode.startswith(_WIDE):
            return V6E, instruction
        if any(isinstance(operand, Value) and operand.name in hbm for operand in operands):
            if opcode == "sshll.u32" and operands[1:] == (Immediate(4),):
                return V5E, instruction
            if opcode.startswith("dma."):
                return V6E, instruction
    return None


def refuse_other(kernel: Kernel, generation: str) -> None:
    """Raises InputError where a kernel was compiled for the other of v5e and v6e than `generation`."""
    found = generation_of(kernel)
    if found is not None and generation in (V5E, V6E) and found[0] != generation:
        raise InputError(
            f"{kernel.source}:{found[1].line}: {found[1].opcode} of {kernel.name} is as on tpu:{found[0]}: this is no "
            f"LLO of tpu:{generation}; name the TPU that it was compiled for with --target"
        )
