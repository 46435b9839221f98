"""Judges stored findings again, under another toolchain.

A finding counts as fixed where its reduced reproducer and the program that it was found in both agree there: the
reduced one alone may have lost what set off the bug in another compiler.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from assay.checking import api
from assay.checking.bounds import Step
from assay.errors import AssayError, StoreError, ToolchainError
from assay.oracle.verdict import FINDINGS, MismatchClass, Verdict, most_severe
from assay.report.result import CaseResult
from assay.store.api import Store
from assay.store.finding import (
    INPUTS,
    MODULE,
    PROGRAM,
    REDUCED,
    REDUCED_INPUTS,
    Finding,
    Verification,
    standing_of,
)
from assay.toolchain import Worker

PAIRS = ((REDUCED, REDUCED_INPUTS), (MODULE, INPUTS))
"""A reproducer and its inputs, the quicker one first."""


def verify(
    store: Store,
    findings: Iterable[Finding],
    toolchain: str,
    base: api.Request,
    step: Step = lambda _: None,
) -> Iterator[Verification]:
    """What each finding is under `toolchain` (as `--toolchain` takes it), recorded as it comes, by target.

    base: limits of a judgement; what a finding has of its own takes its place. Raises ToolchainError where the
    toolchain cannot be had; what goes wrong with a single finding leaves it unverified.
    """
    ordered = sorted(findings, key=_compiler)
    for _, group in groupby(ordered, key=_compiler):
        members = list(group)
        first = members[0]
        request = replace(
            base, target=first.target, toolchain=toolchain, flags=first.flags, through=first.through, inputs=None
        )
        with api.open_worker(request, step) as (worker, versions):
            words = api.words(versions)
            for finding in members:
                start = time.monotonic()
                step(f"finding {finding.id}")
                verdict, klass, why = _judged(
                    store, finding, replace(request, options=finding.options), worker, versions, step
                )
                found = Verification(
                    finding.id,
                    toolchain,
                    words,
                    verdict,
                    klass,
                    standing_of(finding, verdict, klass),
                    why,
                    seconds=round(time.monotonic() - start, 3),
                )
                store.verified(found)
                yield found


def _compiler(finding: Finding) -> tuple[str, tuple[str, ...], str]:
    return finding.target, finding.flags, finding.through


def _judged(
    store: Store,
    finding: Finding,
    request: api.Request,
    worker: Worker,
    versions: dict[str, str | None],
    step: Step,
) -> tuple[Verdict, MismatchClass | None, str]:
    """The first reproducer that is wrong speaks for the finding; where none is, the one that says least."""
    cases: list[CaseResult] = []
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as folder:
        try:
            for source, inputs in _reproducers(store, finding, Path(folder)):
                own = replace(request, inputs=inputs)
                for program in api.read_programs(str(source), own, worker):
                    cases += api.judged_cases(program, own, worker, versions, step)
                if any(case.verdict in FINDINGS for case in cases):
                    break
        except (StoreError, ToolchainError):
            raise
        except AssayError as error:
            cases.append(CaseResult(finding.id, "", Verdict.UNVERIFIED, str(error)))
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
