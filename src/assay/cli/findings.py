"""assay findings: what was found, and whether it is still there."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.checking.api import TARGETS, Request, refuse_unknown_names
from assay.cli.options import (
    Case,
    Flag,
    InputClass,
    Inputs,
    Json,
    Memory,
    Option,
    Seed,
    bytes_of,
    classes_of,
    flags_of,
    options_of,
    seconds_of,
)
from assay.cli.output import deliver, refuse_json
from assay.cli.progress import Progress
from assay.errors import InputError, StoreError
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.load import parse_source
from assay.report import findings_text
from assay.store.api import DEFAULT, VARIABLE, Filters, open_store
from assay.store.finding import Severity, Standing, Verification, bucket_dict, finding_dict, verification_dict

app = typer.Typer(help="What campaigns found, and what became of it.", no_args_is_help=True)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="A folder, or postgresql://USER@HOST/DATABASE?artifacts=PLACE; "
        f"{VARIABLE} or {DEFAULT} if not given. PLACE is a folder or an fsspec URL.",
    ),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a finding, or enough of its beginning.")]
Bucket = Annotated[str, typer.Option(help="Only findings of buckets like this, such as 'algsimp.*'.")]
VerdictOption = Annotated[str | None, typer.Option("--verdict", help="Only these: mismatch, crash, ...")]
SeverityOption = Annotated[
    str | None, typer.Option("--severity", help=f"Only these: {', '.join(s.value for s in Severity)}.")
]
Target = Annotated[str, typer.Option(help="Only findings on targets like this, such as 'tpu:*'.")]
FoundIn = Annotated[
    str, typer.Option("--found-in", help="Only findings of toolchains like this, such as 'jax==0.10*'.")
]
Pass = Annotated[str, typer.Option("--pass", help="Only findings put down to passes like this.")]
Known = Annotated[
    bool | None, typer.Option("--known/--new", help="Only findings known upstream, or those that are not.")
]


@app.command("list")
def list_(
    store: StoreOption = None,
    bucket: Bucket = "",
    verdict: VerdictOption = None,
    severity: SeverityOption = None,
    target: Target = "",
    found_in: FoundIn = "",
    pass_: Pass = "",
    known: Known = None,
    buckets: Annotated[bool, typer.Option("--buckets", help="Show buckets in place of findings.")] = False,
    json: Json = None,
) -> None:
    """Show what is stored, silent wrong results first."""
    filters = _filters(bucket, verdict, severity, target, found_in, pass_, known)
    refuse_json(json)
    with open_store(store, create=False) as opened:
        if buckets:
            found = opened.buckets()
            deliver(
                json,
                lambda: _json({"schema": 1, "buckets": [bucket_dict(b) for b in found]}),
                lambda console: findings_text.show_buckets(found, console),
            )
            return
        findings = opened.findings(filters)
        latest = {v.finding: v for v in opened.verifications()}
    deliver(
        json,
        lambda: _json({"schema": 1, "findings": [finding_dict(f) for f in findings]}),
        lambda console: findings_text.show_list(findings, latest, console),
    )


@app.command()
def show(
    id: Id,
    store: StoreOption = None,
    artifact: Annotated[str | None, typer.Option(help="Write this artifact to standard output.")] = None,
    json: Json = None,
) -> None:
    """Show all that is stored of a finding, or one of its artifacts."""
    refuse_json(json)
    with open_store(store, create=False) as opened:
        finding = opened.get(id)
        if artifact is not None:
            sys.stdout.buffer.write(opened.read(finding, artifact))
            return
        verifications = opened.verifications(finding.id)
    deliver(
        json,
        lambda: _json(finding_dict(finding) | {"verifications": [verification_dict(v) for v in verifications]}),
        lambda console: findings_text.show(finding, verifications, console),
    )


@app.command()
def add(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="As `assay check` takes it.")],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    toolchain: Annotated[
        str | None, typer.Option(help="Versions that show it, e.g. jax==0.6.2; the jax beside assay if not given.")
    ] = None,
    store: StoreOption = None,
    time: Annotated[str, typer.Option(help="What the reduction of each may take, such as 30s or 5m.")] = "2m",
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one compilation, or one run, may take.")] = 90.0,
    through: Annotated[str, typer.Option(help="Without a device, what runs: hlo or llo; see assay check.")] = "hlo",
    json: Json = None,
) -> None:
    """Make findings of programs of your own: judge them, and put down, reduce, test and store what is wrong.

    Exit code 0: all are stored. 2: of one there is nothing to store, and it says why.
    """
    from assay.campaign.add import add as added
    from assay.campaign.follow import Limits

    request = Request(
        target=target,
        toolchain=toolchain,
        options=options_of(option),
        flags=flags_of(flag),
        seed=seed,
        inputs=inputs,
        classes=classes_of(input_class),
        case=case,
        memory_limit=bytes_of(memory),
        timeout_s=timeout,
        through=through,
    )
    refuse_json(json)
    parse_source(program)  # what cannot begin leaves no store behind
    refuse_unknown_names(request)
    limits = Limits(reduce_s=seconds_of(time, "--time"))
    found: list[dict[str, Any]] = []
    missing = False
    with open_store(store) as opened, Progress() as progress:
        for name, finding, why in added(program, request, opened, limits, progress.step):
            missing |= finding is None
            told = f"not stored: {why}" if finding is None else f"{finding.id}  {finding.bucket}"
            progress.console.print(f"{name}: {told}", soft_wrap=True, markup=False)
            found.append({"name": name, "why": why} | ({} if finding is None else finding_dict(finding)))
    deliver(json, lambda: _json({"schema": 1, "added": found}), lambda console: None)
    if missing:
        raise typer.Exit(2)


@app.command()
def mark(
    id: Id,
    store: StoreOption = None,
    known: Annotated[str | None, typer.Option(help="The upstream report of it; '' for none.")] = None,
    note: Annotated[str | None, typer.Option(help="A note for people; '' for none.")] = None,
) -> None:
    """Say what is known of a finding."""
    if known is None and note is None:
        raise InputError("nothing to say: give --known URL or --note TEXT")
    with open_store(store, create=False) as opened:
        print(f"{opened.mark(id, note, known).id}: marked")


@app.command()
def export(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Findings by their ids; `all` for all.")],
    to: Annotated[Path, typer.Option(help="The folder in which each finding gets one of its own.")] = Path("findings"),
    store: StoreOption = None,
) -> None:
    """Write findings as folders that stand alone: program, inputs, report, test, issue text.

    Exit code 0: all are written. 2: one is not, and it says why.
    """
    from assay.store.export import export as write

    with open_store(store, create=False) as opened:
        chosen = opened.findings() if ids == ["all"] else [opened.get(id) for id in ids]
        missing = 0
        for finding in chosen:
            text = findings_text.readme(finding, opened.verifications(finding.id))
            try:
                print(write(opened, finding, to, text))
            except (InputError, StoreError) as error:  # the others can be had all the same
                if len(chosen) == 1:
                    raise
                missing += 1
                print(f"assay: {finding.id}: {error}", file=sys.stderr)
    if missing:
        raise StoreError(f"{missing} of {len(chosen)} findings were not exported")


@app.command()
def verify(
    toolchain: Annotated[str, typer.Option(help="Versions to look at, e.g. jax==0.12.0.1, or host.")],
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Findings by their ids.")] = None,
    store: StoreOption = None,
    bucket: Bucket = "",
    verdict: VerdictOption = None,
    severity: SeverityOption = None,
    target: Target = "",
    found_in: FoundIn = "",
    pass_: Pass = "",
    known: Known = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only findings not yet verified there.")] = False,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the compiler, or a run, may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds the reference may take.")] = 600.0,
    json: Json = None,
) -> None:
    """Judge stored findings again under another toolchain, and record what became of each.

    Exit code 0: all are fixed there. 1: one is still there, or wrong in another way. 2: one could not be judged.
    """
    from assay.store.verify import verify as judged

    filters = _filters(bucket, verdict, severity, target, found_in, pass_, known)
    base = Request(memory_limit=bytes_of(memory), timeout_s=timeout, reference_timeout_s=reference_timeout)
    refuse_unknown_names(base)
    refuse_json(json)
    found: list[Verification] = []
    with open_store(store, create=False) as opened, Progress() as progress:
        findings = [opened.get(id) for id in ids] if ids else opened.findings(filters)
        if missing:
            done = {v.finding for v in opened.verifications() if v.toolchain == toolchain}
            findings = [finding for finding in findings if finding.id not in done]
        for one in judged(opened, findings, toolchain, base, progress.step):
            progress.console.print(findings_text.verified_line(one), soft_wrap=True)
            found.append(one)
    counts = {str(s): sum(v.standing is s for v in found) for s in Standing}
    deliver(
        json,
        lambda: _json({"schema": 1, "counts": counts, "verifications": [verification_dict(v) for v in found]}),
        lambda console: console.print(", ".join(f"{n} {s}" for s, n in counts.items() if n) or "nothing to verify"),
    )
    if counts[Standing.STILL] or counts[Standing.CHANGED]:
        raise typer.Exit(1)
    raise typer.Exit(2 if counts[Standing.UNVERIFIED] else 0)


def _filters(
    bucket: str,
    verdict: str | None,
    severity: str | None,
    target: str,
    found_in: str,
    pass_: str,
    known: bool | None,
) -> Filters:
    if verdict is not None and verdict not in FINDINGS:
        raise InputError(f"--verdict {verdict}: there is {', '.join(sorted(FINDINGS))}")
    if severity is not None and severity not in set(Severity):
        raise InputError(f"--severity {severity}: there is {', '.join(Severity)}")
    return Filters(
        bucket=bucket,
        verdict=None if verdict is None else Verdict(verdict),
        severity=None if severity is None else Severity(severity),
        target=target,
        toolchain=found_in,
        pass_name=pass_,
        known=known,
    )


def _json(value: dict[str, Any]) -> str:
    return json_.dumps(value, indent=1) + "\n"
