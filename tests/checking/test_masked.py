"""Elements that are infinite or NaN on both sides: how many, and why."""

from __future__ import annotations

import numpy as np

from assay.checking.bounds import Settings
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.oracle.verdict import Verdict
from assay.programs.program import Array, from_hlo
from assay.reference.policies import for_target
from assay.report.result import CaseResult

HALVES = """HloModule m
ENTRY e {
  x = f32[4,8] parameter(0)
  m = pred[4,8] parameter(1)
  low = f32[] constant(-inf)
  lows = f32[4,8] broadcast(low), dimensions={}
  s = f32[4,8] select(m, x, lows)
  l = f32[4,8] log(x)
  ROOT c = f32[8,8] concatenate(s, l), dimensions={0}
}
"""


def judged(text: str, arguments: list[Array], outputs: list[Array]) -> CaseResult:
    class Pretend(Executed):
        """A target whose results are those that the test has worked out."""

        def outputs(self, *_):  # type: ignore[no-untyped-def]
            return outputs, outputs

    program = from_hlo("m", text, b"", "hlo-text")
    result = judge(program, arguments, "", Pretend(None, program), Settings(for_target("cpu")))  # type: ignore[arg-type]
    assert result is not None
    return result


def drawn() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 8)).astype(np.float32), rng.random((4, 8)) < 0.5


def right(x: Array, m: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.concatenate([np.where(m, x, -np.inf), np.log(x)]).astype(np.float32)


def test_masks_and_domains_are_told_apart_by_element() -> None:
    x, m = drawn()
    result = judged(HALVES, [x, m], [right(x, m)])
    assert result.verdict is Verdict.AGREE
    assert result.masked is not None
    assert (result.masked.constant, result.masked.argument) == ((~m).sum(), 0)
    assert result.masked.left == (x < 0).sum()
    assert result.masked.constants == ("low",)
    assert result.masked.leaving == ("l: log",)
    assert result.outputs[0].masked == (~m).sum() + (x < 0).sum()
    assert any(note.startswith("masked: ") and "l: log" in note for note in result.notes)


def test_infinite_arguments_are_a_reason_of_their_own() -> None:
    x, m = drawn()
    x[0, 0], x[0, 1] = np.inf, np.nan
    m[0, :2] = True
    result = judged(HALVES, [x, m], [right(x, m)])
    assert result.masked is not None
    assert (result.masked.constant, result.masked.argument) == ((~m).sum(), 4)
    assert result.masked.left == (x < 0).sum()
    assert result.masked.leaving == ("l: log",)


def test_an_infinity_where_the_reference_has_a_number_convicts() -> None:
    x, m = drawn()
    wrong = right(x, m)
    row, column = np.argwhere(m)[0]
    wrong[row, column] = -np.inf
    result = judged(HALVES, [x, m], [wrong])
    assert result.verdict is Verdict.MISMATCH
    assert result.outputs[0].outside == 1
    assert result.masked is not None
    assert result.masked.constant == (~m).sum()


def test_a_number_where_the_reference_is_masked_convicts() -> None:
    x, m = drawn()
    wrong = right(x, m)
    row, column = np.argwhere(~m)[0]
    wrong[row, column] = -1e30
    result = judged(HALVES, [x, m], [wrong])
    assert result.verdict is Verdict.MISMATCH
    assert result.outputs[0].outside == 1
    assert result.masked is not None
    assert result.masked.constant == (~m).sum() - 1


def test_a_row_that_is_masked_whole_is_nan_by_the_mask() -> None:
    """softmax of nothing but -inf: -inf - -inf. No domain is left but through the mask."""
    text = """HloModule m
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  m = pred[4,8] parameter(1)
  low = f32[] constant(-inf)
  lows = f32[4,8] broadcast(low), dimensions={}
  s = f32[4,8] select(m, x, lows)
  top = f32[4] reduce(s, low), dimensions={1}, to_apply=max
  tops = f32[4,8] broadcast(top), dimensions={0}
  ROOT d = f32[4,8] subtract(s, tops)
}
"""
    x, m = drawn()
    m[2] = False
    with np.errstate(all="ignore"):
        s = np.where(m, x, np.float32(-np.inf))
        out = s - s.max(1, keepdims=True)
    result = judged(text, [x, m], [out])
    assert result.verdict is Verdict.AGREE
    assert result.masked is not None
    assert (result.masked.constant, result.masked.left) == ((~m).sum(), 0)
    assert result.outputs[0].masked == (~m).sum()
