"""What a campaign came to, as data, as JSON and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.oracle.verdict import Verdict

SCHEMA = 1
MOST_REASONS = 8
UNEXPLAINED = "wrong, and neither a pass nor the code is to blame: look at it by hand"
"""Why a suspect is not stored that was seen three times all the same."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One stored finding. number: of its program. seconds: into the campaign. alike: programs in its bucket."""

    id: str
    bucket: str
    kind: str
    severity: str
    pass_name: str
    opcodes: str
    outside: int
    elements: int
    number: int | None
    seconds: float
    alike: int


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """verdicts: programs by verdict. reasons: why some could not be judged. told: why suspects were not stored.
    reached, passes: features and passes, each with the second in which it was first seen. left: suspects that were not
    followed, as the time was over. examples: numbers of the first programs that were not stored or not judged, by the
    reason.
    """

    target: str
    toolchain: str
    seed: int
    campaign: str
    seconds: float
    verdicts: Mapping[str, int]
    reasons: Mapping[str, int]
    told: Mapping[str, int]
    finite: int
    constant: int
    found: tuple[FoundRow, ...]
    reached: tuple[tuple[str, float], ...]
    passes: tuple[tuple[str, float], ...]
    left: int = 0
    examples: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def programs(self) -> int:
        return sum(self.verdicts.values())

    @property
    def unsettled(self) -> bool:
        """Whether something is wrong of which it is not known what."""
        return bool(self.left or self.told.get(UNEXPLAINED))

    @property
    def buckets(self) -> list[str]:
        """In the order in which they were found."""
        return list(dict.fromkeys(row.bucket for row in sorted(self.found, key=lambda row: row.seconds)))


def exit_code(reports: Sequence[CampaignReport]) -> int:
    """1: a finding; 0: none, and some programs agree; 2: nothing could be judged, or what is wrong is still to be
    followed, or looked at by hand.
    """
    if any(report.found for report in reports):
        return 1
    return 0 if all(report.verdicts.get(str(Verdict.AGREE)) and not report.unsettled for report in reports) else 2


def as_json(reports: Sequence[CampaignReport]) -> str:
    return json.dumps({"schema": SCHEMA, "campaigns": [_dict(report) for report in reports]}, indent=1) + "\n"


def _dict(report: CampaignReport) -> dict[str, Any]:
    return {**asdict(report), "programs": report.programs, "buckets": report.buckets}


def show(reports: Sequence[CampaignReport], console: Console) -> None:
    for report in reports:
        _show(report, console)


def _show(report: CampaignReport, console: Console) -> None:
    found = len(report.found)
    buckets = len(report.buckets)
    nothing = "NOTHING STORED YET" if report.left else "NOTHING STORED" if report.unsettled else "NOTHING FOUND"
    word = f"{found} FINDING{'S' * (found != 1)} in {buckets} bucket{'s' * (buckets != 1)}" if found else nothing
    head = f"{word}  on {report.target} ({report.toolchain}), seed {report.seed}"
    console.print(Text(head, style="bold red" if found or report.unsettled else "bold green"), soft_wrap=True)
    if found:
        table = Table(
            "", "class", "pass", "opcodes", "wrong", "alike", "after", "id", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for place, row in enumerate(sorted(report.found, key=lambda row: (row.severity != "silent", row.seconds)), 1):
            wrong = f"{row.outside} of {row.elements}" if row.outside else ""
            cells = (row.kind, row.pass_name, row.opcodes, wrong, str(row.alike), f"{row.seconds:.0f} s", row.id)
            table.add_row(str(place), *cells)
        console.print(table)
    counts = ", ".join(f"{report.verdicts[str(v)]} {v}" for v in Verdict if report.verdicts.get(str(v)))
    rate = report.programs / max(report.seconds, 1e-3)
    console.print(
        Text(f"{report.programs} programs in {report.seconds:.0f} s ({rate:.1f} a second): {counts}"), soft_wrap=True
    )
    if not report.programs:
        console.print(
            Text("the time was over before a batch of programs was done: give it more, or go on with --resume")
        )
        return
    plain = report.programs - report.constant
    told = f"results finite in {report.finite}, not all one value in {plain} of {report.programs} programs"
    console.print(Text(told), soft_wrap=True)
    for title, reasons in (("not judged", report.reasons), ("not stored", report.told)):
        for why, count in list(reasons.items())[:MOST_REASONS]:
            which = ", ".join(f"{report.seed}/{number}" for number in report.examples.get(why, ()))
            named = f" (assay replay {which})" if which else ""
            console.print(Text(f"  {title}: {count}  {why}{named}", style="dim"), soft_wrap=True)
    if report.left:
        said = f"{report.left} wrong program{'s' * (report.left != 1)} not followed yet, as the time was over"
        console.print(Text(f"{said}: go on with --resume", style="bold yellow"), soft_wrap=True)
    console.print(Text(_coverage(report)), soft_wrap=True)


def _coverage(report: CampaignReport) -> str:
    """How much was reached, and how fast more comes."""
    features, passes = len(report.reached), len(report.passes)
    if not features:
        return "reached: not yet known; it is counted by epochs"
    late = sum(1 for _, seconds in report.reached if seconds > report.seconds * 0.75)
    return (
        f"reached: {features} kinds and pairs of optimized instructions, {late} of them in the last quarter; "
        f"{passes} passes that changed a module"
    )
