"""What became of one generated program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from assay.oracle.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """number: of the program in its campaign. operations, elements: its size. finite: whether all its results are;
    constant: whether all of them are one value each. `refused` counts as the verdict `invalid`.
    """

    number: int
    verdict: Verdict
    why: str = ""
    klass: str = ""
    operations: int = 0
    elements: int = 0
    finite: bool = True
    constant: bool = False

    @property
    def reason(self) -> str:
        """Why it could not be judged; "" where it was."""
        return self.why[:120] if self.verdict in (Verdict.UNVERIFIED, Verdict.INVALID) else ""


@dataclass(slots=True)
class Tally:
    """How many programs came to what. reasons: of what could not be judged."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    finite: int = 0
    constant: int = 0

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.verdicts[row.verdict] += 1
            if row.reason:
                self.reasons[row.reason] += 1
            self.finite += row.finite
            self.constant += row.constant

    @property
    def total(self) -> int:
        return sum(self.verdicts.values())
