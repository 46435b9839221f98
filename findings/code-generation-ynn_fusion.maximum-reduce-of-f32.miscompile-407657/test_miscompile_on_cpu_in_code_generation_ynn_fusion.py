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


def program(x):
    return lax.reduce(x, np.float32("-inf"), lax.max, (0,))


def test_miscompile_on_cpu_in_code_generation_ynn_fusion():
    arguments = (unpack("c-rmIK@9)^2*j{+4$_du7Yig^QUgoU0gfpT00000004l8BuSDaNs=T<k|ase^A`1^0Q>", np.float32, 64, 64),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), unpack("c-muNU}#{#zz6CXu!;{q3;>XaAiw", np.float32, 64))
