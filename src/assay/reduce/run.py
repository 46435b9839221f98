"""All kinds of edits, until nothing gets smaller or the time is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from assay.checking.bounds import Step
from assay.errors import InputError
from assay.hlo.module import Module
from assay.isolate.graph.cut import running
from assay.journal import Journal
from assay.reduce import flow, focus, plain, shrink
from assay.reduce.candidate import Candidate, flattened, tidied
from assay.reduce.search import Interesting, OutOfTime, Search
from assay.reduce.still import Shown
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.value import Array


@dataclass(frozen=True)
class Reduced:
    """The smallest module that was seen to show it, with its arguments. tries: candidates that were compiled. still:
    what it shows. before: the instructions of what was given; finished: whether nothing was left to try.
    """

    module: Module
    arguments: tuple[Array, ...]
    tries: int
    seconds: float
    still: Shown
    before: int
    finished: bool

    @property
    def instructions(self) -> int:
        return sum(len(c.instructions) for c in self.module.computations)


def reduce(
    module: Module,
    arguments: Sequence[Array],
    interesting: Interesting,
    *,
    budget_s: float = 300.0,
    jobs: int = 2,
    journal: Journal | None = None,
    step: Step = lambda _: None,
    policy: Policy | None = None,
) -> Reduced:
    """The smallest program with arguments of which `interesting` says what it says of `module` with `arguments`.

    interesting: see `assay.reduce.still`; called from `jobs` threads at once. journal: what was asked before, and where
    answers go. policy: of the reference, which gives the values where the program is cut. Raises InputError where
    nothing is to be seen of the program itself, HloTypeError where it is not well formed.
    """
    start = time.monotonic()
    count = sum(len(c.instructions) for c in module.computations)
    given = Candidate(module, tuple(arguments), "as given")
    known = interesting(module, arguments)
    if known is None:
        raise InputError(f"{module.name}: nothing is wrong with it here, so there is nothing to keep")
    search = Search(
        given, known, interesting, policy or for_target("cpu"), start + budget_s, jobs, journal, step, tries=1
    )
    finished = False
    try:
        search.first([tidied(flattened(module), arguments, "what the results need")])
        finished = _everything(search)
    except OutOfTime:
        step("the time is over")
    finally:
        search.close()
    best = search.best
    seconds = time.monotonic() - start
    return Reduced(best.module, best.arguments, search.tries, seconds, search.known, count, finished)


def _everything(search: Search) -> bool:
    """Until a round of all changes nothing."""
    while True:
        before = search.current.size
        _structure(search)
        plain.everything(search)
        shrink.dimensions(search)
        if search.current.size >= before:
            return True


def _structure(search: Search) -> None:
    """Instructions: the large steps first, again after each that opens others."""
    while True:
        before = search.current.size
        focus.wrong_outputs(search)
        focus.windows(search)
        focus.chunks(search, search.current.module.entry_name)
        focus.by_operands(search, search.current.module.entry_name)
        if flow.opened(search):
            continue
        for computation in [c.name for c in running(search.current.module)][1:]:
            focus.chunks(search, computation)
            focus.by_operands(search, computation)
        flow.carries(search)
        if search.current.size >= before:
            return
