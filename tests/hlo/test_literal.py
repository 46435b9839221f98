"""Literals to arrays and back, with jaxlib as the judge of what text means."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import HloTypeError
from assay.hlo.literal import Literal, literal_array, literal_from_array, tuple_literals, with_negative_zeros
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import DTYPES, ArrayShape, TupleShape
from assay.hlo.shape_text import parse_shape

HELD = [t for t in DTYPES.values() if t.numpy is not None]


def array_of(shape: str, text: str) -> np.ndarray[Any, Any]:
    parsed = parse_shape(shape)
    assert isinstance(parsed, ArrayShape)
    return literal_array(parsed, Literal(text))


def bits_of(array: np.ndarray[Any, Any]) -> list[int]:
    found: list[int] = array.view(f"u{array.dtype.itemsize}").tolist()
    return found


@pytest.mark.parametrize(
    ("shape", "text", "bits"),
    [
        ("f32[]", "1.5", 0x3FC00000),
        ("f32[4]", "{nan, -nan, nan(0x1), -nan(0x400001)}", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFC00001]),
        ("f32[3]", "{inf, -inf, -0}", [0x7F800000, 0xFF800000, 0x80000000]),
        ("f32[2]", "{1e-45, 0.1}", [1, 0x3DCCCCCD]),
        ("bf16[2]", "{nan(0x41), 3}", [0x7FC1, 0x4040]),
        ("f16[2]", "{65504, 5.96e-08}", [0x7BFF, 1]),
        ("f8e4m3fn[3]", "{nan, 448, -nan}", [0x7F, 0x7E, 0xFF]),
        ("f8e5m2[3]", "{nan(0x1), inf, -nan}", [0x7D, 0x7C, 0xFE]),
        ("f8e4m3fnuz[2]", "{nan, 240}", [0x80, 0x7F]),
        ("f8e8m0fnu[2]", "{1, nan}", [127, 255]),
        ("u64[2]", "{18446744073709551615, 9007199254740993}", [2**64 - 1, 2**53 + 1]),
        ("s64[1]", "{-9223372036854775808}", [2**63]),
        ("s8[2]", "{-128, 127}", [0x80, 0x7F]),
        ("pred[3]", "{true, 0, 1}", [1, 0, 1]),
    ],
)
def test_bits(shape: str, text: str, bits: Any) -> None:
    assert bits_of(array_of(shape, text)) == bits


def test_shapes_and_marks() -> None:
    array = array_of("s32[2,1,2]", "{ { /*i0=0*/ { 1, 2 } }, { /*i0=1*/ { 3, -4 } } }")
    assert array.tolist() == [[[1, 2]], [[3, -4]]]
    assert array_of("f32[0,2]", "{  }").shape == (0, 2)
    assert array_of("f32[2,0]", "{ {}, {} }").shape == (2, 0)
    assert array_of("s4[3]", "{-8, 0, 7}").astype(int).tolist() == [-8, 0, 7]
    assert array_of("c64[2]", "{(1, -2), (0.5, inf)}").tolist() == [1 - 2j, complex(0.5, float("inf"))]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[2]", "{1e39, 2}"),
        ("f8e4m3fn[]", "1000"),
        ("s8[]", "200"),
        ("u8[]", "-1"),
        ("s64[]", "9223372036854775808"),
        ("u64[]", "18446744073709551616"),
        ("pred[]", "2"),
        ("s32[]", "1.5"),
        ("f32[2]", "{1 2}"),
        ("f32[3]", "{1, 2}"),
        ("f32[]", "abc"),
        ("f32[]", "1, 2"),
        ("f32[3]", "{...}"),
        ("f32[0]", "{3}"),
    ],
)
def test_what_is_no_literal(shape: str, text: str) -> None:
    with pytest.raises(HloTypeError) as error:
        array_of(shape, text)
    assert "\n" not in str(error.value)


def test_tuples() -> None:
    shape = parse_shape("(f32[], (s32[2], pred[]))")
    assert isinstance(shape, TupleShape)
    first, second = tuple_literals(shape, Literal("( 1, ( {1, 2}, true ) )"))
    assert (first.text, second.text) == ("1", "( {1, 2}, true )")
    with pytest.raises(HloTypeError):
        tuple_literals(shape, Literal("( 1 )"))


@st.composite
def arrays(draw: st.DrawFn) -> tuple[ArrayShape, np.ndarray[Any, Any]]:
    """Arrays of any bit pattern."""
    dtype = draw(st.sampled_from(HELD))
    dims = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = int(np.prod(dims))
    assert dtype.numpy is not None
    width = dtype.numpy.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size * width, max_size=size * width)), np.uint8).copy()
    if dtype.kind == "pred":
        raw &= 1
    elif dtype.bits < 8:
        small = raw & ((1 << dtype.bits) - 1)
        if dtype.kind == "signed":
            half = 1 << (dtype.bits - 1)
            return ArrayShape(dtype, dims), (small.astype(np.int8) % half - half // 2).astype(dtype.numpy).reshape(dims)
        raw = small
    return ArrayShape(dtype, dims), raw.view(dtype.numpy).reshape(dims)


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_an_array_comes_back_bit_by_bit(drawn: tuple[ArrayShape, np.ndarray[Any, Any]]) -> None:
    shape, array = drawn
    again = literal_array(shape, literal_from_array(shape, array))
    assert again.tobytes() == array.tobytes()


@settings(max_examples=150, deadline=None)
@given(arrays())
def test_jaxlib_reads_the_same_bits(drawn: tuple[ArrayShape, np.ndarray[Any, Any]]) -> None:
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    shape, array = drawn
    if shape.dtype.is_complex and np.isnan(array).any():
        return  # XLA's parser makes both parts NaN where one is
    if shape.dtype.name == "f8e8m0fnu" and (array.view(np.uint8) == 0).any():
        return  # jaxlib 0.12.0.1 reads 2**-127, which is subnormal in f32, as 2**-126
    dims = ",".join(map(str, shape.dims))
    text = f"HloModule m\n\nENTRY %e () -> {shape.dtype}[{dims}] {{\n  ROOT %c = {shape.dtype}[{dims}] "
    text += f"constant({literal_from_array(shape, array).text})\n}}\n"
    try:
        module = hlo.hlo_module_from_text(text)
    except RuntimeError as error:
        if "expects opcode" in str(error) or "shape" in str(error):
            return  # an older jaxlib without this element type
        raise
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    printed = parse_module(module.to_string(options)).entry.root
    assert printed.literal is not None
    assert literal_array(shape, printed.literal).tobytes() == array.tobytes()


def test_a_float_is_written_in_the_shortest_digits() -> None:
    shape = parse_shape("f32[3]")
    assert isinstance(shape, ArrayShape)
    text = literal_from_array(shape, np.array([0.1, 1e-10, 1 / 3], np.float32)).text
    assert text == "{ 0.1, 1e-10, 0.33333334 }"


def test_an_array_of_another_shape_is_refused() -> None:
    shape = parse_shape("f32[3]")
    assert isinstance(shape, ArrayShape)
    with pytest.raises(HloTypeError):
        literal_from_array(shape, np.zeros(2, np.float32))
    with pytest.raises(HloTypeError):
        literal_from_array(shape, np.zeros(3, np.float64))


def test_a_compiler_is_given_the_sign_of_zero() -> None:
    # jaxlib 0.12.0.1: `constant(-0)` is read as the integer 0, `constant(-0.0)` keeps its sign.
    assert (
        with_negative_zeros(Literal("{-0, -0.5, -0e0, 1e-05, (-0, 0)}")).text == "{-0.0, -0.5, -0e0, 1e-05, (-0.0, 0)}"
    )
    text = "HloModule m\n\nENTRY %e () -> f32[2] {\n  ROOT %c = f32[2]{0} constant({-0, 1})\n}\n\n"
    assert "constant({-0.0, 1})" in print_for_compiler(parse_module(text))
    integers = re.sub("f32", "s32", text)
    assert print_for_compiler(parse_module(integers)) == integers


def test_a_million_elements_are_read_at_once() -> None:
    shape = ArrayShape(DTYPES["f32"], (1000, 1000))
    literal = Literal("{ " + ", ".join(["{ " + ", ".join(["0.125"] * 1000) + " }"] * 1000) + " }")
    start = time.process_time()
    array = literal_array(shape, literal)
    assert time.process_time() - start < 2
    assert float(array.sum(dtype=np.float64)) == 125000
