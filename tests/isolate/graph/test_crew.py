"""Pieces over processes: one row each, whatever becomes of the others."""

from __future__ import annotations

import sys
import time
from collections import Counter

import pytest
from obedient import obedient

from assay.checking.api import Request
from assay.errors import AssayError, InputError
from assay.isolate.graph.crew import rows, rows_on_ray
from assay.isolate.graph.tasks import Setup, Task
from assay.oracle.verdict import Verdict
from assay.report.isolation import PieceResult

SETUP = Setup(Request(), {})


def task(name: str) -> Task:
    return Task(name, "group", name, "main", "add", (name,), frozenset(("add",)), 1)


NAMES = ["a", "dies", "b", "c", "exits", "d", *(f"more {k}" for k in range(20))]


def check(found: list[PieceResult]) -> None:
    assert Counter(row.name for row in found) == Counter(NAMES)
    for row in found:
        lost = row.name.startswith(("dies", "exits"))
        assert row.verdict == (Verdict.UNVERIFIED if lost else Verdict.AGREE)
        assert ("ended, 2 times" in row.why) == lost


@pytest.mark.parametrize("jobs", [2])
def test_a_piece_that_ends_its_process_is_charged_alone(jobs: int) -> None:
    check(list(rows(SETUP, map(task, NAMES), jobs, obedient)))


def test_a_process_that_cannot_begin_ends_it_all_in_one_line() -> None:
    with pytest.raises(AssayError, match="no such toolchain"):
        list(rows(SETUP, map(task, ["a", "cannot begin", "b"]), 2, obedient))


def test_nothing_is_left_running_when_nobody_waits_any_more() -> None:
    started = time.monotonic()
    for row in rows(SETUP, map(task, NAMES), 2, obedient):
        assert row.name
        break
    assert time.monotonic() - started < 60


def test_ray_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'assay-xla\[ray\]'"):
        list(rows_on_ray(SETUP, [task("a")], "local"))


@pytest.mark.slow
def test_ray_charges_a_death_alone_too() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'assay-xla[ray]'")
    check(list(rows_on_ray(SETUP, map(task, NAMES), "local", obedient)))
