"""Rewritings that some released XLA gets wrong, each with what NumPy says. Which are wrong depends on the jaxlib at
hand.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X = np.arange(20, dtype=np.int32)


def nested_slices(x, outer, inner):
    """openxla/xla#49121: the outer start is not clamped before the two are merged."""
    return lax.dynamic_slice(lax.dynamic_slice(x, [outer], [6]), [inner], [4])


def narrow_scatter(x, index, update):
    """openxla/xla#48718: the bounds check is made in the index's own narrow type."""
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lax.scatter_add(x, index, update, dims)


def cropped_window(x):
    """openxla/xla#48715: a pad that crops is folded into the window's padding."""
    cropped = lax.pad(x, np.int32(0), [(0, 0, 0), (-1, 0, 0)])
    return lax.reduce_window(cropped, np.int32(0), lax.add, (1, 2), (1, 1), ((0, 0), (1, 0)))


def dilated_maximum(x):
    """openxla/xla#48714: a fast path forgets the base dilation."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (2, 1), ((0, 0), (0, 0)), base_dilation=(1, 2))


def log_of_exp(x):
    """openxla/xla#42732: log(exp(x)) becomes x although exp(x) overflows."""
    return jnp.log(jnp.exp(x))


def product_of_exps(x, y):
    """tensorflow#123169: exp(x) * exp(y) becomes exp(x + y); infinity times zero is NaN."""
    return jnp.exp(x) * jnp.exp(y)


def running_sum():
    """The paper's Listing 1 (4): a narrowing convert between a constant and its running sum is dropped."""

    def total(c):
        x = lax.broadcast(c, (4,)).astype(jnp.int32).astype(jnp.float32)
        return lax.reduce_window(x, np.float32(0), lax.add, (4,), (1,), [(3, 0)])

    return jax.jit(total)(jnp.float32(1.75))


def shifted_rows(x):
    """openxla/xla#49176: an update in place reads what it has just overwritten."""
    doubled = x * 2
    return doubled.at[1:].set(doubled[:-1]).reshape(1, *x.shape)


def cases():
    yield "nested slices", nested_slices, (X, np.int32(2), np.int32(9)), X[4:8]
    wide = np.arange(300, dtype=np.int32)
    added = wide.copy()
    added[200] += 1000
    yield "narrow scatter", narrow_scatter, (wide, np.array([[200]], np.uint8), np.array([1000], np.int32)), added
    yield "cropped window", cropped_window, (np.array([[669, -763]], np.int32),), np.array([[-763]], np.int32)
    x = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    dilated = np.full((32, 255), -np.inf, np.float32)
    dilated[:, ::2] = np.maximum(x[0::2], x[1::2])
    yield "dilated maximum", dilated_maximum, (x,), dilated
    yield "log of exp", log_of_exp, (np.float32([1, 89]),), np.float32([1, np.inf])
    yield "product of exps", product_of_exps, (np.float32(100), np.float32(-110)), np.float32("nan")
    yield "running sum", running_sum, (), np.float32([1, 2, 3, 4])
    rows = np.arange(128, dtype=np.int32).reshape(8, 16)
    moved = rows * 2
    moved[1:] = (rows * 2)[:-1]
    yield "shifted rows", shifted_rows, (rows,), moved[None]
