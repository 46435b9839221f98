"""From a program that was seen to be wrong to a finding: seen again in a fresh process, put down to a pass, reduced,
tested, and described.

Nothing is stored that was seen once only, that breaks an unchecked precondition of HLO, or whose reduced form no longer
shows it.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.campaign.describe import described
from assay.campaign.stage import stage_of
from assay.checking import api
from assay.checking.bounds import Step
from assay.checking.litmus import litmus
from assay.hlo.printer import print_for_compiler
from assay.inputs.arguments import save_arguments
from assay.isolate.executable import BELOW
from assay.isolate.guilty import known_by
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Array, Program
from assay.reduce import Reduced, Shown, Still, reduce
from assay.reduce.api import results_of
from assay.report.campaign import UNEXPLAINED
from assay.report.json_form import case_dict
from assay.report.result import CaseResult
from assay.store import finding as stored


@dataclass(frozen=True, slots=True)
class Limits:
    """reduce_s: for making one program small; loud_s: where it crashes, which everybody notices. kept: findings of one
    kind; of others it is told that there are. until: of time.monotonic(), when the reduction is to have ended, or None.
    """

    reduce_s: float = 120.0
    loud_s: float = 30.0
    kept: int = 3
    until: float | None = None

    def budget_s(self, loud: bool) -> float | None:
        """For making a program small: at most half of what is left, for what comes after takes time as well. None where
        too little is left to begin with.
        """
        budget = self.loud_s if loud else self.reduce_s
        if self.until is None:
            return budget
        left = self.until - time.monotonic()
        return None if left < LEAST_S else min(budget, left / 2)


LEAST_S = 5.0
"""Seconds before `until` in which no reduction is begun."""


HANG_S = 10.0
"""Seconds of a request that hung before: it is looked at ten times and more."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A program, its arguments, and what was seen of it alone in a fresh process. origin: where it comes from. source:
    of it as a JAX file, empty where there is none. more: what else its report is to have.
    """

    program: Program
    arguments: tuple[Array, ...]
    case: CaseResult
    origin: stored.Origin
    source: bytes = b""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Followed:
    """finding: None where there is none to store, and `why` says so. early: what it is called before it is reduced, so
    that others like it need not be. late: whether the time was over before anything was decided. unsure: whether a
    second look may decide otherwise, as where a worker was killed.
    """

    early: str = ""
    finding: stored.Finding | None = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    why: str = ""
    late: bool = False
    unsure: bool = False


def early_bucket(shown: Shown) -> str:
    """Pass, opcodes and class: what can be said of a program as it was generated."""
    return " ".join(
        [
            shown.klass or str(shown.verdict),
            shown.pass_ or shown.signature,
            ",".join(_kinds(shown.pass_, shown.opcodes)),
        ]
    )


_ALIKE = {"minimum": "maximum", "reduce-window": "reduce"}
"""What one piece of a code generator, or of its library, makes the code of."""


def _kinds(pass_: str, opcodes: Iterable[str]) -> list[str]:
    """The opcodes that name a bucket, in their order."""
    return sorted({_ALIKE.get(o, o) for o in opcodes} if pass_.startswith(BELOW) else opcodes)


def follow(
    seen: Seen,
    request: api.Request,
    limits: Limits,
    full: Mapping[str, int],
    step: Step = lambda _: None,
) -> Followed:
    """full: how many findings there are by `early` name, so that what is well known is told and not reduced."""
    start = time.monotonic()
    module, arguments = seen.program.module, seen.arguments
    assert module is not None
    if seen.case.verdict is Verdict.HANG:  # it was waited for, alone; each look costs what is waited now
        request = replace(request, timeout_s=min(request.timeout_s, HANG_S))
    with Still.open(request, jobs=1) as still:
        # What is well known costs one look and not several.
        first = still.glance(module, arguments) if full else None
        if first is not None and full.get(early := early_bucket(first), 0) >= limits.kept:
            return Followed(early, why="enough of its kind")
        shown = still(module, arguments)
        if shown is None:
            return Followed(why="not seen a third time, in a fresh process", unsure=True)
        if shown.verdict == Verdict.MISMATCH and not shown.pass_:
            return Followed(why=UNEXPLAINED)
        early = early_bucket(shown)
        if full.get(early, 0) >= limits.kept:
            return Followed(early, why="enough of its kind")
        if not shown.clear:
            told = litmus(module, arguments, still.settings.policy).words
            return Followed(early, why=f"the generator's fault: {told[0]}")
        budget = limits.budget_s(loud=shown.verdict in (Verdict.CRASH, Verdict.HANG))
        if budget is None:
            return Followed(early, late=True)
        reduced = reduce(module, arguments, still, budget_s=budget, jobs=1, step=step)
        again = still(reduced.module, reduced.arguments)
        if again is None:
            return Followed(early, why="its reduced form does not show it again", unsure=True)
        expected, actual = results_of(reduced, request, still)
        below = again.pass_.startswith(BELOW) and request.through == "llo"
        stage = stage_of(reduced.module, reduced.arguments, still) if below else ""
        seconds = time.monotonic() - start
        finding = _finding(seen, request, again, reduced, still.versions, seconds, stage)
        artifacts = _artifacts(seen, reduced, shown)
        step("writing and trying a test")
        found = described(finding, artifacts, reduced, expected, actual, still)
    return Followed(early, *found)


def _finding(
    seen: Seen,
    request: api.Request,
    shown: Shown,
    reduced: Reduced,
    versions: Mapping[str, str | None],
    seconds: float,
    stage: str,
) -> stored.Finding:
    """stage: of LLO, empty where it is not known, or wrong before."""
    case = seen.case
    opcodes = ",".join(_kinds(shown.pass_, shown.opcodes or known_by(reduced.module)))
    if shown.pass_.startswith(BELOW):  # kernels are wrong for some types and right for others
        opcodes += f" of {','.join(sorted({shape.dtype.name for shape in reduced.module.arrays}))}"
    wrong = [output for output in case.outputs if output.outside]
    culprit = stored.Culprit(
        pass_name=shown.pass_,
        opcode=opcodes,
        pattern=shown.signature or stage,
    )
    return stored.Finding(
        verdict=shown.verdict,
        target=request.target,
        toolchain=request.toolchain or "host",
        klass=MismatchClass(shown.klass) if shown.klass else None,
        why=case.why,
        versions={k: v for k, v in versions.items() if v},
        options=dict(request.options),
        flags=tuple(request.flags),
        through=request.through,
        culprit=culprit,
        origin=seen.origin,
        seconds=seconds,
        outside=sum(output.outside for output in wrong),
        elements=sum(output.elements for output in case.outputs),
    )


def _artifacts(seen: Seen, reduced: Reduced, shown: Shown) -> dict[str, bytes]:
    assert seen.program.module is not None
    report = {
        "shown": shown.words,
        "case": case_dict(seen.case),
        **seen.more,
        "reduced": {"instructions": reduced.instructions, "before": reduced.before, "seconds": reduced.seconds},
    }
    return {
        **({stored.PROGRAM: seen.source} if seen.source else {}),
        # The tables of stack frames name files of the machine that it was traced on.
        stored.MODULE: print_for_compiler(replace(seen.program.module, tables="")).encode(),
        stored.INPUTS: _npz(seen.arguments),
        stored.REDUCED: print_for_compiler(reduced.module).encode(),
        stored.REDUCED_INPUTS: _npz(reduced.arguments),
        stored.REPORT: (json.dumps(report, indent=1) + "\n").encode(),
    }


def _npz(arrays: Sequence[Array]) -> bytes:
    """As `--inputs` takes it."""
    file_ = io.BytesIO()
    save_arguments(file_, arrays)
    return file_.getvalue()
