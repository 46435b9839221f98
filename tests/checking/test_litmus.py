"""The litmus test: for every precondition a program that keeps it, one that breaks it, and one where it is open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.checking.litmus import State, litmus, litmus_dict
from assay.checking.litmus.run import LOOP, STATIC, VALUED
from assay.contracts import BY_NAME, CONTRACTS, DEFINED, Decided, asked_of
from assay.hlo.opcodes import ARITY
from assay.hlo.parse import parse_module
from assay.oracle.verdict import Verdict
from assay.reference.evaluator import evaluate
from assay.reference.policies import STRICT
from assay.report.result import CaseResult, OutputResult

F32, S32 = np.float32, np.int32


def module(entry: str, bodies: str = ""):
    lines = "\n".join(f"  {line.strip()}" for line in entry.strip().splitlines())
    return parse_module(f"HloModule m\n\n{bodies}\nENTRY e {{\n{lines}\n}}\n")


def body(name: str, lines: str, dtype: str = "f32", more: str = "") -> str:
    return f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n{more}  {lines}\n}}\n"


ADD = body("add", "ROOT r = f32[] add(a, b)")
MAX = body("max", "ROOT r = f32[] maximum(a, b)")
SUBTRACT = body("sub", "ROOT r = f32[] subtract(a, b)")
MEAN = body("mean", "s = f32[] add(a, b)\n  h = f32[] constant(0.5)\n  ROOT r = f32[] multiply(s, h)")
LAST = body("last", "ROOT r = f32[] copy(b)")
NAND = body("nand", "x = pred[] and(a, b)\n  ROOT r = pred[] not(x)", "pred")
EQUAL = body("equal", "x = pred[] xor(a, b)\n  ROOT r = pred[] not(x)", "pred")  # associative, and commutes
RIGHT = body("right", "f = pred[] constant(false)\n  x = pred[] and(a, f)\n  ROOT r = pred[] or(x, b)", "pred")
LESS = body("less", "ROOT r = pred[] compare(a, b), direction=LT")
TOTAL = body("total", "ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER")
AT_MOST = body("atmost", "ROOT r = pred[] compare(a, b), direction=LE")
NEAR = body(  # less by more than one: being equivalent is not transitive
    "near", "o = f32[] constant(1)\n  s = f32[] add(a, o)\n  ROOT r = pred[] compare(s, b), direction=LT"
)
ANY = np.arange(12, dtype=F32)


def reduce(name: str, init: str, dims: str = "12", dtype: str = "f32"):
    return f"""x = {dtype}[{dims}] parameter(0)
        i = {dtype}[] constant({init})
        ROOT r = {dtype}[] reduce(x, i), dimensions={{0}}, to_apply={name}"""


def sort(name: str, n: int = 12):
    return f"x = f32[{n}] parameter(0)\nROOT r = f32[{n}] sort(x), dimensions={{0}}, to_apply={name}"


def gather(flags: str):
    return f"""x = f32[6] parameter(0)
        i = s32[3,1] parameter(1)
        ROOT r = f32[3] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
          index_vector_dim=1, slice_sizes={{1}}{flags}""".replace(",\n          ", ", ")


def scatter(name: str, flags: str = ""):
    return f"""x = f32[6] parameter(0)
        i = s32[3,1] parameter(1)
        u = f32[3] parameter(2)
        ROOT r = f32[6] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1{flags}, to_apply={name}""".replace(
        ",\n          ", ", "
    )


def pool(select: str):
    return f"""x = f32[4] parameter(0)
        s = f32[2] parameter(1)
        z = f32[] constant(0)
        ROOT r = f32[4] select-and-scatter(x, s, z), window={{size=2 stride=2}}, select={select}, scatter=add"""


def at(*rows: int):
    return np.array(rows, S32)[:, None]


SIX, THREE = np.arange(6, dtype=F32), np.array([7, 8, 9], F32)
KEPT, BROKEN, OPEN = State.KEPT, State.BROKEN, State.UNDECIDED
NAN = np.where(ANY == 3, np.nan, ANY).astype(F32)
PREDS = ANY % 3 == 0


def two(opcode: str, dtype: str = "s32"):
    return f"a = {dtype}[3] parameter(0)\nb = {dtype}[3] parameter(1)\nROOT r = {dtype}[3] {opcode}(a, b)"


def converts(source: str, target: str):
    return f"a = {source}[3] parameter(0)\nROOT r = {target}[3] convert(a)"


def ints(*values: int, dtype: type = S32):
    return np.array(values, dtype)


def floats(*values: float):
    return np.array(values, F32)


LEAST = -(2**31)
MATRIX = "a = f32[2,2] parameter(0)\nROOT r = f32[2,2] cholesky(a), lower=true"
LOOP_PROGRAM = """x = s32[] parameter(0)
    ROOT r = s32[] while(x), condition=cond, body=step"""
LOOP_BODIES = """cond {
  s = s32[] parameter(0)
  ten = s32[] constant(10)
  ROOT c = pred[] compare(s, ten), direction=NE
}
step {
  s = s32[] parameter(0)
  two = s32[] constant(2)
  ROOT n = s32[] add(s, two)
}
"""
UNIFORM = """a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT r = f32[9] rng(a, b), distribution=rng_uniform"""
GENERATOR = "s = u64[2] parameter(0)\nROOT r = (u64[2], u32[8]) rng-bit-generator(s), algorithm="
BUFFER = 'ROOT r = f32[4] custom-call(), custom_call_target="AllocateBuffer"'
CALL = 'x = f32[4] parameter(0)\nROOT r = f32[4] custom-call(x), custom_call_target="nobody_knows"'
SHARDING = 'x = f32[4] parameter(0)\nROOT r = f32[4] custom-call(x), custom_call_target="Sharding"'
DOT = """a = f32[4,4] parameter(0)
    b = f32[4,4] parameter(1)
    ROOT r = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
FOUR = np.ones((4, 4), F32)

CASES = [
    ("neutral-init", reduce("add", "0"), ADD, [ANY], KEPT),
    ("neutral-init", reduce("add", "1"), ADD, [ANY], BROKEN),
    ("neutral-init", reduce("max", "-inf"), MAX, [ANY], KEPT),
    ("neutral-init", reduce("max", "0"), MAX, [ANY - 1], KEPT),  # the maximum is above it
    ("neutral-init", reduce("max", "0"), MAX, [ANY - 12], BROKEN),
    ("neutral-init", reduce("max", "0", "0"), MAX, [ANY[:0]], KEPT),  # it alone is combined, with itself
    ("neutral-init", reduce("add", "1", "0"), ADD, [ANY[:0]], BROKEN),
    ("neutral-init", reduce("add", "1"), ADD, [ANY + F32(np.inf)], KEPT),
    ("neutral-init", reduce("max", "0"), MAX, None, OPEN),
    ("neutral-init", reduce("mean", "0"), MEAN, [ANY], BROKEN),
    ("neutral-init", reduce("last", "0"), LAST, [ANY], BROKEN),  # b a is a alone
    ("associative-body", reduce("add", "0"), ADD, None, KEPT),
    ("associative-body", reduce("sub", "0"), SUBTRACT, [ANY], BROKEN),
    ("associative-body", reduce("mean", "0"), MEAN, [ANY], BROKEN),
    ("associative-body", reduce("mean", "0"), MEAN, [ANY * 0], OPEN),
    ("associative-body", reduce("mean", "0"), MEAN, None, OPEN),
    ("associative-body", reduce("last", "0"), LAST, [ANY], OPEN),  # it is; that it never fails shows nothing
    ("associative-body", reduce("nand", "true", dtype="pred"), NAND, None, BROKEN),
    ("associative-body", reduce("equal", "true", dtype="pred"), EQUAL, None, KEPT),
    ("commutative-body", reduce("add", "0"), ADD, None, KEPT),
    ("commutative-body", reduce("sub", "0"), SUBTRACT, [ANY], BROKEN),
    ("commutative-body", reduce("right", "true", dtype="pred"), RIGHT, None, BROKEN),
    ("commutative-body", reduce("nand", "true", dtype="pred"), NAND, None, KEPT),
    ("commutative-body", reduce("mean", "0"), MEAN, [ANY], OPEN),
    ("strict-weak-order", sort("less"), LESS, [ANY], KEPT),
    ("strict-weak-order", sort("less"), LESS, [NAN], BROKEN),
    ("strict-weak-order", sort("less"), LESS, None, OPEN),
    ("strict-weak-order", sort("total"), TOTAL, None, KEPT),
    ("strict-weak-order", sort("total"), TOTAL, [NAN], KEPT),
    ("strict-weak-order", sort("atmost"), AT_MOST, [ANY], BROKEN),
    ("strict-weak-order", sort("near"), NEAR, [ANY * 0.5], BROKEN),
    ("strict-weak-order", sort("near"), NEAR, [ANY * 2], KEPT),  # of all pairs
    ("strict-weak-order", sort("near", 300), NEAR, [np.arange(300, dtype=F32) * 2], OPEN),
    ("transitive-select", pool("atmost"), AT_MOST + ADD, None, KEPT),
    ("transitive-select", pool("near"), NEAR + ADD, None, OPEN),
    ("sorted-indices", gather(""), "", [SIX, at(3, 1, 2)], KEPT),
    ("sorted-indices", gather(", indices_are_sorted=true"), "", [SIX, at(1, 2, 2)], KEPT),
    ("sorted-indices", gather(", indices_are_sorted=true"), "", [SIX, at(3, 1, 2)], BROKEN),
    ("sorted-indices", gather(", indices_are_sorted=true"), "", None, OPEN),
    ("sorted-indices", scatter("add", ", indices_are_sorted=true"), ADD, [SIX, at(1, 0, 2), THREE], BROKEN),
    ("unique-indices", scatter("add", ", unique_indices=true"), ADD, [SIX, at(1, 0, 2), THREE], KEPT),
    ("unique-indices", scatter("add", ", unique_indices=true"), ADD, [SIX, at(1, 1, 2), THREE], BROKEN),
    ("unique-indices", scatter("add", ", unique_indices=true"), ADD, [SIX, at(9, 9, 2), THREE], KEPT),  # both skipped
    ("scatter-order", scatter("add"), ADD, None, KEPT),
    ("scatter-order", scatter("last"), LAST, [SIX, at(1, 0, 2), THREE], KEPT),
    ("scatter-order", scatter("last"), LAST, [SIX, at(1, 1, 2), THREE], BROKEN),
    ("scatter-order", scatter("last"), LAST, [SIX, at(1, 1, 2), THREE * 0], KEPT),
    ("scatter-order", scatter("mean"), MEAN, [SIX, at(1, 1, 2), THREE], OPEN),
    ("scatter-order", scatter("last"), LAST, None, OPEN),
    ("nonzero-divisor", two("divide"), "", [ints(7, 8, LEAST), ints(2, -1, 1)], KEPT),
    ("nonzero-divisor", two("divide"), "", [ints(7, 8, 9), ints(2, 0, 1)], BROKEN),
    ("nonzero-divisor", two("remainder"), "", [ints(7, 8, LEAST), ints(2, 1, -1)], BROKEN),
    ("nonzero-divisor", two("divide", "f32"), "", [floats(1, 2, 3), floats(0, 0, 0)], KEPT),
    ("nonzero-divisor", two("divide"), "", None, OPEN),
    ("natural-exponent", two("power"), "", [ints(2, 3, 4), ints(0, 1, 2)], KEPT),
    ("natural-exponent", two("power"), "", [ints(2, 3, 4), ints(0, -1, 2)], BROKEN),
    ("shift-within", two("shift-left"), "", [ints(1, 2, 3), ints(0, 1, 31)], KEPT),
    ("shift-within", two("shift-left"), "", [ints(1, 2, 3), ints(0, 1, 32)], BROKEN),
    ("shift-within", two("shift-right-arithmetic"), "", [ints(1, 2, 3), ints(0, 1, -1)], BROKEN),
    ("convert-in-range", converts("f32", "s32"), "", [floats(-0.5, 2.5, -(2.0**31))], KEPT),
    ("convert-in-range", converts("f32", "s32"), "", [floats(1, 2, 2.0**31)], BROKEN),
    ("convert-in-range", converts("f32", "s8"), "", [floats(127.5, -128.5, 0)], KEPT),
    ("convert-in-range", converts("f32", "s8"), "", [floats(128, 0, 0)], BROKEN),
    ("convert-in-range", converts("f32", "u8"), "", [floats(-0.5, 0, 0)], KEPT),
    ("convert-in-range", converts("f32", "u8"), "", [floats(-1, 0, 0)], BROKEN),
    ("convert-in-range", converts("f32", "u64"), "", [floats(-0.5, 2.0**63, 0)], KEPT),
    ("convert-in-range", converts("f32", "u64"), "", [floats(-1, 0, 2.0**64)], BROKEN),
    ("convert-in-range", converts("f32", "s32"), "", [floats(np.nan, 0, 0)], BROKEN),
    ("convert-in-range", converts("f32", "bf16"), "", [floats(np.nan, 1e38, 0)], KEPT),
    ("convert-in-range", converts("f32", "pred"), "", [floats(np.nan, 1e38, 0)], KEPT),
    ("nan-bits", "a = f32[3] parameter(0)\nROOT r = s32[3] bitcast-convert(a)", "", [floats(1, np.inf, 0)], KEPT),
    ("nan-bits", "a = f32[3] parameter(0)\nROOT r = s32[3] bitcast-convert(a)", "", [floats(1, np.nan, 0)], BROKEN),
    ("positive-definite", MATRIX, "", [np.array([[2, 9], [1, 2]], F32)], KEPT),  # the upper half is not read
    ("positive-definite", MATRIX, "", [np.array([[2, 3], [3, 2]], F32)], BROKEN),
    ("positive-definite", MATRIX, "", [np.array([[1, 1], [1, 1]], F32)], OPEN),
    ("uniform-interval", UNIFORM, "", [F32(0), F32(1)], KEPT),
    ("uniform-interval", UNIFORM, "", [F32(1), F32(1)], BROKEN),
    ("no-random-numbers", UNIFORM, "", [F32(0), F32(1)], BROKEN),
    ("random-algorithm", GENERATOR + "rng_default", "", [np.ones(2, np.uint64)], BROKEN),
    ("random-algorithm", GENERATOR + "rng_three_fry", "", [np.ones(2, np.uint64)], KEPT),
    ("dot-algorithm", DOT, "", [FOUR, FOUR], KEPT),
    ("dot-algorithm", DOT + ", algorithm=dot_bf16_bf16_f32_x3", "", [FOUR, FOUR], KEPT),
    ("dot-algorithm", DOT + ", algorithm=dot_of_tomorrow", "", [FOUR, FOUR], OPEN),
    ("written-before-read", BUFFER, "", [], BROKEN),
    ("known-call", CALL, "", [floats(1, 2, 3, 4)], OPEN),
    ("known-call", SHARDING, "", [floats(1, 2, 3, 4)], KEPT),
    ("loop-ends", LOOP_PROGRAM, LOOP_BODIES, [S32(2)], KEPT),
    ("loop-ends", LOOP_PROGRAM, LOOP_BODIES, [S32(1)], OPEN),
    ("loop-ends", LOOP_PROGRAM, LOOP_BODIES, None, OPEN),
]


@pytest.mark.parametrize(("name", "entry", "bodies", "arguments", "state"), CASES)
def test_each_precondition(name, entry, bodies, arguments, state):
    found = litmus(module(entry, bodies), arguments, trips=1000)
    told = {telling.contract.name: telling for telling in found.tellings}
    assert (told[name].state if name in told else KEPT) is state, found.words
    if name in told:
        assert told[name].why
        assert told[name].reaches is not False  # it is the root
        assert found.state is not KEPT


def test_the_table_covers_every_precondition():
    assert set(BY_NAME) == {name for name, *_ in CASES} == set(STATIC) | set(VALUED) | {LOOP}
    never_broken = {"transitive-select", "dot-algorithm", "known-call", "loop-ends"}  # none is shown to be
    assert set(BY_NAME) - never_broken == {name for name, *_, state in CASES if state is BROKEN}
    never_kept = {"no-random-numbers", "written-before-read"}
    assert set(BY_NAME) - never_kept == {name for name, *_, state in CASES if state is KEPT}
    for contract in CONTRACTS:
        assert set(contract.opcodes) <= set(ARITY)
        assert contract in asked_of(contract.opcodes[0])
        assert contract.source
    for defined in DEFINED:
        assert set(defined.opcodes) <= set(ARITY)


def test_the_page_has_the_table():
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
    rows = [line.split("|")[1:5] for line in page.splitlines() if line.startswith("| `")]
    told = {
        name.strip(" `"): (how.split(), end.strip()) for name, _, how, end in (row for row in rows if len(row) == 4)
    }
    for contract in CONTRACTS:
        how = [{Decided.STATICALLY: "s", Decided.ON_INPUTS: "i", Decided.BY_TRIAL: "t"}[d] for d in contract.decided]
        assert told[contract.name] == (how, str(contract.strength))


ARGMAX = """argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  win = pred[] or(gt, nan)
  x = f32[] select(win, a, b)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  first = pred[] or(win, tie)
  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k)
}
"""


@pytest.mark.parametrize(("start", "least", "state"), [("0", 0, KEPT), ("0", 1, BROKEN), ("1000", 1, KEPT)])
def test_the_argmax_of_jax_starts_at_minus_infinity_and_index_zero(start, least, state):
    """Which is no identity, and changes nothing: where all elements are minus infinity the first of them wins."""
    entry = f"""x = f32[2,4] parameter(0)
        i = s32[2,4] parameter(1)
        low = f32[] constant(-inf)
        z = s32[] constant({start})
        ROOT r = (f32[2], s32[2]) reduce(x, i, low, z), dimensions={{1}}, to_apply=argmax"""
    x = np.array([[1, 5, 2, 5], [-np.inf] * 4], F32)
    found = litmus(module(entry, ARGMAX), [x, np.arange(least, least + 4, dtype=S32) * np.ones((2, 1), S32)])
    assert found.state is state
    if state is BROKEN:  # of the row of infinities alone
        np.testing.assert_array_equal(found.tainted[1], [False, True])


def test_an_open_argmax_has_its_initial_value_for_nothing():
    """Which of two sums that rounding may order either way is greater is open, and both are above minus infinity."""
    entry = """x = f32[2] parameter(0)
        e = f32[2] exponential(x)
        i = s32[2] iota(), iota_dimension=0
        low = f32[] constant(-inf)
        z = s32[] constant(0)
        ROOT r = (f32[], s32[]) reduce(e, i, low, z), dimensions={0}, to_apply=argmax"""
    x = floats(1, np.nextafter(F32(1), F32(2)))
    open_ = evaluate(module(entry, ARGMAX), [x], STRICT).value
    assert isinstance(open_, tuple)
    assert open_[1].und.all()
    assert litmus(module(entry, ARGMAX), [x]).words == ()


PICKS = """pick {
  a = f32[] parameter(0)
  i = f32[] parameter(1)
  b = f32[] parameter(2)
  j = f32[] parameter(3)
  ge = pred[] compare(a, b), direction=GE
  x = f32[] select(ge, a, b)
  k = f32[] select(ge, i, j)
  ROOT t = (f32[], f32[]) tuple(x, k)
}
"""
TWISTED = PICKS.replace("select(ge, i, j)", "select(ge, j, i)")
LEAST_PICKED = PICKS.replace("compare(a, b)", "compare(b, a)")  # b >= a picks a


@pytest.mark.parametrize(
    ("bodies", "x", "told"),
    [
        (PICKS, [3, 1, 2, 0], {}),
        (PICKS, [3, 1, 3, 0], {"commutative-body": BROKEN}),  # which of two equal ones
        (PICKS, [3, 1, 1, 0], {}),  # which are not picked
        (PICKS, [3, -np.inf, 2, 0], {}),
        (PICKS, [-np.inf] * 4, {"commutative-body": BROKEN, "neutral-init": BROKEN}),
        (PICKS, [3, np.nan, 2, 0], {"commutative-body": OPEN, "neutral-init": OPEN, "associative-body": OPEN}),
        (TWISTED, [3, 1, 2, 0], {"commutative-body": OPEN, "neutral-init": BROKEN, "associative-body": BROKEN}),
    ],
)
def test_a_choice_of_pairs(bodies, x, told):
    entry = """x = f32[4] parameter(0)
        i = f32[4] parameter(1)
        low = f32[] constant(-inf)
        z = f32[] constant(0)
        ROOT r = (f32[], f32[]) reduce(x, i, low, z), dimensions={0}, to_apply=pick"""
    found = litmus(module(entry, bodies), [floats(*x), floats(4, 5, 6, 7)])
    seen = {telling.contract.name: telling.state for telling in found.tellings}
    if np.nan in x:  # that it may be refuted is as right
        assert set(seen) == set(told)
    else:
        assert seen == told


# ---- what reaches an output

GUARDED = """a = s32[3] parameter(0)
    b = s32[3] parameter(1)
    zero = s32[3] constant({0, 0, 0})
    q = s32[3] divide(a, b)
    bad = pred[3] compare(b, zero), direction=EQ
    ROOT r = s32[3] select(bad, zero, q)"""


def test_what_a_select_throws_away_harms_nothing():
    found = litmus(module(GUARDED), [ints(1, 2, 3), ints(0, 1, 0)])
    (telling,) = found.tellings
    assert (telling.state, telling.reaches, telling.count) == (BROKEN, False, 2)
    assert found.state is KEPT
    assert "no output depends on it" in found.words[0]
    assert found.excuses([np.array([True, True, True])]) is False


def test_elements_that_depend_on_it_and_others():
    entry = """a = s32[3] parameter(0)
        b = s32[3] parameter(1)
        q = s32[3] divide(a, b)
        back = s32[3] reverse(q), dimensions={0}
        ROOT r = (s32[3], s32[3]) tuple(back, a)"""
    found = litmus(module(entry), [ints(1, 2, 3), ints(0, 1, 1)])
    assert found.state is BROKEN
    np.testing.assert_array_equal(found.tainted[0], [False, False, True])
    assert found.tainted[1] is None
    none = np.zeros(3, bool)
    assert found.excuses([np.array([False, False, True]), None]) is True
    assert found.excuses([np.array([True, False, True]), None]) is False
    assert found.excuses([none, np.array([True, False, False])]) is False
    assert found.excuses([none, none]) is False


def test_what_is_not_followed_excuses_nobody_knows_what():
    found = litmus(module(CALL), [floats(1, 2, 3, 4)])
    assert found.excuses([np.array([True] * 4)]) is None
    assert litmus(module("ROOT a = f32[3] parameter(0)"), [floats(1, 2, 3)]).excuses([np.array([True] * 3)]) is False


def test_in_a_loop_it_is_counted_at_every_trip():
    bodies = """cond {
  s = (s32[], s32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT c = pred[] compare(i, ten), direction=LT
}
step {
  s = (s32[], s32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[2] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  d = s32[2] broadcast(i), dimensions={}
  q = s32[2] divide(x, d)
  ROOT t = (s32[], s32[2]) tuple(n, q)
}
"""
    entry = """i = s32[] parameter(0)
        x = s32[2] parameter(1)
        t = (s32[], s32[2]) tuple(i, x)
        w = (s32[], s32[2]) while(t), condition=cond, body=step
        ROOT r = s32[2] get-tuple-element(w), index=1"""
    found = litmus(module(entry, bodies), [S32(-1), ints(5, 6)])
    (telling,) = found.tellings
    assert (telling.contract.name, telling.count, telling.reaches) == ("nonzero-divisor", 2, True)
    assert litmus(module(entry, bodies), [S32(1), ints(5, 6)]).state is KEPT
    assert litmus(module(entry, bodies), [S32(11), ints(5, 6)]).state is KEPT  # it never runs


def test_an_untaken_branch_breaks_nothing():
    bodies = """div {
  p = (s32[3], s32[3]) parameter(0)
  a = s32[3] get-tuple-element(p), index=0
  b = s32[3] get-tuple-element(p), index=1
  ROOT q = s32[3] divide(a, b)
}
first {
  p = (s32[3], s32[3]) parameter(0)
  ROOT a = s32[3] get-tuple-element(p), index=0
}
"""
    entry = """c = pred[] parameter(0)
        a = s32[3] parameter(1)
        b = s32[3] parameter(2)
        t = (s32[3], s32[3]) tuple(a, b)
        ROOT r = s32[3] conditional(c, t, t), true_computation=div, false_computation=first"""
    zeros = ints(0, 0, 0)
    assert litmus(module(entry, bodies), [np.bool_(True), zeros, zeros]).state is BROKEN
    assert litmus(module(entry, bodies), [np.bool_(False), zeros, zeros]).state is KEPT


def test_in_a_body_it_is_undecided():
    bodies = body("quotient", "ROOT r = s32[] divide(a, b)", "s32")
    entry = (
        "a = s32[3] parameter(0)\nb = s32[3] parameter(1)\nROOT r = s32[3] map(a, b), dimensions={0}, to_apply=quotient"
    )
    found = litmus(module(entry, bodies), [ints(1, 2, 3), ints(1, 1, 1)])
    assert found.state is OPEN
    assert found.tellings[0].reaches is None
    assert found.excuses([np.array([True, False, False])]) is None


def test_what_rounding_leaves_open_is_undecided():
    """The exponential of log(256), which is no float, is 256 but for rounding."""
    entry = "a = f32[1] parameter(0)\ne = f32[1] exponential(a)\nROOT r = u8[1] convert(e)"
    for power, states in ((5.5, []), (np.log(256.0), [OPEN]), (5.6, [BROKEN])):
        found = litmus(module(entry), [floats(power)])
        assert [telling.state for telling in found.tellings] == states


@pytest.mark.parametrize(("bodies", "start"), [(PICKS, "-inf"), (LEAST_PICKED, "inf")])
def test_of_equal_ones_only_the_second_part_is_open_and_only_of_their_row(bodies, start):
    entry = f"""x = f32[3,4] parameter(0)
        i = f32[3,4] parameter(1)
        low = f32[] constant({start})
        z = f32[] constant(0)
        ROOT r = (f32[3], f32[3]) reduce(x, i, low, z), dimensions={{1}}, to_apply=pick"""
    x = np.array([[1, 7, 5, 7], [7, 1, 5, 2], [3, 3, 3, 3]], F32) * (1 if start == "-inf" else -1)
    found = litmus(module(entry, bodies), [x, np.arange(12, dtype=F32).reshape(3, 4)])
    assert [(t.contract.name, t.state, t.count, t.reaches) for t in found.tellings] == [
        ("commutative-body", BROKEN, 2, True)
    ]
    assert found.tainted[0] is None
    np.testing.assert_array_equal(found.tainted[1], [True, False, True])


def test_where_it_is_open_which_are_equal_the_second_part_alone_is_open():
    entry = """x = f32[4] parameter(0)
        e = f32[4] exponential(x)
        i = f32[4] parameter(1)
        low = f32[] constant(-inf)
        z = f32[] constant(0)
        t = (f32[], f32[]) reduce(e, i, low, z), dimensions={0}, to_apply=pick
        ROOT r = f32[] get-tuple-element(t), index=%d"""
    for part, state in enumerate((KEPT, OPEN)):
        assert litmus(module(entry % part, PICKS), [floats(1, 2, 3, 0), floats(4, 5, 6, 7)]).state is state


@pytest.mark.parametrize(
    ("x", "open_"), [([1, 2, 1, 3], [0, 0, 0]), ([1, 1, 2, 2], [1, 0, 1]), ([4, 1, 1, 4], [0, 1, 0])]
)
def test_equal_ones_of_different_windows_are_no_matter(x, open_):
    entry = """x = f32[4] parameter(0)
        i = f32[4] parameter(1)
        low = f32[] constant(-inf)
        z = f32[] constant(0)
        ROOT r = (f32[3], f32[3]) reduce-window(x, i, low, z), window={size=2}, to_apply=pick"""
    found = litmus(module(entry, PICKS), [floats(*x), floats(4, 5, 6, 7)])
    taint = found.tainted[1]
    np.testing.assert_array_equal(np.zeros(3, bool) if taint is None else taint, np.array(open_, bool))


LOG_OF_SUM = body(
    "log_of_sum",
    """d = f32[] subtract(a, b)
  n = pred[] compare(d, d), direction=NE
  s = f32[] add(a, b)
  m = f32[] maximum(a, b)
  l = f32[] abs(d)
  k = f32[] negate(l)
  e = f32[] exponential(k)
  p = f32[] log-plus-one(e)
  t = f32[] add(m, p)
  ROOT r = f32[] select(n, s, t)""",
)


@pytest.mark.parametrize(
    ("changed", "start", "told"),
    [
        (("", ""), "-inf", set()),
        (("add(m, p)", "add(p, m)"), "-inf", set()),
        (("", ""), "0", {"neutral-init"}),
        (("maximum", "minimum"), "-inf", {"neutral-init", "associative-body", "commutative-body"}),
        (("exponential(k)", "exponential(d)"), "-inf", {"neutral-init", "associative-body", "commutative-body"}),
    ],
)
def test_the_logarithm_of_a_sum_of_exponentials_takes_any_order(changed, start, told):
    bodies = LOG_OF_SUM.replace(*changed) if changed[0] else LOG_OF_SUM
    entry = f"""x = f32[6] parameter(0)
        i = f32[] constant({start})
        ROOT r = f32[6] reduce-window(x, i), window={{size=6 pad=5_0}}, to_apply=log_of_sum"""
    found = litmus(module(entry, bodies), [np.linspace(-2, 3, 6, dtype=F32)])
    assert {telling.contract.name for telling in found.tellings} == told


def test_the_logarithm_of_a_sum_is_what_jax_writes():
    jax = pytest.importorskip("jax")
    lowered = jax.jit(lambda x: jax.lax.cumlogsumexp(x)).lower(np.ones(4, F32))
    found = litmus(parse_module(lowered.compiler_ir("hlo").as_hlo_text()), [floats(1, 2, -1, 3)])
    assert found.words == ()
    assert found.kept > 0


def test_a_body_that_does_not_read_its_update_does_the_same_in_any_order():
    for expression, state in (("negate(a)", KEPT), ("subtract(b, a)", OPEN)):
        bodies = body("apply", f"ROOT r = f32[] {expression}")
        assert litmus(module(scatter("apply"), bodies), [SIX, at(1, 3, 1), THREE]).state is state


@pytest.mark.parametrize(("moved", "state"), [("broadcast(n), dimensions={}", KEPT), ("add(x, x)", BROKEN)])
def test_the_bits_of_a_constant_are_known(moved, state):
    entry = f"""x = f32[2] parameter(0)
        n = f32[] constant(nan)
        m = f32[2] {moved}
        ROOT r = s32[2] bitcast-convert(m)"""
    assert litmus(module(entry), [floats(np.nan, np.nan)]).state is state


def test_one_execution_decides_what_the_bounds_of_all_leave_open():
    """The exponential of log(256) is below or above 256, which u8 has not, as it is rounded; that of 5.5 never is."""
    entry = "a = f32[1] parameter(0)\ne = f32[1] exponential(a)\nROOT r = u8[1] convert(e)"
    states = [litmus(module(entry), [floats(np.log(256.0))], execution=k).state for k in range(20)]
    assert set(states) == {KEPT, BROKEN}
    assert states == [litmus(module(entry), [floats(np.log(256.0))], execution=k).state for k in range(20)]
    assert all(litmus(module(entry), [floats(5.5)], execution=k).state is KEPT for k in range(3))


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("c = f32[2] clamp(low, k, high)\nROOT r = s8[2] convert(c)", KEPT),
        ("c = f32[2] clamp(low, k, high)\nROOT r = u8[2] convert(c)", OPEN),
        ("ROOT r = s32[2] bitcast-convert(k)", KEPT),
        ("ROOT r = s32[2] bitcast-convert(q)", OPEN),
        (
            "n = pred[2] compare(q, q), direction=NE\nz = f32[2] select(n, o, q)\nROOT r = s32[2] bitcast-convert(z)",
            KEPT,
        ),
        ("i = s32[2] bitcast-convert(k)\nROOT r = s32[2] shift-left(seven, i)", OPEN),
        ("i = s32[2] convert(h)\nj = s32[2] and(i, seven)\nROOT r = s32[2] shift-left(seven, j)", KEPT),
        ("i = s32[2] convert(h)\nROOT r = s32[2] shift-left(seven, i)", OPEN),
        ("i = s32[2] convert(h)\nj = s32[2] maximum(i, seven)\nROOT r = s32[2] divide(seven, j)", KEPT),
        ("i = s32[2] convert(h)\nROOT r = s32[2] divide(seven, i)", OPEN),
        ("i = s32[2] convert(h)\nj = s32[2] maximum(i, seven)\nROOT r = s32[2] power(seven, j)", KEPT),
        ("i = s32[2] convert(h)\nROOT r = s32[2] power(seven, i)", OPEN),
    ],
)
def test_what_keeps_a_value_in_range_whatever_it_is(lines, state):
    """The exponential of 0 is 1 but for rounding, so its floor is 0 or 1: h is -300 or 0, k -600 or -300, q the
    logarithm of h.
    """
    entry = f"""x = f32[2] parameter(0)
        low = f32[2] constant({{-100, -100}})
        high = f32[2] constant({{100, 100}})
        seven = s32[2] constant({{7, 7}})
        y = f32[2] exponential(x)
        o = f32[2] constant({{300, 300}})
        f = f32[2] floor(y)
        g = f32[2] multiply(f, o)
        h = f32[2] subtract(g, o)
        k = f32[2] subtract(h, o)
        q = f32[2] log(h)
        {lines}"""
    assert litmus(module(entry), [floats(0, 0)]).state is state


def test_it_clears_a_mismatch_that_lies_elsewhere():
    found = litmus(module(two("divide")), [ints(1, 2, 3), ints(0, 1, 1)])
    for peak, cleared in (((0,), False), ((2,), True)):
        output = OutputResult(0, "", (3,), "s32", 3, 2, 0, 0, 1.0, 1.0, peak=peak)
        assert found.clears(CaseResult("m", "", Verdict.MISMATCH, outputs=(output,))) is cleared
    assert found.clears(CaseResult("m", "", Verdict.CRASH)) is None


def test_json():
    found = litmus_dict(litmus(module(GUARDED), [ints(1, 2, 3), ints(0, 1, 0)]))
    assert found["state"] == "kept"
    assert found["not_kept"][0]["contract"] == "nonzero-divisor"
    assert found["not_kept"][0]["source"].startswith("openxla.org/xla")
