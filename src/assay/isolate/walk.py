"""The order in which snapshots are looked at: all of them, or the last, the first, and then by halves.

Looking by halves finds some place where agreement ends; where results go wrong, right and wrong again it need not be
the first. A snapshot that cannot be evaluated is passed over, and widens the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What a look at one snapshot says."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNVERIFIED = "unverified"


Look = Callable[[int], State]

PROGRAM = -1
"""The place of the unoptimized program, which is right by definition."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The last snapshot that agrees before one that differs, and the first such; those between are unverified."""

    good: int
    bad: int


def everywhere(count: int, look: Look) -> Interval | None:
    """Looks at all of `count` snapshots in order; None where none differs."""
    states = [look(index) for index in range(count)]
    bad = next((index for index, state in enumerate(states) if state == State.DIFFERS), None)
    return None if bad is None else Interval(_last_good(look, bad), bad)


def by_halves(count: int, look: Look) -> Interval | None:
    """Looks at the last that can be evaluated; None where it does not differ. Else at the first, and on by halves."""
    bad = next((index for index in reversed(range(count)) if look(index) != State.UNVERIFIED), None)
    if bad is None or look(bad) != State.DIFFERS:
        return None
    good = PROGRAM
    if bad > 0 and look(0) == State.DIFFERS:
        return Interval(PROGRAM, 0)
    if bad > 0 and look(0) == State.AGREES:
        good = 0
    while (middle := _between(good, bad, look)) is not None:
        if look(middle) == State.DIFFERS:
            bad = middle
        else:
            good = middle
    return Interval(good, bad)


def _between(good: int, bad: int, look: Look) -> int | None:
    """A snapshot strictly between that can be evaluated, close to the middle."""
    middle = (good + bad) // 2
    nearest = sorted(range(good + 1, bad), key=lambda index: abs(index - middle))
    return next((index for index in nearest if look(index) != State.UNVERIFIED), None)


def _last_good(look: Look, bad: int) -> int:
    return next((index for index in reversed(range(bad)) if look(index) == State.AGREES), PROGRAM)
