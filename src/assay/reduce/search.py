"""Tries candidates on several workers, in order; budget and journal.

The invariant: which candidate is taken depends on the candidates and on what is seen of them, never on which worker was
faster. So a run that was killed does the same again, and what its journal has already been asked is not asked anew.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from assay.checking.bounds import Step
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.hlo.types import check_module
from assay.journal import Journal
from assay.reduce.candidate import Candidate
from assay.reduce.still import Shown, as_dict, from_dict
from assay.reduce.values import Seen, seen
from assay.reference.policy import Policy
from assay.reference.value import Array

Interesting = Callable[[Module, Sequence[Array]], Shown | None]
"""What a candidate shows; None where that is not what is looked for. Called from several threads at once."""


class OutOfTime(Exception):
    """The budget is used up; what was found so far counts."""


@dataclass
class Search:
    """current: the candidate that edits start from. best: the smallest that was seen to show it. known: what all that
    were taken have shown. policy: the reference's, for values where a program is cut.
    """

    current: Candidate
    known: Shown
    interesting: Interesting
    policy: Policy
    deadline: float
    jobs: int = 2
    journal: Journal | None = None
    step: Step = lambda _: None
    tries: int = 0
    best: Candidate = field(init=False)
    answers: dict[str, Shown | None] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(init=False)
    _values: tuple[Candidate, Seen] | None = None

    def __post_init__(self) -> None:
        self.best = self.current
        self._pool = ThreadPoolExecutor(self.jobs)
        if self.journal is not None:
            for line in self.journal.found:
                self.answers[line["key"]] = None if line["shown"] is None else from_dict(line["shown"])

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def values(self) -> Seen:
        """What the reference computes in `current`."""
        if self._values is None or self._values[0] is not self.current:
            self._values = self.current, seen(self.current, self.policy)
        return self._values[1]

    def first(self, candidates: Iterable[Candidate | None], grow: int = 0) -> int | None:
        """The position of the first of `candidates` that shows it, which is `current` from then on; None where none
        does. Those that are not smaller are passed over (by up to `grow` instructions more, where that is given).
        Raises OutOfTime.
        """
        ahead: deque[tuple[int, Candidate, Shown | Future[Shown | None] | None]] = deque()
        todo = iter(enumerate(candidates))
        while True:
            while len(ahead) < self.jobs and (following := self._next(todo, grow)) is not None:
                ahead.append((*following, self._ask(following[1])))
            if not ahead:
                return None
            position, candidate, answer = ahead.popleft()
            shown = self._answered(candidate, answer)
            together = None if shown is None else self.known.with_(shown)
            if together is not None:
                for _, other, running in ahead:
                    if isinstance(running, Future) and not running.cancel():
                        self._answered(other, running)  # whoever resumes is to find it
                self._take(candidate, together)
                return position

    def _next(self, todo: Iterator[tuple[int, Candidate | None]], grow: int) -> tuple[int, Candidate] | None:
        """The next candidate that is worth a try."""
        while True:
            if time.monotonic() > self.deadline:
                raise OutOfTime
            try:
                position, candidate = next(todo)
            except StopIteration:
                return None
            if candidate is None or not self._worth(candidate, grow):
                continue
            return position, candidate

    def _worth(self, candidate: Candidate, grow: int) -> bool:
        mine, other = candidate.size, self.current.size
        larger = mine.instructions > other.instructions + grow if grow else mine >= other
        if larger:
            return False
        answer = self.answers.get(candidate.key, self)
        if answer is None or (isinstance(answer, Shown) and self.known.with_(answer) is None):
            return False
        try:
            check_module(candidate.module)
        except AssayError:
            return False
        return True

    def _ask(self, candidate: Candidate) -> Shown | Future[Shown | None] | None:
        if candidate.key in self.answers:
            return self.answers[candidate.key]
        return self._pool.submit(self.interesting, candidate.module, candidate.arguments)

    def _answered(self, candidate: Candidate, answer: Shown | Future[Shown | None] | None) -> Shown | None:
        if not isinstance(answer, Future):
            return answer
        left = self.deadline - time.monotonic()
        try:
            shown = answer.result(timeout=max(left, 0.0) + GRACE_S)
        except TimeoutError:
            raise OutOfTime from None
        self.tries += 1
        self.answers[candidate.key] = shown
        if self.journal is not None:
            self.journal.write({"key": candidate.key, "shown": None if shown is None else as_dict(shown)})
        return shown

    def _take(self, candidate: Candidate, known: Shown) -> None:
        self.current, self.known = candidate, known
        size = candidate.size
        if (size.instructions, size) <= (self.best.size.instructions, self.best.size):
            self.best = candidate
        self.step(f"{size.instructions} instructions after {self.tries} tries: {candidate.words}")


GRACE_S = 5.0
"""What a try that is running when the budget ends may take still."""
