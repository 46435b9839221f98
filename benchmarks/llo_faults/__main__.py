"""Faults planted in the text of one LLO pass's output: does `assay llo diff` name that pass?

    python benchmarks/llo_faults [--target tpu:v5e] [--toolchain jax==V,libtpu==W] [--trials 100] [--seed 0]
                                 [--dumps FOLDER] [--out rows.jsonl]

The programs of programs.py are compiled with every LLO pass dumped (or read from --dumps, where an earlier run left
them). First their stages are compared as they are: any difference is a false alarm. Then, trial by trial, one fault of
a kind (faults.py) is planted in the text of one stage of one kernel, kernel, stage and place by lot, and the kernel's
stages are compared again: the first that differs must be that one. Where none differs, both texts are run instruction
by instruction: a fault whose instruction never runs, makes the same values, or writes what nothing reads, is no fault.
So is one that changes the last bit of an f32 that is rounded to bf16 afterwards: it is counted as hidden.
What is left is tried once more on 200 sets of inputs, and counted apart: a wrong row of a maximum shows on few.
Exit status 1 where a fault is missed or put down to another stage, or where honest stages differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from faults import KINDS
from subject import Kernel
from trials import Trial, draw, trial

from assay.checking.api import Request
from assay.emit import Order, emit
from assay.errors import AssayError
from assay.kernels import SETS, Dumped, generation, handed, opened
from assay.llo.diff import Given, diff_kernel
from assay.llo.kernel import LIMIT
from assay.llo.operands import operands_of

PROGRAMS = Path(__file__).with_name("programs.py")
MORE = 200
"""Sets of inputs for a fault that the usual ones do not show."""
MOST_RECORDS = 300_000
"""A kernel that executes more is left out of the trials. Records, not seconds: the same seed draws the same faults."""


def main() -> int:
    options = _options()
    request = Request(target=options.target, toolchain=options.toolchain, timeout_s=1800.0)
    folder = options.dumps
    if folder is not None and not any(folder.glob("*/llo")):
        emit(str(PROGRAMS), request, Order(("llo",), folder, "."), _told)
    kernels: list[Kernel] = []
    alarms: list[str] = []
    counts: Counter[str] = Counter()
    with opened(str(folder or PROGRAMS), request, step=_told) as (versions, dumps):
        for dumped in sorted(dumps, key=lambda dumped: dumped.name):
            _honest(dumped, request, kernels, alarms, counts)
        programs = len({kernel.program for kernel in kernels})
        print(
            f"{options.target} {versions}: honest chains of {len(dumps)} programs: {dict(counts)}, alarms {len(alarms)}"
        )
        for alarm in alarms:
            print(f"  false alarm: {alarm}")
        rows = _trials(kernels, request, options)
    _show(rows, programs)
    bad = [row for row in rows if row.outcome in ("missed", "wrong stage")]
    return 1 if bad or alarms else 0


def _honest(dumped: Dumped, request: Request, kernels: list[Kernel], alarms: list[str], counts: Counter[str]) -> None:
    """Compares the stages as they are; kernels that agree are for the trials."""
    if dumped.problem:
        print(f"{dumped.name}: {dumped.problem}")
        return
    module = dumped.module()
    found, missing = handed(dumped, module, request, set(dumped.dump.kernels), LIMIT, None, _told, SETS)
    for name, files in sorted(dumped.dump.kernels.items()):
        if name not in found.found:
            counts["unverified"] += 1
            print(f"{dumped.name} / {name}: {missing.get(name) or missing.get('')}")
            continue
        operands = operands_of(module, found.instructions[name])
        honest = diff_kernel(files, operands, found.found[name], generation(request), step=_told)
        counts[honest.verdict] += 1
        if honest.difference is not None:
            alarms.append(f"{dumped.name} / {name}: {honest.difference.stage}")
        elif honest.verdict == "unverified":
            print(f"{dumped.name} / {name}: {honest.why}")
        ran = {s.number for s in honest.stages if s.state in ("agrees", "repeat")}
        records = max((s.steps for s in honest.stages), default=0)
        stages = tuple(stage for stage in files.stages if stage.number in ran)
        if honest.verdict == "agree" and honest.compared and stages and records <= MOST_RECORDS:
            kernels.append(Kernel(dumped.name, dumped, files, operands, found.found[name], generation(request), stages))


def _more(kernel: Kernel, request: Request) -> list[Given]:
    """What the program hands to the kernel on MORE sets of inputs."""
    dumped, name = kernel.dumped, kernel.files.name
    return handed(dumped, dumped.module(), request, {name}, LIMIT, None, _told, MORE)[0].found[name]


def _trials(kernels: Sequence[Kernel], request: Request, options: argparse.Namespace) -> list[Trial]:
    rng = np.random.default_rng(options.seed)
    rows: list[Trial] = []
    used: Counter[str] = Counter()
    of_program: Counter[str] = Counter()
    without: set[str] = set()
    start = time.monotonic()
    while len([row for row in rows if row.outcome in COUNTED]) < options.trials and len(without) < len(KINDS):
        kind = min((k for k in KINDS if k not in without), key=lambda k: used[k])
        fewest = sorted(sorted({k.program for k in kernels}), key=lambda p: (of_program[p], rng.random()))
        drawn = None
        for program in fewest:
            drawn = draw([k for k in kernels if k.program == program], kind, rng)
            if drawn is not None:
                break
        if drawn is None:
            without.add(kind)
            continue
        row = trial(*drawn)
        if row.outcome == "missed":  # on the inputs that `llo diff` draws: again on those of `llo diff --sets`
            kernel, stage, fault = drawn
            row = trial(replace(kernel, inputs=_more(kernel, request)), stage, fault)
        rows.append(row)
        of_program[row.program] += 1
        used[kind] += row.outcome in COUNTED
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        if row.outcome != "found":
            print(
                f"{row.outcome}: {row.program} / {row.kernel}, {row.stage}:{row.line}, {row.kind}: {row.said}",
                flush=True,
            )
    print(f"{len(rows)} trials in {time.monotonic() - start:.0f} s")
    return rows


COUNTED = ("found", "missed", "wrong stage")


def _show(rows: Sequence[Trial], programs: int) -> None:
    outcomes = ("found", "wrong stage", "missed", "hidden", "equivalent", "invalid")
    print(f"{'kind':30}" + "".join(f"{name:>13}" for name in outcomes))
    for kind in (*KINDS, ""):
        counts = Counter(row.outcome for row in rows if not kind or row.kind == kind)
        print(f"{kind or 'all':30}" + "".join(f"{counts[name]:13}" for name in outcomes))
    tried = [row for row in rows if row.outcome in COUNTED]
    found = sum(row.outcome == "found" for row in tried)
    stages = len({row.stage.split(" ", 1)[1] for row in tried})
    share = found / len(tried) if tried else 0.0
    print(
        f"{found} of {len(tried)} faults put down to their stage ({share:.1%}), in {stages} different passes, "
        f"{len({(row.program, row.kernel) for row in tried})} kernels, {len({row.program for row in tried})} of "
        f"{programs} programs"
    )
    late = sum(row.outcome == "found" and row.sets == MORE for row in rows)
    if late:
        print(f"  {late} of them on {MORE} sets of inputs alone")
    for why, count in Counter(row.said for row in rows if row.outcome in ("equivalent", "hidden")).items():
        print(f"  left out: {count} because {why}")


def _told(text: str) -> None:
    if os.environ.get("VERBOSE"):
        print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--target", default="tpu:v5e")
    parser.add_argument("--toolchain")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dumps", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssayError as error:
        sys.exit(f"llo_faults: {error}")
