"""`assay fuzz`: campaigns on one target or several, by turns, until the time or the programs are used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from assay.campaign.follow import Limits
from assay.campaign.lanes import Lanes
from assay.campaign.replay import settings_of
from assay.campaign.run import Loop, Progress, request_of
from assay.campaign.settings import Settings, grammar
from assay.checking import api
from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.programs.program import Program
from assay.report.campaign import CampaignReport, FoundRow
from assay.store.api import Filters, Store, open_store
from assay.store.finding import Finding
from assay.toolchain import RequestRefused, WorkerDied

TURN_S = 300.0
"""A target's turn, where there are several."""


@dataclass(frozen=True, slots=True)
class Options:
    """time_s: of all targets together, None for no end. programs: of each target. jobs: processes. resume: whether a
    campaign that was begun is gone on with.
    """

    time_s: float | None = None
    programs: int | None = None
    jobs: int = 2
    resume: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told how it goes. begin: a target's campaign, with where it stands. row: after every task. found: each
    finding as it is stored.
    """

    begin: Callable[[Settings, Progress], None]
    row: Callable[[Progress], None]
    found: Callable[[Finding], None]


def fuzz(campaigns: Sequence[Settings], place: str | None, options: Options, watch: Watch) -> list[CampaignReport]:
    """A report for each. Raises InputError where a campaign was begun and is not to be gone on with, or a name is none;
    StoreError where the store cannot be opened or ends.
    """
    end = None if options.time_s is None else time.monotonic() + options.time_s
    if options.time_s is None and options.programs is None:
        raise InputError("say when to stop: --time 1h, or --programs 2000")
    for settings in campaigns:
        api.refuse_unknown_names(request_of(settings))
        grammar(settings, wide=False)
    with open_store(place) as store:
        if options.resume:
            for settings in campaigns:
                _refuse_other_settings(settings, store)
        toolchains = [_versions(settings) for settings in campaigns]
        loops = [Loop(settings, store, options.programs, options.limits, end) for settings in campaigns]
        for loop in loops:
            if loop.progress.done and not options.resume:
                count = loop.progress.tally.total
                raise InputError(
                    f"this campaign on {loop.settings.target} was begun ({count} programs); go on with --resume, or "
                    "take another --seed"
                )
        with Lanes(options.jobs) as lanes:
            _turns(loops, lanes, end, watch)
        return [_report(loop, store, words) for loop, words in zip(loops, toolchains, strict=True)]


def _refuse_other_settings(settings: Settings, store: Store) -> None:
    """Raises InputError where there is a campaign of this seed and target, and it is another one."""
    alike = [c for c in store.campaigns() if c.seed == settings.seed and c.settings.get("target") == settings.target]
    begun = [settings_of(campaign.settings) for campaign in alike if campaign.progress]
    if not begun or settings in begun:
        return
    there, here = begun[-1].as_dict(), settings.as_dict()
    names = [name for name in here if there[name] != here[name]]
    differ = "; ".join(f"{name}: {_words(name, there[name])}, not {_words(name, here[name])}" for name in names)
    raise InputError(
        f"--resume: the campaign of seed {settings.seed} on {settings.target} was begun with other settings "
        f"({differ}); give the same, or take another --seed"
    )


def _words(name: str, value: object) -> str:
    """A setting as its option has it."""
    if name == "operations" and isinstance(value, list | tuple):
        return "-".join(map(str, value))
    if name == "templates" and isinstance(value, list | tuple):
        value = [template for template, _ in value]
    if isinstance(value, Mapping):
        value = [f"{key}={given}" for key, given in value.items()]
    return (", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")) or "none"


SMALLEST = "HloModule smallest\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] negate(x)\n}\n"


def _versions(settings: Settings) -> str:
    """What the toolchain consists of. Raises ToolchainError where it does not start, InputError where it does not know
    an option.
    """
    request = request_of(settings)
    with api.open_worker(request, lambda _: None) as (worker, versions):
        if settings.options:
            program = Program("smallest", SMALLEST.encode(), "hlo-text", parse_module(SMALLEST))
            zeros = [np.zeros(8, np.float32)]
            try:
                with closing(api.target_for(program, request, worker, api.settings_for(request, versions))) as target:
                    target.outputs(zeros, settings.options, {}, lambda _: None, False)
            except RequestRefused as refused:
                raise InputError(refused.words()) from refused
            except WorkerDied as death:
                raise InputError(f"--option: the compiler ends where it is given them: {death.detail}") from death
        return api.words(versions)


def _turns(loops: Sequence[Loop], lanes: Lanes, end: float | None, watch: Watch) -> None:
    waiting = list(loops)
    while waiting and (end is None or time.monotonic() < end):
        turn = TURN_S if end is None else min(TURN_S, max((end - time.monotonic()) / len(waiting), 1.0))
        for loop in list(waiting):
            loop.deadline = end if len(waiting) == 1 else time.monotonic() + turn
            watch.begin(loop.settings, loop.progress)
            for finding in loop.run(lanes, watch.row):
                watch.found(finding)
            if loop.deadline is None or time.monotonic() < loop.deadline:
                waiting.remove(loop)  # it has nothing left to do


def _report(loop: Loop, store: Store, toolchain: str) -> CampaignReport:
    progress, settings = loop.progress, loop.settings
    findings = store.findings(Filters(campaign=loop.campaign.id))
    counts = {bucket.name: bucket.count for bucket in store.buckets()}
    when = {finding: seconds for seconds, finding, _ in progress.found}
    rows = [
        FoundRow(
            f.id,
            f.bucket,
            str(f.klass or f.verdict),
            str(f.severity),
            f.culprit.pass_name,
            f.culprit.opcode,
            f.outside,
            f.elements,
            f.origin.number,
            when.get(f.id, f.seconds),
            counts.get(f.bucket, 0),
        )
        for f in findings
    ]
    return CampaignReport(
        settings.target,
        toolchain,
        settings.seed,
        loop.campaign.id,
        progress.seconds,
        {str(verdict): count for verdict, count in progress.tally.verdicts.items()},
        dict(progress.tally.reasons.most_common()),
        dict(progress.told),
        progress.tally.finite,
        progress.tally.constant,
        tuple(rows),
        tuple(sorted(progress.reached.items(), key=lambda entry: entry[1])),
        tuple(sorted(progress.passes.items(), key=lambda entry: entry[1])),
        len(progress.suspects),
        {why: tuple(numbers) for why, numbers in progress.examples.items()},
    )
