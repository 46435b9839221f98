"""Control flow of regions: text order is fall-through order, branches name regions, phis are copies on edges.

A phi of a loop's header takes its first operand from before the loop, fallen or jumped into, and its second from the
jump back. A phi where a predicated region joins takes its first where a branch skipped the region, and its second where
it fell through it. Regions that are empty pass on the edge by which they were entered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.errors import Unsupported
from assay.llo.code import IMM, PRED
from assay.llo.lowering.emit import Emitter, Record
from assay.llo.program import Instruction, Region, Value

PHIS = frozenset(("sphi", "vphi", "pphi", "vmphi"))


@dataclass(slots=True)
class Flow:
    """Regions as records; `jumps` still have the number of a region where the record's index goes."""

    emitter: Emitter
    regions: Sequence[Region]
    records: list[Record] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _jumps: list[tuple[int, int]] = field(default_factory=list)  # (record, place among the regions)
    _looped: set[int] = field(default_factory=set)

    def lower(self) -> None:
        """Fills records and lines."""
        place = {region.number: index for index, region in enumerate(self.regions)}
        targets = {}
        for index, region in enumerate(self.regions):
            for instruction in region.instructions:
                if instruction.target is not None:
                    if instruction.target not in place:
                        raise Unsupported("sbr.rel", f"to region {instruction.target}, which is not there")
                    targets[id(instruction)] = target = self._entered(place[instruction.target])
                    if target <= index:
                        self._looped.add(target)
        falls = False
        for index, region in enumerate(self.regions):
            if falls and region.instructions:
                self._add(self._moves(index, second=index not in self._looped), region.instructions[0].line)
            self._starts.append(len(self.records))
            falls = self._region(index, region, targets) if region.instructions else falls or index == 0
        end = len(self.records)
        for record, target in self._jumps:
            self.records[record][IMM] = end if target == len(self.regions) else self._starts[target]

    def _region(self, index: int, region: Region, targets: dict[int, int]) -> bool:
        """Whether its end is reached."""
        for instruction in region.instructions:
            if instruction.opcode in PHIS:
                continue
            if instruction.target is None:
                self._add(self.emitter.emit(instruction).records, instruction.line)
                continue
            predicate = instruction.predicate
            if predicate is not None and predicate.name in ("0", "1"):
                predicate = None if predicate.name == "1" else predicate
                if predicate is not None:
                    continue
            self._branch(instruction, predicate, targets[id(instruction)], index)
            if predicate is None:
                return False
        return True

    def _branch(self, instruction: Instruction, predicate: Value | None, target: int, source: int) -> None:
        copies = self._moves(target, second=target <= source)
        number = 0 if predicate is None else self.emitter.predicate(predicate)
        if not copies:
            self._jump(target, number, instruction.line)
            return
        over = None
        if number:
            over = self._jump(-1, -number, instruction.line)
        self._add(copies, instruction.line)
        self._jump(target, 0, instruction.line)
        if over is not None:
            self.records[over][IMM] = len(self.records)

    def _jump(self, target: int, predicate: int, line: int) -> int:
        record = self.emitter.jump()
        record[PRED] = predicate
        self._add([record], line)
        if target >= 0:
            self._jumps.append((len(self.records) - 1, target))
        return len(self.records) - 1

    def _entered(self, index: int) -> int:
        """The region that a jump to `index` comes to: the first from there on that is not empty."""
        while index < len(self.regions) and not self.regions[index].instructions:
            index += 1
        return index

    def _moves(self, index: int, second: bool) -> list[Record]:
        """What an edge into a region gives its phis, all at once: the second operands, or the first."""
        if index == len(self.regions):
            return []
        phis = [i for i in self.regions[index].instructions if i.opcode in PHIS]
        if not phis:
            return []
        pairs = []
        for phi in phis:
            if len(phi.operands) != 2 or phi.dst is None:
                raise Unsupported(phi.opcode, f"of {len(phi.operands)} values")
            pairs.append((phi.dst, phi.operands[second]))
        return self.emitter.parallel(phis[0], pairs)

    def _add(self, records: Sequence[Record], line: int) -> None:
        self.records.extend(records)
        self.lines.extend([line] * len(records))
