"""A bisection for a person, and as JSON (schema 1)."""

from __future__ import annotations

import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.toolchain.bisect import Bisection, Change, Trial, Verdict

SCHEMA = 1
STYLE = {Verdict.PRESENT: "bold red", Verdict.ABSENT: "bold green", Verdict.SKIPPED: "bold yellow"}
ASSUMED = "between two tried releases of the same verdict there is none of the other"


def show(found: Bisection, console: Console) -> None:
    """The changes in a line each, the assumption, then the table of all that was tried."""
    for line in sentences(found):
        console.print(line, soft_wrap=True)
    table = Table(found.question.axis, "toolchain", "bug", "check s", "install s", "what was said", box=box.SIMPLE_HEAD)
    for trial in found.trials:
        table.add_row(
            trial.version,
            trial.spec,
            Text(str(trial.verdict), style=STYLE[trial.verdict]),
            f"{trial.seconds:.1f}" if trial.seconds else "",
            f"{trial.installed_s:.0f}" if trial.installed_s >= 0.5 else "",
            Text(trial.said),
        )
    console.print(table)
    console.print(f"assumed: {ASSUMED}; {found.untried} of {len(found.row)} releases were not tried", soft_wrap=True)
    console.print(f"the answers are in {found.journal}", soft_wrap=True)


def sentences(found: Bisection) -> list[str]:
    """What is known, newest last: one sentence a change, and one for each end of the row that was tried."""
    axis, row = found.question.axis, found.row
    judged = [trial for trial in found.trials if trial.verdict is not Verdict.SKIPPED]
    if not judged:
        return [f"no release of {axis} that was tried could be judged"]
    if not found.changes:
        names = f"{judged[0].version} to {judged[-1].version}" if len(judged) > 1 else judged[0].version
        return [
            f"no change found: the bug is {judged[0].verdict} in all {len(judged)} releases of {axis} tried, {names}"
        ]
    lines = []
    if judged[0].verdict is Verdict.PRESENT:
        oldest = judged[0].version == row[0].version
        lines.append(f"present in {axis} {judged[0].version}, {'the oldest release' if oldest else 'the oldest tried'}")
    lines += [_sentence(found, change) for change in found.changes]
    if judged[-1].verdict is Verdict.PRESENT:
        newest = judged[-1].version == row[-1].version
        lines.append(
            f"present in {axis} {judged[-1].version}, {'the newest release' if newest else 'the newest tried'}"
        )
    return lines


def _sentence(found: Bisection, change: Change) -> str:
    row, axis = found.row, found.question.axis
    good, bad = row[change.good].version, row[change.bad].version
    if change.good < change.bad:
        line = f"first bad release: {axis} {bad}; the one before it, {good}, is good"
    else:
        line = f"first good release: {axis} {good}; the one before it, {bad}, is bad"
    if not change.skipped:
        return line
    between = ", ".join(row[i].version for i in change.skipped)
    return line.replace("the one before it", "the last judged before it") + f"; skipped between: {between}"


def to_json(found: Bisection) -> str:
    return json.dumps(as_dict(found), indent=1) + "\n"


def as_dict(found: Bisection) -> dict[str, Any]:
    """first_bad and first_good: of the newest change of each direction, None where there is none."""
    row = found.row
    firsts = {
        "first_bad": [row[c.bad].version for c in found.changes if c.good < c.bad],
        "first_good": [row[c.good].version for c in found.changes if c.bad < c.good],
    }
    return {
        "schema": SCHEMA,
        "over": found.question.axis,
        "check": str(found.question.check),
        **{name: versions[-1] if versions else None for name, versions in firsts.items()},
        "changes": [
            {
                "good": row[c.good].version,
                "bad": row[c.bad].version,
                "skipped": [row[i].version for i in c.skipped],
            }
            for c in found.changes
        ],
        "assumed": ASSUMED,
        "releases": [release.version for release in row],
        "trials": [_trial(trial) for trial in found.trials],
        "journal": found.journal,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "version": trial.version,
        "toolchain": trial.spec,
        "verdict": str(trial.verdict),
        "seconds": trial.seconds,
        "install_seconds": trial.installed_s,
        "said": trial.said,
    }
