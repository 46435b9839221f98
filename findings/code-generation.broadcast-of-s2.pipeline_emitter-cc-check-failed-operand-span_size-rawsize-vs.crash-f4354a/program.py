"""Broadcasting 2-bit integers to 16 rows or more aborts libtpu after all HLO passes; fewer are refused in a message.
libtpu 0.0.42.1 and 0.0.52, v5e.

    assay check findings/tpu_two_bits.py --target tpu:v5e
"""

import jax.numpy as jnp
import numpy as np


def rows(x):
    return jnp.broadcast_to(x, (16, 65))


def cases():
    yield "s2", rows, (np.zeros(65, jnp.int2),)
