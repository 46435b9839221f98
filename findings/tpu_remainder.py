"""The remainder of f32 on a TPU is x - y * trunc(x / y), rounded at every step: where the quotient does not fit 24 bits
the result is any number, larger than the divisor or of the wrong sign, and below that its last digits are wrong. HLO's
is exact. It is the emitter of kernels that does it: every HLO snapshot is right. libtpu 0.0.42.1 and 0.0.52.

    assay check findings/tpu_remainder.py --target tpu:v5e --through llo
"""

import jax
import jax.numpy as jnp
import numpy as np


def cases():
    yield "whole numbers", jax.lax.rem, (np.float32([1e8, 1e9, 123456792, 16777216]), np.float32([3, 7, 10, 3]))
    yield "fmod", jnp.fmod, (np.float32([1e9, 5.3, 3.7]), np.float32([7, 0.1, 0.3]))
