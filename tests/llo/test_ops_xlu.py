"""Moves between lanes and sublanes against their index formulas; reductions against exact sums; queues."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.llo.machine import MRF, TRF, XLU, Trap


@pytest.mark.parametrize("amount", [0, 1, 5, 64, 127, 128, 130])
def test_lanes_turn(amount: int, run: Any, draw: Any) -> None:
    x = draw(0, (8, 128))
    got = run([("vrot.lane.b32", 0, 0, 1, 7), ("vpop.permute", 1, 1, 7)], {0: x}, s={0: amount}).v(1)
    for lane in range(128):
        assert np.array_equal(got[:, (lane + amount) % 128], x[:, lane])


def test_sublanes_turn_each_lane_by_its_own_amount(run: Any, draw: Any) -> None:
    x, amounts = draw(1, (8, 128)), np.random.default_rng(1).integers(0, 16, (8, 128)).astype(np.uint32)
    got = run([("vrot.slane", 2, 0, 1)], {0: x, 1: amounts}).v(2)
    for s in range(8):
        for lane in range(128):
            assert got[s, lane] == x[(s + int(amounts[s, lane])) % 8, lane]


def test_permutes_and_broadcasts(run: Any, draw: Any) -> None:
    x = draw(2, (8, 128))
    pattern = np.random.default_rng(2).integers(0, 1 << 32, (8, 128), dtype=np.uint32)
    records = [("vset.pattern.permute", 2, 1), ("vperm.lane", 2, 0, 0, 3), ("vpop.permute", 3, 0, 3)]
    ran = run([*records, ("vbcast.lane.b32", 0, 0, 0, 4), ("vpop.permute", 4, 0, 4)], {0: x, 1: pattern}, s={0: 0x305})
    for s in range(8):
        for lane in range(128):
            assert ran.v(3)[s, lane] == x[s, int(pattern[s, lane]) % 128]
            assert ran.v(4)[s, lane] == x[s, 5 + 3 * s]


def test_reductions_over_lanes(run: Any) -> None:
    x = np.random.default_rng(3).normal(size=(8, 128)).astype(np.float32)
    records = [(f"v{k}.xlane.f32", 0, 0, 9) for k in ("add", "max", "min")]
    ran = run([*records, *(("vpop.xlane", 1 + k, 0, 9) for k in range(3))], {0: x.view(np.uint32)})
    for s in range(8):
        exact, size = math.fsum(x[s].tolist()), math.fsum(np.abs(x[s]).tolist())
        assert abs(float(ran.floats(1)[s, 0]) - exact) <= 7 * 2.0**-24 * size  # seven roundings of a tree
        assert (ran.floats(1)[s] == ran.floats(1)[s, 0]).all()
        assert (ran.floats(2)[s] == x[s].max()).all()
        assert (ran.floats(3)[s] == x[s].min()).all()
    x[2, 77] = np.nan
    ran = run([*records, *(("vpop.xlane", 1 + k, 0, 9) for k in range(3))], {0: x.view(np.uint32)})
    assert np.isnan(ran.floats(2)[2]).all()
    assert np.isfinite(ran.floats(2)[1]).all()


@pytest.mark.parametrize(("count", "width"), [(1, 8), (3, 40), (16, 64), (16, 128)])
def test_words_transpose(count: int, width: int, run: Any, draw: Any) -> None:
    x = draw(4, (count * 8, 128))
    names = ["start.end"] if count == 1 else ["start", *["cont"] * (count - 2), "end"]
    records = [(f"vxpose.b32.{name}", k, width, (k == 0) | (k == count - 1) << 1, 1, 6) for k, name in enumerate(names)]
    vectors = {k: x[8 * k : 8 * k + 8] for k in range(count)}
    pops = [("vpop.trf", 20, 1, 6)]
    for row in range(0, width, 8):
        ran = run([*records, *pops * (row // 8 + 1)], vectors)
        assert np.array_equal(ran.v(20)[:, : count * 8], x.T[row : row + 8])
        assert (ran.v(20)[:, count * 8 :] == 0).all()  # a late pass leaves vectors of zeros out, and shortens the row
    assert ran.outcome.left == 0


def halves(vectors: Any) -> Any:
    """(16n, 128) rows of n vectors."""
    return np.concatenate([v.view(np.uint16).reshape(8, 128, 2).transpose(0, 2, 1).reshape(16, 128) for v in vectors])


def test_halves_transpose(run: Any, draw: Any) -> None:
    x = draw(5, (8, 8, 128))
    records = [("vxpose.c.b16.cont", k, 128, (k == 0) | (k == 7) << 1, 0, 1) for k in range(8)]
    ran = run([*records, *(("vpop.trf", 8 + k, 0, 1) for k in range(8))], dict(enumerate(x)))
    assert np.array_equal(halves(ran.machine.v[8:16]), halves(x).T)


def test_a_pair_of_transposes_takes_turns(run: Any, draw: Any) -> None:
    """As the two transposes that it stands for: vy first."""
    x, y = draw(6, (2, 4, 8, 128))
    width = 64
    both = [("vxpose.binary.c.b16.cont", k, 4 + k, width, (k == 0) | (k == 3) << 1, 0, 1) for k in range(4)]
    ran = run([*both, *(("vpop.trf", 8 + k, 0, 1) for k in range(8))], dict(enumerate([*x, *y])))
    assert np.array_equal(halves(ran.machine.v[8:16:2])[:, :64], halves(y).T[:width])
    assert np.array_equal(halves(ran.machine.v[9:16:2])[:, :64], halves(x).T[:width])


def test_the_first_element_becomes_a_scalar(run: Any, draw: Any) -> None:
    x = draw(7, (2, 8, 128))
    records = [("vtos", 0, 0), ("vpush", 0, 5), ("vpush", 1, 6), ("spop", 1, 5), ("spop", 2, 0)]
    ran = run(records, {0: x[0], 1: x[1]})
    assert ran.machine.s[:3].tolist() == [x[0, 0, 0], x[0, 0, 0], x[1, 0, 0]]


def test_queues_are_in_order(run: Any, draw: Any) -> None:
    x = draw(8, (8, 128))
    one, two = ("vrot.lane.b32", 0, 0, 2, 11), ("vadd.xlane.f32", 0, 2, 12)
    stop = run([one, two, ("vpop.xlane", 1, 2, 12)], {0: x}).outcome.stop
    assert (stop.trap, stop.line, stop.detail) == (Trap.QUEUE_ORDER, 3, (XLU, 2, 12, 11))
    assert "pops xlu2 for %12, but %11 comes first" in str(stop)
    stop = run([one, ("vpop.permute", 1, 0, 11)], {0: x}).outcome.stop
    assert (stop.trap, stop.detail) == (Trap.QUEUE_EMPTY, (XLU, 0, 11))
    assert run([one, two, ("vpop.permute", 1, 2, 0)], {0: x}).outcome.left == 1
    stop = run([("vpop.trf", 1, 0, 0)]).outcome.stop
    assert stop.detail == (TRF, 0, 0)
    stop = run([("vpop.f32.mrf", 1, 3, 0)]).outcome.stop
    assert stop.detail == (MRF, 3, 0)


def test_a_queue_that_nobody_pops_fills_up(run: Any) -> None:
    stop = run([("vpush", 0, 1), ("jump", 0)], limit=100_000).outcome.stop
    assert stop.trap == Trap.QUEUE_FULL


def test_transposes_begin_and_end(run: Any) -> None:
    assert run([("vxpose.b32.cont", 0, 8, 0, 0, 0)]).outcome.stop.trap == Trap.TRANSPOSE
    too_many = [("vxpose.b32.start", 0, 8, 1, 0, 0), *[("vxpose.b32.cont", 0, 8, 0, 0, 0)] * 16]
    assert run(too_many).outcome.stop.detail == (0, 17)
