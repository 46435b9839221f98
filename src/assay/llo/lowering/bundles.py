"""Control flow of bundles: in one, all reads come before all writes; a branch takes effect after four more.

What is issued together is put in an order in which it does the same one after the other: who reads a register before
who writes it, loads before stores, pops before pushes. Where there is no such order the old value is kept aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.errors import Unsupported
from assay.llo.code import IMM, PRED
from assay.llo.lowering.emit import Emitted, Emitter, Record, Slot
from assay.llo.lowering.regions import PHIS
from assay.llo.program import Bundle, Instruction
from assay.llo.semantics.table import BY_NUMBER

DELAY = 4
OPERAND = "inlined_call_operand"


@dataclass(slots=True)
class Issue:
    """Bundles as records."""

    emitter: Emitter
    bundles: Sequence[Bundle]
    records: list[Record] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def lower(self) -> None:
        """Fills records and lines."""
        begins = {region: index for index, bundle in enumerate(self.bundles) for region in bundle.starts}
        entered = {begins[i.target] for b in self.bundles for i in b.instructions if i.target in begins}
        starts: list[int] = []
        jumps: list[tuple[int, int | None]] = []
        pending: list[tuple[int, Record, Instruction, int | None]] = []  # due, jump, branch, flag to clear
        for index, bundle in enumerate(self.bundles):
            starts.append(len(self.records))
            ordinary = [i for i in bundle.instructions if i.target is None and i.opcode not in PHIS]
            branches = [i for i in bundle.instructions if i.target is not None]
            self._same_registers(i for i in bundle.instructions if i.opcode in PHIS)
            for branch in branches:
                if found := self._branch(branch, index, any(index < e <= index + DELAY for e in entered)):
                    pending.append(found)
            # Operands are in their registers before the kernel starts; one that nobody reads may share it.
            given = [i for i in ordinary if i.opcode == OPERAND]
            self._together([self.emitter.emit(i) for i in given])
            self._together([self.emitter.emit(i) for i in ordinary if i.opcode != OPERAND])
            for _, jump, branch, clears in [p for p in pending if p[0] == index]:
                if clears is not None:
                    self._cleared(clears, jump, branch.line)
                jumps.append((len(self.records), begins.get(branch.target or 0)))
                self._add([jump], branch.line)
            pending = [p for p in pending if p[0] > index]
        if pending:
            raise Unsupported("sbr.rel", "whose delay ends after the last bundle")
        for record, target in jumps:
            self.records[record][IMM] = len(self.records) if target is None else starts[target]

    def _branch(
        self, branch: Instruction, index: int, entered: bool
    ) -> tuple[int, Record, Instruction, int | None] | None:
        """The jump that a branch is, with its condition as it stands now; None for one that is never taken."""
        predicate = branch.predicate
        if predicate is not None and predicate.name == "0":
            return None
        jump = self.emitter.jump()
        flag = None
        if entered or (predicate is not None and predicate.name != "1"):
            flag = self.emitter.registers.fresh("S")
            one = self.emitter.registers.constant("S", 1)
            always = predicate is None or predicate.name == "1"
            source = (
                one if always or predicate is None else self.emitter.scalar_now(predicate, self.records, self.lines)
            )
            self._add([self.emitter.bare("mov.s", flag, source)], branch.line)
            jump[PRED] = flag + 1
        return index + DELAY, jump, branch, flag if entered else None

    def _cleared(self, flag: int, jump: Record, line: int) -> None:
        """A branch's condition counts once: who enters between the branch and its effect does not take it."""
        registers = self.emitter.registers
        kept = registers.fresh("S")
        zero = registers.constant("S", 0)
        self._add([self.emitter.bare("mov.s", kept, flag), self.emitter.bare("mov.s", flag, zero)], line)
        jump[PRED] = kept + 1

    def _same_registers(self, phis: Iterable[Instruction]) -> None:
        for phi in phis:
            for operand in phi.operands:
                if phi.dst is None or getattr(operand, "register", None) != phi.dst.register:
                    raise Unsupported(phi.opcode, "between registers, in bundles")

    def _together(self, issued: list[Emitted]) -> None:
        left = list(issued)
        readers: dict[Slot, set[int]] = {}
        for number, emitted in enumerate(left):
            for slot in emitted.reads:
                readers.setdefault(slot, set()).add(number)
        blocked = [self._before(place, emitted, left, readers) for place, emitted in enumerate(left)]
        waiting = list(range(len(left)))
        done: set[int] = set()
        while waiting:
            free = next((p for p in waiting if blocked[p] <= done), None)
            place = waiting[0] if free is None else free
            if free is None:
                self._set_aside(place, [left[p] for p in waiting if p != place], left[place])
            self._add(left[place].records, left[place].instruction.line)
            waiting.remove(place)
            done.add(place)

    def _before(
        self, place: int, emitted: Emitted, issued: Sequence[Emitted], readers: dict[Slot, set[int]]
    ) -> set[int]:
        """Who has to come before: those that read what this writes, and by kind those whose effect comes first."""
        before: set[int] = set()
        own = _pointer(emitted)
        for slot in emitted.writes:
            before |= readers.get(slot, set()) - {place}
        if own:  # a name for what another instruction of the same bundle computes
            before = {p for p, other in enumerate(issued) if p != place and other.writes & emitted.reads}
        before -= {p for p in before if _pointer(issued[p])}
        rank, unit = _rank(emitted), emitted.instruction.unit
        if rank is not None:
            for other_place, other in enumerate(issued):
                other_rank = _rank(other)
                if other_rank is None or other_place == place or other_rank[0] != rank[0]:
                    continue
                if other_rank[1] < rank[1] and (rank[0] == "memory" or other.instruction.unit == unit):
                    before.add(other_place)
        return before

    def _set_aside(self, place: int, later: Sequence[Emitted], now: Emitted) -> None:
        """Keeps what `now` overwrites for those that have yet to read it."""
        for slot in now.writes:
            file, number = slot
            who = [emitted for emitted in later if slot in emitted.reads and not _pointer(emitted)]
            if not who:
                continue
            kept = self.emitter.registers.fresh(file)
            self._add([self.emitter.bare(f"mov.{file.lower()}", kept, number)], now.instruction.line)
            for emitted in who:
                for record in emitted.records:
                    _renamed(record, slot, kept)

    def _add(self, records: Sequence[Record], line: int) -> None:
        self.records.extend(records)
        self.lines.extend([line] * len(records))


def _renamed(record: Record, slot: Slot, by: int) -> None:
    """The same record reading another register."""
    file, number = slot
    for place, letter in enumerate(BY_NUMBER[record[0]].signature, 1):
        if letter == file.lower() and record[place] == number:
            record[place] = by
    if file == "S" and record[PRED] and abs(record[PRED]) - 1 == number:
        record[PRED] = by + 1 if record[PRED] > 0 else -(by + 1)


def _pointer(emitted: Emitted) -> bool:
    return emitted.instruction.opcode.startswith("int_to_ptr")


_LOADS = ("vld", "sld")
_STORES = ("vst", "sst")


def _rank(emitted: Emitted) -> tuple[str, int] | None:
    """What is ordered besides registers: (what, when)."""
    opcode = emitted.instruction.opcode
    head = opcode.split(".", 1)[0]
    if opcode.startswith("dma.done"):
        return "memory", 0
    if head in _LOADS:
        return "memory", 1
    if head in _STORES:
        return "memory", 2
    if head == "dma":
        return "memory", 3
    if head in ("vsyncadd", "vsyncpa"):
        return "memory", 4
    if head in ("vpop", "spop"):
        return "queue", 0
    if head == "vmatmul":
        return "queue", 1
    if head in ("vmatpush", "vmatprep", "vllmr", "vmatpush1", "vmatpush2"):
        return "queue", 2
    if (
        head in ("vperm", "vrot", "vxpose", "vadd", "vmax", "vmin", "vbcast", "vpush")
        and emitted.instruction.dst is None
    ):
        return "queue", 2
    if opcode.startswith("vset.pattern"):
        return "queue", 3
    if head in ("vtanh", "vrcp", "vrsqrt", "vexp2", "vlog2") and emitted.instruction.dst is None:
        return "queue", 2
    return None
