"""The changed region is the rewrite, not what lies below it."""

from __future__ import annotations

import pytest

from assay.isolate.region import changed

from .chains import module

BEFORE = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
step { s = f32[4] parameter(0)
  k = f32[4] cosine(s)
  ROOT l = f32[4] negate(k) }
ENTRY e { p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  x = f32[4] add(p, q)
  y = f32[4] exponential(x)
  z = f32[4] log(y)
  w = f32[4] subtract(z, q)
  n = f32[4] call(w), to_apply=step
  zero = f32[] constant(0)
  sum = f32[] reduce(n, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[4], f32[]) tuple(n, sum) }
"""


@pytest.mark.parametrize(
    ("edits", "before", "after"),
    [
        ([], [], []),
        ([("log(y)", "sqrt(y)")], ["z"], ["z"]),
        ([("log(y)", "log(x)")], ["y", "z"], ["z"]),
        ([("subtract(z, q)", "subtract(x, q)")], ["w", "y", "z"], ["w"]),
        ([("subtract(z, q)", "subtract(q, z)")], ["w"], ["w"]),
        ([("subtract(z, q)", "subtract(z, p)")], ["w"], ["w"]),
        ([("add(p, q)", "add(p, p)")], ["x"], ["x"]),
        ([("cosine(s)", "sine(s)")], ["k"], ["k"]),
        ([("constant(0)", "constant(1)")], ["zero"], ["zero"]),
        ([("c = f32[] add(a, b)", "c = f32[] maximum(a, b)")], ["c"], ["c"]),
        ([("y = f32[4] exponential(x)", "y.1 = f32[4] tanh(x)\n  y = f32[4] exponential(y.1)")], ["y"], ["y", "y.1"]),
        ([("p = f32[4]", "renamed = f32[4]"), ("add(p, q)", "add(renamed, q)")], [], []),
        ([("log(y)", "sqrt(y)"), ("cosine(s)", "sine(s)")], ["k", "z"], ["k", "z"]),
    ],
)
def test_what_changed(edits: list[tuple[str, str]], before: list[str], after: list[str]) -> None:
    text = BEFORE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    region = changed(module(BEFORE), module(text))
    assert sorted(place.instruction.name for place in region.before) == before
    assert sorted(place.instruction.name for place in region.after) == after


def test_a_change_in_a_loop_is_found_in_its_body() -> None:
    loop = """
    cond { s = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[4] get-tuple-element(s), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      y = f32[4] tanh(x)
      ROOT r = (s32[], f32[4]) tuple(j, y) }
    ENTRY e { t = (s32[], f32[4]) parameter(0)
      ROOT w = (s32[], f32[4]) while(t), condition=cond, body=body }
    """
    for old, new, name in (
        ("tanh(x)", "sine(x)", "y"),
        ("direction=LT", "direction=LE", "r"),
        ("constant(3)", "constant(4)", "n"),
    ):
        region = changed(module(loop), module(loop.replace(old, new)))
        assert [place.instruction.name for place in region.before] == [name]
        assert [place.instruction.name for place in region.after] == [name]
        assert new.split("(")[0] in region.after[0].text


def test_results_in_another_order() -> None:
    text = "ENTRY e { p = f32[4] parameter(0)\n q = f32[4] parameter(1)\n ROOT r = (f32[4], f32[4]) tuple(p, q) }"
    region = changed(module(text), module(text.replace("tuple(p, q)", "tuple(q, p)")))
    assert [place.instruction.name for place in (*region.before, *region.after)] == ["r", "r"]
