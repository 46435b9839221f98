"""XLA:CPU on integers of 2 and 4 bits. Wrong in jaxlib 0.10.2 and 0.12.0.1, the two tried.

    assay check findings/narrow_integers.py

popcnt of a negative s4 counts the sign bits of the byte that holds it. sort of s2 and u2 gives what is no permutation
of its operand, another one each time. clamp of s2 between constants gives the lower bound everywhere. concatenate of s2
aborts the compiler (ir_array.cc, `bit_offset != nullptr`). A dot of s4 into s32 and topk of s4 are refused, for the s32
keeps the layout's E(4).
"""

import jax.numpy as jnp
import numpy as np
from jax import lax


def int4(*values):
    return np.array(values, np.int8).astype(jnp.int4)


def int2(*values):
    return np.array(values, np.int8).astype(jnp.int2)


def as_bytes(function):
    """The result widened, so that the wrong value and not the way it is handed out is what is seen."""
    return lambda *arguments: function(*arguments).astype(jnp.int8)


def cases():
    yield "popcnt of s4", lax.population_count, (int4(-5, -1, -8, 3),), int4(3, 4, 1, 2)
    if not hasattr(jnp, "int2"):
        return
    yield "sort of s2", lax.sort, (int2(1, -2, 0, -1, 1, 0),), int2(-2, -1, 0, 0, 1, 1)
    low, high = jnp.int2(-1), jnp.int2(1)
    yield "clamp of s2", as_bytes(lambda x: lax.clamp(low, x, high)), (int2(-2, -1, 0, 1),), np.int8([-1, -1, 0, 1])
    yield "concatenate of s2", lambda x: jnp.concatenate([x, x], 1), (np.zeros((3, 5)).astype(jnp.int2),), None
    ones = np.ones((3, 5)).astype(jnp.int4)
    wide = jnp.int32
    yield "dot of s4", lambda x: lax.dot(x, x.T, preferred_element_type=wide), (ones,), np.full((3, 3), 5, np.int32)
    yield "topk of s4", lambda x: lax.top_k(x, 2), (np.arange(8).astype(jnp.int4),), None
