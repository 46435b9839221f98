"""A convolution in batch groups with one input feature: a NaN or an infinity in the filter of one group spreads to the
results of all others, which never read it. The pass convolution-group-converter makes one convolution of all groups,
whose filter meets what stands between the elements of the dilated operand.

XLA:CPU (jaxlib 0.10.2 and 0.12.0.1), in f32, bf16 and the 8-bit types, at every level of optimisation.

    assay check findings/batch_group_nan.py
"""

import numpy as np
from jax import lax

GROUPS = 3


def in_groups(x, filter):
    """Group g convolves x[2 g : 2 g + 2] with filter[:, g]."""
    return lax.conv_general_dilated(
        x, filter, (1,), "VALID", dimension_numbers=("NCH", "IOH", "NCH"), batch_group_count=GROUPS
    )


def cases():
    x = np.ones((2 * GROUPS, 1, 4), np.float32)
    for what in (np.nan, np.inf):
        filter = np.ones((1, GROUPS, 2), np.float32)
        filter[0, 1, 0] = what
        yield f"{what} in the filter of group 1", in_groups, (x, filter)
