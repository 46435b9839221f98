"""A rule for every opcode, one file a family."""

from __future__ import annotations

from assay.inputs.rules import arithmetic, elementary, indexing, movement, opaque, reduction
from assay.inputs.rules.rule import Rule as Rule
from assay.inputs.rules.rule import View as View

RULES: dict[str, Rule] = {
    **opaque.RULES,
    **elementary.RULES,
    **arithmetic.RULES,
    **movement.RULES,
    **reduction.RULES,
    **indexing.RULES,
}
