"""MISCOMPILE on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(x):
    return lax.convert_element_type(x, np.int32)


def test_miscompile_on_cpu_in_code_generation():
    arguments = (np.array([-6], jnp.float4_e2m1fn),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), np.array([-6], np.int32))
