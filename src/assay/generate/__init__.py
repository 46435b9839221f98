"""Typed programs, generated backwards from the types of their results.

A plan is a tree of recorded choices, well typed by construction; it is printed as Python over jax.lax, which a worker
traces and lowers. Nothing here imports jax.
"""

from assay.generate.draw import Draw, generator
from assay.generate.forms import NAMES
from assay.generate.grammar import Grammar, for_target
from assay.generate.grow import grow
from assay.generate.plan import Plan
from assay.generate.programs import Generated, from_template, generated

__all__ = [
    "NAMES",
    "Draw",
    "Generated",
    "Grammar",
    "Plan",
    "for_target",
    "from_template",
    "generated",
    "generator",
    "grow",
]
