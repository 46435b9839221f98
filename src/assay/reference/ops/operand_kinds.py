"""Which element types an elementwise opcode takes, as XLA's shape inference has it (shape_inference.cc).

Without this an opcode of the wrong type would end in an error of NumPy's, and be reported as a fault of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import HloTypeError, Unsupported
from assay.hlo.module import Instruction
from assay.reference.value import Ball

_INTEGER = {"signed", "unsigned"}
_BITS = _INTEGER | {"pred"}
_INEXACT = {"float", "complex"}
_NUMBER = _INTEGER | _INEXACT

_OPCODES: tuple[tuple[set[str], str], ...] = (
    ({"float"}, "ceil floor round-nearest-afz round-nearest-even is-finite erf reduce-precision"),
    (
        _INEXACT,
        "acos acosh asin asinh atan atanh atan2 cbrt cosine cosh exp2 exponential exponential-minus-one imag log",
    ),
    (_INEXACT, "log2 log-plus-one logistic real rsqrt sine sinh sqrt tan tanh"),
    (_BITS, "and or xor not"),
    (_INTEGER, "popcnt count-leading-zeros mulhi shift-left shift-right-arithmetic shift-right-logical"),
    (_NUMBER, "negate sign abs subtract divide remainder power"),
)
TAKES = {opcode: kinds for kinds, opcodes in _OPCODES for opcode in opcodes.split()}

NOT_COMPLEX = {"clamp", "maximum", "minimum", "remainder", "erf"}


def check_kinds(instr: Instruction, operands: Sequence[Ball]) -> None:
    """Raises HloTypeError where an operand has a type that the opcode does not take, Unsupported where it is complex
    and the opcode gives it no meaning.
    """
    takes = TAKES.get(instr.opcode)
    for operand in operands:
        if operand.dtype.is_complex and instr.opcode in NOT_COMPLEX:
            raise Unsupported(instr.opcode, "of complex numbers, which have no order")
        if takes is not None and operand.dtype.kind not in takes:
            raise HloTypeError(f"{instr.name}: `{instr.opcode}` does not take {operand.dtype}")
