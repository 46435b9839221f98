"""An associative scan of which one slice is taken ends the TPU's compiler: fusion_emitter.cc finds no window for the
fusion of a strided slice and an addition, and a check fails. The scan alone, and a cumsum, compile.

    assay check findings/tpu_associative_scan.py --target tpu:v5e
"""

import jax
import jax.numpy as jnp
from jax import lax


def first_of_a_scan(x):
    return lax.associative_scan(jnp.add, x)[:, 0]


def cases():
    for dims in ((5, 3, 15, 3), (9, 3, 15, 3), (5, 3, 15, 128)):
        yield f"of {dims}", jax.jit(first_of_a_scan), (jax.ShapeDtypeStruct(dims, jnp.float32),)
