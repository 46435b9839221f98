"""What was found out, on disk as it comes: one JSON line each, safe before the next is begun.

    {"question": "...", "schema": 1}      what is asked; a journal of another question is not taken
    {...}                                 an answer, in words of its owner's

A line that was cut short by a kill is dropped. The file is locked while somebody writes to it.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from assay.errors import AssayError, InputError

SCHEMA = 1
_BEGINNING = b'{"question": '


class Journal:
    """A context manager. found: the lines of an earlier run with the same question, which `begin` keeps or drops."""

    def __init__(self, path: Path, question: str, whose: str) -> None:
        self.path = path
        self.question = question
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+", encoding="utf-8")  # noqa: SIM115, closed by __exit__
        except OSError as error:
            where = f"{error.filename}: {error.strerror}"
            raise AssayError(f"{where}; set ASSAY_CACHE to a folder that can be written") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise InputError(f"{path}: another {whose} with the same question is running") from error
        self.found = self._read()
        if not self.found and self._foreign():
            self._file.close()
            raise InputError(f"{path}: a file that {whose} did not write; name another, or remove it")

    def _foreign(self) -> bool:
        """Whether the file has something else in it than a journal, of whatever question."""
        with self.path.open("rb") as file:
            first = file.readline()
        return not (first.startswith(_BEGINNING) or _BEGINNING.startswith(first))

    def another(self) -> str | None:
        """The other question that the file is a journal of, and that `begin` would write over; None where it is not."""
        with self.path.open("rb") as file:
            first = file.readline()
        try:
            found = json.loads(first)["question"] if first.endswith(b"\n") else self.question
        except (ValueError, KeyError, TypeError):
            return None
        return None if found == self.question else str(found)

    def begin(self, kept: list[dict[str, Any]]) -> None:
        """Starts the file anew, with these lines."""
        beside = self.path.with_suffix(".new")
        lines = [{"question": self.question, "schema": SCHEMA}, *kept]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        beginning = self.path.with_suffix(".beginning")
        beginning.write_text(text)
        os.replace(beginning, beside)  # whole, before the old is given up
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text)
        self._sync()
        beside.unlink()

    def write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._sync()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> list[dict[str, Any]]:
        """The lines but the first that can be used. What `begin` did not finish is in a file beside."""
        beside = self.path.with_suffix(".new")
        return self._lines(beside if beside.exists() else self.path)

    def _lines(self, path: Path) -> list[dict[str, Any]]:
        lines = []
        for text in path.read_bytes().split(b"\n")[:-1]:  # a last line without its end was cut short
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue  # the same, where the file system put it back together
        return lines[1:] if lines and lines[0] == {"question": self.question, "schema": SCHEMA} else []
