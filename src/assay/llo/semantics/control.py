"""What is not LLO's own, or runs no unit: jumps, the end, checks."""

from __future__ import annotations

from collections.abc import Sequence

from assay.llo.machine import Machine, Trap, Trapped
from assay.llo.semantics.scalar import _scalar
from assay.llo.semantics.table import op

_scalar("mov.s", 1, "x", "own", "a copy")(lambda x: x)


@op("jump", ".....i", "own", "to record imm", "NEXT(imm);")
def _jump(m: Machine, r: Sequence[int]) -> None:
    raise AssertionError("the loop jumps")


@op("halt", "", "own", "the kernel's end", "HALT();")
def _halt(m: Machine, r: Sequence[int]) -> None:
    raise AssertionError("the loop ends")


@op(
    "shalt.err",
    "",
    "probe",
    "runs when an address that the kernel checks is out of bounds",
    "TRAP(BOUNDS_CHECK, 0, 0, 0, 0);",
)
def _shalt(m: Machine, r: Sequence[int]) -> None:
    raise Trapped(Trap.BOUNDS_CHECK)
