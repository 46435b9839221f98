"""A bug's program inside a larger one.

What it takes comes out of other computations with the same values, what it gives goes through others, and beside it
stand blocks as real programs have them. Runs under the toolchain's jax, so it imports nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Values = dict[str, Any]


def surrounded(function: Callable[..., Any], arguments: tuple[Any, ...], seed: int, blocks: int) -> tuple[Any, tuple]:
    """A program and its arguments: `function` in the midst of `blocks` blocks, which `seed` chooses."""
    drawn = np.random.RandomState(seed)
    pads = {
        "x": drawn.randn(8, 16).astype(np.float32),
        "w": (drawn.randn(16, 16) / 4).astype(np.float32),
        "n": drawn.randint(0, 8, (8,)).astype(np.int32),
        "one": np.float32(1.0),
        "k": np.int32(37),
        "yes": np.bool_(True),
    }
    flat, treedef = jax.tree.flatten(pads)
    count = len(flat)

    def program(*given: Any) -> Any:
        rng = random.Random(seed)
        values = jax.tree.unflatten(treedef, given[:count])
        beside: list[Any] = []
        before = rng.randint(0, blocks)
        for _ in range(before):
            beside.append(_block(rng, values))
        fed = [_fed(rng, jnp.asarray(a), values) for a in given[count:]]
        result = function(*fed)
        after = _after(rng, result, values)
        for _ in range(blocks - before):
            beside.append(_block(rng, values))
        return (after, *beside)

    return program, (*flat, *(np.asarray(a) for a in arguments))


# ---------------------------------------------------------------- the same value, by a longer way


def _fed(rng: random.Random, x: Any, v: Values) -> Any:
    for _ in range(rng.randint(2, 4)):
        x = rng.choice(_SAME)(x, v)
    return x


def _is_int(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.integer)


def _number(x: Any, v: Values) -> Any:
    """Added and taken away again, or times one: the same in every type."""
    if _is_int(x):
        k = v["k"].astype(x.dtype)
        return ((x ^ k) + k - k) ^ k
    return jnp.minimum(x * v["one"].astype(x.dtype), x)


def _there_and_back(x: Any, v: Values) -> Any:
    if x.ndim == 0:
        return lax.reshape(jnp.stack([x, x]), (1, 2))[0, 1]
    dims = tuple(range(x.ndim))
    return lax.rev(_number(lax.rev(x, dims), v), dims)


def _chosen(x: Any, v: Values) -> Any:
    return jnp.where(v["yes"], x, jnp.zeros_like(x) if _is_int(x) else x * 2)


def _part(x: Any, v: Values) -> Any:
    if x.ndim == 0:
        return jnp.concatenate([x[None], x[None] * 2])[0]
    return lax.slice_in_dim(jnp.concatenate([x, x], axis=0), x.shape[0], 2 * x.shape[0], axis=0)


def _looped(x: Any, v: Values) -> Any:
    return lax.fori_loop(0, 2, lambda _, s: s ^ v["k"].astype(s.dtype) if _is_int(s) else s * v["one"], x)


def _called(x: Any, v: Values) -> Any:
    return jax.jit(lambda y: _number(y, v))(x)


_SAME = (_number, _there_and_back, _chosen, _part, _looped, _called)


# ---------------------------------------------------------------- what becomes of the result


def _after(rng: random.Random, y: Any, v: Values) -> Any:
    for _ in range(rng.randint(2, 4)):
        y = rng.choice(_KEEPING)(y, v)
    return y


def _scaled(y: Any, v: Values) -> Any:
    return y * 3 + v["k"].astype(y.dtype) if _is_int(y) else y * 2 + v["one"].astype(y.dtype)


def _turned(y: Any, v: Values) -> Any:
    return lax.rev(y, (0,)) if y.ndim else y[None]


def _joined(y: Any, v: Values) -> Any:
    y = y if y.ndim else y[None]
    return jnp.concatenate([y, jnp.ones_like(y)], axis=y.ndim - 1)


def _picked(y: Any, v: Values) -> Any:
    return jnp.where(v["n"].sum() > -1, y, jnp.zeros_like(y))


_KEEPING = (_scaled, _turned, _joined, _picked)


# ---------------------------------------------------------------- blocks that stand beside


def _block(rng: random.Random, v: Values) -> Any:
    return rng.choice(_BLOCKS)(v)


def _softmax(v: Values) -> Any:
    return jax.nn.softmax(v["x"] @ v["w"], axis=-1)


def _norm(v: Values) -> Any:
    x = v["x"]
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def _gelu(v: Values) -> Any:
    h = v["x"] @ v["w"]
    return 0.5 * h * (1 + jnp.tanh(0.7978846 * (h + 0.044715 * h**3)))


def _ordered(v: Values) -> Any:
    return jnp.sort(v["n"] * 5 % 7) + jnp.argsort(v["n"])


def _picked_rows(v: Values) -> Any:
    return jnp.take(v["x"], v["n"], axis=0) + v["one"]


def _bins(v: Values) -> Any:
    return jnp.zeros(16, jnp.int32).at[v["n"]].add(v["k"])


def _steps(v: Values) -> Any:
    return lax.fori_loop(0, 3, lambda i, s: jnp.maximum(s, s[::-1] * 0.5) + v["one"], v["x"])


def _either(v: Values) -> Any:
    return lax.cond(v["yes"], lambda x: x * 2, lambda x: x - 1, v["x"])


_BLOCKS = (_softmax, _norm, _gelu, _ordered, _picked_rows, _bins, _steps, _either)
