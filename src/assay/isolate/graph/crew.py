"""Many pieces over several processes; one that ends a process is charged to itself and to no other.

The invariant: each task gives one row, whatever became of the others. Processes are those of a pool on this machine, or
Ray's on many; what they do is the same (`judge`).
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from pebble import ProcessExpired, ProcessPool

from assay.errors import AssayError, InputError
from assay.isolate.graph.tasks import Judging, Setup, Task, unjudged
from assay.report.isolation import PieceResult

AHEAD = 2
"""Tasks that wait for each process, so that none is idle."""
TRIES = 2
"""Of a piece that ends its process, which another may have weakened."""

Judge = Callable[[Setup, Task], PieceResult | str]

_judging: tuple[Setup, Judging] | None = None


def judge(setup: Setup, task: Task) -> PieceResult | str:
    """The row of a task, or why this process cannot begin. What the setup needs is kept for the next task."""
    global _judging
    if _judging is None or _judging[0] != setup:
        try:
            _judging = setup, Judging.of(setup)
        except AssayError as error:
            return str(error)
    try:
        return _judging[1].judge(task)
    except AssayError as error:
        return unjudged(task, str(error))


def rows(setup: Setup, tasks: Iterable[Task], jobs: int, judge: Judge = judge) -> Iterator[PieceResult]:
    """The row of each task as soon as it is there, by `jobs` processes of this machine.

    A piece that ends its process is judged once more in a fresh one, and then left unverified. Raises AssayError where
    a process cannot begin.
    """
    todo = iter(tasks)
    pool = ProcessPool(max_workers=jobs, context=multiprocessing.get_context("spawn"))
    tries: dict[str, int] = {}
    running: dict[Future[PieceResult | str], Task] = {}

    def begin(task: Task) -> None:
        tries[task.key] = tries.get(task.key, 0) + 1
        running[pool.schedule(judge, args=[setup, task])] = task

    try:
        while True:
            for task in islice(todo, jobs * AHEAD - len(running)):
                begin(task)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                try:
                    yield _row(future.result())
                except ProcessExpired as death:
                    if tries[task.key] < TRIES:
                        begin(task)
                    else:
                        yield _ended(task, f"exit code {death.exitcode}")
    except BrokenProcessPool as broken:
        raise AssayError("the processes that judge pieces end before they begin; is there memory left?") from broken
    finally:
        pool.stop()  # type: ignore[no-untyped-call]  # nothing is running, or nobody waits for it
        pool.join()


def rows_on_ray(setup: Setup, tasks: Iterable[Task], address: str, judge: Judge = judge) -> Iterator[PieceResult]:
    """As `rows`, by as many processes as the Ray cluster at `address` has CPUs (`local` for one of this machine's own).

    The machines need assay and the toolchain that is asked for, and see the same files. Raises InputError where Ray is
    not installed or does not answer.
    """
    ray = _ray(address)
    try:
        remote = ray.remote(max_retries=0)(judge)
        given = ray.put(setup)
        todo, tries = iter(tasks), dict[str, int]()
        running: dict[Any, Task] = {}

        def begin(task: Task) -> None:
            tries[task.key] = tries.get(task.key, 0) + 1
            running[remote.remote(given, task)] = task

        while True:
            cpus = int(ray.cluster_resources().get("CPU", 1))
            for task in islice(todo, cpus * AHEAD - len(running)):
                begin(task)
            if not running:
                break
            for reference in ray.wait(list(running), num_returns=1)[0]:
                task = running.pop(reference)
                try:
                    yield _row(ray.get(reference))
                except ray.exceptions.RayError as death:
                    if tries[task.key] < TRIES:
                        begin(task)
                    else:
                        yield _ended(task, type(death).__name__)
    finally:
        ray.shutdown()


def _ray(address: str) -> Any:
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.exceptions")
    except ImportError:
        raise InputError("--ray: Ray is not installed; pip install 'assay-xla[ray]'") from None
    place = {"include_dashboard": False} if address == "local" else {"address": address}
    try:
        ray.init(**place, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--ray {address}: {' '.join(str(error).split())[:200]}") from error
    return ray


def _row(found: PieceResult | str) -> PieceResult:
    if isinstance(found, str):
        raise AssayError(found)
    return found


def _ended(task: Task, how: str) -> PieceResult:
    return unjudged(task, f"the process that judged it ended, {TRIES} times ({how})")
