"""Wrong computations planted into fusions of optimized modules: does `assay summarize` name the fusion first?

    python benchmarks/isolation/first.py PROGRAM.hlo ... [--trials 60] [--out first.jsonl]

Programs: HLO text before optimization, or optimized. The compiler that is watched makes the fault in its last pass
(wrong_pass.py). With nothing planted no tensor may diverge. A fault is `first` where the first tensor that diverges is
of the fusion that it is in, or of one with the same computation; `elsewhere` where it is another's; `inside` where some
summary moved and none diverges, all elements being ones that rounding allows; `equivalent` where no summary moved.
Exit status 1 where an honest program diverges or a fault is told elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from trials import HERE, draw, places

from assay.checking import api
from assay.hlo.attributes import called
from assay.hlo.fingerprint import computation_fingerprint
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.isolate.graph.cut import cut
from assay.isolate.graph.diverge import Watched
from assay.isolate.graph.tapped import AsIs
from assay.isolate.graph.watch import OnCpu
from assay.report.summary import Row, State, first_of
from assay.targets import cpu
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, Worker, WorkerDied

NOTHING = {"computation": "", "kind": "", "instruction": ""}


def optimized(path: Path, request: api.Request) -> tuple[Module, list[np.ndarray]]:
    with api.open_worker(request, lambda _: None) as (worker, _):
        (program,) = api.read_programs(str(path), request, worker, scheduled=True)
        assert program.module is not None
        _, arguments = next(api.inputs_for(program, request))
        if program.module.attributes.get("is_scheduled") == "true":
            return program.module, arguments
        return parse_module(cpu.compile(worker, program.payload, program.kind).hlo), arguments


def watched(module: Module, arguments: list[np.ndarray], settings, worker: Worker, right: Watched | None) -> list[Row]:
    target = OnCpu(module)
    run = Watched(module, arguments, settings, target.has, 3)
    if right is None:
        run.evaluate()
    else:
        run.drift = right.drift
    with closing(AsIs(worker)) as on:
        target.run(on, run)
    return run.told()


def trial(options, request, versions, path: Path, rng: np.random.Generator, count: int) -> list[dict]:
    module, arguments = optimized(path, request)
    settings = api.settings_for(request, versions)
    fusions = [(piece.computation, piece.name) for piece in cut(module).pieces if piece.opcode == "fusion"]
    found, used, lines = places(module, fusions), {}, []
    with scratch() as folder:
        told = folder / "planted.json"
        told.write_text(json.dumps(NOTHING))
        os.environ["ASSAY_PLANTED"] = str(told)
        with api.open_worker(replace(request, preload=HERE / "wrong_pass.py"), lambda _: None) as (worker, _):
            target = OnCpu(module)
            right = Watched(module, arguments, settings, target.has, 3)
            right.evaluate()
            honest = watched(module, arguments, settings, worker, right)
            kinds = Counter(str(row.state) for row in honest)
            lines.append(
                {"program": path.name, "kind": "", "said": "diverges" if first_of(honest) else "agrees", **kinds}
            )
            for _ in range(count if found else 0):
                place = draw(found, rng, used)
                used[place.kind] = used.get(place.kind, 0) + 1
                same = computation_fingerprint(module, place.computation)
                told.write_text(json.dumps({"computation": same, "kind": place.kind, "instruction": place.instruction}))
                start = time.monotonic()
                line = {
                    "program": path.name,
                    "kind": place.kind,
                    "fusion": place.name,
                    "instruction": place.instruction,
                }
                try:
                    rows = watched(module, arguments, settings, worker, right)
                    line |= said(module, same, honest, rows)
                except (RequestRefused, WorkerDied) as error:
                    line |= {"said": "refused", "why": str(error)[:200]}
                lines.append({**line, "seconds": round(time.monotonic() - start, 1)})
                print(json.dumps(lines[-1]), flush=True)
                with options.out.open("a") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
    return lines


def said(module: Module, same: str, honest: list[Row], rows: list[Row]) -> dict:
    first = first_of(rows)
    if first:
        instruction = module.by_name[first[0].computation].by_name[first[0].name]
        inside = [computation_fingerprint(module, name) for name in called(instruction)]
        word = "first" if same in inside and first[0].state is State.WRONG else "elsewhere"
        return {"said": word, "told": first[0].name, "state": str(first[0].state), "outside": first[0].outside}
    moved = [a.name for a, b in zip(honest, rows, strict=True) if a.target != b.target]
    return {"said": "inside" if moved else "equivalent", "moved": moved[:3]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("first.jsonl"))
    options = parser.parse_args()
    request = api.Request()
    with api.open_worker(request, lambda _: None) as (_, versions):
        pass
    lines: list[dict] = []
    each = -(-options.trials // len(options.programs))
    for number, path in enumerate(options.programs):
        rng = np.random.default_rng([options.seed, number])
        lines += trial(options, request, versions, path, rng, each)
    counts = Counter(line["said"] for line in lines if line["kind"])
    honest = [line for line in lines if not line["kind"]]
    print(f"nothing planted: {sum(line['said'] == 'diverges' for line in honest)} of {len(honest)} programs diverge")
    print(f"planted: {sum(counts.values())}: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return int(counts["elsewhere"] > 0 or any(line["said"] == "diverges" for line in honest))


if __name__ == "__main__":
    sys.exit(main())
