"""A file that is executed in every worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.checking.api import Request, open_worker
from assay.errors import ToolchainError


@pytest.mark.parametrize("ends", ["os.abort()", "os.kill(os.getpid(), 9)"])
def test_one_that_ends_its_worker_is_told_by_name(tmp_path: Path, ends: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"import os\n{ends}\n")
    with pytest.raises(ToolchainError, match=r"ended while it executed .*mine\.py: (SIGABRT|killed)"):
        open_worker(Request(preload=file), lambda _: None).__enter__()
