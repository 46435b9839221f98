"""What becomes of a set of inputs: the reference's midpoints are evaluated once, without bounds, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.hlo.module import Computation, Instruction, Module
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value, flatten

POLICY = Policy("survey", excess_precision=False)
"""Correct rounding throughout: it is magnitudes that count here."""


CALLING = frozenset(("fusion", "call", "while", "conditional", "async-start", "async-update", "async-done"))
"""What is inside is looked at on its own."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where values that are not finite come from though the operands are: an instruction and which elements."""

    computation: str
    instruction: str
    opcode: str
    where: Array


@dataclass(slots=True)
class Survey:
    """outputs: the result's arrays. elements: how many floats they have. lost: how many are not finite, where an
    instruction has made such of finite operands; meant: where none has, so that constants (a mask's) or the inputs
    themselves are the cause. values, strange: all values on the way, constants aside, and how many are not finite.
    origins: where these begin."""

    outputs: list[Array] = field(default_factory=list)
    elements: int = 0
    lost: int = 0
    meant: int = 0
    values: int = 0
    strange: int = 0
    origins: list[Origin] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        """The fewer the better."""
        return self.lost, self.strange


def survey(module: Module, arguments: Sequence[Array], deadline: Callable[[], None] | None = None) -> Survey:
    """Raises what `evaluate` does: Unsupported, ReferenceLimit, and whatever `deadline` raises."""
    found = Survey()
    strange: dict[tuple[str, str], Array | None] = {}

    def look(computation: Computation, instruction: Instruction, value: Value) -> None:
        if not isinstance(value, Ball) or value.mid.dtype.kind not in "fc":
            return
        key = computation.name, instruction.name
        finite = np.isfinite(value.mid)
        whole = bool(finite.all())
        strange[key] = None if whole else finite
        if instruction.literal is not None:
            return
        found.values += value.mid.size
        if whole:
            return
        found.strange += int(finite.size - np.count_nonzero(finite))
        finite_operands = all(strange.get((computation.name, name)) is None for name in instruction.operands)
        if instruction.parameter_number is None and instruction.opcode not in CALLING and finite_operands:
            found.origins.append(Origin(*key, instruction.opcode, ~finite))

    # The generator draws nothing: with no amplitude, a sampled run gives midpoints.
    rng = np.random.default_rng(0)
    run = evaluate(
        module, arguments, POLICY, rng=rng, amplitude=0.0, alike=False, nearest=True, on_value=look, deadline=deadline
    )
    for part in flatten(run.value):
        if isinstance(part, Ball):
            found.outputs.append(part.mid)
            if part.mid.dtype.kind in "fc":
                found.elements += part.mid.size
                found.lost += int(part.mid.size - np.count_nonzero(np.isfinite(part.mid)))
    if not found.origins:
        found.lost, found.meant = 0, found.lost
    return found


def moved(before: Sequence[Array], after: Sequence[Array]) -> float:
    """The share of elements that differ, of the array that differs in the largest share."""
    most = 0.0
    for one, other in zip(before, after, strict=True):
        if one.size:
            same = one == other
            if one.dtype.kind in "fc":
                same |= np.isnan(one) & np.isnan(other)
            most = max(most, 1.0 - int(np.count_nonzero(same)) / one.size)
    return most


def flat_outputs(outputs: Sequence[Array]) -> list[int]:
    """The arrays of several elements of which all but one in twenty are the same: such a result shows little."""
    return [k for k, array in enumerate(outputs) if array.size > 1 and array.dtype.kind == "f" and _flat(array)]


def _flat(array: Array) -> bool:
    middle = np.partition(array.reshape(-1), array.size // 2)[array.size // 2]
    return int(np.count_nonzero(array == middle)) >= 0.95 * array.size
