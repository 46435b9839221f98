"""exp and expm1 overflow half an octave early in reductions that XLA:CPU hands to the YNNPACK library: infinity from
sqrt(1/2) of the type's greatest power of two on, 2.4e38 for f32, where the type goes to 3.4e38. f32, f64 and bf16.

Wrong in jaxlib 0.10.2 and 0.12.0.1. The optimized HLO is right: its fusion of kind `__ynn_fusion` is not. A plain
`jnp.exp(x)` is right.

    assay check findings/exp_overflows_early.py
"""

import jax.numpy as jnp
import numpy as np

RTOL = 1e-6


def exponential(x):
    return jnp.exp(jnp.min(x, axis=0))


def minus_one(x):
    return jnp.expm1(jnp.min(x, axis=0))


def cases():
    x = np.full((3, 513, 9), 88.4, np.float32)
    x[:, ::2] = 80.0
    yield "exp", exponential, (x,), np.exp(x[0].astype(np.float64)).astype(np.float32)
    yield "expm1", minus_one, (x,), np.expm1(x[0].astype(np.float64)).astype(np.float32)
