"""The loop of a campaign on one target: batches over several processes, what is wrong triaged between them, findings
stored as they come.

The invariant: a batch counts as done in the moment in which its suspects are noted, and a suspect is noted until it is
stored or told; so a campaign that is stopped or killed at any moment and begun again does at most that over which was
under way, and stores nothing twice.
"""

from __future__ import annotations

import errno
import json
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.campaign.follow import LEAST_S, Followed, Limits
from assay.campaign.lanes import Gone, Lane, Lanes, answered
from assay.campaign.row import Row, Tally
from assay.campaign.screen import Batch, Screen, Suspect, seen_alone
from assay.campaign.settings import Members, Settings, is_wide
from assay.campaign.triage import triage
from assay.checking import api
from assay.errors import AssayError, StoreError, ToolchainError
from assay.oracle.verdict import Verdict
from assay.store.api import Campaign, Filters, Store
from assay.store.finding import Finding
from assay.toolchain.outcomes import one_line

LOUD = (Verdict.CRASH, Verdict.HANG)
BATCH_S = 900.0
"""Seconds after which a batch, or a triage, is given up: our own failure, and told as such."""
REQUEST_S = 90.0
"""Seconds of one request to the compiler: a generated program takes one second, and one that hangs is not to cost an
hour.
"""
REFERENCE_S = 20.0
"""Seconds of one evaluation, or of all sampled ones of a set of inputs: a loop of thousands of rounds is not worth the
hundred programs that are judged meanwhile.
"""
KILLED_TRIES, TRIES, UNSURE_TRIES, SLOW_TRIES = 20, 5, 3, 2
"""Of what was lost with a process that somebody killed, of what ended its process itself, of a suspect that is not seen
again, and of what took too long.
"""
GRACE_S = 20.0
"""Seconds after the end in which what is under way may end."""
AFTER_S = 25.0
"""Seconds before the end by which a reduction is to have ended: its finding is still to be seen again, and tested."""
EXAMPLES, REASONS = 5, 200
"""Programs that are named of those not stored or not judged for one reason, and reasons that have some."""
LOUD_EVERY = 8
"""While there are batches, a crash is followed after so many of them."""
Telling = Callable[["Progress"], None]


@dataclass(slots=True)
class Progress:
    """What a campaign has come to. done: batches, by number. full: findings by what they are called before they are
    reduced, as many as are kept where their bucket has them; buckets: theirs. told: why suspects were not stored, with
    how often; examples: the first programs of those, and of what could not be judged, by the reason. corpus: see
    `Members`. reached, passes: features and passes, with the second in which they were first seen. waiting: features of
    batches of an epoch that is not over, with the choices of the programs that reached them. found: (second, id,
    bucket). suspects: numbers of the programs that are still to be triaged, and whether they are loud; following: those
    that are being triaged now.
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
    examples: dict[str, list[int]] = field(default_factory=dict)
    suspects: dict[int, bool] = field(default_factory=dict)
    following: tuple[int, ...] = ()

    def tell(self, why: str, number: int) -> None:
        """Counts a suspect that is not stored."""
        self.told[why] += 1
        self.example(why, number)

    def example(self, why: str, number: int) -> None:
        """Notes a program, where there are not enough for that reason."""
        known = self.examples.get(why, [])
        if len(known) < EXAMPLES and (known or len(self.examples) < REASONS):
            self.examples[why] = [*known, number]

    def learn(self, batch: int, reached: Mapping[str, tuple[int, ...]], epoch: int) -> None:
        """What a batch that is done reached. Where an epoch of so many batches ends with it, what they reached is taken
        into the corpus: epochs in their order, and in one its batches in theirs, not in that in which they ended.
        """
        self.waiting[batch] = sorted((f, choices) for f, choices in reached.items() if f not in self.reached)
        while self.waiting:
            first = min(self.waiting) // epoch * epoch
            if any(n not in self.done for n in range(first + epoch)):
                return
            self._take(range(first, first + epoch), first // epoch + 2)

    def _take(self, batches: range, since: int) -> None:
        taken: dict[tuple[int, ...], None] = {}  # one program may be the first to reach several
        for number in batches:
            for feature, choices in self.waiting.pop(number, []):
                if feature not in self.reached:
                    self.reached[feature] = self.seconds
                    if choices:
                        taken[choices] = None
        self.corpus += [(since, choices) for choices in taken]

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
            "examples": self.examples,
            "suspects": [[number, loud] for number, loud in self.suspects.items()],
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
            dict(data.get("examples", {})),
            dict(data.get("suspects", ())),
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


# ---- what a process does

_screen: tuple[api.Request, Screen] | None = None


def screened(settings: Settings, corpus: list[tuple[int, tuple[int, ...]]], number: int, snapshots: bool) -> Batch:
    """One batch, in a process that keeps its worker for the next."""
    global _screen
    request = request_of(settings)
    if _screen is not None and _screen[0] != request:
        _screen[1].close()
        _screen = None
    if _screen is None:
        _screen = request, Screen.of(request)
    batch = Members(settings, corpus).batch(number)
    try:
        return _screen[1].judged(batch, is_wide(number), snapshots)
    except AssayError:
        raise
    except Exception as error:  # the campaign goes on, and tells it
        refuse_full_disk(error)
        _screen[1].close()
        _screen = None
        return Batch([Row(member.number, Verdict.UNVERIFIED, fault(error)) for member in batch], [])


def triaged(
    number: int,
    suspect: Suspect | None,
    settings: Settings,
    corpus: list[tuple[int, tuple[int, ...]]],
    limits: Limits,
    full: dict[str, int],
) -> Followed:
    """suspect: None where it is made again from its number, as after a kill."""
    wide, request = is_wide(number // settings.batch), request_of(settings)
    try:
        suspect = suspect or seen_alone(Members(settings, corpus).member(number), wide, request)[0]
        return triage(suspect, wide, settings, request, limits, full)
    except ToolchainError:
        raise
    except AssayError as error:
        return Followed(why=f"not triaged: {error}", unsure=True)
    except Exception as error:  # the campaign goes on, and tells it
        refuse_full_disk(error)
        return Followed(why=f"not triaged: {fault(error)}", unsure=True)


def refuse_full_disk(error: Exception) -> None:
    """Raises StoreError where there is no room for temporary files: no later program would fare better."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = error.filename or tempfile.gettempdir()
        raise StoreError(f"{where}: {error.strerror}; make room") from error


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
        reference_timeout_s=REFERENCE_S,
        preload=Path(settings.preload) if settings.preload else None,
        through=settings.through,
    )


# ---- the loop


@dataclass(frozen=True, slots=True)
class Task:
    """A batch, or the triage of one program. begun: of time.monotonic()."""

    number: int
    triage: bool
    begun: float = field(default_factory=time.monotonic, compare=False)


@dataclass(slots=True)
class Loop:
    """programs: how many in all, or None. end: of time.monotonic(), when all is to have ended, or None; deadline: from
    when on nothing new is begun.
    """

    settings: Settings
    store: Store
    programs: int | None
    limits: Limits = field(default_factory=Limits)
    end: float | None = None
    deadline: float | None = None
    progress: Progress = field(default_factory=Progress)
    campaign: Campaign = field(init=False)
    _others: Progress = field(init=False)  # `full` and `buckets` of earlier campaigns on the same compiler
    _running: dict[Lane, Task] = field(default_factory=dict)
    _held: dict[int, Suspect] = field(default_factory=dict)  # suspects of this sitting, which need not be made again
    _tries: Counter[tuple[Task, str]] = field(default_factory=Counter)  # and what became of it
    _again: deque[int] = field(default_factory=deque)  # batches that were lost
    _late: set[int] = field(default_factory=set)  # suspects for which there is no time left
    _quiet: int = 0  # batches since a loud one was followed
    _started: float = 0.0
    _before: float = 0.0

    def __post_init__(self) -> None:
        self.campaign = self.store.campaign(self.settings.seed, self.settings.as_dict())
        self.progress = Progress.of(self.campaign.progress)
        self._others = _others(self.store, self.campaign)

    @property
    def seconds(self) -> float:
        """Of all sittings."""
        return self._before + (time.monotonic() - self._started if self._started else 0.0)

    def run(self, lanes: Lanes, telling: Telling) -> Iterator[Finding]:
        """Findings as they are stored, until the deadline or the last program; what is under way then may end, but not
        long after the end of all. Raises ToolchainError where no worker begins, StoreError where the store ends; what
        is done by then is kept.
        """
        self._before, self._started = self.progress.seconds, time.monotonic()
        self._again.clear()
        numbers = self._numbers()
        try:
            while True:
                for lane in lanes:
                    if lane not in self._running and (task := self._next(numbers)) is not None:
                        self._running[lane] = task
                        lane.begin(*self._work(task))
                if not self._running or _over(self.end, GRACE_S):
                    self._saved()
                    return
                for lane in answered(self._running, 1.0):
                    yield from self._ended(self._running.pop(lane), lane)
                for lane in [lane for lane, task in self._running.items() if _over(task.begun, BATCH_S)]:
                    lane.stop()
                    self._lost(self._running.pop(lane), TimeoutError())
                self.progress.following = tuple(task.number for task in self._running.values() if task.triage)
                telling(self.progress)
        finally:
            for lane in self._running:
                lane.stop()
            self._running.clear()

    def _work(self, task: Task) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        corpus = list(self.progress.corpus)
        if not task.triage:
            return screened, (self.settings, corpus, task.number, task.number % SNAPSHOTS_EVERY == 0)
        limits = replace(self.limits, until=None if self.end is None else self.end - AFTER_S)
        full = dict(self.progress.full + self._others.full)
        return triaged, (task.number, self._held.get(task.number), self.settings, corpus, limits, full)

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

    def _next(self, numbers: Iterator[int | None]) -> Task | None:
        """Wrong results first, then batches, and what crashes and everybody sees now and then."""
        if _over(self.deadline):
            return None
        for loud in (False, True)[: 1 + (self._quiet >= LOUD_EVERY)]:
            if (task := self._suspect(loud)) is not None:
                return task
        number = self._again.popleft() if self._again else next(numbers, None)
        if number is not None:
            self._quiet += 1
            return Task(number, triage=False)
        return self._suspect(loud=True)

    def _suspect(self, loud: bool) -> Task | None:
        """The next to triage."""
        if self.end is not None and _over(self.end, -AFTER_S - LEAST_S):
            return None
        busy = {task.number for task in self._running.values() if task.triage} | self._late
        free = (number for number, is_loud in self.progress.suspects.items() if is_loud == loud and number not in busy)
        if (number := next(free, None)) is None:
            return None
        if loud:
            self._quiet = 0
        return Task(number, triage=True)

    def _ended(self, task: Task, lane: Lane) -> Iterator[Finding]:
        try:
            found = lane.answer()
        except (Gone, ToolchainError) as death:
            self._lost(task, death)
            return
        if not task.triage:
            self._judged(task.number, found)
        elif found.late:
            self._late.add(task.number)
        elif found.unsure and self._tries[task, "unsure"] < UNSURE_TRIES - 1:
            self._tries[task, "unsure"] += 1  # a worker may have been killed
        else:
            finding = self._stored(task.number, found)
            self._followed(task.number)
            if finding is not None:
                yield finding

    def _lost(self, task: Task, death: Exception) -> None:
        """A process of ours ended, or took too long: it is tried again, and then left; it is no finding."""
        killed, took = isinstance(death, Gone) and death.killed, isinstance(death, TimeoutError)
        how = task, "killed" if killed else type(death).__name__
        self._tries[how] += 1
        if self._tries[how] < (SLOW_TRIES if took else KILLED_TRIES if killed else TRIES):
            if not task.triage:
                self._again.append(task.number)
            return
        if isinstance(death, ToolchainError):
            raise death
        why = f"not done in {BATCH_S:g} s" if took else "assay's own process ended each time"
        if task.triage:
            self.progress.tell(f"not triaged: {why}", task.number)
            self._followed(task.number)
        else:
            first, size = self.settings.batch * task.number, self.settings.batch
            self._judged(task.number, Batch([Row(first + i, Verdict.UNVERIFIED, why) for i in range(size)], []))

    def _stored(self, number: int, found: Followed) -> Finding | None:
        """The finding, where it is new."""
        what = f"{self.campaign.id}/{number}"
        if found.finding is None:
            self.progress.tell(found.why, number)
            if bucket_name := self.progress.buckets.get(found.early) or self._others.buckets.get(found.early):
                self.store.sighted(bucket_name, what)
            return None
        finding = _with_campaign(found.finding, self.campaign.id, self.seconds)
        stored = self._mine(number)  # after a kill between the two it is there, and not noted
        is_new = stored is None
        if is_new:
            if (bucket := self.store.bucket(finding.bucket)) is not None and bucket.stored >= self.limits.kept:
                self.progress.tell("enough of its kind", number)
                self.store.sighted(finding.bucket, what)
                self.progress.full[found.early] = self.limits.kept  # the next like it costs one look
                self.progress.buckets.setdefault(found.early, finding.bucket)
                return None
            is_new = self.store.add(finding, found.artifacts, what)
            stored = self._mine(number)
        self.progress.full[found.early] += 1
        self.progress.buckets.setdefault(found.early, stored.bucket if stored is not None else finding.bucket)
        if stored is not None and all(id_ != stored.id for _, id_, _ in self.progress.found):
            self.progress.found.append((round(self.seconds, 1), stored.id, stored.bucket))
        return stored if is_new else None

    def _mine(self, number: int) -> Finding | None:
        """What this campaign has stored of one of its programs."""
        mine = self.store.findings(Filters(campaign=self.campaign.id))
        return next((finding for finding in mine if finding.origin.number == number), None)

    def _judged(self, batch: int, found: Batch) -> None:
        progress = self.progress
        progress.done.add(batch)
        progress.tally.add(found.rows)
        for row in found.rows:
            if row.reason:
                progress.example(row.reason, row.number)
        progress.seconds = round(self.seconds, 1)
        progress.learn(batch, found.reached, self.settings.epoch)
        for name in found.passes:
            progress.passes.setdefault(name, progress.seconds)
        for suspect in found.suspects:
            progress.suspects[suspect.member.number] = suspect.case.verdict in LOUD
            self._held[suspect.member.number] = suspect
        self.campaign.save(progress.as_dict())

    def _followed(self, number: int) -> None:
        """Nothing is left to do for a suspect."""
        self.progress.suspects.pop(number)
        self._held.pop(number, None)
        self._saved()

    def _saved(self) -> None:
        self.progress.seconds = round(self.seconds, 1)
        self.campaign.save(self.progress.as_dict())


def _others(store: Store, campaign: Campaign) -> Progress:
    """What the others in the store found on the same compiler: what is well known from them costs one look."""
    found, compiler = Progress(), _compiler(campaign.settings)
    for other in store.campaigns():
        if other.id != campaign.id and _compiler(other.settings) == compiler:
            saved = other.progress
            found.full.update(saved.get("full", {}))
            found.buckets.update(saved.get("buckets", {}))
    return found


def _compiler(settings: Mapping[str, Any]) -> str:
    """The settings that say which compiler a campaign is on, as JSON has them."""
    return json.dumps([settings.get(n) for n in ("target", "toolchain", "options", "flags", "preload", "through")])


def _over(moment: float | None, by: float = 0.0) -> bool:
    """Whether this is over, and so many seconds more."""
    return moment is not None and time.monotonic() > moment + by


SNAPSHOTS_EVERY = 8
"""One batch in so many is compiled with a snapshot after every pass, to see which passes change anything."""


def _with_campaign(finding: Finding, campaign: str, seconds: float) -> Finding:
    return replace(finding, origin=replace(finding.origin, campaign=campaign), seconds=round(seconds, 1))
