"""XLA:CPU sums a transposed product of bf16 matrices in bf16, each partial sum rounded to eight bits; any other product
of bf16 is summed in f32. Wrong in jaxlib 0.12.0.1, right in 0.10.2, the ones tried.

    assay check findings/bf16_transposed_product.py

The transpose is folded into the dot after the pass that widens dots of bf16, and what comes out is not widened. Found
by `assay summarize` in a training step, where four gradients are made so; the step's own results stay inside their
bounds.
"""

import ml_dtypes
import numpy as np

RTOL = 2.0**-7


def transposed(a, b):
    return (a @ b).T


def plain(a, b):
    return a @ b


def cases():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((256, 64), (64, 256)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    yield "transposed", transposed, (a, b), exact.T.astype(ml_dtypes.bfloat16)
    yield "plain", plain, (a, b), exact.astype(ml_dtypes.bfloat16)
