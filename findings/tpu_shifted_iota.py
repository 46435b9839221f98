"""An iota that a negative padding shifts is too large: `lax.pad(lax.iota(f32, 7), x, [(1, -1, 0)])` is x, 1024, 1025, ...

The kernel of the fusion of pad and slice counts from the next tile: to keep indices positive it adds the size of a tile
to them, and does not take it off again where the iota's values are made of them. By 1024 in one dimension, by 128 along
the lanes of two; in every type, in integers of 8 bits modulo 256. The HLO is right after every pass: it shows below,
in what libtpu 0.0.42.1, 0.0.50.1 and 0.0.52 make of it for v5e and v6e.

    assay check findings/tpu_shifted_iota.py --target tpu:v5e --through llo
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def in_a_line(x):
    return lax.pad(lax.iota(jnp.float32, 7), x, [(1, -1, 0)])


def along_the_lanes(x):
    return lax.pad(lax.broadcasted_iota(jnp.int32, (1, 7), 1), x, [(0, 0, 0), (1, -1, 0)])


def of_bytes(x):
    return lax.pad(lax.broadcasted_iota(jnp.int8, (1, 7), 1), x, [(0, 0, 0), (1, -1, 0)])


def cases():
    yield "in a line", jax.jit(in_a_line), (np.float32(-1),)
    yield "along the lanes", jax.jit(along_the_lanes), (np.int32(-1),)
    yield "of bytes", jax.jit(of_bytes), (np.int8(-1),)
