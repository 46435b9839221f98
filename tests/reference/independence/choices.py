"""What a draw decides, as a list of numbers.

A draw asks `below(n)` again and again; the answers are recorded. Given back, the list makes the same program; a list
with smaller numbers makes a simpler one, since each drawer puts what is simplest first (the idea of Hypothesis).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Choices:
    """Answers from a generator, or from a record as far as it goes and zeros beyond."""

    def __init__(self, source: np.random.Generator | Sequence[int]) -> None:
        self.taken: list[int] = []
        self._rng = source if isinstance(source, np.random.Generator) else None
        self._record = [] if isinstance(source, np.random.Generator) else list(source)

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""
        if self._rng is not None:
            answer = int(self._rng.integers(bound))
        else:
            at = len(self.taken)
            answer = min(self._record[at], bound - 1) if at < len(self._record) else 0
        self.taken.append(answer)
        return answer

    def between(self, low: int, high: int) -> int:
        """A number in [low, high], `low` or 0 the simplest."""
        if low <= 0 <= high:
            span = high - low + 1
            k = self.below(span)
            order = sorted(range(low, high + 1), key=abs)
            return order[k] if span < 64 else low + (k - low) % span
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        """True once in `one_in` times; False is the simple answer."""
        return self.below(one_in) == one_in - 1

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Distinct options in any order."""
        rest = list(options)
        count = self.between(min(least, len(rest)), min(most, len(rest)))
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.some(options, len(options), len(options))


def shrink(record: Sequence[int], fails: Callable[[list[int]], bool], tries: int = 200) -> list[int]:
    """A simpler record that still fails: tails dropped, numbers made zero, halved, and one less."""
    best = list(record)

    def attempt(candidate: list[int]) -> bool:
        nonlocal best, tries
        if tries <= 0 or candidate == best:
            return False
        tries -= 1
        if fails(candidate):
            best = candidate
            return True
        return False

    improved = True
    while improved and tries > 0:
        improved = False
        for at in range(len(best) - 1, -1, -1):
            if at >= len(best) or best[at] == 0:
                continue
            for smaller in (0, best[at] // 2, best[at] - 1):
                if smaller < best[at] and attempt([*best[:at], smaller, *best[at + 1 :]]):
                    improved = True
                    break
    return best
