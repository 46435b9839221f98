"""Arrays in pieces that fit a core's cache: several passes over a piece cost little more than one over the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.hlo.shape import DType
from assay.reference.value import Array, Ball

BLOCK = 1 << 15  # elements; 256 KiB of float64

Index = Any  # of a piece, for a NumPy array
WHOLE: Index = ...


def pieces(dims: tuple[int, ...]) -> Iterator[Index]:
    """Indices of contiguous pieces of at most BLOCK elements, or of one row of the last axis that is cut; the whole
    where it is little more than one.
    """
    if math.prod(dims) <= 2 * BLOCK:
        yield WHOLE
        return
    axis = 0
    while math.prod(dims[axis + 1 :]) > BLOCK:
        axis += 1
    step = max(1, BLOCK // math.prod(dims[axis + 1 :]))
    for outer in np.ndindex(*dims[:axis]):
        for start in range(0, dims[axis], step):
            yield (*outer, slice(start, start + step))


def cut(array: Array | None, index: Index) -> Array | None:
    return None if array is None else array[index]


def cut_ball(ball: Ball, index: Index) -> Ball:
    return Ball(ball.dtype, ball.mid[index], cut(ball.rad, index), cut(ball.und, index))


class Gathered:
    """A ball put together from its pieces."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims
        self.dtype: DType | None = None
        self.mid: Array | None = None
        self.rad: Array | None = None
        self.und: Array | None = None

    def put(self, index: Index, part: Ball) -> None:
        if self.mid is None:
            self.dtype, self.mid = part.dtype, np.empty(self.dims, part.mid.dtype)
        self.mid[index] = part.mid
        if part.rad is not None:
            self.rad = np.zeros(self.dims) if self.rad is None else self.rad
            self.rad[index] = part.rad
        if part.und is not None and part.und.any():
            self.und = np.zeros(self.dims, bool) if self.und is None else self.und
            self.und[index] = part.und

    def ball(self) -> Ball:
        assert self.dtype is not None
        assert self.mid is not None
        return Ball(self.dtype, self.mid, self.rad, self.und)
