"""Where values lie in memory, and pieces that share theirs as they do in the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.types import check_module
from assay.isolate.graph.cpu_memory import ASSIGNMENT, as_in_graph, read
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.piece import Operand

TEXT = """HloModule m, is_scheduled=true
%two (p: f32[4], q: f32[4]) -> (f32[4], f32[4]) {
  %p = f32[4]{0} parameter(0)
  %q = f32[4]{0} parameter(1)
  %s = f32[4]{0} add(%p, %q)
  %d = f32[4]{0} subtract(%p, %q)
  ROOT %t = (f32[4]{0}, f32[4]{0}) tuple(%s, %d)
}
ENTRY %e (x: f32[4], y: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %y = f32[4]{0} parameter(1)
  %a = f32[4]{0} negate(%x)
  %b = f32[4]{0} negate(%y)
  %f = (f32[4]{0}, f32[4]{0}) fusion(%a, %b), kind=kLoop, calls=%two
  %g = f32[4]{0} get-tuple-element(%f), index=0
  %h = f32[4]{0} get-tuple-element(%f), index=1
  %i = f32[4]{0} add(%g, %h)
  ROOT %r = f32[4]{0} negate(%i)
}
"""

# As XLA:CPU of jaxlib 0.10.2 and 0.12.0.1 writes them; %f{1} lies over %b, %i over %f{0}, %r over %i.
ASSIGNED = """BufferAssignment:
allocation 0: size 16, page 0, parameter 0, shape |f32[4]| at ShapeIndex {}:
 value: <0 x @0> (size=16,offset=0): f32[4]{0}
allocation 1: size 16, parameter 1, shape |f32[4]| at ShapeIndex {}:
 value: <1 y @0> (size=16,offset=0): f32[4]{0}
allocation 2: size 160, page 0, preallocated-temp:
 value: <2 a @0> (size=16,offset=64): f32[4]{0}
 value: <3 b @0> (size=16,offset=0): f32[4]{0}
 value: <4 f{} @0> (size=16,offset=144): (f32[4]{0}, f32[4]{0})
 value: <5 f{0} @0> (size=16,offset=128): f32[4]{0}
 value: <6 f{1} (phi) @0> (size=16,offset=0): f32[4]{0}
 value: <7 i @0> (size=16,offset=128): f32[4]{0}
 value: <8 r @0> (size=16,offset=128): f32[4]{0}

Total bytes used: 192 (192B)
"""
NAMED = """Used values:
<0 x @0>
 positions:
  x
 uses:
  a, operand 0
 from instruction: %x = f32[4]{0} parameter(0)
<1 y @0>
 positions:
  y
 uses:
  b, operand 0
 from instruction: %y = f32[4]{0} parameter(1)
<2 a @0>
 positions:
  a
 uses:
  f, operand 0
 from instruction: %a = f32[4]{0} negate(%x)
<3 b @0>
 positions:
  b
 uses:
  f, operand 1
 from instruction: %b = f32[4]{0} negate(%y)
<4 f{} @0>
 positions:
  f {}
 uses:
  g, operand 0
  h, operand 0
 from instruction: %f
<5 f{0} @0>
 positions:
  f {0}
  g
 uses:
  i, operand 0
 from instruction: %f
<6 f{1} (phi) @0>
 positions:
  f {1}
  h
 uses:
  i, operand 1
 from instruction: %f
<7 i @0>
 positions:
  i
 uses:
  r, operand 0
 from instruction: %i
<8 r @0>
 positions:
  r
 uses:
  (none)
 from instruction: %r
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"module_0001.m.{ASSIGNMENT}").write_text(ASSIGNED)
    (tmp_path / f"module_0001.m.{ASSIGNMENT.removesuffix('.txt')}-values.txt").write_text(NAMED)
    return tmp_path


def test_places(folder: Path) -> None:
    memory = read(folder)
    assert memory.one("x", ()) == (0, 0, 16)
    assert memory.one("f", (1,)) == memory.one("h", ()) == memory.one("b", ()) == (2, 0, 16)
    assert memory.one("nowhere", ()) is None


def test_a_result_over_an_operand_gets_a_copy_of_it(folder: Path) -> None:
    plain = cut(parse_module(TEXT))
    pieces = {p.name: p for p in as_in_graph(plain, read(folder)).pieces}
    fusion = pieces["f"].module.entry
    assert [i.opcode for i in fusion.instructions] == ["parameter", "parameter", "copy", "fusion"]
    assert fusion.by_name["b"].operands == ("b.given",)
    assert fusion.root == {p.name: p for p in plain.pieces}["f"].module.entry.root
    assert [p.name for p in fusion.parameters] == ["a", "b.given"]
    assert pieces["f"].operands == (Operand("a"), Operand("b"))
    assert pieces["i"].module.entry.by_name["g"].opcode == "copy"
    assert pieces["i"].module.entry.by_name["h"].opcode == "parameter"
    assert pieces["a"] in plain.pieces
    for piece in pieces.values():
        assert not check_module(piece.module)


def test_one_that_shares_is_another_piece_than_one_that_does_not(folder: Path) -> None:
    alike = [[p.name for p in d.instances] for d in dedupe(as_in_graph(cut(parse_module(TEXT)), read(folder)))]
    assert alike == [["a", "b"], ["f"], ["i"], ["r"]]
    assert [[p.name for p in d.instances] for d in dedupe(cut(parse_module(TEXT)))] == [["a", "b", "r"], ["f"], ["i"]]


def test_a_folder_without_one_assignment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 files"):
        read(tmp_path)
    for number in (1, 2):
        (tmp_path / f"module_000{number}.m.{ASSIGNMENT}").write_text(ASSIGNED)
    with pytest.raises(InputError, match="2 files"):
        read(tmp_path)
