"""Agreement in which nothing is compared: every element is NaN or infinite on both sides because the arguments are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.oracle.verdict import Verdict
from assay.programs.program import Array
from assay.report.result import CaseResult

WHY = "nothing is compared: every element is NaN or infinite, as the arguments make it"


def is_blank(elements: int, undecided: int, masked: int, arguments: Sequence[Array]) -> bool:
    """Whether no element is evidence, some for being NaN or infinite, and some argument is so as well."""
    return masked > 0 and undecided + masked == elements and not all(map(_finite, arguments))


def blank(case: CaseResult) -> bool:
    """Whether a case that agrees compares nothing, and its arguments are the cause."""
    if case.verdict is not Verdict.AGREE or (case.masked is not None and not case.masked.argument):
        return False
    elements, undecided, masked = (
        sum(getattr(o, n) for o in case.outputs) for n in ("elements", "undecided", "masked")
    )
    return is_blank(elements, undecided, masked, case.arguments)


def _finite(array: Array) -> bool:
    if array.dtype.kind in "biu":
        return True
    return bool(np.isfinite(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)).all())
