"""What is known of the values that one parameter should take."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that suit one array parameter; the default is any.

    low, high: inclusive bounds (of indices, say).
    positive: zero and below lead to NaN or infinity (log, rsqrt, a divisor).
    ordered, distinct: what an instruction promises of its indices (indices_are_sorted, unique_indices); `vector` is
    then the dimension that holds the components of one index, None where each element is one.
    steps: it bounds a loop. definite: a matrix that is factored or solved with, to be symmetric positive definite.
    nonzero: the least magnitude, of what zero would be wrong for (a divisor).
    fan_in: terms in each sum of products with it as weights; 0 for all but weights.
    """

    low: float = -math.inf
    high: float = math.inf
    positive: bool = False
    ordered: bool = False
    distinct: bool = False
    vector: int | None = None
    steps: bool = False
    definite: bool = False
    fan_in: int = 0
    nonzero: float = 0.0

    @property
    def bounded(self) -> bool:
        return self.low > -math.inf or self.high < math.inf

    def __bool__(self) -> bool:
        return self != ANY

    def merged(self, other: Domain) -> Domain:
        """What satisfies both; bounds that exclude each other stay as they are here."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high:
            low, high = self.low, self.high
        return Domain(
            low,
            high,
            self.positive or other.positive,
            self.ordered or other.ordered,
            self.distinct or other.distinct,
            other.vector if self.vector is None else self.vector,
            self.steps or other.steps,
            self.definite or other.definite,
            self.fan_in or other.fan_in,
            max(self.nonzero, other.nonzero),
        )


ANY = Domain()
