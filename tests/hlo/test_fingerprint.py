"""What a fingerprint keeps and what it ignores (facts/hlo_isolation.md, section 9, item 8)."""

from __future__ import annotations

import re

import pytest

from assay.hlo.fingerprint import computation_fingerprint, fingerprint
from assay.hlo.parse import parse_module

TEXT = """HloModule m, entry_computation_layout={(f32[4,2]{1,0})->f32[4,2]{1,0}}

%scale (p: f32[4,2]) -> f32[4,2] {
  %p = f32[4,2]{1,0} parameter(0)
  %c = f32[] constant(0.5)
  %b = f32[4,2]{1,0} broadcast(%c), dimensions={}
  ROOT %m = f32[4,2]{1,0} multiply(%p, %b)
}

ENTRY %main (x: f32[4,2]) -> f32[4,2] {
  %x = f32[4,2]{1,0} parameter(0)
  %n = f32[4,2]{1,0} negate(%x), metadata={op_name="n"}
  %a = f32[4,2]{1,0} abs(%x)
  %f = f32[4,2]{1,0} fusion(%n), kind=kLoop, calls=%scale, backend_config={"a":[1]}
  ROOT %r = f32[4,2]{1,0} add(%f, %a)
}
"""

SAME = {
    "names": lambda t: re.sub(r"%(\w+)", r"%other.\1", t).replace("(p: ", "(other.p: ").replace("(x: ", "(other.x: "),
    "module name": lambda t: t.replace("HloModule m", "HloModule n"),
    "metadata": lambda t: t.replace('op_name="n"', 'op_name="q" source_line=9'),
    "no metadata": lambda t: t.replace(', metadata={op_name="n"}', ""),
    "tables": lambda t: t.replace("\n\n%scale", '\n\nFileNames\n1 "a.py"\n\nFunctionNames\n\nFileLocations\n\n'
                                  "StackFrames\n\n\n%scale"),
    "order of independent instructions": lambda t: t.replace(
        "  %a = f32[4,2]{1,0} abs(%x)\n", "").replace("  %n =", "  %a = f32[4,2]{1,0} abs(%x)\n  %n ="),
    "spelling of a number": lambda t: t.replace("constant(0.5)", "constant(5e-1)"),
    "blanks": lambda t: t.replace("dimensions={}", "dimensions={ }"),
    "default layouts left out": lambda t: t.replace("{1,0}", ""),
    "order of attributes": lambda t: t.replace("kind=kLoop, calls=%scale", "calls=%scale, kind=kLoop"),
    "a computation that nothing calls": lambda t: t.replace("ENTRY", "%u (p: s8[]) -> s8[] {\n  ROOT %p = s8[] "
                                                           "parameter(0)\n}\n\nENTRY"),
}  # fmt: skip

OTHER = {
    "constant 0.25": lambda t: t.replace("0.5", "0.25"),
    "constant -inf": lambda t: t.replace("0.5", "-inf"),
    "constant nan": lambda t: t.replace("0.5", "nan"),
    "constant -nan": lambda t: t.replace("0.5", "-nan"),
    "constant 0": lambda t: t.replace("0.5", "0"),
    "constant -0": lambda t: t.replace("0.5", "-0"),
    "shape [8,1]": lambda t: t.replace("[4,2]", "[8,1]"),
    "element type": lambda t: t.replace("f32", "f16"),
    "opcode": lambda t: t.replace("abs(", "sign("),
    "operand order": lambda t: t.replace("add(%f, %a)", "add(%a, %f)"),
    "shared operand": lambda t: t.replace("abs(%x)", "negate(%x)"),
    "layout": lambda t: t.replace("%n = f32[4,2]{1,0}", "%n = f32[4,2]{0,1}"),
    "tiles": lambda t: t.replace("%n = f32[4,2]{1,0}", "%n = f32[4,2]{1,0:T(8,128)}"),
    "memory space": lambda t: t.replace("%n = f32[4,2]{1,0}", "%n = f32[4,2]{1,0:S(1)}"),
    "entry layout": lambda t: t.replace("->f32[4,2]{1,0}}", "->f32[4,2]{0,1}}"),
    "attribute": lambda t: t.replace("kind=kLoop", "kind=kInput"),
    "backend_config": lambda t: t.replace('{"a":[1]}', '{"a":[2]}'),
    "module configuration": lambda t: t.replace("HloModule m,", "HloModule m, replica_count=2,"),
    "root": lambda t: t.replace("ROOT %r", "%r").replace("  %a =", "  ROOT %a ="),
    "sharding": lambda t: t.replace("abs(%x)", "abs(%x), sharding={replicated}"),
    "control dependency": lambda t: t.replace("abs(%x)", "abs(%x), control-predecessors={%n}"),
}


@pytest.mark.parametrize("change", SAME)
def test_ignored(change: str) -> None:
    assert fingerprint(parse_module(SAME[change](TEXT))) == fingerprint(parse_module(TEXT))


def test_kept() -> None:
    prints = {name: fingerprint(parse_module(change(TEXT))) for name, change in OTHER.items()}
    prints["unchanged"] = fingerprint(parse_module(TEXT))
    assert len(set(prints.values())) == len(prints)


def test_a_value_used_twice_is_not_one_computed_twice() -> None:
    shared = (
        TEXT.replace("abs(%x)", "negate(%n)").replace("fusion(%n)", "fusion(%a)").replace("add(%f, %a)", "add(%f, %a)")
    )
    double = shared.replace("  ROOT %r", "  %d = f32[4,2]{1,0} negate(%n)\n  ROOT %r").replace(
        "add(%f, %a)", "add(%f, %d)"
    )
    assert fingerprint(parse_module(shared)) != fingerprint(parse_module(double))


def test_one_computation() -> None:
    module, other = parse_module(TEXT), parse_module(TEXT.replace("0.5", "0.25"))
    assert computation_fingerprint(module, "main") != computation_fingerprint(other, "main")
    renamed = parse_module(SAME["names"](TEXT))
    assert computation_fingerprint(module, "scale") == computation_fingerprint(renamed, "other.scale")


def test_it_is_the_same_in_every_process() -> None:
    assert fingerprint(parse_module(TEXT)) == "bf487289179c4e490d1ad83e5dac8112"
