"""MISCOMPILE on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(a, b):
    return lax.div(a, lax.div(b, b))


def test_miscompile_on_cpu_in_code_generation():
    arguments = (np.float16(-84), np.float16(-822))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    got = np.asarray(outputs[0])
    for at, low, high in [((), -84.125, -83.875)]:
        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"
