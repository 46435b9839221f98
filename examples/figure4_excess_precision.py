"""Figure 4 of arXiv 2611.00624 (section 3.2.2): what is lost when x goes through f16, computed inside one fusion.

By default XLA:TPU keeps x at f32 and skips the rounding: the result is 0.0 everywhere, and the kernel has no rounding
in it. Without excess precision it is NumPy's, bit for bit.

    assay check examples/figure4_excess_precision.py --target tpu:v5e --through llo
    assay check examples/figure4_excess_precision.py --target tpu:v5e --through llo --option xla_allow_excess_precision=false
    assay llo run examples/figure4_excess_precision.py --target tpu:v5e --trace figure4.html
"""  # noqa: E501

import jax.numpy as jnp
import numpy as np


def lost(x):
    return x - x.astype(jnp.float16).astype(jnp.float32)


def example_args():
    return (np.random.default_rng(0).standard_normal((64, 256), np.float32),)
