"""Lockstep gives what evaluation gives, evaluates nothing twice, and tells apart what differs."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.reader import Memory
from assay.hlo.shape import DTYPES
from assay.isolate.lockstep import Lockstep, near
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, flatten

from .chains import drawn, module

CPU = for_target("cpu")

FIRST = """
cond { s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,8] tanh(x)
  ROOT r = (s32[], f32[4,8]) tuple(j, y) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4,8] parameter(0)
  q = f32[4,8] parameter(1)
  unused = f32[4,8] sine(q)
  m = f32[4,8] multiply(p, q)
  zero = s32[] constant(0)
  t = (s32[], f32[4,8]) tuple(zero, m)
  w = (s32[], f32[4,8]) while(t), condition=cond, body=body
  v = f32[4,8] get-tuple-element(w), index=1
  z = f32[] constant(0)
  s = f32[4] reduce(v, z), dimensions={1}, to_apply=add
  seven = f32[] constant(7)
  sevens = f32[4] broadcast(seven), dimensions={}
  d = f32[4] divide(s, sevens)
  ROOT r = (f32[4], f32[4,8]) tuple(d, v) }
"""

# The same, otherwise: renamed, reordered, laid out anew, the loop's body called and fused.
SAME = """
total { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s.1 = f32[] add(l, r) }
inner { x.9 = f32[4,8]{0,1} parameter(0)
  ROOT y.9 = f32[4,8]{0,1} tanh(x.9), metadata={op_name="jit(f)/tanh"} }
again { st = (s32[], f32[4,8]{0,1}) parameter(0)
  x.1 = f32[4,8]{0,1} get-tuple-element(st), index=1
  f.1 = f32[4,8]{0,1} fusion(x.1), kind=kLoop, calls=inner
  i.1 = s32[] get-tuple-element(st), index=0
  one.1 = s32[] constant(1)
  j.1 = s32[] add(i.1, one.1)
  ROOT r.1 = (s32[], f32[4,8]{0,1}) tuple(j.1, f.1) }
more { st = (s32[], f32[4,8]{0,1}) parameter(0)
  n.1 = s32[] constant(3)
  i.1 = s32[] get-tuple-element(st), index=0
  ROOT r.1 = pred[] compare(i.1, n.1), direction=LT }
product { a.1 = f32[4,8]{0,1} parameter(0)
  b.1 = f32[4,8]{0,1} parameter(1)
  ROOT c.1 = f32[4,8]{0,1} multiply(a.1, b.1) }
ENTRY main { second = f32[4,8]{0,1} parameter(1)
  first = f32[4,8]{0,1} parameter(0)
  mul = f32[4,8]{0,1} fusion(second, first), kind=kLoop, calls=product
  copied = f32[4,8]{0,1} copy(mul)
  c0 = s32[] constant(0)
  init = (s32[], f32[4,8]{0,1}) tuple(c0, copied)
  loop = (s32[], f32[4,8]{0,1}) while(init), condition=more, body=again
  out = f32[4,8]{0,1} get-tuple-element(loop), index=1
  none = f32[] constant(0)
  sum = f32[4]{0} reduce(out, none), dimensions={1}, to_apply=total
  seven.1 = f32[] constant(7)
  sevens.1 = f32[4]{0} broadcast(seven.1), dimensions={}
  quot = f32[4]{0} divide(sum, sevens.1)
  ROOT both = (f32[4]{0}, f32[4,8]{0,1}) tuple(quot, out) }
"""


def plain(text: str, arguments: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    found = evaluate(module(text), arguments, CPU, rng=np.random.default_rng(0), amplitude=0.0, alike=False)
    return [leaf.mid for leaf in flatten(found.value) if isinstance(leaf, Ball)]


def test_values_are_those_of_an_evaluation() -> None:
    arguments = drawn((4, 8), (4, 8)).arguments
    lockstep = Lockstep(CPU)
    for text in (FIRST, SAME):
        numbers = lockstep.results(module(text), arguments)
        for number, wanted in zip(numbers, plain(text, arguments), strict=True):
            value = lockstep.value(number)
            assert isinstance(value, Ball)
            np.testing.assert_array_equal(value.mid, wanted)
    x, y = (a.astype(np.float64) for a in arguments)
    v = np.tanh(np.tanh(np.tanh(x * y)))
    second = lockstep.value(numbers[1])
    assert isinstance(second, Ball)
    np.testing.assert_allclose(second.mid, v, rtol=1e-14)


def test_names_order_layouts_and_fusion_cost_nothing() -> None:
    arguments = drawn((4, 8), (4, 8)).arguments
    lockstep = Lockstep(CPU)
    first = lockstep.results(module(FIRST), arguments)
    evaluated = lockstep.evaluated
    assert lockstep.results(module(FIRST), arguments) == first
    assert lockstep.evaluated == evaluated
    assert lockstep.results(module(SAME), arguments) == first
    assert lockstep.evaluated == evaluated


def test_dead_instructions_are_not_evaluated() -> None:
    lockstep = Lockstep(CPU)
    lockstep.results(
        module("ENTRY e { p = f32[2] parameter(0)\n u = f32[2] custom-call(p), custom_call_target=\"no\"\n"
               " ROOT r = f32[2] negate(p) }"),
        drawn((2,)).arguments,
    )  # fmt: skip
    assert lockstep.evaluated == 1


def test_a_rounded_constant_is_a_legal_rewrite_and_another_constant_is_not() -> None:
    """x / 7 -> x * (1/7): the product differs by the rounding of 1/7, which the division's own ball holds."""
    arguments = drawn((4, 8), (4, 8)).arguments
    lockstep = Lockstep(CPU)
    first = lockstep.results(module(FIRST), arguments)
    division = "seven = f32[] constant(7)", "divide(s, sevens)"
    for constant, same in (("0.142857149", True), ("0.142860", False), ("0.125", False)):
        text = FIRST.replace(division[0], f"seven = f32[] constant({constant})").replace(
            division[1], "multiply(s, sevens)"
        )
        assert (lockstep.results(module(text), arguments) == first) is same, constant


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tanh(x)", "sine(x)"),
        ("constant(3)", "constant(4)"),
        ("multiply(p, q)", "multiply(p, p)"),
        ("dimensions={1}, to_apply", "dimensions={1}, to_apply"),
        ("add(a, b)", "maximum(a, b)"),
        ("direction=LT", "direction=LE"),
    ],
)
def test_what_computes_something_else_is_something_else(old: str, new: str) -> None:
    arguments = drawn((4, 8), (4, 8)).arguments
    lockstep = Lockstep(CPU)
    first = lockstep.results(module(FIRST), arguments)
    text = FIRST.replace(old, new)
    found = lockstep.results(module(text), arguments)
    assert (found == first) is (text == FIRST)
    for number, wanted in zip(found, plain(text, arguments), strict=True):
        value = lockstep.value(number)
        assert isinstance(value, Ball)
        np.testing.assert_allclose(value.mid, wanted, rtol=1e-6)


def test_several_inputs_share_the_tables_and_nothing_else() -> None:
    lockstep = Lockstep(CPU)
    for seed in (0, 1, 0):
        arguments = drawn((4, 8), (4, 8), seed=seed).arguments
        value = lockstep.value(lockstep.results(module(FIRST), arguments)[1])
        assert isinstance(value, Ball)
        np.testing.assert_array_equal(value.mid, plain(FIRST, arguments)[1])


def test_memory_is_bounded_by_dropping_what_is_not_needed() -> None:
    """Sixty programs of 1 MiB values in a table of 4 MiB; each is right, and what the last needs is there."""
    text = """ENTRY e {{ p = f32[131072] parameter(0)
      c = f32[] constant({c})
      b = f32[131072] broadcast(c), dimensions={{}}
      ROOT r = f32[131072] add(p, b) }}"""
    lockstep = Lockstep(CPU, memory_limit=4 << 20)
    arguments = drawn((131072,)).arguments
    for c in range(60):
        (number,) = lockstep.results(module(text.format(c=c)), arguments)
        value = lockstep.value(number)
        assert isinstance(value, Ball)
        np.testing.assert_array_equal(value.mid, arguments[0].astype(np.float64) + c)
        assert lockstep._held <= 4 << 20


CALLERS = """
inner { a = f32[4,8] parameter(0)
  ROOT b = f32[4,8] tanh(a) }
middle { a = f32[4,8] parameter(0)
  c = f32[4,8] fusion(a), kind=kLoop, calls=inner
  ROOT d = f32[4,8] negate(c) }
until { s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,8] call(x), to_apply=middle
  ROOT r = (s32[], f32[4,8]) tuple(j, y) }
ENTRY e { p = f32[4,8] parameter(0)
  f = f32[4,8] fusion(p), kind=kLoop, calls=middle
  zero = s32[] constant(0)
  t = (s32[], f32[4,8]) tuple(zero, f)
  w = (s32[], f32[4,8]) while(t), condition=until, body=body
  v = f32[4,8] get-tuple-element(w), index=1
  u = f32[8,4]{1,0} transpose(v), dimensions={1,0}
  l = f32[8,4]{1,0} copy(u)
  ROOT r = f32[32] bitcast(l) }
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tanh(a)", "sine(a)"),  # below a caller and a loop whose texts stay
        ("negate(c)", "abs(c)"),
        ("constant(2)", "constant(3)"),
        ("l = f32[8,4]{1,0}", "l = f32[8,4]{0,1}"),  # the bitcast's own text stays
    ],
)
def test_what_did_not_change_is_followed_anew_where_what_it_depends_on_changed(old: str, new: str) -> None:
    """Read with one memory, as snapshots are: most instructions of both are the same objects."""
    arguments, memory, lockstep = drawn((4, 8)).arguments, Memory(), Lockstep(CPU)
    assert old in CALLERS
    for text in (CALLERS, CALLERS.replace(old, new), CALLERS):
        (number,) = lockstep.results(parse_module(f"HloModule m\n{text}", memory=memory), arguments)
        value = lockstep.value(number)
        assert isinstance(value, Ball)
        (wanted,) = plain(text, arguments)
        np.testing.assert_array_equal(value.mid, wanted)


def test_parameters_are_the_same_arrays_however_tuples_hold_them() -> None:
    """Parameter 1 is one array in the first, and another of the same shape in the second."""
    flat = """ENTRY e {{ {parameters}
      x = f32[4] subtract(a, b)
      ROOT r = f32[4] multiply(x, c) }}"""
    forms = [
        "p = (f32[4], f32[4]) parameter(0)\n a = f32[4] get-tuple-element(p), index=0\n"
        " b = f32[4] get-tuple-element(p), index=1\n c = f32[4] parameter(1)",
        "a = f32[4] parameter(0)\n b = f32[4] parameter(1)\n c = f32[4] parameter(2)",
        "a = f32[4] parameter(0)\n p = (f32[4], f32[4]) parameter(1)\n b = f32[4] get-tuple-element(p), index=0\n"
        " c = f32[4] get-tuple-element(p), index=1",
    ]
    arguments = drawn((4,), (4,), (4,)).arguments
    a, b, c = (x.astype(np.float64) for x in arguments)
    lockstep = Lockstep(CPU)
    for form in forms:
        (number,) = lockstep.results(module(flat.format(parameters=form)), arguments)
        value = lockstep.value(number)
        assert isinstance(value, Ball)
        np.testing.assert_array_equal(value.mid, (a - b) * c)
    assert lockstep.evaluated == 2
    with pytest.raises(InputError, match="takes 3 arrays, not 2"):
        lockstep.results(module(flat.format(parameters=forms[0])), arguments[:2])


def test_what_is_the_same_in_symbols_costs_nothing_on_other_arguments() -> None:
    lockstep = Lockstep(CPU)
    before = []
    for text in (FIRST, SAME, FIRST):
        for seed in (0, 1):
            lockstep.results(module(text), drawn((4, 8), (4, 8), seed=seed).arguments)
            before.append(lockstep.evaluated)
    each = before[0]
    assert before[1] <= 2 * each  # constants are shared
    assert before[2:] == [before[1]] * 4


def test_memory_is_bounded_on_several_arguments_and_with_values_of_several_leaves() -> None:
    """Each module sorts two arrays of 1 MiB and adds up; what was dropped comes back right."""
    text = """less {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] parameter(2)
      d = f32[] parameter(3)
      ROOT r = pred[] compare(a, b), direction={direction} }}
    ENTRY e {{ p = f32[131072] parameter(0)
      n = f32[131072] negate(p)
      s = (f32[131072], f32[131072]) sort(p, n), dimensions={{0}}, to_apply=less
      x = f32[131072] get-tuple-element(s), index=0
      y = f32[131072] get-tuple-element(s), index=1
      ROOT r = f32[131072] {opcode}(x, y) }}"""
    lockstep = Lockstep(CPU, memory_limit=8 << 20)
    sets = [drawn((131072,), seed=seed).arguments for seed in (0, 1)]
    for direction, opcode in [("LT", "maximum"), ("GT", "maximum"), ("LT", "minimum"), ("LT", "maximum")]:
        for arguments in sets:
            (number,) = lockstep.results(module(text.format(direction=direction, opcode=opcode)), arguments)
            value = lockstep.value(number)
            assert isinstance(value, Ball)
            x = np.sort(arguments[0].astype(np.float64))[:: 1 if direction == "LT" else -1]
            np.testing.assert_array_equal(value.mid, np.maximum(x, -x) if opcode == "maximum" else np.minimum(x, -x))
            assert lockstep._held <= 8 << 20


def ball(name: str, values: object, und: object = None) -> Ball:
    dtype = DTYPES[name]
    held = {"f": np.float64, "s": np.int32, "p": np.bool_}[name[0]]
    return Ball(dtype, np.asarray(values, held), None, None if und is None else np.asarray(und, bool))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (ball("f32", [1.0, 2.0]), ball("f32", [1.0, 2.0 + 4e-16]), True),
        (ball("f32", [1.0, 2.0]), ball("f32", [1.0, 2.0 + 2e-9]), False),
        (ball("f32", [np.nan, np.inf]), ball("f32", [np.nan, np.inf]), True),
        (ball("f32", [np.nan]), ball("f32", [0.0]), False),
        (ball("f32", [np.inf]), ball("f32", [-np.inf]), False),
        (ball("f32", [0.0]), ball("f32", [1e-300]), False),
        (ball("f64", [1.0]), ball("f64", [1.0 + 4e-16]), False),
        (ball("f64", [np.nan]), ball("f64", [np.nan]), True),
        (ball("s32", [7]), ball("s32", [7]), True),
        (ball("s32", [7]), ball("s32", [8]), False),
        (ball("f32", [1.0], [True]), ball("f32", [1.0]), False),
        (ball("f32", [1.0], [True]), ball("f32", [1.0], [True]), True),
    ],
)
def test_near(a: Ball, b: Ball, same: bool) -> None:
    assert near(a, b) is same
    assert near(b, a) is same


def test_what_a_sum_leaves_over_may_be_anything_as_small() -> None:
    """Terms that cancel, summed in another order: the results are all noise, yet within what the sum may be off."""
    body = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
    whole = f"""{body} ENTRY e {{ p = f32[8,64] parameter(0)
      z = f32[] constant(0)
      s = f32[8] reduce(p, z), dimensions={{1}}, to_apply=add
      ROOT r = f32[8] tanh(s) }}"""
    halves = whole.replace(
        "s = f32[8] reduce(p, z), dimensions={1}",
        "q = f32[8,2,32] reshape(p)\n h = f32[8,32] reduce(q, z), dimensions={1}, to_apply=add\n"
        " s = f32[8] reduce(h, z), dimensions={1}",
    )
    x = np.random.default_rng(0).standard_normal((8, 64))
    x = (x - x.mean(1, keepdims=True)).astype(np.float32)
    x[:, -1] -= x.astype(np.float64).sum(1).astype(np.float32)
    lockstep = Lockstep(CPU)
    first = lockstep.results(module(whole), [x])
    evaluated = lockstep.evaluated
    assert lockstep.results(module(halves), [x]) == first
    assert lockstep.evaluated == evaluated + 3
    wrong = halves.replace("p = f32[8,64] parameter(0)", "o = f32[8,64] parameter(0)\n p = f32[8,64] abs(o)")
    assert lockstep.results(module(wrong), [x]) != first


def test_the_context_of_an_asynchronous_instruction_has_no_value() -> None:
    text = """HloModule m
f { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p) }
ENTRY e { x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], (s32[2], s32[3])) async-start(x), calls=f
  d = f32[4] async-done(s)
  ROOT r = f32[4] add(d, x) }
"""
    lockstep = Lockstep(CPU)
    (number,) = lockstep.results(parse_module(text), [np.arange(4, dtype=np.float32)])
    value = lockstep.value(number)
    assert isinstance(value, Ball)
    assert (value.mid == 0).all()
