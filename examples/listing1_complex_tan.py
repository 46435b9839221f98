"""Listing 1 (1) of arXiv 2611.00624: complex tan overflows on the way to a result of modest size.

tan(x + iy) for large y is a quotient of exponentials that leave f32; the quotient itself tends to +-i. XLA:TPU's
expansion (libtpu up to 0.0.50.1 for tan, up to 0.0.47.1 for tanh) divides them as they are.

    assay passes examples/listing1_complex_tan.py --target tpu:v5e --toolchain jax==0.11.1,libtpu==0.0.46
"""

import jax.numpy as jnp
import numpy as np


def cases():
    yield "tan", jnp.tan, (np.array([45j, -1 - 45j, 1 + 2j], np.complex64),)
    yield "tanh", jnp.tanh, (np.array([43.9, 44.0, 44.3 + 1j, 45.0], np.complex64),)
