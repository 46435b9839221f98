"""Hundreds of small kernels, compiled for a TPU that is not there, through the simulator: what is run, and is it right?

    python benchmarks/llo_conformance [--target tpu:v5e|tpu:v6e] [--toolchain jax==V,libtpu==W] [--family F ...]
                                      [--jobs N] [--out rows.jsonl] [--keep FOLDER] [--only NAMES] [--redo VERDICT ...]

Every function in the tables here is compiled, and the whole module is run by `assay.llo` at the stages `original` and
`final`, on inputs drawn with a seed. Each stage's results are judged by the reference's bounds of the program before
optimization (see judging.py). A case is simulated at a stage if every kernel of its module ran there; it is right if
what came out lies in the bounds. Rows go to --out, one a case; what is there of the same target, toolchain and inputs
is not run again.

On a v6e gathers and scatters are kept on the TensorCore: SparseCores are not modelled.

Printed by family: cases that libtpu takes, the share simulated at either stage, the share right, and how many are
unsupported, trapped, unwritten (a result depends on memory that nobody wrote), mismatching, failed (our own fault), and
at how many the stages differ in a bit. Exit status 1 where a bar is missed or a mismatch not explained in findings.py.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from cases import Case, all_cases
from findings import EXPLAINED
from judging import SIMULATED, STAGES
from running import of, one

BARS = {
    "elementwise": 0.98, "convert": 0.98, "reduction": 0.98, "matmul": 0.9, "convolution": 0.9, "movement": 0.8,
    "gather": 0.8,
}  # fmt: skip
"""Share simulated at each stage; the other families are told."""


def main() -> int:
    arguments = parsed()
    cases = [c for c in all_cases(arguments.family) if fnmatch.fnmatch(c.name, arguments.only)]
    out = Path(arguments.out)
    rows = {row["name"]: row for row in _read(out) if row["of"] == of(arguments)} if out.exists() else {}
    wanted = set(arguments.redo)
    todo = [c for c in cases if c.name not in rows or wanted & _verdicts(rows[c.name])]
    start = time.monotonic()
    with out.open("a") as file:
        for number, row in enumerate(_run(todo, arguments), 1):
            rows[row["name"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
            bad = {s: row[s] for s in STAGES if s in row and row[s]["verdict"] != "agree"}
            for stage, found in bad.items():
                print(f"{row['name']} {stage}: {found['verdict']}: {found['why'][:300]}", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(todo)}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return report([rows[c.name] for c in cases], arguments)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kernels through the LLO simulator.")
    parser.add_argument("--target", default="tpu:v5e", choices=("tpu:v5e", "tpu:v6e"))
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--family", nargs="*", default=())
    parser.add_argument("--only", default="*", metavar="NAMES", help="with * and ?")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input-class", default="normal")
    parser.add_argument("--out", default="llo_conformance.jsonl")
    parser.add_argument("--keep", default=None, metavar="FOLDER", help="keep the dumps there")
    parser.add_argument("--redo", nargs="*", default=(), metavar="VERDICT", help="run cases with these verdicts again")
    return parser.parse_args()


def _read(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _verdicts(row: dict[str, Any]) -> set[str]:
    return {row["verdict"]} if "verdict" in row else {row[stage]["verdict"] for stage in STAGES}


def _run(cases: list[Case], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if arguments.jobs == 1:
        for case in cases:
            yield one(case.name, arguments)
        return
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(one, case.name, arguments) for case in cases]):
            yield future.result()


COLUMNS = ("cases", "simulated", "final", "right", "final", "unsup", "trap", "miss", "unwr", "wrong", "fail", "other")


def report(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    print(f"\n{arguments.target}, libtpu {', '.join(sorted({str(row['libtpu']) for row in rows}))}")
    print(f"{'family':<13}" + "".join(f"{name:>10}" for name in COLUMNS))
    missed = []
    families = list(dict.fromkeys(row["family"] for row in rows))
    for family in families:
        mine = [row for row in rows if row["family"] == family and "verdict" not in row]
        shares = {}
        for name, verdicts in (("simulated", SIMULATED), ("right", ("agree", "unjudged"))):
            shares[name] = [_share(mine, stage, verdicts) for stage in STAGES]
        counts = [sum(row[s]["verdict"] == v for row in mine for s in STAGES) for v in
                  ("unsupported", "trapped", "missing", "unwritten", "mismatch", "failed")]  # fmt: skip
        other = sum(row["same_bits"] is False for row in mine)
        cells = [f"{len(mine):>10}"]
        cells += [f"{share:>10.1%}" for name in shares for share in shares[name]]
        cells += [f"{count:>10}" for count in (*counts, other)]
        bar = BARS.get(family)
        low = bar is not None and min(shares["simulated"]) < bar
        missed += [family] if low else []
        print(f"{family:<13}" + "".join(cells) + (f"  below {bar:.0%}" if low else ""))
    _list("libtpu does not take", [row for row in rows if row.get("verdict") == "refused"])
    _list("assay cannot read", [row for row in rows if row.get("verdict") == "uncompiled"])
    judged = [row for row in rows if "verdict" not in row]
    opcodes = Counter(row[s]["opcode"] for row in judged for s in STAGES if row[s]["verdict"] == "unsupported")
    for opcode, count in opcodes.most_common():
        print(f"  unsupported {opcode}: {count}")
    _list("unjudged", [row for row in judged if any(row[s]["verdict"] == "unjudged" for s in STAGES)])
    unexplained = []
    for row in judged:
        wrong = [stage for stage in STAGES if row[stage]["verdict"] in ("mismatch", "trapped", "unwritten")]
        if not wrong:
            continue
        if row["name"] in EXPLAINED:
            print(f"{row['name']}: {EXPLAINED[row['name']]}")
        else:
            unexplained.append(row["name"])
    print(f"{len(judged)} kernels, {sum(row[s]['steps'] for row in judged for s in STAGES):,} records")
    print(f"bars missed: {', '.join(missed) or 'none'}; not explained: {', '.join(unexplained) or 'none'}")
    return 1 if missed or unexplained or not judged else 0


def _share(rows: list[dict[str, Any]], stage: str, verdicts: tuple[str, ...]) -> float:
    return sum(row[stage]["verdict"] in verdicts for row in rows) / max(len(rows), 1)


def _list(what: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        print(f"{what}: {', '.join(row['name'] for row in rows)}")


if __name__ == "__main__":
    sys.exit(main())
