"""Processes that work for a campaign, each with a pipe of its own, so that what ends one of them, at whatever moment,
holds up no other.

They end with the process that began them, however that ends; what they leave in temporary folders goes as well.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from assay.errors import AssayError


class Gone(Exception):
    """The process of a lane ended in place of an answer; the lane takes work again. killed: whether somebody else ended
    it, such as the system where memory was short.
    """

    def __init__(self, killed: bool) -> None:
        super().__init__(killed)
        self.killed = killed


@dataclass(eq=False, slots=True)
class Lane:
    """One process, begun when there is work."""

    folder: str
    _process: BaseProcess | None = None
    _pipe: Connection | None = None

    def begin(self, work: Callable[..., Any], arguments: Iterable[Any]) -> None:
        """Has it do this; then `answered` says when it is done, and `answer` what came of it."""
        if self._process is None or not self._process.is_alive():
            self.stop()
            self._start()
        assert self._pipe is not None
        with contextlib.suppress(OSError):  # it ended this moment: the answer says so
            self._pipe.send((work, tuple(arguments)))

    def answer(self) -> Any:
        """Raises Gone, and what the work raised."""
        assert self._pipe is not None
        assert self._process is not None
        try:
            good, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(1.0)
            killed = self._process.exitcode == -signal.SIGKILL
            self.stop()
            raise Gone(killed) from error
        if not good:
            raise value
        return value

    def stop(self) -> None:
        """Ends the process at once; its work is given up."""
        if self._process is None or self._pipe is None:
            return
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()
        self._process = self._pipe = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # Not a daemon: what it isolates may have processes of its own.
        self._process = context.Process(target=_work, args=(theirs, self.folder), name="assay-fuzz")
        self._process.start()
        theirs.close()


@dataclass(slots=True)
class Lanes:
    """So many lanes; a context manager, which ends them all."""

    count: int
    _folder: tempfile.TemporaryDirectory[str] = field(init=False)
    _lanes: list[Lane] = field(init=False)

    def __post_init__(self) -> None:
        # A process that is killed may still write there while it is removed.
        self._folder = tempfile.TemporaryDirectory(prefix="assay-fuzz-", ignore_cleanup_errors=True)
        self._lanes = [Lane(self._folder.name) for _ in range(self.count)]

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes)

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for lane in self._lanes:
            lane.stop()
        self._folder.cleanup()


def answered(lanes: Iterable[Lane], timeout_s: float) -> list[Lane]:
    """Those with an answer, waited for at most so long."""
    pipes = {lane._pipe: lane for lane in lanes if lane._pipe is not None}
    return [pipes[pipe] for pipe in wait(list(pipes), timeout_s)]  # type: ignore[index]


def _work(pipe: Connection, folder: str) -> None:
    """What the process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the campaign, which ends this
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            work, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            answer = True, work(*arguments)
        except Exception as error:
            answer = False, _portable(error)
        pipe.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """An error that another process can read."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its own class makes of it
        return AssayError(f"{type(error).__name__}: {error}")
    return error
