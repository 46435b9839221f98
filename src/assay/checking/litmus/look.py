"""What a rule is given, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType
from assay.reference.context import Context
from assay.reference.value import Array, Value


class State(StrEnum):
    """Of a precondition, or of all of them together."""

    KEPT = "kept"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction that asks something. trial: a context in which a rule may apply bodies to balls."""

    module: Module
    computation: Computation
    instruction: Instruction
    trial: Context

    def operand_dtype(self, index: int) -> DType | None:
        shape = self.computation.by_name[self.instruction.operands[index]].shape
        return shape.dtype if isinstance(shape, ArrayShape) else None


@dataclass(frozen=True, slots=True)
class Said:
    """What the module alone says; why: for all but KEPT."""

    state: State
    why: str = ""


KEPT = Said(State.KEPT)


@dataclass(frozen=True, slots=True)
class Look:
    """What the values of one visit say. broken, doubtful: masks. elementwise: of the result's shape, so that nothing
    but those elements has no single right value; else the whole result. part: of a tuple, the one array that it is
    about; None where it is all.
    """

    broken: Array
    doubtful: Array
    why: str = ""
    elementwise: bool = False
    part: int | None = None


def verdict(broken: bool, doubtful: bool = False, why: str = "") -> Look:
    """Of a whole instruction."""
    return Look(np.asarray(broken), np.asarray(doubtful and not broken), why)


Static = Callable[[Site], Said | None]
"""None: the values must say."""

Valued = Callable[[Site, Sequence[Value]], Look]
"""Given the operands' values."""
