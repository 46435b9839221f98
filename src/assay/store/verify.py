"""Judges stored findings again, under another toolchain.

A finding counts as fixed where its reduced reproducer and the program that it was found in both agree there: the
reduced one alone may have lost what set off the bug in another compiler.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

from assay.checking import api
from assay.checking.bounds import Step
from assay.errors import AssayError, ToolchainError
from assay.oracle.verdict import FINDINGS, MismatchClass, Verdict, most_severe
from assay.report.result import CaseResult
from assay.store.api import Store
from assay.store.finding import PAIRS, PROGRAM, Finding, Verification, standing_of
from assay.toolchain import Worker, resolve


def verify(
    store: Store,
    findings: Iterable[Finding],
    toolchain: str,
    base: api.Request,
    step: Step = lambda _: None,
) -> Iterator[Verification]:
    """What each finding is under `toolchain` (as `--toolchain` takes it), recorded as it comes, by target.

    base: limits of a judgement; what a finding has of its own takes its place. Raises ToolchainError where the
    toolchain cannot be had; what goes wrong with a target, or a single finding, leaves it unverified.
    """
    resolve(toolchain, progress=step)
    ordered = sorted(findings, key=_compiler)
    for _, group in groupby(ordered, key=_compiler):
        members = list(group)
        first = members[0]
        request = replace(
            base, target=first.target, toolchain=toolchain, flags=first.flags, through=first.through, inputs=None
        )
        try:
            with api.open_worker(request, step) as (worker, versions):
                while members:
                    judge = partial(_judged, store, members[0], request, worker, versions, step)
                    yield _recorded(store, members[0], toolchain, api.words(versions), judge)
                    members.pop(0)
        except ToolchainError as error:  # it has no such target
            for finding in members:
                yield _recorded(store, finding, toolchain, "", partial(_untold, str(error)))


Judged = tuple[Verdict, MismatchClass | None, str]


def _recorded(store: Store, finding: Finding, toolchain: str, words: str, judge: Callable[[], Judged]) -> Verification:
    start = time.monotonic()
    verdict, klass, why = judge()
    standing, seconds = standing_of(finding, verdict, klass), round(time.monotonic() - start, 3)
    found = Verification(finding.id, toolchain, words, verdict, klass, standing, why, seconds=seconds)
    store.verified(found)
    return found


def _untold(why: str) -> Judged:
    return Verdict.UNVERIFIED, None, why


def _compiler(finding: Finding) -> tuple[str, tuple[str, ...], str]:
    return finding.target, finding.flags, finding.through


def _judged(
    store: Store,
    finding: Finding,
    request: api.Request,
    worker: Worker,
    versions: dict[str, str | None],
    step: Step,
) -> Judged:
    """The first reproducer that is wrong speaks for the finding; where none is, the one that says least."""
    step(f"finding {finding.id}")
    cases: list[CaseResult] = []
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as folder:
        try:
            for source, inputs in _reproducers(store, finding, Path(folder)):
                own = replace(request, options=finding.options, inputs=inputs)
                for program in api.read_programs(str(source), own, worker):
                    cases += api.judged_cases(program, own, worker, versions, step)
                if any(case.verdict in FINDINGS for case in cases):
                    break
        except ToolchainError:
            raise
        except AssayError as error:
            cases.append(CaseResult(finding.id, "", Verdict.UNVERIFIED, str(error).replace(f"{folder}/", "")))
    verdict = most_severe(case.verdict for case in cases)
    if not cases:
        return verdict, None, "the finding has no program stored with it"
    case = next(case for case in cases if case.verdict is verdict)
    return case.verdict, case.klass, case.why


def _reproducers(store: Store, finding: Finding, folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Files of a program and of its inputs, one pair after the other."""
    found = False
    for number, (program, inputs) in enumerate(PAIRS):
        if program in finding.artifacts:
            found = True
            given = folder / f"{number}.npz"
            if inputs in finding.artifacts:
                given.write_bytes(store.read(finding, inputs))
            place = folder / f"{number}.hlo"
            place.write_bytes(store.read(finding, program))
            yield place, given if inputs in finding.artifacts else None
    if not found and PROGRAM in finding.artifacts:
        place = folder / PROGRAM
        place.write_bytes(store.read(finding, PROGRAM))
        yield place, None
