"""Mismatches that are explained."""

from __future__ import annotations

EXPLAINED: dict[str, str] = {
    "elementwise_rem_f32": (
        "XLA:TPU's remainder of f32 is |x| - floor(|x| * (1 / |y|)) * |y|, two products rounded to f32: a result that "
        "is exact in IEEE 754, and in HLO on every other backend, is off by some units in the last place of x"
    ),
    **dict.fromkeys(
        ("elementwise_rem_bf16", "elementwise_rem_f16"),
        "edges: by the same formula the remainder by an infinity is NaN, and that of a large quotient inf or 0",
    ),
    **dict.fromkeys(
        ("elementwise_div_f32", "elementwise_div_bf16"),
        "edges: the reciprocal of more than 2^126 is subnormal, and the simulated EUP has none, so max / max is 0; "
        "that libtpu mends the quotient by 2^126 itself, and in f32 infinities, says that the hardware has none either",
    ),
    **dict.fromkeys(
        ("matmul_f32_16x16x16", "matmul_f32_33x5x77", "matmul_bias_relu", "convolution_one_f32"),
        "edges: an f32 next to the largest is infinite as a bf16, which is what the MXU takes, if it rounds to nearest",
    ),
    "scatter_mul": "edges: factors in another order, of which one overflows or is 0: inf * 0 for inf",
}  # fmt: skip
"""Name of the case -> why its result lies outside the bound though the simulator is not at fault; `edges` what shows
with --input-class edges alone.
"""
