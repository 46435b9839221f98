"""The command line, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from assay.cli.main import main


@pytest.fixture
def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs `assay WORDS`: (exit code, standard output, standard error)."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.fixture
def run_quietly(run_command) -> Callable[..., tuple[int, str, list[str]]]:
    """As `run_command`, with the lines on standard error that are no progress."""

    def run(*words: str) -> tuple[int, str, list[str]]:
        code, out, err = run_command(*words)
        return code, out, [line for line in err.splitlines() if line.strip() and not line.endswith(" ...")]

    return run
