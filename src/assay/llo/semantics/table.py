"""The table of opcodes: what each takes, what it means in NumPy and in C, and how that meaning is known.

A signature has a letter for each field of a record (`code`): dst, a, b, c, d, imm.

    V M S   a register that is written
    v m s   a register that is read
    i       a literal integer
    u       the number of a unit: of an MXU, an XLU
    t       a token: what a queue's entry is called
    .       nothing

C is the body of one case: statements in which V(f), M(f), S(f) stand for the registers that field f names and f
itself for a literal. Where it is empty, the op is one of those written out in native/vm.c under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from assay.llo.machine import Machine

Run = Callable[["Machine", Sequence[int]], None]

Known = Literal["probe", "stages", "isa", "own"]
"""probe: a kernel whose result is known runs through it. stages: a pass replaces it by others, or others by it, and
both give the same bits. isa: public text on the instruction set. own: not LLO's, but made by `lower`.
"""


@dataclass(frozen=True, slots=True)
class Op:
    """One opcode without its unit. known, why: how its meaning was established, in a line."""

    number: int
    name: str
    signature: str
    run: Run
    c: str
    known: Known
    why: str


OPS: dict[str, Op] = {}
BY_NUMBER: list[Op] = []


def op(name: str, signature: str, known: Known, why: str, c: str = "") -> Callable[[Run], Run]:
    """Enters `name`, with the decorated function as its meaning over a whole record."""

    def enter(run: Run) -> Run:
        assert name not in OPS, name
        entry = Op(len(BY_NUMBER), name, signature, run, c, known, why)
        OPS[name] = entry
        BY_NUMBER.append(entry)
        return run

    return enter
