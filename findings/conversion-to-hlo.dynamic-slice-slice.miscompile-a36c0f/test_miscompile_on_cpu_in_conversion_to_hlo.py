"""MISCOMPILE on cpu, in conversion to HLO.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(p87_3):
    return lax.dynamic_slice_p.bind(p87_3, np.uint8(254), slice_sizes=(1,))


def test_miscompile_on_cpu_in_conversion_to_hlo():
    arguments = (np.array([0, 1], np.int32),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), np.array([1], np.int32))
