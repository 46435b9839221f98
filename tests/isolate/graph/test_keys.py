"""What makes two pieces one: facts/hlo_isolation.md, section 9, item 8."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.hlo.parse import parse_module
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe, group, key
from assay.isolate.graph.piece import Piece

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.hlo"))

TEXT = """HloModule m, is_scheduled=true

%scale (p: f32[4,2]) -> f32[4,2] {
  %p = f32[4,2]{1,0} parameter(0)
  %c = f32[] constant(0.5)
  %b = f32[4,2]{1,0} broadcast(%c), dimensions={}
  ROOT %m = f32[4,2]{1,0} multiply(%p, %b), metadata={op_name="m"}
}

ENTRY %main (x: f32[4,2]) -> f32[4,2] {
  %x = f32[4,2]{1,0} parameter(0)
  %k = f32[4,2]{1,0} negate(%x)
  ROOT %f = f32[4,2]{1,0} fusion(%k), kind=kLoop, calls=%scale, backend_config={"window":["4","2"]}
}
"""

Edit = Callable[[str], str]

SAME: dict[str, Edit] = {
    "names": lambda t: re.sub(r"%(\w+)", r"%other.\1", t).replace("(p: ", "(other.p: ").replace("(x: ", "(other.x: "),
    "metadata": lambda t: t.replace('op_name="m"', 'op_name="q" source_line=9'),
    "module name": lambda t: t.replace("HloModule m", "HloModule n"),
    "what lies before it": lambda t: t.replace("negate(", "abs("),
}
OTHER: dict[str, Edit] = {
    "0.25": lambda t: t.replace("0.5", "0.25"),
    "-inf": lambda t: t.replace("0.5", "-inf"),
    "nan": lambda t: t.replace("0.5", "nan"),
    "backend_config": lambda t: t.replace('["4","2"]', '["8","1"]'),
    "no backend_config": lambda t: t.replace(', backend_config={"window":["4","2"]}', ""),
    "shape": lambda t: t.replace("[4,2]", "[8,1]"),
    "layout": lambda t: t.replace("{1,0}", "{0,1}"),
    "memory space": lambda t: t.replace("%k = f32[4,2]{1,0}", "%k = f32[4,2]{1,0:S(1)}"),
}
ANOTHER_LOOK: dict[str, Edit] = {
    "opcode": lambda t: t.replace("multiply(%p, %b)", "add(%p, %b)"),
    "element type": lambda t: t.replace("f32", "f16"),
    "rank": lambda t: t.replace("[4,2]{1,0}", "[8]{0}").replace("[4,2]", "[8]"),
    "operands": lambda t: t.replace("multiply(%p, %b)", "multiply(%p, %p)"),
    "kind": lambda t: t.replace("kLoop", "kInput"),
}


def last(text: str) -> Piece:
    return cut(parse_module(text)).pieces[-1]


@pytest.mark.parametrize("edit", SAME)
def test_what_names_and_metadata_say_is_no_difference(edit: str) -> None:
    piece, other = last(TEXT), last(SAME[edit](TEXT))
    assert key(piece) == key(other)
    assert group(piece) == group(other)


def test_constants_and_configuration_make_another_key_and_no_other_group() -> None:
    found = [last(TEXT), *(last(edit(TEXT)) for edit in OTHER.values())]
    assert len({key(piece) for piece in found}) == len(found)
    assert len({group(piece) for piece in found}) == 1


def test_another_look_is_another_group() -> None:
    found = [last(TEXT), *(last(edit(TEXT)) for edit in ANOTHER_LOOK.values())]
    assert len({group(piece) for piece in found}) == len(found)
    assert len({key(piece) for piece in found}) == len(found)


def test_a_constant_that_an_instruction_brings_along_counts() -> None:
    text = """HloModule m
ENTRY %e (x: f32[4]) -> (f32[4], f32[4], f32[4]) {
  %x = f32[4]{0} parameter(0)
  %c = f32[] constant(0.5)
  %d = f32[] constant(0.25)
  %b = f32[4]{0} broadcast(%c), dimensions={}
  %k = f32[4]{0} broadcast(%d), dimensions={}
  %one = f32[4]{0} multiply(%x, %b)
  %two = f32[4]{0} multiply(%x, %k)
  %three = f32[4]{0} multiply(%one, %b)
  ROOT %t = (f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(%one, %two, %three)
}
"""
    found = [d for d in dedupe(cut(parse_module(text))) if d.piece.opcode == "multiply"]
    assert [[p.name for p in d.instances] for d in found] == [["one", "three"], ["two"]]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_keys_found_together_are_those_found_alone(path: Path) -> None:
    whole = cut(parse_module(path.read_text()))
    found = dedupe(whole)
    assert sorted(p.name for d in found for p in d.instances) == sorted(p.name for p in whole.pieces)
    for distinct in found:
        assert distinct.piece is distinct.instances[0]
        assert {(key(p), group(p)) for p in distinct.instances} == {(distinct.key, distinct.group)}
    assert len({d.key for d in found}) == len(found)
    names = [p.name for p in whole.pieces]
    order = [names.index(d.piece.name) for d in found]
    assert order == sorted(order)
