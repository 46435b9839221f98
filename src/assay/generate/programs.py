"""One program of a seed: number, choices and plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.generate.draw import Draw, generator
from assay.generate.grammar import Grammar
from assay.generate.grow import grow
from assay.generate.plan import Plan
from assay.generate.template import Template, planned
from assay.generate.tour import drawn
from assay.generate.watched import watched

HIDDEN = 0.15
"""How likely a program may be to show nothing of what it computes, before another is grown in its place."""
REGROWN = 4
"""How often one is grown at most."""
PAIRED = 0.4
"""The share of programs that begin with a pair of operations of the tour."""
OPERATIONS = 10
"""Of a program where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Generated:
    """choices: what makes the same plan again from the same grammar."""

    plan: Plan
    choices: tuple[int, ...]


def generated(grammar: Grammar, key: str, operations: int, choices: Sequence[int] = ()) -> Generated:
    """A program of about so many operations. key: what it is called by; the same key gives the same program.
    choices: taken first, as far as they go; `(0, n)` begins it with the n-th pair of operations of the tour.
    """
    draw = Draw(generator(key), choices)
    pair = drawn(draw, grammar) if draw.chance(PAIRED) and operations > 1 else None
    for _ in range(REGROWN):
        count = draw.pick(grammar.roots)
        roots = [grammar.type(draw) for _ in range(min(count, max(operations, 1)))]
        plan, hidden = watched(grow(draw, grammar, roots, operations, more=True, pair=pair))
        if hidden < HIDDEN:
            break
    return Generated(plan, tuple(draw.made))


def from_template(template: Template, grammar: Grammar, key: str, choices: Sequence[int] = ()) -> Generated:
    """A program of a template; see `generated`. grammar: what the template leaves open."""
    own = template.grammar(grammar)
    if not template.steps:
        return generated(own, key, template.operations or OPERATIONS, choices)
    draw = Draw(generator(key), choices)
    for _ in range(REGROWN):
        plan, hidden = watched(planned(template, draw, own))
        if hidden < HIDDEN:
            break
    return Generated(plan, tuple(draw.made))
