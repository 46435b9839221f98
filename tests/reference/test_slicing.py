"""slice, dynamic-slice, dynamic-update-slice: every clamping, narrow and unsigned starts, undecided starts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, reference

from assay.hlo.module import Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape
from assay.reference.context import Context
from assay.reference.registry import find
from assay.reference.value import Ball, from_array

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
INDEX_TYPES = {"s8": np.int8, "u8": np.uint8, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64}


def dims_text(dims) -> str:
    return ",".join(map(str, dims))


@st.composite
def sliced(draw):
    """(dims, sizes, index type, starts)"""
    rank = draw(st.integers(1, 3))
    dims = tuple(draw(st.lists(st.one_of(st.integers(0, 4), st.just(300)), min_size=rank, max_size=rank)))
    sizes = tuple(draw(st.integers(0, n)) for n in dims)
    index_type = draw(st.sampled_from(sorted(INDEX_TYPES)))
    info = np.iinfo(INDEX_TYPES[index_type])
    some = st.one_of(st.integers(max(info.min, -3), 6), st.sampled_from([info.min, info.max, info.max // 2 + 1]))
    return dims, sizes, index_type, [INDEX_TYPES[index_type](draw(some)) for _ in dims]


def declared(index_type: str, starts, first: int) -> str:
    return "\n".join(f"  i{d} = {index_type}[] parameter({first + d})" for d in range(len(starts)))


@QUICK
@given(sliced())
def test_dynamic_slice(case):
    dims, sizes, index_type, starts = case
    text = f"""HloModule m
ENTRY e {{
  p = s32[{dims_text(dims)}] parameter(0)
{declared(index_type, starts, 1)}
  ROOT r = s32[{dims_text(sizes)}] dynamic-slice(p, {", ".join(f"i{d}" for d in range(len(dims)))}),
    dynamic_slice_sizes={{{dims_text(sizes)}}}
}}"""
    operand = np.arange(np.prod(dims), dtype=np.int32).reshape(dims)
    (ball,) = assert_hlo_agrees(text, operand, *starts)
    first = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, dims, sizes, strict=True)]
    want = operand[tuple(slice(s, s + size) for s, size in zip(first, sizes, strict=True))]
    np.testing.assert_array_equal(ball.mid, want)


@QUICK
@given(sliced())
def test_dynamic_update_slice(case):
    dims, sizes, index_type, starts = case
    text = f"""HloModule m
ENTRY e {{
  p = s32[{dims_text(dims)}] parameter(0)
  u = s32[{dims_text(sizes)}] parameter(1)
{declared(index_type, starts, 2)}
  ROOT r = s32[{dims_text(dims)}] dynamic-update-slice(p, u, {", ".join(f"i{d}" for d in range(len(dims)))})
}}"""
    operand = np.arange(np.prod(dims), dtype=np.int32).reshape(dims)
    update = -1 - np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    (ball,) = assert_hlo_agrees(text, operand, update, *starts)
    first = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, dims, sizes, strict=True)]
    want = operand.copy()
    want[tuple(slice(s, s + size) for s, size in zip(first, sizes, strict=True))] = update
    np.testing.assert_array_equal(ball.mid, want)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_slice(step):
    assert_agree(lambda x: lax.slice(x, (1, 0), (6, 5), (step, 2)), np.arange(42, dtype=np.float32).reshape(7, 6))


def test_one_vector_of_starts():
    text = """HloModule m
ENTRY e {
  p = s32[5,4] parameter(0)
  i = s32[2] parameter(1)
  ROOT r = s32[2,2] dynamic-slice(p, i), dynamic_slice_sizes={2,2}
}"""
    operand = np.arange(20, dtype=np.int32).reshape(5, 4)
    (ball,) = reference(text, [operand, np.array([9, 1], np.int32)])
    np.testing.assert_array_equal(ball.mid, operand[3:5, 1:3])


# ---------------------------------------------------------------- doubt and radius


def apply(opcode: str, dims, *operands: Ball) -> Ball:
    context = Context(Module("m", (), "e"), POLICY, lambda name, arguments: arguments[0])
    return find(opcode)(context, Instruction("r", opcode, ArrayShape(operands[0].dtype, dims)), *operands)


def start(value: int, undecided: bool = False) -> Ball:
    return Ball(DTYPES["s32"], np.asarray(value, np.int32), None, np.asarray(True) if undecided else None)


def test_undecided_start_of_a_slice():
    a = from_array(DTYPES["f32"], np.arange(12.0).reshape(3, 4))
    assert apply("dynamic-slice", (2, 4), a, start(1, True), start(0)).und.all()
    # A slice that fills its dimension has one place.
    assert apply("dynamic-slice", (2, 4), a, start(1), start(0, True)).und is None


def test_undecided_start_of_an_update():
    a = from_array(DTYPES["f32"], np.arange(12.0).reshape(3, 4))
    update = from_array(DTYPES["f32"], np.full((1, 2), 7.0))
    result = apply("dynamic-update-slice", (3, 4), a, update, start(1), start(2, True))
    np.testing.assert_array_equal(result.und, [[False] * 4, [True] * 4, [False] * 4])


def test_radius_and_doubt_move_along():
    rad, und = np.arange(12.0).reshape(3, 4), np.eye(3, 4, dtype=bool)
    a = Ball(DTYPES["f32"], np.zeros((3, 4)), rad, und)
    part = apply("dynamic-slice", (2, 2), a, start(1), start(1))
    np.testing.assert_array_equal(part.rad, rad[1:3, 1:3])
    np.testing.assert_array_equal(part.und, und[1:3, 1:3])
    exact = from_array(DTYPES["f32"], np.ones((2, 2)))
    whole = apply("dynamic-update-slice", (3, 4), a, exact, start(1), start(1))
    assert whole.rad[1:3, 1:3].max() == 0
    assert not whole.und[1:3, 1:3].any()
    assert whole.und[0, 0]
    assert whole.rad[0, 3] == 3
