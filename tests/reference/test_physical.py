"""Tiled layouts against memory that is written out: arrays padded, cut into tiles and laid down tile by tile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xla_cpu import reference

from assay.errors import Unsupported
from assay.hlo.shape import DTYPES, ArrayShape, Layout, Tile
from assay.reference.physical import byte_places, memory_places, places_held


def shaped(dims, order, tiles, dtype="f32") -> ArrayShape:
    return ArrayShape(DTYPES[dtype], tuple(dims), Layout(tuple(order), tuple(Tile(tuple(t)) for t in tiles)))


def laid_down(x: np.ndarray, order, tiles) -> np.ndarray:
    """The memory of `x`, padding -1, built by padding, cutting and moving whole axes; `order` is minor to major."""
    memory = x.transpose(tuple(reversed(order)))
    for tile in tiles:
        memory = memory.reshape((1,) * (len(tile) - memory.ndim) + memory.shape)
        lead = memory.ndim - len(tile)
        room = [(0, 0)] * lead + [(0, -size % t) for size, t in zip(memory.shape[lead:], tile, strict=True)]
        memory = np.pad(memory, room, constant_values=-1)
        cut = [n for size, t in zip(memory.shape[lead:], tile, strict=True) for n in (size // t, t)]
        memory = memory.reshape(memory.shape[:lead] + tuple(cut))
        which = [lead + 2 * k for k in range(len(tile))]
        memory = memory.transpose([*range(lead), *which, *(k + 1 for k in which)])
    return memory.ravel()


TILINGS = [[], [(8, 128)], [(8, 128), (2, 1)], [(4, 128), (4, 1)], [(1, 128)], [(2, 4)], [(3,)], [(6,), (3,), (3, 1)],
           [(2, 3, 4)], [(16,), (4,), (2, 1)]]  # fmt: skip


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_places_are_those_of_memory_laid_down(data):
    dims = data.draw(st.lists(st.integers(1, 9), max_size=4))
    order = data.draw(st.permutations(range(len(dims))))
    tiles = data.draw(st.sampled_from(TILINGS))
    x = np.arange(np.prod(dims, dtype=int)).reshape(dims)
    memory = laid_down(x, order, tiles)
    shape = shaped(dims, order, tiles)
    places = memory_places(shape)
    assert places_held(shape) == memory.size
    np.testing.assert_array_equal(memory[places], x)
    padding = np.delete(memory, places.ravel())
    assert (padding == -1).all()


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_bitcast_reads_memory(data):
    """Any array read through any layout of as much memory; what is padding there is undecided, and nothing else."""
    sides = []
    for _ in range(2):
        dims = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        sides.append((dims, data.draw(st.permutations(range(len(dims)))), data.draw(st.sampled_from(TILINGS[1:]))))
    (dims, order, tiles), (to_dims, to_order, to_tiles) = sides
    x = np.arange(np.prod(dims, dtype=int), dtype=np.float32).reshape(dims)
    memory = laid_down(x, order, tiles)
    target = laid_down(np.arange(np.prod(to_dims, dtype=int)).reshape(to_dims), to_order, to_tiles)
    shorter = min(memory.size, target.size)
    want = np.full(np.prod(to_dims, dtype=int), -1.0)
    held = target[:shorter] >= 0
    want[target[:shorter][held]] = memory[:shorter][held]

    def spelled(dims, order, tiles):
        tile = "T" + "".join("(" + ",".join(map(str, t)) + ")" for t in tiles)
        return f"f32[{','.join(map(str, dims))}]{{{','.join(map(str, order))}:{tile}}}"

    text = f"""HloModule m
ENTRY e {{
  p = {spelled(dims, order, tiles)} parameter(0)
  ROOT b = {spelled(to_dims, to_order, to_tiles)} bitcast(p)
}}"""
    (ball,) = reference(text, [x])
    und = np.zeros(ball.dims, bool) if ball.und is None else ball.und
    np.testing.assert_array_equal(und.ravel(), want < 0)
    np.testing.assert_array_equal(ball.mid.ravel()[want >= 0], want[want >= 0])


@pytest.mark.parametrize(
    ("dims", "order", "tiles", "want"),
    [
        ((4, 3), (1, 0), [], lambda i, j: i * 3 + j),
        ((4, 3), (0, 1), [], lambda i, j: j * 4 + i),
        ((4, 5), (1, 0), [(2, 2)], lambda i, j: ((i // 2) * 3 + j // 2) * 4 + (i % 2) * 2 + j % 2),
        # bf16 on TPU: rows are packed in pairs within a tile of 8 x 128.
        (
            (16, 256), (1, 0), [(8, 128), (2, 1)],
            lambda i, j: ((i // 8) * 2 + j // 128) * 1024 + ((i % 8) // 2) * 256 + (j % 128) * 2 + i % 2,
        ),
    ],
)  # fmt: skip
def test_memory_places(dims, order, tiles, want):
    shape = ArrayShape(DTYPES["f32"], dims, Layout(order, tuple(Tile(t) for t in tiles)))
    i, j = np.indices(dims)
    np.testing.assert_array_equal(memory_places(shape), want(i, j))


def test_tiled_bitcast():
    """A row of 3 padded to 4 in its tile, read as an array of 4: the fourth element is padding."""
    text = """HloModule m
ENTRY e {
  p = f32[2,3]{1,0:T(2,4)} parameter(0)
  b = f32[8]{0:T(8)} bitcast(p)
  c = f32[6]{0:T(6)} bitcast(p)
  ROOT r = (f32[8]{0:T(8)}, f32[6]{0:T(6)}) tuple(b, c)
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    b, c = reference(text, [x])
    np.testing.assert_array_equal(b.und, [False, False, False, True, False, False, False, True])
    np.testing.assert_array_equal(b.mid[~b.und], x.ravel())
    np.testing.assert_array_equal(c.und, [False, False, False, True, False, False])


def test_a_memory_space_moves_nothing_and_a_scalar_has_a_tile_of_its_own():
    text = """HloModule m
ENTRY e {
  p = f32[]{:T(128)S(6)} parameter(0)
  a = f32[1,1]{1,0:T(1,128)S(1)} bitcast(p)
  ROOT b = f32[1]{0:T(128)} bitcast(a)
}"""
    (ball,) = reference(text, [np.float32(7)])
    assert ball.dims == (1,)
    assert ball.exact
    assert ball.mid[0] == 7


def test_bytes_of_tiled_arrays_change_their_width():
    """bf16 rows packed in pairs are the halves of 32-bit words: row 2i the low one (little endian)."""
    text = """HloModule m
ENTRY e {
  p = bf16[4,128]{1,0:T(4,128)(2,1)} parameter(0)
  ROOT b = u32[2,128]{1,0:T(2,128)} bitcast(p)
}"""
    import ml_dtypes

    x = (np.arange(512) % 251).reshape(4, 128).astype(ml_dtypes.bfloat16)
    (ball,) = reference(text, [x])
    bits = x.view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(ball.mid, bits[0::2] | bits[1::2] << 16)
    assert byte_places(shaped((4, 128), (1, 0), [(4, 128), (2, 1)], "bf16"))[1, 0].tolist() == [2, 3]


def test_a_tile_that_joins_dimensions_is_refused():
    text = """HloModule m
ENTRY e {
  p = f32[4,4]{1,0:T(*,4)} parameter(0)
  ROOT b = f32[16]{0} bitcast(p)
}"""
    with pytest.raises(Unsupported, match="joins dimensions"):
        reference(text, [np.ones((4, 4), np.float32)])
