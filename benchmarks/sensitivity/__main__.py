"""How much of what is planted is found, and whether honest results are left alone; other tools' policies on the same
arrays beside it.

    python benchmarks/sensitivity [--fusions RE] [--dtypes f32 bf16 f16] [--part planted honest] [--json out.json]

Planted: XLA:CPU's own result of each of 22 fusions, spoilt in 10 ways (corruptions.py), with the inputs that assay
draws by itself. Honest: XLA:CPU's results of 13 kernels, five kinds of inputs, three ways of compiling. Exit code 0
where at least 99 % is found and no honest result is called wrong, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import numpy as np
from corruptions import CORRUPTIONS
from kernels import FUSIONS, HONEST, Kernel
from peers import PEERS
from rich.console import Console
from rich.table import Table

from assay.checking.api import DEFAULT_CLASSES, lower
from assay.checking.bounds import Bounds, Settings
from assay.checking.judge import mostly_exact
from assay.checking.weigh import Weighed, weigh, weigh_again
from assay.inputs.generate import generate
from assay.programs.program import Program
from assay.reference.policies import for_target
from assay.reference.value import Ball
from assay.targets import cpu
from assay.toolchain import Worker, host

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}
COMPILATIONS = {
    "optimised": {},
    "level 0": {"xla_backend_optimization_level": "0"},
    "fast-math off": {"xla_cpu_enable_fast_math": "false", "xla_cpu_fast_math_honor_nans": "true"},
}
FOUND_BAR = 0.99
UPSTREAM_INPUTS = "hlo_isolation, its own inputs"


def read(kernel: Kernel, dtype: Any, worker: Worker) -> Program:
    function, shapes = kernel
    arguments = [
        jax.ShapeDtypeStruct(shape[1], shape[0]) if callable(shape[0]) else jax.ShapeDtypeStruct(shape, dtype)
        for shape in shapes
    ]
    return lower(function, arguments)(worker)


def uniform(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Array:
    return low + (high - low) * rng.random(shape)


def honest_inputs(program: Program) -> Iterator[tuple[str, list[Array]]]:
    """Five kinds of inputs, the first of them hlo_isolation's own."""
    assert program.module is not None
    drawn = generate(program.module, 0, "normal")
    rng = np.random.default_rng(0)
    kinds = {
        "U(-0.1, 0.2)": lambda a: uniform(rng, a.shape, -0.1, 0.2),
        "N(0, 1)": lambda a: rng.standard_normal(a.shape),
        "N(5, 1)": lambda a: 5 + rng.standard_normal(a.shape),
    }
    for name, make in kinds.items():
        yield name, [a if a.dtype.kind in "iu" else make(a).astype(a.dtype) for a in drawn]
    for name in ("small-integers", "log-uniform"):
        yield name, generate(program.module, 0, name)


def judged(bounds: Bounds, target: list[Array]) -> tuple[bool, Weighed]:
    """Whether assay calls the arrays wrong, by the steps of `assay check`."""
    first = weigh(bounds, target)
    if not first.wrong:
        return False, first
    again = weigh_again(bounds, target, first)
    return again.wrong, again


def expected(bounds: Bounds) -> Array:
    ball = bounds.plain()[0]
    assert isinstance(ball, Ball)
    return ball.mid


def planted(program: Program, dtype: str, worker: Worker, settings: Settings) -> dict[str, set[str]]:
    """For each corruption, by whom it is found: with all the inputs that assay draws by itself."""
    assert program.module is not None
    compiled = cpu.compile(worker, program.payload, program.kind)
    found: dict[str, set[str]] = {name: set() for name in CORRUPTIONS}
    exact = False
    for kind in (*DEFAULT_CLASSES, "U(-0.1, 0.2)"):
        own = kind in DEFAULT_CLASSES
        arguments = generate(program.module, 0, kind) if own else next(honest_inputs(program))[1]
        bounds = Bounds(program.module, arguments, settings)
        if own and kind != DEFAULT_CLASSES[0]:  # as `assay check` does: the first exact class, if there is one
            if exact or not mostly_exact(bounds.plain()):
                continue
            exact = True
        (target,) = cpu.run(worker, compiled, arguments)
        want = expected(bounds).astype(target.dtype).astype(np.float64)
        for name, spoil in CORRUPTIONS.items():
            spoilt = np.ascontiguousarray(spoil(target))
            if np.array_equal(spoilt, target, equal_nan=True):
                continue
            if not own:
                if PEERS["hlo_isolation"](spoilt.astype(np.float64), want):
                    found[name].add(UPSTREAM_INPUTS)
                continue
            if judged(bounds, [spoilt])[0]:
                found[name].add("assay")
            found[name].update(peer for peer, says in PEERS.items() if says(spoilt.astype(np.float64), want))
    worker.release(compiled)
    return found


def honest(program: Program, worker: Worker, settings: Settings) -> Iterator[tuple[str, str, set[str], str]]:
    """Kind of inputs, way of compiling, who calls the honest result wrong, and how far it is off."""
    assert program.module is not None
    compiled = {name: cpu.compile(worker, program.payload, program.kind, o) for name, o in COMPILATIONS.items()}
    for kind, arguments in honest_inputs(program):
        bounds = Bounds(program.module, arguments, settings)
        for way, executable in compiled.items():
            (target,) = cpu.run(worker, executable, arguments)
            wrong, weighed = judged(bounds, [target])
            want = expected(bounds).astype(target.dtype).astype(np.float64)
            accusers = {peer for peer, says in PEERS.items() if says(target.astype(np.float64), want)}
            comparison = weighed.comparisons[0]
            undecided = comparison.undecided / comparison.elements
            words = f"worst {comparison.worst_bound:.2f} of the bound, {undecided:.1%} undecided"
            yield kind, way, accusers | ({"assay"} if wrong else set()), words
    for executable in compiled.values():
        worker.release(executable)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fusions", default="", help="only those whose name this regular expression finds")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--part", nargs="+", choices=("planted", "honest"), default=["planted", "honest"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=150)
    tools = ["assay", *PEERS, UPSTREAM_INPUTS]
    missed: dict[str, list[str]] = {tool: [] for tool in tools}
    alarms: dict[str, list[str]] = {tool: [] for tool in tools}
    plants: Counter[str] = Counter()
    honest_runs: Counter[str] = Counter()
    with Worker(host()) as worker:
        settings = Settings(for_target("cpu", worker.describe().versions.get("jaxlib")))
        for dtype in options.dtypes:
            if "planted" in options.part and dtype != "f16":
                for name, kernel in FUSIONS.items():
                    if re.search(options.fusions, name):
                        start = time.monotonic()
                        found = planted(read(kernel, DTYPES[dtype], worker), dtype, worker, settings)
                        plants[dtype] += len(found)
                        for corruption, finders in found.items():
                            for tool in set(tools) - finders:
                                missed[tool].append(f"{dtype} {name}: {corruption}")
                        late = [c for c, finders in found.items() if "assay" not in finders]
                        took = time.monotonic() - start
                        console.print(
                            f"{dtype} {name}: {len(found) - len(late)}/{len(found)} {took:.1f} s {late or ''}"
                        )
            if "honest" in options.part:
                for name, kernel in HONEST.items():
                    if re.search(options.fusions, name):
                        start = time.monotonic()
                        for kind, way, accusers, words in honest(read(kernel, DTYPES[dtype], worker), worker, settings):
                            honest_runs[dtype] += 1
                            for tool in accusers:
                                alarms[tool].append(f"{dtype} {name}, {kind}, {way}")
                            if "assay" in accusers:
                                console.print(f"[red]FALSE ALARM[/] {dtype} {name}, {kind}, {way}: {words}")
                            elif options.fusions:
                                console.print(f"{dtype} {name}, {kind}, {way}: {words}")
                        console.print(f"{dtype} {name}, honest: {time.monotonic() - start:.1f} s")
    return report(console, tools, plants, missed, honest_runs, alarms, options.json)


def report(
    console: Console,
    tools: list[str],
    plants: Counter[str],
    missed: dict[str, list[str]],
    honest_runs: Counter[str],
    alarms: dict[str, list[str]],
    path: Path | None,
) -> int:
    table = Table(title=f"{plants.total()} planted errors, {honest_runs.total()} honest results")
    table.add_column("policy")
    for dtype in plants:
        table.add_column(f"found, {dtype}", justify="right")
    for dtype in honest_runs:
        table.add_column(f"false alarms, {dtype}", justify="right")
    for tool in tools:
        cells = [plants[d] - sum(m.startswith(f"{d} ") for m in missed[tool]) for d in plants]
        shares = [f"{n}/{plants[d]} ({n / plants[d]:.1%})" for n, d in zip(cells, plants, strict=True)]
        wrong = [f"{sum(a.startswith(f'{d} ') for a in alarms[tool])}/{honest_runs[d]}" for d in honest_runs]
        table.add_row(tool, *shares, *(["-"] * len(wrong) if tool == UPSTREAM_INPUTS else wrong))
    console.print(table)
    if path is not None:
        path.write_text(json.dumps({"planted": plants, "missed": missed, "honest": honest_runs, "alarms": alarms}))
    for line in missed["assay"]:
        console.print(f"missed: {line}")
    enough = len(missed["assay"]) <= (1 - FOUND_BAR) * plants.total()
    return 0 if enough and not alarms["assay"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
