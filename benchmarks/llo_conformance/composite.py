"""What models are made of, and loops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from cases import Collector, array
from jax import lax


def layernorm(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("qd,kd->qk", q, k) / 8.0
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return jax.nn.softmax(jnp.where(mask, scores, -1e9), -1) @ v


def composite(c: Collector) -> None:
    for t in ("f32", "bf16"):
        c.add(f"softmax_{t}", lambda x: jax.nn.softmax(x, -1), array(t, 100, 200))
        c.add(f"softmax0_{t}", lambda x: jax.nn.softmax(x, 0), array(t, 50, 130))
        c.add(f"log_softmax_{t}", lambda x: jax.nn.log_softmax(x), array(t, 30, 150))
        c.add(f"layernorm_{t}", layernorm, array(t, 64, 256), array(t, 256), array(t, 256))
        c.add(
            f"rmsnorm_{t}",
            lambda x, g: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g,
            array(t, 30, 200),
            array(t, 200),
        )
        c.add(f"attention_{t}", attention, *(array(t, 2, 4, 32, 64),) * 3)
        c.add(f"causal_{t}", causal, *(array(t, 64, 64),) * 3)
        c.add(
            f"mlp_{t}", lambda x, a, b: jax.nn.gelu(x @ a) @ b, array(t, 32, 64), array(t, 64, 256), array(t, 256, 64)
        )
        c.add(f"glu_{t}", lambda x: jax.nn.silu(x[:, :128]) * x[:, 128:], array(t, 40, 256))
    c.add("batchnorm", lambda x: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5), array("f32", 4, 8, 8, 32))
    c.add(
        "adam",
        lambda p, g, m, v: (p - 0.01 * m / (jnp.sqrt(v * v) + 1e-8), 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g),
        *(array("f32", 100, 150),) * 4,
    )
    c.add(
        "cross_entropy",
        lambda x, i: -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean(),
        array("f32", 32, 100),
        array("s32", 32),
    )
    c.add(
        "rotary",
        lambda x, s, t: jnp.concatenate([x[..., :32] * t - x[..., 32:] * s, x[..., 32:] * t + x[..., :32] * s], -1),
        array("f32", 16, 4, 64),
        array("f32", 16, 1, 32),
        array("f32", 16, 1, 32),
    )
    c.add("quantize", lambda x: jnp.clip(jnp.round(x * 16), -128, 127).astype(jnp.int8), array("f32", 64, 200))
    c.add("dequantize", lambda x, s: x.astype(jnp.float32) * s, array("s8", 64, 200), array("f32", 200))
    c.add("grad_softmax", jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()), array("f32", 30, 150))
    c.add("grad_mlp", jax.grad(lambda a, x: (jnp.tanh(x @ a) ** 2).sum()), array("f32", 64, 128), array("f32", 32, 64))
    c.add(
        "maxpool_grad",
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()),
        array("f32", 1, 8, 8, 16),
    )


def loop(c: Collector) -> None:
    c.add("scan", lambda x: lax.scan(lambda s, a: (s * 0.5 + a, s), jnp.zeros(40), x), array("f32", 10, 40))
    c.add(
        "scan_matmul",
        lambda h, w, x: lax.scan(lambda s, a: (jnp.tanh(s @ w + a), s), h, x),
        array("f32", 8, 64),
        array("f32", 64, 64),
        array("f32", 5, 8, 64),
    )
    c.add(
        "scan_reverse",
        lambda x: lax.scan(lambda s, a: (s + a, s * a), jnp.ones(130), x, reverse=True),
        array("f32", 7, 130),
    )
    c.add("fori", lambda x: lax.fori_loop(0, 10, lambda i, s: s * 0.9 + i, x), array("f32", 20, 150))
    c.add("fori_update", lambda x: lax.fori_loop(0, 8, lambda i, s: s.at[i].set(s[i] * i), x), array("f32", 10, 130))
    c.add(
        "while",
        lambda x: lax.while_loop(lambda s: s[0] < 6, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1],
        array("f32", 20, 150),
    )
    c.add("while_s32", lambda x: lax.while_loop(lambda s: (s < 1000).any(), lambda s: s + 137, x), array("s32", 30))
    c.add(
        "cond", lambda x, p: lax.cond(p > 0, lambda y: y * 2, lambda y: y - 1, x), array("f32", 20, 150), array("f32")
    )
    c.add(
        "switch",
        lambda x, i: lax.switch(i, [lambda y: y * 2, lambda y: y - 1, jnp.tanh], x),
        array("f32", 20, 150),
        array("s32"),
    )
    c.add("map", lambda x: lax.map(lambda y: jnp.sort(y), x), array("f32", 4, 60))
    c.add("cumsum_scan", lambda x: lax.scan(lambda s, a: (s + a, s + a), jnp.float32(0), x)[1], array("f32", 50))
    c.add(
        "nested",
        lambda x: lax.fori_loop(0, 3, lambda i, s: lax.fori_loop(0, 2, lambda j, t: t * 0.5 + j, s) + i, x),
        array("f32", 9, 140),
    )
    c.add(
        "gru",
        lambda h, w, x: lax.scan(
            lambda s, a: (lambda z: (z * s + (1 - z) * jnp.tanh(a), z.sum()))(jax.nn.sigmoid(s @ w)), h, x
        ),
        array("f32", 4, 32),
        array("f32", 32, 32),
        array("f32", 6, 4, 32),
    )


def rng(c: Collector) -> None:
    key = array("u32", 2)
    c.add("bits", lambda k: jax.random.bits(jax.random.wrap_key_data(k), (20, 130)), key)
    c.add("uniform", lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (20, 130)), key)
    c.add("normal", lambda k: jax.random.normal(jax.random.wrap_key_data(k), (20, 130)), key)
    c.add("randint", lambda k: jax.random.randint(jax.random.wrap_key_data(k), (20, 130), 0, 100), key)
    c.add("split", lambda k: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), 4)), key)
    c.add(
        "dropout",
        lambda k, x: jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, (20, 130)), x, 0),
        key,
        array("f32", 20, 130),
    )
    c.add("permutation", lambda k, x: jax.random.permutation(jax.random.wrap_key_data(k), x), key, array("f32", 100))


FAMILIES = {"composite": composite, "loop": loop, "rng": rng}
