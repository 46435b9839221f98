"""Neighbourhoods are programs that compute what the graph does there, and the search ends at the pieces to blame."""

from __future__ import annotations

from contextlib import closing
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request, open_worker, read_programs, settings_for
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module
from assay.hlo.types.check import check_module
from assay.isolate.graph.cascade import program_of
from assay.isolate.graph.neighbours import find, graph_of, grown, hull, neighbourhood
from assay.isolate.graph.trace import captured, every_value, indexed_leaves
from assay.oracle.verdict import Verdict
from assay.reference.policies import for_target
from assay.toolchain import Worker, host

POLICY = for_target("cpu")
UNARY = ("negate", "abs", "cosine", "sine", "floor")


def drawn(seed: int, count: int = 24):
    """A graph of `count` instructions on arrays, among them a fusion of two results and a loop."""
    rng = np.random.default_rng(seed)
    names, lines = ["p", "q"], ["p = f32[6]{0} parameter(0)", "q = f32[6]{0} parameter(1)"]
    for n in range(count):
        name = f"v{n}"
        a, b = (names[int(k)] for k in rng.integers(max(0, len(names) - 6), len(names), 2))
        kind = int(rng.integers(8))
        if kind == 0:
            lines.append(f"w{n} = (f32[6]{{0}}, f32[6]{{0}}) fusion({a}, {b}), kind=kLoop, calls=both")
            lines.append(f"{name} = f32[6]{{0}} get-tuple-element(w{n}), index={int(rng.integers(2))}")
        elif kind == 1:
            lines.append(f"z{n} = s32[] constant(0)")
            lines.append(f"s{n} = (s32[], f32[6]{{0}}) tuple(z{n}, {a})")
            lines.append(f"w{n} = (s32[], f32[6]{{0}}) while(s{n}), condition=condition, body=body")
            lines.append(f"{name} = f32[6]{{0}} get-tuple-element(w{n}), index=1")
        elif kind < 5:
            lines.append(f"{name} = f32[6]{{0}} {UNARY[kind - 2]}({a})")
        else:
            lines.append(f"{name} = f32[6]{{0}} {('add', 'multiply', 'maximum')[kind - 5]}({a}, {b})")
        names.append(name)
    root = f"ROOT r = (f32[6]{{0}}, f32[6]{{0}}) tuple({names[-1]}, {names[-2]})"
    return parse_module(
        """HloModule drawn
both { p = f32[6]{0} parameter(0)
 q = f32[6]{0} parameter(1)
 a = f32[6]{0} add(p, q)
 s = f32[6]{0} subtract(p, q)
 ROOT t = (f32[6]{0}, f32[6]{0}) tuple(a, s) }
body { s = (s32[], f32[6]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[6]{0} get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[6]{0} sine(x)
 ROOT t = (s32[], f32[6]{0}) tuple(j, y) }
condition { s = (s32[], f32[6]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(2)
 ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { """
        + "\n ".join([*lines, root])
        + " }\n"
    )


ARGUMENTS = [np.linspace(-1, 1, 6, dtype=np.float32), np.linspace(0.1, 2, 6, dtype=np.float32)]


def paths(graph, start, end):
    """By exhaustion: the units on the ways from one to another."""
    if start == end:
        return {start}
    found = set()
    for following in graph.after[start]:
        rest = paths(graph, following, end)
        if rest:
            found |= {start} | rest
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_hull_has_what_lies_between_and_nothing_else(seed) -> None:
    graph = graph_of(drawn(seed, 10), "e")
    rng = np.random.default_rng(seed)
    units = list(graph.units)
    for _ in range(6):
        a, b = (units[int(k)] for k in rng.integers(0, len(units), 2))
        assert hull(graph, {a, b}) == {a, b} | paths(graph, a, b) | paths(graph, b, a)


@pytest.mark.parametrize("seed", range(8))
def test_a_neighbourhood_computes_what_the_graph_computes_there(seed) -> None:
    """On the values that the graph hands to it, its results are the graph's own values, bit for bit."""
    module = drawn(seed)
    graph = graph_of(module, "e")
    trace = captured(module, ARGUMENTS, POLICY, every_value(module, "e"))
    rng = np.random.default_rng(seed)
    units = list(graph.units)
    for radius in (0, 1, 2, 3):
        start = units[int(rng.integers(len(units)))]
        piece = neighbourhood(graph, grown(graph, {start}, radius))
        check_module(piece.module)
        (arguments,) = trace.arguments(piece)
        again = captured(piece.module, arguments, POLICY, every_value(piece.module, piece.module.entry_name))
        compared = 0
        for name in piece.instructions:
            for index, _ in indexed_leaves(module.entry.by_name[name].shape):
                a, b = trace.of("e", name, index), again.of(piece.module.entry_name, name, index)
                if a or b:
                    assert a[0].tobytes() == b[0].tobytes(), name
                    compared += 1
        assert compared
        root = piece.module.entry.root
        outputs = root.operands if root.opcode == "tuple" else (root.name,)
        assert len(set(outputs)) == len(outputs)


@pytest.mark.parametrize("seed", range(15))
def test_two_pieces_that_are_wrong_together_are_found(seed) -> None:
    module = drawn(seed, 40)
    graph = graph_of(module, "e")
    rng = np.random.default_rng(seed)
    units = list(graph.units)
    a, b = (units[int(k)] for k in rng.choice(len(units), 2, replace=False))
    seen = []

    def judge(piece):
        seen.append(piece)
        return Verdict.MISMATCH if {a, b} <= set(piece.instructions) else Verdict.AGREE

    found = find(graph, {a}, judge)
    assert set(found.units) == hull(graph, {a, b})
    assert found.minimal
    assert found.verdict == Verdict.MISMATCH
    assert found.judged == len(seen) < 120
    assert {a, b} <= set(found.piece.instructions)


def test_without_a_start_the_whole_computation_shrinks() -> None:
    graph = graph_of(drawn(3, 60), "e")
    guilty = list(graph.units)[30]
    found = find(graph, (), lambda piece: Verdict.CRASH if guilty in piece.instructions else Verdict.AGREE)
    assert (found.units, found.verdict) == ((guilty,), Verdict.CRASH)
    assert found.judged < 30


def test_what_cannot_be_judged_shows_nothing_and_another_verdict_is_another_bug() -> None:
    graph = graph_of(drawn(4, 30), "e")
    units = list(graph.units)
    a, b = units[5], units[12]

    def judge(piece):
        names = set(piece.instructions)
        if a in names and b in names:
            return Verdict.MISMATCH
        return Verdict.UNVERIFIED if a in names else Verdict.CRASH if b in names else Verdict.AGREE

    found = find(graph, {a}, judge)
    assert set(found.units) == hull(graph, {a, b})
    assert found.verdict == Verdict.MISMATCH


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    graph = graph_of(drawn(5, 30), "e")
    found = find(graph, {next(iter(graph.units))}, lambda _: Verdict.AGREE)
    assert found.piece is None
    assert "not wrong" in found.why


def test_a_budget_ends_the_search_with_the_smallest_so_far() -> None:
    graph = graph_of(drawn(6, 60), "e")
    units = list(graph.units)
    a, b = units[10], units[40]

    def judge(piece):
        return Verdict.MISMATCH if {a, b} <= set(piece.instructions) else Verdict.AGREE

    ended = find(graph, (), judge, budget=4)
    assert not ended.minimal
    assert ended.judged == 4
    assert {a, b} <= set(ended.units)
    assert find(graph, {a}, lambda _: Verdict.AGREE, budget=2).piece is None


def test_a_loop_does_not_write_to_what_it_is_given() -> None:
    """An array that a loop begins with is a parameter of the neighbourhood, which nothing may overwrite."""
    module = drawn(1, 1)
    while "while(" not in (text := str([i.opcode + "(" for i in module.entry.instructions])):
        module = drawn(int(np.random.default_rng(len(text)).integers(1000)), 6)
    graph = graph_of(module, "e")
    loop = next(i for i in module.entry.instructions if i.opcode == "while")
    piece = neighbourhood(graph, {loop.name})
    inside = piece.module.entry.by_name
    state = inside[inside[loop.name].operands[0]]
    assert all(inside[name].opcode in ("copy", "constant") for name in state.operands)


VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])


@pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")
def test_a_compiler_that_is_wrong_where_two_instructions_meet() -> None:
    """No piece alone shows it, nor any neighbourhood without both."""
    source, request = str(Path(__file__).parent / "wrong_together.py:chain"), Request()
    with open_worker(request, lambda _: None) as (right, versions):
        (program,) = read_programs(source, request, right)
    with Worker(host()) as fresh:
        module = parse_module(fresh.compile(program.payload, program.kind).hlo)
    settings = settings_for(request, versions)
    graph = graph_of(module, module.entry_name)
    trace = captured(module, program.arguments, settings.policy, every_value(module, module.entry_name))
    with open_worker(request, lambda _: None) as (worker, _):
        read_programs(source, request, worker)  # registers the pass

        def verdict(piece):
            alone = program_of(piece)
            (arguments,) = trace.arguments(piece)
            with closing(Executed(worker, alone)) as target:
                return judge(alone, arguments, "captured", target, settings).verdict

        assert {verdict(neighbourhood(graph, {unit})) for unit in graph.units} == {Verdict.AGREE}
        for start in ((), {next(iter(graph.units))}):
            found = find(graph, start, verdict)
            text = print_module(found.piece.module)
            assert found.verdict == Verdict.MISMATCH
            assert found.minimal
            assert " sine(" in text
            assert " tanh(" in text
            assert " exponential(" not in text
            assert text.count(" sort(") == 1


def test_an_output_that_members_read_is_copied_before_they_do() -> None:
    """What reads it may write over it; what nobody reads is given as it is."""
    for seed in range(6):
        module = drawn(seed)
        graph = graph_of(module, "e")
        for unit in graph.units:
            piece = neighbourhood(graph, grown(graph, {unit}, 1))
            entry = piece.module.entry
            parts = entry.root.operands if entry.root.opcode == "tuple" else (entry.root_name,)
            for name in parts:
                readers = [i for i in entry.instructions if name in i.operands and i is not entry.root]
                assert not readers
                made = entry.by_name[name]
                if made.opcode == "copy":
                    (source,) = made.operands
                    for reader in (i for i in entry.instructions if source in i.operands and i is not made):
                        assert name in reader.attributes.get("control-predecessors", "") or reader.name in parts
