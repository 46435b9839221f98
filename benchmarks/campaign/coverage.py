"""Which passes of XLA change a module: generated programs beside a suite's.

    python benchmarks/campaign/coverage.py [--suite FOLDER] [--sample 300] [--programs 320] [--alone 64]
    python benchmarks/campaign/coverage.py --target tpu:v5e --toolchain jax==0.12.0.1,libtpu==0.0.52 ...

A pass counts where XLA wrote a snapshot after it, which it does where the pass says that it changed something.
Generated programs are those of a campaign at default settings: --programs in batches, as `assay fuzz` compiles them,
and the first --alone of them once more, each by itself; which of the two reached a pass is told.

FOLDER holds StableHLO text files as those of openxla/stablehlo, stablehlo/testdata, most of which come from the tests
of JAX's primitives: `@main` calls `@inputs`, whose results are made parameters here, as they were in the test, and
hands what it computes to a check, which is left out. A sample of the files is drawn, and each is compiled by itself.
The lines of --out, one a compilation, are written as they come; a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from assay.campaign.batch import NotLowered, lower
from assay.campaign.reach import passes
from assay.campaign.run import request_of
from assay.campaign.settings import Members, Settings, is_wide
from assay.checking import api
from assay.errors import AssayError
from assay.journal import Journal
from assay.targets import cpu, tpu_aot
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, UserFileError, Worker, WorkerDied

BATCHES, ALONE, SUITE = "batch", "alone", "suite"


@dataclass(slots=True)
class Seen:
    """reached: by where, pass -> the first that reached it. counts: of what was compiled; refused: of what was not."""

    reached: dict[str, dict[str, str]] = field(default_factory=dict)
    done: set[tuple[str, str]] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)

    def add(self, line: dict[str, object]) -> None:
        where, what = str(line["where"]), str(line["what"])
        self.done.add((where, what))
        found = line["passes"]
        if found is None:
            self.refused[where] = self.refused.get(where, 0) + 1
            return
        assert isinstance(found, list)
        for name in found:
            self.reached.setdefault(where, {}).setdefault(name, what)


def changing(payload: bytes, worker: Worker, target: str) -> list[str] | None:
    """The passes that changed it; None where it does not compile."""
    generation = api.generation_of(target)
    with scratch() as folder:
        try:
            if generation is not None:
                tpu_aot.compile(worker, payload, "stablehlo", generation, dump=folder)
            else:
                worker.release(cpu.compile(worker, payload, "stablehlo", dump=folder))
        except (RequestRefused, WorkerDied, AssayError):
            return None
        return sorted(passes(folder))


def generated(settings: Settings, worker: Worker, count: int, size: int) -> Iterator[tuple[str, bytes | None]]:
    """`count` programs, so many in a compilation."""
    members = Members(settings)
    with tempfile.TemporaryDirectory(prefix="assay-coverage-") as folder:
        for first in range(0, count, size):
            some = [members.member(number) for number in range(first, first + size)]
            try:
                wide = is_wide(first // settings.batch)
                yield f"{settings.seed}/{first}", lower(some, wide, worker, Path(folder), settings.target).payload
            except (NotLowered, UserFileError, RequestRefused, WorkerDied):
                yield f"{settings.seed}/{first}", None


def of_suite(path: Path) -> bytes | None:
    """The program of a file with its inputs as parameters; None where it has another form."""
    text = path.read_text()
    call = re.search(r"call @inputs\(\) : \(\) -> (.*)", text)
    body = re.search(r"func\.func private @inputs\(\) -> .*?\n  \}\n", text, re.DOTALL)
    if call is None or body is None:
        return None
    types = _types(call[1].strip())
    given = ", ".join(f"%given{n}: {type_}" for n, type_ in enumerate(types))
    names = ", ".join(f"%given{n}" for n in range(len(types)))
    result = f"({', '.join(types)})"
    inputs = f"func.func private @inputs({given}) -> {result} {{\n    return {names} : {', '.join(types)}\n  }}\n"
    text = text.replace(body[0], inputs)
    text = text.replace(call[0], f"call @inputs({names}) : {result} -> {call[1].strip()}")
    text = text.replace("func.func public @main()", f"func.func public @main({given})")
    return re.sub(r"stablehlo\.custom_call @check\..*?-> \(\)", "", text, flags=re.DOTALL).encode()


def _types(text: str) -> list[str]:
    """`(tensor<2xcomplex<f32>>, tensor<i32>)` -> its parts; no comma stands inside of one."""
    return [part.strip() for part in text.removeprefix("(").removesuffix(")").split(", ")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--toolchain")
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--sample", type=int, default=300, help="files of the suite; 0 for all")
    parser.add_argument("--programs", type=int, default=320)
    parser.add_argument("--alone", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("coverage.jsonl"))
    options = parser.parse_args()
    settings = Settings(seed=options.seed, target=options.target, toolchain=options.toolchain)
    files = sorted(options.suite.glob("**/*.mlir")) if options.suite else []
    if options.sample and len(files) > options.sample:
        files = sorted(random.Random(options.seed).sample(files, options.sample))
    with api.open_worker(request_of(settings), lambda _: None) as (worker, versions):
        question = f"passes that change a module, {options.target}, {api.words(versions)}, seed {options.seed}"
        with Journal(options.out, question, "run of this benchmark") as journal:
            seen = Seen()
            for line in journal.found:
                seen.add(line)
            journal.begin(journal.found)
            start = time.monotonic()
            for where, what, payload in _work(options, settings, worker, files):
                if (where, what) in seen.done:
                    continue
                found = None if payload is None else changing(payload, worker, options.target)
                line = {"where": where, "what": what, "passes": found}
                journal.write(line)
                seen.add(line)
                if len(seen.done) % 20 == 0:
                    print(
                        f"{len(seen.done)} compilations, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True
                    )
    print(question)
    return summary(seen, options.programs, options.alone, len(files))


def _work(
    options: argparse.Namespace, settings: Settings, worker: Worker, files: list[Path]
) -> Iterator[tuple[str, str, bytes | None]]:
    for what, payload in generated(settings, worker, options.programs, settings.batch):
        yield BATCHES, what, payload
    for what, payload in generated(settings, worker, options.alone, 1):
        yield ALONE, what, payload
    for path in files:
        yield SUITE, path.name, of_suite(path)


def summary(seen: Seen, programs: int, alone: int, files: int) -> int:
    batches, single, suite = (seen.reached.get(where, {}) for where in (BATCHES, ALONE, SUITE))
    fuzz = {**single, **batches}
    print(f"{programs} generated programs in batches: {len(batches)} passes changed something")
    print(f"{alone} of them alone: {len(single)}, {len(single.keys() - batches.keys())} of which no batch reached")
    print(f"{files} programs of the suite: {len(suite)}; not compiled: {seen.refused or 'none'}")
    print(f"both: {len(fuzz.keys() & suite.keys())}; in all {len(fuzz.keys() | suite.keys())}")
    for title, mine, other in (("generated programs", fuzz, suite), ("the suite", suite, fuzz)):
        only = sorted(mine.keys() - other.keys())
        print(f"by {title} alone: {len(only)}")
        for name in only:
            print(f"    {name} (first by {mine[name]})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
