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
    steps: it bounds a loop.
    fan_in: terms in each sum of products with it as weights; 0 for all but weights.
    """

    low: float = -math.inf
    high: float = math.inf
    positive: bool = False
    ordered: bool = False
    distinct: bool = False
    vector: int | None = None
    steps: bool = False
    fan_in: int = 0

    @property
    def bounded(self) -> bool:
        return self.low > -math.inf or self.high < math.inf


ANY = Domain()
