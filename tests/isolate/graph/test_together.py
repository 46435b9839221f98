"""A program that is wrong as a whole and in no piece, in the entry and in the body of a loop."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request, open_worker, settings_for
from assay.hlo.parse import parse_module
from assay.isolate.graph.tapped import AsIs
from assay.isolate.graph.together import wrong_together
from assay.isolate.graph.watch import suspects
from assay.oracle.verdict import Verdict

HERE = Path(__file__).parent
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
pytestmark = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")

FUSIONS = "".join(
    f"{name}_ {{ x = f32[16]{{0}} parameter(0)\n ROOT y = f32[16]{{0}} {opcode}(x) }}\n"
    for name, opcode in (
        ("one", "negate"), ("two", "sine"), ("three", "floor"),
        ("four", "tanh"), ("five", "abs"), ("six", "exponential"),
    )
)  # fmt: skip
CHAIN = """ one = f32[16]{0} fusion(x), kind=kLoop, calls=one_
 two = f32[16]{0} fusion(one), kind=kLoop, calls=two_
 three = f32[16]{0} fusion(x), kind=kLoop, calls=three_
 four = f32[16]{0} fusion(two), kind=kLoop, calls=four_
 five = f32[16]{0} fusion(four), kind=kLoop, calls=five_
"""
FLAT = parse_module(f"""HloModule m, is_scheduled=true
{FUSIONS}ENTRY e {{ x = f32[16]{{0}} parameter(0)
{CHAIN} six = f32[16]{{0}} fusion(five), kind=kLoop, calls=six_
 ROOT t = (f32[16]{{0}}, f32[16]{{0}}) tuple(six, three) }}""")
LOOP = parse_module(f"""HloModule m, is_scheduled=true
{FUSIONS}more {{ i = s32[] parameter(0)
 k = s32[] constant(1)
 ROOT j = s32[] add(i, k) }}
less {{ i = s32[] parameter(0)
 n = s32[] constant(2)
 ROOT l = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[16]{{0}}, f32[16]{{0}}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[16]{{0}} get-tuple-element(s), index=1
{CHAIN} j = s32[] fusion(i), kind=kLoop, calls=more
 ROOT t = (s32[], f32[16]{{0}}, f32[16]{{0}}) tuple(j, five, three) }}
condition {{ s = (s32[], f32[16]{{0}}, f32[16]{{0}}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 ROOT l = pred[] fusion(i), kind=kLoop, calls=less }}
ENTRY e {{ p = f32[16]{{0}} parameter(0)
 zero = s32[] constant(0)
 c = s32[] copy(zero)
 d = f32[16]{{0}} copy(p)
 e1 = f32[16]{{0}} copy(p)
 s = (s32[], f32[16]{{0}}, f32[16]{{0}}) tuple(c, d, e1)
 w = (s32[], f32[16]{{0}}, f32[16]{{0}}) while(s), condition=condition, body=body
 g = f32[16]{{0}} get-tuple-element(w), index=1
 ROOT six = f32[16]{{0}} fusion(g), kind=kLoop, calls=six_ }}""")
PRELOAD = (HERE / "wrong_together.py").read_text()
X = np.linspace(-2, 3, 16, dtype=np.float32)


@pytest.fixture
def found(tmp_path):
    def search(module, preload=PRELOAD):
        (tmp_path / "preload.py").write_text(preload)
        request = Request(preload=tmp_path / "preload.py")
        with open_worker(request, lambda _: None) as (worker, versions):
            settings = settings_for(request, versions)
            where = suspects(module, [X], settings, AsIs(worker))
            row, why = wrong_together(module, [X], "given", worker, request, settings, lambda _: None)
            return where, row, why

    return search


def test_in_the_entry(found) -> None:
    where, row, _ = found(FLAT)
    assert where == {"e": {"two"}}
    assert row.verdict is Verdict.MISMATCH
    assert row.instances == ("two", "four")
    assert "no piece can be left out" in row.notes[-1]


def test_in_the_body_of_a_loop(found) -> None:
    """The sine alone is right and so is the tangent; the whole loop is wrong, and two pieces of its body."""
    where, row, _ = found(LOOP)
    assert where == {"body": {"two"}, "e": {"w"}}
    assert row.instances == ("two", "four")
    assert row.computation == "body"


@pytest.mark.slow
def test_a_right_compiler(found) -> None:
    where, row, why = found(LOOP, "")
    assert where == {}
    assert row is None
    assert "not wrong" in why
