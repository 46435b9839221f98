"""Where elements lie in memory: layouts with tiles, padding included.

XLA's "Tiled layout" page: the dimensions in the order of `minor_to_major`, slowest first, are the physical ones. A tile
covers the last of them and splits each into (which tile, where in the tile), rounding its size up; all "which" come
before all "where". A further tile does the same to what the tile before it left. A tile of more dimensions than its
array has meets dimensions of size 1 in front (f32[]{:T(128)} takes 128 places). Memory space, `S(1)`, and the other
properties do not move elements.

Invariant: a place is counted in elements, from the start of the buffer; places that no element has are padding, and
nobody knows what lies there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assay.errors import Unsupported
from assay.hlo.shape import ArrayShape, Layout
from assay.reference.value import Array


class Part(NamedTuple):
    """One physical dimension, of size `extent`.

    dimension: the logical one that it is a part of, -1 for one in front. cuts: how its index comes from the logical
    index, `index // by % size` for each (by, size) in turn.
    """

    dimension: int
    extent: int
    cuts: tuple[tuple[int, int], ...] = ()

    def cut(self, by: int, size: int) -> Part:
        return Part(self.dimension, size, (*self.cuts, (by, size)))

    def of(self, logical: Array) -> Array:
        for by, size in self.cuts:
            logical = logical // by % size
        return logical


def slowest_first(shape: ArrayShape) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory."""
    layout = shape.layout or Layout(tuple(reversed(range(shape.rank))))
    return tuple(reversed(layout.minor_to_major))


@lru_cache(maxsize=4096)
def physical_dimensions(shape: ArrayShape) -> tuple[Part, ...]:
    """The physical dimensions, slowest first. Raises Unsupported for a tile that joins dimensions, `*`."""
    parts = [Part(d, shape.dims[d]) for d in slowest_first(shape)]
    for tile in shape.layout.tiles if shape.layout is not None else ():
        if None in tile.dims:
            raise Unsupported("bitcast", "a tile that joins dimensions")
        sizes = [int(t or 1) for t in tile.dims]
        parts = [Part(-1, 1)] * (len(sizes) - len(parts)) + parts
        kept, covered = parts[: len(parts) - len(sizes)], parts[len(parts) - len(sizes) :]
        which = [part.cut(t, -(-part.extent // t)) for part, t in zip(covered, sizes, strict=True)]
        within = [part.cut(1, t) for part, t in zip(covered, sizes, strict=True)]
        parts = [*kept, *which, *within]
    return tuple(parts)


def places_held(shape: ArrayShape) -> int:
    """How many places the array takes, padding included."""
    return math.prod(part.extent for part in physical_dimensions(shape))


def memory_places(shape: ArrayShape) -> Array:
    """For each element its place. (dims)"""
    places = np.zeros(shape.dims, np.int64)
    stride = 1
    for part in reversed(physical_dimensions(shape)):
        d = part.dimension
        if d >= 0:
            view = [1] * shape.rank
            view[d] = shape.dims[d]
            places += (part.of(np.arange(shape.dims[d])) * stride).reshape(view)
        stride *= part.extent
    return places


def byte_places(shape: ArrayShape) -> Array:
    """For each byte of each element its place in bytes. (dims, bytes of an element)"""
    width = shape.dtype.bits // 8
    return memory_places(shape)[..., None] * width + np.arange(width)


_FAR = 1 << 18  # elements from which on a list of places is not kept


class Route(NamedTuple):
    """How the elements of one array are found in another that shares its memory.

    order: a transposition of the operand after which the elements follow one another as those of the result do, read
    from the slowest dimension to the fastest (then `take` is None). take: else the operand's element for each of the
    result's, -1 for padding; None where it is worked out anew each time.
    """

    order: tuple[int, ...] | None
    take: Array | None = None


@lru_cache(maxsize=1024)
def _route(source: ArrayShape, target: ArrayShape) -> Route:
    if source.size == target.size:
        straight = np.arange(source.size).reshape(source.dims).transpose(slowest_first(source)).ravel()
        out = slowest_first(target)
        expected = straight.reshape([target.dims[d] for d in out]).transpose(np.argsort(out)).ravel()
        if not is_tiled(source) and not is_tiled(target):
            return Route(slowest_first(source))
        take = _taken(source, target)
        if np.array_equal(take, expected):
            return Route(slowest_first(source))
    else:
        take = _taken(source, target)
    return Route(None, take if take.size <= _FAR else None)


def _taken(source: ArrayShape, target: ArrayShape) -> Array:
    return elements_at([memory_places(source)], memory_places(target))


def route(source: ArrayShape, target: ArrayShape) -> Route:
    """The way from `source` to `target`, arrays of one width of element in the same memory. `take`, where it is the
    way, is never None.
    """
    found = _route(_plain(source), _plain(target))
    if found.order is None and found.take is None:
        return Route(None, _taken(source, target))
    return found


def _plain(shape: ArrayShape) -> ArrayShape:
    """The shape without what does not move elements, so that more of them are alike."""
    layout = shape.layout
    if layout is None:
        return shape
    return ArrayShape(shape.dtype, shape.dims, Layout(layout.minor_to_major, layout.tiles))


def is_tiled(shape: ArrayShape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles)


def elements_at(held: Iterable[Array], wanted: Array) -> Array:
    """For each wanted place the number of the element that lies there, counted through the arrays of places `held`;
    -1 where none does. (wanted.size)
    """
    flat = [places.ravel() for places in held]
    held_places: Array = flat[0] if len(flat) == 1 else np.concatenate(flat)
    end = 1 + max(int(held_places.max(initial=-1)), int(wanted.max(initial=-1)))
    table = np.full(end, -1)
    table[held_places] = np.arange(held_places.size)
    return np.asarray(table[wanted.ravel()])
