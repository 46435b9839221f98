"""Every form in which XLA and jax write a program is read, and means the same program."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from assay.errors import ProgramError
from assay.hlo.fingerprint import fingerprint
from assay.programs.load import load, looks_like_hlo, looks_like_stablehlo, parse_source
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import flatten
from assay.toolchain import Worker, host

SHAPES = (jax.ShapeDtypeStruct((3, 4), jnp.float32), jax.ShapeDtypeStruct((4,), jnp.bfloat16))


def program(x, y):
    return {"product": x * y.astype(jnp.float32), "sum": x.sum(0)}


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as worker:
        yield worker


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same program in every form."""
    folder = tmp_path_factory.mktemp("forms")
    lowered = jax.jit(program).lower(*SHAPES)
    computation = lowered.compiler_ir("hlo")
    (folder / "text.hlo").write_text(computation.as_hlo_text())
    (folder / "proto.pb").write_bytes(computation.as_serialized_hlo_module_proto())
    (folder / "text.mlir").write_text(lowered.as_text())
    module = lowered.compiler_ir("stablehlo")
    with open(folder / "bytecode.mlir", "wb") as f:
        module.operation.write_bytecode(f)
    (folder / "exported.bin").write_bytes(jax.export.export(jax.jit(program))(*SHAPES).serialize())
    return folder


@pytest.mark.parametrize("name", ["text.hlo", "proto.pb", "text.mlir", "bytecode.mlir", "exported.bin"])
def test_every_form_is_the_same_program(files, worker, name):
    (one,) = load(str(files / name), worker)
    assert one.problem is None
    assert one.module is not None
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.array([1, 2, 4, 0.5], ml_dtypes.bfloat16)
    product, total = flatten(evaluate(one.module, [x, y], for_target("cpu")).value)
    assert np.array_equal(product.mid, x * y.astype(np.float32))
    assert np.array_equal(total.mid, x.sum(0))


def test_proto_and_text_have_one_fingerprint(files, worker):
    (text,) = load(str(files / "text.hlo"), worker)
    (proto,) = load(str(files / "proto.pb"), worker)
    assert text.module is not None
    assert proto.module is not None
    assert fingerprint(text.module) == fingerprint(proto.module)


@pytest.mark.parametrize(
    "flags", ["--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto", "--xla_dump_hlo_as_text --xla_dump_hlo_as_proto"]
)
def test_a_dump_folder_gives_each_module_once_as_it_was_before_optimization(tmp_path, worker, flags):
    script = "import jax, jax.numpy as jnp; jax.jit(lambda x: jnp.tanh(x) @ x)(jnp.ones((5, 5)))"
    environment = {"XLA_FLAGS": f"--xla_dump_to={tmp_path} {flags}", "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
    programs = load(str(tmp_path), worker)
    names = [p.name.split(".")[0] for p in programs]
    assert len(names) == len(set(names))
    assert all(p.problem is None for p in programs)
    lambdas = [p for p in programs if "lambda" in p.name]
    assert len(lambdas) == 1
    assert any(i.opcode == "tanh" for c in lambdas[0].module.computations for i in c.instructions)


def test_sources():
    assert parse_source(__file__).function is None
    assert parse_source(f"{__file__}:step").function == "step"
    with pytest.raises(ProgramError, match="no such file"):
        parse_source("nothing.py:step")
    with pytest.raises(ProgramError, match="not a function name"):
        parse_source(f"{__file__}:a b")


def test_first_words_tell_the_form():
    assert looks_like_hlo(b"// a comment\n\nHloModule m\n")
    assert not looks_like_hlo(b"module @m {}")
    assert looks_like_stablehlo(b'#loc = loc("x")\nmodule @m {}')
    assert looks_like_stablehlo(b"ML\xefR...")
    assert not looks_like_stablehlo(b"HloModule m")


def test_arguments_of_a_function_come_from_the_host(tmp_path, worker):
    path = tmp_path / "f.py"
    path.write_text("def f(x): return x + 1\n")
    (one,) = load(f"{path}:f", worker, arguments=[np.ones((2, 2), np.float32)])
    assert one.arguments[0].shape == (2, 2)
