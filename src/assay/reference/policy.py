"""What a target is allowed to do with numbers, as data.

Sources of the figures stand beside them. A policy is a promise to the user: a result outside it is called wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Loss:
    """What a multiplier leaves out of its operands.

    fraction_bits: operands with no more bits after the point than these, in binary floating point, lose nothing. error:
    how far off a sum of products of others may be for it, relative to the sum of |a||b|.
    """

    fraction_bits: int
    error: float


@dataclass(frozen=True, slots=True)
class Policy:
    """One target's numerics.

    excess_precision: a declared rounding to a narrower type may be skipped (xla_allow_excess_precision), that of a
    product that is added to something likewise (FMA).
    flush_subnormals: subnormal operands may be read as zero and subnormal results written as zero.
    accumulate: element type -> the narrowest type in which sums of products of it may be accumulated (dot,
    convolution).
    products: precision of an operand (`default`, `high`, `highest`) -> element type -> what dots and convolutions may
    leave out of it; nothing where there is no entry.
    ulps: opcode -> element type -> units in the last place that the target's own routine may be off; `default_ulps`
    elsewhere.
    near_overflow: likewise, for results within a factor of 8 of the largest finite value.
    per_octave: likewise, further ulps for every factor of two between the operand and 1.
    absolute: likewise, an error in ulps of 1 whatever the size of the result.
    merges_exponentials: exp(a) exp(b) may become exp(a + b), exp(a) / exp(b) and exp(a)**b likewise.
    flushes_reciprocals: a / b is a (1 / b), in f32, and 1 / b zero where it is subnormal: for |b| above 2**126.
    nan_minmax: `propagate` (NaN wins) or `either` (the other operand may win).
    confidence: accumulation bounds hold except with probability 2*exp(-confidence**2/2) a sum (Higham and Mary, 2019,
    "A New Approach to Probabilistic Rounding Error Analysis", Theorem 2.4); infinity asks for the deterministic n*u
    form.
    unknown: element types of which nothing is known; an operation that rounds to one is not judged.
    """

    name: str
    excess_precision: bool = True
    flush_subnormals: bool = True
    accumulate: Mapping[str, str] = field(default_factory=dict)
    products: Mapping[str, Mapping[str, Loss]] = field(default_factory=dict)
    ulps: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    near_overflow: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    per_octave: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    absolute: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    merges_exponentials: bool = False
    flushes_reciprocals: bool = False
    default_ulps: float = 4.0
    nan_minmax: str = "propagate"
    confidence: float = 8.0
    unknown: frozenset[str] = frozenset()

    def routine_ulps(self, opcode: str, dtype: str) -> float | None:
        """What the target's routine may be off beyond the final rounding, in ulps; None where it rounds correctly."""
        return self.ulps.get(opcode, {}).get(dtype, self.default_ulps) or None

    def division_ulps(self, dtype: str) -> float | None:
        """What a real division may be off beyond the final rounding; None where it rounds correctly, as it does unless
        the policy says otherwise.
        """
        return self.ulps.get("divide", {}).get(dtype) or None

    def operand_loss(self, precision: str, dtype: str) -> Loss | None:
        """What a dot or convolution may leave out of an operand of this type; None where nothing."""
        return self.products.get(precision, {}).get(dtype)
