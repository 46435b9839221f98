"""Optimized modules of one target, given to another."""

from __future__ import annotations

import pytest

from assay.hlo.parse import parse_module
from assay.isolate.graph.elsewhere import made_elsewhere

TEXT = """HloModule m, is_scheduled=true

ENTRY e {
  x = f32[16,256]{1,0:T(8,128)} parameter(0)
  n = s32[]{:T(128)} constant(3)
  ROOT r = f32[16,256]{1,0:T(8,128)} sine(x)
}
"""
TPU = parse_module(TEXT)
CPU = parse_module(TEXT.replace(":T(8,128)", "").replace("{:T(128)}", ""))


@pytest.mark.parametrize("target", ["tpu:v5e", "tpu:v6e"])
def test_layouts_tell_whose_module_it_is(target: str) -> None:
    assert made_elsewhere(TPU, target) == made_elsewhere(CPU, "cpu") == ""
    assert "not for a TPU" in made_elsewhere(CPU, target)
    assert "optimized for a TPU" in made_elsewhere(TPU, "cpu")


def test_what_is_not_optimized_or_has_no_array_tells_nothing() -> None:
    plain = parse_module(TEXT.replace(", is_scheduled=true", ""))
    scalar = parse_module("HloModule m, is_scheduled=true\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")
    for target in ("cpu", "tpu:v5e"):
        assert made_elsewhere(plain, target) == made_elsewhere(scalar, target) == ""
