"""One training step of a small transformer block, in bfloat16 with float32 parameters.

    assay check examples/train_step.py:step

Arguments are given as shapes: assay draws values that fit.
"""

import jax
import jax.numpy as jnp

WIDTH, HEADS, LENGTH, BATCH, CLASSES = 64, 4, 32, 2, 100


def block(params, x):
    def norm(y):
        y32 = y.astype(jnp.float32)
        mean, var = y32.mean(-1, keepdims=True), y32.var(-1, keepdims=True)
        return ((y32 - mean) * jax.lax.rsqrt(var + 1e-5)).astype(y.dtype)

    q, k, v = jnp.split(norm(x) @ params["qkv"].astype(x.dtype), 3, -1)
    q, k, v = (t.reshape(BATCH, LENGTH, HEADS, -1) for t in (q, k, v))
    scores = jnp.einsum("blhd,bmhd->bhlm", q, k) / jnp.sqrt(jnp.asarray(WIDTH // HEADS, x.dtype))
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores.astype(jnp.float32), -1e9), -1).astype(x.dtype)
    x = x + jnp.einsum("bhlm,bmhd->blhd", weights, v).reshape(x.shape)
    return x + jax.nn.gelu(norm(x) @ params["up"].astype(x.dtype)) @ params["down"].astype(x.dtype)


def loss(params, tokens, targets):
    x = block(params, params["embedding"][tokens].astype(jnp.bfloat16))
    logits = x.astype(jnp.float32) @ params["embedding"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()


def step(params, momentum, tokens, targets):
    value, gradient = jax.value_and_grad(loss)(params, tokens, targets)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum, value


def example_args():
    def shape(*dims, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(dims, dtype)

    params = {
        "embedding": shape(CLASSES, WIDTH),
        "qkv": shape(WIDTH, 3 * WIDTH),
        "up": shape(WIDTH, 4 * WIDTH),
        "down": shape(4 * WIDTH, WIDTH),
    }
    tokens = shape(BATCH, LENGTH, dtype=jnp.int32)
    return params, params, tokens, tokens
