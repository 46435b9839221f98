"""Counts what a run of the list has shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Record = dict[str, Any]

LOOSE = 0.05
"""A share of undecided elements from which on a program is named."""

STAGES = ("compile", "run", "reference", "sampling")


def verdict(record: Record) -> str:
    """Of all sets of inputs together, with the reason in a word or two where it could not be judged."""
    worst = next((case for case in record["cases"] if case["verdict"] != "agree"), None)
    if not record["cases"]:
        return "missing"
    if worst is None:
        return "agree"
    return f"unverified ({_reason(worst['why'])})" if worst["verdict"] == "unverified" else str(worst["verdict"])


def _reason(why: str) -> str:
    if why.startswith("every element is undecided"):
        return "undecided"
    if why.startswith("unsupported"):
        return re.sub(r"^unsupported: ", "", why)[:40]
    return "limit" if "longer than" in why or "needs" in why or "holds" in why else "error"


def undecided(record: Record) -> tuple[int, int]:
    """Undecided elements, and all elements of the outputs."""
    outputs = [output for case in record["cases"] for output in case.get("outputs", ())]
    return sum(output["undecided"] for output in outputs), sum(output["elements"] for output in outputs)


def line(record: Record) -> str | None:
    """What is to be looked into about one program, None where nothing is."""
    found, (few, of) = verdict(record), undecided(record)
    if found == "agree":
        return f"  {few / of:4.0%} undecided  {record['title']}, seed {record['seed']}" if few > LOOSE * of else None
    why = next((case["why"] for case in record["cases"] if case["verdict"] != "agree"), "")
    text = f"  {found}  {record['title']}, seed {record['seed']}  {why}".rstrip()
    for case in record["cases"]:
        for output in case.get("outputs", ()):
            if output["outside"]:
                where = f"{output['outside']} of {output['elements']} of output {output['index']}"
                values = f"{output['peak_target']} instead of {output['peak_reference']}"
                text += f"\n      {case['inputs']}: {where}, worst at {output['peak']}: {values}; {output['pattern']}"
    return text


def difference(records: Iterable[Record]) -> int:
    """Exit code: 0 where all agree."""
    return int(any(verdict(record) != "agree" for record in records))


def table(records: list[Record]) -> str:
    """By library, then by element type; then the verdicts that are not `agree`."""
    parts = [
        _by("library", records, lambda record: record["title"].partition(":")[0]),
        _by("element type", records, lambda record: record["dtype"]),
    ]
    counts = Counter(verdict(record) for record in records)
    seeds = sorted({record["seed"] for record in records})
    programs = len({record["title"] for record in records})
    few, of = _elements(records)
    share = f"{few} of {of} elements undecided ({few / max(of, 1):.3%})"
    parts.append(f"{programs} programs, seeds {seeds}: {dict(counts.most_common())}; {share}")
    return "\n\n".join(parts)


KINDS = ("agree", "mismatch", "unverified")


def _by(word: str, records: list[Record], key: Callable[[Record], str]) -> str:
    heads = [word, "checks", *KINDS, "other", "undecided", *(f"{stage} s" for stage in STAGES), "all s"]
    groups = {name: [r for r in records if key(r) == name] for name in dict.fromkeys(map(key, records))}
    rows = [heads, *(_row(name, group) for name, group in {**groups, "all": records}.items())]
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return "\n".join("  ".join(map(_aligned, row, widths, range(len(row)))) for row in rows)


def _row(name: str, group: list[Record]) -> list[str]:
    kinds = Counter(verdict(record).split()[0] for record in group)
    few, of = _elements(group)
    other = sum(count for kind, count in kinds.items() if kind not in KINDS)
    stages = [sum(case.get("seconds", {}).get(s, 0.0) for r in group for case in r["cases"]) for s in STAGES]
    seconds = [f"{each:.1f}" for each in (*stages, sum(record["wall"] for record in group))]
    counts = map(str, (len(group), *(kinds[kind] for kind in KINDS), other))
    return [name, *counts, f"{few / max(of, 1):.3%}", *seconds]


def _elements(records: list[Record]) -> tuple[int, int]:
    pairs = [undecided(record) for record in records]
    return sum(few for few, _ in pairs), sum(of for _, of in pairs)


def _aligned(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column else text.ljust(width)
