"""Finds what a program can use as the value of each of its parameters."""

from __future__ import annotations

from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, leaves
from assay.inputs.domain import ANY, Domain


def domains(module: Module) -> list[Domain]:
    """One domain for each array among the entry's parameters, tuples flattened."""
    return [ANY for p in module.entry.parameters for s in leaves(p.shape) if isinstance(s, ArrayShape)]
