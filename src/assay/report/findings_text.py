"""Stored findings for a person: a table of them, one in full, and the README of an exported one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.store.finding import (
    INPUTS,
    ISSUE,
    MODULE,
    PAIRS,
    PROGRAM,
    REDUCED,
    REDUCED_INPUTS,
    REPORT,
    Bucket,
    Finding,
    Severity,
    Standing,
    Verification,
)

STYLE = {
    Severity.SILENT: "bold red",
    Severity.LIBERTY: "yellow",
    Severity.LOUD: "magenta",
    Standing.FIXED: "bold green",
    Standing.STILL: "bold red",
    Standing.CHANGED: "bold red",
    Standing.UNVERIFIED: "bold yellow",
}


def show_list(findings: Sequence[Finding], latest: dict[str, Verification], console: Console) -> None:
    """latest: of each finding, by its id, the last verification."""
    if not findings:
        console.print("no findings")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("id", "severity", "class", "bucket", "target", "toolchain", "wrong", "verified"):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for finding in findings:
        seen = latest.get(finding.id)
        table.add_row(
            finding.id,
            Text(str(finding.severity), style=STYLE[finding.severity]),
            str(finding.klass or finding.verdict),
            Text(finding.bucket),
            finding.target,
            finding.toolchain,
            f"{finding.outside} of {finding.elements}" if finding.elements else "",
            "" if seen is None else Text(f"{seen.standing} ({seen.toolchain})", style=STYLE[seen.standing]),
        )
    console.print(table)
    known = sum(1 for finding in findings if finding.known)
    console.print(f"findings: {len(findings)}, known upstream: {known}")


def show_buckets(buckets: Sequence[Bucket], console: Console) -> None:
    if not buckets:
        console.print("no findings")
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("bucket", overflow="fold")
    for name in ("programs", "stored"):
        table.add_column(name, justify="right")
    for name in ("first seen", "last seen", ""):
        table.add_column(name)
    for bucket in buckets:
        table.add_row(
            Text(bucket.name),
            str(bucket.count),
            str(bucket.stored),
            bucket.first_seen,
            bucket.last_seen,
            "capped" if bucket.capped else "",
        )
    console.print(table)


def show(finding: Finding, verifications: Sequence[Verification], console: Console) -> None:
    """All that is stored of it."""
    for name, value in _facts(finding):
        console.print(Text(f"{name:<12}", style="bold"), Text(value), soft_wrap=True)
    for name, digest in finding.artifacts.items():
        console.print(Text(f"{'artifact':<12}", style="bold"), Text(f"{name}  {digest[:12]}"), soft_wrap=True)
    show_verifications(verifications, console)


def show_verifications(verifications: Sequence[Verification], console: Console) -> None:
    for found in verifications:
        console.print(verified_line(found), soft_wrap=True)


def verified_line(found: Verification) -> Text:
    said = str(found.klass or found.verdict)
    line = Text(f"{found.finding}  {found.toolchain}: ")
    line.append(str(found.standing), style=STYLE[found.standing])
    return line.append(f"  {said}{': ' if found.why else ''}{found.why}")


def readme(finding: Finding, verifications: Sequence[Verification]) -> str:
    """Markdown, for the folder of an exported finding."""
    lines = [f"# {finding.bucket}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in _facts(finding)]
    command = check_command(finding)
    if command is not None:
        lines += ["", "To see it:", "", f"    {command}"]
    if finding.artifacts:
        lines += ["", "| file | |", "|---|---|"]
        lines += [f"| [{name}]({name}) | {_MEANING.get(name, '')} |" for name in sorted(finding.artifacts)]
    if verifications:
        lines += ["", "| toolchain | | verdict | on |", "|---|---|---|---|"]
        lines += [f"| {v.versions} | {v.standing} | {v.klass or v.verdict} | {v.at[:10]} |" for v in verifications]
    return "\n".join(lines) + "\n"


def check_command(finding: Finding) -> str | None:
    """The command that judges the smallest stored form again, in its folder; None where there is no program."""
    source, inputs = next((pair for pair in PAIRS if pair[0] in finding.artifacts), (None, None))
    if source is None:
        return None
    words = ["assay", "check", source, "--target", finding.target]
    words += ["--toolchain", finding.toolchain] if finding.toolchain != "host" else []
    words += ["--inputs", inputs] if inputs in finding.artifacts and inputs is not None else []
    words += ["--through", finding.through] if finding.through != "hlo" else []
    for name, value in finding.options.items():
        words += ["--option", f"{name}={value}"]
    for flag in finding.flags:
        words += ["--flag", flag.removeprefix("--")]
    return shlex.join(words)


_MEANING = {
    REDUCED: "the smallest program that shows it",
    REDUCED_INPUTS: "its inputs",
    MODULE: "the program that it was found in",
    INPUTS: "its inputs",
    PROGRAM: "the same, as JAX source",
    REPORT: "what was seen",
    ISSUE: "the text of an upstream report",
}


def _facts(finding: Finding) -> list[tuple[str, str]]:
    culprit, origin = finding.culprit, finding.origin
    versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
    options = " ".join([*(f"{name}={value}" for name, value in finding.options.items()), *finding.flags])
    where = [f"campaign {origin.campaign}" if origin.campaign else "", origin.file]
    where += [f"seed {origin.seed}" if origin.seed is not None else ""]
    where += [f"program {origin.number}" if origin.number is not None else ""]
    facts = [
        ("id", finding.id),
        ("bucket", finding.bucket),
        ("verdict", f"{finding.verdict}, {finding.klass}" if finding.klass else str(finding.verdict)),
        ("severity", f"{finding.severity}: {MEANING[finding.severity]}"),
        ("why", finding.why),
        ("target", finding.target if finding.through == "hlo" else f"{finding.target} through {finding.through}"),
        ("toolchain", f"{finding.toolchain}{f' ({versions})' if versions else ''}"),
        ("options", options),
        ("pass", culprit.pass_name),
        ("instruction", " ".join(part for part in (culprit.instruction, culprit.opcode) if part)),
        ("pattern", culprit.pattern),
        ("wrong", f"{finding.outside} of {finding.elements} elements" if finding.elements else ""),
        ("from", ", ".join(part for part in where if part)),
        ("found", f"{finding.found_at}, after {finding.seconds:.1f} s" if finding.seconds else finding.found_at),
        ("upstream", finding.known or "not known"),
        ("note", finding.note),
    ]
    return [(name, " ".join(value.split())) for name, value in facts if value]


MEANING = {
    Severity.SILENT: "wrong numbers, and nothing says so",
    Severity.LIBERTY: "wrong numbers, by a liberty that some allow a compiler",
    Severity.LOUD: "the process ends",
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
