"""An optimized module, compiled as it stands: the same bits as the compilation it came from, in any layout."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.toolchain import RequestRefused, Worker, host

VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
pytestmark = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")

PROGRAM = """
HloModule program
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
body { s = (s32[], f32[8,8]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[8,8] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 z = f32[8,8] tanh(y)
 ROOT t = (s32[], f32[8,8]) tuple(j, z) }
condition { s = (s32[], f32[8,8]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(3)
 ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { p = f32[8,8] parameter(0)
 zero = s32[] constant(0)
 fz = f32[] constant(0)
 s = (s32[], f32[8,8]) tuple(zero, p)
 w = (s32[], f32[8,8]) while(s), condition=condition, body=body
 x = f32[8,8] get-tuple-element(w), index=1
 e2 = f32[8,8] exponential(x)
 r = f32[8] reduce(e2, fz), dimensions={1}, to_apply=add
 b = f32[8,8] broadcast(r), dimensions={0}
 ROOT d = f32[8,8] divide(e2, b) }
"""
X = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as found:
        yield found


def test_it_is_the_program_that_the_compiler_made(worker) -> None:
    plain = worker.compile(PROGRAM, "hlo-text")
    module = parse_module(plain.hlo)
    again = worker.compile(print_for_compiler(module), "hlo-optimized")
    (a,), (b,) = worker.run(plain, [X]), worker.run(again, [X])
    assert a.tobytes() == b.tobytes()
    there = parse_module(again.hlo)
    assert {c.name: c.instructions for c in there.computations} == {c.name: c.instructions for c in module.computations}


def test_no_pass_simplifies_it(worker) -> None:
    """What the compiler would take out stays in: x + 0 of x = -0 is +0."""
    text = """HloModule m, is_scheduled=true
f { p = f32[4]{0} parameter(0)
 z = f32[] constant(0)
 b = f32[4]{0} broadcast(z), dimensions={}
 ROOT a = f32[4]{0} add(p, b) }
ENTRY e { p = f32[4]{0} parameter(0)
 ROOT a = f32[4]{0} fusion(p), kind=kLoop, calls=f }"""
    compiled = worker.compile(text, "hlo-optimized")
    assert "add(" in compiled.hlo
    (out,) = worker.run(compiled, [np.full(4, -0.0, np.float32)])
    assert not np.signbit(out).any()


def test_layouts_of_parameters_and_results(worker) -> None:
    text = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[2,3,4]{0,2,1})->(f32[2,3,4]{0,2,1},\
 pred[2,3]{0,1})}
f { p = f32[2,3,4]{0,2,1} parameter(0)
 ROOT n = f32[2,3,4]{0,2,1} negate(p) }
g { p = f32[2,3,4]{0,2,1} parameter(0)
 s = f32[2,3,1]{0,2,1} slice(p), slice={[0:2], [0:3], [1:2]}
 r = f32[2,3]{0,1} reshape(s)
 c = f32[] constant(9)
 b = f32[2,3]{0,1} broadcast(c), dimensions={}
 ROOT o = pred[2,3]{0,1} compare(r, b), direction=LT }
ENTRY e { p = f32[2,3,4]{0,2,1} parameter(0)
 n = f32[2,3,4]{0,2,1} fusion(p), kind=kLoop, calls=f
 o = pred[2,3]{0,1} fusion(p), kind=kLoop, calls=g
 ROOT t = (f32[2,3,4]{0,2,1}, pred[2,3]{0,1}) tuple(n, o) }"""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    negated, smaller = worker.run(worker.compile(text, "hlo-optimized"), [x])
    np.testing.assert_array_equal(negated, -x)
    np.testing.assert_array_equal(smaller, x[:, :, 1] < 9)


def test_many_parameters_and_results(worker) -> None:
    """Hundreds: whatever they are called in the program that stands in for the module, it is no type's name."""
    count = 300
    parameters = "\n ".join(f"x{n} = f32[] parameter({n})" for n in range(count))
    made = "\n ".join(f"y{n} = f32[] negate(x{n})" for n in range(count))
    root = f"ROOT t = ({', '.join(['f32[]'] * count)}) tuple({', '.join(f'y{n}' for n in range(count))})"
    text = f"HloModule m, is_scheduled=true\nENTRY e {{ {parameters}\n {made}\n {root} }}"
    outputs = worker.run(worker.compile(text, "hlo-optimized"), [np.float32(n) for n in range(count)])
    np.testing.assert_array_equal(outputs, -np.arange(count))


def test_what_does_not_parse_is_refused_and_the_hook_is_gone(worker) -> None:
    with pytest.raises(RequestRefused):
        worker.compile("HloModule m ENTRY e { ROOT p = f32[2] negate(q) }", "hlo-optimized")
    (out,) = worker.run(worker.compile("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }", "hlo-text"), [X[0, :2]])
    np.testing.assert_array_equal(out, X[0, :2])
