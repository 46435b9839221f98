"""The TPU compiler's custom calls against NumPy. Real snapshots that hold them: test_tpu_snapshots.py."""

from __future__ import annotations

import numpy as np
import pytest
from xla_cpu import outside, reference

from assay.errors import Unsupported


def call(target: str, result: str, **operands: str) -> str:
    parameters = "\n".join(f"  {name} = {shape} parameter({i})" for i, (name, shape) in enumerate(operands.items()))
    arguments = ", ".join(operands)
    return f"""HloModule m
ENTRY e {{
{parameters}
  ROOT r = {result} custom-call({arguments}), custom_call_target="{target}"
}}"""


# ---------------------------------------------------------------- memory


def test_a_buffer_is_undecided_until_it_is_written():
    text = """HloModule m
ENTRY e {
  u = f32[2,4]{1,0:T(2,128)S(1)} parameter(0)
  b = f32[6,4]{1,0:T(8,128)S(1)} custom-call(), custom_call_target="AllocateBuffer"
  z = s32[] constant(0)
  o = s32[] constant(3)
  w = f32[6,4]{1,0:T(8,128)S(1)} dynamic-update-slice(b, u, o, z)
  k = f32[] constant(1)
  ROOT s = f32[6] reduce(w, k), dimensions={1}, to_apply=add
}
""".replace("ENTRY", "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\nENTRY")
    (ball,) = reference(text, [np.arange(8, dtype=np.float32).reshape(2, 4)])
    np.testing.assert_array_equal(ball.und, [True, True, True, False, False, True])
    np.testing.assert_array_equal(ball.mid[3:5], [7, 23])


def sliced(first: str, second: str) -> str:
    return f"""HloModule m
ENTRY e {{
  x = f32[3,4,10]{{0,2,1:T(4,4)}} parameter(0)
  s = ((f32[3,4,10]{{0,2,1:T(4,4)}}), f32[3,2,10]{{0,2,1:T(4,4)S(1)}}, s32[]) slice-start(x), slice={first}
  t = ((f32[3,4,10]{{0,2,1:T(4,4)}}), f32[3,2,10]{{0,2,1:T(4,4)S(1)}}, s32[]) slice-start(x), slice={second}
  a = f32[3,2,10]{{0,2,1:T(4,4)S(1)}} slice-done(s)
  b = f32[3,2,10]{{0,2,1:T(4,4)S(1)}} slice-done(t)
  ROOT r = f32[3,4,10]{{0,2,1:T(4,4)S(1)}} custom-call(a, b), custom_call_target="ConcatBitcast"
}}"""


LOW, HIGH = "{[0:3], [0:2], [0:10]}", "{[0:3], [2:4], [0:10]}"


@pytest.mark.parametrize("order", [(LOW, HIGH), (HIGH, LOW)])
def test_slices_lie_where_they_were_cut_out(order):
    """Whatever the order in which they were copied; that is not the order in memory."""
    x = np.arange(120, dtype=np.float32).reshape(3, 4, 10)
    (ball,) = reference(sliced(*order), [x])
    np.testing.assert_array_equal(ball.mid, x)
    assert ball.exact


def test_what_is_not_all_slices_of_one_array_is_refused():
    x = np.arange(120, dtype=np.float32).reshape(3, 4, 10)
    with pytest.raises(Unsupported, match="ConcatBitcast: of slices that overlap"):
        reference(sliced(LOW, LOW), [x])
    with pytest.raises(Unsupported, match="ConcatBitcast: of other than the slices of one array"):
        reference(
            sliced(LOW, HIGH)
            .replace("slice-start(x), slice={[0:3], [0:2]", "slice-start(y), slice={[0:3], [0:2]", 1)
            .replace("  s =", "  y = f32[3,4,10] negate(x)\n  s =", 1),
            [x],
        )
    parts = [np.ones((3, 2), np.float32)] * 2
    with pytest.raises(Unsupported, match="ConcatBitcast: of other than the slices of one array"):
        reference(call("ConcatBitcast", "f32[6,2]", a="f32[3,2]", b="f32[3,2]"), parts)


def test_bitpacked_indices_are_handed_on():
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    (ball,) = reference(call("GatherScatterIndicesBitpacked", "s32[3,2]", a="s32[3,2]"), [x])
    np.testing.assert_array_equal(ball.mid, x)
    with pytest.raises(Unsupported, match="GatherScatterIndicesBitpacked"):
        reference(call("GatherScatterIndicesBitpacked", "s32[3]", a="s32[3,2]"), [x])


def test_the_largest_of_each_row():
    x = np.random.default_rng(4).integers(-50, 50, (3, 40)).astype(np.int32)
    (ball,) = reference(call("TopKBatchMajorSmallK", "s32[3,5]", a="s32[3,40]"), [x])
    np.testing.assert_array_equal(ball.mid, -np.sort(-x, 1)[:, :5])
    assert ball.exact
    with pytest.raises(Unsupported, match="TopKBatchMajorSmallK"):
        reference(call("TopKBatchMajorSmallK", "f32[3,5]", a="f32[3,40]"), [x.astype(np.float32)])


# ---------------------------------------------------------------- linear algebra


def test_cholesky():
    a = np.random.default_rng(1).standard_normal((2, 5, 5)).astype(np.float32)
    a = a @ a.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32)
    (ball,) = reference(call("Cholesky", "f32[2,5,5]", a="f32[2,5,5]"), [a])
    upper = ~np.tri(5, dtype=bool)
    np.testing.assert_array_equal(ball.und, np.broadcast_to(upper, a.shape))
    assert not outside(ball, np.linalg.cholesky(a.astype(np.float64))).any()
    assert ball.rad[:, ~upper].max() < 1e-4
    (ball,) = reference(call("Cholesky", "f32[2,5,5]", a="f32[2,5,5]"), [-a])
    assert ball.und.all()


@pytest.mark.parametrize("which", ["Lower", "Upper"])
def test_inverses_of_triangular_blocks(which):
    a = np.random.default_rng(2).standard_normal((3, 6, 6)) + 4 * np.eye(6)
    a = (np.tril(a) if which == "Lower" else np.triu(a)).astype(np.float32)
    text = call(f"InvertDiagBlocks{which}Triangular", "f32[3,6,6]{1,2,0}", a="f32[3,6,6]{2,1,0}")
    (ball,) = reference(text, [a])
    truth = np.linalg.inv(a.astype(np.float64))
    assert not outside(ball, truth).any()
    assert not outside(ball, truth.astype(np.float32)).any()
    assert ball.rad.max() < 1e-5
    zero = ~np.tri(6, dtype=bool) if which == "Lower" else ~np.tri(6, dtype=bool).T
    assert not ball.mid[:, zero].any()
    assert not ball.rad[:, zero].any()


def test_an_inverse_that_may_overflow_on_the_way_is_open_with_its_zeros():
    """Substitution multiplies 1 / 1e-30 by 1e20 before 1e-30 brings it back; other blocks are decided."""
    a = np.stack([np.eye(4), np.eye(4)]).astype(np.float32)
    a[0] = [[1e-30, 0, 0, 0], [1e20, 1e15, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(1) / a[0, 0, 0] * a[0, 1, 0])
    (ball,) = reference(call("InvertDiagBlocksLowerTriangular", "f32[2,4,4]", a="f32[2,4,4]"), [a])
    assert ball.und is not None
    assert ball.und[0].all()
    assert not ball.und[1].any()


# ---------------------------------------------------------------- pairs


@pytest.mark.parametrize(("wide", "narrow"), [("u64", "u32"), ("s64", "u32"), ("s64", "s32")])
def test_halves_of_64_bits(wide, narrow):
    kind = {"u": np.uint64, "s": np.int64}[wide[0]]
    x = np.array([0, 1, 2**40 + 5, 2**63 - 1, 3 << 31], np.uint64).astype(kind)
    low, high = (
        reference(call(f"X64Split{half}", f"{narrow}[5]", a=f"{wide}[5]"), [x])[0].mid for half in ("Low", "High")
    )
    view = x.view(np.uint32 if narrow == "u32" else np.int32).reshape(5, 2)
    np.testing.assert_array_equal(low, view[:, 0])
    np.testing.assert_array_equal(high, view[:, 1])
    (back,) = reference(call("X64Combine", f"{wide}[5]", a=f"{narrow}[5]", b=f"{narrow}[5]"), [low, high])
    np.testing.assert_array_equal(back.mid, x)
    assert back.mid.dtype == x.dtype


def test_parts_of_complex_numbers():
    z = np.array([1 + 2j, -3.5 + 0.25j], np.complex64)
    low, high = (reference(call(f"X64Split{half}", "f32[2]", a="c64[2]"), [z])[0].mid for half in ("Low", "High"))
    np.testing.assert_array_equal(low + 1j * high, z)
    (back,) = reference(call("X64Combine", "c64[2]", a="f32[2]", b="f32[2]"), [low, high])
    np.testing.assert_array_equal(back.mid, z)


def test_f64_has_no_halves():
    with pytest.raises(Unsupported, match="X64SplitLow: of f64 to f32"):
        reference(call("X64SplitLow", "f32[2]", a="f64[2]"), [np.ones(2)])
