"""The result of a check: a `Report` of cases, a case of outputs. Frozen data; nothing here compares or prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.oracle.intent import Masked
from assay.oracle.verdict import EXIT_CODE, MismatchClass, Verdict, most_severe


@dataclass(frozen=True, slots=True)
class OutputResult:
    """One output array of one case, judged.

    elements = agreeing + outside + undecided. masked elements (the reference is NaN or infinite, and the target agrees)
    are among the agreeing. worst_ulp: largest deviation in units in the last place; worst_bound: in units of the bound.
    box: inclusive bounds in each dimension. bound: `ball`, or `ball+sampled` where some elements needed sampling.
    drift: mean relative error of the output, where it is above `drift_allowed`, which is all that rounding explains.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    outside: int
    undecided: int
    masked: int
    worst_ulp: float
    worst_bound: float
    bound: str = "ball"
    box: tuple[tuple[int, int], ...] | None = None
    peak: tuple[int, ...] | None = None
    peak_target: str = ""
    peak_reference: str = ""
    pattern: str | None = None
    drift: float | None = None
    drift_allowed: float | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One program on one set of inputs. `why` explains every verdict but `agree`; `klass` is set for a mismatch
    alone; masked: why elements are NaN or infinite, where some are.
    """

    name: str
    inputs: str
    verdict: Verdict
    why: str = ""
    klass: MismatchClass | None = None
    outputs: tuple[OutputResult, ...] = ()
    notes: tuple[str, ...] = ()
    stderr_tail: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    arguments: tuple[np.ndarray[Any, np.dtype[Any]], ...] = field(default=(), repr=False, compare=False)
    masked: Masked | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All cases of one check.

    policy, accumulation, bounds: by what the target was judged, the first empty where it is the target's own.
    """

    program: str
    target: str
    toolchain: str
    seed: int
    cases: tuple[CaseResult, ...]
    command: str = ""
    policy: str = ""
    accumulation: str = "probable"
    bounds: str = "auto"

    def __str__(self) -> str:
        from assay.report.text import render

        return render(self)

    @property
    def worst(self) -> CaseResult:
        """The case that speaks for the report: a finding before what could not be judged, that before agreement."""
        worst = most_severe(case.verdict for case in self.cases)
        return next(case for case in self.cases if case.verdict == worst)

    @property
    def verdict(self) -> Verdict:
        return self.worst.verdict

    @property
    def exit_code(self) -> int:
        """0: every case agrees; 1: a finding; 2: no finding, but a case could not be judged."""
        return EXIT_CODE[self.verdict]

    @property
    def ok(self) -> bool:
        return self.exit_code == 0
