"""Loads, stores, DMA and sync flags.

What a DMA writes is copied when it is issued; until a wait on its flag has covered it, reading or writing what arrives,
and writing what leaves, is a race. A flag counts granules: a DMA adds them when it is issued, a wait asks for them. The
flag of the source is not counted: nothing waits for it within one core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words
from assay.llo.machine import (
    CAPACITY,
    GRANULE,
    HBM,
    LANES,
    SFLAG,
    SMEM,
    SPACES,
    SUBLANES,
    VMEM,
    Flight,
    Machine,
    Trap,
    Trapped,
)
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import PROBE, spread

Chunk = tuple[int, int, int]
"""First of the source, first of the destination, how many: in granules, in words for smem."""
ROW = LANES // GRANULE
READS, WRITES, WRITES_SOURCE = range(3)


def _int(word: np.uint32 | int) -> int:
    """An address: signed."""
    return (int(word) & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _owned(m: Machine, space: int, at: int, count: int, write: bool) -> None:
    """What is nobody's may be read, as far as there is memory: it holds what memory held before."""
    if not write and at >= 0 and at + count <= CAPACITY[space]:
        return
    owners = m.owners[SPACES[space]]
    if at < 0 or at + count > len(owners):
        raise Trapped(Trap.OUT_OF_BOUNDS, space, at, int(write))
    if not owners[at : at + count].all():
        first = at + int(np.argmin(owners[at : at + count] != 0))
        raise Trapped(Trap.OUT_OF_BOUNDS, space, first, int(write))


def _in_flight(m: Machine, space: int) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """How many DMAs write, and read, each granule (word of smem)."""
    if space not in m.arriving:
        units = len(m.owners[SPACES[space]]) * (ROW if space == VMEM else 1)
        m.arriving[space], m.leaving[space] = np.zeros(units, np.uint16), np.zeros(units, np.uint16)
    return m.arriving[space], m.leaving[space]


def _no_race(m: Machine, space: int, at: int, count: int, write: bool) -> None:
    """at, count: in granules, in words for smem."""
    if not m.flying:
        return
    arriving, leaving = _in_flight(m, space)
    if arriving[at : at + count].any():
        first = at + int(np.argmax(arriving[at : at + count] != 0))
        raise Trapped(Trap.RACE, space, first, WRITES if write else READS)
    if write and leaving[at : at + count].any():
        first = at + int(np.argmax(leaving[at : at + count] != 0))
        raise Trapped(Trap.RACE, space, first, WRITES_SOURCE)


# Vector memory ---


def _rows(m: Machine, r: Sequence[int], write: bool, places: Sequence[int] = range(8)) -> Iterator[tuple[int, int]]:
    """(sublane, row) of a record (base, offset, stride, sublanes), each checked. Above the 16 bits of the stride stands
    how many sublanes follow each other before it is taken; 0 or the sign: one. places: which place of that sequence
    each sublane has.
    """
    at, stride, sublanes = _int(m.s[r[2]]) + r[3], r[4], int(m.s[r[5]])
    group = max(stride >> 16, 1)
    if stride >> 16 >= 1:
        stride = (stride & 0xFFFF ^ 0x8000) - 0x8000
    for k, place in enumerate(places):
        if sublanes >> k & 1:
            row = at + stride * (place // group) + place % group
            _owned(m, VMEM, row, 1, write)
            _no_race(m, VMEM, row * ROW, ROW, write)
            yield k, row


def _row(m: Machine, row: int) -> Words:
    return m.vmem[row] if row < len(m.vmem) else np.full(LANES, m.fill, np.uint32)


_STRIDED = "kernels with known results; sublanes that are off read as 0: the compiler ORs two halves"
for _name in ("vld", "vld.bf16", "vld.s32"):

    @op(_name, "Vsiis", "probe", _STRIDED, "CHECK(load(vm, V(dst), S(a), b, c, S(d)));")
    def _vld(m: Machine, r: Sequence[int]) -> None:
        out = np.zeros((SUBLANES, LANES), np.uint32)
        for k, row in _rows(m, r, write=False):
            out[k] = _row(m, row)
        m.v[r[1]] = out


@op(
    "vld.sshfl",
    "Vsiisi",
    "probe",
    "nibble k of the pattern says which of 16 rows sublane k comes from; a reshape reads rows 0, 2, 12 and 14 so",
    "CHECK(load_shuffled(vm, V(dst), S(a), b, c, S(d), (uint32_t)imm));",
)
def _vld_sshfl(m: Machine, r: Sequence[int]) -> None:
    out = np.zeros((SUBLANES, LANES), np.uint32)
    for k, row in _rows(m, r, write=False, places=[r[6] >> 4 * k & 15 for k in range(SUBLANES)]):
        out[k] = _row(m, row)
    m.v[r[1]] = out


@op("vst", "vsiis", "probe", _STRIDED, "CHECK(store(vm, V(dst), 0, S(a), b, c, S(d)));")
def _vst(m: Machine, r: Sequence[int]) -> None:
    for k, row in list(_rows(m, r, write=True)):
        m.vmem[row] = m.v[r[1], k]


@op(
    "vst.msk",
    "vsiism",
    "probe",
    "as vst, bytes of the mask only",
    "CHECK(store(vm, V(dst), M(imm), S(a), b, c, S(d)));",
)
def _vst_msk(m: Machine, r: Sequence[int]) -> None:
    on = spread(m.m[r[6]])
    for k, row in list(_rows(m, r, write=True)):
        m.vmem[row] = (m.v[r[1], k] & on[k]) | (m.vmem[row] & ~on[k])


# Scalar memory ---


@op("sld", "Ssi", "probe", PROBE, "CHECK(scalar_load(vm, &S(dst), S(a), b));")
def _sld(m: Machine, r: Sequence[int]) -> None:
    at = _int(m.s[r[2]]) + r[3]
    _owned(m, SMEM, at, 1, False)
    _no_race(m, SMEM, at, 1, False)
    m.s[r[1]] = m.smem[at] if at < len(m.smem) else m.fill


@op("sst", "ssi", "probe", PROBE, "CHECK(scalar_store(vm, S(dst), S(a), b));")
def _sst(m: Machine, r: Sequence[int]) -> None:
    at = _int(m.s[r[2]]) + r[3]
    _owned(m, SMEM, at, 1, True)
    _no_race(m, SMEM, at, 1, True)
    m.smem[at] = m.s[r[1]]


# DMA ---

PLAIN, STRIDED, GENERAL = range(3)


def _chunks(m: Machine, r: Sequence[int]) -> Iterator[Chunk]:
    """(source, destination, granules). Form 1 moves both on after each `steps_per_stride` times 512 bytes. Form 2 reads
    six words of smem: outer strides of source and destination, inner count, inner strides of both, inner chunk in 512
    bytes.
    """
    source, size, target, _, by_source, by_target, steps, descriptor = (int(w) for w in m.s[r[2] : r[2] + 8])
    if r[5] == PLAIN:
        yield source, target, size
        return
    count, outer_source, outer_target = 1 << 32, 0, 0
    if r[5] == GENERAL:
        _owned(m, SMEM, descriptor, 6, False)
        if descriptor + 6 > len(m.smem):
            raise Trapped(Trap.OUT_OF_BOUNDS, SMEM, descriptor, 0)
        outer_source, outer_target, count, by_source, by_target, steps = (
            int(x) for x in m.smem[descriptor : descriptor + 6]
        )
    if not steps or not count:
        raise Trapped(Trap.OUT_OF_BOUNDS, r[3], source, 0)
    for k, done in enumerate(range(0, size, steps * ROW)):
        o, i = divmod(k, count)
        yield (
            source + o * outer_source + i * by_source,
            target + o * outer_target + i * by_target,
            min(steps * ROW, size - done),
        )


def _span(space: int, base: int, at: int, granules: int) -> tuple[int, int]:
    """First and count, in granules or words of smem; `at` has moved on from `base` by granules."""
    return (base + (at - base) * GRANULE, granules * GRANULE) if space == SMEM else (at, granules)


def _reachable(m: Machine, space: int, at: int, count: int, write: bool) -> None:
    if space == VMEM:
        _owned(m, VMEM, at // ROW, -(-(at + count) // ROW) - at // ROW, write)
    else:
        _owned(m, space, at, count, write)
    _no_race(m, space, at, count, write)


def _words(m: Machine, space: int, at: int, count: int) -> Words:
    if space == SMEM:
        return m.smem[at : at + count]
    return (m.hbm if space == HBM else m.vmem.reshape(-1))[at * GRANULE : (at + count) * GRANULE]


@op("dma", ".siiii", "probe", "kernels with known results move their operands by it", "CHECK(dma(vm, &S(a), b, c, d));")
def _dma(m: Machine, r: Sequence[int]) -> None:
    """Eight scalars from register a on: source, granules, destination, its flag, strides of both, steps, descriptor."""
    source, size, target, flag = (int(w) for w in m.s[r[2] : r[2] + 4])
    _owned(m, SFLAG, flag, 1, True)
    flight = Flight([], [], size)
    for at, to, n in _chunks(m, r):
        read, written = (r[3], *_span(r[3], source, at, n)), (r[4], *_span(r[4], target, to, n))
        _reachable(m, *read, write=False)
        _reachable(m, *written, write=True)
        there = _words(m, *read).copy()  # shorter where it reaches behind all that the machine has
        filled = _words(m, *written)
        filled[: len(there)], filled[len(there) :] = there, m.fill
        flight.leaving.append(read)
        flight.arriving.append(written)
    for space, first, count in flight.arriving:
        _in_flight(m, space)[0][first : first + count] += 1
    for space, first, count in flight.leaving:
        _in_flight(m, space)[1][first : first + count] += 1
    m.flights.setdefault(flag, deque()).append(flight)
    m.flying += 1
    m.sflag[flag] += size


def _wait(m: Machine, flag: int, granules: int) -> None:
    """What has been issued on the flag is over as far as `granules` reach."""
    _owned(m, SFLAG, flag, 1, False)
    have = int(m.sflag[flag])
    if have < granules:
        raise Trapped(Trap.DEADLOCK, flag, granules, have)
    flights = m.flights.get(flag, deque())
    while flights and granules >= flights[0].due:
        granules -= flights[0].due
        over = flights.popleft()
        m.flying -= 1
        for space, first, count in over.arriving:
            _in_flight(m, space)[0][first : first + count] -= 1
        for space, first, count in over.leaving:
            _in_flight(m, space)[1][first : first + count] -= 1
    if flights:
        flights[0].due -= granules


@op(
    "dma.done.wait",
    ".ss",
    "stages",
    "dma.done is this and a vsyncadd of the negated count",
    "CHECK(wait(vm, S(a), S(b)));",
)
def _dma_done_wait(m: Machine, r: Sequence[int]) -> None:
    _wait(m, _int(m.s[r[2]]), _int(m.s[r[3]]))


@op("dma.done", ".ss", "probe", "waits for a count and takes it off", "CHECK(done(vm, S(a), S(b)));")
def _dma_done(m: Machine, r: Sequence[int]) -> None:
    flag, granules = _int(m.s[r[2]]), _int(m.s[r[3]])
    _wait(m, flag, granules)
    m.sflag[flag] -= granules


@op("vsyncadd", ".ss", "probe", "adds to the count", "CHECK(sync_add(vm, S(a), S(b)));")
def _vsyncadd(m: Machine, r: Sequence[int]) -> None:
    flag = _int(m.s[r[2]])
    _owned(m, SFLAG, flag, 1, True)
    m.sflag[flag : flag + 1].view(np.uint32)[0] += m.s[r[3]]


@op(
    "vsyncpa",
    ".ss",
    "probe",
    "sets the count: 0 where a flag's scope opens, 1 where it closes",
    "CHECK(sync_set(vm, S(a), S(b)));",
)
def _vsyncpa(m: Machine, r: Sequence[int]) -> None:
    flag, value = _int(m.s[r[2]]), _int(m.s[r[3]])
    _owned(m, SFLAG, flag, 1, True)
    if value == 1 and m.sflag[flag]:
        raise Trapped(Trap.SYNC_FLAG, flag, int(m.sflag[flag]))
    m.sflag[flag] = value
