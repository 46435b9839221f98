"""Figure 4 of arXiv 2611.00624 (section 3.2.2): what is lost when x goes through f16, computed inside one fusion.

By default XLA:TPU keeps x at f32 and skips the rounding: the result is 0.0 everywhere, and the kernel has no rounding
in it. Without excess precision it is NumPy's, bit for bit.

    FILE=examples/figure4_excess_precision.py:lost
    assay check $FILE --target tpu:v5e --through llo --policy strict          # EXCESS_PRECISION: all zero
    assay check $FILE --target tpu:v5e --through llo --option xla_allow_excess_precision=false
    assay llo run $FILE --target tpu:v5e --trace figure4.html                 # each value in the kernel
"""

import jax.numpy as jnp
import numpy as np


def lost(x):
    return x - x.astype(jnp.float16).astype(jnp.float32)


def example_args():
    return (np.random.default_rng(0).standard_normal((64, 256), np.float32),)
