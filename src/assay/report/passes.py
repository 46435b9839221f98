"""What `assay passes` found, as data and as JSON: for each program which snapshots were evaluated, and the culprit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from assay.oracle.verdict import EXIT_CODE, Verdict, most_severe

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Wrong:
    """One output with elements that no correct compiler gives.

    place: of the worst of them. reference: its value in the unoptimized program with the bound. before, after: its
    value at the two ends of the interval, `before` empty where that is the program itself. outside: how many there are.
    """

    output: int
    place: tuple[int, ...]
    reference: str
    before: str
    after: str
    outside: int
    elements: int


@dataclass(frozen=True, slots=True)
class Culprit:
    """The interval between two snapshots in which a wrong rewrite lies.

    name, pipeline: the pass that had run last when the results were wrong. snapshot: the label of the file with them.
    since: that of the last one with right results, empty where that is the program itself. passes: all that are known
    to have run in between, `name` among them. instructions: the names of those that changed. before, after: their text
    at either end. wrong: where it shows. inputs: on what, in words.
    """

    name: str
    pipeline: str
    snapshot: str
    since: str
    passes: tuple[str, ...]
    instructions: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """One snapshot that was looked at. state: agrees, differs or unverified, with why. repeat: its text is that of the
    one before.
    """

    label: str
    state: str
    why: str = ""
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class PassesCase:
    """One program. snapshots: how many there are. evaluated, spared: instructions that were evaluated, and that were
    found among those of earlier snapshots. `why` explains every verdict but `agree` and `mismatch`.
    """

    name: str
    verdict: Verdict
    why: str = ""
    inputs: tuple[str, ...] = ()
    culprit: Culprit | None = None
    looks: tuple[Looked, ...] = ()
    snapshots: int = 0
    evaluated: int = 0
    spared: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stderr_tail: tuple[str, ...] = ()

    def count(self, state: str) -> int:
        """How many snapshots have that state, repeats included."""
        return sum(look.state == state for look in self.looks)

    @property
    def untold(self) -> int:
        """How many snapshots between the two ends of the culprit's interval could not be evaluated."""
        if self.culprit is None:
            return 0
        labels = [look.label for look in self.looks]
        end = labels.index(self.culprit.snapshot) if self.culprit.snapshot in labels else len(labels)
        between = takewhile(lambda look: look.state == "unverified", reversed(self.looks[:end]))
        return sum(1 for _ in between)

    @property
    def share(self) -> float:
        """The share of snapshots looked at that could be evaluated."""
        return 1.0 - self.count("unverified") / len(self.looks) if self.looks else 0.0


@dataclass(frozen=True, slots=True)
class PassesReport:
    """All programs of one run of `assay passes`."""

    program: str
    target: str
    toolchain: str
    seed: int
    cases: tuple[PassesCase, ...]
    command: str = ""

    @property
    def worst(self) -> PassesCase:
        """The case that speaks for the report."""
        worst = most_severe(case.verdict for case in self.cases)
        return next(case for case in self.cases if case.verdict == worst)

    @property
    def verdict(self) -> Verdict:
        return self.worst.verdict

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: a finding; 2: no finding, but a program could not be judged."""
        return EXIT_CODE[self.verdict]


def to_json(report: PassesReport) -> str:
    return json.dumps(as_dict(report), indent=1) + "\n"


def as_dict(report: PassesReport) -> dict[str, Any]:
    """The verdict and culprit at the top are those of the case that speaks for the report; `cases` has them all."""
    worst = report.worst
    return {
        "schema": SCHEMA,
        "verdict": str(worst.verdict),
        "why": worst.why,
        "culprit": _culprit(worst.culprit),
        "target": report.target,
        "toolchain": report.toolchain,
        "seed": report.seed,
        "program": report.program,
        "command": report.command,
        "cases": [_case(case) for case in report.cases],
    }


def _case(case: PassesCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "verdict": str(case.verdict),
        "why": case.why,
        "inputs": list(case.inputs),
        "culprit": _culprit(case.culprit),
        "snapshots": {
            "all": case.snapshots,
            "looked_at": len(case.looks),
            "distinct": sum(not look.repeat for look in case.looks),
            "unverified": case.count("unverified"),
            "share": round(case.share, 4),
        },
        "instructions": {"evaluated": case.evaluated, "spared": case.spared},
        "looks": [
            {"snapshot": look.label, "state": look.state, "why": look.why, "repeat": look.repeat} for look in case.looks
        ],
        "notes": list(case.notes),
        "stderr": list(case.stderr_tail),
        "seconds": {name: round(value, 3) for name, value in case.seconds.items()},
    }


def _culprit(culprit: Culprit | None) -> dict[str, Any] | None:
    if culprit is None:
        return None
    return {
        "pass": culprit.name,
        "pipeline": culprit.pipeline,
        "snapshot": culprit.snapshot,
        "since": culprit.since or None,
        "passes": list(culprit.passes),
        "instructions": list(culprit.instructions),
        "before": list(culprit.before),
        "after": list(culprit.after),
        "inputs": culprit.inputs,
        "outputs": [_wrong(wrong) for wrong in culprit.wrong],
    }


def _wrong(wrong: Wrong) -> dict[str, Any]:
    return {
        "index": wrong.output,
        "outside": wrong.outside,
        "elements": wrong.elements,
        "place": list(wrong.place),
        "reference": wrong.reference,
        "before": wrong.before or None,
        "after": wrong.after,
    }


def counted(looks: Sequence[Looked]) -> dict[str, int]:
    """Why snapshots were not verified, and how many for each reason."""
    found: dict[str, int] = {}
    for look in looks:
        if look.state == "unverified":
            found[look.why] = found.get(look.why, 0) + 1
    return found
