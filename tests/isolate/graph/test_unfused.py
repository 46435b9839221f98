"""A piece with nothing fused computes what the piece computes, and is an ordinary program."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import Unsupported
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler, print_shape
from assay.inputs.generate import generate
from assay.isolate.graph.unfused import unfused
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, flatten
from assay.toolchain import Worker, host

NESTED = """HloModule nested, is_scheduled=true
inner { a = f32[4,8]{1,0} parameter(0)
  b = f32[4,8]{1,0} parameter(1)
  ROOT s = f32[4,8]{1,0} subtract(a, b) }
outer { x = f32[4,8]{1,0} parameter(0)
  y = f32[4,8]{1,0} parameter(1)
  f = f32[4,8]{1,0} fusion(y, x), kind=kLoop, calls=inner
  g = f32[4,8]{1,0} fusion(f, y), kind=kLoop, calls=inner
  ROOT m = f32[4,8]{1,0} multiply(f, g) }
ENTRY main { p = f32[4,8]{1,0} parameter(0)
  q = f32[4,8]{1,0} parameter(1)
  c = f32[4,8]{1,0} call(p, q), to_apply=outer
  ROOT r = f32[4,8]{1,0} fusion(c, p), kind=kLoop, calls=outer }
"""
SEVERAL = """HloModule several, is_scheduled=true
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
two { x = f32[4,8]{1,0} parameter(0)
  z = f32[] constant(0)
  s = f32[4]{0} reduce(x, z), dimensions={1}, to_apply=add
  e = f32[4,8]{1,0} exponential(x)
  ROOT t = (f32[4]{0}, f32[4,8]{1,0}) tuple(s, e) }
ENTRY main { p = f32[4,8]{1,0} parameter(0)
  ROOT r = (f32[4]{0}, f32[4,8]{1,0}) fusion(p), kind=kLoop, calls=two }
"""
LOOP = """HloModule loop, is_scheduled=true
twice { x = f32[4]{0} parameter(0)
  ROOT s = f32[4]{0} add(x, x) }
next { i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT j = s32[] add(i, one) }
more { i = s32[] parameter(0)
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  j = s32[] fusion(i), kind=kLoop, calls=next
  y = f32[4]{0} fusion(x), kind=kLoop, calls=twice
  ROOT t = (s32[], f32[4]{0}) tuple(j, y) }
condition { s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ROOT l = pred[] fusion(i), kind=kLoop, calls=more }
ENTRY main { p = f32[4]{0} parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4]{0}) tuple(z, p)
  w = (s32[], f32[4]{0}) while(t), condition=condition, body=body
  ROOT r = f32[4]{0} get-tuple-element(w), index=1 }
"""
MOVED = """HloModule moved, is_scheduled=true
shuffle { x = f32[2,3,4]{0,2,1} parameter(0)
  n = f32[2,3,4]{0,2,1} negate(x)
  a = f32[12,2]{1,0} bitcast(n)
  b = f32[2,12]{0,1} bitcast(a)
  ROOT c = f32[6,4]{0,1} bitcast(b) }
ENTRY main { p = f32[2,3,4]{0,2,1} parameter(0)
  ROOT r = f32[6,4]{0,1} fusion(p), kind=kLoop, calls=shuffle }
"""
PROGRAMS = {"nested": NESTED, "several": SEVERAL, "loop": LOOP, "moved": MOVED}


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as found:
        yield found


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_computes_the_same(name: str, worker: Worker) -> None:
    module = parse_module(PROGRAMS[name])
    plain = unfused(module)
    assert not any(i.opcode in ("fusion", "call", "bitcast") for c in plain.computations for i in c.instructions)
    arguments = generate(module, 0, "stamps")
    wanted, found = (
        [b for b in flatten(evaluate(m, arguments, for_target("cpu")).value) if isinstance(b, Ball)]
        for m in (module, plain)
    )
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a.mid, b.mid)
    results = worker.run(worker.compile(print_for_compiler(plain), "hlo-text"), arguments)
    for ball, result in zip(wanted, results, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(result, ball.mid.astype(np.float32), rtol=1e-5)


def test_a_bitcast_is_what_its_layouts_say() -> None:
    """The bytes of x in its layout, read in the result's: worked out on memory itself."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    memory = x.transpose(1, 2, 0).ravel()  # {0,2,1}: dimension 0 is the fastest, then 2, then 1
    wanted = -memory.reshape(4, 6).T  # {0,1} of [6,4]
    (ball,) = flatten(evaluate(unfused(parse_module(MOVED)), [x], for_target("cpu")).value)
    assert isinstance(ball, Ball)
    np.testing.assert_array_equal(ball.mid, wanted)


def test_layouts_and_the_schedule_are_gone() -> None:
    plain = unfused(parse_module(MOVED))
    assert not plain.attributes
    shapes = [print_shape(i.shape) for c in plain.computations for i in c.instructions]
    assert all("{0,1}" not in shape and "{0,2,1}" not in shape for shape in shapes)


def test_a_bitcast_to_another_type_has_no_plain_form() -> None:
    text = """HloModule m
ENTRY main { p = f32[4]{0} parameter(0)
  ROOT r = s32[4]{0} bitcast(p) }
"""
    with pytest.raises(Unsupported, match="bitcast"):
        unfused(parse_module(text))
