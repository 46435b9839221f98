"""Typed programs, generated backwards from the types of their results."""

from assay.generate.draw import Draw, generator
from assay.generate.grammar import Grammar, for_target
from assay.generate.grow import grow
from assay.generate.plan import Plan
from assay.generate.programs import Generated, generated

__all__ = ["Draw", "Generated", "Grammar", "Plan", "for_target", "generated", "generator", "grow"]
