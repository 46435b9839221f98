"""What `assay llo diff` found: for each kernel the first LLO pass that changed its result; for a person and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.llo.diff import Difference, KernelDiff, Wrong
from assay.oracle.verdict import EXIT_CODE, Verdict, most_severe
from assay.report.tables import table
from assay.report.text import STYLE

SCHEMA = 1
MOST_LINES = 16


@dataclass(frozen=True, slots=True)
class ProgramDiff:
    """One program's kernels. problem: why there are none; found: whether that is a finding, as a crash is."""

    name: str
    kernels: tuple[KernelDiff, ...]
    problem: str = ""
    found: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.problem:
            return Verdict.CRASH if self.found else Verdict.UNVERIFIED
        return most_severe(Verdict(kernel.verdict) for kernel in self.kernels)


@dataclass(frozen=True, slots=True)
class LloReport:
    """All programs of one run of `assay llo diff`. toolchain: empty for a folder of dumps."""

    source: str
    target: str
    toolchain: str
    seed: int
    programs: tuple[ProgramDiff, ...]
    command: str = ""

    @property
    def verdict(self) -> Verdict:
        return most_severe(program.verdict for program in self.programs)

    @property
    def exit_code(self) -> int:
        """0: every kernel agrees; 1: a difference; 2: none, but a kernel could not be judged."""
        return EXIT_CODE[self.verdict]


def show(report: LloReport, console: Console, verbose: bool = False) -> None:
    """Prints `report`; every stage with `verbose`."""
    console.print(_verdict_line(report), soft_wrap=True)
    for program in report.programs:
        if program.problem:
            console.print(Text(f"{program.name}: {program.problem}"), soft_wrap=True)
        prefix = f"{program.name} / " if len(report.programs) > 1 else ""
        for kernel in program.kernels:
            if verbose or kernel.verdict != "agree":
                _show_kernel(kernel, prefix, console, verbose)
    if not verbose and any(program.kernels for program in report.programs):
        console.print(_counts(report))
    for why, count in _reasons(report).items():
        console.print(Text(f"  {count} not run: {why}"), soft_wrap=True)


def _verdict_line(report: LloReport) -> Text:
    verdict = report.verdict
    line = Text()
    line.append(str(verdict).upper(), style=STYLE[verdict])
    on = f"{report.target} ({report.toolchain})" if report.toolchain else report.target
    line.append(f"  {report.source}  on {on}: ")
    kernels = [kernel for program in report.programs for kernel in program.kernels]
    wrong = [kernel for kernel in kernels if kernel.difference is not None]
    if wrong:
        first = wrong[0]
        assert first.difference is not None
        more = f", and {len(wrong) - 1} kernels more differ" if len(wrong) > 1 else ""
        line.append(f"{first.name}: {first.difference.stage} changed it{more}")
    elif verdict == Verdict.AGREE:
        line.append(f"{len(kernels)} kernels, {_compared(kernels)}, every stage gives the same bits")
    else:
        counts = Counter(kernel.verdict for kernel in kernels)
        line.append(f"{counts['agree']} of {len(kernels)} kernels agree, {counts['unverified']} could not be judged")
    return line


def _compared(kernels: list[KernelDiff]) -> str:
    ran = sum(kernel.count("first", "agrees", "differs") for kernel in kernels)
    same = sum(kernel.count("repeat") for kernel in kernels)
    return f"{ran} stages run and {same} with the text of the one before"


def _show_kernel(kernel: KernelDiff, prefix: str, console: Console, verbose: bool) -> None:
    line = Text(f"\n{prefix}{kernel.name}: ", style="bold")
    line.append(kernel.verdict, style=STYLE[Verdict(kernel.verdict)])
    line.append(f": {kernel.why}" if kernel.why else "")
    console.print(line, soft_wrap=True)
    if kernel.difference is not None:
        _show_difference(kernel.difference, console)
    if verbose:
        rows = table("stage", "", "records", "")
        for stage in kernel.stages:
            style = {"agrees": "green", "first": "green", "differs": "red"}.get(stage.state, "yellow")
            steps = str(stage.steps) if stage.steps else ""
            rows.add_row(f"{stage.number:02d} {stage.label}", Text(stage.state, style=style), steps, Text(stage.why))
        console.print(rows)


def _show_difference(difference: Difference, console: Console) -> None:
    lines = [f"same:    {difference.since}", f"differs: {difference.stage}  ({difference.inputs})"]
    if difference.trap:
        lines.append(f"it stops, which the stage before did not: {difference.trap}")
    lines += [_wrong(wrong) for wrong in difference.outputs]
    if difference.left:
        lines.append(f"{difference.left} entries of queues are left that nobody pops; before there were none")
    if difference.flying:
        lines.append(f"{difference.flying} DMAs are never waited for; before there were none")
    if (first := difference.first) is not None:
        lines.append(f"first value that differs: %{first.name}")
        lines.append(f"- {first.line_before:>6}  {first.before}    {first.was}")
        lines.append(f"+ {first.line_after:>6}  {first.after}    {first.now}")
    shown = difference.changed[:MOST_LINES]
    lines.append(f"instructions that only one of them has: {difference.changes}")
    lines += [str(change) for change in shown]
    if difference.changes > len(shown):
        lines.append(f"... {difference.changes - len(shown)} more; --json has them all")
    console.print(Text("\n".join(lines)), soft_wrap=True)


def _wrong(wrong: Wrong) -> str:
    wild = f", {wrong.unwritten} of them now depend on memory that nobody wrote" if wrong.unwritten else ""
    place = f" at {list(wrong.place)}" if wrong.place else ""
    return (
        f"output {wrong.output}: {wrong.differ} of {wrong.elements} elements differ{wild}; first{place}: "
        f"{wrong.before} before, {wrong.after} after"
    )


def _counts(report: LloReport) -> Table:
    rows = table("kernel", "", "stages run", "repeats", "skipped", "compared", "unwritten", "s")
    for program in report.programs:
        for kernel in program.kernels:
            rows.add_row(
                kernel.name,
                Text(kernel.verdict, style=STYLE[Verdict(kernel.verdict)]),
                str(kernel.count("first", "agrees", "differs")),
                str(kernel.count("repeat")),
                str(kernel.count("skipped")),
                str(kernel.compared),
                str(kernel.unwritten),
                f"{kernel.seconds:.1f}",
            )
    return rows


def _reasons(report: LloReport) -> Counter[str]:
    return Counter(
        stage.why
        for program in report.programs
        for kernel in program.kernels
        for stage in kernel.stages
        if stage.state == "skipped"
    )


def to_json(report: LloReport) -> str:
    return json.dumps(as_dict(report), indent=1) + "\n"


def as_dict(report: LloReport) -> dict[str, Any]:
    """The verdict is the most severe of all kernels."""
    return {
        "schema": SCHEMA,
        "verdict": str(report.verdict),
        "source": report.source,
        "target": report.target,
        "toolchain": report.toolchain or None,
        "seed": report.seed,
        "command": report.command,
        "programs": [
            {
                "name": program.name,
                "verdict": str(program.verdict),
                "why": program.problem,
                "kernels": [_kernel(kernel) for kernel in program.kernels],
            }
            for program in report.programs
        ],
    }


def _kernel(kernel: KernelDiff) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "verdict": kernel.verdict,
        "why": kernel.why,
        "difference": _difference(kernel.difference),
        "compared": kernel.compared,
        "unwritten": kernel.unwritten,
        "stages": [
            {"number": s.number, "label": s.label, "state": s.state, "why": s.why, "records": s.steps}
            for s in kernel.stages
        ],
        "seconds": round(kernel.seconds, 3),
    }


def _difference(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    first = difference.first
    return {
        "stage": difference.stage,
        "since": difference.since,
        "inputs": difference.inputs,
        "trap": difference.trap or None,
        "outputs": [
            {
                "index": wrong.output,
                "elements": wrong.elements,
                "differ": wrong.differ,
                "unwritten": wrong.unwritten,
                "place": list(wrong.place),
                "before": wrong.before,
                "after": wrong.after,
            }
            for wrong in difference.outputs
        ],
        "left_in_queues": difference.left,
        "never_waited_for": difference.flying,
        "first_value": None
        if first is None
        else {
            "name": first.name,
            "before": {"line": first.line_before, "text": first.before, "value": first.was},
            "after": {"line": first.line_after, "text": first.after, "value": first.now},
        },
        "changed": [str(change) for change in difference.changed],
    }
