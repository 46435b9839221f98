"""All files of a folder, one worker for all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.conformance.case import Outcome, judge
from assay.conformance.exceptions import Entry, Proof, explained, read_entries
from assay.conformance.wider import explained_by_f64
from assay.errors import InputError
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.toolchain import Worker, host

SUFFIX = ".mlir"


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found: an outcome for each file, and the proofs that excuse a file, by its name."""

    folder: Path
    toolchain: str
    outcomes: tuple[Outcome, ...]
    proofs: dict[str, tuple[Proof, ...]]
    seconds: float


def run(
    folder: Path,
    pattern: re.Pattern[str] | None = None,
    step: Callable[[str], None] = lambda _: None,
    entries: Sequence[Entry] | None = None,
) -> Result:
    """Judges every file of `folder` whose name matches. The policy is the loosest of XLA:CPU's, for nobody knows which
    version made the expectations. Raises InputError where there is nothing to judge.
    """
    start = time.monotonic()
    files = list(find(folder, pattern))
    known = read_entries() if entries is None else entries
    step("starting the worker")
    with Worker(host()) as worker:
        versions = worker.describe().versions
        outcomes, proofs = _judged(files, folder, worker, for_target("cpu"), known, step)
    return Result(folder, f"jaxlib {versions['jaxlib']}", tuple(outcomes), proofs, time.monotonic() - start)


def find(folder: Path, pattern: re.Pattern[str] | None) -> Iterator[Path]:
    """The files to judge, in order."""
    if not folder.exists():
        raise InputError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise InputError(f"{folder}: a file; name the folder that it is in, and --filter for its name")
    everything = sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())
    if not everything:
        raise InputError(f"{folder}: no {SUFFIX} file in this folder or below it")
    chosen = [path for path in everything if pattern is None or pattern.search(path.name)]
    if not chosen:
        assert pattern is not None
        raise InputError(f"{folder}: none of its {len(everything)} {SUFFIX} files matches {pattern.pattern!r}")
    yield from chosen


def _judged(
    files: Sequence[Path],
    folder: Path,
    worker: Worker,
    policy: Policy,
    entries: Sequence[Entry],
    step: Callable[[str], None],
) -> tuple[list[Outcome], dict[str, tuple[Proof, ...]]]:
    outcomes: list[Outcome] = []
    proofs: dict[str, tuple[Proof, ...]] = {}
    for number, path in enumerate(files, 1):
        name = str(path.relative_to(folder))
        step(f"file {number} of {len(files)}")
        outcome, found = explained(judge(path, name, worker, policy), entries, policy)
        outcome = explained_by_f64(outcome, policy)
        outcomes.append(outcome)
        if found:
            proofs[name] = found
    return outcomes, proofs
