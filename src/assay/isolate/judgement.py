"""One snapshot's results against what a correct compiler may make of the unoptimized program.

A snapshot's midpoints, rounded once to the type of each output, are one result that a compiler might have given. They
are weighed as `assay check` weighs a target's output: outside the bounds of the unoptimized program, and then outside
the widest of them. Before a mismatch is told the snapshot's own bounds count too (`apart`): where the two sets meet,
there is a result that both allow, and nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.target import stored
from assay.checking.weigh import Weighed, surely_inside, weigh, weigh_again
from assay.hlo.module import Module
from assay.isolate.lockstep import near
from assay.reference.value import Array, Ball, Token


@dataclass(frozen=True, slots=True)
class Inputs:
    """One set of arguments; words say where it comes from."""

    words: str
    arguments: tuple[Array, ...]


@dataclass(slots=True)
class Judge:
    """What the unoptimized program allows on one set of inputs; bounds are worked out when midpoints differ.

    first: its own midpoints.
    """

    program: Module
    inputs: Inputs
    settings: Settings
    step: Step
    first: list[Ball | Token]
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.program, self.inputs.arguments, self.settings, self.step, self.seconds, self.notes)

    def wrong(self, leaves: Sequence[Ball | Token]) -> Weighed | None:
        """How midpoints lie outside the bounds; None where they lie inside. Raises what `evaluate` raises."""
        if all(a is b or (isinstance(a, Ball) and isinstance(b, Ball) and near(a, b)) for a, b in self._pairs(leaves)):
            return None
        target = stored(leaves)
        if surely_inside(self.bounds, target):
            return None
        weighed = weigh(self.bounds, target)
        if not weighed.wrong:
            return None
        sure = weigh_again(self.bounds, target, weighed)
        return sure if sure.outside else None

    def undecided(self) -> bool:
        """Whether no element of any output is decided, as far as the bounds were asked for."""
        balls = [leaf for leaf in self.first if isinstance(leaf, Ball)]
        return bool(balls) and all(ball.und is not None and ball.und.all() for ball in balls if ball.mid.size)

    def _pairs(self, leaves: Sequence[Ball | Token]) -> list[tuple[Ball | Token, Ball | Token]]:
        return list(zip(self.first, leaves, strict=True))
