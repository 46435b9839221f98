"""Kernels from their text, against NumPy. Real ones, that libtpu writes: test_tpu_snapshots.py."""

from __future__ import annotations

import base64
import json

import ml_dtypes
import numpy as np
import pytest
from xla_cpu import outside, reference

from assay.errors import Unsupported
from assay.reference.policy_tpu import TPU_V5E

# C += A @ B^T in blocks of 4 x 8, the sum over k kept in scratch, scaled by a number that is prefetched.
MATMUL = """module {
  func.func @main(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: memref<2xi32, #tpu.memory_space<smem>>, %arg4: memref<4x8xf32, #tpu.memory_space<vmem>>, %arg5: memref<4x8xf32, #tpu.memory_space<vmem>>, %arg6: memref<4x4xf32, #tpu.memory_space<vmem>>, %arg7: memref<4x4xf32, #tpu.memory_space<vmem>>) attributes {iteration_bounds = array<i64: 2, 3, 2>, scalar_prefetch = 1 : i64, scratch_operands = 1 : i64, window_params = [{transform_indices = @a, window_bounds = array<i64: 4, 8>}, {pipeline_mode = #tpu.pipeline_mode<double_buffered>, transform_indices = @b, window_bounds = array<i64: 4, 8>}, {transform_indices = @c, window_bounds = array<i64: 4, 4>}]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %0 = arith.cmpi eq, %arg2, %c0_i32 : i32
    scf.if %0 {
      %cst = arith.constant dense<0.000000e+00> : vector<4x4xf32>
      vector.store %cst, %arg7[%c0, %c0] : memref<4x4xf32, #tpu.memory_space<vmem>>, vector<4x4xf32>
    }
    %1 = vector.load %arg4[%c0, %c0] : memref<4x8xf32, #tpu.memory_space<vmem>>, vector<4x8xf32>
    %2 = vector.load %arg5[%c0, %c0] : memref<4x8xf32, #tpu.memory_space<vmem>>, vector<4x8xf32>
    %3 = vector.load %arg7[%c0, %c0] : memref<4x4xf32, #tpu.memory_space<vmem>>, vector<4x4xf32>
    %4 = tpu.matmul %1, %2, %3 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, precision = #tpu.contract_precision<fp32>, transpose_lhs_hint = false} : vector<4x8xf32>, vector<4x8xf32>, vector<4x4xf32> -> vector<4x4xf32>
    vector.store %4, %arg7[%c0, %c0] : memref<4x4xf32, #tpu.memory_space<vmem>>, vector<4x4xf32>
    %5 = arith.cmpi eq, %arg2, %c1_i32 : i32
    scf.if %5 {
      %6 = memref.load %arg3[%c1] : memref<2xi32, #tpu.memory_space<smem>>
      %7 = arith.sitofp %6 : i32 to f32
      %8 = vector.broadcast %7 : f32 to vector<4x4xf32>
      %9 = arith.mulf %4, %8 : vector<4x4xf32>
      vector.store %9, %arg6[%c0, %c0] : memref<4x4xf32, #tpu.memory_space<vmem>>, vector<4x4xf32>
    }
    return
  }
  func.func @a(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: memref<2xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %arg0, %arg2 : i32, i32
  }
  func.func @b(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: memref<2xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %arg1, %arg2 : i32, i32
  }
  func.func @c(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: memref<2xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %arg0, %arg1 : i32, i32
  }
}
"""  # noqa: E501

# No grid: a running sum of eight numbers, and how many are negative.
SCALARS = """module {
  func.func private @main(%arg0: memref<8xi32, #tpu.memory_space<smem>>, %arg1: memref<8xi32, #tpu.memory_space<smem>>, %arg2: memref<1xi32, #tpu.memory_space<smem>>) attributes {scalar_prefetch = 1 : i64, scratch_operands = 0 : i64} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c0_i32 = arith.constant 0 : i32
    %0:2 = scf.for %arg3 = %c0 to %c8 step %c1 iter_args(%arg4 = %c0_i32, %arg5 = %c0_i32) -> (i32, i32) {
      %1 = memref.load %arg0[%arg3] : memref<8xi32, #tpu.memory_space<smem>>
      %2 = arith.addi %arg4, %1 : i32
      memref.store %2, %arg1[%arg3] : memref<8xi32, #tpu.memory_space<smem>>
      %3 = arith.cmpi slt, %1, %c0_i32 : i32
      %4 = arith.extui %3 : i1 to i32
      %5 = arith.addi %arg5, %4 : i32
      scf.yield %2, %5 : i32, i32
    }
    memref.store %0#1, %arg2[%c0] : memref<1xi32, #tpu.memory_space<smem>>
    return
  }
}
"""  # noqa: E501


def call(body: str, result: str, *operands: str, before: str = "") -> str:
    config = json.dumps({"custom_call_config": {"body": base64.b64encode(body.encode()).decode()}})
    parameters = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(operands))
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    return f"""HloModule m
ENTRY e {{
{parameters}
{before}
  ROOT r = {result} custom-call({names}), custom_call_target="tpu_custom_call", backend_config={config}
}}"""


def test_blocks_over_a_grid():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(dims).astype(np.float32) for dims in ((8, 16), (12, 16)))
    text = call(MATMUL, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    (ball,) = reference(text, [np.array([5, 3], np.int32), a, b])
    truth = 3 * (a.astype(np.float64) @ b.T.astype(np.float64))
    np.testing.assert_allclose(ball.mid, truth, rtol=1e-12)
    assert ball.und is None
    assert not outside(ball, truth.astype(np.float32)).any()
    assert ball.rad.max() < 1e-4


def test_a_grid_whose_size_is_an_operand():
    dynamic = MATMUL.replace("array<i64: 2, 3, 2>", "array<i64: 2, -9223372036854775808, 2>")
    text = call(dynamic, "f32[8,12]", "s32[1]", "s32[2]", "f32[8,16]", "f32[12,16]")
    a, b = np.ones((8, 16), np.float32), np.ones((12, 16), np.float32)
    (ball,) = reference(text, [np.array([2], np.int32), np.array([5, 3], np.int32), a, b])
    np.testing.assert_array_equal(ball.mid[:, :8], np.full((8, 8), 48))
    np.testing.assert_array_equal(ball.und, np.broadcast_to(np.arange(12) >= 8, (8, 12)))


def test_a_block_that_is_visited_anew_begins_unknown():
    """The sum is read from the result's own window, which is kept while k goes on and not when it comes first."""
    kept = MATMUL.replace("%3 = vector.load %arg7", "%3 = vector.load %arg6").replace(
        "vector.store %4, %arg7", "vector.store %4, %arg6"
    )
    text = call(kept, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    args = [np.array([5, 3], np.int32), np.ones((8, 16), np.float32), np.ones((12, 16), np.float32)]
    assert reference(text, args)[0].und.all()
    first = kept.replace("vector.store %cst, %arg7", "vector.store %cst, %arg6")
    (ball,) = reference(call(first, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]"), args)
    np.testing.assert_array_equal(ball.mid, np.full((8, 12), 48))
    assert ball.und is None


def test_operands_of_matmul_by_precision():
    a, b = (np.full(dims, np.float32(1 + 2**-10)) for dims in ((8, 16), (12, 16)))
    args = [np.array([5, 3], np.int32), a, b]
    fine = call(MATMUL, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    coarse = call(MATMUL.replace("<fp32>", "<bf16>"), "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    once = a.astype(ml_dtypes.bfloat16).astype(float) @ b.astype(ml_dtypes.bfloat16).astype(float).T * 3
    assert not outside(reference(coarse, args, TPU_V5E)[0], once).any()
    assert outside(reference(fine, args, TPU_V5E)[0], once).all()


def test_windows_by_maps_and_contractions():
    """The other spelling of the same: windows as large as the arguments, indices by maps, a contraction by maps."""
    text = MATMUL
    for name, to in (("a", "d0, d2"), ("b", "d1, d2"), ("c", "d0, d1")):
        size = "4, 4" if name == "c" else "4, 8"
        old = f"transform_indices = @{name}, window_bounds = array<i64: {size}>"
        assert old in text
        text = text.replace(old, f"transform_indices = affine_map<(d0, d1, d2) -> ({to})>")
    start, end = text.index("tpu.matmul"), text.index(" : vector<4x8xf32>, vector<4x8xf32>, vector<4x4xf32> ->")
    maps = ", ".join(f"affine_map<(d0, d1, d2) -> ({to})>" for to in ("d1, d2", "d0, d2", "d1, d0"))
    kinds = '["parallel", "parallel", "reduction"]'
    contract = f"vector.contract {{indexing_maps = [{maps}], iterator_types = {kinds}, kind = #vector.kind<add>}}"
    precision = "{precision = #tpu.contract_precision<fp32>}"
    text = text[:start] + f"{contract} %1, %2, %3 {precision}" + text[end:].replace("-> vector", "into vector", 1)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(dims).astype(np.float32) for dims in ((8, 16), (12, 16)))
    args = [np.array([5, 3], np.int32), a, b]
    (ball,) = reference(call(text, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]"), args)
    np.testing.assert_allclose(ball.mid, 3 * (a.astype(np.float64) @ b.T.astype(np.float64)), rtol=1e-12)
    crooked = text.replace("affine_map<(d0, d1, d2) -> (d0, d2)>}", "affine_map<(d0, d1, d2) -> (d0 + 1, d2)>}")
    with pytest.raises(Unsupported, match="tpu_custom_call: the map affine_map"):
        reference(call(crooked, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]"), args)
    minimum = text.replace("kind<add>", "kind<minimumf>")
    with pytest.raises(Unsupported, match=r"tpu_custom_call: vector\.contract"):
        reference(call(minimum, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]"), args)


def test_loops_and_scalars():
    x = np.array([3, -1, 4, -1, -5, 9, 2, -6], np.int32)
    total, negative = reference(call(SCALARS, "(s32[8], s32[1])", "s32[8]"), [x])
    np.testing.assert_array_equal(total.mid, np.cumsum(x))
    assert negative.mid.tolist() == [4]


def test_what_steers_a_kernel_may_be_open():
    """Where rounding decides a bound of the grid, nothing of the result is known."""
    dynamic = MATMUL.replace("array<i64: 2, 3, 2>", "array<i64: 2, -9223372036854775808, 2>")
    open_ = """  f = f32[1] convert(p0)
  k = f32[] constant(0.7)
  w = f32[1] broadcast(k), dimensions={}
  g = f32[1] multiply(f, w)
  n = s32[1] convert(g)"""
    text = call(dynamic, "f32[8,12]", "s32[1]", "s32[2]", "f32[8,16]", "f32[12,16]", before=open_)
    text = text.replace("custom-call(p0,", "custom-call(n,")
    ones = np.ones((8, 16), np.float32), np.ones((12, 16), np.float32)
    (ball,) = reference(text, [np.array([10], np.int32), np.array([5, 3], np.int32), *ones])
    assert ball.und.all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("arith.mulf", "arith.mystery", "the operation arith.mystery"),
        ("cmpi eq, %arg2, %c0_i32", "cmpi ult, %arg2, %c0_i32", "arith.cmpi ult"),
        ("transform_indices = @a,", "transform_indices = @a, window_kind = 3,", "windows with window_kind"),
        ("array<i64: 2, 3, 2>", "array<i64: 200, 300, 200>", "a grid of 12000000 steps"),
        ("array<i64: 2, 3, 2>", "array<i64: 3, 3, 2>", "a window outside its array"),
        ("[0, 0, 1, 0], []", "[1, 0, 0, 0], []", "tpu.matmul"),
        ("transpose_lhs_hint = false", "transpose_lhs = true", "tpu.matmul"),
        ("module {", "ML", "a body that is no text"),
        ("    return\n  }\n", "", "a body that is cut short"),
    ],
)
def test_what_is_not_modelled_is_said(old, new, said):
    assert old in MATMUL
    args = [np.array([5, 3], np.int32), np.ones((8, 16), np.float32), np.ones((12, 16), np.float32)]
    text = call(MATMUL.replace(old, new, 1), "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    with pytest.raises(Unsupported, match=f"tpu_custom_call: .*{said}"):
        reference(text, args)


def test_a_body_in_bytecode_is_refused():
    text = call(MATMUL, "f32[8,12]", "s32[2]", "f32[8,16]", "f32[12,16]")
    binary = base64.b64encode(b"ML\xefR\x0d\xff").decode()
    start = text.index('"body": "') + len('"body": "')
    text = text[:start] + binary + text[text.index('"', start) :]
    args = [np.array([5, 3], np.int32), np.ones((8, 16), np.float32), np.ones((12, 16), np.float32)]
    with pytest.raises(Unsupported, match="tpu_custom_call: a body that is no text"):
        reference(text, args)
