"""The gradient of a max pool in one dimension has whatever lies in the padding of its operands in its last elements.

The kernel of select-and-scatter goes on with windows that begin behind the last one, in the padding of the tile: where
such a window selects an element of the array, what the padding of the source holds is added to it. The HLO is right
after every pass: it shows below, in what libtpu 0.0.42.1 and 0.0.52 make of it for v5e, and 0.0.52 for v6e. A length
of 126 or 128, whose tile ends with the array, is right.

    assay check findings/tpu_max_pool_gradient.py --target tpu:v5e --through llo
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "VALID")


@jax.jit
def gradient(x):
    return jax.grad(lambda x: jnp.sum(pool(x)))(x)


def cases():
    yield "of 10", gradient, (np.sin(np.arange(10, dtype=np.float32)),)
    yield "of 130", gradient, (np.sin(np.arange(130, dtype=np.float32)),)
    yield "ascending", gradient, (np.arange(10, dtype=np.float32),)
