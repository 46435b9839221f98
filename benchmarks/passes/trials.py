"""One trial: a fault in a chain of snapshots, and what assay makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from carry import Planted
from inside import PLACE

from assay.checking import api
from assay.checking.bounds import Bounds, Settings
from assay.checking.target import same_number
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module
from assay.isolate.api import more_inputs
from assay.isolate.judgement import Inputs, stored
from assay.isolate.pipeline import Attribution, find_culprit
from assay.oracle.verdict import Verdict
from assay.programs.program import Program
from assay.reference.sampled import midpoints
from assay.reference.value import Array, Ball, Token
from assay.targets.snapshots import Snapshot, read
from assay.toolchain import host

# Passes that cannot make a wrong value of their own; a fault planted elsewhere must never be put down to them.
HARMLESS = ("dce", "rename", "layout", "schedul", "copy-insertion", "flatten-call-graph")


@dataclass(frozen=True)
class Case:
    """A program, its snapshots and their modules, and the inputs that everything is tried on."""

    name: str
    program: Module
    snapshots: tuple[Snapshot, ...]
    text: Callable[[Snapshot], str]
    modules: tuple[Module, ...]
    inputs: tuple[Inputs, ...]
    settings: Settings
    more: tuple[Inputs, ...] = ()

    @property
    def all_inputs(self) -> tuple[Inputs, ...]:
        return (*self.inputs, *self.more)


def attributed(case: Case, planted: Planted | None = None, walk_all: bool = False) -> Attribution:
    """What assay says of the chain, with the fault or as it is."""
    if planted is None:
        return find_culprit(
            case.program, case.snapshots, case.inputs, case.settings, walk_all=walk_all, read=case.text, more=case.more
        )
    chain = case.snapshots[: planted.at + len(planted.modules)]
    texts: dict[int, str] = {}

    def read(snapshot: Snapshot) -> str:
        if snapshot.index < planted.at:
            return case.text(snapshot)
        if snapshot.index not in texts:
            texts[snapshot.index] = print_module(planted.modules[snapshot.index - planted.at])
        return texts[snapshot.index]

    return find_culprit(case.program, chain, case.inputs, case.settings, walk_all=walk_all, read=read, more=case.more)


def trial(case: Case, planted: Planted, walk_all: bool = False) -> dict[str, Any]:
    """One row: what was planted where, and the outcome.

    right: found, and the fault was made within the interval named. later: found, in an interval that begins later, and
    the results up to there are those of the chain without the fault. wrong interval: found elsewhere. equivalent: not
    found, and the last results are bit for bit those without the fault, on all inputs. lost in rounding: not found, and
    they are off by less than the right snapshot is in any of its own runs with honest roundings. inside: not found, and
    they are off by more. unverified: the last snapshots could not be evaluated.
    """
    begun = time.monotonic()
    found = attributed(case, planted, walk_all)
    row: dict[str, Any] = {
        "program": case.name,
        "kind": planted.kind,
        "opcode": planted.opcode,
        "instruction": planted.instruction,
        "at": planted.at,
        "label": case.snapshots[planted.at].label,
        "carried": len(planted.modules),
        "snapshots": len(case.snapshots),
        "seconds": round(time.monotonic() - begun, 2),
    }
    if found.culprit is None:
        return {**row, **_unfound(case, planted, found)}
    place = {snapshot.label: snapshot.index for snapshot in case.snapshots}
    good = -1 if not found.culprit.since else place[found.culprit.since]
    bad = place[found.culprit.snapshot]
    row.update(good=good, bad=bad, named=found.culprit.name, instructions=list(found.culprit.instructions)[:8])
    if good < planted.at <= bad:
        return {**row, "outcome": "right", "names the instruction": _named(planted, found.culprit.instructions)}
    same = planted.at <= good and _same(case, planted.modules[good - planted.at], case.modules[good])
    blamed = any(word in found.culprit.name for word in HARMLESS)
    return {**row, "outcome": "later" if same else "wrong interval", "harmless blamed": blamed and not same}


def trial_inside(name: str, folder: Path, planted: dict[str, Any], request: api.Request) -> dict[str, Any]:
    """One row for a fault that a pass of XLA:CPU's pipeline made. right: that pass ends the interval, and is named."""
    begun = time.monotonic()
    snapshots = read(folder)
    modules = tuple(parse_module(snapshot.text()) for snapshot in snapshots)
    program = Program(name, module=modules[0])
    inputs = tuple(Inputs(words, tuple(arguments)) for words, arguments in api.inputs_for(program, request))
    settings = api.settings_for(request, dict(host().versions))
    case = Case(name, modules[0], snapshots, Snapshot.text, modules, inputs, settings, more_inputs(program, request))
    found = attributed(case)
    at = next(snapshot.index for snapshot in snapshots if snapshot.after.startswith(PLACE))
    by = snapshots[at].after
    row = {
        "program": name, **planted, "at": at, "label": snapshots[at].label, "carried": len(snapshots) - at,
        "snapshots": len(snapshots), "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip
    if found.culprit is None:
        if found.verdict == Verdict.UNVERIFIED:
            return {**row, "outcome": "unverified", "why": found.why}
        same = _same(case, modules[-1], modules[at - 1])
        return {**row, **({"outcome": "equivalent"} if same else _inside(case, modules[-1], modules[at - 1]))}
    culprit = found.culprit
    row.update(
        good=culprit.since, bad=culprit.snapshot, named=culprit.name, instructions=list(culprit.instructions)[:8]
    )
    if culprit.name == by:
        named = any(n.startswith(planted["instruction"]) for n in culprit.instructions)
        return {**row, "outcome": "right", "names the instruction": named}
    blamed = any(word in culprit.name for word in HARMLESS)
    return {**row, "outcome": "wrong interval", "harmless blamed": blamed}


def _inside(case: Case, module: Module, other: Module) -> dict[str, Any]:
    outcome = "lost in rounding" if _lost_in_rounding(case, module, other) else "inside"
    return {"outcome": outcome, "off": _off(case, module, other)}


def _lost_in_rounding(case: Case, module: Module, right: Module) -> bool:
    """Whether each output that is off is so by less, in root mean square, than in any of the right module's runs in
    which every rounding is drawn at random.
    """
    for inputs in case.all_inputs:
        bounds = Bounds(right, inputs.arguments, case.settings, flushed=case.settings.device_flushes)
        leaves = zip(_leaves(case, module, inputs), _leaves(case, right, inputs), strict=True)
        for index, (wrong, middle) in enumerate(leaves):
            if not isinstance(wrong, Ball) or not isinstance(middle, Ball) or same_number(wrong, middle).all():
                continue
            least = min(_distance(run, middle.mid) for run in bounds.runs(index))
            if not _distance(wrong.mid, middle.mid) < least:
                return False
    return True


def _distance(x: Array, y: Array) -> float:
    """Root mean square; infinite where one is finite and the other another thing."""
    x, y = (v.astype(np.complex128) for v in (x, y))
    with np.errstate(all="ignore"):
        off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return float(np.sqrt(np.square(np.where(np.isnan(off), np.inf, off)).mean()))


def _named(planted: Planted, names: Sequence[str]) -> bool:
    """Whether the planted instruction is among those named, or what stands in front of it, or one that takes it."""
    users = {
        i.name for c in planted.modules[0].computations for i in c.instructions if planted.instruction in i.operands
    }
    return any(n == planted.instruction or n.startswith(f"{planted.instruction}.") or n in users for n in names)


def _unfound(case: Case, planted: Planted, found: Attribution) -> dict[str, Any]:
    if found.verdict == Verdict.UNVERIFIED:
        return {"outcome": "unverified", "why": found.why}
    last = case.modules[planted.at + len(planted.modules) - 1]
    if _same(case, planted.modules[-1], last):
        return {"outcome": "equivalent"}
    return _inside(case, planted.modules[-1], last)


def _same(case: Case, module: Module, other: Module) -> bool:
    return all(
        a.tobytes() == b.tobytes()
        for inputs in case.all_inputs
        for a, b in zip(_outputs(case, module, inputs), _outputs(case, other, inputs), strict=True)
    )


def _off(case: Case, module: Module, other: Module) -> float:
    """The largest difference of any element, relative to the largest size in its output."""
    worst = 0.0
    for inputs in case.all_inputs:
        for a, b in zip(_outputs(case, module, inputs), _outputs(case, other, inputs), strict=True):
            x, y = (np.asarray(v).astype(np.complex128).ravel() for v in (a, b))
            both = np.isfinite(x) & np.isfinite(y)
            if both.any():
                worst = max(worst, float(np.abs(x - y)[both].max() / max(np.abs(y[both]).max(), 1e-30)))
    return worst


def _outputs(case: Case, module: Module, inputs: Inputs) -> Sequence[Any]:
    return stored(_leaves(case, module, inputs))


def _leaves(case: Case, module: Module, inputs: Inputs) -> list[Ball | Token]:
    settings = case.settings
    return midpoints(
        module,
        inputs.arguments,
        settings.policy,
        flushed=settings.device_flushes,
        memory_limit=settings.memory_limit,
    )
