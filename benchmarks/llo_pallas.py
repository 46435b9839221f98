"""Pallas kernels compiled for a TPU that is not there, in the simulator, against Pallas' own interpret mode.

    python benchmarks/llo_pallas.py [--target tpu:v5e|tpu:v6e] [--toolchain jax==V,libtpu==W] [--only NAME ...]

Each `pallas_call` is lowered for the TPU (Mosaic), compiled ahead of time, and its LLO simulated at `original` and
`final`. The same call with `interpret=True` is a plain HLO program, whose bounds under the target's policy judge the
results. Exit status 1 where a kernel is not simulated, or a result lies outside.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent / "llo_conformance"))

import jax
import jax.numpy as jnp
from cases import TYPES, array
from compiling import Compiler
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from judging import STAGES, Judge, same_bits, simulate

from assay.checking import api
from assay.errors import AssayError
from assay.inputs.generate import generate
from assay.toolchain import RequestRefused, WorkerDied

Call = Callable[..., Any]
"""Takes interpret= and the operands."""


def rowwise(body: Callable[..., Any], block: int, shape: tuple[int, int], dtype: str, out: str | None = None) -> Call:
    """`body` of blocks of rows, one after another."""

    def call(interpret: bool, *operands: Any) -> Any:
        def kernel(*refs: Any) -> None:
            refs[-1][...] = body(*(ref[...] for ref in refs[:-1])).astype(refs[-1].dtype)

        specs = [pl.BlockSpec((block, o.shape[1]), lambda i: (i, 0)) for o in operands]
        return pl.pallas_call(
            kernel,
            grid=(shape[0] // block,),
            in_specs=specs,
            out_specs=pl.BlockSpec((block, shape[1]), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct(shape, TYPES[out or dtype]),
            interpret=interpret,
        )(*operands)

    return call


def matmul(interpret: bool, x: Any, y: Any) -> Any:
    """Blocks of 128 along all three dimensions; sums kept in scratch memory."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, sums: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            sums[...] = jnp.zeros_like(sums)

        sums[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = sums[...].astype(o_ref.dtype)

    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(m // 128, n // 128, k // 128),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        interpret=interpret,
    )(x, y)


def reduction(interpret: bool, x: Any) -> Any:
    """Sums of columns, over blocks of rows."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...].sum(0, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 64,),
        in_specs=[pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype),
        interpret=interpret,
    )(x)


def attention(interpret: bool, q: Any, k: Any, v: Any) -> Any:
    """One head: blocks of queries, softmax kept up as keys come by."""

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        queries = q_ref[...] * 0.125

        def step(i: Any, carry: Any) -> Any:
            top, total, sums = carry
            keys, values = k_ref[pl.ds(i * 128, 128), :], v_ref[pl.ds(i * 128, 128), :]
            scores = lax.dot_general(queries, keys, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
            higher = jnp.maximum(top, scores.max(-1, keepdims=True))
            weights, old = jnp.exp(scores - higher), jnp.exp(top - higher)
            sums = sums * old + jnp.dot(weights, values, preferred_element_type=jnp.float32)
            return higher, total * old + weights.sum(-1, keepdims=True), sums

        first = (
            jnp.full((128, 1), -1e30, jnp.float32),
            jnp.zeros((128, 1), jnp.float32),
            jnp.zeros((128, 128), jnp.float32),
        )
        _, total, sums = lax.fori_loop(0, k_ref.shape[0] // 128, step, first)
        o_ref[...] = sums / total

    whole = pl.BlockSpec(k.shape, lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        grid=(q.shape[0] // 128,),
        in_specs=[pl.BlockSpec((128, 128), lambda i: (i, 0)), whole, whole],
        out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(q.shape, jnp.float32),
        interpret=interpret,
    )(q, k, v)


def plain(body: Callable[..., Any], *out: Any) -> Call:
    """One block: all of it."""

    def call(interpret: bool, *operands: Any) -> Any:
        def kernel(*refs: Any) -> None:
            refs[-1][...] = body(*(ref[...] for ref in refs[:-1]))

        return pl.pallas_call(kernel, out_shape=array(*out), interpret=interpret)(*operands)

    return call


def softmax(x: Any) -> Any:
    weights = jnp.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def kernels() -> Iterator[tuple[str, Call, tuple[Any, ...]]]:
    square = (array("f32", 64, 256),) * 2
    yield "add", plain(lambda x, y: x + y, "f32", 64, 256), square
    yield "add_bf16", plain(lambda x, y: x + y, "bf16", 64, 256), (array("bf16", 64, 256),) * 2
    yield (
        "arithmetic_bf16",
        plain(lambda x, y: jnp.maximum(x * y - x, jnp.minimum(y, x)), "bf16", 64, 256),
        (array("bf16", 64, 256),) * 2,
    )
    yield "select_s32", plain(lambda x, y: jnp.where(x > y, x - y, x * 3), "s32", 64, 256), (array("s32", 64, 256),) * 2
    yield "gelu", rowwise(jax.nn.gelu, 32, (128, 256), "f32"), (array("f32", 128, 256),)
    yield "softmax", rowwise(softmax, 64, (256, 512), "f32"), (array("f32", 256, 512),)
    yield (
        "layernorm",
        rowwise(
            lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
            64,
            (128, 256),
            "f32",
        ),
        (array("f32", 128, 256),),
    )
    yield (
        "quantize",
        rowwise(lambda x: jnp.clip(jnp.round(x * 16), -127, 127), 32, (64, 256), "f32", "s8"),
        (array("f32", 64, 256),),
    )
    yield "reduction", reduction, (array("f32", 256, 384),)
    yield "matmul_f32", matmul, (array("f32", 256, 384), array("f32", 384, 256))
    yield "matmul_bf16", matmul, (array("bf16", 256, 384), array("bf16", 384, 256))
    yield "transpose", plain(lambda x: x.T, "f32", 256, 128), (array("f32", 128, 256),)
    yield "rotate", plain(lambda x: jnp.roll(x, 3, 1), "f32", 64, 256), (array("f32", 64, 256),)
    yield (
        "iota",
        plain(lambda x: x + lax.broadcasted_iota(jnp.int32, x.shape, 1), "s32", 16, 256),
        (array("s32", 16, 256),),
    )
    yield "attention", attention, (array("f32", 256, 128),) * 3


def one(name: str, call: Call, shapes: tuple[Any, ...], compiler: Compiler, target: str) -> bool:
    try:
        made = compiler.compile(compiler.function(lambda *a: call(False, *a), shapes, name))
        interpreted = compiler.function(lambda *a: call(True, *a), shapes, f"{name}_interpreted")
    except (AssayError, RequestRefused, WorkerDied) as error:
        print(f"{name:<12} not compiled: {str(error)[:200]}", flush=True)
        return False
    assert interpreted.module is not None
    settings = api.settings_for(api.Request(target=target), compiler.versions)
    judge = Judge(interpreted.module, made.module, generate(interpreted.module, 0), settings)
    judge.own = judge.bounds  # a custom call has none of its own
    stages = [simulate(judge, made.dump, compiler.generation, stage) for stage in STAGES]
    for stage, ran in zip(STAGES, stages, strict=True):
        print(
            f"{name:<12} {stage:<9} {ran.verdict} {ran.why[:200]} ({ran.steps:,} records in {ran.seconds:.2f} s)",
            flush=True,
        )
    if all(ran.verdict == "agree" for ran in stages) and not same_bits(*stages):
        print(f"{name:<12} the stages differ in a bit")
    return all(ran.verdict == "agree" for ran in stages)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pallas kernels through the LLO simulator.")
    parser.add_argument("--target", default="tpu:v5e", choices=("tpu:v5e", "tpu:v6e"))
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    given = parser.parse_args()
    with Compiler(given.toolchain, given.target.removeprefix("tpu:")) as compiler:
        chosen = [k for k in kernels() if not given.only or k[0] in given.only]
        good = [one(*kernel, compiler, given.target) for kernel in chosen]
    print(f"{given.target}: {sum(good)} of {len(good)} agree with interpret mode")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
