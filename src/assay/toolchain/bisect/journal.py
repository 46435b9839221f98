"""The answers on disk: one JSON line each, written before the next question is asked.

    {"question": "...", "schema": 1}                      what is asked; a journal of another question is not taken
    {"adding": "jax==0.6.2"}                              about to be installed by this bisection, so its to remove
    {"removed": "jax==0.6.2"}                             it did
    {"version": "0.6.2", "verdict": "absent", ...}        an answer

A line that was cut short by a kill is dropped. The file is locked while a bisection writes to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from assay.errors import AssayError, InputError
from assay.toolchain.bisect.search import Verdict
from assay.toolchain.bisect.trial import Check, Trial
from assay.toolchain.environments import cache_folder

SCHEMA = 1


class Journal:
    """A context manager. trials: the answers known, by version. added: specs that this bisection has installed."""

    def __init__(self, path: Path, question: str, resume: bool) -> None:
        self.path = path
        self.trials: dict[str, Trial] = {}
        self.added: list[str] = []
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
            raise InputError(f"{path}: another assay bisect with the same question is running") from error
        kept = self._read(question)
        if not resume:
            self.trials, kept = {}, [{"adding": spec} for spec in self.added]  # what is its to remove stays so
        self._file.seek(0)
        self._file.truncate()
        self._write({"question": question, "schema": SCHEMA})
        for line in kept:
            self._write(line)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def adding(self, spec: str) -> None:
        self.added.append(spec)
        self._write({"adding": spec})

    def removed(self, spec: str) -> None:
        self.added = [other for other in self.added if other != spec]
        self._write({"removed": spec})

    def answered(self, trial: Trial) -> None:
        self.trials[trial.version] = trial
        self._write(asdict(trial))

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, question: str) -> list[dict[str, Any]]:
        """The lines but the first that can be used; they are taken in as well."""
        self._file.seek(0)
        lines = []
        for text in self._file.read().split("\n")[:-1]:  # a last line without its end was cut short
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue  # the same, where the file system put it back together
        if not lines or lines[0] != {"question": question, "schema": SCHEMA}:
            return []
        for line in lines[1:]:
            if "adding" in line:
                self.added.append(line["adding"])
            elif "removed" in line:
                self.added = [spec for spec in self.added if spec != line["removed"]]
            else:
                trial = Trial(**{**line, "verdict": Verdict(line["verdict"])})
                self.trials[trial.version] = trial
        skipped = [version for version, trial in self.trials.items() if trial.verdict is Verdict.SKIPPED]
        for version in skipped:  # it may do better this time
            del self.trials[version]
        return [line for line in lines[1:] if line.get("version") not in skipped]


def journal_path(axis: str, check: Check) -> tuple[Path, str]:
    """Where the answers to a question are kept, and the question: the command, and what is in each file it names."""
    seen = [f"{axis}: {check}"]
    for word in check.words:
        path = Path(word.rpartition(":")[0] or word) if ".py:" in word else Path(word)
        if path.is_file():
            seen.append(f"{path.absolute()} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    question = "\n".join(seen)
    name = hashlib.sha256(question.encode()).hexdigest()[:16]
    return cache_folder().parent / "bisect" / f"{axis}-{name}.jsonl", question
