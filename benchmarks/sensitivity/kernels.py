"""The programs that are judged: fusions as a compiler makes them of models, one output each.

Each entry is a function and the shapes of its arguments. Every argument has the element type under test, but where one
is given. No output is constant along rows or columns, so that every corruption changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Kernel = tuple[Callable[..., Any], tuple[Any, ...]]

ROWS = (256, 1024)
LINE = (1024,)
SQUARE = (256, 256)
HEADS = (4, 128, 64)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def rope(x: Any) -> Any:
    """Rotary embedding of (positions, features), angles up to the number of positions."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[0])[:, None] * 10000.0 ** (-jnp.arange(half) / half)[None, :]
    cos, sin = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
    a, b = x[:, :half], x[:, half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def softmax_gradient(x: Any, upstream: Any) -> Any:
    return jax.vjp(lambda y: jax.nn.softmax(y, axis=-1), x)[1](upstream)[0]


def masked_softmax(x: Any) -> Any:
    mask = jnp.tril(jnp.ones((x.shape[-2], x.shape[-1]), bool))
    return jax.nn.softmax(jnp.where(mask, x, -jnp.inf), axis=-1)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


def adam(parameter: Any, gradient: Any, first: Any, second: Any) -> Any:
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * jnp.abs(second) + 0.001 * jnp.square(gradient)
    return parameter - 0.01 * first / (jnp.sqrt(second) + 1e-4)


def naive_variance(x: Any) -> Any:
    """E[x^2] - E[x]^2 of each column of blocks, which cancels where the mean is large."""
    return jnp.square(x).mean(1) - jnp.square(x.mean(1))


def residue(x: Any) -> Any:
    """What a round trip through half the width loses (the paper's figure 4)."""
    return x - lax.reduce_precision(x, 5, 4)


FUSIONS: dict[str, Kernel] = {
    "x * y * z":              (lambda x, y, z: x * y * z, (ROWS, ROWS, ROWS)),
    "x * scale + bias":       (lambda x, s, b: x * s + b, (ROWS, LINE, LINE)),
    "gelu":                   (lambda x: jax.nn.gelu(x), (ROWS,)),
    "swiglu":                 (lambda x, y: jax.nn.silu(x) * y, (ROWS, ROWS)),
    "tanh(x) + y":            (lambda x, y: jnp.tanh(x) + y, (ROWS, ROWS)),
    "exp(x) / y":             (lambda x, y: jnp.exp(x) / y, (ROWS, ROWS)),
    "softmax":                (lambda x: jax.nn.softmax(x, axis=-1), (ROWS,)),
    "softmax gradient":       (softmax_gradient, (ROWS, ROWS)),
    "masked softmax":         (masked_softmax, ((4, 128, 128),)),
    "log softmax":            (lambda x: jax.nn.log_softmax(x, axis=-1), (ROWS,)),
    "layer norm":             (layer_norm, (ROWS, LINE, LINE)),
    "rms norm":               (rms_norm, (ROWS, LINE)),
    "sum":                    (lambda x: x.sum(1), ((64, 256, 256),)),
    "variance":               (lambda x: x.var(1), ((64, 256, 256),)),
    "maximum":                (lambda x: x.max(1), ((64, 256, 256),)),
    "cumulative sum":         (lambda x: jnp.cumsum(x, -1), (ROWS,)),
    "rope":                   (rope, (ROWS,)),
    "dot + bias, relu":       (lambda x, w, b: jax.nn.relu(x @ w + b), (ROWS, (1024, 256), (256,))),
    "attention":              (attention, (HEADS, HEADS, HEADS)),
    "adam":                   (adam, (ROWS, ROWS, ROWS, ROWS)),
    "embedding, scaled":      (lambda t, i: t[i] * jnp.asarray(16, t.dtype), (ROWS, (jnp.int32, (512,)))),
    "transpose + pad":        (lambda x, y: jnp.pad(x.T, ((0, 0), (3, 5))) + y, (SQUARE, (256, 264))),
}  # fmt: skip

HONEST: dict[str, Kernel] = {
    "naive variance": (naive_variance, ((64, 256, 128),)),
    "residue":        (residue, (ROWS,)),
    "logsumexp":      (lambda x: jax.nn.logsumexp(x, axis=1), ((64, 256, 128),)),
    **{name: FUSIONS[name] for name in (
        "gelu", "softmax", "softmax gradient", "layer norm", "rms norm", "sum", "cumulative sum", "rope", "attention",
        "adam",
    )},
}  # fmt: skip
