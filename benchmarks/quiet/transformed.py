"""jax's transformations and control flow: vmap, jvp, vjp, hessians, scan, while, cond, checkpoint, custom rules."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from programs import Entry, entries, gradient

A = "17x33"
AA = "17x33 17x33"
V = "33"
REAL = "f32 bf16 f64"


def f(x):
    return jnp.sum(jnp.tanh(x) ** 2 + x * jnp.sin(x))


@jax.custom_jvp
def safe_log(x):
    return jnp.log(jnp.maximum(x, 1e-3))


@safe_log.defjvp
def _safe_log_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return safe_log(x), t / jnp.maximum(x, 1e-3)


@jax.custom_vjp
def straight_through(x):
    return jnp.round(x)


straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g,))


def newton_sqrt(x):
    def body(state):
        k, y = state
        return k + 1, 0.5 * (y + (jnp.abs(x) + 1) / y)

    return lax.while_loop(lambda state: state[0] < 8, body, (0, jnp.abs(x) + 1))[1]


def collatz(x):
    def body(state):
        n, k = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

    return lax.while_loop(lambda s: (s[0] > 1) & (s[1] < 50), body, (jnp.abs(x) + 1, 0))[1]


def power_iteration(a, v):
    symmetric = a + a.T
    step = lambda _, u: symmetric @ u / jnp.linalg.norm(symmetric @ u)  # noqa: E731
    return lax.fori_loop(0, 5, step, v / jnp.linalg.norm(v))


def kalman(x):
    def step(state, z):
        m, p = state
        k = p / (p + 0.5)
        return (m + k * (z - m), (1 - k) * p + 0.1), m

    zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    return lax.scan(step, (zero, one), x)[1]


def leapfrog(q, p):
    def step(state, _):
        q, p = state
        p = p - 0.05 * q * (q * q - 1)
        q = q + 0.1 * p
        return (q, p - 0.05 * q * (q * q - 1)), q

    return lax.scan(step, (q, p), None, length=10)


def runge_kutta(x):
    def step(_, y):
        g = lambda v: jnp.sin(v) - 0.1 * v  # noqa: E731
        k1 = g(y)
        k2 = g(y + 0.05 * k1)
        k3 = g(y + 0.05 * k2)
        k4 = g(y + 0.1 * k3)
        return y + (k1 + 2 * k2 + 2 * k3 + k4) * (0.1 / 6)

    return lax.fori_loop(0, 6, step, x)


def heat(x):
    return lax.fori_loop(0, 9, lambda _, u: u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])), x)


def life(x):
    around = sum(jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | (x.astype(bool) & (around == 2))).astype(x.dtype)


def edit_distance(a, b):
    def row(previous, c):
        def cell(left, above):
            up, corner, d = above
            best = jnp.minimum(jnp.minimum(left, up) + 1, corner + (c % 4 != d % 4))
            return best, best

        first = previous[0] + 1
        _, rest = lax.scan(cell, first, (previous[1:], previous[:-1], b))
        current = jnp.concatenate((first[None], rest))
        return current, None

    return lax.scan(row, jnp.arange(b.size + 1, dtype=jnp.int32), a)[0][-1]


def layers(x, w):
    return lax.scan(jax.checkpoint(lambda h, v: (jnp.tanh(h @ v), None)), x, w)[0]


def nested(x):
    return lax.fori_loop(0, 3, lambda i, v: lax.fori_loop(0, 2, lambda j, u: u * 0.9 + j, v), x)


def sieve(n):
    numbers = jnp.arange(129)
    prime = lambda i, s: s & ((numbers % i != 0) | (numbers == i))  # noqa: E731
    return lax.fori_loop(2, 12, prime, jnp.ones(129, bool)) & (n > -999)


def viterbi(x, t):
    def step(score, row):
        paths = score[:, None] + t
        return jnp.max(paths, 0) + row, jnp.argmax(paths, 0)

    return lax.scan(step, x[0], x[1:])


DERIVATIVES = [
    ("grad",             jax.grad(f),                                        A, "f32 bf16 f16 f64"),
    ("value_and_grad",   jax.value_and_grad(f),                              A, REAL),
    ("jvp",              lambda x, t: jax.jvp(f, (x,), (t,)),                AA, REAL),
    ("vjp",              lambda x, t: jax.vjp(jnp.tanh, x)[1](t),            AA, REAL),
    ("linearize",        lambda x, t: jax.linearize(jnp.sin, x)[1](t),       AA, "f32"),
    ("hessian",          jax.hessian(f),                                     "9", "f32 f64"),
    ("hessian vector",   lambda x, t: jax.jvp(jax.grad(f), (x,), (t,))[1],   AA, "f32 bf16"),
    ("jacfwd",           jax.jacfwd(lambda x: x / (1 + jnp.sum(x * x))),     "9", "f32 f64"),
    ("jacrev",           jax.jacrev(jax.nn.softmax),                         "9", "f32 bf16"),
    ("third derivative", jax.vmap(jax.grad(jax.grad(jax.grad(jnp.tanh)))),   V, "f32 f64"),
    ("laplacian",        lambda x: jnp.trace(jax.hessian(f)(x)),             "9", "f32"),
    ("grad of grad norm", gradient(lambda x: jnp.sum(jax.grad(f)(x) ** 2)),  "17", "f32"),
    ("custom_jvp",       gradient(safe_log),                                 A, "f32 bf16"),
    ("custom_vjp",       gradient(lambda x: straight_through(x * 3) ** 2),   A, "f32"),
    ("checkpoint",       gradient(jax.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))), A, "f32 bf16"),
    ("checkpointed layers", gradient(layers, (0, 1)),                        "9x8 4x8x8", "f32 bf16"),
    ("stop_gradient",    gradient(lambda x: x * lax.stop_gradient(jnp.exp(x))), A, "f32"),
    ("complex grad",     jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2)),       A, "c64 c128"),
    ("holomorphic grad", lambda z: jax.vmap(jax.grad(jnp.sin, holomorphic=True))(z), V, "c64"),
]  # fmt: skip

MAPS = [
    ("vmap of a dot",    jax.vmap(jnp.dot),                                  AA, "f32 bf16 s32 c64"),
    ("vmap of sort",     jax.vmap(jnp.sort, 1, 1),                           A, "f32 bf16 s8"),
    ("vmap of take",     jax.vmap(lambda x, i: x[i % 33]),                   "17x33 s32:17x5", "f32 s8"),
    ("vmap of scatter",  jax.vmap(lambda x, i, y: x.at[i % 33].add(y)),      "17x33 s32:17x5 17x5", "f32 bf16 s32"),
    ("vmap of a slice",  jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (7,))), "17x33 s32:17", "f32 u8"),
    ("vmap of solve",    jax.vmap(lambda a, b: jnp.linalg.solve(a @ a.T / 5 + jnp.eye(5), b)), "7x5x5 7x5", "f32"),
    ("vmap of conv",     jax.vmap(lambda x, k: jnp.convolve(x, k)),          "9x33 9x5", "f32 bf16"),
    ("vmap of cond",     jax.vmap(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)), A, "f32"),
    ("vmap of while",    jax.vmap(collatz),                                  V, "s32"),
    ("per example grads", jax.vmap(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w))), (None, 0)), "8x5 9x8", "f32 bf16"),
    ("vmap in scan",     lambda x: lax.scan(lambda c, r: (c + r, jax.vmap(jnp.sin)(c)), x[0], x)[1], A, "f32"),
    ("vectorize",        jnp.vectorize(lambda x, y: jnp.dot(x, y), signature="(n),(n)->()"), AA, "f32"),
    ("lax.map",          lambda x: lax.map(lambda r: jnp.sum(r * r), x),     A, "f32 bf16 s32"),
    ("pairwise kernel",  lambda x, y: jax.vmap(lambda a: jax.vmap(lambda b: jnp.exp(-jnp.sum((a - b) ** 2)))(y))(x),
                         "17x5 9x5", "f32 bf16 f64"),
]  # fmt: skip

LOOPS = [
    ("scan",             lambda x: lax.scan(lambda c, r: (0.5 * c + r, c.sum()), x[0], x), A, "f32 bf16 f64"),
    ("scan of ints",     lambda x: lax.scan(lambda c, r: (c * 3 + r, c), x[0], x), A, "s32 u8 s8"),
    ("reversed scan",    lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x, reverse=True), A, "f32 bf16"),
    ("unrolled scan",    lambda x: lax.scan(lambda c, r: (c * 0.9 + r, c), x[0], x, unroll=4), A, "f32"),
    ("fori_loop",        lambda x: lax.fori_loop(0, 7, lambda i, v: v * 0.7 + i, x), A, "f32 f64"),
    ("newton square root", newton_sqrt,                                      A, "f32 f64"),
    ("collatz",          jax.vmap(collatz),                                  "65", "s32"),
    ("power iteration",  power_iteration,                                    "9x9 9", "f32"),
    ("kalman filter",    kalman,                                             "65", "f32 f64"),
    ("leapfrog",         leapfrog,                                           "17 17", "f32 f64"),
    ("runge kutta",      runge_kutta,                                        A, "f32 bf16"),
    ("heat equation",    heat,                                               "65", "f32 bf16 f64"),
    ("game of life",     life,                                               A, "s32 u8"),
    ("edit distance",    edit_distance,                                      "s32:9 s32:12", "s32"),
    ("viterbi",          viterbi,                                            "12x5 5x5", "f32"),
    ("cond",             lambda x: lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v - 1, x), A, "f32 s32"),
    ("switch",           lambda i, x: lax.switch(i % 3, [jnp.sin, jnp.cos, jnp.tanh], x), "s32:- 17x33", "f32 bf16"),
    ("nested loops",     nested,                                             A, "f32"),
    ("iterated map",     lambda x: lax.fori_loop(0, 5, lambda _, v: 3.2 * v * (1 - v), jax.nn.sigmoid(x)),
                         A, "f32 f64"),
    ("binary search",    lambda x, y: lax.fori_loop(0, 9, lambda _, s: (
                             jnp.where(jnp.sort(x)[(s[0] + s[1]) // 2] < y, (s[0] + s[1]) // 2, s[0]),
                             jnp.where(jnp.sort(x)[(s[0] + s[1]) // 2] < y, s[1], (s[0] + s[1]) // 2)), (0, 255))[1],
                         "256 -", "f32 s32"),
    ("sieve",            sieve,                                              "s32:-", "s32"),
    ("crc",              lambda x: lax.fori_loop(0, 8, lambda _, c: (c >> 1) ^ (jnp.uint32(0xEDB88320) * (c & 1)), x),
                         V, "u32"),
    ("xorshift",         lambda x: lax.fori_loop(0, 4, lambda _, s: (s ^ (s << 13)) ^ ((s ^ (s << 13)) >> 17), x),
                         V, "u32 u64"),
    ("grad scan",        gradient(lambda x: lax.scan(lambda c, r: (jnp.tanh(c * 0.5 + r), c), x[0], x)[1]),
                         A, "f32 bf16"),
    ("grad newton",      gradient(lambda x: lax.fori_loop(0, 4, lambda _, y: 0.5 * (y + (x * x + 1) / y), x * x + 1)),
                         A, "f32"),
    ("grad cond",        gradient(lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)), A, "f32"),
    ("grad leapfrog",    gradient(lambda q, p: leapfrog(q, p)[1], (0, 1)),   "9 9", "f32"),
    ("grad kalman",      gradient(kalman),                                   V, "f32"),
    ("custom_root",      lambda x: lax.custom_root(lambda y: y**3 + y - x, x, lambda g, y: lax.fori_loop(
                             0, 8, lambda _, v: v - g(v) / (3 * v * v + 1), y), lambda g, y: y / g(jnp.ones_like(y))),
                             V, "f32"),
    ("jit in jit",       lambda x: jax.jit(partial(jnp.multiply, 2))(jax.jit(jnp.sin)(x)), A, "f32 bf16"),
]  # fmt: skip


def programs() -> list[Entry]:
    return [entry for table in (DERIVATIVES, MAPS, LOOPS) for entry in entries("transformations", table)]
