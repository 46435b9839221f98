"""Every opcode that the reference evaluates is drawn, with every element type that its type rule admits; our type rules
and jaxlib's agree about what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import assay.reference.evaluator  # noqa: F401 (registers the operations)
from assay.errors import HloTypeError
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.hlo.types import check_module
from assay.reference.registry import supported

from .builder import Program
from .catalogue import CATALOGUE, NO_OTHER_PARTY, NotDrawn, draw_program
from .choices import Choices
from .faults import ADMITTED_YET_NOT_DRAWN, NOT_DRAWN, unknown_to_jaxlib

TYPES = [name for name in DTYPES if name not in NO_OTHER_PARTY]


def tries(opcode: str, dtype: str, count: int, depth: int = 0) -> Iterator[Program]:
    for k in range(count):
        try:
            yield draw_program(opcode, dtype, Choices(np.random.default_rng([TYPES.index(dtype), k])), depth)
        except NotDrawn:
            continue


def accepted(program: Program) -> bool:
    try:
        check_module(parse_module(program.text))
    except HloTypeError:
        return False
    return True


def test_every_opcode_is_drawn_or_said_why_not():
    known = set(supported()["opcodes"])
    assert known == (set(CATALOGUE) | set(NOT_DRAWN)) & known
    assert not set(CATALOGUE) & set(NOT_DRAWN)
    assert set(CATALOGUE) | set(NOT_DRAWN) <= known
    assert all(NOT_DRAWN.values())


@pytest.mark.parametrize("opcode", sorted(CATALOGUE))
def test_every_type_that_the_rule_admits_is_drawn_and_no_other(opcode):
    for dtype in TYPES:
        programs = list(tries(opcode, dtype, 3))
        if dtype in CATALOGUE[opcode].dtypes:
            assert programs, f"{opcode} of {dtype} is not drawn"
            assert all(map(accepted, programs)), next(p for p in programs if not accepted(p)).text
        elif opcode not in ADMITTED_YET_NOT_DRAWN:
            assert not any(map(accepted, programs)), f"the type rules admit {opcode} of {dtype}, which is not drawn"


@pytest.mark.parametrize("opcode", sorted(CATALOGUE))
def test_jaxlib_takes_what_our_type_rules_take(opcode):
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    for dtype in CATALOGUE[opcode].dtypes:
        for program in tries(opcode, dtype, 1, depth=1):
            why = unknown_to_jaxlib(program)
            if not why:
                hlo.hlo_module_from_text(program.text)
