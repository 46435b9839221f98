"""Work for a pool whose processes begin anew, and so have to find it by its name."""

from __future__ import annotations

import os
import signal

from assay.isolate.graph.tasks import Setup, Task
from assay.oracle.verdict import Verdict
from assay.report.isolation import PieceResult


def obedient(setup: Setup, one: Task) -> PieceResult | str:
    """Does what the task's name says."""
    if one.name.startswith("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if one.name.startswith("exits"):
        os._exit(3)
    if one.name == "cannot begin":
        return "there is no such toolchain"
    return PieceResult(one.key, "", one.name, "main", "add", (one.name,), Verdict.AGREE)
