"""What `assay reduce` made, as data, as JSON, as text, and as a folder of its own.

small.hlo      the program that is left, as XLA's text
inputs.npz     what it is run on
report.json    what it shows, and what it was made of
README.md      how to see it again
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.inputs.arguments import save_arguments
from assay.reference.value import Array

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ReductionReport:
    """One program. before, after: instructions of all computations; elements: of all their results. finished: whether
    nothing was left to try when it ended. results: where the target is wrong at its worst, in words.
    """

    source: str
    program: str
    target: str
    toolchain: str
    inputs: str
    verdict: str
    klass: str
    pass_: str
    opcodes: tuple[str, ...]
    before: int
    after: int
    elements_before: int
    elements_after: int
    tries: int
    seconds: float
    finished: bool
    command: str = ""
    results: tuple[str, ...] = ()


def as_dict(report: ReductionReport, files: Sequence[Path] = (), proof: str = "") -> dict[str, Any]:
    """`pass` and `class` by those names. files: what was written."""
    found = asdict(report)
    found["class"], found["pass"] = found.pop("klass"), found.pop("pass_")
    return {"schema": SCHEMA, **found, "files": [str(path) for path in files], "proof": proof}


def to_json(report: ReductionReport, files: Sequence[Path] = (), proof: str = "") -> str:
    return json.dumps(as_dict(report, files, proof), indent=1) + "\n"


def show(report: ReductionReport, console: Console, files: Sequence[Path] = (), proof: str = "") -> None:
    where = f", made wrong by {report.pass_}" if report.pass_ else ""
    opcodes = f" ({', '.join(report.opcodes)})" if report.opcodes else ""
    console.print(f"{report.program}: {report.klass or report.verdict}{where}{opcodes}", soft_wrap=True, markup=False)
    share = "" if report.finished else "; the time was over, --time gives more"
    console.print(
        f"{report.before} instructions before, {report.after} after; {report.elements_before} elements before, "
        f"{report.elements_after} after; {report.tries} tries in {report.seconds:.0f} s{share}",
        soft_wrap=True,
        markup=False,
    )
    for line in (*report.results, *(f"written: {path}" for path in files), *([proof] if proof else [])):
        console.print(line, soft_wrap=True, markup=False)


def write_folder(
    folder: Path, module: Module, arguments: Sequence[Array], report: ReductionReport, options: Mapping[str, str]
) -> list[Path]:
    """The files of a reproducer. Raises InputError where they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = write_module(folder / "small.hlo", module, arguments, folder / "inputs.npz")
        readme, data = folder / "README.md", folder / "report.json"
        data.write_text(to_json(report, found))
        readme.write_text(_readme(report, bool(arguments), options))
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror}; name another place with -o") from error
    return [*found, data, readme]


def write_module(path: Path, module: Module, arguments: Sequence[Array], inputs: Path) -> list[Path]:
    """The module, and beside it its arguments where it takes any. Raises InputError where they cannot be written."""
    try:
        path.write_text(print_for_compiler(module))
        if not arguments:
            inputs.unlink(missing_ok=True)  # of an earlier run
            return [path]
        save_arguments(inputs, arguments)
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}; name another place with -o") from error
    return [path, inputs]


def _readme(report: ReductionReport, takes: bool, options: Mapping[str, str]) -> str:
    words = ["assay", "check", "small.hlo", "--target", report.target, *(["--inputs", "inputs.npz"] if takes else [])]
    words += [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    where = f" It is made wrong by {report.pass_}." if report.pass_ else ""
    lines = [
        f"# {report.program}: {report.klass or report.verdict}",
        "",
        f"{report.toolchain}, target {report.target}, reduced from {report.before} instructions to {report.after}."
        f"{where}",
        "",
        *(f"- {line}" for line in report.results),
        *([""] if report.results else []),
        f"    {shlex.join(words)}",
        "",
    ]
    return "\n".join(lines)
