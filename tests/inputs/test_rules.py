# ruff: noqa: E501  (HLO text)
"""Every opcode has a rule, and what a rule claims holds for what the reference evaluates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

from assay.errors import Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import ARITY
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape
from assay.inputs.classes import CLASSES
from assay.inputs.flat import STRUCTURAL, flatten
from assay.inputs.generate import generate
from assay.inputs.rules import RULES
from assay.inputs.span import INF, Span, stored
from assay.inputs.walk import Walk
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value


def test_every_opcode_has_a_rule() -> None:
    assert set(ARITY) - set(RULES) == set()
    assert set(ARITY) >= STRUCTURAL


# ---- claims against values


def span_of(array: Array) -> Span:
    """What holds of the elements of an array that is given."""
    if array.dtype.kind == "c" or not array.size:
        return Span(-INF, INF, 0.0, True)
    wide = array.astype(np.float64) if array.dtype.kind not in "biu" else array
    known = wide[~np.isnan(wide)] if wide.dtype.kind == "f" else wide
    if not known.size:
        return Span(0.0, 0.0, 0.0, True)
    number = float if wide.dtype.kind == "f" else int
    least = number(np.abs(known.astype(np.float64)).min())
    return Span(number(known.min()), number(known.max()), least, known.size < wide.size)


def broken_claims(module: Module, arguments: list[Array]) -> list[str]:
    """Values that the reference gives outside of what the walk claims, where each argument is as wide as it is."""
    walk = Walk.of(flatten(module))
    view = walk.forward([span_of(a) for a in arguments])
    claimed: dict[tuple[str, str, int], list[int]] = {}
    for number, node in enumerate(walk.flat.nodes):
        if node.opcode not in ("phi", "guard"):
            claimed.setdefault((node.computation.name, node.instruction.name, node.index), []).append(number)
    found: list[str] = []

    def check(computation: Computation, instruction: Instruction, value: Value) -> None:
        for index, part in enumerate(leaves_of(value)):
            numbers = claimed.get((computation.name, instruction.name, index), [])
            if not numbers or part.mid.dtype.kind == "c" or not part.mid.size:
                continue
            spans = [view.spans[k] for k in numbers]
            mid = part.mid
            nan = np.isnan(mid) if mid.dtype.kind == "f" else np.zeros(mid.shape, bool)
            known = mid[~nan]
            if nan.any() and not any(s.nan for s in spans):
                found.append(f"{computation.name}/{instruction.name} ({instruction.opcode}): NaN, claimed {spans}")
            if known.size:
                low, high = known.min(), known.max()
                low, high = (int(low), int(high)) if mid.dtype.kind in "biu" else (float(low), float(high))
                least = min(s.least for s in spans)
                if low < min(s.low for s in spans) or high > max(s.high for s in spans):
                    found.append(
                        f"{computation.name}/{instruction.name} ({instruction.opcode}): {low}..{high}, {spans}"
                    )
                elif np.abs(known.astype(np.float64)).min() < least:
                    found.append(f"{computation.name}/{instruction.name} ({instruction.opcode}): near 0, {spans}")

    drawn = np.random.default_rng(0)  # midpoints alone: a ball's midpoint need be no value of the program
    evaluate(module, arguments, Policy("test"), rng=drawn, amplitude=0.0, alike=False, on_value=check)
    return found


def leaves_of(value: Value) -> Iterator[Ball]:
    if isinstance(value, tuple):
        for element in value:
            yield from leaves_of(element)
    elif isinstance(value, Ball):
        yield value


UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cosine", "cosh", "erf", "exp2",
    "exponential", "exponential-minus-one", "floor", "log", "log2", "log-plus-one", "logistic", "negate",
    "round-nearest-afz", "round-nearest-even", "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "power", "remainder", "maximum", "minimum", "atan2"]
INTEGER = [
    "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "shift-left",
    "shift-right-arithmetic", "shift-right-logical",
]  # fmt: skip


def random_module(rng: np.random.Generator, floats: bool, length: int) -> Module:
    """A chain of elementwise operations on arrays of one type, each on any values before."""
    dtype = str(rng.choice(["f32", "bf16", "f16", "f8e5m2"] if floats else ["s32", "u32", "s8", "u8"]))
    lines = [f"  p{k} = {dtype}[4,6] parameter({k})" for k in range(3)]
    names = ["p0", "p1", "p2"]
    for k in range(length):
        unary, binary = (UNARY, BINARY) if floats else (["abs", "negate", "sign", "popcnt", "not"], INTEGER)
        if not floats and dtype.startswith("u"):
            unary = ["popcnt", "not"]
        if rng.random() < 0.5:
            lines.append(f"  x{k} = {dtype}[4,6] {rng.choice(unary)}({rng.choice(names)})")
        else:
            lines.append(f"  x{k} = {dtype}[4,6] {rng.choice(binary)}({rng.choice(names)}, {rng.choice(names)})")
        names.append(f"x{k}")
    body = "\n".join(lines)
    return parse_module(f"HloModule m\n\nENTRY e {{\n{body}\n  ROOT r = {dtype}[4,6] copy({names[-1]})\n}}\n")


@pytest.mark.parametrize("seed", range(40))
def test_what_is_claimed_of_random_elementwise_graphs_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for kind in ("normal", "log-uniform", "small-integers", "edges"):
        module = random_module(rng, bool(seed % 2), 12)
        assert broken_claims(module, generate(module, seed, kind)) == []


WHOLE = r"""HloModule m

add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] add(x, y) }
mul { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] multiply(x, y) }
max { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] maximum(x, y) }
min { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] minimum(x, y) }
argmax {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GE
  v = f32[] select(p, a, b)  k = s32[] select(p, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}
odd { x = f32[] parameter(0)  y = f32[] parameter(1)  h = f32[] constant(0.5)  t = f32[] multiply(x, h)  ROOT r = f32[] add(t, y) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = pred[] compare(x, y), direction=LT }
ge { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = pred[] compare(x, y), direction=GE }
twice { x = f32[4,8]{1,0} parameter(0)  ROOT r = f32[4,8]{1,0} add(x, x) }
square { x = f32[4,8]{1,0} parameter(0)  ROOT r = f32[4,8]{1,0} multiply(x, x) }
cond { s = (s32[], f32[4,8]{1,0}) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)  ROOT r = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[4,8]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)
  f = f32[] convert(i)  g = f32[4,8]{1,0} broadcast(f), dimensions={}
  y = f32[4,8]{1,0} add(x, g)
  ROOT r = (s32[], f32[4,8]{1,0}) tuple(j, y)
}

ENTRY e {
  a = f32[4,8]{1,0} parameter(0)
  b = f32[8,4]{1,0} parameter(1)
  i = s32[4,1]{1,0} parameter(2)
  q = pred[] parameter(3)
  k = s32[] parameter(4)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  low = f32[] constant(-inf)
  izero = s32[] constant(0)
  dot = f32[4,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum = f32[4]{0} reduce(a, zero), dimensions={1}, to_apply=add
  prod = f32[4]{0} reduce(a, one), dimensions={1}, to_apply=mul
  top = f32[4]{0} reduce(a, low), dimensions={1}, to_apply=max
  iota = s32[4,8]{1,0} iota(), iota_dimension=1
  arg = (f32[4]{0}, s32[4]{0}) reduce(a, iota, low, izero), dimensions={1}, to_apply=argmax
  own = f32[4]{0} reduce(a, zero), dimensions={1}, to_apply=odd
  win = f32[4,8]{1,0} reduce-window(a, zero), window={size=1x3 pad=0_0x1_1}, to_apply=add
  wmax = f32[4,8]{1,0} reduce-window(a, low), window={size=1x3 pad=0_0x1_1}, to_apply=max
  back = f32[4,8]{1,0} broadcast(top), dimensions={0}
  shift = f32[4,8]{1,0} subtract(a, back)
  exp = f32[4,8]{1,0} exponential(shift)
  total = f32[4]{0} reduce(exp, zero), dimensions={1}, to_apply=add
  spread = f32[4,8]{1,0} broadcast(total), dimensions={0}
  soft = f32[4,8]{1,0} divide(exp, spread)
  sq = f32[4,8]{1,0} multiply(a, a)
  sqsum = f32[4]{0} reduce(sq, zero), dimensions={1}, to_apply=add
  eight = f32[] constant(8)
  n = f32[4]{0} broadcast(eight), dimensions={}
  m2 = f32[4]{0} divide(sqsum, n)
  m = f32[4]{0} divide(sum, n)
  mm = f32[4]{0} multiply(m, m)
  var = f32[4]{0} subtract(m2, mm)
  h = f16[4,8]{1,0} convert(a)
  g = f32[4,8]{1,0} convert(h)
  lost = f32[4,8]{1,0} subtract(a, g)
  cut = f32[4,8]{1,0} reduce-precision(a), exponent_bits=5, mantissa_bits=7
  whole = s8[4,8]{1,0} convert(a)
  bits = s32[4,8]{1,0} bitcast-convert(a)
  sorted = f32[4,8]{1,0} sort(a), dimensions={1}, to_apply=less
  cat = f32[4,16]{1,0} concatenate(a, soft), dimensions={1}
  pad = f32[6,8]{1,0} pad(a, one), padding=1_1x0_0
  clamp = f32[4,8]{1,0} clamp(zero, a, one)
  mask = pred[4,8]{1,0} compare(a, g), direction=GT
  lows = f32[4,8]{1,0} broadcast(low), dimensions={}
  masked = f32[4,8]{1,0} select(mask, a, lows)
  gathered = f32[4,8]{1,0} gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  scattered = f32[4,8]{1,0} scatter(a, i, soft), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  slice = f32[1,8]{1,0} dynamic-slice(a, k, izero), dynamic_slice_sizes={1,8}
  updated = f32[4,8]{1,0} dynamic-update-slice(a, slice, k, izero)
  fused = f32[4,8]{1,0} fusion(a), kind=kLoop, calls=square
  called = f32[4,8]{1,0} call(fused), to_apply=twice
  chosen = f32[4,8]{1,0} conditional(q, a, called), true_computation=twice, false_computation=square
  state = (s32[], f32[4,8]{1,0}) tuple(izero, a)
  loop = (s32[], f32[4,8]{1,0}) while(state), condition=cond, body=body
  grown = f32[4,8]{1,0} get-tuple-element(loop), index=1
  picked = f32[4,8]{1,0} select-and-scatter(win, a, zero), window={size=1x1}, select=ge, scatter=add
  ROOT r = (f32[4,4]{1,0}, f32[4]{0}, f32[4,8]{1,0}) tuple(dot, var, grown)
}
"""


def everything() -> Module:
    """Each instruction on a line of its own, as the parser has it."""
    return parse_module(
        re.sub(r"(?<=\S) +(?=(?:ROOT )?\w+ = \S+ \w)", "\n  ", re.sub(r" }$", "\n}", WHOLE, flags=re.M))
    )


@pytest.mark.parametrize("kind", [k for k in CLASSES if k != "sparse-integers"])
def test_what_is_claimed_of_a_module_with_everything_holds(kind: str) -> None:
    module = everything()
    for seed in range(4):
        assert broken_claims(module, generate(module, seed, kind)) == []


def test_claims_are_no_wider_than_they_need_be() -> None:
    """Soundness alone could be had by claiming nothing."""
    module = everything()
    walk = Walk.of(flatten(module))
    arguments = generate(module, 0)
    view = walk.forward([span_of(a) for a in arguments])
    spans = {node.instruction.name: view.spans[k] for k, node in enumerate(walk.flat.nodes)}
    assert spans["shift"].high == 0
    assert spans["exp"].high <= 1.0001
    assert spans["soft"].low >= 0
    assert spans["soft"].high <= 1.0001
    assert spans["total"].low >= 0.5
    assert spans["var"].low > -1e-3
    assert max(spans["lost"].high, -spans["lost"].low) <= max(abs(x) for x in arguments[0].ravel())
    assert spans["clamp"][:2] == pytest.approx((0, 1), abs=1e-5)
    assert spans["iota"][:2] == (0, 7)
    guard = next(k for k, node in enumerate(walk.flat.nodes) if node.opcode == "guard")
    assert view.spans[guard][:2] == (0, 4)  # the loop's counter inside the body


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f64"])
def test_a_stored_span_holds_what_the_type_makes_of_its_ends(name: str) -> None:
    shape = ArrayShape(
        parse_module(f"HloModule m\n\nENTRY e {{\n  ROOT p = {name}[] parameter(0)\n}}\n").entry.root.array.dtype, ()
    )
    rng = np.random.default_rng(3)
    assert shape.dtype.numpy is not None
    for value in np.ldexp(rng.random(500) * 2 - 1, rng.integers(-20, 20, 500)):
        span = stored(shape.dtype, Span(value, value))
        kept = float(np.asarray(value).astype(shape.dtype.numpy).astype(np.float64))
        assert span.nan if math.isnan(kept) else span.low <= kept <= span.high


REAL_LIMIT = 400
"""Nodes up to which a real module is evaluated in the default run."""


def test_real_modules_keep_what_is_claimed_of_them() -> None:
    from tests.inputs.test_ranges import REAL

    if not REAL:
        pytest.skip("no shared HLO")
    seen = 0
    for path in REAL:
        module = parse_module(path.read_text())
        if len(flatten(module).nodes) > REAL_LIMIT:
            continue
        try:
            broken = broken_claims(module, generate(module, 1))
        except Unsupported:
            continue
        assert broken == []
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize(
    ("direction", "operands", "nan"),
    [
        ("NE", "z, x", False),
        ("EQ", "x, z", False),
        ("NE", "x, z", True),
        ("EQ", "z, x", True),
        ("NE", "z, y", True),
        ("NE", "y, x", True),
        ("LT", "z, x", True),
    ],
)
def test_a_select_by_whether_a_value_is_a_number_leaves_no_nan_of_it(direction: str, operands: str, nan: bool) -> None:
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  c = f32[] constant(0)
  z = f32[4] broadcast(c), dimensions={{}}
  p = pred[4] compare(x, x), direction={direction}
  ROOT r = f32[4] select(p, {operands})
}}""")
    arguments: list[Array] = [
        np.array([np.nan, np.inf, 1, -2], np.float32),
        np.array([1, np.nan, np.nan, 2], np.float32),
    ]
    assert broken_claims(module, arguments) == []
    walk = Walk.of(flatten(module))
    assert walk.forward([span_of(a) for a in arguments]).spans[walk.flat.roots[0]].nan is nan
