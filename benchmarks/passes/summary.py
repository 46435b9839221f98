"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

FOUND = ("right", "later", "wrong interval")
MISSED = ("lost in rounding", "inside", "unverified")
OUTCOMES = (*FOUND, "equivalent", *MISSED)
Rows = Sequence[dict[str, Any]]


def show(rows: Rows) -> str:
    """What each setting came to, and where there are several, every kind of fault in each of them."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    parts = [_setting(name, [row for row in rows if row["setting"] == name]) for name in settings]
    if len(settings) > 1:
        parts.append(_kinds(settings, [row for row in rows if "kind" in row]))
    return "\n\n".join(parts)


def _setting(name: str, rows: Rows) -> str:
    trials = [row for row in rows if "kind" in row]
    honest = [row for row in rows if "honest" in row]
    lines = [f"planted faults: {name}", ""]
    lines.append(f"| fault | trials | found | equivalent | missed | {' | '.join(OUTCOMES)} |")
    lines.append("|" + "---|" * (len(OUTCOMES) + 5))
    for kind in sorted({row["kind"] for row in trials}):
        lines.append(_row(kind, [row for row in trials if row["kind"] == kind]))
    lines += [_row("all", trials), ""]
    found = [row for row in trials if row["outcome"] in FOUND]
    shown = sum(row["outcome"] == "equivalent" for row in trials)
    lost = sum(row["outcome"] == "lost in rounding" for row in trials)
    right = sum(row["outcome"] in ("right", "later") for row in found)
    lines.append(f"found, or shown equivalent on the inputs tried: {_share(len(found) + shown, len(trials))}")
    if lost:
        lines.append(f"or off by less than honest rounding is: {_share(len(found) + shown + lost, len(trials))}")
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


def _kinds(settings: Sequence[str], trials: Rows) -> str:
    """found / equivalent / missed, of every kind in every setting."""
    lines = ["found / equivalent / missed", "", f"| fault | {' | '.join(settings)} |", "|---|" + "---|" * len(settings)]
    for kind in sorted({row["kind"] for row in trials}):
        mine = [row for row in trials if row["kind"] == kind]
        cells = [" / ".join(_thirds([row for row in mine if row["setting"] == name])) for name in settings]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _thirds(rows: Rows) -> list[str]:
    """The shares that were found, equivalent and missed."""
    counts = Counter("found" if row["outcome"] in FOUND else row["outcome"] for row in rows)
    parts = counts["found"], counts["equivalent"], sum(counts[o] for o in MISSED)
    return [f"{part / len(rows):.0%}" if rows else "-" for part in parts]


def _row(name: str, rows: Rows) -> str:
    counts = Counter(row["outcome"] for row in rows)
    cells = [name, str(len(rows)), *_thirds(rows), *(str(counts[o] or "") for o in OUTCOMES)]
    return f"| {' | '.join(cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({part / whole:.1%})" if whole else "")
