"""Shift the rows of an array down by one, in place. XLA:CPU gets it wrong in jaxlib 0.4.35 and every later release
tried (to 0.12.0.1): the update is read from the buffer that is being overwritten (openxla/xla#49176).

    assay check examples/shift_rows.py
"""

import numpy as np


def shift_rows(x):
    doubled = x * 2
    shifted = doubled.at[1:].set(doubled[:-1])
    return shifted.reshape((1, *doubled.shape))


def cases():
    """Cases for assay: (name, function, arguments, what the author expects, or None)."""
    for rows in (8, 32):
        x = np.arange(rows * 16, dtype=np.int32).reshape(rows, 16)
        expected = x * 2
        expected[1:] = (x * 2)[:-1]
        yield f"{rows} rows", shift_rows, (x,), expected[None]
