"""The targets' numerics as data: `for_target(name)` gives the policy of a target.

Ulps are what a target's own routine may be off beyond the final rounding, in units in the last place of the result type.
"""

from __future__ import annotations

from assay.errors import AssayError
from assay.reference.policy import Policy

# How measured: benchmarks/ulps.py on x86-64 with AVX-512, jax 0.4.13, 0.6.2, 0.10.2 and 0.12.0.1, the largest error of any of them over
# 4.2 M f32 inputs over all exponents, every bf16 and f16 value, 2**18 f64 inputs; vectors, vectors of three, scalars in a loop.
# A measured error of m ulps (the final half ulp included) is written as (m, margin 2): the routine is allowed 2 * m - 0.5.
MEASURED: dict[str, dict[str, float]] = {
    #                        f32           f64            bf16          f16           c64           c128
    "exponential":           {"f32": 5.22, "f64": 1.49,   "bf16": 0.51, "f16": 0.51},
}  # fmt: skip
