"""MISCOMPILE on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(arguments_0, clamp):
    return lax.clamp(lax.full((2,), -1, jnp.int2), arguments_0, clamp)


def test_miscompile_on_cpu_in_code_generation():
    arguments = (np.zeros((2,), jnp.int2), np.zeros((2,), jnp.int2))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0], np.int8), np.zeros((2,), np.int8))
