"""A kernel's LLO as a typed program: regions of instructions before scheduling, bundles after it.

Opcodes are in one normal form, that of libtpu 0.0.52 (`spellings`), with the number of the unit apart:
`vpop.f32.mrf.mxu2` is `vpop.f32.mrf` on unit `mxu2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Space = Literal["hbm", "vmem", "smem", "sflag", "cmem"]
SPACES: tuple[Space, ...] = ("hbm", "vmem", "smem", "sflag", "cmem")

Kind = Literal["V", "M", "S", "P", ""]
"""Of a value: vector, vector mask, scalar or address, predicate; an effect or token has none."""


@dataclass(frozen=True, slots=True)
class Value:
    """What an instruction made. register: where it lives, in bundles, as `v3`; there the register counts, not the name.

    negated: for predicates, `!%p3`.
    """

    name: str
    kind: Kind
    register: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """32 bits; two halves of 16 for packed ones, low half first."""

    bits: int


@dataclass(frozen=True, slots=True)
class Address:
    """A place in an allocation; offset in the units of its space (512-byte rows in vmem, words in smem)."""

    allocation: str
    offset: int = 0


Operand = Value | Immediate | Address


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory an instruction reads or writes: rows `base + index + offset + stride * (k // group) + k % group` for
    sublane k where bit k of `sublanes` is set.

    pattern: of a shuffled load, nibble k (low first) names the sublane that sublane k comes from.
    """

    space: Space
    base: Operand
    offset: int = 0
    index: Operand | None = None
    stride: int = 1
    group: int = 1
    sublanes: Operand = Immediate(0xFF)
    pattern: int | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """dst: None for one that only has an effect, whose token is then `token`.

    labels: what the dump calls each operand, as `size_in_granules`, where it matters. predicate: when it runs at all;
    otherwise: the value that it has when it does not. words: what stands between opcode and operands, as `[2/16]
    (narrow)`. target: number of the region that a branch goes to. line: in the file, from 1. comment: the last remark.
    """

    opcode: str
    unit: str
    dst: Value | None
    token: str
    operands: tuple[Operand, ...]
    labels: tuple[str, ...]
    memory: Memory | None
    predicate: Value | None
    otherwise: Operand | None
    words: str
    target: int | None
    line: int
    comment: str = ""

    def read(self) -> Iterator[Operand]:
        """Operands, and what else it reads: its predicate, the value it keeps, what addresses it."""
        yield from self.operands
        places = () if self.memory is None else (self.memory.base, self.memory.index, self.memory.sublanes)
        yield from (value for value in (self.predicate, self.otherwise, *places) if value is not None)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory that the kernel asks for; size in bytes. offset: where it lies, in bytes, or None; from the start of the
    space where it is `fixed`, and else from the start of the kernel's own.
    """

    name: str
    space: Space
    size: int
    shape: str
    offset: int | None = None
    tag: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """kind: `loop_header`, `pred_region`, ...; empty for a plain one. Text order is the order of falling through."""

    number: int
    kind: str
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is issued in one cycle: all reads come before all writes. starts: regions that begin here, empty too."""

    number: int
    instructions: tuple[Instruction, ...]
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One stage of one kernel; either regions or bundles. source: the file, for messages."""

    name: str
    source: str
    allocations: tuple[Allocation, ...]
    regions: tuple[Region, ...] = ()
    bundles: tuple[Bundle, ...] = ()

    @property
    def instructions(self) -> int:
        """How many there are."""
        return sum(len(part.instructions) for part in self.regions or self.bundles)

    def walk(self) -> Iterator[Instruction]:
        """Every instruction, in the order of the text."""
        for part in self.regions or self.bundles:
            yield from part.instructions
