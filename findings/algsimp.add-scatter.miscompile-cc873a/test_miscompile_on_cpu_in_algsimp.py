"""MISCOMPILE on cpu, in algsimp.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(x, update):
    return lax.scatter_add(x, np.zeros((2, 0), np.int32), update, lax.ScatterDimensionNumbers((1,), (0,), ()),
        mode="drop")


def test_miscompile_on_cpu_in_algsimp():
    arguments = (np.zeros((2, 1), np.float32), np.array([[0], [1]], np.float32))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), np.array([[1], [0]], np.float32))
