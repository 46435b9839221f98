"""Memory of the reference: values are freed after their last use, and what was freed is used again."""

from __future__ import annotations

import sys
import weakref

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target

ELEMENTS = 1 << 17
CHAIN = parse_module(
    f"HloModule chain\n\nENTRY %e (p: f32[{ELEMENTS}]) -> f32[{ELEMENTS}] {{\n"
    f"  %p = f32[{ELEMENTS}]{{0}} parameter(0)\n"
    f"  %square = f32[{ELEMENTS}]{{0}} multiply(%p, %p)\n"
    f"  %sum = f32[{ELEMENTS}]{{0}} add(%square, %square)\n"
    f"  ROOT %last = f32[{ELEMENTS}]{{0}} tanh(%sum)\n}}\n"
)


def test_a_value_is_freed_after_its_last_use_and_so_is_an_argument():
    held, alive = {}, {}

    def watch(computation, instruction, value):
        alive[instruction.name] = [name for name, array in held.items() if array() is not None]
        held[instruction.name] = weakref.ref(value.mid)

    evaluate(CHAIN, [np.ones(ELEMENTS, np.float32)], for_target("cpu"), on_value=watch)
    assert alive == {"p": [], "square": ["p"], "sum": ["square"], "last": ["sum"]}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
def test_memory_that_was_freed_is_used_again():
    resource = pytest.importorskip("resource")
    argument = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)

    def run(times):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(times):
            evaluate(CHAIN, [argument], for_target("cpu"))
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    run(3)
    pages_of_a_value = 2 * 8 * ELEMENTS / resource.getpagesize()
    assert run(10) < 10 * pages_of_a_value  # each run makes three such values, and as much again on the way
