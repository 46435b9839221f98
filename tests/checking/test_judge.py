"""Verdicts from given target results: a stand-in worker hands back what a test wants the compiler to have computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.checking.bounds import Settings
from assay.checking.judge import judge, refusal
from assay.checking.target import Executed
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Expectation, from_hlo
from assay.reference.policies import for_target
from assay.toolchain import ArrayType, RequestRefused, WorkerDied

ADD = """HloModule add
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = f32[4] add(x, y)
}
"""
X = np.array([1, 2, 3, 4], np.float32)
RIGHT = np.array([2, 4, 6, 8], np.float32)
WRONG = np.array([2, 4, 6, 9], np.float32)


@dataclass
class FakeWorker:
    """Hands out `answers` in turn; `strict` where excess precision is off. An exception among them is raised."""

    answers: list[Any]
    strict: Any = None
    options: list[dict[str, str]] = field(default_factory=list)

    def compile(self, payload, kind, options=None, timeout_s=None):
        self.options.append(dict(options or {}))
        results = (ArrayType("f32", (4,)),)
        return SimpleNamespace(results=results, parameters=(), seconds=0.0, options=dict(options or {}))

    def run(self, compiled, arrays, timeout_s=None):
        if compiled.options.get("xla_allow_excess_precision") == "false" and self.strict is not None:
            return [self.strict]
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def holds(self, compiled):
        return True


def crash():
    return WorkerDied("crash", "run", 11, "SIGSEGV", ("last words",), "SIGSEGV")


def verdict(answers, strict=None, hlo=ADD, arguments=(X, X), **more):
    program = from_hlo("add", hlo, hlo.encode(), "hlo-text", **more)
    target = Executed(FakeWorker(list(answers), strict), program)
    return judge(program, arguments, "test", target, Settings(for_target("cpu")))


def test_right_agrees():
    result = verdict([RIGHT])
    assert (result.verdict, result.outputs[0].outside) == (Verdict.AGREE, 0)


def test_wrong_is_a_miscompile():
    result = verdict([WRONG])
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert (result.outputs[0].outside, result.outputs[0].peak) == (1, (3,))


def test_wrong_only_with_excess_precision_is_classed_so():
    result = verdict([WRONG], strict=RIGHT)
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION)


@pytest.mark.parametrize("answers", [[WRONG, RIGHT], [RIGHT, WRONG]])
def test_one_wrong_run_of_two_is_nondeterministic(answers):
    result = verdict(answers)
    assert result.verdict == Verdict.NONDETERMINISTIC
    assert result.outputs[0].outside == 1


def test_two_right_runs_that_differ_agree_with_a_note():
    hlo = """HloModule thirds
ENTRY main {
  x = f32[4] parameter(0)
  three = f32[] constant(3)
  y = f32[4] broadcast(three), dimensions={}
  ROOT r = f32[4] divide(x, y)
}
"""
    x = np.arange(1, 100, dtype=np.float32)
    divided, multiplied = x / np.float32(3), x * np.float32(1 / 3)
    apart = np.flatnonzero(divided != multiplied)[:4]
    result = verdict([divided[apart], multiplied[apart]], hlo=hlo, arguments=(x[apart],))
    assert result.verdict == Verdict.AGREE
    assert any("two runs differ" in note for note in result.notes)


def test_a_crash_seen_twice_is_a_crash():
    result = verdict([crash()])
    assert result.verdict == Verdict.CRASH
    assert "SIGSEGV" in result.why
    assert result.stderr_tail == ("last words",)


def test_a_crash_seen_once_is_not_called_a_crash():
    assert verdict([crash(), RIGHT]).verdict == Verdict.NONDETERMINISTIC


def test_a_target_out_of_memory_is_unverified():
    death = WorkerDied("resource", "run", 9, "SIGKILL", (), "9.0 GiB resident, the limit is 8.0 GiB")
    assert verdict([death]).verdict == Verdict.UNVERIFIED


def test_a_refusal_is_invalid():
    result = verdict([RequestRefused("run", "XlaRuntimeError", "UNIMPLEMENTED: no such thing")])
    assert result.verdict == Verdict.INVALID
    assert "no such thing" in result.why


def test_an_operation_without_a_model_is_unverified_by_name():
    hlo = """HloModule custom
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = f32[4] custom-call(x, y), custom_call_target="somebodys_kernel"
}
"""
    result = verdict([RIGHT], hlo=hlo)
    assert result.verdict == Verdict.UNVERIFIED
    assert "unsupported: custom-call somebodys_kernel" in result.why


def test_the_authors_expectation_is_a_note_and_no_verdict():
    result = verdict([RIGHT], expected=Expectation((WRONG,)))
    assert result.verdict == Verdict.AGREE
    assert any("1 of 4 elements" in note for note in result.notes)


def test_an_expectation_that_is_met_goes_without_a_note():
    assert verdict([RIGHT], expected=Expectation((RIGHT,))).notes == ()


def test_a_program_that_the_reference_cannot_hold_is_refused_with_advice():
    program = from_hlo("add", ADD, ADD.encode(), "hlo-text")
    result = refusal(program, Settings(for_target("cpu"), memory_limit=10))
    assert result is not None
    assert result.verdict == Verdict.UNVERIFIED
    assert "--memory" in result.why
    assert refusal(program, Settings(for_target("cpu"))) is None
