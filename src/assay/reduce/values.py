"""What the reference computes at each instruction of a candidate, as arrays of the target's types."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.checking.bounds import deadline
from assay.checking.target import stored
from assay.errors import AssayError
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape
from assay.reduce.candidate import Candidate
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value

LIMIT_S = 60.0


@dataclass(frozen=True)
class Seen:
    """Values by computation and instruction: those of the first time that the computation ran."""

    values: Mapping[tuple[str, str], Ball]

    def array(self, computation: str, instruction: Instruction) -> Array:
        """The value of an instruction of array shape; zeros where the reference has none, as where it does not model
        the program that ends the compiler.
        """
        shape = instruction.array
        assert shape.dtype.numpy is not None
        if instruction.literal is not None:
            return literal_array(shape, instruction.literal)
        ball = self.values.get((computation, instruction.name))
        if ball is None or ball.dims != shape.dims:
            return np.zeros(shape.dims, shape.dtype.numpy)
        with np.errstate(all="ignore"):
            return np.array(stored([ball])[0], shape.dtype.numpy, order="C")


def seen(candidate: Candidate, policy: Policy) -> Seen:
    """Midpoints with no rounding but what the program declares. As far as the reference gets, where it does not get to
    the end.
    """
    found: dict[tuple[str, str], Ball] = {}

    def watch(computation: Computation, instruction: Instruction, value: Value) -> None:
        if isinstance(value, Ball) and isinstance(instruction.shape, ArrayShape):
            found.setdefault((computation.name, instruction.name), value)

    rng, check = np.random.default_rng(0), deadline(LIMIT_S)
    with contextlib.suppress(AssayError):  # what was seen before it is all there is
        evaluate(candidate.module, candidate.arguments, policy, rng=rng, amplitude=0.0, on_value=watch, deadline=check)
    return Seen(found)
