"""Findings as rows, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.oracle.verdict import MismatchClass, Verdict
from assay.store.finding import Culprit, Finding, Origin, Standing, Verification

_PLAIN = ("why", "target", "toolchain", "found_at", "note", "known", "through")
_CULPRIT = ("pass_name", "instruction", "opcode", "pattern")


def row_of(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {name: storable(getattr(finding, name)) for name in _PLAIN}
    row |= {name: storable(getattr(finding.culprit, name)) for name in _CULPRIT}
    return row | {
        "id": finding.id,
        "bucket": finding.bucket,
        "severity": str(finding.severity),
        "verdict": str(finding.verdict),
        "klass": None if finding.klass is None else str(finding.klass),
        "versions": dict(finding.versions),
        "options": dict(finding.options),
        "flags": list(finding.flags),
        "campaign": finding.origin.campaign,
        "seed": finding.origin.seed,
        "number": finding.origin.number,
        "file": storable(finding.origin.file),
        "seconds": finding.seconds,
        "outside": finding.outside,
        "elements": finding.elements,
        "artifacts": dict(finding.artifacts),
    }


def finding_of(row: Mapping[str, Any]) -> Finding:
    return Finding(
        verdict=Verdict(row["verdict"]),
        klass=None if row["klass"] is None else MismatchClass(row["klass"]),
        versions=row["versions"],
        options=row["options"],
        flags=tuple(row["flags"]),
        culprit=Culprit(*(row[name] for name in _CULPRIT)),
        origin=Origin(row["campaign"], row["seed"], row["number"], row["file"]),
        seconds=row["seconds"],
        outside=row["outside"],
        elements=row["elements"],
        artifacts=row["artifacts"],
        **{name: row[name] for name in _PLAIN},
    )


def verification_row(found: Verification) -> dict[str, Any]:
    return {
        "finding": found.finding,
        "toolchain": found.toolchain,
        "at": found.at,
        "versions": found.versions,
        "verdict": str(found.verdict),
        "klass": None if found.klass is None else str(found.klass),
        "standing": str(found.standing),
        "why": storable(found.why),
        "seconds": found.seconds,
    }


def verification_of(row: Mapping[str, Any]) -> Verification:
    return Verification(
        finding=row["finding"],
        toolchain=row["toolchain"],
        versions=row["versions"],
        verdict=Verdict(row["verdict"]),
        klass=None if row["klass"] is None else MismatchClass(row["klass"]),
        standing=Standing(row["standing"]),
        why=row["why"],
        at=row["at"],
        seconds=row["seconds"],
    )


def storable(text: str) -> str:
    """Without what no database takes: a compiler's last words may hold any byte."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
