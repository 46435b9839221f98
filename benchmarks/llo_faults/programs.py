"""Small programs whose kernels have what the faults need: windows, masks, loops, queues, packed types, accumulators."""

import jax
import jax.numpy as jnp
from jax import lax

f32, bf16, s8, s32 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32


def of(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def clamped(x, y):
    return jnp.where(x < y, x - y, jnp.clip(x, -30, 40))


def normed(x, g):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * g


def conv(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


def attention(q, k, v):
    return jax.nn.softmax(q @ k.T / 8.0) @ v


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3), (1, 2, 2), "SAME")


def moved(x, i, u):
    return lax.dynamic_update_slice(jnp.roll(x, 3, 0), u, (i, 0))


def scanned(x):
    return lax.scan(lambda c, a: (c * 0.5 + a, c - a), jnp.zeros(x.shape[1], f32), x)[1]


PROGRAMS = {
    "unaligned": (lambda x, y: x * y - y, of(100, 200), of(100, 200)),
    "clamped": (clamped, of(70, 200, dtype=s32), of(70, 200, dtype=s32)),
    "widened": (lambda x, y: x.astype(f32) * 0.5 - y, of(64, 256, dtype=s8), of(64, 256)),
    "narrow": (lambda x, y: x * y - x, of(90, 256, dtype=bf16), of(90, 256, dtype=bf16)),
    "softmax": (jax.nn.softmax, of(100, 200)),
    "normed": (normed, of(60, 300), of(300)),
    "dot": (lambda x, y: x @ y, of(100, 200), of(200, 150)),
    "dot_bf16": (lambda x, y: x @ y, of(128, 1024, dtype=bf16), of(1024, 256, dtype=bf16)),
    "conv": (conv, of(2, 8, 16, 16), of(8, 8, 3, 3)),
    "sum_rows": (lambda x: (x - 1.0).sum(0), of(1000, 256)),
    "sum_lanes": (lambda x: (x * x).sum(1), of(300, 260)),
    "largest": (lambda x: x.max(0), of(200, 130, dtype=s32)),
    "pooled": (pooled, of(4, 33, 40)),
    "gather": (lambda x, i: x[i], of(100, 64), of(30, dtype=s32)),
    "scatter": (lambda x, i, u: x.at[i].add(u), of(100, 64), of(30, dtype=s32), of(30, 64)),
    "cumsum": (lambda x: jnp.cumsum(x, 0), of(100, 200)),
    "moved": (moved, of(40, 130), of(dtype=s32), of(4, 130)),
    "transposed": (lambda x, y: x.T - y, of(200, 90), of(90, 200)),
    "attention": (attention, of(64, 64), of(128, 64), of(128, 64)),
    "argmax": (lambda x: jnp.argmax(x, 1), of(50, 200)),
    "scanned": (scanned, of(10, 40)),
}


def cases():
    """Cases for assay: (name, function, arguments)."""
    for name, (function, *arguments) in PROGRAMS.items():
        yield name, function, tuple(arguments)
