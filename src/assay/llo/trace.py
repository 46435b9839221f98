"""What each instruction of a kernel did in one run: how often it ran, and the value it made last.

The NumPy engine alone is watched. Values are those of the first of the kernel's two runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from assay.llo import interpret
from assay.llo.code import DST, IMM, OP, A, B, C, Code, D, Words
from assay.llo.kernel import Result
from assay.llo.listing import Loaded
from assay.llo.lowering import lower
from assay.llo.lowering.regions import PHIS
from assay.llo.machine import NAN_FILL, SUBLANES, Machine, Outcome
from assay.llo.program import Instruction, Kernel
from assay.llo.semantics.table import BY_NUMBER

_FLOATS = ("f32", "vrcp", "vrsqrt", "vexp2", "vlog2", "vtanh", "mrf", "erf", "vpow")
_WORDS = ("s32", "u32", "vand", "vor", "vxor", "vsh", "vlaneseq", "b16", "b8", "bf16", "s8", "u8", "u16", "vperm")


@dataclass(frozen=True, slots=True)
class Summary:
    """Of a vector's 1,024 lanes, as numbers of `kind`. least to std: of the finite ones; NaN where there are none."""

    kind: str
    least: float
    greatest: float
    mean: float
    std: float
    finite: int


@dataclass(slots=True)
class Did:
    """One instruction. counted: whether it has a record that can be counted; branches, phis and what only waits have
    none. vector: (8, 128) uint32, what it made last; mask: (8, 128) nibbles; scalar: a word. digest: of
    every vector, mask and scalar that it made, in order; of a vector store, of where and what it wrote.
    """

    instruction: Instruction
    times: int = 0
    vector: Words | None = None
    mask: np.ndarray | None = None
    scalar: int | None = None
    digest: int = 0
    counted: bool = False


@dataclass(slots=True)
class Trace:
    """did: for every instruction in the order of the text. code: the same kernel, whose `lines` are places in `did`."""

    code: Code
    did: list[Did]
    _last: dict[int, int] = field(default_factory=dict)  # of each instruction, the record that makes its value
    watched: bool = False

    def record_of(self, did: Did) -> int | None:
        """The record of `code` that makes an instruction's value; None where it makes none."""
        return self._last.get(next(place for place, other in enumerate(self.did) if other is did))

    def told(self, result: Result) -> Result:
        """A result of `code` with the line of the file where it stopped."""
        if result.stop is None:
            return result
        line = self.did[int(self.code.lines[result.stop.record])].instruction.line
        return replace(result, stop=replace(result.stop, line=line))

    def engine(self, code: Code, machine: Machine, limit: int) -> Outcome:
        """`interpret.run`; the first run is watched, others are not."""
        if self.watched:
            return interpret.run(code, machine, limit)
        self.watched = True
        places = self.code.lines.tolist()
        records = self.code.records.tolist()
        first = self._firsts()

        def hook(record: int) -> None:
            did = self.did[places[record]]
            if first[places[record]] == record:
                did.times += 1
            if self._last.get(places[record]) != record:
                return
            number = records[record][DST]
            kind = BY_NUMBER[records[record][OP]].signature[0]
            if kind == "v":
                did.digest = zlib.crc32(_written(machine, records[record]), did.digest)
                return
            if kind == "V":
                did.vector = machine.v[number].copy()
                did.digest = zlib.crc32(did.vector.data, did.digest)
            elif kind == "M":
                did.mask = machine.m[number].copy()
                did.digest = zlib.crc32(did.mask.data, did.digest)
            else:
                did.scalar = int(machine.s[number])
                did.digest = zlib.crc32(did.scalar.to_bytes(4, "little"), did.digest)

        return interpret.run(code, machine, limit, hook)

    def _firsts(self) -> dict[int, int]:
        """Of each instruction a record that runs whenever it does."""
        return {place: record for record, place in reversed(list(enumerate(self.code.lines.tolist())))} | self._last


def trace_of(loaded: Loaded) -> Trace:
    """A stage ready to be watched: `kernel.run(trace.code, ..., engine=trace.engine)`. Raises what `lower` does."""
    numbers = count()
    listed: list[Did] = []

    def numbered(instruction: Instruction) -> Instruction:
        listed.append(Did(instruction))
        return replace(instruction, line=next(numbers))

    kernel = _with_each(loaded.kernel, numbered)
    code = lower(kernel, loaded.declared)
    trace = Trace(code, listed)
    for record, place in enumerate(code.lines.tolist()):
        op = BY_NUMBER[int(code.records[record][OP])]
        listed[place].counted |= op.name not in ("jump", "halt") and listed[place].instruction.opcode not in PHIS
        instruction = listed[place].instruction
        makes = op.signature[:1] in ("V", "M", "S") and instruction.dst is not None and instruction.target is None
        if makes or op.name in ("vst", "vst.msk"):
            trace._last[place] = record
    return trace


def _written(machine: Machine, record: Sequence[int]) -> bytes:
    """Of a vector store: the address, the sublanes, and their words where the mask is on."""
    base, sublanes = (int(machine.s[record[place]]) for place in (A, D))
    rows = [k for k in range(SUBLANES) if sublanes >> k & 1]
    words = machine.v[record[DST], rows]
    if BY_NUMBER[record[OP]].name == "vst.msk":
        words = np.where(machine.m[record[IMM], rows] != 0, words, 0)
    return repr((base, record[B], record[C], sublanes)).encode() + words.tobytes()


def _with_each(kernel: Kernel, change: Callable[[Instruction], Instruction]) -> Kernel:
    regions = tuple(replace(r, instructions=tuple(change(i) for i in r.instructions)) for r in kernel.regions)
    bundles = tuple(replace(b, instructions=tuple(change(i) for i in b.instructions)) for b in kernel.bundles)
    return replace(kernel, regions=regions, bundles=bundles)


def summary(vector: Words, opcode: str) -> Summary:
    """Of (8, 128) words: floats where the opcode makes floats, or where all words look like some; integers else."""
    floats = vector.view(np.float32)
    kind = "f32" if any(word in opcode for word in _FLOATS) and "f32.s32" not in opcode else ""
    if not kind:
        integers = any(word in opcode for word in _WORDS)
        exponents = vector >> np.uint32(23) & np.uint32(255)
        plausible = ((exponents > 64) & (exponents < 192)) | (vector << np.uint32(1) == 0) | (vector == NAN_FILL)
        kind = "f32" if plausible.all() and not integers else "s32"
    numbers = floats.astype(np.float64) if kind == "f32" else vector.view(np.int32).astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return Summary(kind, np.nan, np.nan, np.nan, np.nan, 0)
    least, greatest, mean, std = (float(f(finite)) for f in (np.min, np.max, np.mean, np.std))
    return Summary(kind, least, greatest, mean, std, int(finite.size))


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The first vector or mask, in the order of the second stage's text, that two stages both name and that differs;
    scalars are addresses as well, and those may be others in any stage.
    """

    name: str
    before: Did
    after: Did


def first_difference(before: Trace, after: Trace) -> FirstValue | None:
    """Where two watched runs part: values keep their names from pass to pass. None where all that both name agree."""
    named = {did.instruction.dst.name: did for did in before.did if did.instruction.dst is not None and did.times}
    for did in after.did:
        dst = did.instruction.dst
        other = named.get(dst.name) if dst is not None and dst.kind in ("V", "M") and did.times else None
        if dst is not None and other is not None and _apart(other, did):
            return FirstValue(dst.name, other, did)
    return None


def _apart(before: Did, after: Did) -> bool:
    """Whether two runs made other values: all of them, or the last where one ran it more often."""
    if before.times == after.times:
        return before.digest != after.digest
    pairs = ((before.vector, after.vector), (before.mask, after.mask))
    return any(a is not None and b is not None and not np.array_equal(a, b) for a, b in pairs)
