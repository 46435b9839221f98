"""A report for a person: the verdict in one line, then what it rests on."""

from __future__ import annotations

import io
import math
import re
import shlex
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.oracle.verdict import EXIT_CODE, Verdict
from assay.report.result import CaseResult, OutputResult, Report

STYLE = {
    Verdict.AGREE: "bold green",
    Verdict.MISMATCH: "bold red",
    Verdict.CRASH: "bold red",
    Verdict.HANG: "bold red",
    Verdict.NONDETERMINISTIC: "bold red",
    Verdict.UNVERIFIED: "bold yellow",
    Verdict.INVALID: "bold yellow",
}
STACK = re.compile(r"Fatal Python error|Current thread|Thread 0x")
FATAL = re.compile(r"F\d{4} ")  # how absl logs what it dies of
NOT_OF_PASSES = ("--json", "--bounds", "--through")  # options of `assay check`, each with a value
OF_LLO_DIFF = ("--case", "--flag", "--inputs", "--option", "--seed", "--target", "--timeout", "--toolchain")
FLAGS = ("--verbose", "-v")
MANY_OUTPUTS = 24  # of agreeing outputs a table shows no more than this


def render(report: Report, width: int = 140) -> str:
    """The report as plain text."""
    stream = io.StringIO()
    show(report, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


def show(report: Report, console: Console, verbose: bool = False) -> None:
    """Prints `report`: one verdict line first; tables for what is worth a table, or for everything with `verbose`."""
    console.print(verdict_line(report), soft_wrap=True)
    for case in report.cases:
        if verbose or len(report.cases) == 1 or case.verdict != Verdict.AGREE or case.notes:
            _show_case(case, console, heading=len(report.cases) > 1, verbose=verbose)
    if report.verdict == Verdict.MISMATCH and (command := passes_command(report.command)):
        console.print(Text(f"which pass: {command}"), soft_wrap=True)
        if below := llo_command(report.command):
            console.print(Text(f"which LLO pass: {below}"), soft_wrap=True)


def passes_command(command: str) -> str:
    """The `assay passes` that looks for the pass behind what this `assay check` found; empty for any other command.

    The report goes where it was shown: `--json` would write over that of the check. Snapshots are of HLO, whatever the
    check looked `--through`.
    """
    return _instead(command, ["passes"], lambda option: option not in NOT_OF_PASSES)


def llo_command(command: str) -> str:
    """The `assay llo diff` that looks for the LLO pass behind what this `assay check` found; empty for a check that did
    not look at LLO.
    """
    looked = " --through llo" in command or " --through=llo" in command
    return _instead(command, ["llo", "diff"], lambda option: option in OF_LLO_DIFF) if looked else ""


def _instead(command: str, name: Sequence[str], kept: Callable[[str], bool]) -> str:
    """Another command in place of `assay check`, with the options that are to be kept; all but FLAGS have a value."""
    words = shlex.split(command)
    if words[:2] != ["assay", "check"]:
        return ""
    found: list[str] = []
    rest = iter(words[2:])
    for word in rest:
        option, equals, _ = word.partition("=")
        if not word.startswith("-") or word in FLAGS or kept(option):
            found.append(word)
        elif not equals:
            next(rest, None)
    return shlex.join(["assay", *name, *found])


def verdict_line(report: Report) -> Text:
    worst = report.worst
    line = Text()
    line.append(str(worst.verdict).upper(), style=STYLE[worst.verdict])
    if worst.klass is not None:
        line.append(f" {worst.klass}", style="bold")
    line.append(f"  {report.program}  on {report.target} ({report.toolchain})")
    line.append(_terms(report))
    line.append(f": {_summary(report)}")
    return line


def _terms(report: Report) -> str:
    """By what it was judged, where that is not the usual."""
    said = [f"policy {report.policy}" if report.policy else ""]
    said.append(f"{report.accumulation} accumulation" if report.accumulation != "probable" else "")
    said.append(f"{report.bounds} bounds" if report.bounds != "auto" else "")
    terms = ", ".join(part for part in said if part)
    return f" by {terms}" if terms else ""


def _summary(report: Report) -> str:
    worst, cases = report.worst, report.cases
    if worst.verdict == Verdict.AGREE:
        outputs = [o for c in cases for o in c.outputs]
        elements, undecided = sum(o.elements for o in outputs), sum(o.undecided for o in outputs)
        text = f"{_count(elements - undecided, 'element')} of {_count(len(outputs), 'output')} inside the bound"
        if undecided:
            text += f", {undecided} undecided"
        return f"{text}, {len(cases)} cases" if len(cases) > 1 else text
    text = worst.why
    if worst.outputs and EXIT_CODE[worst.verdict] == 1:
        bad = max(worst.outputs, key=lambda o: (o.outside, o.drift is not None))
        wrong = f"{bad.outside} of {bad.elements} elements of output {bad.index} are wrong"
        if not bad.outside and bad.drift is not None:
            wrong = _drift(bad)
        text = "; ".join(part for part in (text, wrong, bad.pattern) if part)
    if len(cases) == 1:
        return text
    code = EXIT_CODE[worst.verdict]
    alike = sum(EXIT_CODE[case.verdict] == code for case in cases)
    what = _count(alike, "finding") if code == 1 else f"{alike} not judged"
    return f"{what} in {len(cases)} cases; {worst.name}: {text}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show_case(case: CaseResult, console: Console, heading: bool, verbose: bool) -> None:
    if heading:
        line = Text("\n")
        line.append(str(case.verdict), style=STYLE[case.verdict])
        line.append(f"  {case.name}" + (f"  [{case.inputs}]" if case.inputs else ""))
        if case.why:
            line.append(f": {case.why}")
        console.print(line, soft_wrap=True)
    if case.outputs:
        shown = case.outputs
        if not verbose and len(shown) > MANY_OUTPUTS:
            shown = (
                tuple(o for o in shown if o.outside or o.undecided or o.drift is not None)[:MANY_OUTPUTS]
                or shown[:MANY_OUTPUTS]
            )
        console.print(_table(shown))
        if len(shown) < len(case.outputs):
            console.print(f"{len(case.outputs) - len(shown)} more outputs; --verbose shows them")
        for output in shown:
            if output.outside:
                console.print(Text(_where(output)), soft_wrap=True)
            elif output.drift is not None:
                console.print(Text(_drift(output)), soft_wrap=True)
    show_remarks(case.notes, case.stderr_tail, console)


def show_remarks(notes: tuple[str, ...], stderr_tail: tuple[str, ...], console: Console) -> None:
    """What stands below a case: its notes, and what the compiler said before it ended."""
    for note in notes:
        console.print(Text(f"note: {note}"), soft_wrap=True)
    if stderr_tail:
        console.print("last lines of the compiler:")
        for text in _last_words(stderr_tail):
            console.print(Text(f"  {text}"), soft_wrap=True)


def _last_words(lines: tuple[str, ...]) -> list[str]:
    """What the compiler said before it ended: the check that failed, if there is one, and a few lines up to the end.

    The Python stack that follows is our worker's, and tells something only where the compiler said nothing.
    """
    end = next((at for at, line in enumerate(lines) if STACK.match(line)), len(lines))
    said = lines[:end]
    if not said:
        return [line for line in lines if line.strip().startswith('File "')][:3]  # where it stood, innermost first
    reason = [at for at, line in enumerate(said) if "Check failed" in line or FATAL.match(line)]
    start = max(0, len(said) - 6)
    return [said[at] for at in sorted({*reason[-2:], *range(start, len(said))})]


def _table(outputs: tuple[OutputResult, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("output", "shape"):
        table.add_column(name, overflow="fold")
    for name in ("elements", "outside", "undecided", "masked", "worst ulp", "worst/bound"):
        table.add_column(name, justify="right")
    for o in outputs:
        table.add_row(
            f"{o.index} {o.name}".strip(),
            f"{o.dtype}[{','.join(map(str, o.shape))}]",
            str(o.elements),
            Text(str(o.outside), style="red" if o.outside else ""),
            str(o.undecided),
            str(o.masked),
            _figure(o.worst_ulp),
            _figure(o.worst_bound),
        )
    return table


def _where(output: OutputResult) -> str:
    """What is wrong with an output, and where: `low:high` with an exclusive end, as in XLA's slices."""
    value = f"{output.peak_target}, the reference has {output.peak_reference}"
    text = f"output {output.index}: {value}"
    if output.shape:
        box_ = ", ".join(str(low) if low == high else f"{low}:{high + 1}" for low, high in output.box or ())
        text = f"output {output.index}: wrong in [{box_}]; worst at {list(output.peak or ())}: {value}"
    return f"{text}; pattern: {output.pattern}" if output.pattern else text


def _drift(output: OutputResult) -> str:
    """A systematic error: no element is wrong for certain, all of them together are."""
    assert output.drift is not None
    assert output.drift_allowed is not None
    side = "far from" if output.drift > 0 else "close to"
    return (
        f"output {output.index}: elements are {abs(output.drift):.2%} too {side} zero on average, and rounding "
        f"explains {output.drift_allowed:.2%} at most"
    )


def _figure(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf"
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.3g}"
