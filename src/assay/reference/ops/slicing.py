"""slice, dynamic-slice and dynamic-update-slice.

A dynamic start is clamped to [0, size - slice size] as a mathematical integer, whatever its type: an unsigned or
8-bit start does not wrap (operation_semantics, DynamicSlice; openxla/xla#4491, #49121).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.hlo.attributes import slices
from assay.hlo.module import Instruction
from assay.reference.context import Context
from assay.reference.ops.movement import moved
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value


@operation("slice")
def slice_(ctx: Context, instr: Instruction, a: Ball) -> Value:
    where = tuple(slice(start, limit, stride) for start, limit, stride in slices(instr))
    return moved(a, lambda x: x[where])


def clamped_starts(
    starts: Sequence[Ball], dims: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[list[int], list[bool]]:
    """The start of each dimension, and whether it is undecided. `starts`: one scalar a dimension, or the old form,
    one vector.
    """
    if len(starts) == 1 and starts[0].mid.ndim == 1:
        values = [int(v) for v in starts[0].mid]
        doubts = [False] * len(values) if starts[0].und is None else [bool(u) for u in starts[0].und]
    else:
        values = [int(s.mid) for s in starts]
        doubts = [s.und is not None and bool(s.und) for s in starts]
    room = [dim - size for dim, size in zip(dims, sizes, strict=True)]
    # Where a slice fills its dimension there is one place for it, whatever the start.
    clamped = [min(max(value, 0), most) for value, most in zip(values, room, strict=True)]
    return clamped, [doubt and most > 0 for doubt, most in zip(doubts, room, strict=True)]


@operation("dynamic-slice")
def dynamic_slice(ctx: Context, instr: Instruction, a: Ball, *starts: Ball) -> Value:
    sizes = instr.array.dims
    first, doubts = clamped_starts(starts, a.dims, sizes)
    where = tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))
    result = moved(a, lambda x: x[where])
    if any(doubts):
        return Ball(result.dtype, result.mid, result.rad, np.broadcast_to(True, sizes))
    return result


@operation("dynamic-update-slice")
def dynamic_update_slice(ctx: Context, instr: Instruction, a: Ball, update: Ball, *starts: Ball) -> Value:
    """Where a start is undecided, all that the update may touch along its dimension is undecided."""
    first, doubts = clamped_starts(starts, a.dims, update.dims)
    where = tuple(slice(start, start + size) for start, size in zip(first, update.dims, strict=True))

    def updated(base: Array | None, new: Array | None, none: float | bool) -> Array | None:
        if base is None and new is None:
            return None
        result = np.full(a.dims, none) if base is None else base.copy()
        result[where] = none if new is None else new
        return result

    mid = updated(a.mid, update.mid, False)
    assert mid is not None
    und = updated(a.und, update.und, False)
    if any(doubts) and update.mid.size:
        reach = tuple(slice(None) if doubt else span for doubt, span in zip(doubts, where, strict=True))
        und = np.zeros(a.dims, bool) if und is None else und
        und[reach] = True
    return Ball(a.dtype, mid, updated(a.rad, update.rad, 0.0), und)
