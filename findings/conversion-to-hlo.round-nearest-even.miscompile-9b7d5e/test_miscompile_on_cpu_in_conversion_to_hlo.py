"""MISCOMPILE on cpu, in conversion to HLO.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program():
    return lax.round(np.array([1], jnp.float8_e3m4), lax.RoundingMethod.TO_NEAREST_EVEN)


def test_miscompile_on_cpu_in_conversion_to_hlo():
    arguments = ()
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0], np.float32), np.array([1], np.float32))
