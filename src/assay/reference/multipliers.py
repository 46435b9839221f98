"""What a target's multiplier leaves out of the operands of dots and convolutions: by the algorithm that the program
asks for, else by the policy.
"""

from __future__ import annotations

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.reference.context import Context
from assay.reference.value import Array, Ball

# Precision algorithm -> how far it may be off, relative to the sum of |a||b| (xla_data.proto,
# PrecisionConfig.Algorithm): an operand is a sum of one, two or three bf16 (u = 2^-8) or tf32 (u = 2^-11) parts, and
# products of small parts are left out.
ALGORITHM_ERROR = {
    "dot_any_f8_any_f32": 0.0,
    "dot_any_f8_any_f32_fast_accum": 2.0**-12,
    "dot_f16_f16_f16": 2.0**-9,
    "dot_f16_f16_f32": 2.0**-9,
    "dot_bf16_bf16_bf16": 2.0**-6,
    "dot_bf16_bf16_f32": 2.0**-6,
    "dot_bf16_bf16_f32_x3": 2.0**-14,
    "dot_bf16_bf16_f32_x6": 2.0**-21,
    "dot_bf16_bf16_f32_x9": 2.0**-22,
    "dot_tf32_tf32_f32": 2.0**-9,
    "dot_tf32_tf32_f32_x3": 2.0**-20,
    "dot_f32_f32_f32": 0.0,
    "dot_f64_f64_f64": 0.0,
}


def operand_error(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> float:
    """How far the products may be off for what is left out of the operands, relative to the sum of |a||b|: as the
    algorithm says that the program asks for, else as the policy does for the precision of each operand.
    """
    name = attributes.word(instr, "algorithm", "dot_any")
    if name not in ("dot_any", "unset", "dot_unset", "ALG_UNSET"):
        if name not in ALGORITHM_ERROR:
            raise Unsupported(instr.opcode, f"algorithm={name}")
        return ALGORITHM_ERROR[name]
    if not ctx.policy.products or (ctx.plain and not a.dtype.is_complex):
        return 0.0
    precisions = attributes.precision(instr) or ("default", "default")
    losses = [ctx.policy.operand_loss(precision, x.dtype.name) for precision, x in zip(precisions, (a, b), strict=True)]
    if all(loss is None or _fits(x, loss.fraction_bits) for loss, x in zip(losses, (a, b), strict=True)):
        return 0.0
    return max(loss.error for loss in losses if loss is not None)


def _fits(x: Ball, fraction_bits: int) -> bool:
    """Whether every element is exact and has no more bits after the point than these."""
    if x.rad is not None:
        return False
    parts = (x.mid.real, x.mid.imag) if x.dtype.is_complex else (x.mid,)
    return all(_short(np.asarray(part), fraction_bits) for part in parts)


def _short(mid: Array, fraction_bits: int) -> bool:
    scaled = np.ldexp(np.frexp(mid)[0], fraction_bits + 1)
    return bool(((np.rint(scaled) == scaled) | ~np.isfinite(mid)).all())
