"""What is being done now, on standard error, for whatever takes longer than a second."""

from __future__ import annotations

import re
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

DELAY_S = 1.0


class Progress:
    """Shows the current step on a terminal; elsewhere a line for each step that lasts, so that a log shows it too."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._text = ""
        self._start = time.monotonic()
        self._status: Status | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self._status is not None:
            self._status.stop()

    def step(self, text: str) -> None:
        self._text, self._start = text, time.monotonic()

    def _watch(self) -> None:
        told = ""
        while not self._stop.wait(0.2):
            text, seconds = self._text, time.monotonic() - self._start
            if not text or (seconds < DELAY_S and self._status is None):
                continue
            if not self.console.is_terminal:
                if (kind := re.sub(r"\d+", "", text)) != told:  # one line for all steps of a count
                    self.console.print(f"assay: {text} ...", soft_wrap=True, markup=False)
                    told = kind
                continue
            line = f"{text} ({seconds:.0f} s)" if seconds >= DELAY_S else text
            if self._status is None:
                self._status = self.console.status(line)
                self._status.start()
            self._status.update(line)
