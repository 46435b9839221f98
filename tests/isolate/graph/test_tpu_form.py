"""The form in which a kernel stands alone: what it computes, where its operands lie; and that libtpu makes the same."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from assay.checking import api
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import ArrayShape, leaves
from assay.isolate.graph.kernels import alone, kernels
from assay.isolate.graph.same_kernel import difference
from assay.isolate.graph.tpu_form import FLAGS, tpu_form
from assay.llo.files import FINAL, KernelFiles, Stage, read_dump
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball, flatten
from assay.targets import tpu_aot
from assay.toolchain import Worker

NEAR = "{1,0:T(8,128)S(1)}"
FAR = "{1,0:T(8,128)}"


def form(entry: str, name: str = "k") -> Module:
    module = parse_module(f"HloModule m, is_scheduled=true\n\nENTRY e {{\n{entry}\n}}\n")
    return tpu_form(alone(module, module.entry, module.entry.by_name[name]))


def values(module: Module, *arguments: np.ndarray) -> list[np.ndarray]:
    found = evaluate(module, arguments, for_target("tpu:v5e")).value
    return [np.asarray(ball.mid) for ball in flatten(found) if isinstance(ball, Ball)]


def test_near_operands_are_copied_in_and_out_and_results_out():
    made = form(
        f"""  p = f32[8,128]{FAR} parameter(0)
  x = f32[8,128]{NEAR} copy(p)
  ROOT k = f32[8,128]{NEAR} subtract(x, p)"""
    )
    assert made.attributes["is_scheduled"] == "true"
    spaces = [leaf.layout.memory_space for p in made.entry.parameters for leaf in leaves(p.shape)]
    spaces += [leaf.layout.memory_space for leaf in leaves(made.entry.root.shape)]
    assert spaces == [0] * 4  # two arguments; the result, and x again
    kernel = made.entry.by_name["k"]
    assert [made.entry.by_name[name].array.layout.memory_space for name in kernel.operands] == [1, 0]
    order = [i.name for i in made.entry.instructions]
    assert order.index("x") < order.index("k") < order.index("x.kept")
    x, p = (np.full((8, 128), v, np.float32) for v in (5, 3))
    result, kept = values(parse_module(print_for_compiler(made)), x, p)
    assert (result == 2).all()
    assert (kept == 5).all()
    modes = made.attributes["frontend_attributes"]
    assert modes == f'{{arg_layout_modes="{FAR};{FAR}",out_layout_modes="{FAR};{FAR}"}}'


def test_an_operand_that_is_written_in_place_is_a_copy_that_ends_there():
    config = '{"aliasing_operands":{"lists":[{"indices":["0","4"]}]}}'
    made = form(
        f"""  b = f32[16,128]{FAR} parameter(0)
  u = f32[8,128]{NEAR} parameter(1)
  i = s32[] parameter(2)
  ROOT k = f32[16,128]{FAR} dynamic-update-slice(b, u, i, i), backend_config={config}"""
    )
    entry = made.entry
    first = entry.by_name[entry.by_name["k"].operands[0]]
    assert first.opcode == "copy"
    assert entry.by_name[first.operands[0]].opcode == "parameter"
    assert [i.name for i in entry.instructions if i.name.endswith(".kept")] == ["u.kept"]


def test_tuples_are_flat_arguments_and_flat_results():
    made = form(
        f"""  t = (f32[8,128]{NEAR}, (s32[8]{{0}}, token[])) parameter(0)
  ROOT k = (f32[8,128]{NEAR}, (s32[8]{{0}}, token[])) opt-barrier(t)"""
    )
    assert [p.shape.dtype.name for p in made.entry.parameters if isinstance(p.shape, ArrayShape)] == ["f32", "s32"]
    x, n = np.ones((8, 128), np.float32), np.arange(8, dtype=np.int32)
    for got, want in zip(values(made, x, n), (x, n, x), strict=True):
        assert np.array_equal(got, want)


def bundles(folder: Path, name: str, text: str) -> KernelFiles:
    path = folder / f"{name}.txt"
    path.write_text(text)
    return KernelFiles("k", (Stage(66, FINAL, path),))


def test_kernels_are_compared_but_for_counters_and_remarks(tmp_path: Path):
    line = "   0x1   :  { %v3_v0 = vld [vmem:[%s0_s0 + #allocation2] sm:$0xff]  ;;  %4 = vst [vmem:[%s9_s2]] %v3_v0 }\n"
    whole = bundles(tmp_path, "whole", line + line)
    renamed = line.replace("%v3_v0", "%v77_v0").replace("allocation2", "allocation5").replace("}", "} /* %fusion.3 */")
    assert difference(whole, bundles(tmp_path, "renamed", renamed + renamed)) == ""
    for number, other in enumerate(
        (
            line + line.replace("%v3_v0 =", "%v3_v1 ="),  # another register
            line + line.replace("0xff", "0x7f"),
            line + line.replace("allocation2", "allocation5"),  # two allocations where one was
            line,
            line + line.replace("%s9_s2", "%s0_s0"),
        )
    ):
        assert difference(whole, bundles(tmp_path, str(number), other)).startswith("line "), other
    assert "no stage" in difference(whole, KernelFiles("k", ()))


def program(x, w, table, index):
    def step(carry, row):
        carry = jnp.tanh(carry @ w + row)
        return carry, carry.sum(0)

    x = x + table[index]
    last, sums = jax.lax.scan(step, x, jnp.stack([x, 2 * x, x * x]))
    return jax.nn.softmax(last), sums, jnp.sort(x, axis=0)


SHAPES = (
    jax.ShapeDtypeStruct((64, 128), jnp.float32),
    jax.ShapeDtypeStruct((128, 128), jnp.float32),
    jax.ShapeDtypeStruct((300, 128), jnp.float32),
    jax.ShapeDtypeStruct((64,), jnp.int32),
)


@pytest.mark.tpu
@pytest.mark.slow
def test_libtpu_makes_the_same_kernels(tpu_worker: Worker, tmp_path: Path):
    lowered = api.lower(program, SHAPES, "tpu")(tpu_worker)
    made = tpu_aot.compile(tpu_worker, lowered.payload, lowered.kind, "v5e", dump=tmp_path / "whole", llo=True)
    module, dump = parse_module(made.hlo), read_dump(tmp_path / "whole")
    found = kernels(module, dump)
    assert any(k.computation != module.entry_name for k in found)
    for number, kernel in enumerate(found):
        folder = tmp_path / str(number)
        text = print_for_compiler(tpu_form(kernel.alone))
        tpu_aot.compile(tpu_worker, text, "hlo-text", "v5e", dump=folder, llo=True, flags=FLAGS)
        other = read_dump(folder).kernel(kernel.name)
        assert other is not None
        assert difference(kernel.files, other) == "", kernel.name
