"""What `assay llo stats` counted, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from assay.llo.stats import CAPACITY, SLOTS, KernelStats
from assay.report.tables import table

SCHEMA = 1
MOST_OPCODES = 12


@dataclass(frozen=True, slots=True)
class ProgramStats:
    """One program's kernels. problem: why there are none."""

    name: str
    kernels: tuple[KernelStats, ...]
    problem: str = ""


def show(programs: Sequence[ProgramStats], console: Console, verbose: bool = False) -> None:
    """A row a kernel; with `verbose` every stage and every opcode."""
    for program in programs:
        if program.problem:
            console.print(Text(f"{program.name}: {program.problem}", style="red"), soft_wrap=True)
            continue
        rows = table("kernel", "stages", "instructions", "bundles", "empty", *SLOTS, "not modelled", title=program.name)
        for kernel in program.kernels:
            ends = [s.instructions for s in kernel.stages if not s.why]
            size = f"{ends[0]} -> {ends[-1]}" if len(ends) > 1 else f"{ends[0]}" if ends else ""
            cells = [str(kernel.slots[name]) if kernel.bundles else "" for name in SLOTS]
            bundles = [str(kernel.bundles), str(kernel.empty)] if kernel.bundles else ["", ""]
            rows.add_row(kernel.name, str(len(kernel.stages)), size, *bundles, *cells, str(len(kernel.hindered)))
        console.print(rows)
        for kernel in program.kernels:
            _details(kernel, console, verbose)
    if any(kernel.bundles for program in programs for kernel in program.kernels):
        console.print(
            Text(
                "bundles are static cycles: one a cycle where nothing jumps or waits. A bundle of v5e has "
                + ", ".join(f"{count} {name}" for name, count in CAPACITY.items())
            ),
            soft_wrap=True,
        )


def _details(kernel: KernelStats, console: Console, verbose: bool) -> None:
    for stage in kernel.stages:
        if stage.why:
            console.print(Text(f"{kernel.name}, {stage.number:02d} {stage.label}: {stage.why}", style="yellow"))
    if kernel.hindered:
        words = ", ".join(f"{name} ({', '.join(kernel.unmodelled[name])})" for name in kernel.hindered)
        console.print(Text(f"{kernel.name}: not modelled: {words}", style="yellow"), soft_wrap=True)
    between = [name for name in kernel.unmodelled if name not in kernel.hindered]
    if verbose and between:
        words = ", ".join(f"{name} ({', '.join(kernel.unmodelled[name])})" for name in between)
        console.print(Text(f"{kernel.name}: not modelled, in stages between: {words}"), soft_wrap=True)
    shown = list(kernel.opcodes.items())
    if not verbose:
        shown = shown[:MOST_OPCODES]
    more = len(kernel.opcodes) - len(shown)
    words = ", ".join(f"{name} {count}" for name, count in shown) + (f", {more} opcodes more" if more else "")
    console.print(Text(f"{kernel.name}: {words}"), soft_wrap=True)
    if verbose:
        rows = table("stage", "form", "instructions", "regions or bundles")
        for stage in kernel.stages:
            label = f"{stage.number:02d} {stage.label}"
            rows.add_row(label, stage.form, str(stage.instructions), str(stage.parts))
        console.print(rows)


def to_json(programs: Sequence[ProgramStats], source: str, target: str) -> str:
    return json.dumps(as_dict(programs, source, target), indent=1) + "\n"


def as_dict(programs: Sequence[ProgramStats], source: str, target: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": source,
        "target": target,
        "capacity": dict(CAPACITY),
        "programs": [
            {"name": p.name, "why": p.problem, "kernels": [_kernel(kernel) for kernel in p.kernels]} for p in programs
        ],
    }


def _kernel(kernel: KernelStats) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "static_cycles": kernel.bundles,
        "empty_bundles": kernel.empty,
        "slots": {name: {"issued": kernel.slots[name], "bundles": kernel.full[name]} for name in SLOTS},
        "opcodes": dict(kernel.opcodes),
        "unmodelled": {name: list(where) for name, where in kernel.unmodelled.items()},
        "stages": [
            {
                "number": s.number,
                "label": s.label,
                "form": s.form,
                "instructions": s.instructions,
                "parts": s.parts,
                "why": s.why,
            }
            for s in kernel.stages
        ],
    }
