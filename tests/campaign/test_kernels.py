"""What a kernel of a batch has to do with its programs."""

from __future__ import annotations

from typing import Any

import pytest

from assay.campaign.kernels import Doubt, Kernels, needed
from assay.hlo.parse import parse_module
from assay.llo.machine import Stop, Trap
from assay.llo.module import KernelRun

BATCH = """HloModule batch, is_scheduled=true
body {
  b = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(b), index=0
  v = f32[8] get-tuple-element(b), index=1
  inner = f32[8] negate(v)
  ROOT next = (s32[], f32[8]) tuple(n, inner)
}
cond {
  c = (s32[], f32[8]) parameter(0)
  ROOT never = pred[] constant(false)
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  zero = s32[] constant(0)
  a = f32[8] add(x, x)
  start = (s32[], f32[8]) tuple(zero, a)
  loop = (s32[], f32[8]) while(start), condition=cond, body=body
  last = f32[8] get-tuple-element(loop), index=1
  own = f32[8] multiply(y, y)
  ROOT all = (f32[8], f32[8], f32[8]) tuple(a, last, own)
}
"""


def test_a_result_needs_what_its_loops_do() -> None:
    first, second, third = needed(parse_module(BATCH))
    assert first == {"x", "a"}
    assert {"a", "loop", "inner", "never"} <= second
    assert third == {"y", "own"}
    assert needed(parse_module("HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT n = f32[8] negate(x)\n}"))[
        0
    ] == {"x", "n"}


def kernels(*noted: tuple[str, Doubt]) -> Kernels:
    module = parse_module(BATCH)
    nothing: Any = None
    found = Kernels(nothing, module, nothing, "v5e", nothing, needs=needed(module))
    for name, doubt in noted:
        found.note(name, doubt)
    return found


WRONG, OPEN = Doubt(True, "wrong"), Doubt(False, "unsupported")


@pytest.mark.parametrize(
    ("noted", "doubts"),
    [
        ((), [None, None, None]),
        ((("own", WRONG),), [None, None, WRONG]),
        ((("inner", OPEN),), [None, OPEN, None]),
        ((("a", OPEN), ("inner", WRONG)), [OPEN, WRONG, None]),
        ((("inner", WRONG), ("a", OPEN)), [OPEN, WRONG, None]),
    ],
)
def test_a_doubt_is_of_the_programs_that_need_the_kernel(
    noted: tuple[tuple[str, Doubt], ...], doubts: list[Doubt | None]
) -> None:
    found = kernels(*noted)
    assert [found.doubt(range(k, k + 1)) for k in range(3)] == doubts
    assert found.doubt(range(3)) == (WRONG if WRONG in doubts else OPEN if OPEN in doubts else None)


@pytest.mark.parametrize(
    ("kind", "trap", "wrong"),
    [
        ("unsupported", None, False),
        ("missing", None, False),
        ("trapped", Trap.OUT_OF_BOUNDS, True),
        ("trapped", Trap.DEADLOCK, True),
        ("trapped", Trap.STEP_LIMIT, False),
        ("trapped", Trap.MXU, False),
    ],
)
def test_what_the_simulator_does_not_model_is_no_fault_of_the_compiler(
    kind: Any, trap: Trap | None, wrong: bool
) -> None:
    stop = None if trap is None else Stop(trap, 0, 1, (0, 0, 0))
    found = kernels()
    found.stopped(KernelRun("own", "main", kind, "why", stop))
    doubt = found.doubt(range(2, 3))
    assert doubt is not None
    assert doubt.wrong == wrong
    assert "own" in doubt.why
