"""A suspect of a campaign, followed to a finding."""

from __future__ import annotations

from collections.abc import Mapping

from assay.campaign.follow import Followed, Limits, Seen, follow
from assay.campaign.screen import Suspect
from assay.campaign.settings import Settings
from assay.checking import api
from assay.checking.bounds import Step
from assay.generate.source import file
from assay.store.finding import Origin


def triage(
    suspect: Suspect,
    wide: bool,
    settings: Settings,
    request: api.Request,
    limits: Limits,
    full: Mapping[str, int],
    step: Step = lambda _: None,
) -> Followed:
    """As `follow` has it."""
    member = suspect.member
    seen = Seen(
        suspect.program,
        suspect.arguments,
        suspect.case,
        Origin(seed=settings.seed, number=member.number),
        file([(member.name, member.plan)], wide).encode(),
        {"choices": list(member.choices), "operations": member.operations, "template": member.template},
    )
    return follow(seen, request, limits, full, step)
