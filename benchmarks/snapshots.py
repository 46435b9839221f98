"""How long do the snapshots of a train step take, beside the compilation that wrote them?

    python benchmarks/snapshots.py [--target tpu:v5e] [--toolchain jax==0.12.0.1,libtpu==0.0.52] [--layers 1,2,4,8]

A transformer's train step (attention, MLP, layer norms, Adam) in plain jax of growing depth. Each is compiled once with
a snapshot after every pass; then every snapshot is evaluated on one set of inputs: the program itself, reading the
snapshots, and judging them. Seconds are of CPU, so that they mean something on a busy machine, and the ratio is that of
those; the wall's stand behind them. Exits with status 1 where evaluating took longer than compiling, or one disagrees.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import psutil

from assay.checking import api
from assay.isolate.dumps import dump
from assay.isolate.judgement import Inputs
from assay.isolate.pipeline import find_culprit
from assay.oracle.verdict import Verdict

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 512, 128, 4, 64, 4


def parameters(layers: int) -> dict:
    def matrix(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    block = {
        "q": matrix(WIDTH, WIDTH), "k": matrix(WIDTH, WIDTH), "v": matrix(WIDTH, WIDTH), "o": matrix(WIDTH, WIDTH),
        "up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH), "norm": matrix(WIDTH), "norm2": matrix(WIDTH),
    }  # fmt: skip
    return {"embed": matrix(VOCABULARY, WIDTH), "out": matrix(WIDTH, VOCABULARY), "blocks": [block] * layers}


def norm(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def attend(x, w):
    def heads(y):
        return y.reshape(*y.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    q, k, v = (heads(x @ w[name]) for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3)
    return mixed.reshape(x.shape) @ w["o"]


def loss(params, tokens):
    x = params["embed"][tokens[:, :-1]]
    for w in params["blocks"]:
        x = x + attend(norm(x, w["norm"]), w)
        x = x + jax.nn.gelu(norm(x, w["norm2"]) @ w["up"]) @ w["down"]
    logits = jax.nn.log_softmax(x @ params["out"])
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def step(params, first, second, tokens):
    value, gradient = jax.value_and_grad(loss)(params, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda m, g: 0.999 * m + 0.001 * g * g, second, gradient)
    params = jax.tree.map(lambda p, m, s: p - 1e-3 * m / (jnp.sqrt(s) + 1e-8), params, first, second)
    return params, first, second, value


def main() -> int:
    options = _options()
    request = api.Request(target=options.target, toolchain=options.toolchain, timeout_s=1200.0)
    counts = f"{'layers':>6} {'instructions':>12} {'optimized':>9} {'snapshots':>9}"
    print(f"{counts} {'compile s':>9} {'evaluate s':>10} {'ratio':>5} {'wall s':>11}")
    slow = wrong = False
    with api.open_worker(request, lambda _: None) as (worker, versions):
        settings = api.settings_for(request, versions)
        for layers in map(int, options.layers.split(",")):
            shapes = parameters(layers)
            tokens = jax.ShapeDtypeStruct((BATCH, LENGTH + 1), jnp.int32)
            lowered = api.lower(step, (shapes, shapes, shapes, tokens), api.platform_of(options.target))
            program = lowered(worker)
            assert program.module is not None
            words, arguments = next(iter(api.inputs_for(program, request)))
            with tempfile.TemporaryDirectory() as folder:
                before = _spent_by_workers()
                found = dump(worker, program, options.target, Path(folder) / "d", {})
                compiling = _spent_by_workers() - before
                begun, wall = time.process_time(), time.monotonic()
                said = find_culprit(
                    program.module, found.snapshots, [Inputs(words, tuple(arguments))], settings,
                    walk_all=True, read=found.text,
                )  # fmt: skip
                spent, wall = time.process_time() - begun, time.monotonic() - wall
                last = found.text(found.snapshots[-1]).count(" = ")
            size = sum(len(c.instructions) for c in program.module.computations)
            evaluated = sum(str(look.state) != "unverified" for look in said.looks) / len(said.looks)
            row = f"{layers:6} {size:12} {last:9} {len(found.snapshots):9} {compiling:9.1f} {spent:10.1f}"
            row = f"{row} {spent / compiling:5.2f} {found.compile_s:5.1f} {wall:5.1f}"
            parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in said.seconds.items())
            print(f"{row}  {evaluated:.1%} {said.verdict} ({parts})", flush=True)
            slow |= spent > compiling
            wrong |= said.verdict == Verdict.MISMATCH
    return 1 if slow or wrong else 0


def _spent_by_workers() -> float:
    """CPU seconds of all processes below this one."""
    return sum(sum(process.cpu_times()[:2]) for process in psutil.Process().children(recursive=True))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="tpu:v5e")
    parser.add_argument("--toolchain")
    parser.add_argument("--layers", default="1,2,4,8")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
