"""Shapes from text and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.hlo.printer import print_shape
from assay.hlo.scan import Fault
from assay.hlo.shape import (
    DTYPES,
    ArrayShape,
    BufferShape,
    Layout,
    OpaqueShape,
    Shape,
    Tile,
    TokenShape,
    TupleShape,
    byte_size,
    leaves,
    padded_byte_size,
)
from assay.hlo.shape_text import parse_shape


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "f32[]{:T(128)}",
        "u32[]{:S(2)}",
        "bf16[2,4]{1,0:T(8,128)(2,1)S(1)}",
        "f32[<=8,?]{1,0}",
        "f32[8,128]{1,0:T(8,128)(2,1)L(16)#(u32)*(u16)E(32)S(1)}",
        "f32[8,128]{1,0:T(*,128)SC(0:4)M(8)}",
        "((f32[2]{0}, s32[]), token[], opaque[])",
        "()",
        "b(f32[4]{0})",
        "(f32[1], f32[2], f32[3], f32[4], f32[5], /*index=5*/f32[6])",
        "f4e2m1fn[2]",
        "f6e2m3fn[2]",
        "s1[2]",
    ],
)
def test_known_forms(text: str) -> None:
    assert print_shape(parse_shape(text)) == text


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("f33[2]", 0),
        ("f32[2,x]", 6),
        ("f32[2", 0),
        ("f32[2]{1}", 6),
        ("f32[2]{0:Z(1)}", 9),
        ("(f32[2]", 7),
        ("f32[2]x", 6),
    ],
)
def test_faults_have_their_place(text: str, offset: int) -> None:
    with pytest.raises(Fault) as fault:
        parse_shape(text)
    assert fault.value.offset == offset


def test_parts() -> None:
    shape = parse_shape("f32[<=8,?]{1,0:T(8,128)S(3)}")
    assert isinstance(shape, ArrayShape)
    assert shape.dynamic == (True, True)
    assert shape.layout == Layout((1, 0), (Tile((8, 128)),), 3)
    assert shape.dtype is DTYPES["f32"]


def test_sizes() -> None:
    assert byte_size(parse_shape("(s4[3], f32[2,2], token[])")) == 2 + 16
    assert padded_byte_size(parse_shape("f32[7]{0:T(128)}")) == 512
    assert padded_byte_size(parse_shape("f32[3,5]{1,0:T(8,128)}")) == 4096
    assert padded_byte_size(parse_shape("f32[3,5]{0,1:T(2,4)}")) == 6 * 4 * 4
    assert len(list(leaves(parse_shape("((f32[], s32[]), ())")))) == 2


@st.composite
def array_shapes(draw: st.DrawFn) -> ArrayShape:
    dims = tuple(draw(st.lists(st.integers(0, 300), max_size=4)))
    dynamic = tuple(draw(st.lists(st.booleans(), min_size=len(dims), max_size=len(dims))))
    layout = None
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(range(len(dims)))))
        tile = st.lists(st.one_of(st.integers(1, 128), st.none()), min_size=1, max_size=3).map(lambda d: Tile(tuple(d)))
        tiles = tuple(draw(st.lists(tile, max_size=2)))
        layout = Layout(
            order, tiles, draw(st.integers(0, 5)), tuple(draw(st.sampled_from([(), ("E(4)",), ("L(16)",)])))
        )
    # A scalar's empty layout is not printed, so it does not come back.
    layout = None if layout == Layout(()) else layout
    return ArrayShape(draw(st.sampled_from(list(DTYPES.values()))), dims, layout, dynamic if any(dynamic) else ())


shapes: st.SearchStrategy[Shape] = st.recursive(
    st.one_of(array_shapes(), st.just(TokenShape()), st.just(OpaqueShape()), array_shapes().map(BufferShape)),
    lambda inner: st.lists(inner, max_size=7).map(lambda e: TupleShape(tuple(e))),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_a_shape_comes_back(shape: Shape) -> None:
    assert parse_shape(print_shape(shape)) == shape
