"""Many programs over several workers, each outcome put down to exactly its own program.

The invariant: the result has one outcome for each job, in the order of the jobs, whatever the other jobs did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from assay.errors import AssayError
from assay.toolchain.environments import Toolchain
from assay.toolchain.outcomes import WorkerDied
from assay.toolchain.process import Limits
from assay.toolchain.session import Worker

Job = TypeVar("Job")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """Of one job: exactly one of `value` (whatever the task returned), `died`, `error` is what happened.

    A crash is reported only if it also happens to the job alone in a fresh process: memory that an earlier job
    corrupted is not this job's fault. seconds: wall time of the attempt that counts.
    """

    index: int
    seconds: float
    value: Value | None = None
    died: WorkerDied | None = None
    error: AssayError | None = None

    @property
    def ok(self) -> bool:
        return self.died is None and self.error is None


def run_many(
    toolchain: Toolchain,
    jobs: Iterable[Job],
    task: Callable[[Worker, Job], Value],
    workers: int = 2,
    flags: Sequence[str] = (),
    limits: Limits | None = None,
    env: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome[Value]]:
    """`task(worker, job)` for each job; outcomes in the order of the jobs.

    A job that crashes a process which had served others is tried once more, alone in a fresh one, and that second
    outcome counts. progress(done, all) is called from the caller's thread. An exception of the task that is neither
    WorkerDied nor an AssayError is a bug of the caller: the rest is stopped and it is raised.
    """
    todo = list(jobs)
    outcomes: list[Outcome[Value] | None] = [None] * len(todo)
    numbers = iter(range(len(todo)))
    lock, changed = threading.Lock(), threading.Condition()
    stop = threading.Event()
    broken: list[BaseException] = []
    crew = [Worker(toolchain, flags, limits, env) for _ in range(max(1, min(workers, len(todo))))] if todo else []

    def attempt(worker: Worker, index: int) -> Outcome[Value]:
        start = time.monotonic()
        try:
            return Outcome(index, time.monotonic() - start, value=task(worker, todo[index]))
        except WorkerDied as died:
            return Outcome(index, time.monotonic() - start, died=died)
        except AssayError as error:
            return Outcome(index, time.monotonic() - start, error=error)

    def work(worker: Worker) -> None:
        try:
            while not stop.is_set():
                with lock:
                    index = next(numbers, None)
                if index is None:
                    return
                fresh = worker.served == 0
                outcome = attempt(worker, index)
                if outcome.died is not None and outcome.died.kind == "crash" and not fresh and not stop.is_set():
                    outcome = attempt(worker, index)
                with changed:
                    outcomes[index] = outcome
                    changed.notify()
        except BaseException as e:
            broken.append(e)
        finally:
            with changed:
                changed.notify()

    threads = [threading.Thread(target=work, args=(w,), daemon=True) for w in crew]
    try:
        for thread in threads:
            thread.start()
        told = 0
        while any(t.is_alive() for t in threads):
            with changed:
                changed.wait(0.1)
            done = sum(o is not None for o in outcomes)
            if progress is not None and done != told:
                progress(done, len(todo))
                told = done
            if broken:
                break
    finally:
        stop.set()
        if any(t.is_alive() for t in threads):  # an exception or Ctrl-C: do not wait for what is running
            for worker in crew:
                worker.kill()
        for thread in threads:
            thread.join()
        for worker in crew:
            worker.close()
    if broken:
        raise broken[0]
    return [o for o in outcomes if o is not None]
