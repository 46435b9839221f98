"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

OUTCOMES = ("right", "later", "wrong interval", "equivalent", "inside", "unverified")


def show(rows: Sequence[dict[str, Any]], title: str) -> str:
    trials = [row for row in rows if "kind" in row]
    honest = [row for row in rows if "honest" in row]
    lines = [f"planted faults: {title}", ""]
    lines.append(f"| fault | trials | {' | '.join(OUTCOMES)} |")
    lines.append("|" + "---|" * (len(OUTCOMES) + 2))
    for kind in sorted({row["kind"] for row in trials}):
        lines.append(_row(kind, [row for row in trials if row["kind"] == kind]))
    lines += [_row("all", trials), ""]
    found = [row for row in trials if "named" in row]
    shown = sum(row["outcome"] in ("equivalent",) for row in trials)
    right = sum(row["outcome"] in ("right", "later") for row in found)
    lines.append(f"found, or shown equivalent on the inputs tried: {_share(len(found) + shown, len(trials))}")
    lines.append(f"right interval, of those found: {_share(right, len(found))}")
    lines.append(
        f"dce, rename, layout, scheduling blamed wrongly: {sum(row.get('harmless blamed', 0) for row in found)}"
    )
    named = sum(row.get("names the instruction", False) for row in found)
    lines.append(f"the planted instruction, or one that takes it, named: {_share(named, len(found))}")
    if honest:
        looked = sum(row["snapshots"] for row in honest)
        share = _share(looked - sum(row.get("unverified", 0) for row in honest), looked)
        alarms = [row["program"] for row in honest if row["honest"] not in ("agree", "unverified")]
        lines.append(f"honest chains: {len(honest)} programs, {share} snapshots evaluated")
        lines.append(f"alarms: {', '.join(alarms) or 'none'}; refused: {sum('refused' in row for row in rows)}")
    return "\n".join(lines)


def _row(name: str, rows: Sequence[dict[str, Any]]) -> str:
    counts = Counter(row["outcome"] for row in rows)
    return f"| {name} | {len(rows)} | " + " | ".join(str(counts[o] or "") for o in OUTCOMES) + " |"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({part / whole:.1%})" if whole else "")
