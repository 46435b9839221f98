"""Collectives: identities for one participant, Unsupported for more."""

from __future__ import annotations

import numpy as np
import pytest
from xla_cpu import assert_hlo_agrees, reference

from assay.errors import Unsupported

ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def program(line: str, shape: str = "f32[2,3]", header: str = "") -> str:
    return f"HloModule m{header}\n{ADD}ENTRY e {{\n  p = f32[2,3] parameter(0)\n  ROOT r = {shape} {line}\n}}"


ALONE = [
    "all-reduce(p), replica_groups={}, to_apply=add",
    "all-reduce(p), replica_groups={{0}}, to_apply=add",
    "all-gather(p), replica_groups={{0}}, dimensions={0}",
    "reduce-scatter(p), replica_groups={{0}}, dimensions={1}, to_apply=add",
    "all-to-all(p), replica_groups={{0}}, dimensions={0}",
    "collective-permute(p), source_target_pairs={{0,0}}",
]


@pytest.mark.parametrize("line", ALONE)
def test_one_participant(line):
    np.testing.assert_array_equal(reference(program(line), [X])[0].mid, X)


@pytest.mark.parametrize("line", ALONE)
def test_one_participant_agrees_with_xla(line):
    assert_hlo_agrees(program(line), X)


def test_nobody_sends():
    (ball,) = assert_hlo_agrees(program("collective-permute(p), source_target_pairs={}"), X)
    assert not ball.mid.any()


@pytest.mark.parametrize("opcode", ["partition-id", "replica-id"])
def test_ids(opcode):
    (ball,) = assert_hlo_agrees(program(f"{opcode}()", "u32[]"), X)
    assert int(ball.mid) == 0


def test_several_operands():
    line = "all-reduce(p, p), replica_groups={}, to_apply=add"
    balls = reference(program(line, "(f32[2,3], f32[2,3])"), [X])
    assert [ball.mid.tolist() for ball in balls] == [X.tolist(), X.tolist()]


def test_started_and_done():
    text = f"""HloModule m
{ADD}ENTRY e {{
  p = f32[2,3] parameter(0)
  s = f32[2,3] all-reduce-start(p), replica_groups={{}}, to_apply=add
  d = f32[2,3] all-reduce-done(s)
  g = (f32[2,3], f32[2,3]) all-gather-start(d), replica_groups={{{{0}}}}, dimensions={{0}}
  h = f32[2,3] all-gather-done(g)
  c = (f32[2,3], f32[2,3], u32[], u32[]) collective-permute-start(h), source_target_pairs={{{{0,0}}}}
  ROOT r = f32[2,3] collective-permute-done(c)
}}"""
    np.testing.assert_array_equal(reference(text, [X])[0].mid, X)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("all-reduce(p), replica_groups={{0,1}}, to_apply=add", ""),
        ("all-reduce(p), replica_groups=[1,2]<=[2], to_apply=add", ""),
        ("all-reduce(p), replica_groups={}, to_apply=add", ", replica_count=2"),
        ("all-reduce(p), replica_groups={}, to_apply=add", ", num_partitions=4"),
        ("collective-permute(p), source_target_pairs={{0,1},{1,0}}", ""),
    ],
)
def test_several_participants_are_not_modelled(line, header):
    with pytest.raises(Unsupported):
        reference(program(line, header=header), [X])


RAGGED = """HloModule m

ENTRY e {
  a = f32[6,2] parameter(0)
  into = f32[8,2] parameter(1)
  starts = s32[2] parameter(2)
  sizes = s32[2] parameter(3)
  places = s32[2] parameter(4)
  received = s32[2] parameter(5)
  ROOT r = f32[8,2] ragged-all-to-all(a, into, starts, sizes, places, received), replica_groups={{0}}
}
"""


def test_ragged_all_to_all_with_oneself():
    a, into = np.arange(12, dtype=np.float32).reshape(6, 2), -np.ones((8, 2), np.float32)
    index = [np.array(x, np.int32) for x in ([0, 4], [3, 2], [5, 1], [3, 2])]
    (ball,) = reference(RAGGED, [a, into, *index])
    expected = into.copy()
    expected[5:8] = a[0:3]
    expected[1:3] = a[4:6]
    np.testing.assert_array_equal(ball.mid, expected)
    assert ball.exact
    with pytest.raises(Unsupported, match="beyond"):
        reference(RAGGED, [a, into, index[0], index[1], np.array([7, 1], np.int32), index[3]])


ASYNC = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  p = f32[2,3] parameter(0)
  s = ((f32[2,3]), f32[2,3]) reduce-scatter-start(p), replica_groups={{0}}, dimensions={0}, to_apply=add
  d = f32[2,3] reduce-scatter-done(s)
  a = ((f32[2,3]), f32[2,3]) all-to-all-start(d), replica_groups={{0}}, dimensions={0}
  b = f32[2,3] all-to-all-done(a)
  c = ((f32[2,3]), f32[2,3]) collective-broadcast-start(b), replica_groups={{0}}
  ROOT r = f32[2,3] collective-broadcast-done(c)
}
"""


def test_asynchronous_forms_without_an_opcode_of_their_own():
    (ball,) = reference(ASYNC, [X])
    np.testing.assert_array_equal(ball.mid, X)
    with pytest.raises(Unsupported, match="more than one participant"):
        reference(
            ASYNC.replace("all-to-all-start(d), replica_groups={{0}}", "all-to-all-start(d), replica_groups={{0,1}}"),
            [X],
        )
