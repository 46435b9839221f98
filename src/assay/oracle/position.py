"""Where the elements of a mismatch lie, in words.

A region explains a mismatch when it holds every outside element and most of its own elements are outside. Elements
that are not outside only because the wrong value happens to be right there (a zero where zero is due) are `blank`: they
count neither for nor against. Regions are tried from the plainest on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from assay.hlo.shape import DType
from assay.oracle.compare import bounding_box
from assay.reference.value import Array

FILLED = 0.7
"""Share of a region that must be outside."""

LEVELS = (0.995, 0.97, 0.9, FILLED)
"""A region that reaches a level is better than a plainer one that does not."""

LANES = 128
FEW = 8

Box = tuple[tuple[int, int], ...]


def locate(mask: Array, blank: Array | None, dtype: DType) -> str:
    """The region of a non-empty mask: `one row (3)`, `one 8x128 tile at [8, 0]`, `every 4th lane from 1`, ..."""
    count = int(mask.sum())
    box = bounding_box(mask)
    if mask.ndim == 0 or mask.size == 1:
        return "the only element"
    if count == 1:
        return "one element"
    regions = [(words, _filled(mask, blank, region)) for words, region in _regions(mask, box, dtype)]
    regions.append(_flat_run(mask, blank))
    for enough in LEVELS:
        for words, filled in regions:
            if filled >= enough:
                return words
    return (
        _lattice(mask, blank)
        or _tiles(mask, blank, dtype)
        or _slices(mask, blank)
        or _flat_stride(mask, blank)
        or (f"{count} elements" if count <= FEW else "scattered")
    )


def _regions(mask: Array, box: Box, dtype: DType) -> Iterator[tuple[str, Box]]:
    whole = _whole(mask.shape)
    if box == whole:
        yield "everywhere", whole
        return
    single = [d for d in range(mask.ndim) if box[d][0] == box[d][1] and mask.shape[d] > 1]
    if single:
        yield _slice_words(mask.ndim, {d: box[d][0] for d in single}), _with(whole, {d: box[d] for d in single})
    tile = _tile(mask.shape, dtype)
    if tile is not None:
        found = _tile_around(mask.shape, box, tile)
        if found is not None:
            origin = ", ".join(str(low) for low, _ in found)
            yield f"one {tile[0]}x{tile[1]} tile at [{origin}]", found
    partial = [d for d in range(mask.ndim) if box[d] != whole[d]]
    if len(partial) == 1:
        (d,) = partial
        low, high = box[d]
        if high == whole[d][1]:
            yield f"tail from {low} along dimension {d}", _with(whole, {d: box[d]})
        elif low == 0:
            yield f"first {high + 1} along dimension {d}", _with(whole, {d: box[d]})
        else:
            yield f"{low} to {high} along dimension {d}", _with(whole, {d: box[d]})
    yield "block [" + ", ".join(f"{low}:{high + 1}" for low, high in box) + "]", box


def _slice_words(rank: int, fixed: dict[int, int]) -> str:
    if rank == 2 and len(fixed) == 1:
        ((d, index),) = fixed.items()
        return f"one {'row' if d == 0 else 'column'} ({index})"
    return "one slice [" + ", ".join(str(fixed.get(d, ":")) for d in range(rank)) + "]"


def _tile(dims: tuple[int, ...], dtype: DType) -> tuple[int, int] | None:
    """Rows and lanes of a TPU register's tile for this width: 8x128 in 32 bits, twice the rows in half the width."""
    if len(dims) < 2:
        return None
    return 8 * max(1, 32 // max(dtype.part.bits, 8)), LANES


def _tile_around(dims: tuple[int, ...], box: Box, tile: tuple[int, int]) -> Box | None:
    """The whole tile (cut off at the array's edge in the lanes alone) that holds the box, where one does."""
    found = []
    for d, (low, high) in enumerate(box):
        size = (1, *tile)[max(0, d - len(dims) + 3)]
        start = low // size * size
        if high >= start + size:
            return None
        stop = min(start + size, dims[d])
        if d == len(dims) - 2 and stop - start < size:
            return None
        found.append((start, stop - 1))
    return tuple(found)


def _flat_run(mask: Array, blank: Array | None) -> tuple[str, float]:
    """The run of elements in row-major order from the first to the last that is outside, and how far it is filled."""
    flat = mask.reshape(-1)
    where = np.flatnonzero(flat)
    low, high = int(where[0]), int(where[-1])
    run = slice(low, high + 1)
    filled = _share(flat[run], None if blank is None else blank.reshape(-1)[run])
    if high == mask.size - 1:
        return (f"tail from flat index {low}" if low else "everywhere"), filled
    return f"flat indices {low} to {high}", filled


def _lattice(mask: Array, blank: Array | None) -> str | None:
    """Every k-th index along one dimension."""
    for d in reversed(range(mask.ndim)):
        others = tuple(k for k in range(mask.ndim) if k != d)
        there = np.flatnonzero(mask.any(axis=others))
        if there.size < 3:
            continue
        steps = np.diff(there)
        step = int(steps.min())
        if step < 2 or (steps % step).any():
            continue
        low, high = int(there[0]), int(there[-1])
        index = (slice(None),) * d + (slice(low, high + 1, step),)
        if _share(mask[index], None if blank is None else blank[index]) >= FILLED:
            start = f" from {low}" if low else ""
            ordinal = f"{step}{_suffix(step)}"
            return f"every {ordinal} lane{start}" if d == mask.ndim - 1 else f"every {ordinal} of dimension {d}{start}"
    return None


def _tiles(mask: Array, blank: Array | None, dtype: DType) -> str | None:
    """Several whole tiles."""
    tile = _tile(mask.shape, dtype)
    if tile is None:
        return None
    rows, lanes = mask.shape[-2:]
    if rows <= tile[0] and lanes <= tile[1]:
        return None
    hits = _by_tile(mask, tile)
    room = _by_tile(np.ones_like(mask) if blank is None else ~blank, tile)
    touched = hits > 0
    if touched.all() or hits[touched].sum() < FILLED * room[touched].sum():
        return None
    return f"{int(touched.sum())} of {touched.size} {tile[0]}x{tile[1]} tiles"


def _by_tile(mask: Array, tile: tuple[int, int]) -> Array:
    """Set elements in each tile."""
    rows, lanes = mask.shape[-2:]
    padded = np.zeros((*mask.shape[:-2], -(-rows // tile[0]) * tile[0], -(-lanes // tile[1]) * tile[1]), np.int32)
    padded[..., :rows, :lanes] = mask
    split = padded.reshape(*mask.shape[:-2], padded.shape[-2] // tile[0], tile[0], padded.shape[-1] // tile[1], tile[1])
    counts: Array = split.sum(axis=(-3, -1))  # (..., tiles down, tiles across)
    return counts


def _slices(mask: Array, blank: Array | None) -> str | None:
    """Several whole rows, columns or slices."""
    for d in range(mask.ndim):
        others = tuple(k for k in range(mask.ndim) if k != d)
        there = mask.any(axis=others)
        if there.all() or not others:
            continue
        if (
            _share(np.compress(there, mask, axis=d), None if blank is None else np.compress(there, blank, axis=d))
            >= FILLED
        ):
            name = {0: "rows", 1: "columns"}[d] if mask.ndim == 2 else f"slices of dimension {d}"
            return f"{int(there.sum())} of {there.size} {name}"
    return None


def _flat_stride(mask: Array, blank: Array | None) -> str | None:
    """Every k-th element in row-major order."""
    where = np.flatnonzero(mask)
    step = math.gcd(*(int(s) for s in np.unique(np.diff(where))))
    if step < 2 or where.size < 3:
        return None
    flat = mask.reshape(-1)[where[0] :: step]
    if _share(flat, None if blank is None else blank.reshape(-1)[where[0] :: step]) < FILLED:
        return None
    return f"every {step}{_suffix(step)} element"


def _filled(mask: Array, blank: Array | None, region: Box) -> float:
    index = tuple(slice(low, high + 1) for low, high in region)
    return _share(mask[index], None if blank is None else blank[index])


def _share(mask: Array, blank: Array | None) -> float:
    room = mask.size - (0 if blank is None else int(blank.sum()))
    return int(mask.sum()) / room if room > 0 else 0.0


def _whole(dims: tuple[int, ...]) -> Box:
    return tuple((0, size - 1) for size in dims)


def _with(box: Box, changes: dict[int, tuple[int, int]]) -> Box:
    return tuple(changes.get(d, bounds) for d, bounds in enumerate(box))


def _suffix(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
