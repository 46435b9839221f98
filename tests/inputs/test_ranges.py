# ruff: noqa: E501  (HLO text)
"""What the walk finds, on small modules by hand and on real ones by watching the reference use what was drawn."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.inputs.arguments import parameter_names
from assay.inputs.domain import ANY, Domain
from assay.inputs.generate import generate
from assay.inputs.ranges import domains
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Ball, Value

REAL = sorted((Path(__file__).parents[3] / "shared" / "hlo").glob("*.cpu.before.hlo"))

GATHER = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"


def found(entry: str, others: str = "") -> list[Domain]:
    return domains(parse_module(f"HloModule m\n\n{others}\nENTRY e {{\n{entry}\n}}\n"))


def indexed(lines: str, dtype: str = "s32", others: str = "") -> Domain:
    """The domain of parameter i, where `lines` make the value `x` from it that indexes 10 rows."""
    domain, table = found(
        f"""  i = {dtype}[8]{{0}} parameter(0)
  t = f32[10,4]{{1,0}} parameter(1)
{lines}
  v = {dtype}[8,1]{{1,0}} reshape(x)
  ROOT g = f32[8,4]{{1,0}} gather(t, v), {GATHER}""",
        others,
    )
    assert table == ANY
    return domain


def constant(name: str, value: object, dtype: str = "s32") -> str:
    return f"  {name}0 = {dtype}[] constant({value})\n  {name} = {dtype}[8]{{0}} broadcast({name}0), dimensions={{}}\n"


@pytest.mark.parametrize(
    ("lines", "low", "high"),
    [
        ("  x = s32[8]{0} copy(i)", 0, 9),
        ('  x = s32[8]{0} custom-call(i), custom_call_target="AssumeGatherIndicesInBound"', 0, 9),
        ('  x = s32[8]{0} custom-call(i), custom_call_target="GatherScatterIndicesBitpacked"', 0, 9),
        ("  r = s32[2,4]{1,0} reshape(i)\n  q = s32[4,2]{1,0} transpose(r), dimensions={1,0}\n  x = s32[8]{0} reshape(q)", 0, 9),
        (constant("c", 3) + "  x = s32[8]{0} add(i, c)", -3, 6),
        (constant("c", 3) + "  x = s32[8]{0} subtract(i, c)", 3, 12),
        (constant("c", 3) + "  x = s32[8]{0} subtract(c, i)", -6, 3),
        (constant("c", 3) + "  x = s32[8]{0} multiply(i, c)", 0, 3),
        ("  x = s32[8]{0} multiply(i, i)", -3, 3),
        (constant("c", 3) + "  x = s32[8]{0} divide(i, c)", 0, 29),
        ("  x = s32[8]{0} negate(i)", -9, 0),
        ("  n = s32[8]{0} iota(), iota_dimension=0\n  x = s32[8]{0} add(i, n)", 0, 2),
        (constant("c", 3) + "  x = s32[8]{0} maximum(i, c)", 0, 9),
        (constant("c", 0) + constant("d", 9) + "  x = s32[8]{0} clamp(c, i, d)", 0, 9),
        ("  w = s64[8]{0} convert(i)\n  x = s32[8]{0} convert(w)", 0, 9),
        ("  b = s32[8]{0} opt-barrier(i)\n  x = s32[8]{0} copy(b)", 0, 9),
        (
            constant("z", 0) + constant("n", 10)
            + "  p = pred[8]{0} compare(i, z), direction=LT\n  a = s32[8]{0} add(i, n)\n"
            + "  x = s32[8]{0} select(p, a, i)",
            -10, 9,
        ),
        ("  k = (s32[8]{0}, s32[8]{0}) tuple(i, i)\n  x = s32[8]{0} get-tuple-element(k), index=1", 0, 9),
    ],
)  # fmt: skip
def test_bounds_go_back_through(lines: str, low: int, high: int) -> None:
    domain = indexed(lines)
    assert (domain.low, domain.high) == (low, high)


@pytest.mark.parametrize(
    "lines",
    [
        "  f = f32[8]{0} bitcast-convert(i)\n  x = s32[8]{0} bitcast-convert(f)",
        constant("c", 7) + "  x = s32[8]{0} and(i, c)",
        "  x = s32[8]{0} popcnt(i)",
    ],
)
def test_bounds_do_not_go_through(lines: str) -> None:
    assert not indexed(lines).bounded


def test_calls_fusions_loops_and_conditionals() -> None:
    twice = "f {\n  p = s32[8]{0} parameter(0)\n  q = s32[8]{0} parameter(1)\n  ROOT r = s32[8]{0} add(p, q)\n}\n"
    same = "f {\n  p = s32[8]{0} parameter(0)\n  ROOT r = s32[8]{0} copy(p)\n}\n"
    called = constant("c", 2) + "  x = s32[8]{0} call(i, c), to_apply=f"
    assert (indexed(called, others=twice).low, indexed(called, others=twice).high) == (-2, 7)
    fused = "  x = s32[8]{0} fusion(i), kind=kLoop, calls=f"
    assert (indexed(fused, others=same).low, indexed(fused, others=same).high) == (0, 9)
    loop = (
        "c {\n  p = (s32[], s32[8]{0}) parameter(0)\n  n = s32[] get-tuple-element(p), index=0\n  k = s32[] constant(3)\n"
        "  ROOT r = pred[] compare(n, k), direction=LT\n}\n"
        "b {\n  p = (s32[], s32[8]{0}) parameter(0)\n  n = s32[] get-tuple-element(p), index=0\n  k = s32[] constant(1)\n"
        "  m = s32[] add(n, k)\n  v = s32[8]{0} get-tuple-element(p), index=1\n  ROOT r = (s32[], s32[8]{0}) tuple(m, v)\n}\n"
    )
    looped = (
        "  z = s32[] constant(0)\n  s = (s32[], s32[8]{0}) tuple(z, i)\n"
        "  w = (s32[], s32[8]{0}) while(s), condition=c, body=b\n  x = s32[8]{0} get-tuple-element(w), index=1"
    )
    assert (indexed(looped, others=loop).low, indexed(looped, others=loop).high) == (0, 9)
    chosen = (
        "  s = pred[] constant(true)\n  x = s32[8]{0} conditional(s, i, i), true_computation=f, false_computation=f"
    )
    assert indexed(chosen, others=same).high == 9


def test_a_demand_on_the_result_of_one_call_does_not_reach_another() -> None:
    domain_a, domain_b, _ = found(
        f"""  a = s32[8]{{0}} parameter(0)
  b = s32[8]{{0}} parameter(1)
  t = f32[10,4]{{1,0}} parameter(2)
  x = s32[8]{{0}} call(a), to_apply=f
  y = s32[8]{{0}} call(b), to_apply=f
  v = s32[8,1]{{1,0}} reshape(x)
  g = f32[8,4]{{1,0}} gather(t, v), {GATHER}
  ROOT r = (f32[8,4]{{1,0}}, s32[8]{{0}}) tuple(g, y)""",
        "f {\n  p = s32[8]{0} parameter(0)\n  ROOT r = s32[8]{0} copy(p)\n}\n",
    )
    assert domain_a.bounded
    assert domain_b == ANY


def test_a_demand_inside_a_computation_reaches_all_its_callers() -> None:
    a, b = found(
        "  a = f32[8]{0} parameter(0)\n  b = f32[8]{0} parameter(1)\n  x = f32[8]{0} call(a), to_apply=f\n"
        "  y = f32[8]{0} call(b), to_apply=f\n  ROOT r = f32[8]{0} add(x, y)",
        "f {\n  p = f32[8]{0} parameter(0)\n  ROOT r = f32[8]{0} log(p)\n}\n",
    )
    assert a.positive
    assert b.positive


def test_slices_updates_and_scatters() -> None:
    a, i, j, u = found(
        "  a = f32[10,20]{1,0} parameter(0)\n  i = s32[] parameter(1)\n  j = s32[] parameter(2)\n  u = f32[3,20]{1,0} parameter(3)\n"
        "  d = f32[10,20]{1,0} dynamic-update-slice(a, u, i, j)\n"
        "  ROOT s = f32[4,5]{1,0} dynamic-slice(d, i, j), dynamic_slice_sizes={4,5}"
    )
    assert (i.low, i.high) == (0, 6)  # both: 10 - 3 and 10 - 4
    assert (j.low, j.high) == (0, 0)
    assert a == u == ANY
    _, k, _ = found(
        "  a = f32[10,20]{1,0} parameter(0)\n  k = s32[6,2]{1,0} parameter(1)\n  u = f32[6]{0} parameter(2)\n"
        "  ROOT s = f32[10,20]{1,0} scatter(a, k, u), update_window_dims={}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, indices_are_sorted=true, unique_indices=true, to_apply=f",
        "f {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n",
    )
    assert k == Domain(0, 9, ordered=True, distinct=True, vector=1)


def test_positive_where_a_logarithm_a_root_or_a_divisor_waits() -> None:
    # The second moment of Adam: sqrt((b * nu + (1 - b) * g * g) / (1 - b**t)).
    nu, g, t = found(
        "  nu = f32[8]{0} parameter(0)\n  g = f32[8]{0} parameter(1)\n  t = f32[] parameter(2)\n"
        + constant("b", 0.999, "f32") + constant("c", 0.001, "f32")
        + "  m = f32[8]{0} multiply(nu, b)\n  s = f32[8]{0} multiply(g, g)\n  k = f32[8]{0} multiply(s, c)\n"
        "  n = f32[8]{0} add(k, m)\n  one = f32[] constant(1)\n  base = f32[] constant(0.999)\n  w = f32[] power(base, t)\n"
        "  d = f32[] subtract(one, w)\n  e = f32[8]{0} broadcast(d), dimensions={}\n  q = f32[8]{0} divide(n, e)\n"
        "  ROOT r = f32[8]{0} sqrt(q)"
    )  # fmt: skip
    assert nu.positive
    assert not g.positive
    assert not g.bounded
    assert t.low > 0  # 0.999**t < 1
    a, b, c = found(
        "  a = f32[8]{0} parameter(0)\n  b = f32[8]{0} parameter(1)\n  c = f32[8]{0} parameter(2)\n"
        "  x = f32[8]{0} log(a)\n  y = f32[8]{0} divide(x, b)\n  z = f32[8]{0} asin(c)\n  ROOT r = f32[8]{0} add(y, z)"
    )
    assert a.positive
    assert b.nonzero > 0
    assert not b.bounded
    assert (c.low, c.high) == (-1, 1)


def test_loop_bounds_are_small() -> None:
    (n,) = found(
        "  n = s32[] parameter(0)\n  z = s32[] constant(0)\n  s = (s32[], s32[]) tuple(z, n)\n"
        "  w = (s32[], s32[]) while(s), condition=c, body=b\n  ROOT r = s32[] get-tuple-element(w), index=0",
        "c {\n  p = (s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] get-tuple-element(p), index=1\n"
        "  ROOT r = pred[] compare(i, n), direction=LT\n}\n"
        "b {\n  p = (s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] get-tuple-element(p), index=1\n"
        "  k = s32[] constant(1)\n  j = s32[] add(i, k)\n  ROOT r = (s32[], s32[]) tuple(j, n)\n}\n",
    )
    assert n.steps


def test_weights() -> None:
    x, w, q, k = found(
        "  x = f32[4,64]{1,0} parameter(0)\n  w = f32[64,32]{1,0} parameter(1)\n  q = f32[2,4,64]{2,1,0} parameter(2)\n"
        "  k = f32[2,4,64]{2,1,0} parameter(3)\n"
        "  d = f32[4,32]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  s = f32[2,4,4]{2,1,0} dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
        "  ROOT r = (f32[4,32]{1,0}, f32[2,4,4]{2,1,0}) tuple(d, s)"
    )
    assert (x.fan_in, w.fan_in, q.fan_in, k.fan_in) == (0, 64, 0, 0)


@pytest.mark.parametrize("length", [10_000])
def test_a_graph_of_ten_thousand_instructions_takes_no_more_than_two_seconds(length: int) -> None:
    opcodes = ("add", "maximum", "subtract", "select", "call")
    lines = [constant("c", 1) + "  q = pred[8]{0} compare(i, c), direction=LT", "  x0 = s32[8]{0} copy(i)"]
    for n in range(1, length):
        opcode = opcodes[n % len(opcodes)]
        operands = {"select": f"q, x{n - 1}, x{max(0, n - 2)}", "call": f"x{n - 1}"}.get(opcode, f"x{n - 1}, c")
        lines.append(f"  x{n} = s32[8]{{0}} {opcode}({operands})" + (", to_apply=f" if opcode == "call" else ""))
    lines.append(f"  x = s32[8]{{0}} copy(x{length - 1})")
    start = time.monotonic()
    domain = indexed("\n".join(lines), others="f {\n  p = s32[8]{0} parameter(0)\n  ROOT r = s32[8]{0} copy(p)\n}\n")
    assert domain.bounded
    assert time.monotonic() - start < 10  # parsing included, on a busy machine


def test_many_calls_of_calls_end() -> None:
    layers = "".join(
        f"f{k} {{\n  p = f32[] parameter(0)\n  a = f32[] call(p), to_apply=f{k - 1}\n  b = f32[] call(a), to_apply=f{k - 1}\n"
        "  ROOT r = f32[] add(a, b)\n}\n"
        for k in range(1, 30)
    )  # 2**29 paths
    start = time.monotonic()
    (p,) = found("  p = f32[] parameter(0)\n  c = f32[] call(p), to_apply=f29\n  ROOT r = f32[] log(c)",
                 "f0 {\n  p = f32[] parameter(0)\n  ROOT r = f32[] copy(p)\n}\n" + layers)  # fmt: skip
    assert p == p
    assert time.monotonic() - start < 10


# ---- real programs


@pytest.mark.skipif(not REAL, reason="no shared HLO")
@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name.split(".")[0])
@pytest.mark.parametrize("kind", ["normal", pytest.param("small-integers", marks=pytest.mark.slow)])
def test_every_index_of_a_real_program_is_in_range_when_the_reference_uses_it(path: Path, kind: str) -> None:
    module = parse_module(path.read_text())
    integers = {
        i for i, (_, shape) in enumerate(parameter_names(module)) if shape.dtype.is_integer and math.prod(shape.dims)
    }
    watcher = Watcher(module)
    try:
        evaluate(module, generate(module, 3, kind), Policy("test"), on_value=watcher)
    except AssayError as error:
        pytest.skip(str(error))
    if "embedding" in path.name or "transformer" in path.name:
        assert integers
        assert watcher.indices > 0
    assert not watcher.bad


class Watcher:
    """Looks at the indices of each gather as it is evaluated."""

    def __init__(self, module: Module) -> None:
        self.values: dict[tuple[str, str], Value] = {}
        self.indices = 0
        self.bad: list[str] = []

    def __call__(self, computation: Computation, instruction: Instruction, value: Value) -> None:
        self.values[computation.name, instruction.name] = value
        if instruction.opcode != "gather":
            return
        dims = attributes.gather_dims(instruction)
        operand, ball = (self.values[computation.name, name] for name in instruction.operands)
        assert isinstance(operand, Ball)
        assert isinstance(ball, Ball)
        highest = [operand.dims[d] - dims.slice_sizes[d] for d in dims.start_index_map]
        vectors = np.moveaxis(np.atleast_1d(ball.mid), min(dims.index_vector_dim, ball.mid.ndim - 1), -1)
        if dims.index_vector_dim == ball.mid.ndim:
            vectors = ball.mid[..., None]
        self.indices += vectors.size
        if vectors.size and ((vectors < 0) | (vectors > np.array(highest))).any():
            self.bad.append(
                f"{computation.name}/{instruction.name}: {vectors.min()} to {vectors.max()}, not 0 to {highest}"
            )


@pytest.mark.skipif(not REAL, reason="no shared HLO")
def test_the_second_moments_of_adam_are_positive() -> None:
    path = next(p for p in REAL if "transformer" in p.name)
    module = parse_module(path.read_text())
    by_name = {name: domain for (name, _), domain in zip(parameter_names(module), domains(module), strict=True)}
    assert all(domain.positive == ("__nu__" in name) for name, domain in by_name.items())
    kernels = {name for name, domain in by_name.items() if domain.fan_in}
    assert kernels
    assert all("kernel" in name for name in kernels)


def test_sizes_of_groups_are_not_negative_and_fill_the_rows() -> None:
    *_, sizes = found(
        """  x = f32[64,16]{1,0} parameter(0)
  w = f32[4,16,8]{2,1,0} parameter(1)
  n = s32[4]{0} parameter(2)
  ROOT d = f32[64,8]{1,0} ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}, \
lhs_ragged_dims={0}, rhs_group_dims={0}"""
    )
    assert (sizes.low, sizes.high) == (0, 32)
