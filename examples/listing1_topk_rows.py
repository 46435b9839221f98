"""Listing 1 (3) of arXiv 2611.00624: the largest k over axis 0.

It agrees in every libtpu there is to try: HLO makes one `sort` of it in all of them, and that sort is right. What the
paper saw is either repaired or below HLO, in how the sort is carried out; `assay passes` does not look there.

    assay passes examples/listing1_topk_rows.py --target tpu:v5e
"""

import numpy as np
from jax import lax


def largest(x):
    return lax.top_k(x, 5, axis=0)


def cases():
    rng = np.random.default_rng(0)
    yield "f32", largest, (rng.permutation(1024).astype(np.float32).reshape(128, 8),)
    yield "equal values", largest, (rng.integers(0, 9, (128, 8)).astype(np.float32),)
