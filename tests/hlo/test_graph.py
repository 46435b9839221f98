"""Questions about graphs, a deep one among them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from assay.errors import HloTypeError
from assay.hlo.graph import called_order, last_uses, live_ranges, post_order, reachable, users
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES, ArrayShape

TEXT = """HloModule m

leaf { ROOT p = f32[2] parameter(0) }
middle { p = f32[2] parameter(0)
  ROOT q = f32[2] call(p), to_apply=leaf }
unused { p = f32[2] parameter(0)
  ROOT q = f32[2] call(p), to_apply=leaf }
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  dead = f32[2] negate(y)
  a = f32[2] add(x, x)
  b = f32[2] call(a), to_apply=middle
  ROOT r = f32[2] add(b, a)
  late = f32[2] abs(x)
}
"""


def test_users_are_named_once() -> None:
    found = users(parse_module(TEXT).entry)
    assert found["x"] == ("a", "late")
    assert found["a"] == ("b", "r")
    assert found["r"] == ()


def test_post_order_begins_with_what_the_root_needs() -> None:
    order = [i.name for i in post_order(parse_module(TEXT).entry)]
    assert order == ["x", "a", "b", "r", "y", "dead", "late"]


def test_post_order_does_not_depend_on_the_schedule() -> None:
    entry = parse_module(TEXT).entry
    names = ["y", "x", "a", "b", "r"]
    moved = replace(entry, instructions=tuple(entry.by_name[n] for n in names))
    assert [i.name for i in post_order(moved)][:4] == ["x", "a", "b", "r"]


def test_callees_come_first() -> None:
    module = parse_module(TEXT)
    assert [c.name for c in called_order(module)] == ["leaf", "middle", "unused", "main"]
    assert [c.name for c in reachable(module)] == ["leaf", "middle", "main"]
    assert [c.name for c in reachable(module, "middle")] == ["leaf", "middle"]


def test_a_computation_that_calls_itself_is_refused() -> None:
    shape = ArrayShape(DTYPES["f32"], ())
    calls = Instruction("q", "call", shape, ("p",), {"to_apply": "c"})
    parameter = Instruction("p", "parameter", shape, parameter_number=0)
    module = Module("m", (Computation("c", (parameter, calls), "q"),), "c")
    with pytest.raises(HloTypeError, match="calls itself"):
        called_order(module)


def test_a_value_lives_to_its_last_use() -> None:
    entry = parse_module(TEXT).entry
    ranges = live_ranges(entry)
    assert ranges == {"x": (0, 6), "y": (1, 2), "dead": (2, 2), "a": (3, 5), "b": (4, 5), "r": (5, 6), "late": (6, 6)}
    assert last_uses(entry) == ((), (), ("y", "dead"), (), (), ("a", "b"), ("x", "late"))


def test_a_hundred_thousand_instructions_in_a_row_take_no_recursion() -> None:
    shape = ArrayShape(DTYPES["f32"], ())
    count = 100_000
    instructions = [Instruction("v0", "parameter", shape, parameter_number=0)]
    instructions += [Instruction(f"v{i}", "negate", shape, (f"v{i - 1}",)) for i in range(1, count)]
    computation = Computation("c", tuple(instructions), f"v{count - 1}")
    start = time.process_time()
    assert len(post_order(computation)) == len(users(computation)) == len(last_uses(computation)) == count
    assert time.process_time() - start < 5
