"""`assay passes` over the programs of benchmarks/quiet: which pass of the newest compilers is wrong.

    python benchmarks/quiet/hunt.py --target tpu:v5e [--toolchain SPEC] [--programs 500] [--jobs 1] [--resume FILE]

Every snapshot of every compilation is evaluated (`--all`). A line for each verdict other than `agree`, and at the end
how many programs and snapshots could be judged, and for what reasons others could not. A program whose verdict is
`mismatch` is a wrong pass or a false alarm of assay; which one is for a person to find out. Exit status 1 where there
is one.
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
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from everything import chosen
from records import expression, read, shuffled

from assay.checking.api import Request
from assay.isolate.api import Options, passes
from assay.report.passes import to_json
from programs import Entry

MISSING = {"verdict": "invalid", "why": "the toolchain lacks a package that the program needs", "looks": []}
CASES = Path(__file__).with_name("cases.py")
BATCH = 16
"""Programs to one worker process."""


def main() -> int:
    options = parsed()
    entries = sorted(chosen(options.filter), key=shuffled)[: options.programs]
    records = read(options.output) if options.resume else []
    done = {record["title"] for record in records}
    start, seen = time.monotonic(), 0
    with options.output.open("a" if options.resume else "w") as file:
        for batch in run(batches([entry for entry in entries if entry.title not in done]), options):
            for record in batch:
                file.write(json.dumps(record) + "\n")
                if (text := line(record)) is not None:
                    print(text)
            file.flush()
            records += batch
            seen += len(batch)
            print(f"{len(records)} of {len(entries)}, {time.monotonic() - start:.0f} s", flush=True)
    print("\n".join(summary(records)))
    return int(any(record["case"]["verdict"] == "mismatch" for record in records))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hunt", description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--toolchain", help="versions to look at; the jax beside assay if not given")
    parser.add_argument("--programs", type=int, default=500, help="how many, picked at random but always the same")
    parser.add_argument(
        "--filter", type=expression, default="", help="a regular expression that the program's title is to match"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("hunt.jsonl"))
    parser.add_argument("--resume", type=Path, help="go on with this file")
    options = parser.parse_args()
    options.output = options.resume or options.output
    return options


def batches(entries: list[Entry]) -> list[list[str]]:
    """Titles, those of programs that need 64-bit types apart from the others."""
    sorts = [[entry.title for entry in entries if entry.wide == wide] for wide in (False, True)]
    return [titles[at : at + BATCH] for titles in sorts for at in range(0, len(titles), BATCH)]


def run(work: list[list[str]], options: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    request = Request(target=options.target, toolchain=options.toolchain, seed=options.seed)
    if options.jobs == 1:
        yield from (looked_at(titles, request) for titles in work)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(looked_at, titles, request) for titles in work]):
            yield future.result()


def looked_at(titles: list[str], request: Request) -> list[dict[str, Any]]:
    """One record for each title: {title, seconds, case}, the case as in the report's JSON."""
    os.environ["QUIET_TITLES"] = json.dumps(titles)
    start = time.monotonic()
    report = passes(str(CASES), request, Options(walk_all=True))
    cases = {case["name"].removeprefix("cases.py: "): case for case in json.loads(to_json(report))["cases"]}
    seconds = round((time.monotonic() - start) / len(titles), 3)
    return [{"title": title, "seconds": seconds, "case": cases.get(title, MISSING)} for title in titles]


def line(record: dict[str, Any]) -> str | None:
    case = record["case"]
    if case["verdict"] == "agree":
        return None
    culprit = case.get("culprit")
    what = f"{culprit['pipeline']} / {culprit['pass']}" if culprit else case["why"]
    return f"{case['verdict']}  {record['title']}: {what}"


def summary(records: list[dict[str, Any]]) -> list[str]:
    verdicts = Counter(record["case"]["verdict"] for record in records)
    states = Counter(look["state"] for record in records for look in record["case"]["looks"])
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    total = sum(states.values())
    share = 1 - states["unverified"] / total if total else 0.0
    reasons = Counter(
        re.sub(r"\d+", "N", record["case"]["why"]) for record in records if record["case"]["verdict"] == "unverified"
    )
    return [
        f"{len(records)} programs: {told}",
        f"{total} snapshots, {share:.2%} evaluated; {sum(record['seconds'] for record in records):.0f} s",
        *(f"  unverified, {count}: {reason[:200]}" for reason, count in reasons.most_common(20)),
    ]


if __name__ == "__main__":
    sys.exit(main())
