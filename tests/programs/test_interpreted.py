"""Pallas kernels of a user's file: what the reference evaluates in their place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request, check_path, lower
from assay.oracle.verdict import Verdict
from assay.programs.load import load
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import Ball
from assay.toolchain import Toolchain, Worker, host

KERNELS = """
import functools
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2 + jnp.where(pl.program_id(0) > 1, 100.0, 0.0)

def rows(x):
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(double, grid=(4,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32))(x)

def first(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]

def in_place(x, y):
    block = pl.BlockSpec((8, 128), lambda i: (0, 0))
    return pl.pallas_call(first, grid=(1,), in_specs=[block, block], out_specs=block, input_output_aliases={0: 0},
                          out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32))(x, y)

def looped(x):
    return jax.lax.fori_loop(0, 3, lambda i, a: jax.jit(rows)(a), x)

S = jax.ShapeDtypeStruct

def cases():
    yield "rows", rows, (S((32, 128), jnp.float32),)
    yield "in place", in_place, (S((32, 128), jnp.float32), S((8, 128), jnp.float32))
    yield "looped", looped, (S((32, 128), jnp.float32),)
    yield "none", lambda x: x + 1, (S((32, 128), jnp.float32),)
"""
BLOCK = np.repeat(np.array([0, 0, 100, 100], np.float32), 8)[:, None]
X = np.random.default_rng(0).integers(-9, 9, (32, 128)).astype(np.float32)
Y = np.full((8, 128), 100, np.float32)


def in_place(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = x.copy()
    found[:8] += y
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pallas") / "kernels.py"
    path.write_text(KERNELS)
    return path


def test_kernels_are_plain_operations_for_the_reference(file: Path) -> None:
    """Under jit and in a loop as well; parameters and results as they were."""
    with Worker(host()) as worker:
        programs = {p.name.partition(": ")[2]: p for p in load(str(file), worker, platform="tpu")}
    truth = {
        "rows": ([X], X * 2 + BLOCK),
        "in place": ([X, Y], in_place(X, Y)),
        "looped": ([X], ((X * 2 + BLOCK) * 2 + BLOCK) * 2 + BLOCK),
    }
    for name, (arguments, expected) in truth.items():
        program = programs[name]
        assert program.problem is None
        assert program.module is not None
        assert any(i.opcode == "custom-call" for c in program.module.computations for i in c.instructions)
        assert program.plain is not None
        found = evaluate(program.plain, arguments, for_target("tpu:v5e")).value
        assert isinstance(found, Ball)
        assert (found.mid == expected).all()
    assert programs["none"].plain is None
    assert programs["none"].notes == ()


@pytest.mark.tpu
def test_they_agree_in_the_simulator(file: Path, tpu_toolchain: Toolchain) -> None:
    spec = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    request = Request(target="tpu:v5e", through="llo", toolchain=spec)
    report = check_path(str(file), request)
    assert report.verdict == Verdict.AGREE, str(report)


def test_a_function_of_the_callers_own_process(file: Path) -> None:
    spec = importlib.util.spec_from_file_location("kernels", file)
    assert spec is not None
    assert spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    with Worker(host()) as worker:
        program = lower(kernels.rows, (X,), "tpu")(worker)
    assert program.plain is not None
    found = evaluate(program.plain, [X], for_target("tpu:v5e")).value
    assert isinstance(found, Ball)
    assert (found.mid == X * 2 + BLOCK).all()
