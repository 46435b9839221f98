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
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
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
PLANTED_IN = ("f32", "bf16")
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


def planted(program: Program, worker: Worker, settings: Settings) -> dict[str, set[str]]:
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


@dataclass
class Tally:
    """How many were judged, and what each tool missed or called wrong: `dtype name: what`."""

    tools: tuple[str, ...]
    planted: Counter[str] = field(default_factory=Counter)
    honest: Counter[str] = field(default_factory=Counter)
    missed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    alarms: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def plant(self, dtype: str, name: str, worker: Worker, settings: Settings) -> str:
        found = planted(read(FUSIONS[name], DTYPES[dtype], worker), worker, settings)
        self.planted[dtype] += len(found)
        for corruption, finders in found.items():
            for tool in set(self.tools) - finders:
                self.missed[tool].append(f"{dtype} {name}: {corruption}")
        late = [corruption for corruption, finders in found.items() if "assay" not in finders]
        return f"{dtype} {name}: {len(found) - len(late)}/{len(found)} {late or ''}"

    def leave_alone(self, dtype: str, name: str, worker: Worker, settings: Settings) -> str:
        wrong = []
        for kind, way, accusers, words in honest(read(HONEST[name], DTYPES[dtype], worker), worker, settings):
            self.honest[dtype] += 1
            for tool in accusers:
                self.alarms[tool].append(f"{dtype} {name}, {kind}, {way}")
            if "assay" in accusers:
                wrong.append(f"FALSE ALARM on {kind}, {way}: {words}")
        return f"{dtype} {name}, honest: {'; '.join(wrong) or 'no alarm'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fusions", default="", help="only those whose name this regular expression finds")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--part", nargs="+", choices=("planted", "honest"), default=["planted", "honest"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=150)
    tally = Tally(("assay", *PEERS, UPSTREAM_INPUTS))
    with Worker(host()) as worker:
        settings = Settings(for_target("cpu", worker.describe().versions.get("jaxlib")))
        work = [(tally.plant, d, n) for d in PLANTED_IN for n in FUSIONS if "planted" in options.part]
        work += [(tally.leave_alone, d, n) for d in DTYPES for n in HONEST if "honest" in options.part]
        for do, dtype, name in work:
            if dtype in options.dtypes and re.search(options.fusions, name):
                start = time.monotonic()
                told = do(dtype, name, worker, settings)
                console.print(f"{told} ({time.monotonic() - start:.1f} s)", highlight=False)
    return report(console, tally, options.json)


def report(console: Console, tally: Tally, path: Path | None) -> int:
    table = Table(title=f"{tally.planted.total()} planted errors, {tally.honest.total()} honest results")
    table.add_column("policy")
    for dtype in tally.planted:
        table.add_column(f"found, {dtype}", justify="right")
    for dtype in tally.honest:
        table.add_column(f"false alarms, {dtype}", justify="right")
    for tool in tally.tools:
        found = [n - sum(m.startswith(f"{d} ") for m in tally.missed[tool]) for d, n in tally.planted.items()]
        shares = [f"{f}/{n} ({f / n:.1%})" for f, n in zip(found, tally.planted.values(), strict=True)]
        wrong = [f"{sum(a.startswith(f'{d} ') for a in tally.alarms[tool])}/{n}" for d, n in tally.honest.items()]
        table.add_row(tool, *shares, *(["-"] * len(wrong) if tool == UPSTREAM_INPUTS else wrong))
    console.print(table)
    if path is not None:
        path.write_text(json.dumps(vars(tally)))
    for line in tally.missed["assay"]:
        console.print(f"missed: {line}", highlight=False)
    enough = len(tally.missed["assay"]) <= (1 - FOUND_BAR) * tally.planted.total()
    return 0 if enough and not tally.alarms["assay"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
