"""On a TPU a grouped convolution hands an infinity or a NaN of one group on to all the others.

    assay check findings/tpu_group_nan.py --target tpu:v5e

The pass convolution-group-converter makes one convolution over all groups of it, whose filter is zero where two groups
meet; infinity times that zero is NaN. A group of its own never sees the others' values.
"""

import numpy as np
from jax import lax


def grouped(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2)


def cases():
    x = np.arange(1, 49, dtype=np.float32).reshape(2, 2, 3, 4)
    x[0, 0, 1, 1] = np.inf
    w = np.ones((4, 1, 1, 2), np.float32)
    sums = (x[..., :-1] + x[..., 1:]).repeat(2, axis=1)  # exact, also of bf16: whole numbers below 128
    yield "an infinity in the first of two groups", grouped, (x, w), sums
