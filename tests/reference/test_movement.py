"""Movement of elements: NumPy and XLA:CPU as truth, radius and doubt moving with their elements."""

from __future__ import annotations

from dataclasses import replace

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.errors import Unsupported
from assay.hlo.module import Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES, ArrayShape
from assay.reference.context import Context
from assay.reference.evaluator import evaluate
from assay.reference.registry import find
from assay.reference.value import Ball, from_array

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def apply(opcode: str, shape: ArrayShape, *operands: Ball, **attributes: str) -> Ball:
    context = Context(Module("m", (), "e"), POLICY, lambda name, arguments: arguments[0])
    return find(opcode)(context, Instruction("r", opcode, shape, attributes=attributes), *operands)


def f32(*dims: int) -> ArrayShape:
    return ArrayShape(DTYPES["f32"], dims)


def stamped(*dims: int) -> Ball:
    """A ball whose midpoint, radius and doubt all tell where each element came from."""
    flat = np.arange(np.prod(dims, dtype=int), dtype=np.float64)
    return Ball(DTYPES["f32"], flat.reshape(dims), (flat + 0.5).reshape(dims), (flat % 3 == 0).reshape(dims))


def assert_moved(result: Ball, move) -> None:
    source = result.mid
    np.testing.assert_array_equal(result.rad, source + 0.5)
    np.testing.assert_array_equal(result.und, source % 3 == 0)
    np.testing.assert_array_equal(source, move)


# ---------------------------------------------------------------- shape


def test_broadcast():
    a = stamped(2, 3)
    result = apply("broadcast", f32(4, 2, 5, 3), a, dimensions="{1,3}")
    assert_moved(result, np.broadcast_to(a.mid[None, :, None, :], (4, 2, 5, 3)))
    swapped = apply("broadcast", f32(3, 4, 2), a, dimensions="{2,0}")
    assert_moved(swapped, np.broadcast_to(a.mid.T[:, None, :], (3, 4, 2)))


def test_broadcast_of_a_scalar_is_a_view():
    result = apply("broadcast", f32(1000, 1000), from_array(DTYPES["f32"], np.float32(2)), dimensions="{}")
    assert result.mid.strides == (0, 0)


def test_transpose_reverse_reshape():
    a = stamped(2, 3, 4)
    assert_moved(apply("transpose", f32(4, 2, 3), a, dimensions="{2,0,1}"), a.mid.transpose(2, 0, 1))
    assert_moved(apply("reverse", f32(2, 3, 4), a, dimensions="{0,2}"), a.mid[::-1, :, ::-1])
    assert_moved(apply("reverse", f32(2, 3, 4), a, dimensions="{}"), a.mid)
    assert_moved(apply("reshape", f32(4, 6), a), a.mid.reshape(4, 6))


def test_concatenate_fills_in_missing_radii():
    exact = from_array(DTYPES["f32"], np.full((2, 2), 9.0))
    result = apply("concatenate", f32(2, 5), stamped(2, 3), exact, dimensions="{1}")
    assert result.rad[:, 3:].max() == 0
    assert not result.und[:, 3:].any()
    np.testing.assert_array_equal(result.rad[:, :3], stamped(2, 3).rad)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, bool, np.complex64, ml_dtypes.bfloat16])
def test_movement_agrees_with_xla(dtype):
    x = (np.arange(24) % 7).astype(dtype).reshape(2, 3, 4)

    def program(x):
        y = jnp.concatenate([x, jnp.flip(x, (0, 2))], 1).transpose(2, 0, 1)
        return y.reshape(4, 12), jnp.broadcast_to(y[:1], (3, 2, 6)), y[::2, :, 1:]

    assert_agree(program, x)


# ---------------------------------------------------------------- pad


@st.composite
def paddings(draw):
    rank = draw(st.integers(1, 3))
    dims, config, shape = [], [], []
    for _ in range(rank):
        size, interior = draw(st.integers(0, 4)), draw(st.integers(0, 2))
        inner = size + max(size - 1, 0) * interior
        low = draw(st.integers(-inner - 1, 3))
        high = draw(st.integers(max(-inner - 1, -(inner + low)), 3))
        dims.append(size)
        config.append((low, high, interior))
        shape.append(inner + low + high)
    return dims, config, shape


def plain_pad(x, value, config, shape):
    result = np.full(shape, value, x.dtype)
    for at in np.ndindex(*x.shape):
        place = tuple(low + i * (interior + 1) for i, (low, _, interior) in zip(at, config, strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            result[place] = x[at]
    return result


def pad_text(dims, config, shape):
    padding = "x".join(f"{low}_{high}_{interior}" for low, high, interior in config)
    return f"""HloModule m
ENTRY e {{
  p = s32[{",".join(map(str, dims))}] parameter(0)
  v = s32[] parameter(1)
  ROOT r = s32[{",".join(map(str, shape))}] pad(p, v), padding={padding}
}}"""


@MANY
@given(paddings())
def test_pad_is_its_definition(case):
    dims, config, shape = case
    x = np.arange(1, np.prod(dims) + 1, dtype=np.int32).reshape(dims)
    (ball,) = reference(pad_text(*case), [x, np.int32(-7)])
    np.testing.assert_array_equal(ball.mid, plain_pad(x, -7, config, shape))


@QUICK
@given(paddings())
def test_pad_agrees_with_xla(case):
    x = np.arange(1, np.prod(case[0]) + 1, dtype=np.int32).reshape(case[0])
    assert_hlo_agrees(pad_text(*case), x, np.int32(-7))


def test_pad_carries_the_radius_of_both():
    value = Ball(DTYPES["f32"], np.asarray(8.0), np.asarray(0.25), None)
    result = apply("pad", f32(5), stamped(2), value, padding="1_1_1")
    np.testing.assert_array_equal(result.rad, [0.25, 0.5, 0.25, 1.5, 0.25])
    np.testing.assert_array_equal(result.und, [False, True, False, False, False])


# ---------------------------------------------------------------- iota


@pytest.mark.parametrize(
    "dtype", ["s8", "u8", "s16", "s32", "u32", "s64", "f16", "bf16", "f32", "f64", "c64", "s4", "u4"]
)
def test_iota_is_xlas(dtype):
    text = f"""HloModule m
ENTRY e {{
  ROOT r = {dtype}[2,300] iota(), iota_dimension=1
}}"""
    (ball,) = assert_hlo_agrees(text)
    if dtype == "s8":
        assert ball.mid[0, 128] == -128
    if dtype == "bf16":
        assert outside(ball, ball.mid + (np.arange(300) == 257) * 2).any()


@pytest.mark.parametrize("dtype", ["f64", "c128", "f32", "c64"])
def test_every_index_is_exact_where_the_type_holds_it(dtype):
    """A float64 counter decides a branch: with a radius it would not."""
    (got,) = reference(f"HloModule m\nENTRY e {{\n  ROOT r = {dtype}[4] iota(), iota_dimension=0\n}}\n", [])
    assert got.exact
    assert got.mid.tolist() == [0, 1, 2, 3]


# ---------------------------------------------------------------- bitcast


def test_bitcast_follows_layouts():
    text = """HloModule m
ENTRY e {
  p = f32[4,3]{1,0} parameter(0)
  t = f32[3,4]{0,1} transpose(p), dimensions={1,0}
  b = f32[4,3]{1,0} bitcast(t)
  c = f32[3,4]{1,0} copy(t)
  d = f32[2,6]{0,1} bitcast(c)
  ROOT r = (f32[4,3]{1,0}, f32[2,6]{0,1}) tuple(b, d)
}"""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    b, d = reference(text, [x])
    np.testing.assert_array_equal(b.mid, x)
    np.testing.assert_array_equal(d.mid, x.T.reshape(6, 2).T)


def test_optimized_modules_mean_the_same():
    """XLA:CPU's own bitcasts, fusions and copies, in modules it made of random movement."""

    def program(x):
        y = x.transpose(2, 0, 1).reshape(4, 6)
        return jnp.cumsum(y, 1).T.reshape(3, 2, 4).transpose(0, 2, 1) + 1, (y @ y.T).transpose(1, 0)[::-1]

    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    optimized = jax.jit(program).lower(x).compile().as_text()
    assert "bitcast" in optimized
    for ball, got in zip(reference(optimized, [x]), jax.jit(program)(x), strict=True):
        assert not outside(ball, got).any()


def test_bitcast_to_more_bytes_is_not_guessed():
    text = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  ROOT b = f64[2] bitcast(p)
}"""
    with pytest.raises(Unsupported, match="bitcast: from f32 to f64"):
        reference(text, [np.zeros(2, np.float32)])


# ---------------------------------------------------------------- copies, annotations, sizes


def test_copies_and_annotations():
    text = """HloModule m
ENTRY e {
  p = f32[2,3] parameter(0)
  s = (f32[2,3]{0,1}, f32[2,3]{1,0}, u32[]) copy-start(p)
  d = f32[2,3]{0,1} copy-done(s)
  a = f32[2,3] custom-call(d), custom_call_target="Sharding", sharding={replicated}
  b = f32[2,3] custom-call(a), custom_call_target="annotate_device_placement"
  ROOT c = f32[2,3] copy(b)
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(reference(text, [x])[0].mid, x)


def test_sizes_of_dimensions():
    text = """HloModule m
ENTRY e {
  p = f32[2,3] parameter(0)
  n = s32[] get-dimension-size(p), dimensions={1}
  q = f32[2,<=3] set-dimension-size(p, n), dimensions={1}
  ROOT r = (s32[], f32[2,<=3]) tuple(n, q)
}"""
    n, q = reference(text, [np.ones((2, 3), np.float32)])
    assert int(n.mid) == 3
    assert q.dims == (2, 3)
    short = text.replace("set-dimension-size(p, n)", "set-dimension-size(p, m)").replace(
        "  q =", "  m = s32[] constant(2)\n  q ="
    )
    with pytest.raises(Unsupported, match="set-dimension-size"):
        reference(short, [np.ones((2, 3), np.float32)])


def test_annotations_of_jax():
    assert_agree(lambda x: lax.optimization_barrier(x) + 1, np.arange(5, dtype=np.float32))
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    text = hlo_text(lambda x: jax.device_put(x, sharding) * 2, np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(reference(text, [np.arange(3, dtype=np.float32)])[0].mid, [0, 2, 4])


@pytest.mark.parametrize(
    ("source", "target", "x"),
    [
        ("f32[2,3]{1,0}", "u8[24]{0}", np.arange(6, dtype=np.float32).reshape(2, 3) / 3),
        ("f32[2,3]{0,1}", "u8[4,6]{0,1}", np.arange(6, dtype=np.float32).reshape(2, 3) / 3),
        ("s16[4,3]{1,0}", "s64[3]{0}", np.arange(12, dtype=np.int16).reshape(4, 3) * 999),
        ("u32[6]{0}", "f64[3]{0}", np.arange(1, 7, dtype=np.uint32)),
        ("c64[3]{0}", "u32[3,2]{1,0}", np.arange(3).astype(np.complex64) + 1j),
    ],
)
def test_bitcasts_to_another_width(source, target, x):
    """The bytes in memory stay: the operand's layout is the order of its bytes."""
    text = f"HloModule m\n\nENTRY e {{\n  p = {source} parameter(0)\n  ROOT r = {target} bitcast(p)\n}}\n"
    (ball,) = reference(text, [x])
    result = parse_module(text).entry.root.array
    stored = np.asarray(x, order="F" if "{0,1}" in source else "C").tobytes("A")
    want = np.frombuffer(stored, result.dtype.numpy)
    order = "F" if "{0,1}" in target else "C"
    np.testing.assert_array_equal(ball.mid, want.reshape(result.dims, order=order))


@pytest.mark.parametrize(
    "last",
    [
        "bf16[2,3]{0,1:T(8,128)(2,1)} copy(p)",
        "bf16[2,3]{1,0:T(8,128)(2,1)} slice(p), slice={[0:2], [0:3]}",
        "bf16[2,3]{1,0:T(8,128)(2,1)} dynamic-slice(p, i, i), dynamic_slice_sizes={2,3}",
        "bf16[2,3]{1,0:T(8,128)(2,1)} transpose(p), dimensions={0,1}",
    ],
)
def test_what_moves_elements_to_another_type_converts_them(last: str) -> None:
    """As libtpu writes them: f32 in, bf16 out."""
    module = parse_module(f"""
HloModule m

ENTRY e {{
  p = f32[2,3]{{1,0:T(8,128)}} parameter(0)
  i = s32[]{{:T(128)}} constant(0)
  ROOT c = {last}
}}
""")
    a = (np.arange(6, dtype=np.float32).reshape(2, 3) + 1) / 3
    found = evaluate(module, [a], replace(POLICY, excess_precision=False)).value
    assert isinstance(found, Ball)
    assert found.dtype.name == "bf16"
    assert (found.mid == a.astype(ml_dtypes.bfloat16).astype(np.float64)).all()


def test_a_reduction_of_pairs_to_another_type_converts_its_parts() -> None:
    """As libtpu writes an argmin of f32 whose smallest value is used as bf16."""
    module = parse_module("""
HloModule m

r {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  less = pred[] compare(a, b), direction=LE
  x = f32[] select(less, a, b)
  k = s32[] select(less, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k)
}

ENTRY e {
  p = f32[3]{0:T(128)} parameter(0)
  i = s32[3]{0:T(128)} iota(), iota_dimension=0
  top = f32[] constant(inf)
  none = s32[] constant(0)
  ROOT m = (bf16[]{:T(256)}, s32[]{:T(128)}) reduce(p, i, top, none), dimensions={0}, to_apply=r
}
""")
    found = evaluate(module, [np.array([3.3, 1.1, 2.2], np.float32)], replace(POLICY, excess_precision=False)).value
    assert isinstance(found, tuple)
    least, index = found
    assert isinstance(least, Ball)
    assert isinstance(index, Ball)
    assert (least.dtype.name, float(least.mid), int(index.mid)) == ("bf16", float(ml_dtypes.bfloat16(1.1)), 1)
