"""One answer: a command run against one toolchain, and what its exit code says.

    assay check, assay passes   their own codes: 1 the bug is present, 0 it is absent, else it cannot be told
    any other command           as C-Reduce and git bisect have it: 0 interesting, the bug is present; 1 it is absent;
                                125 it cannot be told

`{toolchain}`, `{python}` and `{program}` in its words are replaced, and ASSAY_TOOLCHAIN and ASSAY_PYTHON are set. A
code that has no meaning here (a signal, 2 of a script that fails) tells nothing, so that a broken script is no verdict.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assay.errors import InputError
from assay.toolchain.bisect.search import Verdict
from assay.toolchain.environments import Toolchain
from assay.toolchain.outcomes import one_line

SKIP_CODE = 125  # git bisect's
OURS = ("check", "passes")
OWN_CODES = {0: Verdict.ABSENT, 1: Verdict.PRESENT}
SCRIPT_CODES = {0: Verdict.PRESENT, 1: Verdict.ABSENT, SKIP_CODE: Verdict.SKIPPED}
ASSAY = (sys.executable, "-m", "assay.cli.main")
VERDICT_LINE = re.compile(
    r"([A-Z_ ]+?)  \S.*?  on \S+ \(.*?\).*?: (.*)"
)  # of assay, without what is the same everywhere
TOLD = 160  # characters of what a check said that are kept


@dataclass(frozen=True)
class Check:
    """words: the command, with placeholders. ours: whether it is one of assay's own. timeout_s: of each run."""

    words: tuple[str, ...]
    ours: bool
    timeout_s: float

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass(frozen=True)
class Trial:
    """What one release answered. said: the check's own words, or why it was skipped. seconds: of the check alone."""

    version: str
    spec: str
    verdict: Verdict
    seconds: float
    said: str
    installed_s: float = 0.0  # 0 where it was there already


def parse_check(command: str, program: str | None, timeout_s: float = 3600.0) -> Check:
    """`assay check ...`, `assay passes ...`, or any command; raises InputError where it is none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--check {command}: {error}") from error
    if not words:
        raise InputError("--check: the command is empty")
    if any("{program}" in word for word in words) and program is None:
        raise InputError("--check: {program} is in it, but no PROGRAM is given")
    words = [word.replace("{program}", program or "") for word in words]
    if os.path.basename(words[0]) == "assay":
        if len(words) < 2 or words[1] not in OURS:
            raise InputError(
                f"--check {command}: of assay's commands, {' and '.join(OURS)} tell whether a bug is there"
            )
        if not any("{toolchain}" in word for word in words):
            if any(word == "--toolchain" or word.startswith("--toolchain=") for word in words):
                raise InputError("--check: write --toolchain {toolchain}, or leave it out: it is set for each release")
            words += ["--toolchain", "{toolchain}"]
        return Check(("assay", *words[1:]), True, timeout_s)
    found = shutil.which(words[0])
    if found is None and not words[0].startswith("{python}"):
        hint = "; make it executable (chmod +x)" if Path(words[0]).exists() else ""
        raise InputError(f"--check: {words[0]} is not a command that can be run{hint}")
    return Check((os.path.abspath(found) if found else words[0], *words[1:]), False, timeout_s)


def try_it(check: Check, toolchain: Toolchain) -> tuple[Verdict, str]:
    """The verdict, and what was said, in one line."""
    words = [w.replace("{toolchain}", toolchain.spec).replace("{python}", toolchain.python) for w in check.words]
    env = {**os.environ, "ASSAY_TOOLCHAIN": toolchain.spec, "ASSAY_PYTHON": toolchain.python}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [*ASSAY, *words[1:]] if check.ours else words
        code = _run(command, env, out.fileno(), err.fileno(), check.timeout_s)
        said, complained = _lines(out), _lines(err)
    if code is None:
        return Verdict.SKIPPED, f"the check was not done in {check.timeout_s:g} s"
    verdict = (OWN_CODES if check.ours else SCRIPT_CODES).get(code, Verdict.SKIPPED)
    if verdict is not Verdict.SKIPPED:
        return verdict, (said or [""])[0 if check.ours else -1]
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    # assay prints a verdict first, and an error last; a script says why at its end
    complained = [line for line in complained if "this is a fault of assay itself" not in line]
    why = said[:1] or complained[-1:] if check.ours else said[-1:] or complained[-1:]
    return verdict, (why or [f"the check ended with {ended}"])[0]


def _run(command: Sequence[str], env: dict[str, str], out: int, err: int, timeout_s: float) -> int | None:
    """The exit code; None if it took too long. Whatever it started is ended with it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True)
    try:
        return child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _lines(file: IO[bytes]) -> list[str]:
    """The last lines of what was written, each short."""
    file.seek(0)
    text = file.read().decode(errors="replace")
    return [one_line(VERDICT_LINE.sub(r"\1: \2", line.strip()), TOLD) for line in text.splitlines() if line.strip()]
