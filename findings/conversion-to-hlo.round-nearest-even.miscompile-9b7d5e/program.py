"""Rounding a constant of f8e3m4 to integers: XLA's constant folding makes NaN of every number. The same operation on an
argument is right.

    assay check findings/round_f8e3m4.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

VALUES = np.array([3.0, 1.0, 0.5, 2.5, -1.25])


def rounded(x):
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def of_a_constant():
    return rounded(jnp.asarray(VALUES, jnp.float8_e3m4))


def cases():
    yield "a constant", of_a_constant, ()
    yield "an argument", jax.jit(rounded), (VALUES.astype(jnp.float8_e3m4),)
