"""One program: the reference's balls, the others' results, and who disagrees."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from assay.errors import AssayError, HloTypeError, Unsupported
from assay.hlo.parse import parse_module
from assay.hlo.types import check_module
from assay.oracle.compare import OutputComparison, compare_output
from assay.reference.evaluator import check_result, evaluate
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.value import Ball, flatten

from .builder import Program
from .rivals import Outcome, Refused

XLA = for_target("cpu", jax.__version__)
XLA_SURELY = dataclasses.replace(XLA, confidence=math.inf)
"""As XLA, with the bound on sums that no order breaks: what is outside of it is not bad luck."""

INTERPRETER = Policy(
    "stablehlo interpreter", excess_precision=False, flush_subnormals=False, default_ulps=2.0, confidence=math.inf
)
"""Every declared rounding happens, sums are kept in the declared type, functions are those of the C library."""


@dataclass(frozen=True)
class Disagreement:
    """One output of one program that lies outside its balls."""

    party: str
    program: Program
    output: int
    comparison: OutputComparison

    def __str__(self) -> str:
        c = self.comparison
        shown = f"{c.peak_target!r}, the reference {c.peak_reference!r} +- {c.peak_radius!r} at {c.peak}"
        count = f"{c.outside} of {c.elements} outside"
        return f"{self.party} has {shown} ({count}) in output {self.output} of\n{self.program.statement}"


@dataclass(frozen=True)
class Judgement:
    """failure: what went wrong on our own side, where something did. refusals: by party."""

    program: Program
    failure: str = ""
    unsupported: str = ""
    refusals: dict[str, Refused] = dataclasses.field(default_factory=dict)
    compared: tuple[str, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    undecided: float = 0.0


def balls_of(program: Program, policy: Policy) -> list[Ball]:
    """Raises what the type rules and the reference raise."""
    module = parse_module(program.text)
    check_module(module)
    result = evaluate(module, program.arguments, policy, on_value=lambda _, i, v: check_result(i, v))
    return [leaf for leaf in flatten(result.value) if isinstance(leaf, Ball)]


def judge(program: Program, outcomes: dict[str, Outcome]) -> Judgement:
    """outcomes: by party; whose name is `interpreter` is held to the interpreter's policy, all others to XLA's."""
    refusals = {name: o for name, o in outcomes.items() if isinstance(o, Refused)}
    found: list[Disagreement] = []
    undecided = 0.0
    balls: dict[str, list[Ball]] = {}
    try:
        for name, outcome in outcomes.items():
            policy = INTERPRETER if name == "interpreter" else XLA_SURELY
            if policy.name not in balls:
                balls[policy.name] = balls_of(program, policy)
            if not isinstance(outcome, Refused):
                found += _outside(name, program, balls[policy.name], outcome)
        if not balls:
            balls[XLA.name] = balls_of(program, XLA)
        undecided = max(_undecided(b) for b in balls.values())
    except HloTypeError as error:
        return Judgement(program, failure=f"types: {error}", refusals=refusals)
    except Unsupported as error:
        return Judgement(program, unsupported=str(error), refusals=refusals)
    except AssayError as error:
        return Judgement(program, failure=str(error), refusals=refusals)
    compared = tuple(name for name in outcomes if name not in refusals)
    return Judgement(program, "", "", refusals, compared, tuple(found), undecided)


def _outside(party: str, program: Program, balls: Sequence[Ball], outcome: Sequence[object]) -> list[Disagreement]:
    found = []
    for k, ((_, shape), ball, got) in enumerate(zip(program.outputs, balls, outcome, strict=True)):
        comparison = compare_output(ball, got, shape)  # type: ignore[arg-type]
        if comparison.outside:
            found.append(Disagreement(party, program, k, comparison))
    return found


def _undecided(balls: Sequence[Ball]) -> float:
    """The share of undecided elements in the worst output."""
    return max((0.0 if b.und is None or not b.und.size else float(b.und.mean()) for b in balls), default=0.0)
