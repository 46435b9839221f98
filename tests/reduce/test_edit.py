"""Every edit: what is left computes what it did before, by another evaluator, and is well formed by the type rules."""

from __future__ import annotations

import itertools
import random

import generated
import numpy as np
import pytest

from assay.errors import HloTypeError
from assay.hlo.module import Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.types import check_module
from assay.isolate.graph.cut import running
from assay.reduce import edit, flow, signature
from assay.reduce.candidate import Candidate, flattened, tidied
from assay.reduce.values import seen
from assay.reference.policies import STRICT
from assay.toolchain import Worker, host


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as found:
        yield found


@pytest.fixture(autouse=True)
def unoptimized(monkeypatch):
    """Without what only optimized modules have, which XLA does not compile."""
    kinds = tuple(k for k in generated.KINDS if k not in ("fusion", "slice", "bitcast", "copy"))
    monkeypatch.setattr(generated, "KINDS", kinds)


def run(worker: Worker, module: Module, arguments) -> list[np.ndarray]:
    """By XLA, without LLVM's optimizations."""
    options = {"xla_backend_optimization_level": "0"}
    compiled = worker.compile(print_for_compiler(module), "hlo-text", options)
    found = worker.run(compiled, arguments)
    worker.release(compiled)
    return found


def candidate(seed: int) -> Candidate:
    module = parse_module(generated.module_text(seed))
    drawn = np.random.default_rng(seed)
    arguments = [drawn.integers(-4, 5, (4,)).astype(np.float32) for _ in module.entry.parameters]
    return tidied(flattened(module), arguments)


def same(worker: Worker, a: Candidate, b: Candidate) -> None:
    check_module(b.module)
    one, other = run(worker, a.module, a.arguments), run(worker, b.module, b.arguments)
    assert len(one) == len(other)
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)  # a sum may be taken in another order where less stands around it


def valued(worker: Worker, made: Candidate | None, whole: Candidate) -> bool:
    if made is None:
        return False
    same(worker, whole, made)
    return True


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_gives_the_same_results_wherever_it_is_made(worker, seed):
    whole = candidate(seed)
    values, entry = seen(whole, STRICT), whole.module.entry
    names = [i.name for i in entry.instructions if i.parameter_number is None and i.name != entry.root_name]
    rng = random.Random(seed)
    made = 0
    for count in (1, 2, 5, len(names) // 2, len(names)):
        gone = rng.sample(names, min(count, len(names)))
        try:
            cut = edit.cut(whole, edit.outputs(whole), gone, values, "cut")
        except HloTypeError:
            continue  # a tuple that is read whole cannot be a parameter
        assert {i.name for i in cut.module.entry.instructions if i.opcode not in ("parameter", "tuple")}.isdisjoint(
            name for name in gone if entry.by_name[name].opcode not in ("parameter", "tuple")
        )
        same(worker, whole, cut)
        made += 1
    assert made


@pytest.mark.parametrize("seed", range(6))
def test_results_in_the_middle_are_what_the_reference_has_there(worker, seed):
    whole = candidate(seed)
    values, entry = seen(whole, STRICT), whole.module.entry
    names = [i.name for i in entry.instructions if i.opcode in ("add", "subtract", "negate")]
    made = edit.cut(whole, names, (), values, "middle")
    found = run(worker, made.module, made.arguments)
    assert len(found) == len(names)
    for name, array in zip(names, found, strict=True):
        np.testing.assert_allclose(array, values.array(entry.name, entry.by_name[name]), rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_bodies_in_the_place_of_calls_and_what_calls_need_not_take(worker, seed):
    whole = candidate(seed)
    changed = 0
    for where in running(whole.module):
        for instruction in where.instructions:
            if instruction.opcode == "call":
                changed += valued(worker, flow._opened(whole, where, instruction, 0), whole)
                changed += valued(worker, signature.pruned_call(whole, where, instruction), whole)
            elif instruction.opcode == "while":
                changed += valued(worker, signature.pruned_while(whole, where, instruction), whole)
                changed += valued(
                    worker, signature.with_constant(whole, where, instruction, seen(whole, STRICT)), whole
                )
            elif instruction.opcode == "conditional":
                changed += valued(worker, signature.pruned_conditional(whole, where, instruction), whole)
    assert changed or not any(i.opcode in CONTROL_FLOW for c in running(whole.module) for i in c.instructions)


LOOP = """HloModule loop

body (s: (s32[], f32[3], f32[3], s32[])) -> (s32[], f32[3], f32[3], s32[]) {
  s = (s32[], f32[3], f32[3], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  k = f32[3] get-tuple-element(s), index=2
  unread = s32[] get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  more = s32[] multiply(unread, i)
  y = f32[3] add(x, k)
  ROOT r = (s32[], f32[3], f32[3], s32[]) tuple(next, y, k, more)
}

condition (s.1: (s32[], f32[3], f32[3], s32[])) -> pred[] {
  s.1 = (s32[], f32[3], f32[3], s32[]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i.1, n), direction=LT
}

ENTRY main (a: f32[3], b: f32[3]) -> f32[3] {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[3], f32[3], s32[]) tuple(zero, a, b, zero)
  loop = (s32[], f32[3], f32[3], s32[]) while(start), condition=condition, body=body
  ROOT got = f32[3] get-tuple-element(loop), index=1
}
"""


def test_what_a_loop_carries_for_nothing_goes_and_what_it_never_changes_is_a_constant(worker):
    a, b = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    whole = tidied(parse_module(LOOP), [a, b])
    loop = whole.module.entry.by_name["loop"]
    pruned = signature.pruned_while(whole, whole.module.entry, loop)
    assert pruned is not None
    assert len(pruned.module.entry.by_name["loop"].shape.elements) == 3
    np.testing.assert_array_equal(run(worker, pruned.module, pruned.arguments)[0], a + 4 * b)
    again = signature.with_constant(whole, whole.module.entry, loop, seen(whole, STRICT))
    assert again is not None
    assert len(again.module.entry.by_name["loop"].shape.elements) == 2
    assert len(again.arguments) == 1  # b is written down now
    np.testing.assert_array_equal(run(worker, again.module, again.arguments)[0], a + 4 * b)


def test_a_loop_opened_is_one_trip(worker):
    a, b = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    whole = tidied(parse_module(LOOP), [a, b])
    made = flow._opened(whole, whole.module.entry, whole.module.entry.by_name["loop"], 0)
    np.testing.assert_array_equal(run(worker, made.module, made.arguments)[0], a + b)
    assert [i.opcode for i in made.module.entry.instructions] == ["parameter", "parameter", "add"]


TUPLES = """HloModule tuples

ENTRY main (p: (f32[2], (s32[], f32[2]))) -> f32[2] {
  p = (f32[2], (s32[], f32[2])) parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  q = (s32[], f32[2]) get-tuple-element(p), index=1
  y = f32[2] get-tuple-element(q), index=1
  ROOT r = f32[2] subtract(x, y)
}
"""


def test_parameters_that_are_tuples_become_arrays_and_those_unread_go(worker):
    arguments = [np.array([5, 6], np.float32), np.array(7, np.int32), np.array([1, 2], np.float32)]
    made = tidied(flattened(parse_module(TUPLES)), arguments)
    assert [i.opcode for i in made.module.entry.instructions] == ["parameter", "parameter", "subtract"]
    np.testing.assert_array_equal(run(worker, made.module, made.arguments)[0], np.array([4, 4], np.float32))


def test_a_key_knows_no_names_and_knows_values():
    text = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n"
    other = text.replace("x", "z").replace("y", "w")
    one, two = np.zeros(2, np.float32), np.array([0, 1], np.float32)
    keys = [tidied(parse_module(t), [a]).key for t, a in itertools.product((text, other), (one, two))]
    assert keys[0] == keys[2]
    assert keys[1] == keys[3]
    assert keys[0] != keys[1]
