"""XLA:CPU's numerics, measured.

Every figure is a largest error in ulps of the result, the final half ulp included, as `benchmarks/ulps.py` prints it:
x86-64 with AVX-512; 4.2 M f32 inputs spread over all exponents (uniform in each function's bends besides), every bf16
and f16 value, 2**18 f64 inputs; in vectors, in vectors of three, in scalar loops, and of the least of several arrays,
which is handed to YNNPACK with its own routines (0.10.2 and later). Complex types: relative to the
modulus, against mpmath. The policies allow `MARGIN` times what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.hlo.shape import DTYPES
from assay.reference.policy import Policy

MARGIN = 2.0

Figures = Mapping[str, Mapping[str, float]]

# jax 0.12.0.1. `logistic` is an opcode for old jax alone: 1 / (1 + exp(-x)), each step rounded to the type.
MEASURED: Figures = {
    "exponential":           {"f32": 1.02, "f64": 1.49, "bf16": 0.51, "f16": 0.51, "c64": 1.2, "c128": 1.2},
    "exponential-minus-one": {"f32": 1.64, "f64": 2.97, "bf16": 0.51, "f16": 0.51, "c64": 1.3, "c128": 1.8},
    "log":                   {"f32": 1.53, "f64": 1.75, "bf16": 0.51, "f16": 0.51, "c64": 1.2, "c128": 1.2},
    "log-plus-one":          {"f32": 2.76, "f64": 2.47, "bf16": 0.51, "f16": 1.87, "c64": 1.5, "c128": 1.5},
    "sqrt":                  {"f32": 0.50, "f64": 0.50, "bf16": 0.50, "f16": 0.50, "c64": 1.5, "c128": 1.5},
    "rsqrt":                 {"f32": 1.70, "f64": 1.48, "bf16": 0.51, "f16": 1.33, "c64": 2.1, "c128": 2.2},
    "cbrt":                  {"f32": 1.00, "f64": 3.20, "bf16": 0.51, "f16": 2.56},
    "tanh":                  {"f32": 4.95, "f64": 6.93, "bf16": 0.51, "f16": 0.51, "c64": 1.6, "c128": 1.8},
    "logistic":              {"f32": 2.31, "f64": 1.99, "bf16": 2.05, "f16": 1.94, "c64": 3.0, "c128": 3.8},
    "sine":                  {"f32": 2.25, "f64": 2.62, "bf16": 0.51, "f16": 0.51, "c64": 1.4, "c128": 1.4},
    "cosine":                {"f32": 2.39, "f64": 2.63, "bf16": 0.51, "f16": 0.51, "c64": 1.5, "c128": 1.5},
    "tan":                   {"f32": 3.93, "f64": 4.34, "bf16": 0.51, "f16": 1.64, "c64": 1.8, "c128": 1.9},
    "erf":                   {"f32": 6.66, "f64": 3.12, "bf16": 0.51, "f16": 0.51},
    "atan2":                 {"f32": 5.34, "f64": 3.50, "bf16": 0.51, "f16": 0.51},  # by a constant 1; else 1.48
    # x**3 may become x * x * x: one rounding more than the routine's own. Complex: ulps for each unit of |b log a| +
    # |b|.
    "power":                 {"f32": 1.00, "f64": 1.00, "bf16": 1.00, "f16": 1.00, "c64": 1.5, "c128": 1.5},
    "divide":                {"c64": 1.2,  "c128": 1.4},
    "abs":                   {"f32": 1.10, "f64": 1.10},  # of complex numbers
    "sign":                  {"c64": 1.3,  "c128": 1.3},
}  # fmt: skip

# In scalar code XLA:CPU takes the cube root as exp(log(x) / 3): 9.3 ulps at 2**120, 118 at 2**1021.
PER_OCTAVE: Figures = {"cbrt": {"f32": 0.125, "f64": 0.12}}

# The opcodes themselves, which JAX does not use: sinh(y) as (exp(y) - exp(-y)) / 2, which cancels.
ABSOLUTE: Figures = {opcode: {"c64": 0.5, "c128": 0.5} for opcode in ("sine", "cosine")}

# What was larger in jax 0.4.13, 0.6.2 or 0.10.2 than it is in 0.12.0.1.
OLDER: Figures = {
    "exponential-minus-one": {"f32": 5.70, "f64": 4.04, "bf16": 0.51, "f16": 2.11, "c64": 2.0, "c128": 2.0},
    "log-plus-one":          {"f32": 2.76, "f64": 128.3, "bf16": 0.51, "f16": 1.87, "c64": 4.0, "c128": 80.0},
    "erf":                   {"f32": 6.66, "f64": 3.12, "bf16": 0.51, "f16": 0.51},
    "tanh":                  {"f32": 4.95, "f64": 6.93, "bf16": 0.51, "f16": 0.51, "c64": 2.6, "c128": 2.6},
    "abs":                   {"f32": 1.10, "f64": 1.10},
}  # fmt: skip
OLDER_NEAR_OVERFLOW: Figures = {"exponential": {"f32": 5.3}, "exponential-minus-one": {"f32": 5.3}}
# Complex functions by their textbook formulas, which cancel: exp(z) - 1, (exp(iz) - exp(-iz)) / 2i, log |z| next to 1.
OLDER_ABSOLUTE: Figures = {
    opcode: {"c64": 1.0, "c128": 1.0}
    for opcode in ("exponential-minus-one", "log", "log-plus-one", "sine", "cosine", "tan", "tanh")
}


def allowed(measured: Figures) -> Figures:
    """The error beyond the final half ulp, with the margin; for f64 at least what NumPy's own midpoint needs. The 8-bit
    types are computed in f16 or f32.
    """
    narrow = {name: 0.1 for name, dtype in DTYPES.items() if dtype.is_float and dtype.bits <= 8}
    least = {"f64": 1.0, "c128": 1.0}
    return {
        opcode: (narrow if "bf16" in row else {})
        | {name: max(MARGIN * (ulps - 0.5), least.get(name, 0.0)) for name, ulps in row.items()}
        for opcode, row in measured.items()
    }


def widened(measured: Figures) -> Figures:
    """Errors that come on top of the others, with the margin."""
    return {opcode: {name: MARGIN * ulps for name, ulps in row.items()} for opcode, row in measured.items()}


# Measured on jaxlib 0.4.13, 0.6.2, 0.10.2 and 0.12.0.1: sums of 4,096 bf16 or f16 terms in dots, convolutions,
# reductions and windows are off by at most 5 units of the narrow roundoff, so they are accumulated in f32.
WIDE_SUMS = {name: "f32" for name in DTYPES if DTYPES[name].is_float and DTYPES[name].bits < 32}

XLA_CPU = Policy(
    "xla-cpu",
    accumulate=WIDE_SUMS,
    ulps=allowed(MEASURED),
    per_octave=widened(PER_OCTAVE),
    absolute=widened(ABSOLUTE),
)
XLA_CPU_OLDER = Policy(
    "xla-cpu before 0.12",
    accumulate=WIDE_SUMS,
    ulps=allowed({**MEASURED, **OLDER}),
    per_octave=widened(PER_OCTAVE),
    near_overflow=widened(OLDER_NEAR_OVERFLOW),
    absolute=widened(OLDER_ABSOLUTE),
    merges_exponentials=True,  # dropped in 0.11.2
)
