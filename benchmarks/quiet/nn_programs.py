"""jax.nn: activations, losses, layers, and whole blocks of them with their gradients."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax, nn

from programs import Entry, entries, gradient

A = "33x65"
NARROW = "f32 bf16 f16"
FLOAT = "f32 bf16 f16 f64"

ACTIVATIONS = [
    ("relu",         nn.relu,                                  A, f"{FLOAT} s32"),
    ("relu6",        nn.relu6,                                 A, "f32 bf16"),
    ("sigmoid",      nn.sigmoid,                               A, FLOAT),
    ("softplus",     nn.softplus,                              A, FLOAT),
    ("soft_sign",    nn.soft_sign,                             A, "f32 bf16"),
    ("silu",         nn.silu,                                  A, FLOAT),
    ("gelu",         nn.gelu,                                  A, FLOAT),
    ("exact gelu",   lambda x: nn.gelu(x, approximate=False),  A, FLOAT),
    ("elu",          nn.elu,                                   A, NARROW),
    ("selu",         nn.selu,                                  A, NARROW),
    ("celu",         nn.celu,                                  A, "f32 bf16"),
    ("leaky_relu",   nn.leaky_relu,                            A, NARROW),
    ("hard_tanh",    nn.hard_tanh,                             A, "f32 f16"),
    ("hard_sigmoid", nn.hard_sigmoid,                          A, "f32 bf16"),
    ("hard_swish",   nn.hard_swish,                            A, "f32 bf16"),
    ("log_sigmoid",  nn.log_sigmoid,                           A, NARROW),
    ("mish",         nn.mish,                                  A, NARROW),
    ("squareplus",   nn.squareplus,                            A, "f32 bf16"),
    ("sparse_plus",  nn.sparse_plus,                           A, "f32"),
    ("identity",     nn.identity,                              A, "f32"),
    ("glu",          nn.glu,                                   "33x64", NARROW),
    ("softmax",      nn.softmax,                               A, FLOAT),
    ("softmax columns", lambda x: nn.softmax(x, 0),            A, "f32 bf16"),
    ("masked softmax", lambda x: nn.softmax(x, where=x > -1),  A, "f32 bf16"),
    ("log_softmax",  nn.log_softmax,                           A, FLOAT),
    ("logsumexp",    lambda x: nn.logsumexp(x, 1),             A, NARROW),
    ("logmeanexp",   lambda x: nn.logmeanexp(x, 1),            A, "f32"),
    ("standardize",  nn.standardize,                           A, FLOAT),
    ("one_hot",      lambda i: nn.one_hot(i % 10, 10),         "257", "s32 u8"),
    ("softmax of many", nn.softmax,                            "16x4096", "f32 bf16"),
    *[(f"grad {f.__name__}", gradient(f), A, "f32 bf16")
      for f in (nn.relu, nn.sigmoid, nn.softplus, nn.silu, nn.gelu, nn.elu, nn.selu, nn.log_sigmoid, nn.mish)],
    ("grad softmax", gradient(lambda x: nn.softmax(x) ** 2),   A, FLOAT),
    ("grad log_softmax", gradient(lambda x: nn.log_softmax(x)[:, 3]), A, FLOAT),
    ("grad standardize", gradient(lambda x: nn.standardize(x) ** 3), A, NARROW),
]  # fmt: skip


def layer_norm(x, g, b):
    centred = x - x.mean(-1, keepdims=True)
    return g * centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) + b


def rms_norm(x, g):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * g


def group_norm(x, groups=4):
    n, h, w, c = x.shape
    grouped = x.reshape(n, h, w, groups, c // groups)
    mean, var = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
    return ((grouped - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape)


def batch_norm(x, g, b):
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(var + 1e-3) * g + b


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.asarray(q.shape[-1] ** 0.5, q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)


def causal(q, k, v):
    scores = jnp.einsum("qd,kd->qk", q, k) * 0.25
    mask = jnp.tril(jnp.ones(scores.shape, bool))
    return nn.softmax(jnp.where(mask, scores, -1e4)) @ v


def rotary(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[0])[:, None] / 100.0 ** (jnp.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    return jnp.concatenate((a * cos - b * sin, a * sin + b * cos), -1)


def lstm(x, h, c, w, u):
    def cell(state, row):
        h, c = state
        i, f, g, o = jnp.split(row @ w + h @ u, 4)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, (h, c), x)[1]


def gru(x, h, w, u):
    def cell(h, row):
        r, z, n = jnp.split(row @ w, 3)
        a, b, c = jnp.split(h @ u, 3)
        r, z = nn.sigmoid(r + a), nn.sigmoid(z + b)
        h = (1 - z) * jnp.tanh(n + r * c) + z * h
        return h, h

    return lax.scan(cell, h, x)[1]


def block(x, wq, wk, wv, wo, w1, w2):
    y = layer_norm(x, 1, 0)
    x = x + causal(y @ wq, y @ wk, y @ wv) @ wo
    return x + nn.gelu(layer_norm(x, 1, 0) @ w1) @ w2


def cnn(x, w1, w2, w3):
    x = nn.relu(lax.conv_general_dilated(x, w1, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    x = nn.relu(lax.conv_general_dilated(x, w2, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.mean((1, 2)) @ w3


def mixture(x, gate, w):
    weights, chosen = lax.top_k(nn.softmax(x @ gate), 2)
    return jnp.einsum("bk,bkio,bi->bo", weights, w[chosen], x)


def cross_entropy(x, labels):
    return -jnp.take_along_axis(nn.log_softmax(x), labels[:, None] % x.shape[-1], 1).mean()


def divergence(x, y):
    return jnp.sum(nn.softmax(x) * (nn.log_softmax(x) - nn.log_softmax(y)), 1)


def huber(x, y):
    off = jnp.abs(x - y)
    return jnp.mean(jnp.where(off < 1, 0.5 * off**2, off - 0.5))


def logistic_loss(x, w, y):
    z = x @ w
    return jnp.mean(jnp.maximum(z, 0) - z * (y > 0) + jnp.log1p(jnp.exp(-jnp.abs(z))))


def ctc_like(x):
    return lax.associative_scan(jnp.logaddexp, nn.log_softmax(x), axis=0)[-1]


BLOCK = "9x16 16x16 16x16 16x16 16x16 16x32 32x16"
LSTM = "12x8 16 16 8x64 16x64"
GRU = "12x8 16 8x48 16x48"
CNN = "2x9x9x3 3x3x3x6 3x3x6x8 8x5"

LAYERS = [
    ("layer norm",         layer_norm,                         "17x33 33 33", FLOAT),
    ("rms norm",           rms_norm,                           "17x33 33", NARROW),
    ("group norm",         group_norm,                         "2x5x5x16", "f32 bf16"),
    ("batch norm",         batch_norm,                         "4x5x5x8 8 8", NARROW),
    ("attention",          attention,                          "2x9x3x16 2x9x3x16 2x9x3x16", FLOAT),
    ("causal attention",   causal,                             "17x16 17x16 17x16", NARROW),
    ("dot_product_attention", nn.dot_product_attention,        "2x9x3x16 2x9x3x16 2x9x3x16", "f32 bf16"),
    ("causal dot_product_attention", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
                                                               "2x9x3x16 2x9x3x16 2x9x3x16", "f32 bf16"),
    ("linear attention",   lambda q, k, v: nn.softmax(q) @ (nn.softmax(k, 0).T @ v), "33x16 33x16 33x16", NARROW),
    ("rotary embedding",   rotary,                             "17x16", NARROW),
    ("embedding",          lambda t, i: t[i % 65] * 8,         "65x17 s32:33", "f32 bf16"),
    ("lstm",               lstm,                               LSTM, "f32 bf16"),
    ("gru",                gru,                                GRU, "f32 f64"),
    ("transformer block",  block,                              BLOCK, NARROW),
    ("cnn",                cnn,                                CNN, "f32 bf16"),
    ("mixture of experts", mixture,                            "17x9 9x4 4x9x5", "f32"),
    ("swiglu",             lambda x, w, v, o: (nn.silu(x @ w) * (x @ v)) @ o, "9x16 16x32 16x32 32x16", NARROW),
    ("dropout by a mask",  lambda x, m: jnp.where(m, x / 0.9, 0), "33x65 pred:33x65", NARROW),
    ("avg pool",           lambda x: lax.reduce_window(x, jnp.asarray(0, x.dtype), lax.add, (1, 2, 2, 1), (1, 2, 2, 1),
                                                       "VALID") / 4, "2x8x8x5", NARROW),
    ("cross entropy",      cross_entropy,                      "33x17 s32:33", FLOAT),
    ("cross entropy of one-hot", lambda x, i: -(nn.one_hot(i % 17, 17, dtype=x.dtype) * nn.log_softmax(x)).sum(1),
                                                               "33x17 s32:33", NARROW),
    ("logistic loss",      logistic_loss,                      "33x9 9 33", FLOAT),
    ("mse",                lambda x, y: jnp.mean((x - y) ** 2), "33x65 33x65", FLOAT),
    ("huber",              huber,
                                                               "33x65 33x65", NARROW),
    ("hinge",              lambda x, y: jnp.mean(jnp.maximum(0, 1 - x * jnp.sign(y))), "33x65 33x65", "f32 bf16"),
    ("kl of softmaxes",    divergence,
                                                               "17x33 17x33", NARROW),
    ("cosine similarity",  lambda x, y: jnp.sum(x * y, 1) / (jnp.linalg.norm(x, axis=1) * jnp.linalg.norm(y, axis=1)),
                                                               "17x33 17x33", NARROW),
    ("contrastive",        lambda x, y: cross_entropy(x @ y.T, jnp.arange(17)), "17x33 17x33", "f32 bf16"),
    ("forward sums",       ctc_like,                           "17x9", "f32"),
    ("focal loss",         lambda x: jnp.mean((1 - nn.sigmoid(x)) ** 2 * nn.log_sigmoid(x)), A, "f32 bf16"),
    ("label smoothing",    lambda x, i: -((nn.one_hot(i % 17, 17) * 0.9 + 0.1 / 17) * nn.log_softmax(x)).sum(1).mean(),
                                                               "33x17 s32:33", "f32"),
    ("grad layer norm",    gradient(lambda *a: layer_norm(*a) ** 2, (0, 1, 2)), "17x33 33 33", FLOAT),
    ("grad rms norm",      gradient(lambda *a: rms_norm(*a) ** 2, (0, 1)), "17x33 33", "f32 bf16"),
    ("grad batch norm",    gradient(lambda *a: batch_norm(*a) ** 3, (0, 1, 2)), "4x5x5x8 8 8", "f32 bf16"),
    ("grad attention",     gradient(attention, (0, 1, 2)),     "2x9x3x16 2x9x3x16 2x9x3x16", NARROW),
    ("grad causal attention", gradient(lambda *a: causal(*a) ** 2, (0, 1, 2)), "17x16 17x16 17x16", "f32 bf16"),
    ("grad lstm",          gradient(lstm, (1, 3, 4)),          LSTM, "f32"),
    ("grad gru",           gradient(gru, (1, 2, 3)),           GRU, "f32 bf16"),
    ("grad transformer block", gradient(lambda *a: block(*a) ** 2, (0, 1, 2, 3, 4, 5, 6)), BLOCK, NARROW),
    ("grad cnn",           gradient(lambda *a: cnn(*a) ** 2, (1, 2, 3)), CNN, "f32 bf16"),
    ("grad cross entropy", gradient(cross_entropy),            "33x17 s32:33", FLOAT),
    ("grad logistic loss", gradient(logistic_loss, 1),         "33x9 9 33", FLOAT),
    ("grad embedding",     gradient(lambda t, i: t[i % 65] ** 2), "65x17 s32:33", "f32 bf16"),
    ("grad kl",
                           gradient(divergence, (0, 1)),
                                                               "17x33 17x33", "f32 bf16"),
    ("grad mixture",       gradient(lambda *a: mixture(*a) ** 2, (1, 2)), "17x9 9x4 4x9x5", "f32"),
    ("grad swiglu",        gradient(lambda x, w, v, o: ((nn.silu(x @ w) * (x @ v)) @ o) ** 2, (1, 2, 3)),
                                                               "9x16 16x32 16x32 32x16", "f32 bf16"),
]  # fmt: skip


def programs() -> list[Entry]:
    return [*entries("jax.nn", ACTIVATIONS), *entries("jax.nn", LAYERS)]
