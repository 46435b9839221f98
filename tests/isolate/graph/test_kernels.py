"""Kernels of a module and its dump, on modules written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.isolate.graph.kernels import Kernel, alone, kernels, without_kernel
from assay.llo.files import ORIGINAL, Dump, KernelFiles, Stage
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball

TILE = "{1,0:T(8,128)}"
POLICY = for_target("tpu:v5e")


def module(entry: str, others: str = "") -> Module:
    return parse_module(f"HloModule m, is_scheduled=true\n\n{others}\nENTRY e {{\n{entry}\n}}\n")


def dump(*names: str, same: dict[str, str] | None = None) -> Dump:
    files = {name: KernelFiles(name, (Stage(0, ORIGINAL, Path(f"{name}.txt")),)) for name in names}
    return Dump(Path(), files, same or {})


def only(found: list[Kernel]) -> Kernel:
    (kernel,) = found
    return kernel


def value(program: Module, *arguments: np.ndarray) -> np.ndarray:
    found = evaluate(program, arguments, POLICY).value
    assert isinstance(found, Ball)
    return np.asarray(found.mid)


def test_a_value_used_twice_is_one_parameter_and_constants_stay_in():
    found = only(
        kernels(
            module(
                f"""  x = f32[8,128]{TILE} parameter(0)
  half = f32[] constant(0.5)
  halves = f32[8,128]{TILE} broadcast(half), dimensions={{}}
  near = f32[8,128]{{1,0:T(8,128)S(1)}} copy(halves)
  d = f32[8,128]{TILE} subtract(x, x)
  ROOT k = f32[8,128]{TILE} clamp(x, near, x)"""
            ),
            dump("k"),
        )
    )
    entry = found.alone.entry
    assert [p.name for p in entry.parameters] == ["x"]
    assert {i.opcode for i in entry.instructions} == {"parameter", "constant", "broadcast", "copy", "clamp"}
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    first, middle, last = found.operands([x], POLICY)
    assert np.array_equal(first, x)
    assert np.array_equal(last, x)
    assert middle.dtype == np.float32
    assert (middle == 0.5).all()
    assert np.array_equal(value(found.alone, x), x)  # clamp(x, 0.5, x) is x


def test_one_buffer_under_two_shapes_is_one_parameter():
    text = """  x = f32[8,128]{1,0} parameter(0)
  flat = f32[1024]{0} bitcast(x)
  again = f32[8,128]{1,0} bitcast(flat)
  ROOT k = f32[8,128]{1,0} subtract(x, again)"""
    program = module(text)
    made = alone(program, program.entry, program.entry.root)
    assert [p.name for p in made.entry.parameters] == ["x"]
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    assert not value(made, x).any()
    # Where nothing else is that buffer, the bitcast is the operand.
    text = text.replace("subtract(x, again)", "negate(again)")
    program = module(text)
    assert [p.name for p in alone(program, program.entry, program.entry.root).entry.parameters] == ["again"]


def test_instances_count_as_one_where_their_meaning_is_one():
    text = f"""  x = f32[8,128]{TILE} parameter(0)
  y = f32[8,128]{TILE} parameter(1)
  a = f32[8,128]{TILE} add(x, y)
  b = f32[8,128]{TILE} add(y, a)
  c = f32[8,128]{TILE} multiply(y, a)
  ROOT t = (f32[8,128]{TILE}, f32[8,128]{TILE}) tuple(b, c)"""
    found = kernels(module(text), dump("a", same={"b": "a", "c": "a"}))
    # libtpu shares one kernel among a sum and a product: then it is judged by both.
    assert [(k.name, k.instances, k.instruction.opcode) for k in found] == [
        ("a", ("a", "b"), "add"),
        ("c", ("c",), "multiply"),
    ]
    assert {k.files.name for k in found} == {"a"}
    assert len({k.key for k in found}) == 2


def test_kernels_that_were_compiled_apart_are_two_though_they_mean_the_same():
    text = f"""  x = f32[8,128]{TILE} parameter(0)
  a = f32[8,128]{TILE} negate(x)
  b = f32[8,128]{TILE} negate(x)
  ROOT t = (f32[8,128]{TILE}, f32[8,128]{TILE}) tuple(a, b)"""
    found = kernels(module(text), dump("a", "b"))
    assert [(k.name, k.files.name) for k in found] == [("a", "a"), ("b", "b")]
    assert len({k.key for k in found}) == 2  # a row each: neither is judged for the other


def test_kernels_in_loops_are_found_and_what_has_none_is_told():
    others = """body {
  p = (s32[], f32[8,128]{1,0}) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  v = f32[8,128]{1,0} get-tuple-element(p), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  w = f32[8,128]{1,0} negate(v)
  ROOT r = (s32[], f32[8,128]{1,0}) tuple(m, w)
}

condition {
  q = (s32[], f32[8,128]{1,0}) parameter(0)
  i = s32[] get-tuple-element(q), index=0
  most = s32[] constant(3)
  ROOT less = pred[] compare(i, most), direction=LT
}
"""
    text = """  x = f32[8,128]{1,0} parameter(0)
  near = f32[8,128]{1,0} copy(x)
  b = f32[8,128]{1,0} custom-call(), custom_call_target="AllocateBuffer"
  zero = s32[] constant(0)
  s = (s32[], f32[8,128]{1,0}) tuple(zero, near)
  l = (s32[], f32[8,128]{1,0}) while(s), condition=condition, body=body
  f = f32[8,128]{1,0} get-tuple-element(l), index=1
  ROOT e = f32[8,128]{1,0} exponential(f)"""
    program = module(text, others)
    found = only(kernels(program, dump("w")))
    assert (found.name, found.computation) == ("w", "body")
    left = {i.name: i.why for i in without_kernel(program, dump("w"))}
    assert left == {
        "near": "a copy, done by DMA",
        "b": "only names memory",
        "m": "done by the scalar core of the program that calls the kernels",
        "less": "done by the scalar core of the program that calls the kernels",
        "e": "the dump has no LLO of it",
    }


@pytest.mark.parametrize("tied", [True, False])
def test_operands_that_only_a_token_depends_on_are_a_promise(tied: bool):
    what = "after-all(starts)" if tied else "after-all()"
    fused = f"""fused {{
  x = f32[8,128]{{1,0}} parameter(0)
  starts = s32[8]{{0}} parameter(1)
  t = token[] {what}
  ROOT d = f32[8,128]{{1,0}} add-dependency(x, t)
}}
"""
    text = """  a = f32[8,128]{1,0} parameter(0)
  b = s32[8]{0} parameter(1)
  ROOT k = f32[8,128]{1,0} fusion(a, b), kind=kCustom, calls=fused"""
    assert only(kernels(module(text, fused), dump("k"))).promised is tied
