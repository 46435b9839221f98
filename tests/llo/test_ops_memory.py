"""Loads, stores and DMA against copies written out by hand; and every trap of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.llo.machine import HBM, SFLAG, SMEM, VMEM, Machine, Trap
from assay.llo.program import Allocation

A, B, W, F, H = 20, 21, 22, 23, 24
"""Registers with the bases: two of vmem, smem, a flag, hbm."""
MEMORY = (
    Allocation("a", "vmem", 32 * 512, ""),
    Allocation("b", "vmem", 32 * 512, ""),
    Allocation("w", "smem", 256, ""),
    Allocation("f", "sflag", 4, ""),
    Allocation("h", "hbm", 64 * 512, ""),
)
OFFSETS = ((A, "a", 0), (B, "b", 0), (W, "w", 0), (F, "f", 0), (H, "h", 0))
ALL, ONE = 30, 31
SCALARS = {ALL: 255, ONE: 1}


class Bench:
    """Runs programs on memory whose words are all different."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __call__(self, records: Any, v: Any = None, m: Any = None, s: Any = None, setup: Any = None) -> Any:
        def fill(machine: Machine) -> None:
            base = machine.bases
            machine.vmem[base["a"] : base["a"] + 32] = words(0, 32)
            machine.hbm[base["h"] * 8 : base["h"] * 8 + 64 * 128] = words(1, 64).ravel()
            machine.smem[base["w"] : base["w"] + 64] = np.arange(64)
            if setup is not None:
                setup(machine)

        return self.run(records, v, m, SCALARS | (s or {}), memory=MEMORY, offsets=OFFSETS, setup=fill)


def words(seed: int, rows: int) -> Any:
    return np.random.default_rng(seed).permutation(rows * 128).astype(np.uint32).reshape(rows, 128) + seed * 100_000


@pytest.fixture
def bench(run: Any) -> Bench:
    return Bench(run)


@pytest.mark.parametrize(
    ("offset", "stride", "group"), [(0, 1, 1), (3, 1, 1), (9, -1, 1), (1, 4, 1), (2, 0, 1), (0, 8, 4), (28, -8, 2)]
)
@pytest.mark.parametrize("mask", [0xFF, 0x0F, 0xA5, 0])
def test_rows_are_loaded_and_stored(offset: int, stride: int, group: int, mask: int, bench: Any) -> None:
    encoded = stride if group == 1 else (group << 16) | (stride & 0xFFFF)
    rows = [offset + stride * (k // group) + k % group for k in range(8)]
    source = words(5, 8)
    records = [("vld", 1, A, offset, encoded, 5), ("vst", 0, B, offset, encoded, 5)]
    ran = bench(records, {0: source}, s={5: mask})
    on = [k for k in range(8) if mask >> k & 1]
    wanted = np.zeros((8, 128), np.uint32)
    for k in on:
        wanted[k] = words(0, 32)[rows[k]]
    assert np.array_equal(ran.v(1), wanted)
    kept = np.full((32, 128), ran.machine.fill, np.uint32)
    for k in on:
        kept[rows[k]] = source[k]
    at = ran.machine.bases["b"]
    assert np.array_equal(ran.machine.vmem[at : at + 32], kept)


def test_a_masked_store_keeps_the_other_bytes(bench: Any) -> None:
    mask = np.random.default_rng(6).integers(0, 16, (8, 128)).astype(np.uint8)
    ran = bench([("vst.msk", 0, A, 2, 1, ALL, 0)], {0: words(7, 8)}, {0: mask})
    at = ran.machine.bases["a"] + 2
    on = np.stack([mask >> k & 1 for k in range(4)], axis=-1).astype(bool)
    old, new = (x.view(np.uint8).reshape(8, 128, 4) for x in (words(0, 32)[2:10], words(7, 8)))
    assert np.array_equal(ran.machine.vmem[at : at + 8].view(np.uint8).reshape(8, 128, 4), np.where(on, new, old))


def test_scalar_memory(bench: Any) -> None:
    ran = bench([("sld", 1, W, 7), ("sst", ALL, W, 9), ("sld", 2, W, 9)])
    assert ran.machine.s[1:3].tolist() == [7, 255]


# DMA: eight registers from 8 on; register 0-3 hold what the wait needs


def dma(source: int, granules: int, target: int, *more: int) -> Any:
    """Puts the operands of a DMA on the flag into registers 8 to 15, as offsets from bases that `setup` adds."""
    given = [source, granules, target, 0, *more]
    return {8 + k: word for k, word in enumerate(given + [0] * (8 - len(given)))} | {0: granules}


def placed(source: str, target: str) -> Any:
    def setup(machine: Machine) -> None:
        unit = {"a": 16, "b": 16, "h": 1, "w": 1}
        machine.s[8] += machine.bases[source] * unit[source]
        machine.s[10] += machine.bases[target] * unit[target]
        machine.s[11] = machine.bases["f"]
        machine.s[15] += machine.bases["w"]

    return setup


IN = ("dma", 8, HBM, VMEM, 0, 0)
DONE = ("dma.done", F, 0)


def test_a_plain_copy_both_ways(bench: Any) -> None:
    ran = bench([IN, DONE], s=dma(16, 64, 0), setup=placed("h", "b"))
    at = ran.machine.bases["b"]
    assert np.array_equal(ran.machine.vmem[at : at + 4], words(1, 64)[1:5])
    ran = bench([("dma", 8, VMEM, HBM, 0, 0), DONE], s=dma(24, 8, 3), setup=placed("a", "h"))
    at = ran.machine.bases["h"] + 3
    assert np.array_equal(ran.machine.hbm[at * 8 : (at + 8) * 8], words(0, 32)[1, 64:])
    assert int(ran.machine.sflag[ran.machine.bases["f"]]) == 0


def test_a_copy_to_scalar_memory(bench: Any) -> None:
    ran = bench([("dma", 8, VMEM, SMEM, 0, 0), DONE], s=dma(16, 2, 5), setup=placed("a", "w"))
    at = ran.machine.bases["w"]
    assert ran.machine.smem[at : at + 64].tolist() == [*range(5), *words(0, 32)[1, :16].tolist(), *range(21, 64)]


def test_a_strided_copy(bench: Any) -> None:
    """Two rows at a time: 80 granules are 2 + 2 + 1 rows; sources 6 rows apart, targets 3."""
    records = [("dma", 8, HBM, VMEM, 1, 0), DONE]
    ran = bench(records, s=dma(0, 80, 0, 96, 48, 2), setup=placed("h", "b"))
    at, source = ran.machine.bases["b"], words(1, 64)
    wanted = np.full((32, 128), ran.machine.fill, np.uint32)
    wanted[0:2], wanted[3:5], wanted[6] = source[0:2], source[6:8], source[12]
    assert np.array_equal(ran.machine.vmem[at : at + 32], wanted)


def test_a_copy_by_descriptor(bench: Any) -> None:
    """2 x 3 chunks of a row: outer strides of 20 and 10 rows, inner ones of 4 and 2."""

    def setup(machine: Machine) -> None:
        placed("h", "b")(machine)
        at = machine.bases["w"]
        machine.smem[at : at + 6] = [320, 160, 3, 64, 32, 1]

    ran = bench([("dma", 8, HBM, VMEM, 2, 0), DONE], s=dma(0, 96, 0), setup=setup)
    at, source = ran.machine.bases["b"], words(1, 64)
    wanted = np.full((32, 128), ran.machine.fill, np.uint32)
    for outer in range(2):
        for inner in range(3):
            wanted[10 * outer + 2 * inner] = source[20 * outer + 4 * inner]
    assert np.array_equal(ran.machine.vmem[at : at + 32], wanted)


# Traps


def trap(bench: Any, *args: Any, **more: Any) -> Any:
    stop = bench(*args, **more).outcome.stop
    assert stop is not None
    return stop


@pytest.mark.parametrize(("offset", "stride"), [(32, 1), (25, 1), (-1, 1), (11, 3), (0, -1), (1 << 17, 1)])
def test_rows_of_nobody_hold_what_memory_held(offset: int, stride: int, bench: Any) -> None:
    """Allocation b is the last; a's lower neighbour is nobody's. They may be read, and not be written."""
    base, known = (B, 32) if offset >= 0 and stride > 0 else (A, 32)
    ran = bench([("vld", 1, base, offset, stride, ALL)])
    assert ran.outcome.stop is None
    mine = ran.machine.vmem[ran.machine.bases["b" if base == B else "a"] :][:known]
    for k in range(8):
        row = offset + stride * k
        expected = mine[row] if 0 <= row < known else np.full(128, ran.machine.fill, np.uint32)
        assert np.array_equal(ran.machine.v[1, k], expected)
    stop = trap(bench, [("vst", 1, base, offset, stride, ALL)])
    assert (stop.trap, stop.detail[0], stop.detail[2]) == (Trap.OUT_OF_BOUNDS, VMEM, 1)
    assert bench([("vst", 1, B, 25, 1, 5)], s={5: 0x7F}).outcome.stop is None


@pytest.mark.parametrize("offset", [-(1 << 20), 1 << 18, 1 << 30])
def test_where_no_memory_is_nothing_is_read(offset: int, bench: Any) -> None:
    for record in (("vld", 1, A, offset, 1, ALL), ("sld", 1, W, offset)):
        assert trap(bench, [record]).trap == Trap.OUT_OF_BOUNDS


def test_words_and_flags_of_nobody(bench: Any) -> None:
    for at in (64, 1 << 16):
        ran = bench([("sld", 1, W, at)])
        assert ran.outcome.stop is None
        assert ran.machine.s[1] == ran.machine.fill
    assert trap(bench, [("sst", 1, W, -1)]).detail[0] == SMEM
    assert trap(bench, [("vsyncadd", ALL, ALL)]).detail[0] == SFLAG
    assert trap(bench, [IN], s=dma(0, 1, 32 * 16), setup=placed("h", "b")).detail[0] == VMEM


@pytest.mark.parametrize("first", [62, 64, 1 << 16])
def test_a_dma_may_read_over_the_end(first: int, bench: Any) -> None:
    """64 granules of hbm, of which the first `first` of 64 rows of 16 are somebody's."""
    ran = bench([IN, DONE], s=dma(first * 16, 64, 0), setup=placed("h", "b"))
    assert ran.outcome.stop is None
    got = ran.machine.vmem[ran.machine.bases["b"] :][:4]
    known = max(0, min(4, 64 - first))
    assert np.array_equal(got[:known], words(1, 64)[first : first + known])
    assert (got[known:] == ran.machine.fill).all()


def test_what_a_dma_writes_is_not_read_before_the_wait(bench: Any) -> None:
    given = {"s": dma(0, 64, 64), "setup": placed("h", "b")}
    load, store = ("vld", 1, B, 0, 1, ALL), ("vst", 1, B, 7, 1, ONE)
    assert trap(bench, [IN, load], **given).trap == Trap.RACE
    assert trap(bench, [IN, load], **given).detail[0] == VMEM
    assert trap(bench, [IN, store], **given).detail[2] == 1
    assert trap(bench, [IN, IN], **given).trap == Trap.RACE
    assert bench([IN, ("vld", 1, B, 8, 1, ALL)], **given).outcome.stop is None
    assert bench([IN, DONE, load, store], **given).outcome.stop is None
    assert bench([IN, ("dma.done.wait", F, 0), load], **given).outcome.stop is None


def test_what_a_dma_reads_is_not_written_before_the_wait(bench: Any) -> None:
    out = ("dma", 8, VMEM, HBM, 0, 0)
    given = {"s": dma(0, 64, 0), "setup": placed("a", "h")}
    stop = trap(bench, [out, ("vst", 1, A, 3, 1, ONE)], **given)
    assert (stop.trap, stop.detail[2]) == (Trap.RACE, 2)
    assert "writes what a DMA is reading" in str(stop)
    assert bench([out, ("vld", 1, A, 0, 1, ALL), DONE, ("vst", 1, A, 3, 1, ONE)], **given).outcome.stop is None


def test_a_wait_for_part_ends_only_what_it_covers(bench: Any) -> None:
    """Two DMAs of 32 granules on one flag: a wait for 32 ends the first, one for 31 none."""
    second = [("mov.s", 32 + k, 8 + k) for k in range(8)]
    more = [*second, ("sadd.s32", 34, 34, 5)]
    given = {"s": dma(0, 32, 0) | {5: 32, 6: 31}, "setup": placed("h", "b")}
    two = [*more, IN, ("dma", 32, HBM, VMEM, 0, 0)]
    assert bench([*two, DONE, ("vld", 1, B, 0, 1, ONE)], **given).outcome.stop is None
    assert trap(bench, [*two, DONE, ("vld", 1, B, 2, 1, ONE)], **given).trap == Trap.RACE
    assert trap(bench, [*two, ("dma.done", F, 6), ("vld", 1, B, 0, 1, ONE)], **given).trap == Trap.RACE


def test_waits_that_nothing_ends(bench: Any) -> None:
    given = {"s": dma(0, 64, 0) | {5: 65}, "setup": placed("h", "b")}
    stop = trap(bench, [IN, ("dma.done", F, 5)], **given)
    assert (stop.trap, stop.detail[1:]) == (Trap.DEADLOCK, (65, 64))
    assert "waits for 65 granules" in str(stop)
    assert trap(bench, [IN, DONE, DONE], **given).trap == Trap.DEADLOCK


def test_flags_are_closed_empty(bench: Any) -> None:
    given = {"s": dma(0, 64, 0) | {5: -64, 6: 0}, "setup": placed("h", "b")}
    opened, closed = ("vsyncpa", F, 6), ("vsyncpa", F, ONE)
    stop = trap(bench, [opened, IN, ("dma.done.wait", F, 0), closed], **given)
    assert (stop.trap, stop.detail[1]) == (Trap.SYNC_FLAG, 64)
    assert bench([opened, IN, ("dma.done.wait", F, 0), ("vsyncadd", F, 5), closed], **given).outcome.stop is None
    assert bench([opened, IN, DONE, closed, opened], **given).outcome.stop is None


def test_the_kernels_own_check_and_the_limit(run: Any) -> None:
    assert run([("shalt.err", {"if": 1})], s={0: 0}).outcome.stop is None
    stop = run([("shalt.err", {"if": 1})], s={0: 1}).outcome.stop
    assert (stop.trap, stop.line) == (Trap.BOUNDS_CHECK, 1)
    outcome = run([("jump", 0)], limit=500).outcome
    assert (outcome.stop.trap, outcome.steps) == (Trap.STEP_LIMIT, 500)
    assert "still running after 500 records" in str(outcome.stop)


def test_what_nobody_wrote_holds_the_fill(run: Any) -> None:
    for fill in (0x7FC0DEAD, 5):
        ran = run([("vld", 1, A, 0, 1, ALL)], s=SCALARS, memory=MEMORY, offsets=OFFSETS, fill=fill)
        assert (ran.v(1) == fill).all()
        assert (ran.v(7) == fill).all()
