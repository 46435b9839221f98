"""Honest programs on arrays where subnormals, zeros of both signs and small normals meet: a flushing target may tie
them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MIXED = np.float32([1e-40, 0, -1e-40, 5e-41, -0.0, 2e-38, -2e-41, 1, -1, 3e-39, -3e-38])

ONE = {
    "sort": jnp.sort,
    "argsort": jnp.argsort,
    "sort with payload": lambda x: lax.sort((x, x + 1), num_keys=1),
    "top_k": lambda x: lax.top_k(x, 5),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "argmax": lambda x: x.argmax(1),
    "cummax": lambda x: lax.cummax(x, 1),
    "median": lambda x: jnp.median(x, 1),
    "unique": lambda x: jnp.unique(x, size=20),
    "relu": jax.nn.relu,
    "sign": jnp.sign,
    "copysign": lambda x: jnp.copysign(1.0, x),
    "clip": lambda x: jnp.clip(x, -1e-40, 0.5),
    "window": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 1), "SAME"),
}
TWO = {
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "where": lambda x, y: jnp.where(x < y, x, y),
    "divide": jnp.divide,
    "multiply": jnp.multiply,
    "atan2": jnp.arctan2,
    "scatter": lambda x, y: jnp.zeros(5).at[jnp.arange(40) % 5].max(x[0] - y[0]),
}


def cases():
    rng = np.random.default_rng(0)
    x, y = rng.choice(MIXED, (6, 40)), rng.choice(MIXED, (6, 40))
    for name, function in ONE.items():
        yield name, function, (x,), None
    for name, function in TWO.items():
        yield name, function, (x, y), None
    few = np.float32([1e-40, 0, -1e-40, 5e-41, -0.0, 2e-38, -2e-41, 1])
    yield "few", jnp.sort, (few,), None
