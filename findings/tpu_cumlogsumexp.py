"""On a TPU v6e or 7x a cumulative log-sum-exp along a dimension of one ends the compiler when something elementwise follows.

    assay check findings/tpu_cumlogsumexp.py --target tpu:v6e

The pass tpu_fusion asks its cost model for the reduction's computation, which it does not know: "Reduction Function not
modeled: Please file an XLA bug" (cost_model.cc). Those of v4, v5e and v5p compile it, and along longer dimensions all do.
"""

import numpy as np
from jax import lax


def program(x):
    return lax.abs(lax.cumlogsumexp(x, axis=1))


def cases():
    x = np.float32([[-1.0], [2.0]])
    yield "a dimension of one", program, (x,), np.abs(x)
