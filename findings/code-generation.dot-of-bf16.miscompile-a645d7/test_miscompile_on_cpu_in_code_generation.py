"""MISCOMPILE on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import base64
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def unpack(text, dtype, *shape):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)


def program(a, b):
    return lax.transpose(lax.dot_general(a, b, (((1,), (0,)), ((), ()))), (1, 0))


def test_miscompile_on_cpu_in_code_generation():
    arguments = (unpack("c-rm30Sy2E2m_!uvzpOAa|k2=00000000000000000000000000000000000005jFKQ9YFzX1", jnp.bfloat16,
        256, 64), unpack("c-muN7#`r39eEG{a)lnD", jnp.bfloat16, 64, 2))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    got = np.asarray(outputs[0], np.float32)
    for at, low, high in [((0, 252), 5.9375, 5.96875), ((0, 253), 5.9375, 5.96875), ((0, 254), 5.9375, 5.96875), ((0,
        255), 5.9375, 5.96875), ((1, 252), 5.9375, 5.96875), ((1, 253), 5.9375, 5.96875)]:
        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"
