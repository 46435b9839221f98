"""Where infinities and NaN may come from: named cases, and that the analysis never misses a source that the evaluator
meets.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.oracle.intent import CONSTANT, DOMAIN, INPUT, OVERFLOW, UNKNOWN, holds_constants, sources
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, flatten

SOFTMAX = """HloModule softmax
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  m = pred[4,8] parameter(1)
  low = f32[] constant(-inf)
  lows = f32[4,8] broadcast(low), dimensions={}
  s = f32[4,8] select(m, x, lows)
  top = f32[4] reduce(s, low), dimensions={1}, to_apply=max
  tops = f32[4,8] broadcast(top), dimensions={0}
  d = f32[4,8] subtract(s, tops)
  p = f32[4,8] exponential(d)
  zero = f32[] constant(0)
  sum = f32[4] reduce(p, zero), dimensions={1}, to_apply=add
  sums = f32[4,8] broadcast(sum), dimensions={0}
  q = f32[4,8] divide(p, sums)
  i = s32[4,8] iota(), iota_dimension=0
  ROOT t = (f32[4,8], f32[4], f32[4,8], s32[4,8]) tuple(s, top, q, i)
}
"""


def of(body: str, shape: str = "f32[4]") -> Module:
    return parse_module(f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n  {body}\n}}\n")


def kinds(module: Module, infinite_inputs: tuple[int, ...] | None = ()) -> list[set[tuple[str, str]]]:
    return [{(s.kind, s.name) for s in found} for found in sources(module, infinite_inputs)]


def test_each_output_has_its_own_sources() -> None:
    module = parse_module(SOFTMAX)
    masked, top, softmax, counted = kinds(module)
    assert masked == top == {(CONSTANT, "low")}
    assert softmax >= {(CONSTANT, "low"), (DOMAIN, "q"), (OVERFLOW, "p")}
    assert counted == set()
    assert holds_constants(module) == {"low"}


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        ("ROOT r = f32[4] tanh(x)", "f32[4]", set()),
        ("ROOT r = f32[4] log(x)", "f32[4]", {(DOMAIN, "r")}),
        ("ROOT r = f16[4] convert(x)", "f32[4]", {(OVERFLOW, "r")}),
        ("ROOT r = f32[4] convert(x)", "f16[4]", set()),
        ("ROOT r = bf16[4] convert(x)", "s32[4]", set()),
        ("ROOT r = f16[4] convert(x)", "s32[4]", {(OVERFLOW, "r")}),
        ("l = f32[4] log(x)\n  ROOT r = s32[4] convert(l)", "f32[4]", set()),
        ("l = f32[4] log(x)\n  ROOT r = pred[4] compare(l, x), direction=LT", "f32[4]", set()),
        # exp(-inf) is 0, so what log brings ends there; NaN goes on.
        ("c = f32[4] constant({0, 1, -inf, 2})\n  ROOT r = f32[4] exponential(c)", "f32[4]", {(OVERFLOW, "r")}),
        ("c = f32[4] constant({0, 1, nan, 2})\n  ROOT r = f32[4] tanh(c)", "f32[4]", {(CONSTANT, "c")}),
        ("c = f32[4] constant({0, 1, inf, 2})\n  ROOT r = f32[4] tanh(c)", "f32[4]", set()),
        ("c = f32[4] constant({0, 1, inf, 2})\n  ROOT r = f32[4] cosine(c)", "f32[4]", {(CONSTANT, "c")}),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="foreign"', "f32[4]", {(UNKNOWN, "r")}),
    ],
)
def test_what_an_operation_makes_and_lets_through(body: str, shape: str, expected: set[tuple[str, str]]) -> None:
    (found,) = kinds(of(body, shape))
    assert found == expected


def test_clamping_keeps_the_infinity_of_its_own_bounds() -> None:
    bounded = of(
        "lo = f32[4] constant({0,0,0,0})\n  hi = f32[4] constant({1,1,1,1})\n"
        "  c = f32[4] constant({inf,-inf,0,0})\n  ROOT r = f32[4] clamp(lo, c, hi)"
    )
    assert kinds(bounded) == [set()]
    open_above = of(
        "lo = f32[4] constant({0,0,0,0})\n  hi = f32[4] constant({1,1,1,inf})\n"
        "  c = f32[4] constant({inf,-inf,0,0})\n  ROOT r = f32[4] clamp(lo, c, hi)"
    )
    assert kinds(open_above) == [{(CONSTANT, "c"), (CONSTANT, "hi")}]


def test_arguments_count_where_they_may_hold_infinities() -> None:
    module = of("ROOT r = f32[4] negate(x)")
    assert kinds(module, None) == [{(INPUT, "x")}] == kinds(module, (0,))
    assert kinds(module, ()) == [set()]


def test_a_loop_hands_on_what_a_later_trip_brings() -> None:
    module = parse_module("""HloModule loop
body { s = (f32[], f32[], s32[]) parameter(0)
  a = f32[] get-tuple-element(s), index=0
  b = f32[] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  m = s32[] add(n, one)
  l = f32[] log(b)
  ROOT t = (f32[], f32[], s32[]) tuple(b, l, m) }
cond { s = (f32[], f32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=2
  k = s32[] constant(3)
  ROOT c = pred[] compare(n, k), direction=LT }
ENTRY e { x = f32[] parameter(0)
  z = s32[] constant(0)
  t = (f32[], f32[], s32[]) tuple(x, x, z)
  w = (f32[], f32[], s32[]) while(t), condition=cond, body=body
  ROOT r = f32[] get-tuple-element(w), index=0 }
""")
    assert kinds(module) == [{(DOMAIN, "l")}]


UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cosh", "cosine", "erf", "exponential",
    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "negate", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
BINARY = ("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract")


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_no_infinity_comes_from_nowhere(dtype: str) -> None:
    """Every elementwise operation, on every pair of special values: what the evaluator gives has a source of its own,
    whichever operand it comes of.
    """
    special = "inf, -inf, nan, 0, -0, 1, -1, 2.5, -60000, 60000, 0.00001, -0.5"
    names = "abcdefghijkl"
    constants = [f"{n} = {dtype}[] constant({v.strip()})" for n, v in zip(names, special.split(","), strict=True)]
    lines, outputs = [], []
    for opcode in UNARY:
        for n in names:
            outputs.append(f"{opcode}.{n}")
            lines.append(f"{opcode}.{n} = {dtype}[] {opcode}({n})")
    for opcode in BINARY:
        for n in names:
            for m in names:
                outputs.append(f"{opcode}.{n}{m}")
                lines.append(f"{opcode}.{n}{m} = {dtype}[] {opcode}({n}, {m})")
    whole = ", ".join([f"{dtype}[]"] * len(outputs))
    text = "\n  ".join([*constants, *lines, f"ROOT t = ({whole}) tuple({', '.join(outputs)})"])
    module = parse_module(f"HloModule m\nENTRY e {{\n  {text}\n}}\n")
    result = flatten(evaluate(module, [], for_target("cpu")).value)
    met = 0
    for name, ball, found in zip(outputs, result, sources(module), strict=True):
        assert isinstance(ball, Ball)
        if not np.isfinite(ball.mid).all():
            met += 1
            assert found, f"{name} is {ball.mid}"
    assert met > 400


@pytest.mark.parametrize("seed", range(3))
def test_no_infinity_comes_from_nowhere_in_a_program(seed: int) -> None:
    """A program of many sorts: all it makes of finite arguments has a source that is no argument."""
    module = parse_module(MANY)
    rng = np.random.default_rng(seed)
    x, y = (np.ldexp(rng.standard_normal((8, 8)), rng.integers(-90, 90, (8, 8))).astype(np.float32) for _ in range(2))
    x[0, :4] = 0
    y[0, :2] = 0
    arguments = [x, y, rng.integers(0, 8, 4).astype(np.int32)]
    result = flatten(evaluate(module, arguments, for_target("cpu")).value)
    found = sources(module, ())
    broken = [bool((~np.isfinite(b.mid)).any()) for b in result if isinstance(b, Ball)]
    assert any(broken)
    assert all(s for s, is_broken in zip(found, broken, strict=True) if is_broken)
    assert not found[-1]
    assert not broken[-1]


MANY = """HloModule many
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
mul { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] multiply(a, b) }
key { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
inner { a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,8] multiply(d, d) }
ENTRY e {
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  n = s32[4] parameter(2)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  f = f32[8,8] fusion(x, y), kind=kLoop, calls=inner
  sum = f32[8] reduce(f, zero), dimensions={0}, to_apply=add
  product = f32[8] reduce(y, one), dimensions={1}, to_apply=mul
  q = f32[8,8] divide(x, y)
  sorted = f32[8,8] sort(q), dimensions={1}, to_apply=key
  w = f32[8,8] reduce-window(f, zero), window={size=1x2 pad=0_0x0_1}, to_apply=add
  g = f32[4,8] gather(f, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,8}
  sc = f32[8,8] scatter(x, n, g), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  h = f16[8,8] convert(y)
  t8 = f32[8,8] tanh(x)
  ROOT t = (f32[8], f32[8], f32[8,8], f32[8,8], f32[8,8], f16[8,8], f32[8,8]) tuple(sum, product, sorted, w, sc, h, t8)
}
"""
