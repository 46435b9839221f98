"""The bytecode that a kernel is lowered to: records of eight integers over three register files.

    V   vectors, 8 x 128 lanes of 32 bits
    M   vector masks, 8 x 128 nibbles: bit b says whether byte b of the 32-bit lane is on (0 or 15 for 32-bit lanes)
    S   scalars and addresses of 32 bits; predicates too, as 0 or 1

A record is (op, dst, a, b, c, d, imm, pred): `op` is the number of an `Op`; `dst` and `a` to `d` are registers of the
kinds that the op's signature says; `imm` is a number of its own; `pred` is 0 where it always runs, k where it runs if
S[k - 1] is not 0, and -k where it runs if S[k - 1] is 0. Immediates are registers that hold a constant and are never
written. Jumps have the record's index in `imm`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from assay.llo.program import Allocation

WIDTH = 8
OP, DST, A, B, C, D, IMM, PRED = range(WIDTH)

Records = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]


TABLE = -1


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand of the kernel: input or output number `index` in the order of the dump, whose address (or, in no
    memory space, whose value) is put into S[register] before the kernel starts.

    A kernel of many operands has one Argument, of index TABLE: the address of a table in smem of what else would be in
    registers, a word an operand.
    """

    index: int
    register: int
    output: bool
    space: str
    shape: str


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel ready to run.

    records: (n, 8). lines: of the dump, for each record. vectors, masks, scalars: how many registers of each file.
    *_constants: register -> bits, in each lane. allocations: the memory it needs. offsets: scalar registers that hold a
    place in one: (register, allocation, offset in the units of its space). notes: `implicit_latch`, whether a matmul
    uses what was pushed last without saying so.
    """

    name: str
    source: str
    records: Records
    lines: npt.NDArray[np.int32]
    vectors: int
    masks: int
    scalars: int
    vector_constants: dict[int, int]
    mask_constants: dict[int, int]
    scalar_constants: dict[int, int]
    arguments: tuple[Argument, ...]
    allocations: tuple[Allocation, ...]
    offsets: tuple[tuple[int, str, int], ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
