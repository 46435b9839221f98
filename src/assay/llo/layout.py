"""Arrays as they lie in a TPU's memory: images of 32-bit words, padding included.

Where each element lies is the reference's business (`assay.reference.physical`); here elements become bits and back.
Known: an element of `bits` bits at place p takes the bits from p * bits on of the buffer, lowest first (probe: the
tiles (2,1), (4,1), (8,1) of libtpu's dumps put rows 2i and 2i+1 of bf16 into the halves of one word, low half first).
An array of 64 bits is two of 32, one behind the other: the low words, or real parts, then the high words, or imaginary
parts (probe: the kernels of X64SplitLow, X64SplitHigh and X64Combine copy the halves of the buffer). A pred takes a
byte. Other elements of fewer than 8 bits have E(n) in their layout, and are unsupported without.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from assay.errors import InputError, Unsupported
from assay.hlo.shape import DTYPES, ArrayShape, DType, Layout, Tile
from assay.reference.physical import memory_places, places_held
from assay.reference.value import Array

Words = npt.NDArray[np.uint32]

WORD_BITS = 32
_VMEM = 1
_PACKED = {32: (), 16: (Tile((2, 1)),), 8: (Tile((4, 1)),)}  # what follows the tile (8, 128), by bits of an element
_KEPT = 1 << 16  # elements up to which the places of a shape are kept


def element_bits(shape: ArrayShape) -> int:
    """How many bits an element takes. Raises Unsupported for other than 4, 2, 1 (with E(n)), 8, 16 and 32."""
    own = 8 if shape.dtype.kind == "pred" else shape.dtype.bits
    extras = shape.layout.extra if shape.layout is not None else ()
    declared = next((int(extra[2:-1]) for extra in extras if extra.startswith("E(")), max(8, own))
    if own not in (1, 2, 4, 8, 16, 32) or declared != own:
        raise Unsupported("layout", f"of {shape.dtype} in {declared} bits")
    return own


def words_held(shape: ArrayShape) -> int:
    """How many words the image of an array of this shape takes. Raises what `image` does."""
    if shape.dtype.bits == 64:
        return 2 * words_held(_half(shape))
    return -(-places_held(_plain(shape)) * element_bits(shape) // WORD_BITS)


def image(shape: ArrayShape, array: Array, fill: int = 0) -> Words:
    """The image of `array`; bits that no element has are those of the word `fill`. (words_held,)

    array: of shape.dims, in shape.dtype.numpy or a dtype that converts to it without loss. Raises InputError for
    another shape, Unsupported as `element_bits` does and for a type that NumPy and ml_dtypes lack.
    """
    if array.shape != shape.dims:
        raise InputError(f"an array of shape {list(array.shape)} is no {shape.dtype}{list(shape.dims)}")
    if shape.dtype.bits == 64:
        half, halves = _half(shape), _halves(shape, array)
        return np.concatenate([image(half, halves[..., k], fill) for k in (0, 1)])
    bits = element_bits(shape)
    codes = _codes(shape.dtype, array, bits)
    words = np.full(words_held(shape), fill, np.uint32)
    fields = _fields(words, bits)
    fields[places(shape)] = codes
    return words if bits >= 8 else _packed(fields, bits)


def array_of(shape: ArrayShape, words: Words) -> Array:
    """The array whose image is in `words`, which may go on behind it. (dims), in shape.dtype.numpy

    Of a pred only whether its byte is 0 counts. Raises InputError for too few words, and Unsupported as `image` does.
    """
    held = words_held(shape)
    if words.size < held:
        raise InputError(f"{shape.dtype}{list(shape.dims)} takes {held} words in this layout, there are {words.size}")
    if shape.dtype.bits == 64:
        half = _half(shape)
        assert shape.dtype.numpy is not None
        both = np.stack([array_of(half, words[: held // 2]), array_of(half, words[held // 2 : held])], axis=-1)
        whole: Array = both.view(shape.dtype.numpy)[..., 0]
        return whole
    bits = element_bits(shape)
    fields = _fields(np.ascontiguousarray(words[:held]), bits)
    return _decoded(shape.dtype, fields[places(shape)])


def bits_differ(a: Array, b: Array) -> Array:
    """Where two arrays of one dtype and shape have other bits. (dims)"""
    width = np.dtype(f"uint{8 * a.dtype.itemsize}")
    return np.asarray(np.asarray(a, order="C").view(width) != np.asarray(b, order="C").view(width))


def scalar_word(shape: ArrayShape, array: Array) -> int:
    """The word by which a kernel gets an operand of one element that is in no memory: its bits, zeros above them.

    Known: where libtpu moves a scalar of s8 or s16 out of memory it masks the word with 0xFF or 0xFFFF; a pred is made
    by a select of 1 and 0; kernels take a bf16 from the low half.
    """
    bits = element_bits(shape)
    return int(_codes(shape.dtype, array.reshape(1), bits)[0])


def scalar_of(shape: ArrayShape, word: int) -> Array:
    """The array of one element whose bits are the low ones of `word`. (dims)"""
    bits = element_bits(shape)
    code = np.array([word & ((1 << bits) - 1)], np.dtype(f"uint{max(bits, 8)}"))
    return _decoded(shape.dtype, code).reshape(shape.dims)


def places(shape: ArrayShape) -> Array:
    """For each element its place, counted in elements. (dims)"""
    plain = _plain(shape)
    return _places(plain) if shape.size <= _KEPT else memory_places(plain)


def _plain(shape: ArrayShape) -> ArrayShape:
    return shape if shape.layout is None else ArrayShape(shape.dtype, shape.dims, _moving(shape, shape.layout))


@lru_cache(maxsize=256)
def _places(shape: ArrayShape) -> Array:
    found = memory_places(shape)
    found.setflags(write=False)
    return found


def _half(shape: ArrayShape) -> ArrayShape:
    """Of an array of 64 bits. Raises Unsupported for f64, which the TPU has in other ways."""
    if shape.dtype.is_float:
        raise Unsupported("layout", f"of {shape.dtype} in 64 bits")
    return ArrayShape(DTYPES["u32"], shape.dims, shape.layout)


def _halves(shape: ArrayShape, array: Array) -> Array:
    """(dims, 2)"""
    found: Array = np.asarray(array, shape.dtype.numpy, order="C")[..., None].view(np.uint32)
    return found


def _moving(shape: ArrayShape, layout: Layout) -> Layout:
    """The layout without what moves no element, and with the tiles that libtpu leaves out.

    Known: an array of two dimensions or more in VMEM has tiles also where none are printed, as of the results of some
    convolutions (probe: the kernel's own stores, and the bitcast of its result to a tiled shape). Raises Unsupported
    where the usual tile does not fill: which one is meant then is not known.
    """
    if layout.tiles or layout.memory_space != _VMEM or shape.rank < 2 or shape.size == 0:
        return Layout(layout.minor_to_major, layout.tiles)
    minor, second = (shape.dims[d] for d in layout.minor_to_major[:2])
    bits = element_bits(shape)
    if bits not in _PACKED or second < 8 or minor < 128:
        raise Unsupported("layout", f"{shape.dtype}{list(shape.dims)} in VMEM without tiles")
    return Layout(layout.minor_to_major, (Tile((8, 128)), *_PACKED[bits]))


def _codes(dtype: DType, array: Array, bits: int) -> Array:
    """The bits of each element as an unsigned integer of at least 8 bits. (dims)"""
    if dtype.numpy is None:
        raise Unsupported("layout", f"of {dtype}, which ml_dtypes does not have")
    held = np.asarray(array, dtype.numpy, order="C")
    codes: Array = held.view(np.dtype(f"uint{8 * held.dtype.itemsize}"))
    return codes & np.uint8((1 << bits) - 1) if bits < 8 else codes


def _decoded(dtype: DType, codes: Array) -> Array:
    if dtype.numpy is None:
        raise Unsupported("layout", f"of {dtype}, which ml_dtypes does not have")
    if dtype.kind == "pred":
        return np.asarray(codes != 0)
    if dtype.bits < 8 and dtype.kind == "signed":
        sign = np.uint8(1 << (dtype.bits - 1))
        return ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)
    held: Array = np.asarray(codes, order="C").view(dtype.numpy)
    return held


def _fields(words: Words, bits: int) -> Array:
    """The words cut into fields of `bits`; a view of them from 8 bits on, a copy in bytes below."""
    if bits >= 8:
        return words.view(np.dtype(f"<u{bits // 8}"))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((words.view(np.uint8)[:, None] >> shifts) & np.uint8((1 << bits) - 1)).ravel()


def _packed(fields: Array, bits: int) -> Words:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    together: Words = (fields.reshape(-1, 8 // bits) << shifts).sum(axis=1, dtype=np.uint8).view(np.uint32)
    return together
