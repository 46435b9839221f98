"""The pass that made a chain of snapshots wrong is named, and none where nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.errors import Unsupported
from assay.isolate.examine import Examiner
from assay.isolate.judgement import Inputs
from assay.isolate.pipeline import CONVERSION, find_culprit
from assay.isolate.walk import State
from assay.oracle.verdict import Verdict
from assay.targets.snapshots import read

from .chains import SETTINGS, drawn, module, write

GOOD = """
ENTRY e { p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  m = f32[64] multiply(p, q)
  three = f32[] constant(3)
  threes = f32[64] broadcast(three), dimensions={}
  d = f32[64] divide(m, threes)
  t = f32[64] tanh(d)
  ROOT r = (f32[64], f32[64]) tuple(t, m) }
"""
RENAMED = GOOD.replace("d = ", "d.1 = ").replace("tanh(d)", "tanh(d.1)")
RECIPROCAL = RENAMED.replace("constant(3)", "constant(0.333333343)").replace("divide(m", "multiply(m")
WRONG = RECIPROCAL.replace("tanh(d.1)", "tanh(m)")
FUSED = WRONG.replace("ENTRY", "f { x = f32[64] parameter(0)\n ROOT y = f32[64] tanh(x) }\nENTRY").replace(
    "t = f32[64] tanh(m)", "t = f32[64] fusion(m), kind=kLoop, calls=f"
)
FOREIGN = RENAMED.replace("tanh(d.1)", 'custom-call(d.1), custom_call_target="mystery"')
OTHER_TYPES = RENAMED.replace("parameter(1)", "parameter(1)\n extra = f32[2] parameter(2)")
BROKEN = RENAMED[:120]


def attribution(folder: Path, steps, walk_all=False, **more):
    snapshots = read(write(folder, steps))
    return find_culprit(module(steps[0][1]), snapshots, [drawn((64,), (64,))], SETTINGS, walk_all=walk_all, **more)


@pytest.mark.parametrize("walk_all", [False, True])
def test_the_pass_is_named(tmp_path: Path, walk_all: bool) -> None:
    steps = [("", GOOD), ("dce", GOOD), ("rename", RENAMED), ("algsimp", RECIPROCAL), ("cse", WRONG), ("fusion", FUSED)]
    found = attribution(tmp_path, steps, walk_all)
    assert found.verdict == Verdict.MISMATCH
    assert found.culprit is not None
    assert (found.culprit.name, found.culprit.pipeline, found.culprit.passes) == ("cse", "pipe", ("cse",))
    assert (found.culprit.since, found.culprit.snapshot) == ("0002.pipe.after_algsimp", "0003.pipe.after_cse")
    assert found.culprit.instructions == ("three", "threes", "d.1") or found.culprit.before
    (wrong,) = found.culprit.wrong
    assert wrong.output == 0
    assert wrong.outside > 50
    p, q = drawn((64,), (64,)).arguments
    product = p[wrong.place].astype(np.float64) * q[wrong.place]
    assert float(wrong.before) == pytest.approx(np.tanh(product / 3), rel=1e-6)
    assert float(wrong.after) == pytest.approx(np.tanh(product), rel=1e-6)
    assert float(wrong.reference.split()[0]) == pytest.approx(np.tanh(product / 3), rel=1e-6)
    assert len(found.looks) == 6 if walk_all else len(found.looks) < 6


@pytest.mark.parametrize("walk_all", [False, True])
def test_nothing_is_wrong(tmp_path: Path, walk_all: bool) -> None:
    steps = [("", GOOD), ("dce", GOOD), ("rename", RENAMED), ("algsimp", RECIPROCAL)]
    found = attribution(tmp_path, steps, walk_all)
    assert (found.verdict, found.culprit, found.why) == (Verdict.AGREE, None, "")
    assert found.evaluated < 10


def test_the_program_itself_was_converted_wrongly(tmp_path: Path) -> None:
    snapshots = read(write(tmp_path, [("", WRONG), ("dce", WRONG)]))
    found = find_culprit(module(GOOD), snapshots, [drawn((64,), (64,))], SETTINGS)
    assert found.culprit is not None
    assert (found.culprit.name, found.culprit.since) == (CONVERSION, "")


@pytest.mark.parametrize("walk_all", [False, True])
def test_what_is_not_verified_widens_the_interval(tmp_path: Path, walk_all: bool) -> None:
    steps = [("", GOOD), ("dce", GOOD), ("mystery", FOREIGN), ("cse", WRONG), ("fusion", FUSED)]
    found = attribution(tmp_path, steps, walk_all)
    assert found.culprit is not None
    assert (found.culprit.name, found.culprit.passes) == ("cse", ("mystery", "cse"))
    assert found.culprit.since == "0000.pipe.after_dce"


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (FOREIGN, "unsupported: custom-call mystery"),
        (OTHER_TYPES, "unsupported: parameters that a pass changed: from 2 arrays to 3"),
        (RENAMED.replace("f32[64], f32[64]) tuple(t, m)", "f32[64]) tuple(t)"), "results that a pass changed"),
        (BROKEN, "cut short"),
    ],
)
def test_what_cannot_be_evaluated_at_the_end_is_said(tmp_path: Path, last: str, why: str) -> None:
    found = attribution(tmp_path, [("", GOOD), ("dce", RENAMED), ("late", last)])
    assert found.verdict == Verdict.UNVERIFIED
    assert found.culprit is None
    assert found.why.startswith("all agree up to 0000.pipe.after_dce; from 0001.pipe.after_late on: ")
    assert why in found.why
    assert "\n" not in found.why


def test_in_the_middle_it_costs_no_verdict(tmp_path: Path) -> None:
    steps = [("", GOOD), ("dce", GOOD), ("mystery", FOREIGN), ("rename", RENAMED)]
    found = attribution(tmp_path, steps, walk_all=True)
    assert found.verdict == Verdict.AGREE
    assert [str(look.state) for look in found.looks] == ["agrees", "agrees", "unverified", "agrees"]


def test_a_program_that_cannot_be_evaluated_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="mystery"):
        attribution(tmp_path, [("", FOREIGN), ("dce", FOREIGN)])


def test_a_later_pass_that_undoes_it_is_seen_with_all(tmp_path: Path) -> None:
    steps = [("", GOOD), ("one", WRONG), ("two", RECIPROCAL)]
    assert attribution(tmp_path, steps).verdict == Verdict.AGREE
    (tmp_path / "again").mkdir()
    found = attribution(tmp_path / "again", steps, walk_all=True)
    assert found.culprit is not None
    assert found.culprit.name == "one"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.AGREE), (1.01, Verdict.MISMATCH)])
def test_the_executable_is_one_more_snapshot(tmp_path: Path, factor: float, verdict: Verdict) -> None:
    def run(arguments):
        m = arguments[0] * arguments[1]
        return [np.tanh(m / np.float32(3)) * np.float32(factor), m]

    found = attribution(tmp_path, [("", GOOD), ("dce", GOOD), ("algsimp", RECIPROCAL)], run=run)
    assert found.verdict == verdict
    if verdict == Verdict.MISMATCH:
        assert found.culprit is not None
        assert found.culprit.passes == ("code generation",)
        assert found.culprit.since == "0001.pipe.after_algsimp"
        assert found.culprit.wrong[0].outside > 50


def test_two_runs_that_differ(tmp_path: Path) -> None:
    runs = iter(range(9))

    def run(arguments):
        m = arguments[0] * arguments[1]
        return [np.tanh(m / np.float32(3)) + np.float32(next(runs) + 1), m]

    found = attribution(tmp_path, [("", GOOD), ("dce", GOOD)], run=run)
    assert found.verdict == Verdict.NONDETERMINISTIC


def test_without_room_for_all_values_snapshots_are_evaluated_whole(tmp_path: Path) -> None:
    """Twenty arrays of 512 KiB one after another: two at a time fit, all of them do not."""
    chain = "".join(f"  x{i + 1} = f32[65536] sine(x{i})\n" for i in range(20))
    good = f"ENTRY e {{ x0 = f32[65536] parameter(0)\n{chain} ROOT r = f32[65536] negate(x20) }}"
    steps = [("", good), ("dce", good.replace("x7", "y7")), ("cse", good.replace("negate(x20)", "abs(x20)"))]
    snapshots = read(write(tmp_path, steps))
    settings = replace(SETTINGS, memory_limit=4 << 20)
    found = find_culprit(module(good), snapshots, [drawn((65536,))], settings, walk_all=True)
    assert found.culprit is not None
    assert found.culprit.name == "cse"
    assert [str(look.state) for look in found.looks] == ["agrees", "agrees", "differs"]


@pytest.mark.parametrize("walk_all", [False, True])
def test_whole_execution_overrules_a_look_that_missed_the_fault(tmp_path: Path, monkeypatch, walk_all: bool) -> None:
    looked = Examiner._look

    def look(self, index):
        found = looked(self, index)
        return replace(found, state=State.AGREES, weighed=None) if index == 3 else found

    monkeypatch.setattr(Examiner, "_look", look)
    steps = [("", GOOD), ("dce", GOOD), ("rename", RENAMED), ("algsimp", WRONG), ("fusion", FUSED)]
    found = attribution(tmp_path, steps, walk_all)
    assert found.culprit is not None
    assert (found.culprit.name, found.culprit.since) == ("algsimp", "0001.pipe.after_rename")


@pytest.mark.parametrize("walk_all", [False, True])
def test_whole_execution_overrules_a_look_that_raised_a_false_alarm(
    tmp_path: Path, monkeypatch, walk_all: bool
) -> None:
    looked, alarms = Examiner._difference, []

    def difference(self, module):
        if "f" not in module.by_name or alarms:
            return looked(self, module)
        alarms.append(looked(self, text_module(FUSED)))  # in the last snapshot, once, what another one would show
        assert alarms[0] is not None
        return alarms[0]

    text_module = module
    right = FUSED.replace("fusion(m)", "fusion(d.1)").replace("multiply(m, threes)", "multiply(m, threes), metadata={}")
    monkeypatch.setattr(Examiner, "_difference", difference)
    found = attribution(
        tmp_path, [("", GOOD), ("rename", RENAMED), ("algsimp", RECIPROCAL), ("fusion", right)], walk_all
    )
    assert (found.verdict, found.culprit) == (Verdict.AGREE, None)
    assert found.looks[-1].why == "inside the bounds of both"


SCALED = """
ENTRY e { p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  ROOT r = f32[64] multiply(p, q) }
"""
WRONG_SCALED = SCALED.replace("multiply(p, q)", "add(p, q)")
# The same wrong sum, by a detour on which rounding may do nearly anything.
DETOUR = """
ENTRY e { p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  far = f32[] constant(1e8)
  fars = f32[64] broadcast(far), dimensions={}
  up = f32[64] add(p, fars)
  both = f32[64] add(up, q)
  ROOT r = f32[64] subtract(both, fars) }
"""


@pytest.mark.parametrize("walk_all", [False, True])
def test_bounds_that_are_wide_excuse_nobody_whose_results_are_wrong_for_certain_later(tmp_path, walk_all) -> None:
    for name in ("alone", "both"):
        (tmp_path / name).mkdir()
    alone = attribution(tmp_path / "alone", [("", SCALED), ("cse", DETOUR)], walk_all)
    assert alone.verdict == Verdict.AGREE  # it allows too much itself
    found = attribution(tmp_path / "both", [("", SCALED), ("cse", DETOUR), ("algsimp", WRONG_SCALED)], walk_all)
    assert found.verdict == Verdict.MISMATCH
    assert found.culprit is not None
    assert found.culprit.name == "cse"


@pytest.mark.parametrize("walk_all", [False, True])
def test_what_the_usual_inputs_do_not_show_others_may(tmp_path, walk_all) -> None:
    steps = [("", SCALED), ("dce", SCALED), ("cse", WRONG_SCALED), ("fusion", WRONG_SCALED.replace("r =", "s ="))]
    nothing = Inputs("zeros", (np.zeros(64, np.float32), np.zeros(64, np.float32)))
    chain = read(write(tmp_path, steps))
    found = find_culprit(module(SCALED), chain, [nothing], SETTINGS, walk_all=walk_all)
    assert found.verdict == Verdict.AGREE
    found = find_culprit(module(SCALED), chain, [nothing], SETTINGS, walk_all=walk_all, more=[drawn((64,), (64,))])
    assert found.verdict == Verdict.MISMATCH
    assert found.culprit is not None
    assert found.culprit.name == "cse"
    assert found.culprit.inputs == drawn((64,), (64,)).words


@pytest.mark.parametrize("walk_all", [False, True])
def test_a_last_snapshot_that_allows_too_much_acquits_none_before_it(tmp_path, walk_all) -> None:
    steps = [("", SCALED), ("cse", WRONG_SCALED), ("algsimp", DETOUR)]
    found = attribution(tmp_path, steps, walk_all)
    assert found.verdict == Verdict.MISMATCH
    assert found.culprit is not None
    assert found.culprit.name == "cse"
