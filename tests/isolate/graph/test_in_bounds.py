"""Which arguments keep the promise that indices are inside."""

from __future__ import annotations

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.isolate.graph.in_bounds import inside
from assay.reference.policies import for_target

POLICY = for_target("tpu:v5e")
PACKED = """HloModule m

ENTRY e {
  table = f32[32,100]{1,0} parameter(0)
  packed = s32[4]{0} parameter(1)
  column = s32[4,1]{1,0} reshape(packed)
  five = s32[] constant(5)
  fives = s32[4,1]{1,0} broadcast(five), dimensions={}
  low = s32[] constant(31)
  lows = s32[4,1]{1,0} broadcast(low), dimensions={}
  first = s32[4,1]{1,0} and(column, lows)
  second = s32[4,1]{1,0} shift-right-logical(column, fives)
  both = s32[4,2]{1,0} concatenate(first, second), dimensions={1}
  mark = s32[4,2]{1,0} custom-call(both), custom_call_target="MARK"
  ROOT g = f32[4]{0} gather(table, mark), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, \
index_vector_dim=1, slice_sizes={1,1}
}
"""


@pytest.mark.parametrize(
    ("packed", "kept"),
    [
        ([31 + 99 * 32, 0, 1, 32], True),
        ([31 + 100 * 32, 0, 1, 32], False),
        ([-1, 0, 1, 32], False),
    ],
)
def test_fields_of_a_word(packed: list[int], kept: bool):
    arguments = [np.zeros((32, 100), np.float32), np.array(packed, np.int32)]
    module = parse_module(PACKED.replace("MARK", "GatherScatterIndicesBitpacked"))
    assert inside(module, arguments, POLICY) is kept
    # Without a mark the kernel looks itself.
    assert inside(
        parse_module(PACKED.replace('custom-call(both), custom_call_target="MARK"', "copy(both)")), arguments, POLICY
    )


@pytest.mark.parametrize(("index", "kept"), [(12, True), (13, False), (-1, False)])
@pytest.mark.parametrize("opcode", ["gather", "scatter"])
def test_windows_have_room(opcode: str, index: int, kept: bool):
    what = {
        "gather": "f32[2,4]{1,0} gather(x, v), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={4}",
        "scatter": "f32[16]{0} scatter(x, v, u), update_window_dims={1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    }[opcode]
    module = parse_module(f"""HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY e {{
  x = f32[16]{{0}} parameter(0)
  i = s32[2]{{0}} parameter(1)
  u = f32[2,4]{{1,0}} parameter(2)
  m = s32[2]{{0}} custom-call(i), custom_call_target="AssumeGatherIndicesInBound"
  v = s32[2,1]{{1,0}} reshape(m)
  ROOT r = {what}
}}
""")
    arguments = [np.zeros(16, np.float32), np.array([0, index], np.int32), np.zeros((2, 4), np.float32)]
    assert inside(module, arguments, POLICY) is kept
