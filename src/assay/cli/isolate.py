"""assay isolate: which piece of a graph is wrong?"""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import TARGETS, Request, command_line
from assay.cli.live import Board
from assay.cli.options import (
    Accumulation,
    Case,
    Flag,
    InputClass,
    Inputs,
    Json,
    Memory,
    Option,
    Policy,
    Seed,
    bytes_of,
    classes_of,
    flags_of,
    options_of,
)
from assay.cli.output import deliver, refuse_json
from assay.errors import InputError
from assay.isolate.graph.api import isolate
from assay.isolate.graph.run import FIELDS, Options
from assay.isolate.graph.shards import shard as parse_shard
from assay.report.isolation import report_dict
from assay.report.isolation_text import show


def command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="FILE.py with cases(), FILE.py:FUNCTION, HLO text or proto (optimized HLO too), StableHLO text or "
            "bytecode, a jax.export artifact, or a dump folder.",
        ),
    ],
    target: Annotated[str, typer.Option(help=f"Whose compiler: {', '.join(TARGETS)}.")] = "cpu",
    toolchain: Annotated[
        str | None, typer.Option(help="Versions to look at, e.g. jax==0.12.0.1; the jax beside assay if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that judge pieces.")] = 2,
    ray: Annotated[
        str | None,
        typer.Option(help="Judge on a Ray cluster instead: its address, `auto`, or `local`. Needs assay-xla[ray]."),
    ] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", help=f"Only pieces that match FIELD=GLOB, one of {', '.join(FIELDS)}. Repeatable."),
    ] = None,
    shard: Annotated[str | None, typer.Option(help="Only the I-th of N shares of the pieces, I/N.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the rows of an earlier run.")] = False,
    rows: Annotated[
        Path | None, typer.Option(help="The file that rows go to as they come, JSON lines; one in the cache otherwise.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for reproducers, made when there is a finding.")] = Path(
        "isolated"
    ),
    whole: Annotated[bool, typer.Option("--whole/--pieces", help="Judge the whole program as well.")] = True,
    trace: Annotated[
        bool, typer.Option("--trace", help="Give each piece what the graph hands to it, before drawn inputs.")
    ] = False,
    preload: Annotated[
        Path | None, typer.Option(help="A Python file that every worker executes first; it may register passes.")
    ] = None,
    option: Option = None,
    flag: Flag = None,
    case: Case = None,
    seed: Seed = 0,
    inputs: Inputs = None,
    input_class: InputClass = None,
    json: Json = None,
    memory: Memory = "8G",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one request to the compiler may take.")] = 300.0,
    reference_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one evaluation may take.")] = 600.0,
    policy: Policy = None,
    accumulation: Accumulation = "probable",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every piece.")] = False,
) -> None:
    """Compile PROGRAM, cut the optimized graph into pieces, judge each alone, and rank those that are wrong.

    Exit code 0: all agree. 1: a finding. 2: some could not be judged.
    """
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
        reference_timeout_s=reference_timeout,
        policy=policy,
        accumulation=accumulation,
        preload=preload,
    )
    options = Options(
        jobs,
        ray,
        tuple(_filter(text) for text in filter_ or ()),
        None if shard is None else parse_shard(shard),
        resume,
        out,
        whole,
        trace or inputs is not None,
    )
    refuse_json(json)
    with Board() as board:
        report = isolate(program, request, options, board, command_line(), rows)
    deliver(
        json,
        lambda: json_.dumps(report_dict(report), indent=1) + "\n",
        lambda console: show(report, console, verbose),
    )
    raise typer.Exit(report.exit_code)


def _filter(text: str) -> tuple[str, str]:
    name, equals, glob = text.partition("=")
    if not equals or not glob or name not in FIELDS:
        raise InputError(f"--filter {text}: write FIELD=GLOB, the field one of {', '.join(FIELDS)}")
    return name, glob
