"""crash on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")


def program(x):
    return lax.concatenate([x, x], 1)


def test_crash_on_cpu_in_code_generation():
    try:
        done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        done = None
    assert done is not None, "no end"
    assert done.returncode >= 0, done.stderr[-2000:]  # else a signal ended it
    done.check_returncode()


if __name__ == "__main__":
    arguments = (np.array([[0]], jnp.int2),)
    jax.block_until_ready(jax.jit(program)(*arguments))
