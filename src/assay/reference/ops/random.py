"""Random bits, bit for bit; random distributions, not at all.

Sources: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Threefry-2x32, 20 rounds; Philox-4x32, 10
rounds) and XLA's prng.cc and rng_bit_generator_expander.cc for how counters are laid out over the result. `rng`
promises a distribution and no bits, so nothing of it is decided.
"""

from __future__ import annotations

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attributes import word
from assay.hlo.module import Instruction
from assay.hlo.shape import ArrayShape, TupleShape, leaves
from assay.reference.context import Context
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Value, held_dtype, wrap

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@operation("rng-bit-generator")
def rng_bit_generator(ctx: Context, instr: Instruction, state: Ball) -> Value:
    """(new state, bits). The default algorithm is the target's choice: Philox on CPU and GPU, unknown on a
    TPU."""
    if not isinstance(instr.shape, TupleShape):
        raise Unsupported("rng-bit-generator", "which gives bits alone")  # the TPU's, in the middle of its passes
    state_shape, shape = instr.shape.elements
    assert isinstance(state_shape, ArrayShape)
    assert isinstance(shape, ArrayShape)
    if state.dtype.name != "u64" or not (shape.dtype.is_integer or shape.dtype.is_float):
        raise Unsupported("rng-bit-generator", f"{shape.dtype} from a state of {state.dtype}")
    algorithm = word(instr, "algorithm", "rng_default")
    if algorithm == "rng_default" and "tpu" in ctx.policy.name:
        raise Unsupported("rng-bit-generator", "algorithm=rng_default on a TPU, which has its own")
    if algorithm == "rng_three_fry":
        after, bits = _threefry_bits(state.mid, shape)
    elif algorithm in ("rng_philox", "rng_default"):
        after, bits = _philox_bits(state.mid, shape)
    else:
        raise Unsupported("rng-bit-generator", f"algorithm={algorithm}")
    if algorithm == "rng_default":
        ctx.notes.add("rng-bit-generator with the default algorithm was taken for Philox, as XLA:CPU and XLA:GPU do")
    unknown = state.und is not None and bool(state.und.any())
    results = (Ball(state.dtype, after), _as_type(shape, bits))
    if not unknown:
        return results
    return tuple(Ball(r.dtype, r.mid, None, np.broadcast_to(True, r.dims)) for r in results)


def _as_type(shape: ArrayShape, bits: Array) -> Ball:
    """Random words (uint32 or uint64) as elements of `shape`: the low bits of a word, a float's by their pattern."""
    dtype = shape.dtype
    if dtype.is_float:
        if dtype.numpy is None:
            raise Unsupported("rng-bit-generator", f"of {dtype}")
        narrow = bits.astype(f"uint{max(dtype.bits, 8)}")
        return Ball(dtype, narrow.view(dtype.numpy).astype(np.float64).reshape(shape.dims))
    if dtype.bits < 8:
        return Ball(dtype, wrap(dtype, (bits & _LOW).astype(np.int64)).reshape(shape.dims))
    return Ball(dtype, bits.astype(f"uint{dtype.bits}").view(held_dtype(dtype)).reshape(shape.dims))


@operation("rng")
def rng(ctx: Context, instr: Instruction, *parameters: Ball) -> Value:
    return _unverified(ctx, instr, "its distribution is not verified")


@operation("rng-get-and-update-state")
def rng_get_and_update_state(ctx: Context, instr: Instruction) -> Value:
    return _unverified(ctx, instr, "the state is the target's own")


def _unverified(ctx: Context, instr: Instruction, why: str) -> Value:
    ctx.notes.add(f"{instr.opcode}: {why}")
    balls = [
        Ball(s.dtype, np.zeros(s.dims, held_dtype(s.dtype)), None, np.broadcast_to(True, s.dims))
        for s in leaves(instr.shape)
        if isinstance(s, ArrayShape)
    ]
    return balls[0] if len(balls) == 1 else tuple(balls)


# ---------------------------------------------------------------- Threefry


def _threefry_bits(state: Array, shape: ArrayShape) -> tuple[Array, Array]:
    """state: (key, counter) of u64. A 64-bit element uses one counter; narrower elements share one between two."""
    key, counter = state[:1], state[1:2]
    keys = _halves(key)
    size = np.uint64(shape.size)
    if shape.dtype.bits == 64:
        low, high = _threefry(_halves(counter + np.arange(shape.size, dtype=np.uint64)), keys)
        return np.concatenate([key, counter + size]), _joined(low, high)
    if not shape.dims:
        first, _ = _threefry(_halves(counter), keys)
        return np.concatenate([key, counter + np.uint64(1)]), first
    # The first even dimension, else the first of the longest, is split in pairs; the pair's members are the two words.
    even = [d for d, n in enumerate(shape.dims) if n % 2 == 0]
    split = even[0] if even else int(np.argmax(shape.dims))
    half = [*shape.dims]
    half[split] = -(-half[split] // 2)
    count = int(np.prod(half))
    words = _threefry(_halves(counter + np.arange(count, dtype=np.uint64)), keys)
    paired = np.stack([word.reshape(half) for word in words], split + 1)
    half[split] *= 2
    kept = tuple(slice(n) for n in shape.dims)
    bits = np.ascontiguousarray(paired.reshape(half)[kept])
    return np.concatenate([key, counter + np.uint64(count)]), bits.ravel()


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(x: tuple[Array, Array], key: tuple[Array, Array]) -> tuple[Array, Array]:
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = x[0] + keys[0], x[1] + keys[1]
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            a = a + b
            b = ((b << np.uint32(by)) | (b >> np.uint32(32 - by))) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


# ---------------------------------------------------------------- Philox


def _philox_bits(state: Array, shape: ArrayShape) -> tuple[Array, Array]:
    """state: (key, counter low, counter high), or (key, counter high) with low = key: four 32-bit words a count of
    128 bits.
    """
    key = state[:1]
    low, high = (state[1:2], state[2:3]) if state.size >= 3 else (state[1:2], state[:1])
    wide = shape.dtype.bits == 64
    count = -(-shape.size * (2 if wide else 1) // 4)
    steps = np.arange(count, dtype=np.uint64)
    counters = low + steps
    carried = high + (counters < low)
    words = _philox((*_halves(counters), *_halves(carried)), _halves(key))
    after_low = low + np.uint64(count)
    after_high = high + (after_low < low)
    after = np.concatenate([key, after_low, after_high] if state.size >= 3 else [key, after_low])
    if wide:
        words = (_joined(words[0], words[1]), _joined(words[2], words[3]))
    return after, np.ascontiguousarray(np.stack(words, 1).ravel()[: shape.size])


def _philox(x: tuple[Array, ...], key: tuple[Array, Array]) -> tuple[Array, ...]:
    for _ in range(10):
        first = x[0].astype(np.uint64) * np.uint64(0xD2511F53)
        second = x[2].astype(np.uint64) * np.uint64(0xCD9E8D57)
        (low0, high0), (low1, high1) = _halves(first), _halves(second)
        x = (high1 ^ x[1] ^ key[0], low1, high0 ^ x[3] ^ key[1], low0)
        key = (key[0] + np.uint32(0x9E3779B9), key[1] + np.uint32(0xBB67AE85))
    return x


def _halves(x: Array) -> tuple[Array, Array]:
    """(low, high) 32-bit words of 64-bit ones."""
    return (x & _LOW).astype(np.uint32), (x >> _32).astype(np.uint32)


def _joined(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << _32)
