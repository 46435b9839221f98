"""One fault planted in one stage of one kernel, and what `llo diff` says of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from faults import Fault, faults
from reach import Both, alike, moved_back, unreached
from subject import Kernel

from assay.errors import AssayError
from assay.llo.diff import Given, KernelDiff, diff_kernel
from assay.llo.files import KernelFiles, Stage
from assay.llo.listing import load
from assay.llo.lowering import lower
from assay.llo.trace import Did, Trace

RANDOM = 128
"""How often random bits are put in, over all sets of inputs; on each at least once."""


COMPUTING = ("swapped operands", "unsigned compare", "narrow unpack")
"""Kinds of a fault in what an instruction makes of vectors, not in where it finds them."""


def sites(kernel: Kernel, stage: Stage, kind: str) -> list[Fault]:
    return faults(kind, stage.path.read_text())


@dataclass(frozen=True, slots=True)
class Trial:
    """outcome: `found`, `equivalent` or `hidden` with why, `missed`, `wrong stage`, or `invalid` where the simulator
    does not read what is left. named: the stage that was named. said: of the difference. sets: of inputs.
    """

    program: str
    kernel: str
    stage: str
    kind: str
    line: int
    outcome: str
    named: str = ""
    said: str = ""
    sets: int = 0


def trial(kernel: Kernel, stage: Stage, fault: Fault) -> Trial:
    text = fault.planted(stage.path.read_text())
    name = f"{stage.number:02d} {stage.label}"
    told = Trial(kernel.program, kernel.files.name, name, fault.kind, fault.line, "", sets=len(kernel.inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / stage.path.name
        path.write_text(text)
        planted = replace(stage, path=path)
        files = KernelFiles(kernel.files.name, tuple(planted if s is stage else s for s in kernel.files.stages))
        try:
            loaded = load(files, planted)
            lower(loaded.kernel, loaded.declared)
        except AssayError as error:
            return replace(told, outcome="invalid", said=str(error))
        found = diff_kernel(files, kernel.operands, kernel.inputs, kernel.generation)
        if found.difference is not None:
            outcome = "found" if found.difference.stage == name else "wrong stage"
            return replace(told, outcome=outcome, named=found.difference.stage, said=_said(found))
        why = equivalent(kernel, files, stage, planted, fault)
    outcome = "hidden" if ROUNDED in why else "equivalent" if why else "missed"
    return replace(told, outcome=outcome, said=why or found.why)


def _said(found: KernelDiff) -> str:
    difference = found.difference
    assert difference is not None
    if difference.trap:
        return f"stops: {difference.trap}"
    if difference.outputs:
        unwritten = sum(wrong.unwritten for wrong in difference.outputs)
        return f"{sum(wrong.differ for wrong in difference.outputs)} elements, {unwritten} of them unwritten"
    return f"{difference.left} left in queues, {difference.flying} DMAs never waited for"


def equivalent(kernel: Kernel, files: KernelFiles, stage: Stage, planted: Stage, fault: Fault) -> str:
    """Why a fault that changed no result cannot: seen in the runs of both texts, instruction by instruction, on every
    set of inputs. Empty where that is not shown.
    """
    rng = np.random.default_rng(0)
    reasons: set[str] = set()
    for given in kernel.inputs:
        reasons.add(_reason(kernel, files, stage, planted, fault, given, rng))
        if "" in reasons:
            return ""
    return "; ".join(sorted(reasons))


def _reason(
    kernel: Kernel,
    files: KernelFiles,
    stage: Stage,
    planted: Stage,
    fault: Fault,
    given: Given,
    rng: np.random.Generator,
) -> str:
    both = Both.watched((kernel, stage), (replace(kernel, files=files), planted), given)
    before, after = (_planted(trace, fault) for trace in both.traces)
    if before is None:
        return ""
    if not before.times and (after is None or not after.times):
        return "the instruction never runs"
    made = before.vector is not None or before.mask is not None or before.scalar is not None
    if made and after is not None and before.digest == after.digest:
        return "the instruction makes the same values"
    rounds = max(4, RANDOM // len(kernel.inputs))
    if unreached(both, rounds, rng):
        return "no result depends on what it changes: the same with random bits there"
    place = next(place for place, did in enumerate(both.traces[0].did) if did is before)
    if fault.kind in COMPUTING and alike(both, place, rounds, rng):
        return "results do not depend on the change, whatever the instruction works on"
    if moved_back(both):
        return "it moves more or fewer words to where they are: all memory is the same"
    apart = [pair for at, pair in both.apart().items() if at != place]
    if re.search(r"vmatmul|bf16", stage.path.read_text()) and apart and all(_last_bit(a, b) for a, b in apart):
        return ROUNDED
    return ""


ROUNDED = "it changes the last bit of f32, gone where that is rounded to bf16"


def _last_bit(a: Did, b: Did) -> bool:
    """Whether two values are the same but for two units in the last place of f32."""
    if a.vector is None or b.vector is None or a.times != b.times:
        return False
    x, y = (did.vector.view(np.float32).astype(np.float64) for did in (a, b) if did.vector is not None)
    near = np.abs(x - y) <= 2.0**-22 * np.maximum(np.abs(x), np.abs(y))
    return bool((near | (a.vector == b.vector)).all())


def _planted(trace: Trace, fault: Fault) -> Did | None:
    """The instruction that the fault is in: by its name, where the line has several."""
    name = fault.dst.partition("_")[0]
    for did in trace.did:
        instruction = did.instruction
        own = instruction.token if instruction.dst is None else instruction.dst.name
        if own == name and did.counted:
            return did
    return None


def draw(kernels: Sequence[Kernel], kind: str, rng: np.random.Generator) -> tuple[Kernel, Stage, Fault] | None:
    """A kernel, a stage and a site by lot; None where none of 40 draws has one."""
    for _ in range(40):
        kernel = kernels[rng.integers(len(kernels))]
        stage = kernel.ran[rng.integers(len(kernel.ran))]
        found = sites(kernel, stage, kind)
        if found:
            return kernel, stage, found[rng.integers(len(found))]
    return None
