"""The state of a TPU core while one kernel runs, and the traps that stop it.

    machine = Machine(code, "v5e", fill=0x7FC0DEAD)       # constants and the kernel's own allocations are in place
    row = machine.allocate("vmem", 4096)                  # an operand's memory: rows of 512 bytes, now owned
    machine.vmem[row : row + 8] = words                   # what it holds
    machine.bind(code.arguments[0], row)                  # its address, as the kernel wants it
    outcome = interpret.run(code, machine, limit=10**7)   # or native.run: the same call, the same answer

Both engines leave registers and memory in the machine, and an `Outcome`; a trap is data, `outcome.trap`. A machine runs
once.

Addresses are counted in a space's own unit: 32-byte granules in hbm, rows of 128 words in vmem, words in smem, flags in
sflag. Memory that nobody owns cannot be written. Memory that was never written, nobody's too, and registers hold
`fill`: run twice with two fills, and what differs depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from assay.errors import AssayError
from assay.llo.code import Argument, Code, Words

Bytes = npt.NDArray[np.uint8]
LANES, SUBLANES, GRANULE = 128, 8, 8
"""GRANULE: of a DMA, in words."""

SPACES = ("hbm", "vmem", "smem", "sflag")
HBM, VMEM, SMEM, SFLAG = range(4)
UNIT_BYTES = {"hbm": 32, "vmem": 512, "smem": 4, "sflag": 4}
FIRST = {"hbm": 1 << 14, "vmem": 1 << 6, "smem": 1 << 8, "sflag": 1 << 5}
"""Where allocations without a place of their own begin: address 0 is nobody's."""

CAPACITY = (1 << 29, 1 << 18, 1 << 18, 0)
"""Of each space, in its units: 16 GB, 128 MB, 1 MB. What is below may be read though it is nobody's: loads reach over
the end of an operand where it fills no whole tile, and throw that away (measured: s4[66], `sm:$0xf`).
"""

OPERAND_UNIT = {"v5e": 16, "v4": 16, "v5p": 1, "v6e": 1, "tpu7x": 1}
"""Granules in the unit in which an hbm operand's address is handed over (measured: v5e kernels shift it by 4)."""

REGISTRY = "program shared registry"
SHARED, SHARED_WORDS = 16, 4096
"""Memory that a program lends its kernels: how many, and how large each is taken to be; its size is not in the dump."""

BYTEWISE = frozenset(("v6e", "tpu7x"))
"""Where vperm.slane takes bytes: v6e looks 2 / pi up by them; v5e takes words (measured)."""

ALONE = ("core index", "chip ID")
"""Of words that the runtime sets: the one core of the one chip that is simulated is number 0."""

QUEUES = ("erf", "xlu", "trf", "mrf", "ccrf")
ERF, XLU, TRF, MRF, CCRF = range(5)

DEEPEST = 1 << 14

NAN_FILL, NUMBER_FILL = 0x7FC0DEAD, 0x3E99A5C3
"""Two patterns: a NaN (and a wild address), and 0.3001."""


class Trap(IntEnum):
    """Why a run stopped; the words of `Stop.detail`."""

    OUT_OF_BOUNDS = 1
    """Memory that is nobody's: space, address, 1 if written."""
    QUEUE_EMPTY = 2
    """A pop with nothing there: queue, unit, token wanted."""
    QUEUE_ORDER = 3
    """A pop of another entry than the one named: queue, unit, token wanted, token found."""
    RACE = 4
    """Memory that a DMA in flight uses: space, address, 0 reads / 1 writes what arrives / 2 writes what leaves."""
    DEADLOCK = 5
    """A wait that nothing on its way can end: flag, granules waited for, granules counted."""
    SYNC_FLAG = 6
    """A flag closed with a count: flag, count."""
    BOUNDS_CHECK = 7
    """The kernel's own check of an address failed."""
    STEP_LIMIT = 8
    """More records than allowed: the limit."""
    MXU = 9
    """A product with gains that were never pushed, or more than fit: unit, rows."""
    TRANSPOSE = 10
    """A transpose continued that was not started, or of more than fits: unit, vectors."""
    QUEUE_FULL = 11
    """More than 16,384 entries that nobody pops: queue, unit."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A trap at a record, which came from `line` of the dump."""

    trap: Trap
    record: int
    line: int
    detail: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"line {self.line}: {_words(self.trap, self.detail)}"


def _words(trap: Trap, d: tuple[int, ...]) -> str:
    match trap:
        case Trap.OUT_OF_BOUNDS:
            return f"{'writes' if d[2] else 'reads'} {SPACES[d[0]]} {d[1]:#x}, which belongs to nothing"
        case Trap.QUEUE_EMPTY:
            return f"pops {QUEUES[d[0]]}{d[1]}, which is empty"
        case Trap.QUEUE_ORDER:
            return f"pops {QUEUES[d[0]]}{d[1]} for %{d[2]}, but %{d[3]} comes first"
        case Trap.RACE:
            how = ("reads what a DMA is writing", "writes what a DMA is writing", "writes what a DMA is reading")[d[2]]
            return f"{how}: {SPACES[d[0]]} {d[1]:#x}"
        case Trap.DEADLOCK:
            return f"waits for {d[1]} granules on sync flag {d[0]}, {d[2]} are on their way"
        case Trap.SYNC_FLAG:
            return f"sync flag {d[0]} is closed with a count of {d[1]}"
        case Trap.BOUNDS_CHECK:
            return "the kernel's own bounds check failed"
        case Trap.STEP_LIMIT:
            return f"still running after {d[0]} records"
        case Trap.MXU:
            return f"mxu{d[0]}: {d[1]} rows of gains"
        case Trap.TRANSPOSE:
            return f"xlu{d[0]}: a transpose of {d[1]} vectors"
        case Trap.QUEUE_FULL:
            return f"{QUEUES[d[0]]}{d[1]} is full: nothing pops it"


class Trapped(Exception):
    """Carries a trap out of an op's meaning; `interpret.run` turns it into a `Stop`."""

    def __init__(self, trap: Trap, *detail: int) -> None:
        super().__init__(trap.name)
        self.trap = trap
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Outcome:
    """steps: records executed; those skipped by their predicate count. left: entries that nobody popped. flying: DMAs
    that nobody waited for to the end.
    """

    steps: int
    stop: Stop | None
    left: int
    flying: int = 0


@dataclass(slots=True)
class Flight:
    """A DMA on its way. arriving, leaving: (space, first, count) in granules, in words for smem. due: granules that a
    wait has not covered yet.
    """

    arriving: list[tuple[int, int, int]]
    leaving: list[tuple[int, int, int]]
    due: int


@dataclass(slots=True)
class Gains:
    """matrix: (K, N). lanes: which lane of the left side each row is for, all of one half of 128; columns: where each
    column's result goes; both below 256.
    """

    matrix: npt.NDArray[np.float64]
    lanes: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]


@dataclass(slots=True)
class Mxu:
    """pushed: rows of gains (n, 128), or (n, 256) where the MXU is so wide, in order of pushing, by staging register;
    gains: in use, a part for each half of K; held: second halves that wait for their first; lhs: rows of a left side
    that was pushed.
    """

    pushed: dict[str, list[npt.NDArray[np.float64]]] = field(default_factory=dict)
    gains: list[Gains] = field(default_factory=list)
    held: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    lhs: deque[npt.NDArray[np.float64]] = field(default_factory=deque)


class Machine:
    """v: uint32 (vectors, 8, 128). m: uint8 (masks, 8, 128), a nibble a lane. s: uint32 (scalars,).

    hbm: uint32 (words,). vmem: uint32 (rows, 128). smem: uint32 (words,). sflag: int32 (flags,). owners: by space,
    uint8 by unit, 0 for nobody's.
    """

    def __init__(self, code: Code, generation: str, fill: int = NAN_FILL) -> None:
        if generation not in OPERAND_UNIT:
            raise AssayError(
                f"{generation}: not a TPU generation that is modelled; use one of {', '.join(OPERAND_UNIT)}"
            )
        self.code, self.generation, self.fill = code, generation, fill & 0xFFFFFFFF
        self.implicit_latch = bool(code.notes.get("implicit_latch", 0))
        self.bytewise = generation in BYTEWISE
        self.v = np.full((max(code.vectors, 1), SUBLANES, LANES), self.fill, np.uint32)
        self.m = np.zeros((max(code.masks, 1), SUBLANES, LANES), np.uint8)
        self.s = np.full(max(code.scalars, 1), self.fill, np.uint32)
        self.hbm = np.zeros(0, np.uint32)
        self.vmem = np.zeros((0, LANES), np.uint32)
        self.smem = np.zeros(0, np.uint32)
        self.sflag = np.zeros(0, np.int32)
        self.owners: dict[str, Bytes] = {space: np.zeros(0, np.uint8) for space in SPACES}
        self._next = dict(FIRST)
        self._owner = 0
        self.pc = 0
        self.queues: dict[tuple[int, int], deque[tuple[int, Words]]] = {}
        self.mxus: dict[int, Mxu] = {}
        self.transposes: dict[int, list[Words]] = {}
        self.flights: dict[int, deque[Flight]] = {}
        self.arriving: dict[int, npt.NDArray[np.uint16]] = {}
        self.leaving: dict[int, npt.NDArray[np.uint16]] = {}
        self.flying = 0
        for space in SPACES:
            self._grow(space, FIRST[space])
        for register, bits in code.vector_constants.items():
            self.v[register] = bits & 0xFFFFFFFF
        for register, bits in code.mask_constants.items():
            self.m[register] = bits
        for register, bits in code.scalar_constants.items():
            self.s[register] = bits & 0xFFFFFFFF
        self._allocate_all()

    def _allocate_all(self) -> None:
        """Those with a place of their own lie there, and may share it; the others, and operands, come after them."""
        base: dict[str, int] = {}
        registries: list[int] = []
        for a in self.code.allocations:
            if a.offset is not None:
                space = _space(a.space)
                start = 0 if a.fixed else FIRST[space]
                base[a.name] = at = start + a.offset // UNIT_BYTES[space]
                end = self._claim(space, at, _whole(a.size) if space == "vmem" and not a.fixed else a.size)
                if not a.fixed:
                    self._next[space] = max(self._next[space], end + 16 & ~15)
                elif space == "smem" and a.tag.endswith(ALONE):
                    self.smem[at] = 0
                elif space == "smem" and a.tag.endswith(REGISTRY):
                    registries.append(at)
        for a in self.code.allocations:
            if a.offset is None:
                base[a.name] = self.allocate(_space(a.space), a.size)
        for at in registries:
            self._register(at)
        for register, name, offset in self.code.offsets:
            self.s[register] = (base[name] + offset) & 0xFFFFFFFF
        self.bases = base

    def _register(self, at: int) -> None:
        """A word that points to a table of pointers to memory of the program's, by number (`reloc`)."""
        table = self.allocate("smem", 4 * SHARED)
        for number in range(SHARED):
            self.smem[table + number] = self.allocate("smem", 4 * SHARED_WORDS)
        self.smem[at] = table

    def allocate(self, space: str, size: int) -> int:
        """The address of `size` bytes that are somebody's from now on; in hbm and vmem on a boundary of 4 KB."""
        at = self._next[space]
        step = 4096 // UNIT_BYTES[space] if space in ("hbm", "vmem") else 8 if space == "smem" else 1
        at = -(-at // step) * step
        self._next[space] = self._claim(space, at, _whole(size) if space == "vmem" else size)
        return at

    def _claim(self, space: str, at: int, size: int) -> int:
        end = at + max(1, -(-size // UNIT_BYTES[space]))
        self._grow(space, end)
        self._owner = self._owner % 255 + 1
        self.owners[space][at:end] = self._owner
        return end

    def _grow(self, space: str, units: int) -> None:
        have = len(self.owners[space])
        if units <= have:
            return
        units = max(units, 2 * have) + 64
        self.owners[space] = np.concatenate([self.owners[space], np.zeros(units - have, np.uint8)])
        if space == "vmem":
            self.vmem = np.concatenate([self.vmem, np.full((units - have, LANES), self.fill, np.uint32)])
        elif space == "hbm":
            self.hbm = np.concatenate([self.hbm, np.full((units - have) * GRANULE, self.fill, np.uint32)])
        elif space == "smem":
            self.smem = np.concatenate([self.smem, np.full(units - have, self.fill, np.uint32)])
        else:
            self.sflag = np.concatenate([self.sflag, np.zeros(units - have, np.int32)])

    def bind(self, argument: Argument, value: int) -> None:
        """Puts an operand's address (in its space's unit), or its value where it is in no memory, where the kernel
        looks for it. An hbm address must lie on a boundary of 4 KB.
        """
        self.s[argument.register] = self.handed(argument.space, value)

    def handed(self, space: str, value: int) -> int:
        """An address, or a value in no memory, as the word that a kernel is given."""
        return (value // OPERAND_UNIT[self.generation] if space == "hbm" else value) & 0xFFFFFFFF

    def table(self, argument: Argument, words: Sequence[int]) -> None:
        """Puts operands' words into a table in smem, whose address the kernel is given."""
        at = self.allocate("smem", 4 * len(words))
        self.smem[at : at + len(words)] = words
        self.bind(argument, at)

    # Queues ---

    def push(self, queue: int, unit: int, token: int, value: Words) -> None:
        """value: (8, 128); kept, not copied."""
        entries = self.queues.setdefault((queue, unit), deque())
        if len(entries) >= DEEPEST:
            raise Trapped(Trap.QUEUE_FULL, queue, unit)
        entries.append((token, value))

    def pop(self, queue: int, unit: int, token: int) -> Words:
        """The oldest entry; traps where there is none, or where it is not the one named (0 names none)."""
        entries = self.queues.get((queue, unit))
        if not entries:
            raise Trapped(Trap.QUEUE_EMPTY, queue, unit, token)
        found, value = entries[0]
        if token and found != token:
            raise Trapped(Trap.QUEUE_ORDER, queue, unit, token, found)
        entries.popleft()
        return value


def _whole(size: int) -> int:
    """Bytes of vmem up to the end of a vector of eight sublanes: kernels store whole ones where an array ends before
    (measured: s16[17], and the memory of a scatter of s4[13,6]), which no other array is the worse for.
    """
    return -(-size // 4096) * 4096


def _space(space: str) -> str:
    if space not in SPACES:
        raise AssayError(f"{space}: no such memory in the simulator; it has {', '.join(SPACES)}")
    return space
