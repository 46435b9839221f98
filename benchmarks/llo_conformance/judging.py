"""One compiled program through the simulator, and what its results are worth.

A result is judged by the reference's bounds of the program before optimization, under the policy of the target, as
`assay check` does: what lies outside must stay outside of the widest bounds, and of the optimized module's own.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.checking.bounds import Bounds, Settings
from assay.checking.target import apart
from assay.checking.weigh import Weighed, compare
from assay.errors import AssayError, ReferenceLimit, Unsupported
from assay.hlo.module import Module
from assay.llo.files import Dump
from assay.llo.kernel import bits_differ
from assay.llo.module import KernelRun, ModuleRun, OnKernel, run_module

STAGES = ("original", "final")

SIMULATED = ("agree", "mismatch", "unwritten", "unjudged")
"""unjudged: the reference has no bound for it, or leaves every element undecided."""


@dataclass
class Stage:
    """What became of one program at one stage. why: in words. opcode: what is not modelled, where that stopped it."""

    verdict: str
    why: str = ""
    opcode: str = ""
    kernels: int = 0
    steps: int = 0
    seconds: float = 0.0
    undecided: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list, repr=False)
    runs: tuple[KernelRun, ...] = field(default=(), repr=False)

    def row(self) -> dict[str, Any]:
        """Without the arrays and the kernels."""
        return {k: v for k, v in vars(self).items() if k not in ("outputs", "runs")}


@dataclass
class Judge:
    """The bounds of one program on one set of arguments, worked out once for all stages."""

    program: Module
    optimized: Module
    arguments: Sequence[Any]
    settings: Settings

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.program, self.arguments, self.settings)
        self.own = Bounds(self.optimized, self.arguments, self.settings, flushed=self.settings.device_flushes)

    def verdict(self, outputs: list[Any]) -> tuple[str, str, float]:
        return verdict_of(self.bounds, outputs, self.own)


def verdict_of(bounds: Bounds, outputs: list[Any], own: Bounds | None = None) -> tuple[str, str, float]:
    """agree, mismatch or unjudged; why; the share of elements that are undecided. own: of the optimized module."""
    try:
        return _verdict(bounds, outputs, own)
    except (Unsupported, ReferenceLimit) as missing:
        return "unjudged", f"the reference: {missing}", 0.0


def _verdict(bounds: Bounds, outputs: list[Any], own: Bounds | None) -> tuple[str, str, float]:
    balls, sampled = bounds.sharp()
    weighed = _weighed(bounds, balls, sampled, outputs)
    elements = sum(c.elements for c in weighed.comparisons)
    open_ = sum(c.undecided for c in weighed.comparisons) / max(elements, 1)
    if not weighed.outside:
        return ("unjudged" if elements and open_ == 1.0 else "agree"), "", open_
    weighed = _weighed(bounds, bounds.certain(sampled), sampled, outputs)
    if not weighed.outside:
        return "agree", "inside the certain bounds only", open_
    if own is not None and not apart(weighed, own) and not _wrong_kernel(weighed, own, outputs):
        return "agree", "inside the bounds of the optimized module only", open_
    return "mismatch", told(weighed), open_


def _wrong_kernel(weighed: Weighed, own: Bounds, outputs: list[Any]) -> bool:
    """Whether some element that the program does not allow is one that the optimized module does not either."""
    sampled = own.sharp()[1]
    again = _weighed(own, own.certain(sampled), sampled, outputs)
    return any(
        a.outside_mask is not None and b.outside_mask is not None and bool((a.outside_mask & b.outside_mask).any())
        for a, b in zip(weighed.comparisons, again.comparisons, strict=True)
    )


def _weighed(bounds: Bounds, balls: Any, sampled: list[bool], outputs: list[Any]) -> Weighed:
    found = compare(bounds, balls, outputs)
    return Weighed(balls, sampled, found, [None] * len(found))


def told(weighed: Weighed) -> str:
    """The worst element of each output that is wrong."""
    found = []
    for number, c in enumerate(weighed.comparisons):
        if c.outside:
            peak = f"{c.peak_target} instead of {c.peak_reference} +- {c.peak_radius}"
            box = "x".join(f"{a}..{b}" for a, b in c.box or ())
            found.append(f"output {number}: {c.outside} of {c.elements} in {box}, at {c.peak}: {peak}")
    return "; ".join(found)


def simulate(
    judge: Judge,
    dump: Dump,
    generation: str,
    stage: str,
    deadline_s: float = 300.0,
    limit: int = 50_000_000,
    on_kernel: OnKernel | None = None,
) -> Stage:
    """Never raises for the program's sake: a failure of our own is told as `failed`."""
    start = time.monotonic()

    def deadline() -> None:
        if time.monotonic() - start > deadline_s:
            raise ReferenceLimit(f"simulated for more than {deadline_s:g} s")

    try:
        ran = run_module(
            judge.optimized, dump, judge.arguments, generation, judge.settings.policy, stage=stage, limit=limit,
            deadline=deadline,
            on_kernel=on_kernel,
        )  # fmt: skip
    except Unsupported as missing:
        return Stage("unsupported", str(missing), opcode_of(str(missing)), seconds=time.monotonic() - start)
    except AssayError as error:
        return Stage("failed", f"{type(error).__name__}: {error}", seconds=time.monotonic() - start)
    except Exception as error:  # a fault of the simulator is one row, not the end of a run of an hour
        where = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} at {where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        return Stage("failed", why, seconds=time.monotonic() - start)
    return _judged(judge, ran, time.monotonic() - start)


def _judged(judge: Judge, ran: ModuleRun, seconds: float) -> Stage:
    outputs = [np.asarray(pair.first) for pair in ran.outputs]
    stage = Stage(
        "", kernels=len(ran.kernels), steps=sum(k.steps for k in ran.kernels), seconds=seconds, outputs=outputs,
        runs=ran.kernels,
        counts={str(kind): count for kind, count in ran.counts().items()},
    )  # fmt: skip
    if ran.untrusted:
        order = ("trapped", "missing", "unsupported")
        worst = min(ran.untrusted, key=lambda k: order.index(k.kind))
        stage.verdict, stage.why = worst.kind, f"{worst.name}: {worst.why}"
        stage.opcode = opcode_of(worst.why) if worst.kind == "unsupported" else ""
        return stage
    stage.verdict, stage.why, stage.undecided = judge.verdict(outputs)
    wild = [number for number, pair in enumerate(ran.outputs) if pair.unwritten is not None]
    if wild and stage.verdict != "mismatch":
        stage.verdict, stage.why = "unwritten", f"output {wild[0]} depends on memory that nobody wrote"
    return stage


def opcode_of(why: str) -> str:
    """The name that an Unsupported begins with."""
    words = why.split()
    return words[0].rstrip(":,;") if words else ""


def same_bits(first: Stage, second: Stage) -> bool:
    """Whether both stages gave the same outputs, bit for bit."""
    return len(first.outputs) == len(second.outputs) and all(
        not bits_differ(a, b).any() for a, b in zip(first.outputs, second.outputs, strict=True)
    )
