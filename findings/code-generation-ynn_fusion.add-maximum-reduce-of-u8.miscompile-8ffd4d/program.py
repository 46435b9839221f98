"""Sums and products of 8-bit integers saturate in place of wrapping around where XLA:CPU hands the reduction behind
them to the YNNPACK library: `jnp.max(a + b)` of uint8 is 255 wherever some a + b goes past 255.

Wrong in jaxlib 0.10.2 and 0.12.0.1, for s8 and u8, maximum and minimum; 16 and 32 bits are right. The optimized HLO is
right: its fusion of kind `__ynn_fusion` is not. Found by `assay fuzz` among its first hundred programs.

    assay check findings/eight_bit_saturates.py
    assay passes findings/eight_bit_saturates.py
"""

import jax.numpy as jnp
import numpy as np


def largest_sum(a, b):
    return jnp.max(a + b, axis=1)


def smallest_product(a, b):
    return jnp.min(a * b, axis=1)


def cases():
    rng = np.random.default_rng(0)
    for dtype in (np.uint8, np.int8):
        ends = np.iinfo(dtype)
        a, b = rng.integers(ends.min, ends.max, (2, 7, 18, 84), endpoint=True).astype(dtype)
        yield f"max of a sum, {dtype.__name__}", largest_sum, (a, b), (a + b).max(1)
        yield f"min of a product, {dtype.__name__}", smallest_product, (a, b), (a * b).min(1)
