"""The reference against XLA:CPU, optimised and with its passes off, and against the StableHLO interpreter, on drawn
programs. A failure prints how to run the program again: `run.py --again ...`, which makes it smaller.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from .catalogue import CATALOGUE, draw_any, draw_program, every_pair, weighted
from .choices import Choices, shrink
from .comparison import Judgement, judge
from .faults import FAULTS, GAPS, known_fault, known_refusal, lacks
from .run import SLOWEST, Campaign

NEWEST = tuple(int(part) for part in jax.__version__.split(".")[:2]) >= (0, 12)
pytestmark = pytest.mark.skipif(not NEWEST, reason="what the other parties get wrong is known for jax 0.12")


@pytest.fixture(scope="module")
def field():
    with Campaign() as campaign:
        yield campaign


def complaint(j: Judgement) -> str:
    """What is wrong with this judgement; empty where nothing is."""
    found = [j.failure, *(str(d) for d in j.disagreements if not known_fault(d))]
    found += [
        f"{name} refuses it: {r.message}" for name, r in j.refusals.items() if not known_refusal(name, j.program, r)
    ]
    text = "\n".join(line for line in found if line)
    return f"{text}\n--again {j.program.opcode} {j.program.dtype} '{list(j.program.record)}'" if text else ""


def complaints(field: Campaign, seed: int, batches: int, size: int) -> list[str]:
    rng = np.random.default_rng([seed, 1])
    pairs = weighted(every_pair())
    found = []
    for number in range(batches):
        programs = [draw_any(rng, pairs) for _ in range(size)]
        found += [complaint(j) for j in field.judge(programs, "" if number % 3 == 0 else SLOWEST)]
    return [text for text in found if text]


def test_nobody_disagrees(field):
    found = complaints(field, seed=0, batches=6, size=20)
    assert not found, "\n\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nobody_disagrees_at_length(field):
    found = complaints(field, seed=1, batches=150, size=20)
    assert not found, "\n\n".join(found)


def test_a_wrong_result_is_a_disagreement(field):
    """The comparison can fail: a result that is off by one unit in one element is told."""
    program = draw_program("add", "s32", Choices([2, 0, 0]))
    judged = field.judge([program], SLOWEST)[0]
    assert "optimised" in judged.compared
    assert not judged.disagreements
    right = program.arguments[0] + program.arguments[1]
    assert not judge(program, {"optimised": [right]}).disagreements
    right[1, 0] += 1
    assert len(judge(program, {"optimised": [right]}).disagreements) == 1


def test_a_record_makes_the_same_program():
    for opcode, dtype in (("gather", "f32"), ("sort", "s8"), ("convolution", "bf16")):
        first = draw_program(opcode, dtype, Choices(np.random.default_rng(5)))
        again = draw_program(opcode, dtype, Choices(first.record))
        assert again.text == first.text
        for a, b in zip(first.arguments, again.arguments, strict=True):
            np.testing.assert_array_equal(a, b)


def test_shrinking_keeps_what_fails_and_drops_the_rest():
    record = [int(n) for n in np.random.default_rng(1).integers(0, 50, 20)]
    record[7] = 41
    small = shrink(record, lambda c: len(c) > 7 and c[7] > 12)
    assert small[7] == 13
    assert sum(small) == 13


def test_every_opcode_is_run_by_somebody_or_said_why_not():
    rng = np.random.default_rng(0)
    parties = ("optimised", "level 0", "interpreter")
    for opcode, entry in CATALOGUE.items():
        dtypes = [d for d in entry.dtypes if d.startswith(("f", "s", "u"))]
        drawn = [draw_program(opcode, dtype, Choices(rng), 0) for dtype in dtypes for _ in range(3)]
        assert any(not lacks(party, p) for p in drawn for party in parties) or opcode in NOBODY, opcode


NOBODY = {
    "atan", "exp2", "log2", "mulhi", "bitcast", "async-start", "async-update", "async-done", "copy-start", "copy-done",
    "collective-broadcast", "collective-reduce", "ragged-dot", "ragged-all-to-all",
}  # fmt: skip
"""Opcodes that no party runs in this form: `GAPS` says why; their own tests hold them against other truths."""


def test_every_gap_and_fault_has_a_reason():
    assert all(gap.reason for gap in GAPS)
    assert all(fault.reason for fault in FAULTS)
