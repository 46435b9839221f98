"""Bisection over releases: in which release did a verdict change?

The idea: releases stand in a row; a check says of each whether a bug is present or absent; the search asks for as few
as it can, installs them as it goes, and writes down every answer at once.

The invariant: a change is reported between two releases that were both run. What was not run is never spoken for,
except by the one assumption that is printed with the result.

    releases   the row: which releases there are and what each takes to install
    search     which release to ask next; knows nothing of releases, only of positions
    trial      one answer: a command run against one toolchain
    journal    the answers on disk, one JSON line each, so that a killed run goes on
    run        all of it together: installs, prunes, asks, reports
"""

from assay.toolchain.bisect.releases import AXES, Release, row_of
from assay.toolchain.bisect.run import Bisection, Question, bisect
from assay.toolchain.bisect.search import Change, Verdict
from assay.toolchain.bisect.trial import Check, Trial, parse_check

__all__ = [
    "AXES",
    "Bisection",
    "Change",
    "Check",
    "Question",
    "Release",
    "Trial",
    "Verdict",
    "bisect",
    "parse_check",
    "row_of",
]
