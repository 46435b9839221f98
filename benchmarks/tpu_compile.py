"""What a compilation ahead of time costs beyond libtpu's own time, and what jax's own way to it costs.

    python benchmarks/tpu_compile.py [--toolchain jax==V,libtpu==W] [--generation v5e]

Three programs of growing size go through assay and through jax (`topologies`, `lower`, `compile`; the last is timed) in
the same toolchain, each in a process that is warm, and in turn, so that other work on the machine slows both alike. The
median of `--rounds` is told. Overhead is the wall time of `tpu_aot.compile` less that of PJRT_Compile alone.

The bar: no more than 0.1 s of overhead on the small program, and no slower than jax by more than a tenth on the large.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from assay.targets import tpu_aot
from assay.toolchain import Limits, Toolchain, Worker, resolve

PROGRAMS = """
import jax, jax.numpy as jnp

S = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)

def small(x, y):
    return jnp.tanh(x @ y)

def block(x, w1, w2):
    h = jax.nn.softmax(x @ w1, -1)
    return x + jax.nn.gelu(h @ w2)

def medium(x, w1, w2):
    return block(x, w1, w2).sum(0)

def large(x, w1, w2):
    def loss(w1, w2):
        y = x
        for _ in range(6):
            y = block(y, w1, w2)
        return (y ** 2).mean()
    return jax.grad(loss, (0, 1))(w1, w2)

PROGRAMS = {
    "small": (small, (S(64, 256), S(256, 128))),
    "medium": (medium, (S(64, 256), S(256, 512), S(512, 256))),
    "large": (large, (S(64, 256), S(256, 512), S(512, 256))),
}
"""
# Serves jax's own way: a line with a program's name in, its seconds out; at first the StableHLO of all of them.
JAXS_WAY = (
    PROGRAMS
    + """
import os, sys, time
from jax.experimental import topologies
topology = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[1])
s = jax.sharding.SingleDeviceSharding(topology.devices[0])
def lower(name):
    jax.clear_caches()
    f, shapes = PROGRAMS[name]
    return jax.jit(f, in_shardings=s, out_shardings=s).trace(*shapes).lower(lowering_platforms=("tpu",))

for name in PROGRAMS:
    with open(f"{sys.argv[2]}/{name}.bc", "wb") as file:
        lower(name).compiler_ir("stablehlo").operation.write_bytecode(file)
print("ready", flush=True)
for name in sys.stdin:
    lowered = lower(name.strip())
    start = time.monotonic()
    lowered.compile().as_text()
    print(time.monotonic() - start, flush=True)
"""
)
ENVIRONMENT = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "JAX_PLATFORMS": "cpu"}


class Jax:
    """jax's own way, in a process of the toolchain."""

    def __init__(self, toolchain: Toolchain, topology: str, folder: Path) -> None:
        import os

        self.process = subprocess.Popen(
            [toolchain.python, "-c", JAXS_WAY, topology, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | ENVIRONMENT,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit("jax's own way does not work in this toolchain")
        return line

    def seconds(self, name: str) -> float:
        assert isinstance(self.process.stdin, io.TextIOBase)
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(toolchain: Toolchain, generation: str, rounds: int) -> list[dict[str, Any]]:
    """For each program medians of wall seconds: assay's, PJRT_Compile's in it, with every snapshot dumped, jax's."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, Worker(toolchain, limits=Limits(timeout_s=600)) as worker:
        jax = Jax(toolchain, tpu_aot.GENERATIONS[generation], Path(folder))
        start = time.monotonic()
        tpu_aot.start(worker, generation)
        print(f"loading libtpu: {time.monotonic() - start:.2f} s")
        for name in ("small", "medium", "large"):
            program = Path(folder, f"{name}.bc").read_bytes()
            taken: dict[str, list[float]] = {"assay": [], "libtpu": [], "dumping": [], "jax": []}
            for number in range(rounds + 1):  # the first warms up
                start = time.monotonic()
                made = tpu_aot.compile(worker, program, "stablehlo", generation)
                wall = time.monotonic() - start
                dump = Path(folder, f"{name}-{number}")
                start = time.monotonic()
                tpu_aot.compile(worker, program, "stablehlo", generation, dump=dump)
                dumping = time.monotonic() - start
                theirs = jax.seconds(name)
                if number:
                    for key, value in zip(taken, (wall, made.seconds, dumping, theirs), strict=True):
                        taken[key].append(value)
            median = {key: statistics.median(values) for key, values in taken.items()}
            overhead = statistics.median(a - b for a, b in zip(taken["assay"], taken["libtpu"], strict=True))
            rows.append({"program": name, **median, "overhead": overhead})
        jax.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--toolchain", default=None)
    parser.add_argument("--generation", default="v5e", choices=tpu_aot.GENERATIONS)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rows = measure(resolve(given.toolchain), given.generation, given.rounds)
    columns = ("assay", "libtpu", "overhead", "dumping", "jax")
    print(f"{'seconds':<10}" + "".join(f"{name:>10}" for name in columns))
    for row in rows:
        print(f"{row['program']:<10}" + "".join(f"{row[name]:>10.3f}" for name in columns))
    good = rows[0]["overhead"] <= 0.1 and rows[-1]["assay"] <= 1.1 * rows[-1]["jax"]
    print("within the bar" if good else "NOT within the bar")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
