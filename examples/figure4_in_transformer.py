"""Figure 4 of arXiv 2611.00624 in its place: what is lost when activations go through f16, in one layer of several.

    assay isolate examples/figure4_in_transformer.py:forward --target tpu:v5e

XLA:TPU skips the rounding inside one fusion, whose result is 0.0 everywhere: of all kernels that one is ranked first.
"""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, LENGTH, WIDTH, HEADS = 3, 128, 128, 2


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attend(x, w):
    q, k, v = (jnp.einsum("ld,dhe->lhe", x, w[name]) for name in "qkv")
    weights = jax.nn.softmax(jnp.einsum("lhe,mhe->hlm", q, k) / (WIDTH // HEADS) ** 0.5)
    return jnp.einsum("hlm,mhe->lhe", weights, v).reshape(x.shape)


def forward(x, layers):
    lost = jnp.zeros_like(x)
    for number, w in enumerate(layers):
        x = x + attend(norm(x), w)
        x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
        if number == LAYERS // 2:
            lost = x - x.astype(jnp.float16).astype(jnp.float32)
    return x, lost


def example_args():
    rng = np.random.default_rng(0)

    def matrix(*dims):
        return (rng.standard_normal(dims) / np.sqrt(dims[0])).astype(np.float32)

    heads = (WIDTH, HEADS, WIDTH // HEADS)
    layers = [
        {"q": matrix(*heads), "k": matrix(*heads), "v": matrix(*heads)}
        | {"up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]
    return matrix(LENGTH, WIDTH), layers
