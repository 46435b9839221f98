"""assay tells whether XLA compiled a program correctly and, when it did not, which elements are wrong.

    assay.check(fn_or_path, *args, target="cpu", ...) -> Report
    assay.assert_correct(fn, *args)                       # in a test of your own
"""

from assay.check.api import assert_correct, check
from assay.errors import AssayError
from assay.report.result import Report

__all__ = ["AssayError", "Report", "assert_correct", "check"]
