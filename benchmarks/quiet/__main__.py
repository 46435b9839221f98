"""Checks over two thousand programs of jax.numpy, jax.lax, jax.nn, jax.scipy, jax.random and optax, and counts what is
not `agree`: on a compiler without known bugs in them, every such verdict is a false alarm of assay or a finding.

    python benchmarks/quiet [--seeds 3] [--filter RE] [--jobs 1] [--resume FILE]
    python benchmarks/quiet --target tpu:v5e --through llo [--toolchain SPEC] [--most 500]

As `assay check` by default: inputs drawn from the seed, ordinary values and, where they make most of the output exact,
small integers. One line of JSON for each program and seed goes to FILE (quiet.jsonl) as it is known; with --resume what
FILE has is not done again, so that a run may be killed at any time. Exit code 1 where any verdict is not `agree`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from everything import chosen
from records import expression, read, shuffled
from summary import difference, line, table

from assay.checking.api import Request, check_path
from assay.report.json_form import as_dict
from programs import Entry

CASES = Path(__file__).with_name("cases.py")
BATCH = 64
"""Programs to one worker process, whose start costs about as much as ten of them."""


def main() -> int:
    options = _options()
    skipped: list[str] = []
    entries = chosen(options.filter, tell=skipped.append)
    print("\n".join(skipped), end="\n" * bool(skipped))
    if not entries:
        print(f"no program matches {options.filter!r}")
        return 2
    entries = sorted(entries, key=shuffled)[: options.most]
    known = read(options.resume) if options.resume else []
    output = options.resume or options.output
    done = {(record["title"], record["seed"]) for record in known}
    wanted = {(entry.title, seed) for entry in entries for seed in options.seeds}
    records = [record for record in known if (record["title"], record["seed"]) in wanted]
    seeds = ", ".join(map(str, options.seeds))
    print(f"{len(entries)} programs, seeds {seeds}; {len(done & wanted)} checks are known; writing {output}")
    start = time.monotonic()
    with output.open("a" if options.resume else "w") as file:
        for batch in _run(_batches(entries, options.seeds, done), options):
            for record in batch:
                file.write(json.dumps(record) + "\n")
                if (text := line(record)) is not None:
                    print(text)
            file.flush()
            records += batch
            end = "\r" if sys.stdout.isatty() else "\n"
            print(f"{len(records)} of {len(wanted)}, {time.monotonic() - start:.0f} s", end=end, flush=True)
    print("\n".join((table(records), *skipped)))
    return difference(records)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quiet", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --first-seed on")
    parser.add_argument("--first-seed", type=int, default=0)
    about = "a regular expression that the program's title is to match"
    parser.add_argument("--filter", type=expression, default="", help=about)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, help="how many programs of the list, in mixed order")
    parser.add_argument("--target", default=Request().target)
    parser.add_argument("--through", default=Request().through)
    parser.add_argument("--toolchain")
    parser.add_argument("--output", type=Path, default=Path("quiet.jsonl"))
    parser.add_argument("--resume", type=Path, help="go on with this file")
    options = parser.parse_args()
    options.seeds = range(options.first_seed, options.first_seed + options.seeds)
    return options


Batch = tuple[int, list[str], list[str]]
"""Seed, and titles and dtypes of the programs."""


def _batches(entries: list[Entry], seeds: range, done: set[tuple[str, int]]) -> list[Batch]:
    """What is to be done, programs that need 64-bit types apart from the others. In mixed order, and all seeds side by
    side: what a run has seen by the time it is stopped is a sample of the whole.
    """
    found: list[Batch] = []
    mixed = sorted(entries, key=shuffled)
    for seed in seeds:
        for wide in (False, True):
            rest = [entry for entry in mixed if entry.wide == wide and (entry.title, seed) not in done]
            for start in range(0, len(rest), BATCH):
                part = rest[start : start + BATCH]
                found.append((seed, [entry.title for entry in part], [entry.dtype for entry in part]))
    return sorted(found, key=lambda batch: zlib.crc32(batch[1][0].encode()))


def _run(batches: list[Batch], options: argparse.Namespace) -> Any:
    request = Request(target=options.target, through=options.through, toolchain=options.toolchain)
    if options.jobs == 1:
        for batch in batches:
            yield _check(batch, request)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(_check, batch, request) for batch in batches]):
            yield future.result()


def _check(batch: Batch, request: Request) -> list[dict[str, Any]]:
    """One record for each program of a batch."""
    seed, titles, dtypes = batch
    os.environ["QUIET_TITLES"] = json.dumps(titles)
    start = time.monotonic()
    try:
        cases = as_dict(check_path(str(CASES), dataclasses.replace(request, seed=seed)))["cases"]
    except Exception as error:  # assay's own fault, which is counted and must not end the run
        why = f"{type(error).__name__}: {error}"
        cases = [{"name": f"{CASES.name}: {title}", "verdict": "unverified", "why": why} for title in titles]
    wall = (time.monotonic() - start) / len(titles)
    found = []
    for title, dtype in zip(titles, dtypes, strict=True):
        mine = [case for case in cases if case["name"] == f"{CASES.name}: {title}"]
        found.append({"title": title, "dtype": dtype, "seed": seed, "wall": round(wall, 3), "cases": mine})
    return found


if __name__ == "__main__":
    sys.exit(main())
