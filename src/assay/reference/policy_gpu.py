"""XLA:GPU's numerics on NVIDIA devices, as far as they are published.

Nothing here is measured by us. Functions: the largest errors in ulps that NVIDIA gives for libdevice ("CUDA C++
Programming Guide", Mathematical Functions, tables of single and double precision), the final half ulp included. XLA has
polynomials of its own for some of them (tanh, erf, expm1, log1p; xla/service/elemental_ir_emitter.cc), the same as on
the CPU, so the larger of NVIDIA's figure and what is allowed there counts. Narrower types are computed in f32, or by
instructions of their own whose error we do not know: one ulp is allowed.
"""

from __future__ import annotations

from assay.reference.policy import Loss, Policy
from assay.reference.policy_cpu import (
    OLDER_ABSOLUTE,
    OLDER_NEAR_OVERFLOW,
    PER_OCTAVE,
    WIDE_SUMS,
    XLA_CPU_OLDER,
    Figures,
    widened,
)

LIBDEVICE: Figures = {
    "exponential":           {"f32": 2.0, "f64": 1.0},
    "exponential-minus-one": {"f32": 1.0, "f64": 1.0},
    "log":                   {"f32": 1.0, "f64": 1.0},
    "log-plus-one":          {"f32": 1.0, "f64": 1.0},
    "sqrt":                  {"f32": 1.0, "f64": 0.5},  # sqrt.approx where -nvptx-prec-sqrtf32=0
    "rsqrt":                 {"f32": 2.0, "f64": 1.0},
    "cbrt":                  {"f32": 1.0, "f64": 1.0},
    "tanh":                  {"f32": 2.0, "f64": 2.0},
    "sine":                  {"f32": 2.0, "f64": 2.0},
    "cosine":                {"f32": 2.0, "f64": 2.0},
    "tan":                   {"f32": 4.0, "f64": 2.0},
    "erf":                   {"f32": 2.0, "f64": 2.0},
    "atan2":                 {"f32": 3.0, "f64": 2.0},
    "power":                 {"f32": 8.0, "f64": 2.0},
    "divide":                {"f32": 2.0},  # div.full.f32: XLA sets -nvptx-prec-divf32=1 (llvm_gpu_backend.cc)
}  # fmt: skip


def _larger(*tables: Figures) -> Figures:
    """Row by row the largest figure; NVIDIA's taken as the error beyond the final rounding."""
    found: dict[str, dict[str, float]] = {}
    for table in tables:
        for opcode, row in table.items():
            kept = found.setdefault(opcode, {})
            kept.update({dtype: max(ulps, kept.get(dtype, 0.0)) for dtype, ulps in row.items()})
    return found


NARROW: Figures = {opcode: {"bf16": 1.0, "f16": 1.0} for opcode in LIBDEVICE if opcode not in ("sqrt", "divide")}

# f32 operands in TF32 (10 bits after the point) unless the precision is HIGHEST: xla/stream_executor/gpu/gpu_blas_lt.cc
# takes kTF32AsF32 for compute_precision <= 1. Two operands, each cut rather than rounded: 2 * 2**-10.
TF32 = {"f32": Loss(10, 2.0**-9), "c64": Loss(10, 2.0**-9)}

GPU = Policy(
    "gpu",
    flush_subnormals=False,  # --xla_gpu_ftz is false by default
    accumulate=WIDE_SUMS,  # gpu_blas_lt.cc: f16, bf16 and f8 with ComputationType::kF32
    products={"default": TF32, "high": TF32},
    ulps=_larger(XLA_CPU_OLDER.ulps, LIBDEVICE, NARROW),
    per_octave=widened(PER_OCTAVE),
    near_overflow=widened(OLDER_NEAR_OVERFLOW),
    absolute=widened(OLDER_ABSOLUTE),
    merges_exponentials=True,
)
