"""Whether a candidate still shows it, with a compiler that takes the cosine for the sine next to an exponential."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request
from assay.hlo.parse import parse_module
from assay.oracle.verdict import Verdict
from assay.reduce import Still, reduce
from assay.reduce.still import Shown, _signature, as_dict, from_dict, with_culprit
from assay.report.passes import Culprit, PassesCase

WRONG = Path(__file__).parents[1] / "isolate" / "graph" / "wrong_sine.py"

PROGRAM = """HloModule hidden

%body (s: (s32[], f32[4,4])) -> (s32[], f32[4,4]) {
  %s = (s32[], f32[4,4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x.1 = f32[4,4] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %half = f32[] constant(0.5)
  %halves = f32[4,4] broadcast(%half), dimensions={}
  %y.1 = f32[4,4] multiply(%x.1, %halves)
  ROOT %t = (s32[], f32[4,4]) tuple(%next, %y.1)
}

%condition (s.2: (s32[], f32[4,4])) -> pred[] {
  %s.2 = (s32[], f32[4,4]) parameter(0)
  %i.2 = s32[] get-tuple-element(%s.2), index=0
  %n = s32[] constant(3)
  ROOT %less = pred[] compare(%i.2, %n), direction=LT
}

ENTRY %main (x: f32[4,4], w: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %x = f32[4,4] parameter(0)
  %w = f32[4,4] parameter(1)
  %zero = s32[] constant(0)
  %start = (s32[], f32[4,4]) tuple(%zero, %x)
  %loop = (s32[], f32[4,4]) while(%start), condition=%condition, body=%body
  %z = f32[4,4] get-tuple-element(%loop), index=1
  %d = f32[4,4] dot(%z, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %e = f32[4,4] exponential(%d)
  %f = f32[4,4] sine(%e)
  %g = f32[4,4] add(%f, %w)
  %h = f32[4,4] transpose(%g), dimensions={1,0}
  %other = f32[4,4] maximum(%x, %w)
  ROOT %r = (f32[4,4], f32[4,4]) tuple(%other, %h)
}
"""


def arguments():
    drawn = np.random.default_rng(3)
    return [drawn.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]


@pytest.fixture(scope="module")
def still():
    with Still.open(Request(preload=WRONG), 2) as found:
        yield found


def test_a_planted_bug_is_made_small_and_is_still_that_bug(still):
    still.wanted = None
    module = parse_module(PROGRAM)
    found = reduce(module, arguments(), still, budget_s=120)
    assert [i.opcode for i in found.module.entry.instructions] == ["parameter", "exponential", "sine"]
    assert (found.before, found.instructions) == (26, 3)
    assert (found.still.verdict, found.still.klass) == (Verdict.MISMATCH, "MISCOMPILE")
    assert found.still.pass_ == "apply-xla-transforms"  # without the number that is another each time
    assert found.still.opcodes == {"sine", "cosine"}
    assert found.finished
    assert found.arguments[0].size == 1
    # Truth, by hand: what the wrong compiler gives is not what sin(exp(x)) is.
    x = np.float64(found.arguments[0].reshape(-1)[0])
    assert abs(np.sin(np.exp(x)) - np.cos(np.exp(x))) > 1e-3


def test_a_right_program_and_a_wrong_one_show_nothing(still):
    still.wanted = None
    text = PROGRAM.replace("sine(%e)", "abs(%e)")
    assert still(parse_module(text), arguments()) is None
    assert still(parse_module(PROGRAM.replace("f32[4,4] transpose", "f32[4,5] transpose")), arguments()) is None
    assert still.wanted is None


def test_a_program_at_fault_itself_is_not_taken():
    """A sum that begins with 1, in a computation that XLA may divide: what comes out shows nothing of the compiler."""
    shown = Shown(Verdict.MISMATCH, "MISCOMPILE")
    assert shown.with_(Shown(Verdict.MISMATCH, "MISCOMPILE", clear=False)) is None


def test_a_culprit_in_words_and_back():
    texts = (
        "%a = (f32[2]{0}, s32[]) while(%b), body=%c",
        "%d = f32[2,3]{1,0:T(8,128)} dynamic-slice(%e, %f)",
        "%p = f32[2] parameter(0)",
    )
    culprit = Culprit("algsimp", "simplification", "after", "before", ("algsimp",), before=texts[:2], after=texts[2:])
    shown = with_culprit(Shown(Verdict.MISMATCH, "MISCOMPILE"), PassesCase("p", Verdict.MISMATCH, culprit=culprit))
    assert shown.pass_ == "algsimp"
    assert shown.opcodes == {"while", "dynamic-slice"}
    assert from_dict(as_dict(shown)) == shown


def test_why_a_process_ended_without_its_numbers():
    lines = (
        "F1130 10:11:12.345678  1234 service.cc:77] Check failed: rank == 3 (2 vs. 3) at 0x7f00",
        "*** Check failure stack trace: ***",
    )
    other = tuple(line.replace("1234", "99").replace("0x7f00", "0x1") for line in lines)
    assert _signature(lines) == _signature(other) != ""
    assert _signature(("Fatal Python error: Segmentation fault",)) == ""
    warned = "W1130 22:24:20.106633   16824 hlo_module.cc:894] Invalid stack_frame_id 4"
    fatal = "F1130 22:24:20.106700   16825 fusion_emitter.cc:13652] Check failed: rank == size() Cannot find a window"
    assert _signature((warned, fatal)) == _signature((fatal,))
    assert "Cannot find a window" in _signature((warned, fatal))
