"""Where a target and the reference first part, tensor by tensor.

Two questions are asked of every tensor that the optimized graph computes. Can the reference, from the program's own
arguments, come to such a summary? And can this one instruction give these elements on the operands that the target
itself gave it? The second has narrow bounds wherever it stands, and names the instruction; the first sees what went
wrong where nobody could look.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np

from assay.checking.bounds import Settings, Step
from assay.errors import AssayError, ReferenceLimit, Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape
from assay.isolate.graph.summary import Allowed, Summary, expected, summarize
from assay.isolate.graph.trace import element, indexed_leaves
from assay.oracle.compare import compare_output
from assay.programs.program import Array
from assay.reference.evaluator import Steps, evaluate
from assay.reference.policy import Policy
from assay.reference.value import Ball, Value, union
from assay.report.summary import DIVERGING, Four, Row, State

Place = tuple[str, str, tuple[int, ...], int]
"""Computation, instruction, leaf of its value, how often it had run before."""


@dataclass(slots=True)
class Watched:
    """Rows of one run of a target. made: instructions whose values are wanted, by computation and name.

    drift: by place, the summary of the reference and where the target's may lie.
    """

    module: Module
    arguments: Sequence[Array]
    settings: Settings
    made: Callable[[Computation, Instruction], bool]
    trips: int
    step: Step = lambda _: None
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    drift: dict[Place, tuple[Summary, Allowed]] = field(default_factory=dict)
    _runs: dict[tuple[str, str], int] = field(default_factory=dict)
    _own: dict[bool, Steps] = field(default_factory=dict)

    def evaluate(self) -> None:
        """The reference's side, before or after the target's. What it cannot evaluate is open, with a note."""
        self.step("evaluating the reference")
        self.drift, why = self._evaluated(certain=False)
        if why:
            self.notes.append(f"the reference did not come to its end: {why}")

    def see(
        self,
        computation: Computation,
        instruction: Instruction,
        operands: Sequence[Value] | None,
        leaves: Sequence[Array | None],
        why: str = "",
        unwritten: Sequence[Array | None] = (),
    ) -> None:
        """One more run of an instruction. operands: exact but for what is undecided; None where they are not known.
        leaves: what it gave, one for each array, None where that could not be had, with the reason. unwritten: of each
        the elements that depend on memory that nobody wrote, which have no summary.
        """
        trip = self._runs.get((computation.name, instruction.name), 0)
        self._runs[computation.name, instruction.name] = trip + 1
        if trip >= self.trips:
            return
        shapes = [(i, s) for i, s in indexed_leaves(instruction.shape) if isinstance(s, ArrayShape)]
        wild = list(unwritten) or [None] * len(leaves)
        outside, reason = self._judged(computation, instruction, operands, leaves, wild)
        for (index, shape), array, wrong, mask in zip(shapes, leaves, outside, wild, strict=True):
            place = computation.name, instruction.name, index, trip
            row = Row(*place[:2], instruction.opcode, index, trip, shape.dtype.name, shape.dims, shape.size)
            if array is None:
                self.rows.append(replace(row, state=State.UNSEEN, why=why))
                continue
            if mask is not None:
                self.rows.append(replace(row, outside=wrong, why="some of it is memory that nobody wrote"))
                continue
            with np.errstate(all="ignore"):
                target = four(summarize(array))
            self.rows.append(replace(row, target=target, outside=wrong, why=why or reason))

    def told(self) -> list[Row]:
        """The rows with their states. What diverges is looked at once more with the widest bounds."""
        found = [self._with_drift(row, self.drift) for row in self.rows]
        if any(row.state in DIVERGING and row.state is not State.WRONG for row in found):
            self.step("making sure of what differs")
            wide, _ = self._evaluated(certain=True)
            found = [self._with_drift(row, wide) if row.state in DIVERGING else row for row in found]
        return found

    def _with_drift(self, row: Row, drift: Mapping[Place, tuple[Summary, Allowed]]) -> Row:
        known = drift.get(row.key)
        if known is not None:
            middle, allowed = known
            row = replace(row, reference=four(middle), low=four(allowed.low), high=four(allowed.high))
        if row.target is None:
            return replace(row, state=State.WRONG) if row.outside else row
        explained = known is None or known[1].has(Summary(*row.target))
        says_nothing = known is None or known[1].open
        if row.outside:
            return replace(row, state=State.WRONG)
        if not explained:
            return replace(row, state=State.DIFFERS if row.outside is None else State.INHERITED)
        return replace(row, state=State.OPEN if says_nothing and row.outside is None else State.AGREES)

    # ---- the reference

    def _evaluated(self, certain: bool) -> tuple[dict[Place, tuple[Summary, Allowed]], str]:
        found: dict[Place, tuple[Summary, Allowed]] = {}
        runs: dict[tuple[str, str], int] = {}

        def see(computation: Computation, instruction: Instruction, value: Value) -> None:
            if not self.made(computation, instruction):
                return
            trip = runs.get((computation.name, instruction.name), 0)
            runs[computation.name, instruction.name] = trip + 1
            if trip >= self.trips:
                return
            for index, shape in indexed_leaves(instruction.shape):
                leaf = element(value, index)
                if isinstance(leaf, Ball) and isinstance(shape, ArrayShape):
                    found[computation.name, instruction.name, index, trip] = expected(leaf)

        start = time.monotonic()
        try:
            evaluate(
                self.module,
                self.arguments,
                self._policy(certain),
                flushed=self.settings.device_flushes,
                on_value=see,
                memory_limit=self.settings.memory_limit,
                deadline=deadline(self.settings.reference_timeout_s, "the reference", self.step),
            )
        except (Unsupported, ReferenceLimit) as end:
            return found, str(end)
        finally:
            self.seconds["reference"] = self.seconds.get("reference", 0.0) + time.monotonic() - start
        return found, ""

    def _policy(self, certain: bool) -> Policy:
        return replace(self.settings.policy, confidence=math.inf) if certain else self.settings.policy

    # ---- one instruction on the target's own operands

    def _judged(
        self,
        computation: Computation,
        instruction: Instruction,
        operands: Sequence[Value] | None,
        leaves: Sequence[Array | None],
        wild: Sequence[Array | None],
    ) -> tuple[list[int | None], str]:
        """For each array how many elements are none that the instruction can give, None where that is not known."""
        nothing: list[int | None] = [None] * len(leaves)
        if operands is None or all(leaf is None for leaf in leaves):
            return nothing, ""
        start = time.monotonic()
        try:
            found = self._outside(computation, instruction, operands, leaves, wild, certain=False)
            if any(found):
                found = self._outside(computation, instruction, operands, leaves, wild, certain=True)
        except AssayError as error:
            return nothing, str(error)
        finally:
            self.seconds["own"] = self.seconds.get("own", 0.0) + time.monotonic() - start
        return found, ""

    def _outside(
        self,
        computation: Computation,
        instruction: Instruction,
        operands: Sequence[Value],
        leaves: Sequence[Array | None],
        wild: Sequence[Array | None],
        certain: bool,
    ) -> list[int | None]:
        if certain not in self._own:
            flushed = self.settings.device_flushes
            self._own[certain] = Steps(self.module, self._policy(certain), balls=True, flushed=flushed)
        with np.errstate(all="ignore"):
            value = self._own[certain].step(computation, instruction, operands)
        found: list[int | None] = []
        shapes = [(i, s) for i, s in indexed_leaves(instruction.shape) if isinstance(s, ArrayShape)]
        for (index, shape), array, mask in zip(shapes, leaves, wild, strict=True):
            ball = element(value, index)
            if array is None or not isinstance(ball, Ball):
                found.append(None)
                continue
            compared = compare_output(replace(ball, und=union(ball.und, mask)), array, shape)
            open_ = compared.elements and compared.undecided == compared.elements
            found.append(None if open_ else compared.outside)
        return found

    def constant(self, computation: Computation, name: str) -> Value:
        """A value that stands in the text of the graph. Raises what a step does."""
        if False not in self._own:
            flushed = self.settings.device_flushes
            self._own[False] = Steps(self.module, self._policy(False), balls=True, flushed=flushed)
        instruction = computation.by_name[name]
        operands = [self.constant(computation, operand) for operand in instruction.operands]
        return self._own[False].step(computation, instruction, operands)


def four(summary: Summary) -> Four:
    """In f32, as it is kept."""
    with np.errstate(over="ignore"):
        least, greatest, mean, deviation = (float(np.float32(value)) for value in astuple(summary))
    return least, greatest, mean, deviation


def deadline(seconds: float, what: str, step: Step) -> Callable[[], None]:
    """To be called between instructions. Raises ReferenceLimit."""
    end = time.monotonic() + seconds
    count = 0

    def check() -> None:
        nonlocal count
        count += 1
        if count % 64 == 0:
            step(f"{what}, instruction {count}")
        if time.monotonic() > end:
            raise ReferenceLimit(f"{what} takes longer than {seconds:g} s; raise it with --reference-timeout")

    return check
