"""Types of a kernel, and the buffers it works on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.errors import Unsupported
from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.reference.mosaic.text import CALL
from assay.reference.value import Array, Ball, held_dtype

_TYPES = {
    "index": "s32",
    "i1": "pred",
    "i8": "s8",
    "i16": "s16",
    "i32": "s32",
    "bf16": "bf16",
    "f16": "f16",
    "f32": "f32",
}
_SHAPED = re.compile(r"(?:vector|memref)<((?:\d+x)*)(\w+)(?:,.*)?>")


def shape_of(text: str) -> ArrayShape:
    """`vector<8x128xbf16>`, `memref<8xi32, ...>`, `i32` as a shape. An index is an s32."""
    match = _SHAPED.fullmatch(text.strip())
    dims, name = (match[1], match[2]) if match else ("", text.strip())
    if name not in _TYPES:
        raise Unsupported(CALL, f"the type {text.strip()[:40]}")
    return ArrayShape(DTYPES[_TYPES[name]], tuple(int(d) for d in dims.split("x") if d))


def unknown(shape: ArrayShape) -> Ball:
    """What nobody has written."""
    return Ball(shape.dtype, np.zeros(shape.dims, held_dtype(shape.dtype)), None, np.ones(shape.dims, bool))


@dataclass(slots=True)
class Buffer:
    """Memory that is read and written in place; mid, rad and und as in a ball, in arrays of its own."""

    dtype: DType
    mid: Array
    rad: Array | None = None
    und: Array | None = None

    @classmethod
    def of(cls, ball: Ball) -> Buffer:
        rad, und = (None if part is None else part.copy() for part in (ball.rad, ball.und))
        return cls(ball.dtype, ball.mid.copy(), rad, und)

    def ball(self) -> Ball:
        return _ball(self.dtype, self.mid, self.rad, self.und)

    def load(self, where: Sequence[slice | int]) -> Ball:
        """A copy: what is stored later is not seen in it."""
        index = tuple(where)
        mid, rad, und = (None if part is None else np.array(part[index]) for part in (self.mid, self.rad, self.und))
        assert mid is not None
        return _ball(self.dtype, mid, rad, und)

    def store(self, where: Sequence[slice | int], value: Ball) -> None:
        index = tuple(where)
        self.mid[index] = value.mid
        if self.rad is None and value.rad is not None:
            self.rad = np.zeros(self.mid.shape)
        if self.rad is not None:
            self.rad[index] = 0.0 if value.rad is None else value.rad
        if self.und is None and value.und is not None:
            self.und = np.zeros(self.mid.shape, bool)
        if self.und is not None:
            self.und[index] = False if value.und is None else value.und


def _ball(dtype: DType, mid: Array, rad: Array | None, und: Array | None) -> Ball:
    """Without a radius or a doubt where there is none."""
    return Ball(
        dtype, mid, rad if rad is not None and rad.any() else None, und if und is not None and und.any() else None
    )
