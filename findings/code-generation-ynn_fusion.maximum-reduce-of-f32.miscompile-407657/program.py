"""The maximum of an array with a NaN in it is a number: reductions that XLA:CPU hands to the YNNPACK library drop every
NaN. `jnp.max` and `jnp.min` of 64 by 64 elements in f32 and f64 are such reductions.

Right in jaxlib 0.10.1 and before; wrong in 0.10.2, 0.11.0, 0.11.2 and 0.12.0.1, at every level of optimisation. The
optimized HLO is right: it has a fusion of kind `__ynn_fusion`, whose code is wrong.

    assay check findings/maximum_drops_nan.py
    assay passes findings/maximum_drops_nan.py
"""

import jax.numpy as jnp
import numpy as np


def largest(x):
    return jnp.max(x, axis=0)


def smallest(x):
    return jnp.min(x)


def cases():
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    x[3, 5] = np.nan
    yield "max", largest, (x,), np.max(x, axis=0)
    yield "min", smallest, (x,), np.min(x)
