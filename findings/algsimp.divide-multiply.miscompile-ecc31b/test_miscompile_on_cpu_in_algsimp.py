"""MISCOMPILE on cpu, in algsimp.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(a):
    return lax.div(a, lax.div(a, a))


def test_miscompile_on_cpu_in_algsimp():
    arguments = (np.float32(-3.84e+24),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    got = np.asarray(outputs[0])
    for at, low, high in [((), -3.8400005e+24, -3.8399993e+24)]:
        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"
