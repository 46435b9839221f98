"""Listing 1 (4) of arXiv 2611.00624: the cumulative sum of a constant loses the narrowing convert of that constant.

1.75 converted to an integer is 1, and so the sums are 1, 2, 3, 4. XLA (libtpu 0.0.42 to 0.0.50.1, and XLA:CPU in jaxlib
0.10.2 to 0.11.2) makes iota times 1.75 of them. The constant stands in a nested jit: elsewhere the converts are folded
before any pass of the compiler sees them.

    assay passes examples/listing1_cumsum_convert.py --target tpu:v5e --toolchain jax==0.10.2,libtpu==0.0.42.1
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def sums(c, n):
    whole = lax.convert_element_type(lax.convert_element_type(lax.broadcast(c, (n,)), jnp.int32), jnp.float32)
    return lax.reduce_window(whole, np.float32(0), lax.add, (n,), (1,), [(n - 1, 0)])


def nested():
    return jax.jit(lambda c: sums(c, 4))(jnp.float32(1.75))


def carried(y):
    return lax.fori_loop(0, 3, lambda _, s: (s[0], s[1] + sums(s[0], 4)), (jnp.float32(1.75), y))[1]


def cases():
    yield "in a nested jit", nested, ()
    yield "carried by a loop", carried, (np.zeros(4, np.float32),)
