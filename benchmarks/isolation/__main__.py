"""Wrong computations planted into fusions of optimized modules: is each found, and ranked first?

    python benchmarks/isolation PROGRAM.hlo ... [--target cpu] [--trials 100] [--out isolation.jsonl]
    python benchmarks/isolation PROGRAM.hlo ... --target tpu:v5e --toolchain jax==0.12.0.1,libtpu==0.0.52

Programs: HLO text before optimization. Each is compiled and all its pieces are judged with nothing planted: a mismatch
there is a false alarm. Then faults, of each kind alike, in random fusions. On the CPU a pass, the last in XLA:CPU's own
pipeline, makes them (wrong_pass.py); on the TPU a wrong module is compiled, and its kernels are judged by the right
one. The rows of the other pieces, which a fault leaves as they are, are those of the honest run. A fault that is not
found either gives the right numbers on the inputs tried (`equivalent`), or numbers that rounding allows the right
program to give there (`inside`), or it is missed; one that the compiler does not take (`refused`) is no trial. Rows go
to --out as they come; a run that was stopped goes on from there. Exit status 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from trials import TRIES, Place, draw, on_cpu, on_tpu, places, unseen

from assay.checking import api
from assay.checking.bounds import Settings
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.isolate.graph import in_place
from assay.isolate.graph import on_cpu as graph_on_cpu
from assay.isolate.graph.cascade import ANEW, APART
from assay.isolate.graph.crew import rows
from assay.isolate.graph.handed import Handed
from assay.isolate.graph.in_place import judge_kernels, of_pieces
from assay.isolate.graph.kernels import kernels
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.rank import severity
from assay.isolate.graph.run import task_of
from assay.isolate.graph.tasks import Setup
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Program
from assay.report.isolation import PieceResult, as_dict, candidates, from_dict
from assay.toolchain import RequestRefused, Worker, WorkerDied


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.request = of_pieces(api.Request(target=options.target, toolchain=options.toolchain))
        lines = options.out.read_text().splitlines() if options.out.exists() else []
        self.rows: list[dict[str, Any]] = [row for row in map(json.loads, lines) if row["target"] == options.target]

        self.refused: Counter[str] = Counter()

    def keep(self, row: dict[str, Any]) -> None:
        row = {"target": self.options.target, **row}
        self.rows.append(row)
        with self.options.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        said = row.get("said") or f"{row['counts']} in {row['seconds']:.0f} s"
        print(f"{row['program']}: {row.get('kind', 'nothing planted')}: {said}", flush=True)

    def honest(self, name: str) -> list[PieceResult] | None:
        for row in self.rows:
            if row["program"] == name and "honest" in row:
                return [from_dict(one) for one in row["honest"]]
        return None

    def program(self, path: Path, trials: int, worker: Worker, versions: dict[str, str | None]) -> None:
        (program,) = api.read_programs(str(path), self.request, worker)
        name = path.name.split(".")[0]
        if self.options.target == "cpu":
            self.on_cpu(name, program, trials, worker, versions)
            return
        with in_place.compiled(program, self.request, worker) as built:
            self.on_tpu(name, program, built, trials, worker, versions)

    def on_cpu(self, name: str, program: Program, trials: int, worker: Worker, versions: dict[str, str | None]) -> None:
        made = graph_on_cpu.built(worker, program, self.request.options, optimized=False)
        module, distinct = made.module, dedupe(made.cut)
        tasks = {task.key: task for task in map(task_of, distinct)}
        start = time.monotonic()
        known = self.honest(name)
        if known is None:
            known = list(rows(Setup(self.request, versions, code=made.code), tasks.values(), 2))
            self.nothing(name, known, time.monotonic() - start)
        fusions = [(d.piece.computation, d.piece.name) for d in distinct if d.piece.opcode == "fusion"]
        by_name = {task.name: task for task in tasks.values()}
        found = places(module, fusions)
        settings = api.settings_for(self.request, versions)
        for number, rng in self.left(name, trials):
            for _ in range(TRIES):
                place = draw(found, rng, self.used())
                task = by_name[place.name]
                assert task.piece is not None
                row = on_cpu(self.request, versions, task, module, place)
                if not refused(row):
                    break
            self.keep(said(name, number, place, row, known, task.piece.module, settings, self.request.classes))

    def on_tpu(
        self,
        name: str,
        program: Program,
        built: in_place.Built,
        trials: int,
        worker: Worker,
        versions: dict[str, str | None],
    ) -> None:
        settings = api.settings_for(self.request, versions)
        generation = self.options.target.removeprefix("tpu:")
        sets = partial(api.inputs_for, program, self.request)
        handed = Handed(built.module, built.dump, generation, settings.policy, sets)
        start = time.monotonic()
        known = self.honest(name)
        if known is None:
            known = list(judge_kernels(built.module, built.dump, self.request, settings, handed=handed))
            self.nothing(name, known, time.monotonic() - start)
        judged = kernels(built.module, built.dump)
        by_name = {kernel.name: kernel for kernel in judged}
        found = places(built.module, [(k.computation, k.name) for k in judged if k.instruction.opcode == "fusion"])
        for number, rng in self.left(name, trials):
            for _ in range(TRIES):
                place = draw(found, rng, self.used() + self.refused)
                try:
                    (row,) = on_tpu(self.request, settings, worker, built, place, handed, all_=False)
                    break
                except (RequestRefused, WorkerDied, AssayError, ValueError) as error:
                    self.refused[place.kind] += 1
                    print(f"{name}: {place.kind} in {place.name}: not compiled: {str(error)[:160]}", flush=True)
            else:
                continue
            alone = by_name[place.name].alone
            self.keep(said(name, number, place, row, known, alone, settings, in_place.CLASSES))

    def nothing(self, name: str, known: list[PieceResult], seconds: float) -> None:
        counts = dict(Counter(str(row.verdict) for row in known))
        self.keep({"program": name, "honest": [as_dict(r) for r in known], "counts": counts, "seconds": seconds})

    def left(self, name: str, trials: int):
        done = {row["number"] for row in self.rows if row["program"] == name and "number" in row}
        for number in range(trials):
            if number not in done:
                yield number, np.random.default_rng([self.options.seed, number, *name.encode()])

    def used(self) -> Counter[str]:
        return Counter(row["kind"] for row in self.rows if "kind" in row)


def refused(row: PieceResult) -> bool:
    """Whether the compiler takes no such module: then the piece was compiled anew, and is not wrong."""
    anew = not {ANEW, APART}.isdisjoint(row.notes)
    return anew or (row.verdict is Verdict.UNVERIFIED and "does not compile" in row.why)


def said(
    name: str,
    number: int,
    place: Place,
    row: PieceResult,
    known: list[PieceResult],
    alone: Module,
    settings: Settings,
    classes: Sequence[str],
) -> dict[str, Any]:
    """What became of a fault, with its place among all candidates."""
    others = [other for other in candidates(known) if other.key != row.key]
    ranked = sorted([*others, row], key=severity, reverse=True)
    if row.verdict in FINDINGS:
        words = "found, first" if ranked[0] is row else f"found, place {ranked.index(row) + 1}"
    elif refused(row):
        words = "refused"
    else:
        words = unseen(alone, place, settings, classes) or f"MISSED ({row.verdict} {row.why})"
    more = {"piece": place.name, "instruction": place.instruction, "opcode": place.opcode, "class": str(row.klass)}
    return {"program": name, "number": number, "kind": place.kind, "said": words, **more, "seconds": row.seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--toolchain")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("isolation.jsonl"))
    options = parser.parse_args()
    bench = Bench(options)
    with api.open_worker(bench.request, lambda _: None) as (worker, versions):
        for place, path in enumerate(options.programs):
            count = len(range(place, options.trials, len(options.programs)))
            bench.program(path, count, worker, dict(versions))
    return summary(bench.rows)


def summary(all_rows: list[dict[str, Any]]) -> int:
    trials = [row for row in all_rows if "number" in row and row["said"] != "refused"]
    kinds = sorted({row["kind"] for row in trials})
    print(f"\n{'kind':32} trials found first equivalent inside missed")
    total = Counter[str]()
    for kind in kinds:
        mine = [row["said"] for row in trials if row["kind"] == kind]
        counts = [len(mine), *(sum(s.startswith(word) for s in mine) for word in WORDS)]
        total.update(dict(zip(("trials", *WORDS), counts, strict=True)))
        print(f"{kind:32} {counts[0]:6} {counts[1]:5} {counts[2]:5} {counts[3]:10} {counts[4]:6} {counts[5]:6}")
    alarms = Counter[str]()
    pieces = 0
    for row in all_rows:
        alarms.update(row.get("counts", {}))
        pieces += sum(row.get("counts", {}).values())
    columns = [f"{total[w]:{n}}" for w, n in zip(("trials", *WORDS), (6, 5, 5, 10, 6, 6), strict=True)]
    print(f"{'all':32} {' '.join(columns)}")
    print(f"nothing planted: {pieces} pieces: {dict(alarms)}")
    first = total["found, first"] / max(1, total["found"])
    missed = total["MISSED"] + total["inside"]
    print(
        f"{len(kinds)} kinds; ranked first {first:.1%} of those found (bar 98 %); not found, not equivalent: {missed}"
    )
    wrong = sum(count for verdict, count in alarms.items() if Verdict(verdict) in FINDINGS)
    return 1 if missed or first < 0.98 or wrong else 0


WORDS = ("found", "found, first", "equivalent", "inside", "MISSED")


if __name__ == "__main__":
    sys.exit(main())
