"""`assay isolate` on whatever the user names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from assay import journal
from assay.checking import api
from assay.checking.question import file_name, question
from assay.errors import InputError
from assay.isolate.graph.rank import severity
from assay.isolate.graph.run import Options, Run, Watch
from assay.programs.load import parse_source
from assay.report.isolation import IsolationReport, candidates
from assay.toolchain.environments import cache_folder


def isolate(
    source: str, request: api.Request, options: Options, watch: Watch, command: str = "", rows: Path | None = None
) -> IsolationReport:
    """Every piece of every program that `source` names, judged alone. rows: the file that rows go to as they come, one
    of the cache's where it is None; `options.resume` goes on from what is there. Raises AssayError where it cannot
    begin.
    """
    parse_source(source)  # a wrong path is told before a worker starts
    _refuse_place(options.out)
    _refuse_rows(rows)
    request = replace(request, through="llo") if api.generation_of(request.target) else request
    api.refuse_unknown_names(request)
    with api.open_worker(request, watch.step) as (worker, versions):
        asked = question(source, request, api.words(versions), options.trace)  # filters and shards change no row
        where = rows or cache_folder().parent / "isolate" / file_name(asked)
        watch.step("reading the program")
        programs = api.read_programs(source, request, worker, scheduled=True)
        with journal.Journal(where, asked, "assay isolate") as lines:
            if not options.resume:
                lines.found = []
            elif (other := lines.another()) is not None:
                raise InputError(f"--resume: {where} has rows {_apart(other, asked)}; name another with --rows")
            lines.begin(lines.found)
            found = tuple(
                Run(program, request, options, worker, versions, watch, lines).pieces() for program in programs
            )
    ranked = sorted(candidates([row for program in found for row in program.rows]), key=severity, reverse=True)
    return IsolationReport(source, request.target, api.words(versions), request.seed, found, tuple(ranked), command)


def _refuse_place(out: Path) -> None:
    """Raises InputError where no folder for reproducers can be made, before anything is found."""
    there = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError(f"--out {out}: {there} is no folder that can be written to; name another")


def _refuse_rows(rows: Path | None) -> None:
    """Raises InputError where rows cannot go to this file."""
    if rows is None:
        return
    if rows.is_dir():
        raise InputError(f"--rows {rows}: it is a folder; name a file in it")
    there = next(place for place in (rows.absolute(), *rows.absolute().parents) if place.exists())
    if there != rows.absolute() and not there.is_dir():
        raise InputError(f"--rows {rows}: {there} is no folder; name another file")
    if not os.access(there, os.W_OK):
        raise InputError(f"--rows {rows}: {there} cannot be written to; name another file")


def _apart(other: str, question: str) -> str:
    """In words, what rows of another question are of."""
    theirs, mine = other.split("\n"), question.split("\n")
    if theirs[0] != mine[0]:
        return f"of {theirs[0]}, not of {mine[0]}"
    if theirs[1:2] != mine[1:2]:
        return f"of {theirs[1]}, not of {mine[1]}" if len(theirs) > 1 else "of another toolchain"
    return "of another target or other options, or of a program or inputs that have changed since"
