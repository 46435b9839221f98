"""One program of a campaign once more: made anew from its number, and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from assay.campaign.batch import Member
from assay.campaign.run import Progress, request_of
from assay.campaign.screen import seen_alone
from assay.campaign.settings import Members, Settings, is_wide
from assay.errors import InputError
from assay.generate.source import file
from assay.report.result import Report
from assay.store.api import Store


@dataclass(frozen=True, slots=True)
class Replayed:
    """source: of a file that `assay check` takes."""

    source: str
    report: Report


def replay(what: str, target: str, toolchain: str | None, store: Store | None) -> Replayed:
    """what: `SEED/NUMBER`. store: where its campaign is, if there was one: its settings count, and what it had reached
    by then. Raises InputError where `what` is none, ProgramError where the program does not lower.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", what)
    if match is None:
        raise InputError(f"{what}: write SEED/NUMBER, as a finding's origin has it, such as 3/1207")
    settings, progress = _campaign(int(match[1]), target, store)
    settings = replace(settings, toolchain=toolchain or settings.toolchain)
    member = Members(settings, progress.corpus).member(int(match[2]))
    return _checked(member, is_wide(member.number // settings.batch), settings)


def _campaign(seed: int, target: str, store: Store | None) -> tuple[Settings, Progress]:
    """The campaign of this seed and target that did most; one that never was has the default settings."""
    known = [c for c in store.campaigns() if c.seed == seed and c.settings.get("target") == target] if store else []
    found = [(settings_of(c.settings), Progress.of(c.progress)) for c in known]
    return max(found, key=lambda pair: len(pair[1].done), default=(Settings(seed, target), Progress()))


def settings_of(data: Mapping[str, Any]) -> Settings:
    """As a store has them."""
    names = {field.name for field in fields(Settings)}
    made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items() if name in names}
    made["templates"] = tuple((name, text) for name, text in made.get("templates", ()))
    return Settings(**made)


def _checked(member: Member, wide: bool, settings: Settings) -> Replayed:
    seen, toolchain = seen_alone(member, wide, request_of(settings))
    name = f"program {member.number} of seed {settings.seed}"
    report = Report(name, settings.target, toolchain, settings.seed, (seen.case,))
    return Replayed(file([(member.name, member.plan)], wide), report)
