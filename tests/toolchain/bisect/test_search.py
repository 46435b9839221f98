"""The search, against rows of verdicts that are known in full."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.toolchain.bisect.search import Change, Search, Verdict

LETTERS = {"B": Verdict.PRESENT, ".": Verdict.ABSENT, "s": Verdict.SKIPPED}


def searched(row: str, good: int | None = None, bad: int | None = None) -> tuple[Search, tuple[Change, ...]]:
    """Search a row of letters, oldest first; each position is asked once."""
    asked: list[int] = []

    def ask(i: int) -> Verdict:
        assert i not in asked
        asked.append(i)
        return LETTERS[row[i]]

    search = Search(len(row), ask)
    if good is not None and bad is not None:
        search.between(good, bad)
    elif good is not None or bad is not None:
        search.around(good if bad is None else bad)  # type: ignore[arg-type]
    else:
        search.everywhere()
    return search, search.narrow()


def true_changes(row: str) -> set[Change]:
    """By looking at all of them: judged neighbours that differ, with nothing but skipped ones between."""
    judged = [i for i, letter in enumerate(row) if letter != "s"]
    pairs = [(a, b) for a, b in pairwise(judged) if row[a] != row[b]]
    return {Change(good=a, bad=b) if row[a] == "." else Change(good=b, bad=a) for a, b in pairs}


@pytest.mark.parametrize("n", [2, 3, 7, 29, 64])
def test_every_single_change_is_found_exactly(n: int) -> None:
    for k in range(1, n):
        for row in ("." * k + "B" * (n - k), "B" * k + "." * (n - k)):
            good, bad = row.index("."), row.index("B")
            wanted = true_changes(row)
            for known in ({"good": good, "bad": bad}, {"bad": bad}, {"good": good}, {}):
                search, changes = searched(row, **known)
                assert set(changes) == wanted, (row, known)
                limit = 2 + n.bit_length() if len(known) == 2 else 3 + 3 * n.bit_length()
                assert len(search.known) <= limit, (row, known)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13])
def test_a_bug_in_the_middle_is_found_on_both_sides_from_a_bad_release(width: int) -> None:
    n = 40
    for k in range(1, n - width):
        row = "." * k + "B" * width + "." * (n - width - k)
        for bad in {k, k + width // 2, k + width - 1}:
            _, changes = searched(row, bad=bad)
            assert set(changes) == {Change(good=k - 1, bad=k), Change(good=k + width, bad=k + width - 1)}


def test_a_bug_of_recent_releases_that_is_already_gone_is_found_with_nothing_given() -> None:
    row = "." * 40 + "B" * 4 + "." * 2
    _, changes = searched(row)
    assert set(changes) == true_changes(row)


def test_skipped_releases_widen_the_change_and_are_in_it() -> None:
    _, (change,) = searched("....sssBBB", good=0, bad=9)
    assert change == Change(good=3, bad=7)
    assert list(change.skipped) == [4, 5, 6]


def test_a_long_stretch_that_does_not_load_costs_few_questions_more() -> None:
    row = "." + "s" * 30 + "." * 30 + "BBB"
    search, changes = searched(row, good=0, bad=len(row) - 1)
    assert set(changes) == true_changes(row)
    assert len(search.known) <= 12


def test_ends_that_do_not_install_are_stepped_over() -> None:
    row = "sss.....BBBBBss"
    _, changes = searched(row)
    assert set(changes) == true_changes(row)
    _, changes = searched(row, bad=12)
    assert set(changes) == true_changes(row)


@pytest.mark.parametrize("row", ["........", "BBBBBBBB", "ssssssss", "s", ".", "sBs"])
def test_nothing_changes(row: str) -> None:
    search, changes = searched(row)
    assert changes == ()
    assert set(search.known) == set(range(len(row)))  # few enough to try them all


def test_a_bug_that_shows_nowhere_is_given_up() -> None:
    search, changes = searched("." * 200)
    assert (changes, len(search.known)) == ((), 24)
    gaps = sorted(search.known)
    assert max(b - a for a, b in pairwise(gaps)) <= 30


@given(st.text(alphabet="B.s", min_size=1, max_size=24), st.data())
@settings(max_examples=400, deadline=None)
def test_whatever_the_row_a_change_lies_between_two_that_were_asked(row: str, data: st.DataObject) -> None:
    bads = [i for i, letter in enumerate(row) if letter == "B"]
    goods = [i for i, letter in enumerate(row) if letter == "."]
    bad = data.draw(st.sampled_from(bads)) if bads and data.draw(st.booleans()) else None
    good = data.draw(st.sampled_from(goods)) if goods and data.draw(st.booleans()) else None
    search, changes = searched(row, good, bad)
    assert set(changes) <= true_changes(row)
    for change in changes:
        assert (row[change.good], row[change.bad]) == (".", "B")
        assert {search.known[i] for i in range(min(change.good, change.bad), max(change.good, change.bad) + 1)}
    if good is not None and bad is not None:
        assert changes
