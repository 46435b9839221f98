"""The targets' numerics as data: `for_target(name)` gives the policy of a target.

Ulps are what a target's own routine may be off beyond the final rounding, in units in the last place of the result type.
"""

from __future__ import annotations

from assay.errors import AssayError
from assay.hlo.shape import DTYPES
from assay.reference.policy import Policy

MARGIN = 2.0

# Largest error in ulps, the final half ulp included. How measured: benchmarks/ulps.py on x86-64 with AVX-512, the largest of jax 0.4.13,
# 0.6.2, 0.10.2 and 0.12.0.1, over 4.2 M f32 inputs spread over all exponents, every bf16 and f16 value and 2**18 f64 inputs; in
# vectors, in vectors of three and in scalar loops. Complex types: relative to the modulus, 2**18 inputs.
XLA_CPU_MEASURED: dict[str, dict[str, float]] = {
    "exponential":           {"f32":  5.22, "f64":   1.49, "bf16": 0.51, "f16": 0.51},
    "exponential-minus-one": {"f32":  5.61, "f64":   4.04, "bf16": 0.51, "f16": 2.11},
    "log":                   {"f32":  1.12, "f64":   0.52, "bf16": 0.51, "f16": 0.51},
    "log-plus-one":          {"f32":  2.48, "f64": 128.30, "bf16": 0.51, "f16": 1.87},
    "sqrt":                  {"f32":  0.50, "f64":   0.50, "bf16": 0.50, "f16": 0.50},
    "rsqrt":                 {"f32":  1.70, "f64":   1.48, "bf16": 0.51, "f16": 1.33},
    "cbrt":                  {"f32": 14.91, "f64": 117.80, "bf16": 0.51, "f16": 2.52},
    "tanh":                  {"f32":  4.32, "f64":   6.93, "bf16": 0.51, "f16": 0.51},
    "logistic":              {"f32":  2.31, "f64":   1.99, "bf16": 2.05, "f16": 1.94},
    "sine":                  {"f32":  0.56, "f64":   0.52, "bf16": 0.51, "f16": 0.51},
    "cosine":                {"f32":  0.56, "f64":   0.52, "bf16": 0.51, "f16": 0.51},
    "tan":                   {"f32":  1.79, "f64":   1.79, "bf16": 0.51, "f16": 1.55},
    "erf":                   {"f32":  5.11, "f64":   1.00, "bf16": 0.51, "f16": 0.51},
    "atan2":                 {"f32":  1.47, "f64":   0.52, "bf16": 0.51, "f16": 0.51},
    # x**3 may become x * x * x: one rounding more than the routine's own.
    "power":                 {"f32":  1.00, "f64":   1.00, "bf16": 1.00, "f16": 1.00},
}  # fmt: skip


def allowed(measured: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Measured errors with the final half ulp taken off and the margin put on; at least what NumPy's midpoint needs for f64."""
    return {
        opcode: {name: max(MARGIN * (ulps - 0.5), 1.0 if name == "f64" else 0.0) for name, ulps in row.items()}
        for opcode, row in measured.items()
    }


# Measured on jaxlib 0.4.13, 0.6.2, 0.10.2 and 0.12.0.1: sums of 4,096 bf16 or f16 terms in dots, convolutions, reductions and
# windows are off by at most 5 units of the narrow roundoff, so they are accumulated in f32.
WIDE_SUMS = {name: "f32" for name in DTYPES if DTYPES[name].is_float and DTYPES[name].bits < 32}

XLA_CPU = Policy("xla-cpu", accumulate=WIDE_SUMS, ulps=allowed(XLA_CPU_MEASURED))

STRICT = Policy(
    "strict", excess_precision=False, flush_subnormals=True, accumulate=WIDE_SUMS, ulps=allowed(XLA_CPU_MEASURED)
)  # every declared rounding happens; routines and subnormals as on XLA:CPU

_BY_TARGET = {"cpu": XLA_CPU}


def for_target(target: str) -> Policy:
    """The policy of a target's ordinary compilation. Raises AssayError for a target that has none."""
    if target not in _BY_TARGET:
        raise AssayError(f"no numerics policy for the target {target!r}; there is one for {', '.join(sorted(_BY_TARGET))}")
    return _BY_TARGET[target]
