"""MISCOMPILE on cpu, in code generation.
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


def program(x, filter):
    return lax.conv_general_dilated(x, filter, (1,), [(0, 0)], dimension_numbers=lax.ConvDimensionNumbers((0, 1, 2),
        (1, 0, 2), (0, 1, 2)), batch_group_count=3)


def test_miscompile_on_cpu_in_code_generation():
    arguments = (np.zeros((6, 1, 4), np.float32), np.array([[[0, 0], [np.nan, 0], [0, 0]]], np.float32))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), unpack("c-muNU}#`~;{){wj4V!A4FKGQ4SN", np.float32, 2, 3, 3))
