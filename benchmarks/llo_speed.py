"""How fast the LLO simulator runs: vector operations a second in C and in NumPy, and against XLA:CPU.

    python benchmarks/llo_speed.py [--target tpu:v5e|tpu:v6e] [--toolchain jax==V,libtpu==W] [--rounds 3]

Each kernel is compiled once and its final bundles run in both engines; a vector operation is a record that reads or
writes a vector of 1,024 words. The same function runs on this machine's XLA:CPU, compiled, on the same inputs; the last
column is how many times slower the C engine is. Seconds are of the processor, all threads together, so that other work
on the machine counts less; the best of --rounds. The bars: C at least 30 times NumPy over all kernels,
and a product of 512 x 512 x 512 in bf16 in less than 2 s.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent / "llo_conformance"))

import jax
import jax.numpy as jnp
import numpy as np
from cases import array
from compiling import Compiler, Made

from assay.inputs.generate import generate
from assay.llo import interpret, native
from assay.llo.code import OP, Code
from assay.llo.kernel import Engine
from assay.llo.machine import Machine, Outcome
from assay.llo.module import run_module
from assay.llo.semantics.table import BY_NUMBER
from assay.reference.policies import for_target

KERNELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise f32 512x512": (
        lambda x, y: (x * y + x) * (y - 1.5) + jnp.maximum(x, 0),
        (array("f32", 512, 512),) * 2,
    ),
    "tanh f32 512x512": (jnp.tanh, (array("f32", 512, 512),)),
    "softmax f32 512x512": (lambda x: jax.nn.softmax(x, -1), (array("f32", 512, 512),)),
    "sum of rows f32 512x512": (lambda x: x.sum(1), (array("f32", 512, 512),)),
    "transpose f32 512x512": (lambda x: x.T, (array("f32", 512, 512),)),
    "matmul bf16 512x512x512": (lambda x, y: x @ y, (array("bf16", 512, 512),) * 2),
}
MATMUL = "matmul bf16 512x512x512"
LEAST, MOST_S = 30.0, 2.0
_VECTOR = [any(letter in "Vv" for letter in op.signature) for op in BY_NUMBER]


class Timed:
    """An engine that adds up its own seconds and records."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seconds = 0.0
        self.steps = 0

    def __call__(self, code: Code, machine: Machine, limit: int) -> Outcome:
        start = time.process_time()
        outcome = self.engine(code, machine, limit)
        self.seconds += time.process_time() - start
        self.steps += outcome.steps
        return outcome


def counted(made: Made, arguments: Sequence[Any], generation: str, policy: Any) -> int:
    """Vector operations of one run of the module: what the NumPy engine executes, by its hook."""
    total = 0

    def engine(code: Code, machine: Machine, limit: int) -> Outcome:
        vector = np.array(_VECTOR)[code.records[:, OP]].tolist()

        def watch(record: int) -> None:
            nonlocal total
            total += vector[record]

        return interpret.run(code, machine, limit, watch)

    run_module(made.module, made.dump, arguments, generation, policy, stage="final", engine=engine)
    return total


def timed(engine: Engine, made: Made, arguments: Sequence[Any], generation: str, policy: Any) -> Timed:
    watch = Timed(engine)
    run_module(made.module, made.dump, arguments, generation, policy, stage="final", engine=watch)
    return watch


def on_cpu(function: Callable[..., Any], arguments: Sequence[Any], rounds: int) -> float:
    """Seconds of one call of the compiled function."""
    compiled = jax.jit(function).lower(*arguments).compile()
    given = [jax.device_put(a) for a in arguments]
    jax.block_until_ready(compiled(*given))
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(20):
            jax.block_until_ready(compiled(*given))
        best = min(best, (time.process_time() - start) / 20)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the LLO simulator.")
    parser.add_argument("--target", default="tpu:v5e", choices=("tpu:v5e", "tpu:v6e"))
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if (why := native.missing()) is not None:
        raise SystemExit(f"no C engine here: {why}")
    generation, policy = given.target.removeprefix("tpu:"), for_target(given.target)
    columns = ("records", "vector ops", "C s", "C M/s", "NumPy s", "NumPy M/s", "C/NumPy", "XLA:CPU s", "slower")
    print(f"{'kernel, both runs of it':<26}" + "".join(f"{name:>12}" for name in columns))
    sums = np.zeros(2)
    matmul = 0.0
    with Compiler(given.toolchain, generation) as compiler:
        for name, (function, shapes) in KERNELS.items():
            program = compiler.function(function, shapes, name.split()[0])
            made = compiler.compile(program)
            assert program.module is not None
            arguments = generate(program.module, 0)
            start = time.perf_counter()
            run_module(made.module, made.dump, arguments, generation, policy, stage="final")
            whole = time.perf_counter() - start
            ops = counted(made, arguments, generation, policy)
            runs = [timed(native.run, made, arguments, generation, policy) for _ in range(given.rounds)]
            c = min(runs, key=lambda r: r.seconds)
            n = timed(interpret.run, made, arguments, generation, policy)
            cpu = on_cpu(function, arguments, given.rounds)
            sums += c.seconds, n.seconds
            if name == MATMUL:
                matmul = whole
            cells = (
                f"{c.steps:,}", f"{ops:,}", f"{c.seconds:.4f}", f"{ops / c.seconds / 1e6:.2f}", f"{n.seconds:.3f}",
                f"{ops / n.seconds / 1e6:.4f}", f"{n.seconds / c.seconds:.0f}x", f"{cpu:.6f}",
                f"{c.seconds / 2 / cpu:.0f}x",
            )  # fmt: skip
            print(f"{name:<26}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
    ratio = sums[1] / sums[0]
    print(f"C is {ratio:.0f} times NumPy; the bar is {LEAST:.0f}")
    print(f"{MATMUL}: {matmul:.2f} s to read, lower and run twice; the bar is {MOST_S:g}")
    good = ratio >= LEAST and matmul < MOST_S
    print("within the bars" if good else "NOT within the bars")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
