"""End to end: a compiler that is wrong on purpose is convicted, and a right one is not."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from assay.checking.api import Request, check_path
from assay.oracle.verdict import Verdict

HERE = Path(__file__).parent
PROGRAM = str(HERE / "wrong_compilers.py")
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])

pytestmark = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")


def verdicts(report):
    return {case.name.split(": ")[1]: case.verdict for case in report.cases}


def test_a_right_compiler_agrees(monkeypatch):
    monkeypatch.delenv("WRONG_PASS", raising=False)
    report = check_path(PROGRAM, Request())
    assert report.exit_code == 0
    assert [o.outside for c in report.cases for o in c.outputs] == [0, 0]


def test_a_wrong_operation_is_a_miscompile_of_every_element(monkeypatch):
    monkeypatch.setenv("WRONG_PASS", "minus")
    report = check_path(PROGRAM, Request())
    assert report.exit_code == 1
    assert verdicts(report) == {"difference": Verdict.MISMATCH, "smaller": Verdict.AGREE}
    (output,) = report.worst.outputs
    assert (output.outside, output.elements) == (12, 12)
    assert str(report.worst.klass) == "MISCOMPILE"
    assert output.box == ((0, 2), (0, 3))


def test_one_wrong_element_is_found_and_placed(monkeypatch):
    monkeypatch.setenv("WRONG_PASS", "direction")
    report = check_path(PROGRAM, Request())
    (output,) = report.worst.outputs
    assert output.outside == 1  # x == y == 5 in one place alone
    assert output.peak == (1, 1)
    assert output.box == ((1, 1), (1, 1))


def test_an_abort_in_the_compiler_is_a_crash_with_its_signal(monkeypatch):
    monkeypatch.setenv("WRONG_PASS", "abort")
    report = check_path(PROGRAM, Request(case="difference"))
    assert report.verdict == Verdict.CRASH
    assert "SIGABRT" in report.worst.why
    assert report.exit_code == 1


def test_a_compiler_that_does_not_end_is_a_hang(monkeypatch):
    monkeypatch.setenv("WRONG_PASS", "sleep")
    report = check_path(PROGRAM, Request(case="difference", timeout_s=3))
    assert report.verdict == Verdict.HANG
    assert report.exit_code == 1
