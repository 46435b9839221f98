"""Draws gather and scatter: any dimension numbers, index vectors without components, batching dimensions, indices
outside, duplicates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType

from .builder import Builder, braces
from .catalogue import draws
from .folding import reducer
from .movement import INDEX_TYPES
from .values import FINITE, TAME, limits


@dataclass(frozen=True)
class Layout:
    """dims: the operand's. indices: dimensions of the index array, its vector at `vector` (its rank: no such
    dimension). mapped: operand dimension of each component. batching: pairs of operand and indices dimensions.
    sizes: of a window. dropped: operand dimensions of size one that the window has not. window: places of the kept
    ones in the result. result: its dimensions.
    """

    dims: tuple[int, ...]
    indices: tuple[int, ...]
    vector: int
    mapped: tuple[int, ...]
    batching: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]
    dropped: tuple[int, ...]
    window: tuple[int, ...]
    result: tuple[int, ...]


def draw_layout(b: Builder) -> Layout:
    dims = b.dims(1, 3, empty=False)
    rank = len(dims)
    batched = b.choices.some(range(rank), 0, 1) if rank > 1 and b.choices.chance(3) else []
    free = [d for d in range(rank) if d not in batched]
    mapped = b.choices.some(free, 0 if b.choices.chance(8) else 1, len(free))
    sizes = [1 if d in batched else b.choices.between(1, size) for d, size in enumerate(dims)]
    if b.choices.chance(20) and free:
        sizes[b.choices.pick(free)] = 0
    dropped = [d for d in free if sizes[d] == 1 and b.choices.chance(2)]
    batch = list(b.dims(0, 2, large=False))
    places = []
    for d in batched:
        at = b.choices.below(len(batch) + 1)
        batch.insert(at, dims[d])
        places = [p + (p >= at) for p in places] + [at]
    vector = b.choices.below(len(batch) + 1)
    whole = list(batch)
    if not (len(mapped) == 1 and vector == len(batch) and b.choices.chance(2)):
        whole.insert(vector, len(mapped))
        places = [p + (p >= vector) for p in places]
    kept = [sizes[d] for d in range(rank) if d not in dropped and d not in batched]
    result_rank = len(kept) + len(batch)
    window = sorted(b.choices.some(range(result_rank), len(kept), len(kept)))
    outer, inner = iter(batch), iter(kept)
    result = [next(inner) if d in window else next(outer) for d in range(result_rank)]
    return Layout(
        dims,
        tuple(whole),
        vector,
        tuple(mapped),
        tuple(zip(batched, places, strict=True)),
        tuple(sizes),
        tuple(dropped),
        tuple(window),
        tuple(result),
    )


def index_operand(b: Builder, layout: Layout) -> str:
    """Indices of any kind, or such that every window lies inside."""
    index = DTYPES[b.choices.pick(INDEX_TYPES)]
    if b.choices.chance(2):
        if any(layout.sizes[d] > 1 for d in layout.mapped):
            b.notes.add("windows may lie partly outside")
        return b.operand(index, layout.indices, ("small", "small", "normal", "ties", "edges"))
    rng = np.random.default_rng(b.choices.below(1 << 20))
    room = [min(layout.dims[d] - layout.sizes[d], limits(index)[1]) for d in layout.mapped]
    if layout.vector == len(layout.indices):
        value = rng.integers(0, room[0], layout.indices, endpoint=True)
    else:
        batch = layout.indices[: layout.vector] + layout.indices[layout.vector + 1 :]
        parts = [rng.integers(0, most, batch, endpoint=True) for most in room]
        value = np.stack(parts, layout.vector) if parts else np.zeros(layout.indices)
    return b.parameter(index, layout.indices, value=value.astype(index.numpy))


@draws("psufc", "gather")
def gather(b: Builder, opcode: str, dtype: DType) -> None:
    g = draw_layout(b)
    attributes = [
        f"offset_dims={braces(g.window)}",
        f"collapsed_slice_dims={braces(g.dropped)}",
        f"start_index_map={braces(g.mapped)}",
    ]
    if g.batching:
        attributes.append(f"operand_batching_dims={braces([p[0] for p in g.batching])}")
        attributes.append(f"start_indices_batching_dims={braces([p[1] for p in g.batching])}")
    attributes += [f"index_vector_dim={g.vector}", f"slice_sizes={braces(g.sizes)}"]
    b.result(dtype, g.result, f"gather({b.operand(dtype, g.dims)}, {index_operand(b, g)}), {', '.join(attributes)}")


@draws("psufc", "scatter")
def scatter(b: Builder, opcode: str, dtype: DType) -> None:
    """One input, or two of different types."""
    s = draw_layout(b)
    dtypes = [dtype]
    if b.choices.chance(6):
        dtypes.append(DTYPES[b.choices.pick(("s32", "f32", "u8"))])
    body, _ = reducer(b, dtypes, overwriting=True)
    classes = TAME if math.prod(s.result) > 8 else FINITE
    inputs = [b.operand(d, s.dims, classes) for d in dtypes]
    updates = [b.operand(d, s.result, classes) for d in dtypes]
    attributes = [
        f"update_window_dims={braces(s.window)}",
        f"inserted_window_dims={braces(s.dropped)}",
        f"scatter_dims_to_operand_dims={braces(s.mapped)}",
    ]
    if s.batching:
        attributes.append(f"input_batching_dims={braces([p[0] for p in s.batching])}")
        attributes.append(f"scatter_indices_batching_dims={braces([p[1] for p in s.batching])}")
    attributes += [f"index_vector_dim={s.vector}", f"to_apply={body}"]
    operands = [*inputs, index_operand(b, s), *updates]
    shapes = [ArrayShape(d, s.dims) for d in dtypes]
    b.results(shapes, f"scatter({', '.join(operands)}), {', '.join(attributes)}")
