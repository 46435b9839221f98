"""The answers of a bisection on disk, as lines of an `assay.journal`:

{"adding": "jax==0.6.2"}                              about to be installed by this bisection, so its to remove
{"removed": "jax==0.6.2"}                             it did
{"version": "0.6.2", "verdict": "absent", ...}        an answer
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from assay import journal
from assay.toolchain.bisect.search import Verdict
from assay.toolchain.bisect.trial import Check, Trial
from assay.toolchain.environments import cache_folder


class Journal:
    """A context manager. trials: the answers known, by version. added: specs that this bisection has installed."""

    def __init__(self, path: Path, question: str, resume: bool) -> None:
        self.path = path
        self.trials: dict[str, Trial] = {}
        self.added: list[str] = []
        self._lines = journal.Journal(path, question, "assay bisect")
        self._take_in()
        kept = [line for line in self._lines.found if line.get("version", "") in ("", *self.trials)]
        if not resume:
            self.trials, kept = {}, [{"adding": spec} for spec in self.added]  # what is its to remove stays so
        self._lines.begin(kept)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lines.__exit__(kind, error, at)

    def adding(self, spec: str) -> None:
        self.added.append(spec)
        self._lines.write({"adding": spec})

    def removed(self, spec: str) -> None:
        self.added = [other for other in self.added if other != spec]
        self._lines.write({"removed": spec})

    def answered(self, trial: Trial) -> None:
        self.trials[trial.version] = trial
        self._lines.write(asdict(trial))

    def _take_in(self) -> None:
        for line in self._lines.found:
            if "adding" in line:
                self.added.append(line["adding"])
            elif "removed" in line:
                self.added = [spec for spec in self.added if spec != line["removed"]]
            else:
                trial = Trial(**{**line, "verdict": Verdict(line["verdict"])})
                self.trials[trial.version] = trial
        for version in [version for version, trial in self.trials.items() if trial.verdict is Verdict.SKIPPED]:
            del self.trials[version]  # it may do better this time


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
