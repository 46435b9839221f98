"""Listing 1 (2) of arXiv 2611.00624, a sibling: a scatter whose indices are of 8 bits into more rows than those count.

An index is in bounds where it is at most the last row; XLA:TPU (libtpu up to 0.0.50.1) holds it against that row in the
type of the index, in which row 299 is 43, and drops the updates beyond. The paper's own form, `x.at[index].set` with an
int8 index on 300 rows, is refused by today's jax with an OverflowError.

    assay passes examples/listing1_narrow_scatter.py --target tpu:v5e --toolchain jax==0.10.2,libtpu==0.0.42.1
"""

import numpy as np
from jax import lax

ROWS = lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))


def add_at(x, index, update):
    return lax.scatter_add(x, index, update, ROWS)


def cases():
    x = np.arange(300, dtype=np.int32)
    for dtype, row in ((np.int8, 100), (np.uint8, 200), (np.int8, 5)):
        arguments = x, np.array([[row]], dtype), np.array([1000], np.int32)
        yield f"{np.dtype(dtype)} index {row}", add_at, arguments
