"""Preconditions that the module alone decides."""

from __future__ import annotations

from assay.checking.litmus.look import KEPT, Said, Site, State
from assay.errors import Unsupported
from assay.hlo.attributes import word
from assay.reference.multipliers import ALGORITHM_ERROR
from assay.reference.registry import find_custom_call


def random_numbers(site: Site) -> Said:
    return Said(State.BROKEN, "numbers of the target's own generator")


def random_algorithm(site: Site) -> Said:
    named = word(site.instruction, "algorithm", "rng_default") != "rng_default"
    return KEPT if named else Said(State.BROKEN, "algorithm=rng_default is the target's own")


def dot_algorithm(site: Site) -> Said:
    name = word(site.instruction, "algorithm", "dot_any")
    if name in ("dot_any", "unset", "dot_unset", "ALG_UNSET") or name in ALGORITHM_ERROR:
        return KEPT
    return Said(State.UNDECIDED, f"algorithm={name}, whose accuracy is not known")


def allocated(site: Site) -> Said:
    target = word(site.instruction, "custom_call_target", "")
    return Said(State.BROKEN, "a buffer that nobody has written") if target == "AllocateBuffer" else KEPT


def known_call(site: Site) -> Said:
    if site.instruction.opcode != "custom-call":
        return Said(State.UNDECIDED, f"{site.instruction.opcode} brings what no one here knows")
    target = word(site.instruction, "custom_call_target", "")
    try:
        find_custom_call(target)
    except Unsupported:
        return Said(State.UNDECIDED, f"custom call {target}, of which nothing is known")
    return KEPT
