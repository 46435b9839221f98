"""One fault in one fusion of an optimized module, and what an isolation with it says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "passes"))

import numpy as np
from carry import edited, edited_applies
from kinds import KINDS
from tiles import retiled

from assay.checking import api
from assay.checking.bounds import Bounds, Settings
from assay.checking.target import same_number, stored
from assay.checking.weigh import weigh
from assay.hlo.attributes import called
from assay.hlo.fingerprint import computation_fingerprint
from assay.hlo.graph import live, reachable
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.inputs.generate import generate
from assay.isolate.graph.in_place import Built, FromProgram, judge_kernels
from assay.isolate.graph.same_kernel import difference
from assay.isolate.graph.tasks import Judging, Setup, Task
from assay.llo.files import read_dump
from assay.oracle.verdict import Verdict
from assay.reference.value import Ball
from assay.report.isolation import PieceResult
from assay.targets import tpu_aot
from assay.targets.dumps import scratch
from assay.toolchain import Worker

HERE = Path(__file__).parent
TRIES = 6


@dataclass(frozen=True)
class Place:
    """Where a fault can be made: in `computation`, which the fusion `name` calls."""

    name: str
    computation: str
    instruction: str
    opcode: str
    kind: str


def places(module: Module, fusions: Sequence[tuple[str, str]]) -> dict[str, list[Place]]:
    """By kind, where it applies. fusions: (computation that it stands in, its name)."""
    found: dict[str, list[Place]] = {kind: [] for kind in KINDS}
    for home, name in fusions:
        for inner in called(module.by_name[home].by_name[name]):
            computation = module.by_name[inner]
            alive = live(computation)
            for i in computation.instructions:
                for kind, fault in KINDS.items():
                    if i.name in alive and i.opcode != "parameter" and edited_applies(module, fault, computation, i):
                        found[kind].append(Place(name, inner, i.name, i.opcode, kind))
    return {kind: here for kind, here in found.items() if here}


def draw(found: dict[str, list[Place]], rng: np.random.Generator, used: dict[str, int]) -> Place:
    """A place of the kind that was used least so far."""
    least = min(used.get(kind, 0) for kind in found)
    kinds = sorted(kind for kind in found if used.get(kind, 0) == least)
    here = found[kinds[int(rng.integers(len(kinds)))]]
    return here[int(rng.integers(len(here)))]


def on_cpu(
    request: api.Request, versions: dict[str, str | None], task: Task, module: Module, place: Place
) -> PieceResult:
    """What the piece is said to be when the compiler is wrong of it."""
    with scratch() as folder:
        told = folder / "planted.json"
        computation = computation_fingerprint(module, place.computation)
        told.write_text(json.dumps({"computation": computation, "kind": place.kind, "instruction": place.instruction}))
        os.environ["ASSAY_PLANTED"] = str(told)
        judging = Judging.of(Setup(replace(request, preload=HERE / "wrong_pass.py"), versions))
        try:
            return judging.judge(task)
        finally:
            judging.close()


def on_tpu(
    request: api.Request,
    settings: Settings,
    worker: Worker,
    built: Built,
    place: Place,
    handed: FromProgram,
    all_: bool,
) -> list[PieceResult]:
    """The rows of the wrong kernel, or of all, of a module that is wrong there, by the HLO of the right one. Raises
    ValueError where libtpu makes the right kernel of the wrong instruction, as of a gather, which it writes by its
    attributes alone, or leaves out operands that the wrong one has no use for.
    """
    wrong = edited(built.module, KINDS[place.kind], place.computation, place.instruction)
    assert wrong is not None
    text = print_for_compiler(retiled(wrong, built.module))
    with scratch() as folder:
        tpu_aot.compile(
            worker, text, "hlo-text", request.target.removeprefix("tpu:"), request.options,
            dump=folder, llo=True, llo_passes="post-delay-converter|final_bundles|deduplication-map",
        )  # fmt: skip
        dump = read_dump(folder / tpu_aot.LLO_FOLDER)
        right, planted = built.dump.kernel(place.name), dump.kernel(place.name)
        if right is not None and planted is not None and not difference(right, planted):
            raise ValueError("libtpu makes the right kernel of it")

        def wanted(kernel: object) -> bool:
            return all_ or place.name in kernel.instances  # type: ignore[attr-defined]

        rows = list(judge_kernels(built.module, dump, request, settings, wanted=wanted, handed=handed))
    if any(row.verdict is Verdict.UNVERIFIED and "given are" in row.why for row in rows):
        raise ValueError("libtpu hands other operands to it")
    return rows


def unseen(alone: Module, place: Place, settings: Settings, classes: Sequence[str]) -> str:
    """Of a fault that was not found: `equivalent` where in exact arithmetic the wrong piece gives the right one's
    numbers on the inputs that were tried, `inside` where it gives what rounding allows the right one to give, else
    nothing.
    """
    names = [c.name for c in reachable(alone) if place.instruction in c.by_name]
    if len(names) != 1:
        return ""
    wrong = edited(alone, KINDS[place.kind], names[0], place.instruction)
    assert wrong is not None
    same = True
    for name in classes:
        arguments = generate(alone, 0, name) if alone.entry.parameters else []
        right = Bounds(alone, arguments, settings, flushed=settings.device_flushes)
        other = Bounds(wrong, arguments, settings, flushed=settings.device_flushes)
        if weigh(right, stored(other.middle())).outside:
            return ""
        pairs = zip(right.middle(), other.middle(), strict=True)
        same &= all(bool(same_number(a, b).all()) for a, b in pairs if isinstance(a, Ball) and isinstance(b, Ball))
    return "equivalent" if same else "inside"
