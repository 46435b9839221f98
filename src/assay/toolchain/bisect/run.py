"""A bisection from question to answer: install, ask, write down, prune, go on.

Disk: a toolchain takes 0.5 to 0.6 GB, 1.1 to 1.3 GB with libtpu (du, jax 0.4.13 to 0.12.0.1). With pruning at most
KEPT of those that a bisection installed are there at a time, and the one it is at; those that were there before are
left alone. None is begun with less than FREE_BYTES free.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from assay.errors import AssayError, InputError, ToolchainError
from assay.toolchain import environments
from assay.toolchain.bisect.journal import Journal, journal_path
from assay.toolchain.bisect.releases import Release, position, row_of
from assay.toolchain.bisect.search import RUNS, Change, Search, Verdict
from assay.toolchain.bisect.trial import Check, Trial, try_it
from assay.toolchain.installer import NotNow

KEPT = 4
FREE_BYTES = 3 << 30  # an environment, and what pip unpacks beside it
SAME_TROUBLE = 3  # so many releases that the check cannot judge, for the same reason, and none that it can: give up

Say = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """axis: `jaxlib` or `libtpu`. good, bad: versions that are said to be without and with the bug, or None."""

    axis: str
    check: Check
    good: str | None = None
    bad: str | None = None
    keep: bool = False
    resume: bool = False
    runs: int = RUNS


@dataclass(frozen=True)
class Bisection:
    """What was found. row: all releases, oldest first; trials: those that were run or skipped, in the order of the row.

    changes: each between two that were run; positions are those of `row`.
    """

    question: Question
    row: tuple[Release, ...]
    trials: tuple[Trial, ...]
    changes: tuple[Change, ...]
    journal: str

    @property
    def untried(self) -> int:
        return len(self.row) - len(self.trials)


def bisect(question: Question, say: Say = lambda _: None, told: Callable[[Trial], None] = lambda _: None) -> Bisection:
    """Search for where the verdict of question.check changes. `say` hears what is being done, `told` each answer.

    Raises AssayError where it cannot begin or go on (no such release, no network, a full disk, a check that can judge
    nothing); what was answered so far is in the journal, and `resume` goes on from there.
    """
    row = row_of(question.axis, say)
    good, bad = (None if v is None else position(row, question.axis, v) for v in (question.good, question.bad))
    if good is not None and good == bad:
        raise InputError(f"--good {question.good} --bad {question.bad}: one and the same release; name two, or one")
    path, text = journal_path(question.axis, question.check)
    with Journal(path, text, question.resume) as journal:
        answer = partial(_answer, row, question, journal, say, told)
        search = Search(len(row), lambda i: answer(search, i), question.runs)
        if good is not None and bad is not None:
            search.between(good, bad)
        elif bad is not None:
            search.around(bad)
        elif good is not None:
            search.around(good)
        else:
            search.everywhere()
        _refuse_what_is_not_so(row, search, good, bad)
        changes = search.narrow()
        trials = tuple(journal.trials[row[i].version] for i in sorted(search.known))
    return Bisection(question, row, trials, changes, str(path))


def _refuse_what_is_not_so(row: Sequence[Release], search: Search, good: int | None, bad: int | None) -> None:
    """Where the user's word and the check's differ there is nothing to search between."""
    for word, i, wanted in (("good", good, Verdict.ABSENT), ("bad", bad, Verdict.PRESENT)):
        if i is not None and (found := search.known[i]) is not wanted:
            why = "cannot be judged there" if found is Verdict.SKIPPED else f"is {found} there"
            raise AssayError(f"--{word} {row[i].version}: the bug {why}, by the check; name another release")


def _answer(
    row: Sequence[Release],
    question: Question,
    journal: Journal,
    say: Say,
    told: Callable[[Trial], None],
    search: Search,
    i: int,
) -> Verdict:
    """What release `i` says: from the journal, or by running it."""
    release = row[i]
    trial = journal.trials.get(release.version)
    if trial is None:
        if not question.keep:
            _prune(row, search, journal, KEPT)
        trial = _run(release, question.check, journal, say)
        journal.answered(trial)
    told(trial)
    _give_up_on_one_trouble([journal.trials[row[k].version] for k in search.known] + [trial])
    return trial.verdict


def _run(release: Release, check: Check, journal: Journal, say: Say) -> Trial:
    started = time.monotonic()
    try:
        toolchain = _toolchain(release.spec, journal, say)
    except NotNow:
        raise
    except ToolchainError as error:
        return Trial(release.version, release.spec, Verdict.SKIPPED, 0.0, str(error), time.monotonic() - started)
    begun = time.monotonic()
    say(f"{release.spec}: {check.words[1] if check.ours else 'running the check'}")
    verdict, said = try_it(check, toolchain)
    seconds = time.monotonic() - begun
    return Trial(release.version, release.spec, verdict, round(seconds, 1), said, round(begun - started, 1))


def _toolchain(spec: str, journal: Journal, say: Say) -> environments.Toolchain:
    """Of that spec, installed first if need be and there is room."""
    here = {toolchain.spec: toolchain for toolchain in environments.installed()}
    if spec in here:
        return here[spec]
    folder = environments.cache_folder()
    with contextlib.suppress(OSError):  # told by `add`
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < FREE_BYTES:
            raise NotNow(
                f"{folder}: {free / (1 << 30):.1f} GB free, a toolchain is not begun with less than "
                f"{FREE_BYTES >> 30} GB: free some (assay toolchain list, remove), or set ASSAY_CACHE to another folder"
            )
    journal.adding(spec)
    return environments.add(spec, say)


def _prune(row: Sequence[Release], search: Search, journal: Journal, kept: int) -> None:
    """Remove what this bisection installed, beyond `kept`: first what is no end of a change, the earliest first."""
    here = {toolchain.spec for toolchain in environments.installed()}
    ends = {row[i].spec for pair in search.differing() for i in pair}
    mine = [spec for spec in dict.fromkeys(journal.added) if spec in here]
    for spec in sorted(mine, key=lambda spec: spec in ends)[: max(0, len(mine) - kept)]:
        environments.remove(spec)
        journal.removed(spec)


def _give_up_on_one_trouble(trials: Sequence[Trial]) -> None:
    if len(trials) >= SAME_TROUBLE and {t.verdict for t in trials} == {Verdict.SKIPPED}:
        why = {trial.said for trial in trials}
        if len(why) == 1 and trials[0].seconds > 0:
            raise AssayError(f"the check cannot tell, in {len(trials)} releases for the same reason: {why.pop()}")
