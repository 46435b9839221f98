"""Whether what a fault changes can reach a result: random bits are put wherever it changes something.

A stage and the same with the fault run side by side. Lanes of vectors and masks that are not the same in both, and
words that only one of the two stores, are random in further runs of either text. Where results stay what they are
through all of them, nothing depends on what the fault changes; no maximum that was large enough on the inputs at hand
hides it, and no rounding. Bytes below the lowest that differs stay: they may be another element of a packed type. Those
above do not, for an exponent may be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from subject import Kernel

from assay.llo import interpret
from assay.llo.code import DST, IMM, OP, A, B, C, Code, D
from assay.llo.diff import Given, compared
from assay.llo.files import Stage
from assay.llo.kernel import Result, same
from assay.llo.listing import load
from assay.llo.machine import LANES, SUBLANES, Machine, Outcome
from assay.llo.semantics.table import BY_NUMBER, OPS
from assay.llo.semantics.vector import spread
from assay.llo.trace import Did, Trace, trace_of

MOST = 50_000
"""Executions of instructions that differ, above which nothing is shown: 5 KiB each."""

FROM = [np.uint32(0xFFFFFFFF << 8 * k & 0xFFFFFFFF) for k in range(4)]

Bits = npt.NDArray[np.uint32]
ALL = np.full((SUBLANES, LANES), 0xFFFFFFFF, np.uint32)


@dataclass(frozen=True, slots=True)
class _Made:
    """By one execution. where: the address, of a store. on: the bits that are made or stored. on, words: (8, 128)"""

    where: tuple[int, ...]
    on: Bits
    words: Bits

    def apart(self, other: _Made | None) -> Bits:
        """The bits that are to be random, for the other does not make them alike. (8, 128)"""
        if other is None or self.where != other.where:
            return self.on
        differ = self.words ^ other.words | self.on & ~other.on
        lowest = np.select([differ >> np.uint32(8 * k) & np.uint32(255) != 0 for k in range(4)], FROM, np.uint32(0))
        return self.on & lowest


@dataclass(slots=True)
class _Run:
    """One stage. random: by place in the listing, for each execution in turn, the bits that are random.
    made: by place, what each execution made before that, in the first of two runs. told: what each DMA was. forced: the
    place of an instruction that works on drawn vectors, and which (`_drawn`). memory: in the end.
    """

    kernel: Kernel
    stage: Stage
    given: Given
    places: frozenset[int]
    random: Mapping[int, Sequence[Bits]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    made: dict[int, list[_Made]] = field(default_factory=dict)
    told: list[tuple[int, ...]] = field(default_factory=list)
    forced: tuple[int, int] | None = None
    memory: bytes = b""
    _ran: bool = False

    def result(self) -> Result:
        trace = trace_of(load(self.kernel.files, self.stage))
        records = _records(trace, self.places)
        return self.kernel.run(
            trace, self.given, lambda code, machine, limit: self._engine(code, machine, limit, records)
        )

    def results(self) -> list[bytes] | None:
        """Of the first of the kernel's two runs; None where it stops."""
        result = self.result()
        return None if result.stop is not None else [pair.first.tobytes() for pair in result.outputs]

    def _engine(self, code: Code, machine: Machine, limit: int, watched: Mapping[int, int]) -> Outcome:
        if self._ran:
            return interpret.run(code, machine, limit)
        self._ran = True
        records = code.records.tolist()
        dma = OPS["dma"].number

        def hook(at: int) -> None:
            if records[at][OP] == dma:
                scalars = machine.s[records[at][A] : records[at][A] + 8]
                self.told.append((*map(int, scalars), *records[at][B : D + 1]))
            elif at in watched:
                made = self.made.setdefault(watched[at], [])
                if self.forced is not None and self.forced[0] == watched[at]:
                    self._force(machine, records[at], self.forced[1])
                one = _made(machine, records[at])
                random = self.random.get(watched[at], ())
                if len(made) < len(random):
                    self._meddle(machine, records[at], random[len(made)])
                made.append(one)

        outcome = interpret.run(code, machine, limit, hook)
        self.memory = b"".join(space.tobytes() for space in (machine.hbm, machine.vmem, machine.smem))
        return outcome

    def _force(self, machine: Machine, record: Sequence[int], how: int) -> None:
        """The instruction once more, on other vectors."""
        op = BY_NUMBER[record[OP]]
        registers = sorted({record[k] for k, letter in enumerate(op.signature, DST) if letter == "v"})
        before = {k: machine.v[k].copy() for k in registers if k != record[DST]}
        words = [_drawn(self.rng, how) for _ in registers]
        for register, word in zip(registers, words, strict=True):
            machine.v[register] = words[0] if how == TIES else word
        op.run(machine, record)
        for register, word in before.items():
            machine.v[register] = word

    def _meddle(self, machine: Machine, record: Sequence[int], bits: Bits) -> None:
        op = BY_NUMBER[record[OP]]
        file = machine.m if op.signature[0] == "M" else machine.v
        before = file[record[DST]].copy()
        words = self.rng.integers(0, 1 << 32, before.shape, dtype=np.uint32)
        file[record[DST]] = (words & bits | before & ~bits).astype(before.dtype)
        if op.signature[0] == "v":  # it stores once more, those words
            op.run(machine, record)
            file[record[DST]] = before


BITS, NORMAL, TIES, FEW = range(4)


def _drawn(rng: np.random.Generator, how: int) -> Bits:
    if how == BITS:
        return rng.integers(0, 1 << 32, ALL.shape, dtype=np.uint32)
    if how == FEW:
        return rng.integers(-2, 3, ALL.shape, dtype=np.int32).view(np.uint32)
    return rng.normal(size=ALL.shape).astype(np.float32).view(np.uint32)


def _records(trace: Trace, places: frozenset[int]) -> dict[int, int]:
    """By record, the place of the instruction whose value it makes, or whose store it is."""
    found = {}
    for record, place in enumerate(trace.code.lines.tolist()):
        op = BY_NUMBER[int(trace.code.records[record][OP])]
        made = op.signature[:1] in ("V", "M") and trace.record_of(trace.did[place]) == record
        if place in places and (made or op.name in ("vst", "vst.msk")):
            found[record] = place
    return found


def _made(machine: Machine, record: Sequence[int]) -> _Made:
    op = BY_NUMBER[record[OP]]
    if op.signature[0] != "v":
        mask = op.signature[0] == "M"
        file = machine.m if mask else machine.v
        return _Made((), ALL & np.uint32(15) if mask else ALL, file[record[DST]].astype(np.uint32))
    on = np.where((int(machine.s[record[D]]) >> np.arange(SUBLANES) & 1 != 0)[:, None], ALL, np.uint32(0))
    if op.name == "vst.msk":
        on &= spread(machine.m[record[IMM]])
    return _Made((int(machine.s[record[A]]), record[B], record[C]), on, machine.v[record[DST]].copy())


@dataclass(frozen=True, slots=True)
class Both:
    """A stage, and the same with a fault, on one set of inputs. traces: what each instruction of either did."""

    texts: tuple[tuple[Kernel, Stage], tuple[Kernel, Stage]]
    given: Given
    traces: tuple[Trace, Trace]

    @classmethod
    def watched(cls, honest: tuple[Kernel, Stage], planted: tuple[Kernel, Stage], given: Given) -> Both:
        before, after = (kernel.watched(stage, given) for kernel, stage in (honest, planted))
        return cls((honest, planted), given, (before, after))

    def apart(self) -> dict[int, tuple[Did, Did]]:
        """By place in the listing, what is not done alike."""
        pairs = enumerate(zip(*(trace.did for trace in self.traces), strict=True))
        return {place: (a, b) for place, (a, b) in pairs if (a.digest, a.times) != (b.digest, b.times)}


def unreached(both: Both, rounds: int, rng: np.random.Generator) -> bool:
    """Whether results stay what they are, in so many rounds, with random bits in all that the fault changes. False
    where that is not shown: too much differs, or what DMAs are told.
    """
    apart, given = both.apart(), both.given
    places = frozenset(apart)
    if sum(a.times + b.times for a, b in apart.values()) > MOST:
        return False
    first = [_Run(one, of, given, places) for one, of in both.texts]
    right = first[0].results()
    if right is None or first[1].results() != right or first[0].told != first[1].told:
        return False
    random = [_lanes(a.made, b.made) for a, b in (first, first[::-1])]
    return all(
        _Run(one, of, given, places, lanes, rng).results() == right
        for _ in range(rounds)
        for (one, of), lanes in zip(both.texts, random, strict=True)
    )


def alike(both: Both, place: int, rounds: int, rng: np.random.Generator) -> bool:
    """Whether the results of both texts are the same, in so many rounds, whatever vectors the instruction at `place`
    works on: all bits, numbers, the same in all operands, small integers. False where it works on none.
    """
    before, after = (trace.code for trace in both.traces)
    if before.records.shape != after.records.shape or (before.records != after.records).any(axis=1).sum() > 1:
        return False  # registers have other numbers: the same vectors would not be put into the same values
    for number in range(rounds):
        seed, forced = int(rng.integers(1 << 32)), (place, number % 4)
        runs = [
            _Run(one, of, both.given, frozenset((place,)), rng=np.random.default_rng(seed), forced=forced)
            for one, of in both.texts
        ]
        results = [one.result() for one in runs]
        counts = {len(one.made.get(place, ())) for one in runs}
        if any(result.stop is not None for result in results) or len(counts) > 1 or 0 in counts:
            return False
        pairs = zip(both.texts[0][0].operands.outputs, *(result.outputs for result in results), strict=True)
        if any(compared(shape, same(before.first), same(after.first)).any() for shape, before, after in pairs):
            return False
    return True


def moved_back(both: Both) -> bool:
    """Whether what differs is loaded and stored, nothing is computed from it, and in the end all memory is the same."""
    apart = both.apart()
    moved = {did.instruction.dst for pair in apart.values() for did in pair if _is_vector(did)}
    for trace in both.traces:
        for place, did in enumerate(trace.did):
            if _is_vector(did) and (moved & set(did.instruction.read()) or (place in apart and not _loads(did))):
                return False
    runs = [_Run(one, of, both.given, frozenset()) for one, of in both.texts]
    stops = [one.result().stop for one in runs]
    return stops == [None, None] and runs[0].memory == runs[1].memory and runs[0].told == runs[1].told


def _is_vector(did: Did) -> bool:
    return did.vector is not None or did.mask is not None


def _loads(did: Did) -> bool:
    return did.instruction.opcode.startswith("vld")


def _lanes(mine: Mapping[int, Sequence[_Made]], other: Mapping[int, Sequence[_Made]]) -> dict[int, list[Bits]]:
    found = {}
    for place, made in mine.items():
        there = other.get(place, ())
        found[place] = [one.apart(there[k] if k < len(there) else None) for k, one in enumerate(made)]
    return found
