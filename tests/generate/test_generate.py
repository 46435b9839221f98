"""Whole programs: the same from the same key everywhere, replayed from their choices, well typed when these change."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from printed import assert_typed, loaded

from assay.errors import InputError
from assay.generate import NAMES, Plan, for_target, generated
from assay.generate.draw import Draw, generator
from assay.generate.grammar import TILED, limited
from assay.generate.leaves import constant
from assay.generate.plan import Node
from assay.generate.source import function, together
from assay.generate.tour import pairs
from assay.generate.types import Type
from assay.generate.watched import chances, watched
from assay.hlo.parse import parse_module
from assay.inputs.generate import generate

CPU = for_target("cpu", jax=jax.__version__)
TILES = {t + d for t in (8, 16, 32, 64, 128, 256, 512) for d in (-1, 0, 1)}


PRINTED = """
from assay.generate import for_target, generated
from assay.generate.plan import Node
from assay.generate.source import function
for target in ("cpu", "tpu:v5e"):
    for i in range(60):
        print(function(generated(for_target(target), f"5/{i}", 9).plan, "program"))
"""


def test_the_same_key_is_the_same_text_in_every_process() -> None:
    """Whatever the order that Python's hashes give sets and dictionaries."""
    texts = [
        subprocess.run(
            [sys.executable, "-c", PRINTED], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(texts[0]) > 20_000
    assert texts[0] == texts[1]


def test_choices_give_the_program_again() -> None:
    for i in range(100):
        first = generated(CPU, f"1/{i}", 8)
        assert generated(CPU, "another key", 8, first.choices) == first


def test_changed_choices_give_programs_that_trace() -> None:
    changed = random.Random(3)
    for i in range(40):
        choices = list(generated(CPU, f"2/{i}", 6).choices)
        for _ in range(3):
            choices[changed.randrange(len(choices))] = changed.randrange(1 << 16)
        assert_typed(generated(CPU, f"3/{i}", 6, choices).plan)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "tpu:v5e"])
def test_programs_trace_and_lower(target: str) -> None:
    grammar = for_target(target, jax=jax.__version__)
    for i in range(300):
        program, types = loaded(generated(grammar, f"4/{i}", 10).plan)
        traced = jax.jit(program, keep_unused=True).trace(*types)
        traced.lower(lowering_platforms=("tpu" if target != "cpu" else "cpu",))


def test_a_program_is_about_as_large_as_was_asked() -> None:
    for wanted in (1, 5, 20):
        sizes = [generated(CPU, f"5/{i}", wanted).plan.operations for i in range(200)]
        assert 0.8 * wanted <= np.mean(sizes) <= 1.25 * wanted + 0.5


def test_a_dimension_of_0_hides_no_large_array() -> None:
    """What is reduced over it has elements again: each array is within the bound as if it were 1."""
    grammar = for_target("cpu")
    types = [node.type for i in range(400) for node in generated(grammar, f"zero/{i}", 10).plan.nodes]
    parts = [part for type_ in types for part in getattr(type_, "parts", (type_,))]
    assert any(0 in part.dims for part in parts)
    assert max(part.extent for part in parts) <= grammar.most


def test_dimensions_of_a_tpu_lie_at_its_tiles() -> None:
    grammar = for_target("tpu:v5e")
    dims = [
        d for i in range(400) for n in generated(grammar, f"6/{i}", 10).plan.walk() for d in getattr(n.type, "dims", ())
    ]
    assert len(dims) > 5_000
    assert sum(d in TILES for d in dims) >= 0.3 * len(dims)
    assert {d for row, _ in TILED for d in row} & TILES


def test_what_real_bugs_need_occurs() -> None:
    text = "".join(function(generated(CPU, f"7/{i}", 10).plan, "program") for i in range(1500))
    wanted = (
        r"= jnp\.take\(\w+, \w+, ",  # indices as they come
        r"\(-\d+, ",  # negative padding
        r"u8\[\d*(1[3-9]|2)\d\d",
        r"s8\[",
        r"\[[\d,]*\b0\b[\d,]*\]",
        r"\[1[,\]]",
        r"np\.array\(-1, jnp\.int",
        r"fori_loop\(0, 0,",
        r"while_loop",
        r"\[16385\]|\[20000\]|\[16383\]",
        r"jax\.jit\(",
        r"lax\.full\(",
        r"broadcasted_iota",
        r"unique_indices=True",
        r"lax\.dynamic_update_slice\((\w+), lax\.slice\(\1",
    )
    for pattern in wanted:
        assert re.search(pattern, text), pattern


def test_the_tour_puts_each_pair_together() -> None:
    known = pairs(CPU)
    numbers = range(0, len(known), len(known) // 300)
    met = sum(known[n] in set(generated(CPU, "8", 5, (0, n)).plan.edges()) for n in numbers)
    assert met >= 0.95 * len(numbers)


def test_operations_that_are_asked_for_and_no_others() -> None:
    grammar = limited(CPU, ("add", "reduction"), NAMES)
    forms = {n.form for i in range(50) for n in generated(grammar, f"9/{i}", 6).plan.walk()}
    assert "add" in forms
    assert "cumsum" in forms
    assert "sort" not in forms
    with pytest.raises(InputError, match="did you mean scatter_add"):
        limited(CPU, ("scater_add",), NAMES)


def test_a_program_shows_what_it_computes() -> None:
    """Results are finite, and not each of them one value throughout."""
    plans = [generated(CPU, f"10/{i}", 6).plan for i in range(40)]
    finite = alike = 0
    for start in range(0, len(plans), 20):
        batch, given = plans[start : start + 20], []
        for number, plan in enumerate(batch):
            program, types = loaded(plan)
            hlo = jax.jit(program, keep_unused=True).lower(*types).as_text("hlo")
            given += generate(parse_module(hlo, source="a program"), number)
        scope: dict[str, Any] = {}
        exec(together([(f"p{i}", plan) for i, plan in enumerate(batch)], wide=False), scope)
        fast = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        whole = jax.jit(scope["together"], keep_unused=True).lower(*given).compile(compiler_options=fast)
        results = iter([np.asarray(r) for r in whole(*given)])
        for plan in batch:
            own = [next(results) for _ in plan.results]
            floats = [r.astype(np.complex128) for r in own if r.dtype.kind in "fcV"]
            finite += all(np.isfinite(r).all() for r in floats)
            several = [r for r in own if r.size > 1]
            alike += bool(several) and all((r == r.flat[0]).all() for r in several)
    assert finite >= len(plans) - 1
    assert alike <= 1


def test_how_likely_values_differ() -> None:
    row, number = Type("f32", (8,)), Type("pred")
    parameters = (Node(row, ""), Node(number, ""), Node(row.of("pred"), ""))

    def last(*nodes: Node) -> float:
        return chances(Plan((*parameters, *nodes), (0, 1, 2), (2 + len(nodes),)))[-1]

    zero, one = Node(row, "constant", (), "zeros"), Node(row, "constant", (), "ones")
    assert last(zero, one, Node(row, "select", (1, 3, 4), "")) == 0  # the whole of either
    assert 0.4 < last(zero, one, Node(row, "select", (2, 3, 4), "")) < 0.7
    assert last(zero, Node(row, "select", (2, 3, 3), "")) == 0
    assert 0.4 < last(zero, Node(row, "select", (1, 0, 3), "")) < 0.6
    assert last(zero, Node(row, "select", (2, 0, 3), "")) > 0.9
    sine = Node(row, "sin", (0,), "")
    reads = Plan((Node(row, ""), Node(row, ""), sine), (0, 1), (2,))
    leaves_alone = Plan((Node(row, ""), Node(row, ""), Node(row, "sin", (1,), "")), (0, 1), (2,))
    assert last(Node(row, "grad", (0, 0), "", (reads,))) > 0.7
    assert last(Node(row, "grad", (0, 0), "", (leaves_alone,))) == 0


def test_an_iota_counts_along_more_than_one() -> None:
    draws = Draw(generator("iota"))
    made = [constant(draws, Type("s32", (1, 5, 1))) for _ in range(2000)]
    axes = [text[-2] for form, text in made if form == "iota"]
    assert len(axes) > 400
    assert axes.count("1") > 0.9 * len(axes)
    assert {"0", "2"} & set(axes)  # now and then that too


def test_one_more_result_where_a_program_would_hide_what_it_computes() -> None:
    parameter, row = Node(Type("f32", (8,)), ""), Type("f32", (8,))
    sine = Node(row, "sin", (0,), "lax.sin({0})")
    hidden = Plan((parameter, sine, Node(row.of("pred"), "is_finite", (1,), "lax.is_finite({0})")), (0,), (2,))
    assert watched(hidden)[0].results == (2, 1)
    shown = Plan((parameter, sine, Node(row, "neg", (1,), "lax.neg({0})")), (0,), (2,))
    assert watched(shown, enough=0.05)[0] == shown
