"""What the answers in a journal are answers to, so that an earlier run's are taken for the same question alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from assay.checking.api import Request
from assay.errors import InputError
from assay.programs.load import parse_source


def question(source: str, request: Request, toolchain: str, more: object) -> str:
    """The program with its inputs, by which compiler, and how it is asked; not what may be spent on it.

    toolchain: its versions in words. more: of the command's own options, what decides an answer. Raises ProgramError
    and InputError where a file cannot be read.
    """
    path = parse_source(source).path
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    files += [file for file in (request.inputs, request.preload) if file is not None]
    try:
        seen = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error
    decisive = replace(request, memory_limit=0, timeout_s=0.0, reference_timeout_s=0.0)
    return "\n".join([source.rpartition("/")[2], toolchain, repr(decisive), repr(more), *seen])


def file_name(question: str) -> str:
    """Of the journal with its answers."""
    return f"{hashlib.sha256(question.encode()).hexdigest()[:16]}.jsonl"
