"""Each kernel on the operands that it got: which one is wrong, when an output is.

A kernel's result has to lie in the reference's bounds of the HLO instruction that it was made of, on these operands.
Those bounds are narrow where the program's are wide, for no error of an earlier kernel is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.errors import AssayError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.llo.kernel import Pair
from assay.llo.module import Value, pairs
from assay.oracle.compare import compare_output
from assay.reference.evaluator import Steps
from assay.reference.policy import Policy
from assay.reference.value import Ball, Token, flatten, from_array
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
    _steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        self._steps = Steps(self.module, self.policy, balls=True, flushed=True)

    def __call__(
        self, computation: Computation, instruction: Instruction, operands: Sequence[Value], result: Value
    ) -> None:
        if instruction.name in self._seen:
            return
        self._seen.add(instruction.name)
        given = zip(computation.operands(instruction), operands, strict=True)
        try:
            with np.errstate(all="ignore"):
                found = self._steps.step(computation, instruction, [balls_of(o.shape, value) for o, value in given])
        except AssayError:
            self.unjudged.add(instruction.name)
            return
        balls = [leaf for leaf in flatten(found) if isinstance(leaf, Ball)]
        shapes = [leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)]
        for number, (ball, pair, shape) in enumerate(zip(balls, pairs(result), shapes, strict=True)):
            self._compare(instruction.name, number, ball, pair, shape)
        got = tuple(pair for operand in operands for pair in pairs(operand))
        known = all(pair.unwritten is None for pair in got)
        if known and instruction.name in self.wrong and len(self.kept) < MOST_KEPT:
            self.kept[instruction.name] = Kept(got, tuple(pairs(result)))

    def _compare(self, name: str, number: int, ball: Ball, pair: Pair, shape: ArrayShape) -> None:
        compared = compare_output(ball, pair.first, shape)
        if compared.undecided:
            self.unjudged.add(name)
        if compared.outside and name not in self.wrong:
            at = f"[{', '.join(map(str, compared.peak or ()))}]"
            what = f"{compared.outside} of {compared.elements} elements of its output {number}"
            self.wrong[name] = (
                f"{what}, at {at} {compared.peak_target} instead of {compared.peak_reference} on these operands"
            )


def balls_of(shape: Shape, value: Value) -> Balls:
    """Exact, but for what nobody wrote, which is undecided."""
    if isinstance(shape, TupleShape):
        assert isinstance(value, tuple)
        return tuple(balls_of(s, v) for s, v in zip(shape.elements, value, strict=True))
    if not isinstance(shape, ArrayShape) or not isinstance(value, Pair):
        return Token()
    return replace(from_array(shape.dtype, value.first), und=value.unwritten)
