"""MISCOMPILE on cpu, in apply-xla-transforms.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(x):
    return lax.div(x, lax.full((1,), 3e+38, np.float32))


def test_miscompile_on_cpu_in_apply_xla_transforms():
    arguments = (np.array([2e+38], np.float32),)
    outputs = jax.tree_util.tree_leaves(jax.jit(program)(*arguments))
    got = np.asarray(outputs[0])
    for at, low, high in [((0,), 0.6666666, 0.6666667)]:
        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"
