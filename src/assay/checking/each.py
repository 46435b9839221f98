"""Each kernel on the operands that it got: which one is wrong, when an output is.

A kernel's result has to lie in the reference's bounds of the HLO instruction that it was made of, on these operands.
Those bounds are narrow where the program's are wide, for no error of an earlier kernel is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.errors import AssayError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.llo.kernel import Pair
from assay.llo.module import Value, pairs
from assay.oracle.compare import OutputComparison, compare_output
from assay.reference.evaluator import Steps
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, flatten, from_array
from assay.reference.value import Value as Balls

MOST_KEPT = 4


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kernel that is wrong got and gave."""

    operands: tuple[Pair, ...]
    results: tuple[Pair, ...]


@dataclass(slots=True)
class EachKernel:
    """To be called with every kernel that ran; each is judged once, the first time. wrong: kernel -> in words what is.

    unjudged: kernels that the reference does not model, or leaves partly undecided. kept: of the first wrong ones whose
    operands depend on nothing that nobody wrote.
    """

    module: Module
    policy: Policy
    wrong: dict[str, str] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)
    kept: dict[str, Kept] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _steps: tuple[Steps, Steps] = field(init=False)  # subnormals zero, and as they are read by who may take them for it

    def __post_init__(self) -> None:
        flushed, kept = (Steps(self.module, self.policy, balls=True, flushed=flushed) for flushed in (True, False))
        self._steps = flushed, kept

    def __call__(
        self, computation: Computation, instruction: Instruction, operands: Sequence[Value], result: Value
    ) -> None:
        if instruction.name in self._seen:
            return
        self._seen.add(instruction.name)
        given = list(zip(computation.operands(instruction), operands, strict=True))
        found = self._compared(self._steps[0], computation, instruction, given, result)
        number = _first_outside(found)
        if number is not None:
            # What arithmetic makes is flushed; what only moves is not, nor are the operands that are compared so.
            other = self._compared(self._steps[1], computation, instruction, given, result)
            number = _first_outside(found, other)
            found = found if number is not None else other
        if found is None or any(compared.undecided or compared.outside for compared in found):
            self.unjudged.add(instruction.name)
        if found is None or number is None:
            return
        self.wrong[instruction.name] = _words(number, found[number])
        got = tuple(pair for operand in operands for pair in pairs(operand))
        if all(pair.unwritten is None for pair in got) and len(self.kept) < MOST_KEPT:
            self.kept[instruction.name] = Kept(got, tuple(pairs(result)))

    def _compared(
        self,
        steps: Steps,
        computation: Computation,
        instruction: Instruction,
        given: Sequence[tuple[Instruction, Value]],
        result: Value,
    ) -> list[OutputComparison] | None:
        """Of each output; None where the reference does not model the kernel."""
        entering = None if steps.flushed else steps.entering
        try:
            with np.errstate(all="ignore"):
                balls = [balls_of(operand.shape, value, entering) for operand, value in given]
                value = steps.step(computation, instruction, balls)
        except AssayError:
            return None
        leaves_ = [leaf for leaf in flatten(value) if isinstance(leaf, Ball)]
        shapes = [leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)]
        return [
            compare_output(ball, pair.first, shape)
            for ball, pair, shape in zip(leaves_, pairs(result), shapes, strict=True)
        ]


def _first_outside(*readings: list[OutputComparison] | None) -> int | None:
    """The first output with an element that is outside in every reading; None where there is none."""
    for number, compared in enumerate(zip(*(reading or () for reading in readings), strict=False)):
        outside = in_all(one.outside_mask for one in compared)
        if outside is not None and outside.any():
            return number
    return None


def in_all(masks: Iterable[Array | None]) -> Array | None:
    """Where all of them hold; None where one is."""
    found: Array | None = None
    for mask in masks:
        if mask is None:
            return None
        found = mask if found is None else found & mask
    return found


def _words(number: int, compared: OutputComparison) -> str:
    at = f"[{', '.join(map(str, compared.peak or ()))}]"
    return (
        f"{compared.outside} of {compared.elements} elements of its output {number}, at {at} {compared.peak_target} "
        f"instead of {compared.peak_reference} on these operands"
    )


def balls_of(shape: Shape, value: Value, entering: Callable[[Ball], Ball] | None = None) -> Balls:
    """Exact, but for what nobody wrote, which is undecided. entering: what is made of each besides."""
    if isinstance(shape, TupleShape):
        assert isinstance(value, tuple)
        return tuple(balls_of(s, v, entering) for s, v in zip(shape.elements, value, strict=True))
    if not isinstance(shape, ArrayShape) or not isinstance(value, Pair):
        return Token()
    ball = replace(from_array(shape.dtype, value.first), und=value.unwritten)
    return ball if entering is None else entering(ball)
