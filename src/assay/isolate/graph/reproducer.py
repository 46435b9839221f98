"""A finding as a folder of its own.

piece.hlo      the piece as a module, optimized and scheduled as it is in the graph
inputs.npz     what it is run on
report.json    what was found
README.md      how to see it again
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from assay.checking.api import Request
from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.inputs.arguments import save_arguments
from assay.isolate.graph.tpu_form import FLAGS
from assay.oracle.verdict import MismatchClass
from assay.report.isolation import PieceResult, as_dict


def write(out: Path, piece: Module | None, row: PieceResult, request: Request, toolchain: str) -> Path:
    """The folder of a finding, in `out`. piece: None where it has no form of its own; the README says so. Raises
    InputError where the folder cannot be written.
    """
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in row.name)
    folder = out / f"{name}-{row.key[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if piece is not None:
            (folder / "piece.hlo").write_text(print_for_compiler(piece))
        if row.arguments:
            save_arguments(folder / "inputs.npz", row.arguments)
        (folder / "report.json").write_text(json.dumps(as_dict(row), indent=1) + "\n")
        (folder / "README.md").write_text(_readme(piece is not None, row, request, toolchain))
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror}; name another folder with --out") from error
    return folder


def _readme(alone: bool, row: PieceResult, request: Request, toolchain: str) -> str:
    words = ["assay", "check", "piece.hlo", "--target", request.target]
    words += ["--inputs", "inputs.npz"] if row.arguments else []
    words += [] if request.toolchain is None else ["--toolchain", request.toolchain]
    words += ["--through", "llo", *(f"--flag={flag}" for flag in FLAGS)] if request.target.startswith("tpu") else []
    words += ["--policy", "strict"] if row.klass is MismatchClass.EXCESS_PRECISION else []
    words += [word for name, value in request.options.items() for word in ("--option", f"{name}={value}")]
    again = "It has no form that stands alone; report.json says how it was found."
    again = f"    {shlex.join(words)}" if alone else again
    lines = [
        f"# {row.name} ({row.opcode}): {row.klass or row.verdict}",
        "",
        f"{toolchain}, target {request.target}; {row.outside} of {row.elements} elements outside the reference's bounds"
        f" on `{row.inputs}`{'; ' + row.pattern if row.pattern else ''}{'; ' + row.why if row.why else ''}.",
        "",
        again,
        "",
    ]
    if row.identical is False:
        lines += ["The compiler makes another kernel of it alone than in the whole graph.", ""]
    return "\n".join(lines)
