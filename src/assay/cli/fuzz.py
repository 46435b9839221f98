"""assay fuzz: generated programs against a compiler, until the time is over."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from assay.checking.api import TARGETS
from assay.cli.options import Flag, Json, Option, flags_of, options_of, seconds_of
from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress as Lines
from assay.errors import InputError, StoreError
from assay.oracle.verdict import FINDINGS, Verdict

if TYPE_CHECKING:
    from assay.campaign.run import Progress
    from assay.campaign.settings import Settings
    from assay.store.finding import Finding

EVERY_S = 15.0


def command(
    target: Annotated[
        list[str] | None, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}. Repeatable; they take turns.")
    ] = None,
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.12.0.1; the jax beside assay if not given.")
    ] = None,
    time_: Annotated[str | None, typer.Option("--time", help="How long, e.g. 30m or 1h; all targets together.")] = None,
    programs: Annotated[int | None, typer.Option(min=1, help="How many programs, of each target.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Of the programs; the same seed gives the same ones.")
    ] = 0,
    operations: Annotated[str, typer.Option(help="Operations of a program, from-to.")] = "2-12",
    ops: Annotated[
        str | None, typer.Option(help="Only these operations or families, e.g. slice,scatter_add,indexing.")
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="Programs of this template: a name of `assay templates list`, or a TOML file. Repeatable."),
    ] = None,
    list_ops: Annotated[bool, typer.Option("--list-ops", help="Show operations and families, and end.")] = False,
    store: Annotated[
        str | None,
        typer.Option(help="Where findings go: a folder or a database's URL; see `assay findings list --help`."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the campaign of this seed.")] = False,
    through: Annotated[str, typer.Option(help="Without a device, what runs: hlo or llo; see assay check.")] = "hlo",
    preload: Annotated[
        Path | None, typer.Option(help="A Python file that every worker executes first; it may register passes.")
    ] = None,
    option: Option = None,
    flag: Flag = None,
    json: Json = None,
) -> None:
    """Generate programs, compile them, check every result against the reference, and trace, reduce and store what is
    wrong.

    Exit code 0: nothing found. 1: a finding. 2: nothing could be judged, or what is wrong is still to be followed.
    """
    if list_ops:
        _list()
        return
    from assay.campaign import api
    from assay.campaign.settings import Settings
    from assay.report.campaign import as_json, exit_code, show

    refuse_json(json)
    low, high = _operations(operations)
    seconds = None if time_ is None else seconds_of(time_)
    if seconds == 0:
        raise InputError(f"--time {time_}: no time at all; write one such as 30s, 5m or 1h")
    named = tuple(word.strip() for word in (ops or "").split(",") if word.strip())
    if ops is not None and not named:
        raise InputError("--ops: no operation is named; `assay fuzz --list-ops` has them")
    chosen = tuple(map(_template, template or ()))
    if chosen and ops:
        raise InputError("--template and --ops: a template has its own operations; give one of them")
    campaigns = [
        Settings(
            seed,
            name,
            toolchain,
            operations=(low, high),
            ops=named,
            templates=chosen,
            options=options_of(option),
            flags=flags_of(flag),
            preload=str(preload or ""),
            through=through,
        )
        for name in dict.fromkeys(target or ["cpu"])
    ]
    options = api.Options(seconds, programs, jobs, resume)
    with Board(resume) as board:
        try:
            reports = api.fuzz(campaigns, store, options, api.Watch(board.begin, board.row, board.found))
        except KeyboardInterrupt:
            board.interrupted()
            raise typer.Exit(130) from None
        except StoreError as error:
            raise StoreError(f"{error}{'; go on with --resume' if board.begun else ''}") from error
    deliver(json, lambda: as_json(reports), lambda console: show(reports, console))
    raise typer.Exit(exit_code(reports))


def _operations(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high <= 1000:
        raise InputError(f"--operations {text}: write how many a program has, such as 10 or 2-12")
    return low, high


def _template(name: str) -> tuple[str, str]:
    """Its name and text. Raises InputError where it is none."""
    from assay.generate.template_file import find, text_of

    found = find(name)
    return found.name, Path(name).read_text("utf-8") if name.endswith(".toml") else text_of(name)


def _list() -> None:
    from assay.cli.output import console
    from assay.generate.form import REGISTRY

    table = Table("family", "operations", box=None, pad_edge=False)
    families: dict[str, list[str]] = {}
    for form in REGISTRY.forms.values():
        families.setdefault(form.family, []).append(form.name)
    for family, names in families.items():
        table.add_row(family, ", ".join(sorted(names)))
    console().print(table)


def _counted(count: int, noun: str, more: str = "") -> str:
    return f"{count} {noun}{'s' * (count != 1)}{more}"


def _numbers(progress: Progress) -> str:
    return f"program {' and '.join(map(str, progress.following))}"


class Board:
    """How far a campaign is, on standard error: a table on a terminal, elsewhere a line now and then. resume: whether
    one that was begun is expected.
    """

    def __init__(self, resume: bool = False) -> None:
        self._resume = resume
        self._lines = Lines()
        self._live: Live | None = None
        self._title = ""
        self._first = 0.0
        self.begun: dict[str, Progress] = {}  # by target
        self._start = self._told = time.monotonic()

    def __enter__(self) -> Board:
        self._lines.__enter__()
        self._lines.step("starting")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._lines.__exit__(kind, error, at)

    def begin(self, settings: Settings, progress: Progress) -> None:
        self._end()
        self._lines.step("")
        self._title = f"{settings.target}, seed {settings.seed}"
        self._first, self._start = progress.tally.total, time.monotonic()
        if self._resume and settings.target not in self.begun and not progress.done:
            self._print(f"{self._title}: nothing to resume in this store: a campaign is begun")
        self.begun[settings.target] = progress
        if self._lines.console.is_terminal:
            self._live = Live(self._table(progress), console=self._lines.console, refresh_per_second=4, transient=True)
            self._live.start()

    def row(self, progress: Progress) -> None:
        now = time.monotonic()
        if self._live is not None:
            self._live.update(self._table(progress))
        elif now - self._told > EVERY_S:
            self._told = now
            self._print(f"{self._title}: {self._line(progress)}")

    def found(self, finding: Finding) -> None:
        where = " ".join(part for part in (finding.culprit.pass_name, finding.culprit.opcode) if part)
        wrong = f"{finding.outside} of {finding.elements} elements" if finding.outside else finding.why
        self._print(f"{self._title}: {finding.klass or finding.verdict} {where} ({wrong}): {finding.id}")

    def interrupted(self) -> None:
        """Says what is kept."""
        self._end()
        self._lines.step("")
        if not self.begun:
            self._print("interrupted")
            return
        kept = self.begun.values()
        programs, found = sum(p.tally.total for p in kept), sum(len(p.found) for p in kept)
        left = _counted(sum(len(p.suspects) for p in kept), "wrong program", " to follow")
        what = f"{_counted(programs, 'program')}, {_counted(found, 'finding')} and {left} are kept"
        self._print(f"interrupted; {what}: go on with --resume")

    def _print(self, text: str) -> None:
        self._lines.console.print(f"assay: {text}", markup=False, soft_wrap=True)

    def _line(self, progress: Progress) -> str:
        counts = progress.tally.verdicts
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
        total, stored = progress.tally.total, len(progress.found)
        waiting = f", {len(progress.suspects)} to follow" if progress.suspects else ""
        if progress.following:
            waiting += f", now {_numbers(progress)}"
        return f"{total} programs: {said or 'none yet'}; {self._pace(progress)}; {stored} stored{waiting}"

    def _pace(self, progress: Progress) -> str:
        seconds = time.monotonic() - self._start
        return f"{(progress.tally.total - self._first) / max(seconds, 1e-3):.1f} a second"

    def _table(self, progress: Progress) -> Table:
        table = Table("", self._title, box=None, pad_edge=False)
        table.add_row("programs", f"{progress.tally.total}, {self._pace(progress)}")
        for verdict in Verdict:
            if count := progress.tally.verdicts[verdict]:
                style = "green" if verdict is Verdict.AGREE else "red" if verdict in FINDINGS else "yellow"
                table.add_row(str(verdict), str(count), style=style)
        for why, count in progress.tally.reasons.most_common(3):
            table.add_row("", f"{count}  {why}", style="dim")
        table.add_row("stored", f"{len(progress.found)} in {len({b for _, _, b in progress.found})} buckets")
        if progress.suspects:
            now = f", now {_numbers(progress)}" if progress.following else ""
            table.add_row("to follow", f"{len(progress.suspects)}{now}")
        table.add_row("reached", f"{len(progress.reached)} features, {len(progress.passes)} passes")
        return table

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
