"""The loop of a campaign on one target: batches over several processes, what is wrong triaged between them, findings
stored as they come.

The invariant: a batch counts as done only after everything it showed is stored or told; so a campaign that is killed at
any moment and begun again does at most those batches over that were under way, and stores nothing twice.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessPool

from assay.campaign.row import Row, Tally
from assay.campaign.screen import Batch, Screen, Suspect
from assay.campaign.settings import Members, Settings, is_wide
from assay.campaign.triage import Limits, Triaged, triage
from assay.checking import api
from assay.errors import AssayError
from assay.oracle.verdict import Verdict
from assay.store.api import Campaign, Filters, Store
from assay.store.finding import Finding
from assay.toolchain.outcomes import one_line

LOUD = (Verdict.CRASH, Verdict.HANG)
BATCH_S = 900.0
"""Seconds after which a batch, or a triage, is given up: our own failure, and told as such."""
REQUEST_S = 90.0
"""Seconds of one request to the compiler, and of one evaluation: a generated program takes one second, and one that
hangs is not to cost an hour.
"""
TRIES = 2
"""Of a batch whose process ended."""
Telling = Callable[["Progress"], None]


@dataclass(slots=True)
class Progress:
    """What a campaign has come to. done: batches, by number. full: findings by what they are called before they are
    reduced; buckets: theirs. told: why suspects were not stored, with how often. corpus: see `Members`. reached,
    passes: features and passes, with the second in which they were first seen. waiting: features of batches of an epoch
    that is not over, with the choices of the programs that reached them. found: (second, id, bucket).
    """

    done: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    full: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    buckets: dict[str, str] = field(default_factory=dict)
    corpus: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    reached: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    waiting: dict[int, list[tuple[str, tuple[int, ...]]]] = field(default_factory=dict)
    seconds: float = 0.0
    found: list[tuple[float, str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "done": _ranges(self.done),
            "verdicts": {str(v): n for v, n in self.tally.verdicts.items()},
            "reasons": dict(self.tally.reasons.most_common(40)),
            "finite": self.tally.finite,
            "constant": self.tally.constant,
            "full": dict(self.full),
            "told": dict(self.told),
            "buckets": self.buckets,
            "corpus": [[since, list(choices)] for since, choices in self.corpus],
            "reached": self.reached,
            "passes": self.passes,
            "waiting": {str(b): [[f, list(c)] for f, c in entries] for b, entries in self.waiting.items()},
            "seconds": self.seconds,
            "found": [list(entry) for entry in self.found],
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Progress:
        if not data:
            return Progress()
        verdicts = Counter({Verdict(v): n for v, n in data["verdicts"].items()})
        return Progress(
            {n for low, high in data["done"] for n in range(low, high)},
            Tally(verdicts, Counter(data["reasons"]), data["finite"], data["constant"]),
            Counter(data["full"]),
            Counter(data["told"]),
            dict(data["buckets"]),
            [(since, tuple(choices)) for since, choices in data["corpus"]],
            dict(data["reached"]),
            dict(data["passes"]),
            {int(b): [(f, tuple(c)) for f, c in entries] for b, entries in data["waiting"].items()},
            data["seconds"],
            [(s, i, b) for s, i, b in data["found"]],
        )


def _ranges(numbers: set[int]) -> list[tuple[int, int]]:
    """[(0, 5), (7, 8)] for 0 to 4 and 7."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


# ---- what a process of the pool does

_screen: tuple[api.Request, Screen] | None = None


def screened(settings: Settings, corpus: list[tuple[int, tuple[int, ...]]], number: int, snapshots: bool) -> Batch:
    """One batch, in a process that keeps its worker for the next."""
    global _screen
    request = request_of(settings)
    if _screen is None or _screen[0] != request:
        _screen = request, Screen.of(request)
    batch = Members(settings, corpus).batch(number)
    try:
        return _screen[1].judged(batch, is_wide(number), snapshots)
    except AssayError:
        raise
    except Exception as error:  # the campaign goes on, and tells it
        _screen[1].close()
        _screen = None
        return Batch([Row(member.number, Verdict.UNVERIFIED, fault(error)) for member in batch], [])


def triaged(suspect: Suspect, wide: bool, settings: Settings, limits: Limits, full: dict[str, int]) -> Triaged:
    try:
        return triage(suspect, wide, settings, request_of(settings), limits, full)
    except AssayError as error:
        return Triaged(suspect.member.number, "", why=f"not triaged: {error}")
    except Exception as error:  # the campaign goes on, and tells it
        return Triaged(suspect.member.number, "", why=f"not triaged: {fault(error)}")


def fault(error: Exception) -> str:
    """A fault of our own, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"a fault of assay: {type(error).__name__}: {one_line(str(error))} ({Path(last.filename).name}:{last.lineno})"
    )


def request_of(settings: Settings) -> api.Request:
    return api.Request(
        target=settings.target,
        toolchain=settings.toolchain,
        options=settings.options,
        flags=settings.flags,
        timeout_s=REQUEST_S,
        reference_timeout_s=REQUEST_S,
        preload=Path(settings.preload) if settings.preload else None,
    )


# ---- the loop


@dataclass(slots=True)
class Loop:
    """deadline: of time.monotonic(), or None. programs: how many in all, or None."""

    settings: Settings
    store: Store
    jobs: int
    deadline: float | None
    programs: int | None
    limits: Limits = field(default_factory=Limits)
    progress: Progress = field(default_factory=Progress)
    campaign: Campaign = field(init=False)
    _open: dict[int, int] = field(default_factory=dict)  # suspects left to triage, by batch
    _rows: dict[int, Batch] = field(default_factory=dict)
    _silent: deque[tuple[int, Suspect]] = field(default_factory=deque)
    _loud: deque[tuple[int, Suspect]] = field(default_factory=deque)
    _tries: Counter[int] = field(default_factory=Counter)
    _again: deque[int] = field(default_factory=deque)
    _started: float = 0.0
    _before: float = 0.0

    def __post_init__(self) -> None:
        self.campaign = self.store.campaign(self.settings.seed, self.settings.as_dict())
        self.progress = Progress.of(self.campaign.progress)

    @property
    def finished(self) -> bool:
        """Whether there is no program left."""
        size = self.settings.batch
        return self.programs is not None and len(self.progress.done) * size >= self.programs

    @property
    def seconds(self) -> float:
        """Of all sittings."""
        return self._before + (time.monotonic() - self._started if self._started else 0.0)

    def run(self, telling: Telling) -> Iterator[Finding]:
        """Findings as they are stored. Raises AssayError where a process cannot begin, StoreError where the store ends;
        what is done by then is kept.
        """
        self._before, self._started = self.progress.seconds, time.monotonic()
        pool = ProcessPool(max_workers=self.jobs, context=multiprocessing.get_context("spawn"))
        running: dict[Future[Any], tuple[str, int, Suspect | None]] = {}
        numbers = self._numbers()
        try:
            while True:
                while len(running) < self.jobs:
                    if (task := self._next(numbers)) is None:
                        break
                    running[self._schedule(pool, task)] = task
                if not running:
                    return
                for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                    yield from self._ended(running.pop(future), future)
                    telling(self.progress)
        finally:
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()

    def _schedule(self, pool: ProcessPool, task: tuple[str, int, Suspect | None]) -> Future[Any]:
        kind, batch, suspect = task
        if kind == "batch":
            corpus = list(self.progress.corpus)
            snapshots = batch % SNAPSHOTS_EVERY == 0
            return pool.schedule(screened, args=[self.settings, corpus, batch, snapshots], timeout=BATCH_S)
        args = [suspect, is_wide(batch), self.settings, self.limits, dict(self.progress.full)]
        return pool.schedule(triaged, args=args, timeout=BATCH_S)

    def _numbers(self) -> Iterator[int | None]:
        """Batches to do, in order; None where an epoch must end first: what comes depends on the last but one."""
        number, size = 0, self.settings.epoch
        while self.programs is None or number * self.settings.batch < self.programs:
            epoch = number // size
            before = range(max(epoch - 2, 0) * size, max(epoch - 1, 0) * size)
            while any(n not in self.progress.done for n in before):
                yield None
            if number not in self.progress.done:
                yield number
            number += 1

    def _next(self, numbers: Iterator[int | None]) -> tuple[str, int, Suspect | None] | None:
        """Wrong results first, then batches, then what crashes and everybody sees."""
        if self._silent:
            batch, suspect = self._silent.popleft()
            return "triage", batch, suspect
        if self._again:
            return "batch", self._again.popleft(), None
        late = self.deadline is not None and time.monotonic() > self.deadline
        number = None if late else next(numbers, None)
        if number is not None:
            return "batch", number, None
        if self._loud:
            batch, suspect = self._loud.popleft()
            return "triage", batch, suspect
        return None

    def _ended(self, task: tuple[str, int, Suspect | None], future: Future[Any]) -> Iterator[Finding]:
        kind, batch, _ = task
        try:
            found = future.result()
        except (ProcessExpired, TimeoutError) as death:
            self._lost(kind, batch, death)
            return
        if kind == "batch":
            self._rows[batch] = found
            self._open[batch] = len(found.suspects)
            for each in found.suspects:
                (self._loud if each.case.verdict in LOUD else self._silent).append((batch, each))
        else:
            yield from self._stored(found)
            self._open[batch] -= 1
        if self._open[batch] == 0:
            self._done(batch)

    def _lost(self, kind: str, batch: int, death: BaseException) -> None:
        """A process of ours ended: the batch is tried again, and then left; it is no finding."""
        self._tries[batch] += 1
        why = f"assay's own process ended ({type(death).__name__})"
        if kind == "triage":
            self.progress.told[why] += 1
            self._open[batch] -= 1
        elif self._tries[batch] < TRIES:
            self._again.append(batch)
            return
        else:
            first = self.settings.batch * batch
            self._rows[batch] = Batch([Row(first + i, Verdict.UNVERIFIED, why) for i in range(self.settings.batch)], [])
            self._open[batch] = 0
        if self._open[batch] == 0:
            self._done(batch)

    def _stored(self, found: Triaged) -> Iterator[Finding]:
        what = f"{self.campaign.id}/{found.number}"
        if found.finding is None:
            self.progress.told[found.why] += 1
            if found.early in self.progress.buckets:
                self.store.sighted(self.progress.buckets[found.early], what)
            return
        finding = _with_campaign(found.finding, self.campaign.id, self.seconds)
        if (bucket := self.store.bucket(finding.bucket)) is not None and bucket.stored >= self.limits.kept:
            self.progress.told["enough of its kind"] += 1
            self.store.sighted(finding.bucket, what)
            return
        is_new = self.store.add(finding, found.artifacts, what)
        self.progress.full[found.early] += 1
        self.progress.buckets.setdefault(found.early, finding.bucket)
        if is_new:
            mine = self.store.findings(Filters(campaign=self.campaign.id))
            stored = next(f for f in mine if f.origin.number == found.number)
            self.progress.found.append((round(self.seconds, 1), stored.id, stored.bucket))
            yield stored

    def _done(self, batch: int) -> None:
        found = self._rows.pop(batch)
        del self._open[batch]
        self.progress.done.add(batch)
        self.progress.tally.add(found.rows)
        self.progress.seconds = round(self.seconds, 1)
        new = sorted((f, choices) for f, choices in found.reached.items() if f not in self.progress.reached)
        self.progress.waiting[batch] = new
        self._end_epoch(batch // self.settings.epoch)
        for name in found.passes:
            self.progress.passes.setdefault(name, self.progress.seconds)
        self.campaign.save(self.progress.as_dict())

    def _end_epoch(self, epoch: int) -> None:
        """Takes what its batches reached into the corpus, in their order and not in that in which they ended."""
        numbers = range(epoch * self.settings.epoch, (epoch + 1) * self.settings.epoch)
        if any(n not in self.progress.done for n in numbers):
            return
        taken: dict[tuple[int, ...], None] = {}  # one program may be the first to reach several
        for number in numbers:
            for feature, choices in self.progress.waiting.pop(number, []):
                if feature not in self.progress.reached:
                    self.progress.reached[feature] = self.progress.seconds
                    if choices:
                        taken[choices] = None
        self.progress.corpus += [(epoch + 2, choices) for choices in taken]


SNAPSHOTS_EVERY = 8
"""One batch in so many is compiled with a snapshot after every pass, to see which passes change anything."""


def _with_campaign(finding: Finding, campaign: str, seconds: float) -> Finding:
    return replace(finding, origin=replace(finding.origin, campaign=campaign), seconds=round(seconds, 1))
