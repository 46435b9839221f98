"""Choices, recorded as they are made.

A program is a function of the integers drawn for it. They are replayed, changed or cut, and what comes out is a program
of the same grammar again, well typed like any other: so mutation needs no rules of its own.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

FINE = 1 << 16


def generator(*key: object) -> random.Random:
    """A generator for a key, the same on every machine and under every Python (a str seeds by SHA-512)."""
    return random.Random("/".join(map(str, key)))


@dataclass(slots=True)
class Draw:
    """source: of integers once `prefix` is used up. made: every choice so far."""

    source: random.Random
    prefix: Sequence[int] = ()
    made: list[int] = field(default_factory=list)

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        at = len(self.made)
        value = self.prefix[at] % bound if at < len(self.prefix) else int(self.source.random() * bound)
        self.made.append(value)
        return value

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, share: float) -> bool:
        return self.below(FINE) < share * FINE

    def weighted(self, options: Sequence[T], cumulative: Sequence[float]) -> T:
        """One of the options. cumulative: running sums of their weights."""
        at = (self.below(FINE) + 0.5) / FINE * cumulative[-1]
        return options[min(bisect.bisect_right(cumulative, at), len(options) - 1)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """So many of the options, in their order."""
        taken = sorted(self.shuffled(range(len(options)))[:count])
        return [options[i] for i in taken]


def running(weights: Sequence[float]) -> list[float]:
    return list(itertools.accumulate(weights))
