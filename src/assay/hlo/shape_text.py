"""Shapes from XLA's text: `f32[8,<=128]{1,0:T(8,128)S(1)}`, tuples, `token[]`, `opaque[]`, `b(f32[4])`.

The grammar is that of XLA's shape and layout printers (shape_util.cc, layout.cc).
"""

from __future__ import annotations

import re
from functools import lru_cache

from assay.hlo.scan import SPACE, Fault, inside
from assay.hlo.shape import (
    DTYPES,
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    OpaqueShape,
    Shape,
    Tile,
    TokenShape,
    TupleShape,
)

_HEAD = re.compile(r"([a-z]\w*+)\[([^\[\]]*+)\]")
_LAYOUT = re.compile(r"\{([\d\s,]*+)(?::([^{}]*+))?+\}")
_PROPERTY = re.compile(r"([A-Z]{1,2}|#|\*)((?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\))++)")
_GROUP = re.compile(r"\(([^()]*+)\)")
_SIZE = re.compile(r"\s*+(<=)?+\s*+(\d++|\?)\s*+\Z")


@lru_cache(maxsize=16384)
def shape_or_none(text: str) -> Shape | None:
    """The shape that the whole of `text` spells, None where it is not understood."""
    try:
        return parse_shape(text)
    except Fault:
        return None


def parse_shape(text: str) -> Shape:
    """The shape that the whole of `text` spells. Raises Fault at the offset that is not understood."""
    shape, end = shape_at(text, 0)
    end = _skip(text, end)
    if end != len(text):
        raise Fault(end, f"`{text[end : end + 40]}` after the end of the shape")
    return shape


def shape_at(text: str, offset: int) -> tuple[Shape, int]:
    """The shape that begins at `offset` and the offset just after it. Raises Fault."""
    offset = _skip(text, offset)
    if text.startswith("(", offset):
        return _tuple_at(text, offset)
    if text.startswith("b(", offset):
        array, end = shape_at(text, offset + 2)
        end = _skip(text, end)
        if not isinstance(array, ArrayShape) or not text.startswith(")", end):
            raise Fault(offset, "a buffer holds one array: b(f32[4])")
        return BufferShape(array), end + 1
    match = _HEAD.match(text, offset)
    if match is None:
        raise Fault(offset, f"expected a shape, there is `{text[offset : offset + 40].split(chr(10))[0]}`")
    name, sizes = match.groups()
    end = match.end()
    if name in ("token", "opaque"):
        return (TokenShape() if name == "token" else OpaqueShape()), end
    dtype = DTYPES.get(name)
    if dtype is None:
        raise Fault(offset, f"unknown element type `{name}`")
    dims, dynamic = _dims(sizes, match.start(2))
    layout, end = _layout_at(text, end, len(dims))
    return ArrayShape(dtype, dims, layout, dynamic), end


def entry_shapes(text: str) -> list[Shape]:
    """`{(f32[2]{0}, s32[])->f32[2]{0}}` -> its shapes, the result last. Raises Fault."""
    body = inside(text)
    parameters, end = shape_at(body, 0)  # the parameters are spelled like a tuple
    arrow = body.find("->", end)
    if arrow < 0:
        raise Fault(end, "expected `->` after the parameters")
    result, _ = shape_at(body, arrow + 2)
    return [*(parameters.elements if isinstance(parameters, TupleShape) else (parameters,)), result]


def _skip(text: str, offset: int) -> int:
    match = SPACE.match(text, offset)
    return match.end() if match else offset


def _tuple_at(text: str, offset: int) -> tuple[Shape, int]:
    elements: list[Shape] = []
    end = _skip(text, offset + 1)
    if text.startswith(")", end):
        return TupleShape(()), end + 1
    while True:
        element, end = shape_at(text, end)
        elements.append(element)
        end = _skip(text, end)
        if text.startswith(",", end):
            end += 1
        elif text.startswith(")", end):
            return TupleShape(tuple(elements)), end + 1
        else:
            raise Fault(end, "expected `,` or `)` in a tuple shape")


def _dims(text: str, offset: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    if not text or text.isspace():
        return (), ()
    if "<" not in text and "?" not in text:
        try:
            return tuple(map(int, text.split(","))), ()
        except ValueError:
            pass  # reported below, with its place
    dims: list[int] = []
    dynamic: list[bool] = []
    for part in text.split(","):
        match = _SIZE.match(part)
        if match is None:
            raise Fault(offset, f"expected a dimension, there is `{part.strip()}`")
        bound, size = match.groups()
        dims.append(UNBOUNDED if size == "?" else int(size))
        dynamic.append(bound is not None or size == "?")
        offset += len(part) + 1
    return tuple(dims), tuple(dynamic) if any(dynamic) else ()


def _layout_at(text: str, offset: int, rank: int) -> tuple[Layout | None, int]:
    if not text.startswith("{", offset):
        return None, offset
    match = _LAYOUT.match(text, offset)
    if match is None:
        raise Fault(offset, "expected a layout, such as {1,0:T(8,128)}")
    try:
        return _layout(match.group(), rank), match.end()
    except Fault as fault:
        raise Fault(offset + fault.offset, fault.message) from None


@lru_cache(maxsize=4096)
def _layout(text: str, rank: int) -> Layout:
    match = _LAYOUT.match(text)
    assert match is not None
    order, properties = match.groups()
    minor_to_major = tuple(int(d) for d in order.split(",")) if order.strip() else ()
    if sorted(minor_to_major) != list(range(rank)):
        raise Fault(0, f"the layout's dimensions {{{order}}} are not those of a rank {rank} array")
    tiles: tuple[Tile, ...] = ()
    space = 0
    extra: list[str] = []
    at = match.start(2)
    while properties and at < match.end(2):
        found = _PROPERTY.match(text, at, match.end(2))
        if found is None:
            raise Fault(at, f"unknown layout property `{text[at : match.end(2)]}`")
        key, value = found.groups()
        if key == "T":
            tiles = tuple(_tile(group, at) for group in _GROUP.findall(value))
        elif key == "S":
            space = _integer(value[1:-1], at)
        elif key in _CARRIED:
            extra.append(found.group())
        else:
            raise Fault(at, f"unknown layout property `{key}`")
        at = found.end()
    return Layout(minor_to_major, tiles, space, tuple(extra))


# D: kind of each dimension; L: tail padding; # and *: types of index and pointer; E: bits of an element; SC: split
# configuration; P: physical shape; M: bytes of dynamic shape metadata.
_CARRIED = frozenset(("D", "L", "#", "*", "E", "SC", "P", "M"))


def _tile(text: str, offset: int) -> Tile:
    return Tile(tuple(None if d.strip() == "*" else _integer(d, offset) for d in text.split(",")))


def _integer(text: str, offset: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise Fault(offset, f"expected a number, there is `{text}`") from None
