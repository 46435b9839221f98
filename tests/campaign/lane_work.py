"""What the tests' lanes do."""

from __future__ import annotations

import os
import time
from pathlib import Path

from assay.errors import HloSyntaxError, StoreError


def refuse() -> None:
    raise StoreError("full")


def refuse_with_more() -> None:
    raise HloSyntaxError("what is that", 3, 4)


def wait_and_tell(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(1000)
