"""Looking by halves finds where a chain goes wrong; looking everywhere finds the first place."""

from __future__ import annotations

from itertools import product

import pytest

from assay.isolate.walk import PROGRAM, Interval, State, by_halves, everywhere

G, B, U = State.AGREES, State.DIFFERS, State.UNVERIFIED


def truth(states: tuple[State, ...]) -> Interval | None:
    if B not in states:
        return None
    bad = states.index(B)
    good = max((i for i in range(bad) if states[i] == G), default=PROGRAM)
    return Interval(good, bad)


@pytest.mark.parametrize("count", range(7))
def test_every_chain(count: int) -> None:
    for states in product((G, B, U), repeat=count):
        assert everywhere(count, lambda i, states=states: states[i]) == truth(states)
        found = by_halves(count, lambda i, states=states: states[i])
        verified = [state for state in states if state != U]
        if not verified or verified[-1] == G:
            assert found is None
            continue
        assert found is not None
        assert states[found.bad] == B
        assert found.good == PROGRAM or states[found.good] == G
        assert all(state == U for state in states[found.good + 1 : found.bad])
        if verified == sorted(verified, reverse=False):  # `agrees` sorts before `differs`: it never goes right again
            assert found == truth(states)


def test_few_looks_are_taken() -> None:
    states = [G] * 700 + [B] * 300
    looked: list[int] = []

    def look(index: int) -> State:
        looked.append(index)
        return states[index]

    assert by_halves(1000, look) == Interval(699, 700)
    assert len(set(looked)) <= 13
