"""What a store holds, as frozen data, and what makes two findings or two buckets the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from assay.oracle.verdict import FINDINGS, MismatchClass, Verdict

MODULE = "module.hlo"
INPUTS = "inputs.npz"
REDUCED = "reduced.hlo"
REDUCED_INPUTS = "reduced_inputs.npz"
PROGRAM = "program.py"
REPORT = "report.json"
ISSUE = "issue.md"

PAIRS = ((REDUCED, REDUCED_INPUTS), (MODULE, INPUTS))
"""A reproducer and its inputs, the quicker one first."""

SLUG = 140
"""Characters of a bucket's name."""


class Severity(StrEnum):
    """How soon a finding is to be looked at."""

    SILENT = "silent"  # wrong numbers and no word of it
    LIBERTY = "liberty"  # wrong numbers that some allow a compiler
    LOUD = "loud"  # the process ends, so everybody notices


def severity_of(verdict: Verdict, klass: MismatchClass | None) -> Severity:
    """Silent wrong results first: they reach a user's model (sections 5.2 and 5.3.1 of the paper)."""
    if verdict in (Verdict.CRASH, Verdict.HANG):
        return Severity.LOUD
    return Severity.SILENT if klass in (None, MismatchClass.MISCOMPILE) else Severity.LIBERTY


@dataclass(frozen=True, slots=True)
class Culprit:
    """What is to blame, as far as it is known: the pass, the instruction by its name and opcode, and the pattern of
    the wrong elements (for a crash: the line it ended with). An empty text is not known.
    """

    pass_name: str = ""
    instruction: str = ""
    opcode: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the program comes from: a program of a campaign by its number, or a file."""

    campaign: str = ""
    seed: int | None = None
    number: int | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One program that one compiler got wrong.

    toolchain: what `--toolchain` takes; versions: what it consists of. through: as in `assay check`. found_at: ISO
    8601, UTC. seconds: of work until it was found. outside, elements: of all outputs. note: for people; known: the
    upstream report, if there is one. artifacts: name to digest, filled in by the store. Raises ValueError where the
    verdict is no finding.
    """

    verdict: Verdict
    target: str
    toolchain: str
    klass: MismatchClass | None = None
    why: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    culprit: Culprit = Culprit()
    origin: Origin = Origin()
    found_at: str = field(default_factory=lambda: now())
    seconds: float = 0.0
    outside: int = 0
    elements: int = 0
    note: str = ""
    known: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    through: str = "hlo"

    def __post_init__(self) -> None:
        if self.verdict not in FINDINGS:
            raise ValueError(f"{self.verdict} is no finding; only {', '.join(sorted(FINDINGS))} are stored")

    @property
    def severity(self) -> Severity:
        return severity_of(self.verdict, self.klass)

    @property
    def bucket(self) -> str:
        return bucket_of(self.verdict, self.klass, self.culprit)

    @property
    def id(self) -> str:
        """Of what was found, not of how it was explained: the program and its inputs, the compiler, the verdict.

        Isolation and reduction may end differently a second time; what they say is no part of it.
        """
        kept = {name: self.artifacts[name] for name in (MODULE, INPUTS) if name in self.artifacts}
        if MODULE not in kept:
            kept = dict(self.artifacts)
        versions = {name: self.versions[name] for name in ("jax", "jaxlib", "libtpu") if name in self.versions}
        compiler = [self.target, versions or self.toolchain, dict(self.options), list(self.flags), self.through]
        return digest_of([str(self.verdict), *compiler, kept])[:16]


def bucket_of(verdict: Verdict, klass: MismatchClass | None, culprit: Culprit) -> str:
    """The name under which duplicates meet: pass, opcode, pattern, and class or verdict. Numbers in a pattern are
    places and sizes, which differ from program to program.
    """
    kind = str(klass or verdict)
    pattern = re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", "n", culprit.pattern)
    parts = [culprit.pass_name or "unknown-pass", culprit.opcode or "unknown-opcode", pattern, kind]
    name = ".".join(_slug(part) for part in parts if part)
    return name if len(name) <= SLUG else f"{name[: SLUG - 9]}-{digest_of(name)[:8]}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-") or "x"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Findings that seem to be one bug. count: how many programs showed it, stored or not; stored: findings here.
    capped: whether no more are to be stored.
    """

    name: str
    first_seen: str
    last_seen: str
    count: int
    stored: int
    capped: bool = False


class Standing(StrEnum):
    """What became of a finding under another toolchain."""

    FIXED = "fixed"
    STILL = "still there"
    CHANGED = "changed"  # wrong in another way
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Verification:
    """A stored finding, judged again. toolchain: the spec; versions: in words."""

    finding: str
    toolchain: str
    versions: str
    verdict: Verdict
    klass: MismatchClass | None
    standing: Standing
    why: str = ""
    at: str = field(default_factory=lambda: now())
    seconds: float = 0.0


def standing_of(finding: Finding, verdict: Verdict, klass: MismatchClass | None) -> Standing:
    """Nothing is called fixed that could not be judged."""
    if verdict is Verdict.AGREE:
        return Standing.FIXED
    if verdict not in FINDINGS:
        return Standing.UNVERIFIED
    # Memory that nobody wrote makes one finding nondeterministic today and a mismatch tomorrow.
    silent = finding.severity is severity_of(verdict, klass) is Severity.SILENT
    return Standing.STILL if silent or (verdict, klass) == (finding.verdict, finding.klass) else Standing.CHANGED


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def digest_of(value: Any) -> str:
    """SHA-256 of a value as JSON, or of bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


def finding_dict(finding: Finding) -> dict[str, Any]:
    """As JSON has it, schema 1; `id`, `bucket` and `severity` are among it and follow from the rest."""
    culprit, origin = finding.culprit, finding.origin
    return {
        "schema": 1,
        "id": finding.id,
        "bucket": finding.bucket,
        "severity": str(finding.severity),
        "verdict": str(finding.verdict),
        "class": None if finding.klass is None else str(finding.klass),
        "why": finding.why,
        "target": finding.target,
        "toolchain": finding.toolchain,
        "versions": dict(finding.versions),
        "options": dict(finding.options),
        "flags": list(finding.flags),
        "through": finding.through,
        "culprit": {
            "pass": culprit.pass_name,
            "instruction": culprit.instruction,
            "opcode": culprit.opcode,
            "pattern": culprit.pattern,
        },
        "origin": {
            "campaign": origin.campaign,
            "seed": origin.seed,
            "number": origin.number,
            "file": origin.file,
        },
        "found_at": finding.found_at,
        "seconds": finding.seconds,
        "outside": finding.outside,
        "elements": finding.elements,
        "note": finding.note,
        "known": finding.known,
        "artifacts": dict(finding.artifacts),
    }


def verification_dict(found: Verification) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "finding": found.finding,
        "toolchain": found.toolchain,
        "versions": found.versions,
        "standing": str(found.standing),
        "verdict": str(found.verdict),
        "class": None if found.klass is None else str(found.klass),
        "why": found.why,
        "at": found.at,
        "seconds": found.seconds,
    }


def bucket_dict(bucket: Bucket) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "name": bucket.name,
        "first_seen": bucket.first_seen,
        "last_seen": bucket.last_seen,
        "programs": bucket.count,
        "stored": bucket.stored,
        "capped": bucket.capped,
    }
