"""A scatter whose index vectors have no component puts every update at the same place; XLA:CPU spreads them out.
Wrong in jaxlib 0.10.2 and 0.12.0.1, the two tried; the StableHLO interpreter agrees with assay.

    assay check findings/scatter_empty_index_vector.py

Two updates of one row each into f32[2,3]: both belong to row 0. The first algebraic simplification takes updates of the
operand's own shape for one whole window and drops the scatter. A sibling of openxla/xla#48716.
"""

import numpy as np
from jax import lax

DIMS = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=())


def add(x, update):
    return lax.scatter_add(x, np.zeros((2, 0), np.int32), update, DIMS, mode="drop")


def cases():
    update = np.float32([[1, 2, 3], [10, 20, 30]])
    want = np.float32([[11, 22, 33], [0, 0, 0]])
    yield "two rows to one place", add, (np.zeros((2, 3), np.float32), update), want
