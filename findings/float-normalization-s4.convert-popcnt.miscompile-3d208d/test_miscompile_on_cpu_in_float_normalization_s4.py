"""MISCOMPILE on cpu, in float-normalization-s4.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(x):
    return lax.population_count(x)


def test_miscompile_on_cpu_in_float_normalization_s4():
    arguments = (np.array([-1], jnp.int4),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0], np.int8), np.array([4], np.int8))
