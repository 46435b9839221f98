"""What libtpu writes means what the module before it says: real snapshots on either side of a pass, evaluated.

This is how the meaning of each undocumented custom call is known (`ops/tpu_calls.py`, `mosaic`). Midpoints are
compared, which no rounding moves: what is left is that of constants folded in f32.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla_cpu import hlo_text

from assay.hlo.attributes import word
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.inputs.generate import generate
from assay.reference.evaluator import evaluate
from assay.reference.policy_tpu import TPU_V5E
from assay.reference.value import Array, Ball, flatten
from assay.targets import tpu_aot
from assay.targets.snapshots import read
from assay.toolchain import Worker

pytestmark = pytest.mark.tpu


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    weights = jax.nn.softmax(scores.astype(jnp.float32), -1).astype(v.dtype)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def rows(x, u):
    return jax.lax.scan(lambda c, y: (c * 0.5 + y, jnp.tanh(c + u)), x[0], x)[1]


def s(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


SOLVE = "triangular-solve(a, b), left_side=true, lower={}, transpose_a={}, unit_diagonal={}"


def two(operation: str, a: str, b: str) -> str:
    return f"""HloModule m
ENTRY e {{
  a = {a} parameter(0)
  b = {b} parameter(1)
  ROOT r = {b} {operation}
}}"""


# What libtpu writes -> the programs in which it does.
PROGRAMS = {
    "Cholesky": """HloModule m
ENTRY e {
  a = f32[40,40]{1,0} parameter(0)
  t = f32[40,40]{1,0} transpose(a), dimensions={1,0}
  p = f32[40,40]{1,0} dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  i = s32[40,40]{1,0} iota(), iota_dimension=0
  j = s32[40,40]{1,0} iota(), iota_dimension=1
  d = pred[40,40]{1,0} compare(i, j), direction=EQ
  k = f32[] constant(100)
  z = f32[] constant(0)
  kb = f32[40,40]{1,0} broadcast(k), dimensions={}
  zb = f32[40,40]{1,0} broadcast(z), dimensions={}
  w = f32[40,40]{1,0} select(d, kb, zb)
  m = f32[40,40]{1,0} add(p, w)
  c = f32[40,40]{1,0} cholesky(m), lower=true
  l = pred[40,40]{1,0} compare(i, j), direction=GE
  ROOT r = f32[40,40]{1,0} select(l, c, zb)
}""",
    "InvertDiagBlocksLowerTriangular": two(SOLVE.format("true", "NO_TRANSPOSE", "false"), "f32[150,150]", "f32[150,3]"),
    "InvertDiagBlocksUpperTriangular": two(SOLVE.format("false", "TRANSPOSE", "false"), "f32[150,150]", "f32[150,3]"),
    "TopKBatchMajorSmallK": (lambda x: jax.lax.top_k(x, 7), s(8, 1000, dtype=jnp.bfloat16)),
    "AllocateBuffer": hlo_text(rows, s(20, 8, 64), s(8, 64)),
    "GatherScatterIndicesBitpacked": hlo_text(
        lambda x, i: x.at[i[:, 0], i[:, 1], i[:, 2]].get(), s(4, 8, 16), s(30, 3, dtype=jnp.int32)
    ),
    "tpu_custom_call": hlo_text(attention, *(s(2, 4, n, 64, dtype=jnp.bfloat16) for n in (256, 512, 512))),
    "tpu_custom_call ": (
        lambda x, w, n: jax.lax.ragged_dot(x, w, n & 127), s(512, 128), s(8, 128, 256), s(8, dtype=jnp.int32)
    ),
}  # fmt: skip


def calls(module: Module) -> set[str]:
    every = (i for c in module.computations for i in c.instructions if i.opcode == "custom-call")
    return {word(i, "custom_call_target") for i in every}


def midpoints(module: Module, arguments: list[Array]) -> list[Ball]:
    run = evaluate(module, arguments, TPU_V5E, rng=np.random.default_rng(0), amplitude=0.0)
    return [leaf for leaf in flatten(run.value) if isinstance(leaf, Ball)]


@pytest.mark.parametrize("target", PROGRAMS)
def test_what_libtpu_writes_means_what_it_replaces(tpu_worker: Worker, tmp_path: Path, target: str) -> None:
    text = PROGRAMS[target]
    if isinstance(text, str):
        tpu_aot.compile(tpu_worker, text, "hlo-text", "v5e", dump=tmp_path / "dump")
    else:  # jax writes it otherwise for another target
        lowered = jax.jit(text[0]).trace(*text[1:]).lower(lowering_platforms=("tpu",))
        tpu_aot.compile(tpu_worker, lowered.as_text(), "stablehlo", "v5e", dump=tmp_path / "dump")
    modules = [parse_module(snapshot.text()) for snapshot in read(tmp_path / "dump")]
    holds = [target.strip() in calls(module) for module in modules]
    if not any(holds):
        pytest.skip(f"the libtpu here writes no {target}")  # 0.0.52 expands ragged dots in HLO, 0.0.50.1 does not
    first = holds.index(True)
    arguments = generate(modules[0], 0)
    if target.startswith("Invert"):
        arguments[0] = arguments[0] / 64 + 2 * np.eye(len(arguments[0]), dtype=np.float32)
    want = midpoints(modules[0], arguments)
    for module in (modules[first - 1], modules[first], modules[-1]):
        for ball, truth in zip(midpoints(module, arguments), want, strict=True):
            assert ball.und is None or not ball.und.any() or target == "Cholesky"
            scale = np.abs(truth.mid).max()
            np.testing.assert_allclose(ball.mid, truth.mid, rtol=1e-6, atol=1e-6 * scale)
