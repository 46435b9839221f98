"""Wrong rewrites planted at random passes: is each found, and put down to the right interval?

    python benchmarks/passes --target cpu --trials 200
    python benchmarks/passes --inside --trials 200          # by a pass inside XLA:CPU's own pipeline: see inside.py
    python benchmarks/passes --target tpu:v5e --toolchain jax==0.12.0.1,libtpu==0.0.52 --trials 200 DIR/*.before.hlo

Programs: those named (HLO files), the example's train step, and programs made at random until there are enough trials.
Rows go to --out as they come; a run that was stopped goes on from there, and one file may hold all three settings.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from carry import plant
from faults import FAULTS
from generated import program as generated
from inside import compiled
from summary import show
from trials import Case, attributed, trial, trial_inside

from assay.checking import api
from assay.errors import AssayError
from assay.hlo.parse import parse_module
from assay.isolate.api import more_inputs
from assay.isolate.dumps import dump
from assay.isolate.judgement import Inputs
from assay.oracle.verdict import Verdict
from assay.programs.load import load
from assay.programs.program import Program
from assay.toolchain import Worker, WorkerDied, host

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_step.py"
PER_PROGRAM = 8
SLOW_S = 20.0  # a chain that takes longer is tried PER_PROGRAM / 4 times


def main() -> int:
    options = _options()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    mine = [row for row in rows if row["setting"] == options.setting]
    done = {row["program"] for row in mine}
    if options.inside:
        for row in _inside(options, mine, done):
            _keep(options, rows, row)
        print(show(rows))
        return 0
    request = api.Request(target=options.target, toolchain=options.toolchain)
    with api.open_worker(request, lambda _: None) as (worker, versions):
        for program in _programs(options, worker):
            used = Counter(row["kind"] for row in mine if "kind" in row)
            if used.total() >= options.trials:
                break
            if program.name in done:
                continue
            for row in _tried(program, request, versions, worker, options, used):
                mine.append(row)
                _keep(options, rows, row)
    print(show(rows))
    return 0


def _keep(options: argparse.Namespace, rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    row["setting"] = options.setting
    rows.append(row)
    with options.out.open("a") as out:
        out.write(json.dumps(row) + "\n")
    print(_line(row), file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/passes")
    parser.add_argument("programs", nargs="*", help="HLO files besides the generated programs")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--toolchain")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--no-example", action="store_true", help="leave the example's train step out: it takes minutes"
    )
    parser.add_argument("--inside", action="store_true", help="plant inside XLA:CPU's pipeline")
    parser.add_argument("--out", type=Path, default=Path("passes.jsonl"), help="rows as they come; resumed if there")
    options = parser.parse_args()
    where = "inside XLA:CPU's pipeline" if options.inside else options.target
    here = api.words(dict(host().versions))
    by = here if options.inside or options.toolchain is None else options.toolchain
    options.setting = f"{where}, {by}, seed {options.seed}"
    return options


def _inside(options: argparse.Namespace, mine: list[dict[str, Any]], done: set[str]) -> Iterator[dict[str, Any]]:
    """Generated programs alone: they are compiled in a process that has the fault among its passes."""
    request = api.Request()
    for seed in range(options.seed * 100_000, options.seed * 100_000 + 10_000):
        used = Counter(row["kind"] for row in mine)
        if used.total() >= options.trials:
            return
        if f"generated_{seed}" in done:
            continue
        rng = np.random.default_rng(seed)
        kinds = sorted(FAULTS, key=lambda kind: (used[kind], rng.random()))[:PER_PROGRAM]
        with tempfile.TemporaryDirectory(prefix="assay-planted-") as folder:
            for dumped, planted in compiled(Path(folder), seed, kinds):
                mine.append(trial_inside(f"generated_{seed}", dumped, planted, request))
                yield mine[-1]


def _programs(options: argparse.Namespace, worker: Worker) -> Iterator[Program]:
    """Real ones and generated ones by turns."""
    real = iter([*options.programs, *([] if options.no_example else [f"{EXAMPLE}:step"])])
    for seed in range(options.seed * 100_000, options.seed * 100_000 + 10_000):
        if (path := next(real, None)) is not None:
            yield from load(path, worker, platform=api.platform_of(options.target))
        function, arguments = generated(seed)
        yield api.lower(function, arguments, api.platform_of(options.target))(worker)


def _tried(
    program: Program,
    request: api.Request,
    versions: dict[str, str | None],
    worker: Worker,
    options: argparse.Namespace,
    used: Counter[str],
) -> Iterator[dict[str, Any]]:
    begun = time.monotonic()
    try:
        case = _case(program, request, versions, worker)
        honest = attributed(case, walk_all=True)
    except (AssayError, WorkerDied) as error:
        yield {"program": program.name, "refused": str(error)}
        return
    looks = Counter(str(look.state) for look in honest.looks)
    seconds = time.monotonic() - begun
    why = sorted({look.why for look in honest.looks if look.why})
    yield {
        "program": program.name, "honest": str(honest.verdict), "snapshots": len(honest.looks), **looks,
        "why": why[:5], "seconds": round(seconds, 1),
        "culprit": None if honest.culprit is None else honest.culprit.name,
    }  # fmt: skip
    if honest.verdict not in (Verdict.AGREE, Verdict.UNVERIFIED):
        return
    rng = np.random.default_rng([options.seed, sum(program.name.encode())])
    wanted, count = PER_PROGRAM if seconds < SLOW_S else PER_PROGRAM // 4, 0
    for kind in sorted(FAULTS, key=lambda kind: (used[kind], rng.random())):
        if count == wanted:
            return
        planted = plant(case.modules, kind, rng)
        if planted is not None:
            count += 1
            yield trial(case, planted)


def _case(program: Program, request: api.Request, versions: dict[str, str | None], worker: Worker) -> Case:
    assert program.module is not None
    settings = api.settings_for(request, versions)
    inputs = tuple(Inputs(words, tuple(arguments)) for words, arguments in api.inputs_for(program, request))
    with tempfile.TemporaryDirectory(prefix="assay-planted-") as folder:
        found = dump(worker, program, request.target, Path(folder), settings.options)
        texts = {snapshot.index: found.text(snapshot) for snapshot in found.snapshots}
    modules = tuple(parse_module(texts[snapshot.index]) for snapshot in found.snapshots)
    more = more_inputs(program, request)
    return Case(
        program.name, program.module, found.snapshots, lambda s: texts[s.index], modules, inputs, settings, more
    )


def _line(row: dict[str, Any]) -> str:
    if "kind" not in row:
        return (
            f"{row['program']}: {row.get('refused') or row['honest']} {row.get('seconds', '')} s {row.get('why', '')}"
        )
    where = f"{row['at']} of {row['snapshots']}, carried {row['carried']}"
    named = f"[{row['good']}, {row['bad']}] {row['named']}" if "named" in row else row.get("why", row.get("off", ""))
    return f"  {row['kind']} ({row['opcode']}) at {where}: {row['outcome']} {named}  {row['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
