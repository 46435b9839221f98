"""FLUSHED_SUBNORMAL on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(a, div):
    return lax.div(div, lax.div(a, a))


def test_flushed_subnormal_on_cpu_in_code_generation():
    arguments = (np.float16(-0.00015187263), np.float16(-4.810095e-05))
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    got = np.asarray(outputs[0])
    for at, low, high in [((), -4.8160553e-05, -4.8041344e-05)]:
        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"
