"""Finds out what a path holds, and reads it with the toolchain's own eyes.

Whatever needs jax or jaxlib (tracing a function, reading protos and StableHLO) happens in the worker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from assay.errors import HloTypeError, ProgramError
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.types import check_module
from assay.programs.program import Array, Expectation, Program, from_hlo
from assay.toolchain import LoadedCase, RequestRefused, Worker
from assay.toolchain.outcomes import one_line
from assay.toolchain.session import Kind, Platform

MLIR_BYTECODE = b"ML\xefR"
DUMP_NAME = re.compile(r"^(?P<module>module_\d+\..*?)\.(?:[a-z0-9_]+_)?before_optimizations(?:\.(?:hlo|txt|pb))*$")


class Source(NamedTuple):
    """A path and, after a colon, the function meant in it."""

    path: Path
    function: str | None


def parse_source(text: str) -> Source:
    """`train.py:step` -> (train.py, step). Raises ProgramError where there is no such path."""
    path, colon, function = text.rpartition(":")
    if colon and path.endswith(".py"):
        source = Source(Path(path), function)
        if not function.isidentifier():
            raise ProgramError(f"{text}: {function!r} is not a function name; write FILE.py:NAME")
    else:
        source = Source(Path(text), None)
    if not source.path.exists():
        raise ProgramError(f"{source.path}: no such file or folder")
    return source


def load(
    text: str,
    worker: Worker,
    arguments: Sequence[Array] | None = None,
    case: str | None = None,
    platform: Platform = "cpu",
    scheduled: bool = False,
) -> list[Program]:
    """The programs that `text` names.

    arguments: given by the user for a function without example_args(). case: a glob of the cases to take. platform:
    what jax lowers a function for. scheduled: whether HLO may be a module that is optimized and scheduled already,
    which is then compiled as it is.
    Raises ProgramError or a subclass for what cannot be read; a case that fails alone becomes a Program with a
    `problem`.
    """
    source = parse_source(text)
    if case is not None and (source.path.suffix != ".py" or source.function is not None):
        raise ProgramError(f"{text}: only a Python file with cases() has cases to choose from; leave --case out")
    if source.path.is_dir():
        return _dump_folder(source.path, worker)
    if source.path.suffix == ".py":
        return _python(source, worker, arguments, case, platform)
    data = _read(source.path)
    return [_module(source.path, data, worker, platform if scheduled else None)]


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from error
    if not data.strip():
        raise ProgramError(f"{path}: the file is empty")
    return data


def _python(
    source: Source, worker: Worker, arguments: Sequence[Array] | None, case: str | None, platform: Platform
) -> list[Program]:
    cases = () if case is None else (case,)
    loaded = worker.load(source.path, source.function, arguments, cases, platform=platform)
    if not loaded.cases:
        what = f"no case matches {case!r}" if case else "cases() yields nothing"
        raise ProgramError(f"{source.path}: {what}")
    prefix = source.path.name
    return [
        _case(f"{prefix}: {c.name}" if source.function is None else str(c.name), c, loaded.rtol) for c in loaded.cases
    ]


def _case(name: str, case: LoadedCase, rtol: float | None) -> Program:
    if case.error is not None:
        return Program(name, problem=str(case.error))
    expected = None if case.expected is None else Expectation(case.expected, rtol or 0.0)
    notes = []
    if case.expected_error is not None:
        notes.append(f"the file's expectation was not compared: {case.expected_error}")
    if case.plain_error is not None:
        notes.append(f"Pallas cannot interpret its kernels: {one_line(case.plain_error)}")
    return from_hlo(
        name,
        case.hlo,
        case.stablehlo,
        "stablehlo",
        arguments=tuple(argument.value for argument in case.arguments),
        output_names=tuple(result.path for result in case.results),
        expected=expected,
        plain=parse_module(case.plain, source=name) if case.plain else None,
        notes=tuple(notes),
    )


def _module(path: Path, data: bytes, worker: Worker, scheduled_for: Platform | None = None) -> Program:
    """One module in any of the forms that XLA and jax write."""
    if looks_like_hlo(data):
        text = _decode(path, data)
        module = parse_module(text, source=str(path))
        if module.scheduled:
            if scheduled_for is not None:
                as_is: Kind = "hlo-text" if scheduled_for == "tpu" else "hlo-optimized"
                return Program(path.name, print_for_compiler(module).encode(), as_is, module)
            raise ProgramError(
                f"{path}: this HLO is scheduled, as it is after optimization, so there are no passes to look at; give "
                "the module as it was before, e.g. jit(f).lower(...).compiler_ir('hlo').as_hlo_text()"
            )
        try:
            check_module(module)
        except HloTypeError as error:
            raise ProgramError(f"{path}: {error}") from error
        # Not the text as it stands: jaxlib reads a constant of -0 as 0.
        return Program(path.name, print_for_compiler(module).encode(), "hlo-text", module)
    if looks_like_stablehlo(data):
        return from_hlo(path.name, _convert(path, data, "stablehlo", worker), data, "stablehlo")
    kinds: tuple[Kind, ...] = ("export", "hlo-proto") if path.suffix == ".bin" else ("hlo-proto", "export")
    for kind in kinds:
        try:
            return from_hlo(path.name, worker.to_hlo(data, kind), data, kind)
        except RequestRefused:
            continue
    raise ProgramError(
        f"{path}: neither HLO text, an HLO proto, StableHLO nor a jax.export artifact that this toolchain reads; "
        "is the file whole?"
    )


def _convert(path: Path, data: bytes, kind: Kind, worker: Worker) -> str:
    try:
        return worker.to_hlo(data, kind)
    except RequestRefused as error:
        raise ProgramError(f"{path}: the toolchain cannot read this {kind}: {error}") from error


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: not text at byte {error.start}; a binary file?") from error


def looks_like_hlo(data: bytes) -> bool:
    """HLO text: the first words that are no comment are `HloModule`, or a computation begins."""
    head = re.sub(rb"^(\s|//[^\n]*\n|/\*.*?\*/)*", b"", data[:65536], flags=re.S)
    return head.startswith((b"HloModule", b"ENTRY ", b"%"))


def looks_like_stablehlo(data: bytes) -> bool:
    """StableHLO: MLIR bytecode, or text that begins as MLIR does."""
    head = re.sub(rb"^(\s|//[^\n]*\n)*", b"", data[:65536])
    return data.startswith(MLIR_BYTECODE) or head.startswith((b"module", b"#", b"func.func", b'"builtin.module"', b"!"))


def _dump_folder(folder: Path, worker: Worker) -> list[Program]:
    """Every module of an --xla_dump_to folder, as it stood before optimization; the proto where there is one, it is
    whole.
    """
    chosen: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        found = DUMP_NAME.match(path.name)
        if found and (found["module"] not in chosen or path.suffix == ".pb"):
            chosen[found["module"]] = path
    if not chosen:
        raise ProgramError(
            f"{folder}: no module_*.before_optimizations.* in this folder; dump with "
            "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'"
        )
    programs = []
    for path in chosen.values():
        try:
            programs.append(_module(path, _read(path), worker))
        except ProgramError as error:
            programs.append(Program(path.name, problem=str(error)))
    return programs
