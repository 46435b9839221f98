"""Programs of the user's own as findings: judged, and followed as a campaign's suspects are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assay.campaign.follow import Limits, Seen, follow
from assay.campaign.screen import judged_alone
from assay.checking import api
from assay.checking.bounds import Step
from assay.errors import InputError
from assay.oracle.verdict import FINDINGS
from assay.programs.load import parse_source
from assay.store.api import Store
from assay.store.finding import Finding, Origin, digest_of


def add(
    source: str, request: api.Request, store: Store, limits: Limits | None = None, step: Step = lambda _: None
) -> Iterator[tuple[str, Finding | None, str]]:
    """(name, finding, why not) of every program that `source` names, as `assay check` has it, on the first of its
    inputs that show something. What is stored already is given as it is stored. Raises AssayError where it cannot
    begin, InputError where there is no program.
    """
    path = parse_source(source).path  # a wrong path is told before a worker starts
    api.refuse_unknown_names(request)
    with api.open_worker(request, step) as (worker, _):
        step("reading the program")
        programs = api.read_programs(source, request, worker, scheduled=True)
    text = path.read_bytes() if path.suffix == ".py" else b""
    if not programs:
        raise InputError(f"{source}: there is no program in it")
    for program in programs:
        if program.problem is not None or program.module is None:
            yield program.name, None, program.problem or "no module"
            continue
        why = "nothing is wrong with it"
        for inputs, arguments in api.inputs_for(program, request):
            step(f"looking at {program.name} ({inputs})")
            case = judged_alone(program, arguments, inputs, request)
            if case.verdict not in FINDINGS:
                why = f"{case.verdict}{f': {case.why}' if case.why else ''}"
                continue
            origin = Origin(file=program.name)
            seen = Seen(program, tuple(arguments), case, origin, text)
            found = follow(seen, request, limits or Limits(), {}, step)
            if found.finding is None:
                why = found.why
                continue
            store.add(found.finding, found.artifacts)
            digests = {name: digest_of(data) for name, data in found.artifacts.items()}
            yield program.name, store.get(replace(found.finding, artifacts=digests).id), ""
            break
        else:
            yield program.name, None, why
