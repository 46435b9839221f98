"""Mismatches that are explained."""

from __future__ import annotations

EXPLAINED: dict[str, str] = {
    "elementwise_rem_f32": (
        "XLA:TPU's remainder of f32 is |x| - floor(|x| * (1 / |y|)) * |y|, two products rounded to f32: a result that "
        "is exact in IEEE 754, and in HLO on every other backend, is off by some units in the last place of x"
    ),
}  # fmt: skip
"""Name of the case -> why its result lies outside the bound though the simulator is not at fault."""
