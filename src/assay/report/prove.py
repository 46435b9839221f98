"""Whether an emitted test does what it is for: run a few times, each in a new process of a toolchain's own Python.

A toolchain has no pytest, so this Python's is put beside it. Nothing else of this Python is seen there, assay least of
all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from assay.errors import ToolchainError
from assay.toolchain import Toolchain, resolve

PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli")
NEEDED = 6
"""How many of them there are with every pytest."""
NAME = "test_emitted.py"
TAIL = 12


@dataclass(frozen=True, slots=True)
class Run:
    """outcome: `passed`; `failed`, by an assertion; `skipped`; `error`, by anything else; `crashed`, the process ended;
    `timeout`. detail: the message, or the last lines printed.
    """

    outcome: str
    seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """All runs of one test in one toolchain."""

    toolchain: str
    runs: tuple[Run, ...]

    @property
    def fails(self) -> bool:
        """Whether the test failed, or ended the process, every time."""
        return bool(self.runs) and all(run.outcome in ("failed", "crashed") for run in self.runs)

    @property
    def passes(self) -> bool:
        return bool(self.runs) and all(run.outcome == "passed" for run in self.runs)

    def __str__(self) -> str:
        counts = Counter(run.outcome for run in self.runs)
        found = ", ".join(f"{outcome} {n} of {len(self.runs)}" for outcome, n in counts.most_common())
        return f"{self.toolchain}: {found or 'not run'}"


def prove(text: str, toolchain: str | Toolchain | None, runs: int = 3, timeout_s: float = 300.0) -> Proof:
    """Runs a test file `runs` times in a toolchain, which is added where it is missing. Stops at the first run that is
    unlike the one before, as a test that does not do the same each time is no proof.

    Raises ToolchainError where the toolchain cannot be had, or there is no pytest here.
    """
    found = toolchain if isinstance(toolchain, Toolchain) else resolve(toolchain)
    with tempfile.TemporaryDirectory(prefix="assay-prove-") as name:
        folder = Path(name)
        (folder / NAME).write_text(text)
        _borrow(folder / "borrowed")
        done: list[Run] = []
        while len(done) < runs and len({run.outcome for run in done}) < 2:
            done.append(_once(folder, found.python, timeout_s))
        return Proof(found.spec, tuple(done))


def _borrow(folder: Path) -> None:
    """This Python's pytest and what it needs, all of it plain Python, as links."""
    folder.mkdir()
    count = 0
    for name in PYTEST:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None or spec.origin is None else Path(spec.origin)
        if origin is not None:
            source = origin.parent if origin.name == "__init__.py" else origin
            (folder / source.name).symlink_to(source)
            count += 1
    if count < NEEDED:
        raise ToolchainError("an emitted test is tried with pytest, which this Python has not: pip install pytest")


def _once(folder: Path, python: str, timeout_s: float) -> Run:
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    words = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    words += ["--confcutdir", str(folder), f"--junitxml={report}", NAME]
    start = time.monotonic()
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Run("timeout", time.monotonic() - start, f"no end in {timeout_s:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    outcome, detail = _outcome(report, process.returncode, output)
    return Run(outcome, time.monotonic() - start, detail)


def _environment(folder: Path) -> dict[str, str]:
    ours = ("PYTHON", "XLA_", "JAX_", "LIBTPU_", "TPU_", "PYTEST_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k != "VIRTUAL_ENV"}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(folder / "borrowed"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _outcome(report: Path, code: int, output: str) -> tuple[str, str]:
    tail = "\n".join(output.splitlines()[-TAIL:])
    if code < 0 or not report.exists():
        return ("crashed" if code < 0 or code > 128 else "error"), tail
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    for case in cases:
        for tag in ("error", "failure"):
            problem = case.find(tag)
            if problem is not None:
                message = problem.get("message", "")
                by_assertion = tag == "failure" and message.startswith(("AssertionError", "assert "))
                return ("failed" if by_assertion else "error"), message
    if code != 0 or not cases:
        return "error", tail
    skipped = [case.find("skipped") for case in cases]
    if any(skip is not None for skip in skipped):
        return "skipped", next(skip.get("message", "") for skip in skipped if skip is not None)
    return "passed", ""
