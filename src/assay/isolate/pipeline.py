"""The first pass whose result differs from the unoptimized program's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from assay.checking.bounds import Settings, Step
from assay.checking.weigh import Weighed
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.isolate.examine import Examiner, Look
from assay.isolate.executable import BELOW, Execution, Run, executed
from assay.isolate.judgement import Inputs
from assay.isolate.region import changed
from assay.isolate.walk import PROGRAM, Interval, State, by_halves, everywhere
from assay.oracle.verdict import Verdict
from assay.report.passes import Culprit, Wrong
from assay.targets.snapshots import START, Snapshot, interval

CONVERSION = "conversion to HLO"
"""What stands between the program as it was given and the first module that XLA dumps."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What the snapshots say. looks: those that were looked at, in order. evaluated, spared: instructions that were,
    and that an earlier snapshot had.
    """

    verdict: Verdict
    why: str
    culprit: Culprit | None
    looks: tuple[Look, ...]
    snapshots: int
    evaluated: int
    spared: int
    seconds: dict[str, float]
    stderr_tail: tuple[str, ...] = ()


def find_culprit(
    program: Module,
    snapshots: Sequence[Snapshot],
    inputs: Sequence[Inputs],
    settings: Settings,
    step: Step = lambda _: None,
    walk_all: bool = False,
    read: Callable[[Snapshot], str] = Snapshot.text,
    run: Run | None = None,
    more: Sequence[Inputs] = (),
) -> Attribution:
    """Which of `snapshots`, those of one compilation of `program`, is the first with wrong results on some of `inputs`.

    read: how the text of one is had. The rest as for `examined`, whose errors it raises, and those of evaluating the
    program itself: Unsupported, ReferenceLimit, InputError.
    """
    return examined(Examiner(program, inputs, settings, step, snapshots, read), walk_all, run, more)


def examined(
    examiner: Examiner, walk_all: bool = False, run: Run | None = None, more: Sequence[Inputs] = ()
) -> Attribution:
    """Which of the examiner's snapshots is the first with wrong results.

    walk_all: evaluate every one, not by halves. run: the executable, where there is one that can be run; it is looked
    at where no snapshot is wrong. more: further inputs for the last snapshot, where all agree on the examiner's: what a
    fault does may be small on some, and open on others.
    """
    found = _examined(examiner, walk_all, run)
    if found.verdict != Verdict.AGREE or not examiner.snapshots:
        return found
    start = time.monotonic()
    for inputs in more:
        again = _again(examiner, inputs, walk_all)
        if again is not None:
            return replace(again, seconds={**found.seconds, "on more inputs": time.monotonic() - start})
    seconds = {"on more inputs": time.monotonic() - start} if more else {}
    return replace(found, seconds={**found.seconds, **seconds})


def _again(examiner: Examiner, inputs: Inputs, walk_all: bool) -> Attribution | None:
    """What other inputs say of the chain; None where they do not show a fault. What cannot be evaluated shows none."""
    last = len(examiner.snapshots) - 1
    try:
        other = Examiner(
            examiner.program, [inputs], examiner.settings, examiner.step, examiner.snapshots, examiner.read
        )
    except AssayError:
        return None
    if other.look(last) != State.DIFFERS:
        return None
    found = _examined(other, walk_all, None)
    return found if found.verdict == Verdict.MISMATCH else None


def _examined(examiner: Examiner, walk_all: bool, run: Run | None) -> Attribution:
    culprit = None
    count = len(examiner.snapshots)
    if count and examiner.look(count - 1) == State.DIFFERS:
        examiner.prove(count - 1)  # its bounds may be narrow where those of the first that is wrong are not
    while (found := (everywhere if walk_all else by_halves)(count, examiner.look)) is not None:
        place = examiner.looks[found.bad].inputs
        states = examiner.executed(found.bad, place), examiner.executed(found.good, place)
        if states == (State.DIFFERS, State.AGREES):
            culprit = _culprit(examiner, found)
            break
    looks = tuple(examiner.looks[index] for index in sorted(examiner.looks))
    verdict, why = _verdict(looks, culprit)
    below = Execution(Verdict.AGREE)
    if culprit is None and run is not None:
        below = executed(run, examiner.judges)
        if below.verdict != Verdict.AGREE:
            verdict, why = below.verdict, below.why
            culprit = _culprit_below(examiner, below)
    lockstep = examiner.lockstep
    return Attribution(
        verdict,
        why,
        culprit,
        looks,
        count,
        lockstep.evaluated,
        lockstep.spared,
        examiner.seconds,
        below.stderr_tail,
    )


def _verdict(looks: Sequence[Look], culprit: Culprit | None) -> tuple[Verdict, str]:
    if culprit is not None:
        return Verdict.MISMATCH, ""
    verified = [look for look in looks if look.state != State.UNVERIFIED]
    if not verified:
        return Verdict.UNVERIFIED, looks[-1].why if looks else "there is no snapshot"
    if looks[-1].state == State.UNVERIFIED:
        last = verified[-1].snapshot.label
        first = next(look for look in looks if look.snapshot.index > verified[-1].snapshot.index)
        return Verdict.UNVERIFIED, f"all agree up to {last}; from {first.snapshot.label} on: {first.why}"
    return Verdict.AGREE, ""


def _culprit(examiner: Examiner, found: Interval) -> Culprit:
    chain = tuple(examiner.snapshots)
    bad, good = chain[found.bad], None if found.good == PROGRAM else chain[found.good]
    passes = interval(good, bad, chain)
    look = examiner.looks[found.bad]
    assert look.weighed is not None
    region = changed(examiner.module(found.good), examiner.module(found.bad))
    return Culprit(
        _name(bad, passes),
        bad.pipeline,
        bad.label,
        "" if good is None else good.label,
        passes,
        tuple(place.instruction.name for place in region.after or region.before),
        tuple(place.text for place in region.before),
        tuple(place.text for place in region.after),
        tuple(_wrong(examiner, look.weighed, look.inputs, found.good)),
        examiner.inputs[look.inputs].words,
    )


def _name(bad: Snapshot, passes: Sequence[str]) -> str:
    """The pass to name: the one that ran last. Where a pipeline only begins there, the last that is known to have run
    before.
    """
    if bad.after not in (START, "after_optimizations", "before_optimizations"):
        return bad.after
    return passes[-1] if passes else CONVERSION


def _culprit_below(examiner: Examiner, below: Execution) -> Culprit:
    """Between the last snapshot that agrees and the executable."""
    chain = tuple(examiner.snapshots)
    agreeing = [index for index, look in examiner.looks.items() if look.state == State.AGREES]
    good = max(agreeing, default=PROGRAM)
    since = None if good == PROGRAM else chain[good]
    passes = (*interval(since, chain[-1], chain), BELOW) if good < len(chain) - 1 else (BELOW,)
    wrong = () if below.weighed is None else tuple(_wrong(examiner, below.weighed, below.inputs, good))
    label = "" if since is None else since.label
    inputs = examiner.inputs[below.inputs].words
    return Culprit(passes[0], "", "executable", label, passes, wrong=wrong, inputs=inputs)


def _wrong(examiner: Examiner, weighed: Weighed, inputs: int, good: int) -> Iterator[Wrong]:
    """What each output that is wrong has at its worst element."""
    earlier = None if good == PROGRAM else examiner.stored(good, inputs)
    for index, compared in enumerate(weighed.comparisons):
        if compared.outside and compared.peak is not None:
            yield Wrong(
                index,
                compared.peak,
                f"{compared.peak_reference} ± {compared.peak_radius:.3g}",
                "" if earlier is None else str(earlier[index][compared.peak].item()),
                str(compared.peak_target),
                compared.outside,
                compared.elements,
            )
