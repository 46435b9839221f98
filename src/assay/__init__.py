"""assay tells whether XLA compiled a program correctly and, when it did not, which elements are wrong.

assay.check(fn_or_path, *args, target="cpu", ...) -> Report
assay.assert_correct(fn, *args)                       # in a test of your own
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.checking.api import assert_correct, check
    from assay.errors import AssayError
    from assay.report.result import Report

__all__ = ["AssayError", "Report", "assert_correct", "check"]

_WHERE = {
    "AssayError": "assay.errors",
    "Report": "assay.report.result",
    "assert_correct": "assay.checking.api",
    "check": "assay.checking.api",
}


def __getattr__(name: str) -> Any:
    # On demand, so that one room can be imported without the others.
    if name not in _WHERE:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
