"""The words of a judgement: what a verdict says, and why a mismatch may be benign."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What assay says of one program on one target; `unverified` and `invalid` come with a reason."""

    AGREE = "agree"
    MISMATCH = "mismatch"
    CRASH = "crash"
    HANG = "hang"
    NONDETERMINISTIC = "nondeterministic"
    UNVERIFIED = "unverified"
    INVALID = "invalid"


class MismatchClass(StrEnum):
    """What explains a mismatch. All but MISCOMPILE name a liberty that some allow a compiler; none hides it."""

    EXCESS_PRECISION = "EXCESS_PRECISION"
    REASSOCIATION = "REASSOCIATION"
    BRANCH_FLIP = "BRANCH_FLIP"
    SORT_TIE = "SORT_TIE"
    PARTIAL_WRITE = "PARTIAL_WRITE"
    RNG = "RNG"
    FLUSHED_SUBNORMAL = "FLUSHED_SUBNORMAL"
    MISCOMPILE = "MISCOMPILE"


MEANING: dict[Verdict, str] = {
    Verdict.AGREE:            "every decided element is one that a correct compiler may produce",
    Verdict.MISMATCH:         "some elements are none that a correct compiler may produce",
    Verdict.CRASH:            "the compiler, or the program it made, ended the process",
    Verdict.HANG:             "the compiler, or the program it made, did not end in time",
    Verdict.NONDETERMINISTIC: "two runs of the same executable on the same input differ",
    Verdict.UNVERIFIED:       "there is no independent reference to judge by",
    Verdict.INVALID:          "the program or its input is not well formed",
}  # fmt: skip

CLASS_MEANING: dict[MismatchClass, str] = {
    MismatchClass.EXCESS_PRECISION:  "a declared rounding was skipped",
    MismatchClass.REASSOCIATION:     "a sum or product was taken in another order",
    MismatchClass.BRANCH_FLIP:       "rounding decided a comparison the other way",
    MismatchClass.SORT_TIE:          "equal keys came out in another order",
    MismatchClass.PARTIAL_WRITE:     "the element lies in a region that the program never wrote",
    MismatchClass.RNG:               "the element depends on a generator that is the target's own",
    MismatchClass.FLUSHED_SUBNORMAL: "a subnormal was read or written as zero",
    MismatchClass.MISCOMPILE:        "no liberty of the compiler explains it",
}  # fmt: skip

EXIT_CODE: dict[Verdict, int] = {
    Verdict.AGREE:            0,
    Verdict.MISMATCH:         1,
    Verdict.CRASH:            1,
    Verdict.HANG:             1,
    Verdict.NONDETERMINISTIC: 1,
    Verdict.UNVERIFIED:       2,
    Verdict.INVALID:          2,
}  # fmt: skip

FINDINGS = frozenset(verdict for verdict, code in EXIT_CODE.items() if code == 1)
"""What is put down to the compiler."""

# A finding outranks doubt, doubt outranks agreement.
_SEVERITY = (
    Verdict.CRASH,
    Verdict.HANG,
    Verdict.MISMATCH,
    Verdict.NONDETERMINISTIC,
    Verdict.INVALID,
    Verdict.UNVERIFIED,
    Verdict.AGREE,
)


def gravity(verdict: Verdict) -> int:
    """The larger, the sooner it is to be looked at."""
    return -_SEVERITY.index(verdict)


def most_severe(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that stands for several programs together; `unverified` where there are none: nothing was shown."""
    found = set(verdicts)
    return next((verdict for verdict in _SEVERITY if verdict in found), Verdict.UNVERIFIED)
