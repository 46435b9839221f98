"""python -m assay.conformance DIR [--json FILE] [--filter RE]

Exit code 0: every file passed, or its expectation is shown to be off; 1: a file failed; 2: none failed, but one could
not be judged, or there was nothing to judge.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.cli.progress import Progress
from assay.conformance.run import run
from assay.conformance.summary import as_json, exit_code, show
from assay.errors import AssayError, InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. What went wrong with the command itself is told in one line on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m assay.conformance",
        description="Evaluate StableHLO's test files in the reference and compare with what they expect.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder of .mlir files, searched to the bottom")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every file's outcome here as JSON")
    parser.add_argument("--filter", metavar="RE", default="", help="only files whose name matches this expression")
    parser.add_argument("--verbose", "-v", action="store_true", help="a line for every file, passed or not")
    options = parser.parse_args(arguments)
    try:
        if options.json is not None and not options.json.absolute().parent.is_dir():
            raise InputError(f"--json {options.json}: no such folder {options.json.absolute().parent}")
        with Progress() as progress:
            result = run(options.folder, _pattern(options.filter), progress.step)
        if options.json is not None:
            options.json.write_text(as_json(result))
    except AssayError as error:
        print(f"assay.conformance: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"assay.conformance: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    show(result, options.verbose)
    return exit_code(result)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(f"--filter {text}: not a regular expression: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
