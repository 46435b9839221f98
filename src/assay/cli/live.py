"""How far an isolation is, on standard error: a table on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.live import Live
from rich.table import Table

from assay.cli.progress import Progress
from assay.oracle.verdict import FINDINGS, Verdict
from assay.report.isolation import PieceResult

EVERY_S = 10.0


class Board:
    """A context manager that is a `Watch` of an isolation."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._live: Live | None = None
        self._program = ""
        self._costs: Mapping[str, int] = {}
        self._rows: list[PieceResult] = []
        self._known = 0
        self._start = self._told = time.monotonic()

    def __enter__(self) -> Board:
        self._progress.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_table()
        self._progress.__exit__(kind, error, at)

    def step(self, text: str) -> None:
        self._end_table()
        self._progress.step(text)

    def begin(self, program: str, costs: Mapping[str, int], known: Sequence[PieceResult]) -> None:
        self._progress.step("")
        self._program, self._costs, self._rows, self._known = program, costs, list(known), len(known)
        self._start = self._told = time.monotonic()
        if self._progress.console.is_terminal:
            self._live = Live(self._table(), console=self._progress.console, refresh_per_second=4, transient=True)
            self._live.start()

    def row(self, row: PieceResult) -> None:
        self._rows.append(row)
        now = time.monotonic()
        if row.verdict in FINDINGS:
            what = f"{row.klass}, {row.outside} of {row.elements} elements" if row.klass else row.why
            self._progress.console.print(f"assay: {row.name}: {row.verdict} ({what})", markup=False, soft_wrap=True)
        if self._live is not None:
            self._live.update(self._table())
        elif now - self._told > EVERY_S:
            self._told = now
            self._progress.console.print(f"assay: {self._program}: {self.line()}", markup=False, soft_wrap=True)

    def line(self) -> str:
        """Counts, rate and time left in one line."""
        counts = Counter(row.verdict for row in self._rows)
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
        return f"{len(self._rows)} of {len(self._costs)} pieces: {said}; {self._pace()}"

    def _pace(self) -> str:
        """By cost, since the dear pieces come first."""
        seconds, mine = time.monotonic() - self._start, self._rows[self._known :]
        if not mine:
            return "no piece yet"
        done = sum(self._costs.get(row.key, 0) for row in mine)
        known = sum(self._costs.get(row.key, 0) for row in self._rows[: self._known])
        left = (sum(self._costs.values()) - known - done) * seconds / max(done, 1)
        return f"{len(mine) / max(seconds, 1e-3):.1f} a second, about {left:.0f} s left"

    def _table(self) -> Table:
        table = Table("", self._program, box=None, pad_edge=False)
        counts = Counter(row.verdict for row in self._rows)
        reasons = Counter(row.why for row in self._rows if row.verdict in (Verdict.UNVERIFIED, Verdict.INVALID))
        table.add_row("pieces", f"{len(self._rows)} of {len(self._costs)}, {self._pace()}")
        for verdict in Verdict:
            if counts[verdict]:
                style = "green" if verdict is Verdict.AGREE else "red" if verdict in FINDINGS else "yellow"
                table.add_row(str(verdict), str(counts[verdict]), style=style)
        for why, count in reasons.most_common(4):
            table.add_row("", f"{count}  {why}", style="dim")
        return table

    def _end_table(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
