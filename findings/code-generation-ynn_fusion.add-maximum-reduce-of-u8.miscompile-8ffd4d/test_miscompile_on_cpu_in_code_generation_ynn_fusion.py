"""MISCOMPILE on cpu, in code generation (ynn_fusion).
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import base64
import zlib

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def unpack(text, dtype, *shape):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)


def program(a):
    return lax.reduce(lax.add(a, a), np.uint8(0), lax.max, (1,))


def test_miscompile_on_cpu_in_code_generation_ynn_fusion():
    arguments = (unpack("c-rmCF#!Mo3<4ngr!$ff7GQ9b00000pY<FAE8YOn", np.uint8, 7, 18, 33),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), unpack("c-muN7ztnj00D;pp#", np.uint8, 7, 33))
