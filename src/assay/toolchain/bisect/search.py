"""Which release to ask next.

Releases are positions 0 .. n-1, oldest first. The verdicts need not be monotone: a bug may come and go. So the search
first looks for two positions with different verdicts, then halves between each such pair until they are neighbours.

    both a good and a bad one given      nothing to look for: halve between them
    one given                            away from it on both sides, in steps that double, until the other is met
    none given                           the newest, the oldest, then back from the newest in steps that double,
                                         then the middle of the widest stretch that was not asked

What remains assumed, and has to be said: between two asked positions of one verdict there is none of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

RUNS = 24  # how many positions are asked, where nothing is given, before a bug that shows nowhere is given up
TRIES_AT_AN_END = 4  # what is asked in place of a release at the end of the row that cannot be judged


class Verdict(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    SKIPPED = "skipped"  # cannot be installed, does not load, or the check cannot tell


Ask = Callable[[int], Verdict]


@dataclass(frozen=True)
class Change:
    """The bug is in `bad` and not in `good`; both were asked, and all between them were and could not be judged."""

    good: int
    bad: int

    @property
    def skipped(self) -> range:
        return range(min(self.good, self.bad) + 1, max(self.good, self.bad))


class Search:
    """The positions asked so far, and what was answered."""

    def __init__(self, n: int, ask: Ask, runs: int = RUNS) -> None:
        self.n, self.runs = n, runs
        self.known: dict[int, Verdict] = {}
        self._ask = ask

    def __call__(self, i: int) -> Verdict:
        if i not in self.known:
            self.known[i] = self._ask(i)
        return self.known[i]

    # ---- to start with

    def between(self, good: int, bad: int) -> None:
        """Ask the two that were given."""
        self(good)
        self(bad)

    def around(self, given: int) -> None:
        """Ask in doubling steps on both sides of `given`, each side until the verdict has changed (for a good one:
        until it has changed and changed back, so that both ends of the bug are found).
        """
        first = self(given)
        if first is Verdict.SKIPPED:
            return
        for side in (-1, 1):
            changes_wanted = 1 if first is Verdict.PRESENT else 2
            at: int = given
            verdict: Verdict = first
            while changes_wanted and (met := self._away(at, side, verdict)) is not None:
                at, verdict = met, self.known[met]
                changes_wanted -= 1

    def everywhere(self) -> None:
        """Ask the ends, then where a change may hide, until there are two verdicts or `runs` positions were asked."""
        for end, side in ((self.n - 1, -1), (0, 1)):
            for i in self._doubling(end, side, with_start=True):
                if self(i) is not Verdict.SKIPPED:
                    break
        for i in self._doubling(self.n - 1, -1):
            if self._verdicts() == {Verdict.PRESENT, Verdict.ABSENT} or len(self.known) >= self.runs:
                return
            self(i)
        while len(self._verdicts()) < 2 and len(self.known) < self.runs:
            widest = self._farthest(-1, self.n)
            if widest is None:
                return
            self(widest)

    # ---- to end with

    def narrow(self) -> tuple[Change, ...]:
        """Halve between every two neighbours in what is known that differ; the changes that are left."""
        while (pair := self._wide_pair()) is not None:
            middle = self._farthest(*pair)
            assert middle is not None
            self(middle)
        return tuple(
            Change(good=a, bad=b) if self.known[a] is Verdict.ABSENT else Change(good=b, bad=a)
            for a, b in self.differing()
        )

    def differing(self) -> list[tuple[int, int]]:
        """Known positions with nothing known between them but skipped ones, whose verdicts differ."""
        judged = sorted(i for i, verdict in self.known.items() if verdict is not Verdict.SKIPPED)
        return [(a, b) for a, b in pairwise(judged) if self.known[a] is not self.known[b]]

    def _wide_pair(self) -> tuple[int, int] | None:
        return next((pair for pair in self.differing() if self._farthest(*pair) is not None), None)

    def _farthest(self, low: int, high: int) -> int | None:
        """Of the positions between that were not asked, the one farthest from all that were; the middle, if none was.

        Away from the skipped ones too: a release that does not load often has neighbours that do not either.
        """
        near = [low, *(i for i in self.known if low < i < high), high]
        open_ = [i for i in range(low + 1, high) if i not in self.known]
        return max(open_, key=lambda i: (min(abs(i - k) for k in near), -abs(2 * i - low - high)), default=None)

    def _away(self, start: int, side: int, verdict: Verdict) -> int | None:
        """The first position in doubling steps from `start` whose verdict is neither `verdict` nor skipped."""
        for i in self._doubling(start, side):
            if self(i) not in (verdict, Verdict.SKIPPED):
                return i
        last = max((i for i, v in self.known.items() if v is verdict), key=lambda i: i * side)
        end = -1 if side < 0 else self.n
        for _ in range(TRIES_AT_AN_END):
            if self.known.get(end - side) is not Verdict.SKIPPED:
                return None
            beyond = self._farthest(*sorted((last, end)))  # the end did not tell: go on where nothing was asked
            if beyond is None:
                return None
            if self(beyond) is not Verdict.SKIPPED:
                return None if self.known[beyond] is verdict else beyond
        return None

    def _doubling(self, start: int, side: int, with_start: bool = False) -> Iterator[int]:
        """start +- 1, 2, 4, ... and the end of the row."""
        if with_start:
            yield start
        step, at = 1, start
        while 0 <= start + side * step < self.n:
            at = start + side * step
            yield at
            step *= 2
        end = 0 if side < 0 else self.n - 1
        if at != end:
            yield end

    def _verdicts(self) -> set[Verdict]:
        return set(self.known.values()) - {Verdict.SKIPPED}
