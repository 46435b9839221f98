"""Many pieces over several processes; one that ends a process is charged to itself and to no other.

The invariant: each task gives one row, whatever became of the others.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice

from pebble import ProcessExpired, ProcessPool

from assay.errors import AssayError
from assay.isolate.graph.tasks import Judging, Setup, Task, unjudged
from assay.report.isolation import PieceResult

AHEAD = 2
"""Tasks that wait for each process, so that none is idle."""

_judging: Judging | None = None
_setup: Setup | None = None


def rows(setup: Setup, tasks: Iterable[Task], jobs: int) -> Iterator[PieceResult]:
    """The row of each task as soon as it is there, by `jobs` processes of this machine.

    A piece that ends its process is judged once more in a fresh one, and then left unverified. Raises AssayError where
    a process cannot begin.
    """
    todo = iter(tasks)
    pool = ProcessPool(
        max_workers=jobs, context=multiprocessing.get_context("spawn"), initializer=_begin, initargs=[setup]
    )
    tried: dict[str, int] = {}
    running: dict[Future[PieceResult | str], Task] = {}
    try:
        while True:
            for task in islice(todo, jobs * AHEAD - len(running)):
                running[pool.schedule(judge, args=[task])] = task
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                row = _row(future, task, tried)
                if row is None:
                    running[pool.schedule(judge, args=[task])] = task
                else:
                    yield row
        pool.close()  # type: ignore[no-untyped-call]
    finally:
        pool.stop()  # type: ignore[no-untyped-call]  # nothing is running, or nobody waits for it
        pool.join()


def _row(future: Future[PieceResult | str], task: Task, tried: dict[str, int]) -> PieceResult | None:
    """None where the task is to be tried again."""
    try:
        found = future.result()
    except ProcessExpired as death:
        tried[task.key] = tried.get(task.key, 0) + 1
        if tried[task.key] < 2:
            return None
        return unjudged(task, f"the process that judged it ended, twice (exit code {death.exitcode})")
    if isinstance(found, str):
        raise AssayError(found)
    return found


def _begin(setup: Setup) -> None:
    global _setup
    _setup = setup


def judge(task: Task) -> PieceResult | str:
    """In a process of the pool: the row, or why the process cannot begin."""
    global _judging
    assert _setup is not None
    if _judging is None:
        try:
            _judging = Judging.of(_setup)
        except AssayError as error:
            return str(error)
    try:
        return _judging.judge(task)
    except AssayError as error:
        return unjudged(task, str(error))
