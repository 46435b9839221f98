"""jax.random: bits, distributions, permutations. A key is two drawn words, or is fixed in the program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import random

from programs import Entry, entries

KEY = "u32:2"


def of(function, *arguments, **more):
    """function(key, *arguments), for the row's type where it takes one."""
    return lambda key: function(key, *arguments, **more)


BY_KEY = [
    ("bits",              of(random.bits, (257,)),                        KEY, "u32"),
    ("bits of 8",         of(random.bits, (257,), jnp.uint8),             KEY, "u8"),
    ("bits of 16",        of(random.bits, (257,), jnp.uint16),            KEY, "u16"),
    ("split",             of(random.split, 17),                           KEY, "u32"),
    ("fold_in",           lambda key: random.fold_in(key, 7),             KEY, "u32"),
    ("uniform",           of(random.uniform, (257,)),                     KEY, "f32"),
    ("uniform bf16",      of(random.uniform, (257,), jnp.bfloat16),       KEY, "bf16"),
    ("uniform f16",       of(random.uniform, (257,), jnp.float16),        KEY, "f16"),
    ("uniform in [-3, 5)", of(random.uniform, (257,), minval=-3, maxval=5), KEY, "f32"),
    ("normal",            of(random.normal, (257,)),                      KEY, "f32"),
    ("normal bf16",       of(random.normal, (257,), jnp.bfloat16),        KEY, "bf16"),
    ("normal f16",        of(random.normal, (257,), jnp.float16),         KEY, "f16"),
    ("normal c64",        of(random.normal, (129,), jnp.complex64),       KEY, "c64"),
    ("many normals",      of(random.normal, (200, 500)),                  KEY, "f32"),
    ("truncated_normal",  of(random.truncated_normal, -2.0, 1.0, (257,)), KEY, "f32"),
    ("randint",           of(random.randint, (257,), 0, 1000),            KEY, "s32"),
    ("randint s8",        of(random.randint, (257,), -9, 10, jnp.int8),   KEY, "s8"),
    ("randint u16",       of(random.randint, (257,), 0, 999, jnp.uint16), KEY, "u16"),
    ("bernoulli",         of(random.bernoulli, 0.3, (257,)),              KEY, "pred"),
    ("rademacher",        of(random.rademacher, (257,)),                  KEY, "s32"),
    ("permutation",       of(random.permutation, 65),                     KEY, "s32"),
    ("exponential",       of(random.exponential, (257,)),                 KEY, "f32"),
    ("laplace",           of(random.laplace, (257,)),                     KEY, "f32"),
    ("cauchy",            of(random.cauchy, (257,)),                      KEY, "f32"),
    ("gumbel",            of(random.gumbel, (257,)),                      KEY, "f32"),
    ("logistic",          of(random.logistic, (257,)),                    KEY, "f32"),
    ("pareto",            of(random.pareto, 3.0, (257,)),                 KEY, "f32"),
    ("rayleigh",          of(random.rayleigh, 1.5, (257,)),               KEY, "f32"),
    ("weibull_min",       of(random.weibull_min, 1.5, 2.0, (257,)),       KEY, "f32"),
    ("maxwell",           of(random.maxwell, (129,)),                     KEY, "f32"),
    ("lognormal",         of(random.lognormal, 0.5, (257,)),              KEY, "f32"),
    ("double_sided_maxwell", of(random.double_sided_maxwell, 0.5, 1.0, (65,)), KEY, "f32"),
    ("triangular",        of(random.triangular, -1.0, 0.5, 2.0, (257,)),  KEY, "f32"),
    ("gamma",             of(random.gamma, 2.5, (33,)),                   KEY, "f32"),
    ("loggamma",          of(random.loggamma, 0.7, (33,)),                KEY, "f32"),
    ("beta",              of(random.beta, 2.0, 3.0, (33,)),               KEY, "f32"),
    ("chisquare",         of(random.chisquare, 3.0, shape=(33,)),         KEY, "f32"),
    ("f",                 of(random.f, 3.0, 5.0, shape=(17,)),            KEY, "f32"),
    ("t",                 of(random.t, 4.0, (33,)),                       KEY, "f32"),
    ("wald",              of(random.wald, 1.5, (33,)),                    KEY, "f32"),
    ("poisson",           of(random.poisson, 3.5, (33,)),                 KEY, "s32"),
    ("binomial",          of(random.binomial, 9, 0.3, (33,)),             KEY, "f32"),
    ("geometric",         of(random.geometric, 0.3, (129,)),              KEY, "s32"),
    ("dirichlet",         lambda key: random.dirichlet(key, jnp.full(5, 1.5), (9,)), KEY, "f32"),
    ("choice",            of(random.choice, 33, (9,), replace=False),     KEY, "s32"),
    ("orthogonal",        lambda key: jnp.abs(jnp.linalg.det(random.orthogonal(key, 4))), KEY, "f32"),
    ("ball",              of(random.ball, 3, shape=(33,)),                KEY, "f32"),
    ("multivariate_normal", lambda key: random.multivariate_normal(key, jnp.zeros(3), jnp.eye(3) + 0.5, (33,)),
                            KEY, "f32"),
    ("generalized_normal", of(random.generalized_normal, 1.5, (17,)),     KEY, "f32"),
    ("monte carlo pi",    lambda key: jnp.mean((random.uniform(key, (1000, 2)) ** 2).sum(1) < 1), KEY, "f32"),
    ("fixed key",         lambda x: x + random.normal(random.key(3), (33, 65), x.dtype), "33x65", "f32 bf16"),
    ("random walk",       lambda x: x + jnp.cumsum(random.normal(random.key(5), (257,))), "257", "f32"),
    ("two streams",       lambda key: [random.normal(k, (33,)) for k in random.split(key)], KEY, "f32"),
    ("vmap over keys",    lambda key: jax.vmap(lambda k: random.uniform(k, (9,)))(random.split(key, 17)), KEY, "f32"),
]  # fmt: skip

BY_VALUES = [
    ("categorical",       lambda x, key: random.categorical(key, x),      "33x17 u32:2", "f32 bf16"),
    ("gumbel softmax",    lambda x, key: jax.nn.softmax(x + random.gumbel(key, x.shape, x.dtype)),
                          "33x17 u32:2", "f32 bf16"),
    ("dropout",           lambda x, key: jnp.where(random.bernoulli(key, 0.9, x.shape), x / 0.9, 0), "33x65 u32:2",
                          "f32 bf16 f16"),
    ("noise",             lambda x, key: x + 0.1 * random.normal(key, x.shape, x.dtype),
                          "33x65 u32:2", "f32 bf16 f16 f64"),
    ("shuffle",           lambda x, key: random.permutation(key, x),      "65 u32:2", "f32 s32 u8"),
    ("bootstrap",         lambda x, key: x[random.randint(key, (9, 65), 0, 65)].mean(1), "65 u32:2", "f32"),
    ("weighted choice",   lambda x, key: random.choice(key, 17, (33,), p=jax.nn.softmax(x)), "17 u32:2", "f32"),
    ("reparameterised",   lambda m, s, key: m + jnp.exp(s) * random.normal(key, m.shape, m.dtype),
                          "65 65 u32:2", "f32 f64"),
    ("dropout gradient",  lambda x, key: jax.grad(lambda y: jnp.sum(
                              jnp.where(random.bernoulli(key, 0.8, y.shape), y, 0) ** 2))(x), "33x65 u32:2", "f32"),
    ("metropolis",        lambda x, key: jnp.where(jnp.log(random.uniform(key, x.shape)) < -x * x, -x, x),
                          "257 u32:2", "f32"),
    ("normal f64",        lambda x, key: x * random.normal(key, (257,), x.dtype), "- u32:2", "f64"),
    ("uniform f64",       lambda x, key: x * random.uniform(key, (257,), x.dtype), "- u32:2", "f64"),
    ("bits of 64",        lambda x, key: x ^ random.bits(key, (129,), x.dtype), "- u32:2", "u64"),
    ("randint s64",       lambda x, key: x + random.randint(key, (129,), -5, 2**40, x.dtype), "- u32:2", "s64"),
    ("rbg bits",          lambda x: random.bits(random.wrap_key_data(x, impl="rbg"), (129,)), "u32:4", "u32"),
    ("rbg uniform",       lambda x: random.uniform(random.wrap_key_data(x, impl="rbg"), (129,)), "u32:4", "f32"),
]  # fmt: skip


def programs() -> list[Entry]:
    return [*entries("jax.random", BY_KEY), *entries("jax.random", BY_VALUES)]
