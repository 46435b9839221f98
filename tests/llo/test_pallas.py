"""Pallas kernels, compiled for a TPU that is not there, run in the simulator: exact on small integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.llo.files import read_dump
from assay.llo.module import run_module
from assay.reference.policies import for_target
from assay.targets import tpu_aot
from assay.toolchain import Worker

KERNELS = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def add(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

def product(x, y):
    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    return pl.pallas_call(
        kernel, grid=(2, 1, 3), out_shape=jax.ShapeDtypeStruct((256, 128), jnp.float32),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)))(x, y)
"""
RNG = np.random.default_rng(3)


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-8, 9, shape).astype(np.float32)


@pytest.mark.tpu
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("add", (a := whole(64, 256), b := whole(64, 256)), a + b),
        ("product", (x := whole(256, 384), y := whole(384, 128)), x.astype(np.float64) @ y.astype(np.float64)),
    ],
)
def test_a_pallas_kernel(
    tpu_worker: Worker,
    tmp_path: Path,
    generation: str,
    name: str,
    arguments: tuple[np.ndarray, ...],
    wanted: np.ndarray,
) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (case,) = tpu_worker.load(tmp_path / "kernels.py", name, arguments, platform="tpu").cases
    assert case.error is None, case.error
    made = tpu_aot.compile(tpu_worker, case.stablehlo, "stablehlo", generation, dump=tmp_path / "dump", llo=True)
    module, dump = parse_module(made.hlo), read_dump(tmp_path / "dump")
    for stage in ("original", "final"):
        ran = run_module(module, dump, arguments, generation, for_target(f"tpu:{generation}"), stage=stage)
        assert [kernel.kind for kernel in ran.kernels] == ["simulated"]
        assert ran.outputs[0].unwritten is None
        assert np.array_equal(ran.outputs[0].first, wanted)
