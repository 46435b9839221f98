"""Every instruction of what runs is in one piece or left, and pieces mean what they mean in the graph."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated import module_text
from snippets import BODIES, VARIANTS, module_of

from assay.errors import HloTypeError
from assay.hlo.fingerprint import fingerprint
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.types import check_module
from assay.inputs.generate import generate
from assay.isolate.graph.cut import cut, running
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.piece import Cut, Operand, Piece
from assay.reference.evaluator import evaluate
from assay.reference.policies import XLA_CPU
from assay.reference.value import Ball, Token, Value

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.hlo"))
BESIDE = sorted((HERE.parents[3] / "shared" / "hlo").glob("*.hlo"))
SNIPPETS = {**BODIES, **VARIANTS}


def module(path: Path) -> Module:
    return parse_module(path.read_text(), path.name)


def pieces(text: str) -> dict[str, Piece]:
    return {piece.name: piece for piece in cut(parse_module(text)).pieces}


def check_whole(found: Cut) -> None:
    """Each instruction that runs once; each piece a module that passes the type rules and fits its operands."""
    wanted = Counter((c.name, i.name) for c in running(found.module) for i in c.instructions)
    own = Counter((left.computation, left.name) for left in found.left)
    for piece in found.pieces:
        assert set(piece.brought) <= set(piece.instructions)
        own.update((piece.computation, name) for name in set(piece.instructions) - set(piece.brought))
        entry = piece.module.entry
        assert entry.root_name == piece.name == piece.instructions[-1]
        assert len(entry.parameters) == len(piece.operands) == len(set(piece.operands))
        computation = found.module.by_name[piece.computation]
        for parameter, operand in zip(entry.parameters, piece.operands, strict=True):
            assert parameter.shape == leaf_shape(computation.by_name[operand.name].shape, operand.index)
        for name in piece.instructions:
            before, after = computation.by_name[name], entry.by_name[name]
            assert (before.opcode, before.shape, before.literal) == (after.opcode, after.shape, after.literal)
        assert set(piece.module.by_name) - {entry.name} <= set(found.module.by_name)
    assert own == wanted


def leaf_shape(shape: Any, index: tuple[int, ...]) -> Any:
    for i in index:
        shape = shape.elements[i]
    return shape


@pytest.mark.parametrize("path", [*PROGRAMS, *BESIDE], ids=lambda p: p.name)
def test_every_instruction_is_in_one_piece_or_left(path: Path) -> None:
    found = cut(module(path))
    check_whole(found)
    for piece in found.pieces:
        assert not check_module(piece.module)


@pytest.mark.parametrize("name", SNIPPETS)
def test_every_opcode_is_cut_or_left(name: str) -> None:
    check_whole(cut(parse_module(module_of(SNIPPETS[name]))))


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_piece_is_text_that_xla_reads(name: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    text = module_of(SNIPPETS[name])
    try:
        text = through_xla(hlo, text)  # which leaves out attributes that say nothing
    except RuntimeError as error:  # an older jaxlib without this opcode or attribute
        pytest.skip(str(error).splitlines()[1])
    for piece in cut(parse_module(text)).pieces:
        same_to_xla(hlo, piece)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_pieces_of_programs_are_text_that_xla_reads(path: Path) -> None:
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    for piece in cut(module(path)).pieces:
        same_to_xla(hlo, piece)


def same_to_xla(hlo: Any, piece: Piece) -> None:
    text = through_xla(hlo, print_for_compiler(piece.module))
    assert fingerprint(parse_module(text)) == fingerprint(piece.module)


def through_xla(hlo: Any, text: str) -> str:
    options = hlo.HloPrintOptions()
    options.print_large_constants = options.print_backend_config = True
    printed: str = hlo.hlo_module_from_text(text).to_string(options)
    return printed


def at(value: Value, index: tuple[int, ...]) -> Value:
    for i in index:
        assert isinstance(value, tuple)
        value = value[i]
    return value


def same_bits(a: Value, b: Value, radii: bool = True) -> bool:
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple) and len(a) == len(b) and all(same_bits(x, y, radii) for x, y in zip(a, b, strict=True))
        )
    if isinstance(a, Token):
        return isinstance(b, Token)
    assert isinstance(b, Ball)
    parts = ((a.mid, b.mid), (a.rad, b.rad), (a.und, b.und)) if radii else ((a.mid, b.mid), (a.und, b.und))
    return a.dtype == b.dtype and all(
        x is y or (x is not None and y is not None and x.shape == y.shape and x.tobytes() == y.tobytes())
        for x, y in parts
    )


def compare_pieces(whole: Module, visits: int = 2, radii: bool = True) -> tuple[int, list[str]]:
    """Evaluates the whole and, wherever it comes by a piece, the piece on the values there: how many pieces it came by,
    and those whose value has other bits. radii: or other bounds; of a module that was not optimized they are wider in
    the whole, where instructions may yet be fused and roundings left out.
    """
    found = {(p.computation, p.name): p for p in cut(whole).pieces}
    live: dict[tuple[str, str], Value] = {}
    seen: Counter[str] = Counter()
    different: list[str] = []

    def watch(computation: Any, instruction: Any, value: Value) -> None:
        live[computation.name, instruction.name] = value
        piece = found.get((computation.name, instruction.name))
        if piece is None or seen[piece.name] >= visits:
            return
        seen[piece.name] += 1
        arguments = [at(live[piece.computation, o.name], o.index) for o in piece.operands]
        if not same_bits(evaluate(piece.module, arguments, XLA_CPU).value, value, radii):  # type: ignore[arg-type]
            different.append(piece.name)

    evaluate(whole, generate(whole, 0), XLA_CPU, on_value=watch)
    return len(seen), different


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_piece_after_piece_is_the_whole_bit_for_bit(path: Path) -> None:
    whole = module(path)
    seen, different = compare_pieces(whole)
    assert seen == len(cut(whole).pieces)
    assert not different


@pytest.mark.parametrize("seed", range(40))
def test_pieces_of_generated_modules(seed: int) -> None:
    whole = parse_module(module_text(seed))
    assert not check_module(whole)
    found = cut(whole)
    check_whole(found)
    seen, different = compare_pieces(whole, radii=False)
    assert seen
    assert not different
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    for distinct in dedupe(cut(parse_module(through_xla(hlo, module_text(seed))))):
        same_to_xla(hlo, distinct.piece)


def test_the_comparison_sees_a_piece_that_lost_a_constant() -> None:
    """So that the test above can fail."""
    whole = parse_module("""HloModule m
ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %c = f32[] constant(0.1)
  %b = f32[4]{0} broadcast(%c), dimensions={}
  ROOT %y = f32[4]{0} multiply(%x, %b)
}
""")
    (piece,) = (p for p in cut(whole).pieces if p.name == "y")
    other = parse_module(print_for_compiler(piece.module).replace("constant(0.1)", "constant(0.2)"))
    x = generate(whole, 0)
    a, b = (evaluate(m, x, XLA_CPU).value for m in (piece.module, other))
    assert same_bits(evaluate(whole, x, XLA_CPU).value, a)
    assert not same_bits(a, b)


ONE_PARAMETER = {
    "x-x": "ROOT %r = f32[4]{0} subtract(%x, %x)",
    "x*x": "ROOT %r = f32[4]{0} multiply(%x, %x)",
    "twice out of a tuple": "%t = (f32[4]{0}, f32[4]{0}) tuple(%x, %x)\n"
    "%a = f32[4]{0} get-tuple-element(%t), index=0\n%b = f32[4]{0} get-tuple-element(%t), index=1\n"
    "ROOT %r = f32[4]{0} subtract(%a, %b)",
    "behind a barrier": "%a = f32[4]{0} opt-barrier(%x)\nROOT %r = f32[4]{0} subtract(%a, %x)",
    "behind a token": "%k = token[] after-all()\n%a = f32[4]{0} add-dependency(%x, %k)\n"
    "ROOT %r = f32[4]{0} subtract(%a, %x)",
    "under a bitcast": "%a = f32[2,2]{1,0} bitcast(%x)\n%c = f32[4]{0} bitcast(%a)\n"
    "ROOT %r = f32[4]{0} subtract(%c, %x)",
    "under two bitcasts": "%a = f32[2,2]{1,0} bitcast(%x)\n%b = f32[2,2]{1,0} bitcast(%x)\n"
    "ROOT %r = f32[2,2]{1,0} subtract(%a, %b)",
}


@pytest.mark.parametrize("body", ONE_PARAMETER.values(), ids=ONE_PARAMETER)
def test_a_value_used_twice_is_one_parameter(body: str) -> None:
    piece = pieces(module_of("x: f32[4]{0}\n" + body))["r"]
    assert [o.name for o in piece.operands] in (["x"], ["a"])
    assert not check_module(piece.module)
    value = evaluate(piece.module, [np.float32([1, 2, -3, 0.1])], XLA_CPU).value
    assert isinstance(value, Ball)
    assert value.exact or np.all(value.mid.ravel() > 0)


def test_one_bitcast_stays_outside_as_in_the_graph() -> None:
    piece = pieces(module_of("x: f32[4]{0}\n%a = f32[2,2]{1,0} bitcast(%x)\nROOT %r = f32[2,2]{1,0} negate(%a)"))["r"]
    assert piece.operands == (Operand("a"),)
    assert piece.instructions == ("r",)


def test_variance_of_a_fusion_has_one_parameter() -> None:
    text = """HloModule m
%f (p: f32[8], q: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %q = f32[8]{0} parameter(1)
  ROOT %v = f32[8]{0} multiply(%p, %q)
}
ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %fusion = f32[8]{0} fusion(%x, %x), kind=kLoop, calls=%f
}
"""
    (piece,) = cut(parse_module(text)).pieces
    assert piece.operands == (Operand("x"),)
    assert piece.module.entry.root.operands == ("x", "x")


KEPT = {
    "scalar": "%c = f32[] constant(2)\nROOT %r = f32[4]{0} map(%x, %x), dimensions={0}, to_apply=%add",
    "broadcast": "%c = f32[] constant(2)\n%b = f32[4]{0} broadcast(%c), dimensions={}\nROOT %r = f32[4]{0} add(%x, %b)",
    "iota": "%b = f32[4]{0} iota(), iota_dimension=0\nROOT %r = f32[4]{0} add(%x, %b)",
    "converted": "%c = s32[] constant(7)\n%d = f32[] convert(%c)\n%n = f32[] negate(%d)\n"
    "%b = f32[4]{0} broadcast(%n), dimensions={}\nROOT %r = f32[4]{0} add(%x, %b)",
    "init": "%c = f32[] constant(-inf)\nROOT %r = f32[] reduce(%x, %c), dimensions={0}, to_apply=%add",
    "out of a tuple": "%c = f32[4]{0} constant({1, 2, 3, 4})\n%t = (f32[4]{0}, f32[4]{0}) tuple(%x, %c)\n"
    "%b = f32[4]{0} get-tuple-element(%t), index=1\nROOT %r = f32[4]{0} add(%x, %b)",
    "a fusion that spreads": "%c = f32[4]{0} constant({1, 2, 3, 4})\n"
    "%b = f32[4]{0} fusion(%c), kind=kLoop, calls=%plain\nROOT %r = f32[4]{0} add(%x, %b)",
    "a fusion of nothing else": "%b = f32[4]{0} fusion(), kind=kLoop, calls=%counted\nROOT %r = f32[4]{0} add(%x, %b)",
    "brought to another memory": "%c = f32[4]{0} constant({1, 2, 3, 4})\n"
    "%s = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(%c)\n%b = f32[4]{0:S(1)} copy-done(%s)\n"
    "ROOT %r = f32[4]{0} add(%x, %b)",
    "a part brought there": "%c = f32[8]{0} constant({1, 2, 3, 4, 5, 6, 7, 8})\n"
    "%s = ((f32[8]{0}), f32[4]{0}, u32[]) slice-start(%c), slice={[2:6]}\n%b = f32[4]{0} slice-done(%s)\n"
    "ROOT %r = f32[4]{0} add(%x, %b)",
    "where it runs": "%c = u32[] replica-id()\n%b = u32[4]{0} broadcast(%c), dimensions={}\n"
    "%d = f32[4]{0} convert(%b)\nROOT %r = f32[4]{0} add(%x, %d)",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_constants_in_all_but_name_stay_in(body: str) -> None:
    counted = "%counted () -> f32[4] {\n  ROOT %i = f32[4]{0} iota(), iota_dimension=0\n}\n\nENTRY"
    whole = parse_module(module_of("x: f32[4]{0}\n" + body).replace("ENTRY", counted))
    found = cut(whole)
    check_whole(found)
    (piece,) = (p for p in found.pieces if p.name == "r")
    assert piece.operands == (Operand("x"),)
    assert compare_pieces(whole)[1] == []


def test_an_init_that_the_graph_is_given_is_a_parameter() -> None:
    piece = pieces(module_of(BODIES["reduce"]))["r"]
    assert piece.operands == (Operand("x"), Operand("y"))


def test_computed_values_do_not_come_along() -> None:
    body = "%c = f32[4]{0} constant({1, 2, 3, 4})\n%b = f32[4]{0} exponential(%c)\nROOT %r = f32[4]{0} add(%x, %b)"
    assert pieces(module_of("x: f32[4]{0}\n" + body))["r"].operands == (Operand("x"), Operand("b"))


def test_memory_that_nothing_was_written_to_comes_along() -> None:
    body = """x: f32[2]{0}, i: s32[]
%b = f32[4]{0} custom-call(), custom_call_target="AllocateBuffer"
ROOT %r = f32[4]{0} dynamic-update-slice(%b, %x, %i)"""
    found = cut(parse_module(module_of(body)))
    (piece,) = found.pieces
    assert piece.operands == (Operand("x"), Operand("i"))
    assert [left.why for left in found.left if left.name == "b"] == ["is memory that nothing was written to"]
    value = evaluate(piece.module, [np.float32([1, 2]), np.int32(1)], XLA_CPU).value
    assert isinstance(value, Ball)
    assert value.und is not None
    assert value.und.tolist() == [True, False, False, True]


CHAINS = {name: text for name, text in SNIPPETS.items() if name.endswith("-done") and name[:4] not in ("send", "recv")}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_piece(name: str) -> None:
    found = cut(parse_module(module_of(CHAINS[name])))
    if name == "async-done":  # of a computation of two instructions: that is cut
        assert {p.computation for p in found.pieces} == {"both_ways"}
        return
    (piece,) = found.pieces
    assert piece.instructions == ("s", "r")


def test_a_chain_with_an_update_in_the_short_form() -> None:
    text = module_of(
        "x: f32[4]{0}\n%s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(%x), slice={[1:3]}\n"
        "%u = ((f32[4]{0}), f32[2]{0}, u32[]) slice-update(%s)\nROOT %r = f32[2]{0} slice-done(%u)"
    )
    (piece,) = cut(parse_module(text)).pieces
    assert piece.instructions == ("s", "u", "r")
    assert "slice-start" in print_for_compiler(piece.module)
    value = evaluate(piece.module, [np.float32([1, 2, 3, 4])], XLA_CPU).value
    assert isinstance(value, Ball)
    assert value.mid.tolist() == [2, 3]


def test_a_chain_through_a_loop_is_left_and_said() -> None:
    text = """HloModule m
%body (s: (s32[], (f32[4], f32[4], u32[]))) -> (s32[], (f32[4], f32[4], u32[])) {
  %s = (s32[], (f32[4]{0}, f32[4]{0}, u32[])) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %c = (f32[4]{0}, f32[4]{0}, u32[]) get-tuple-element(%s), index=1
  %d = f32[4]{0} copy-done(%c)
  %n = f32[4]{0} negate(%d)
  %again = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%n)
  ROOT %t = (s32[], (f32[4]{0}, f32[4]{0}, u32[])) tuple(%i, %again)
}
%go (s: (s32[], (f32[4], f32[4], u32[]))) -> pred[] {
  %s.1 = (s32[], (f32[4]{0}, f32[4]{0}, u32[])) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  ROOT %r = pred[] compare(%i.1, %i.1), direction=LT
}
ENTRY %e (i: s32[], x: f32[4]) -> f32[4] {
  %i.2 = s32[] parameter(0)
  %x = f32[4]{0} parameter(1)
  %first = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%x)
  %t.2 = (s32[], (f32[4]{0}, f32[4]{0}, u32[])) tuple(%i.2, %first)
  %w = (s32[], (f32[4]{0}, f32[4]{0}, u32[])) while(%t.2), condition=%go, body=%body
  %l = (f32[4]{0}, f32[4]{0}, u32[]) get-tuple-element(%w), index=1
  ROOT %end = f32[4]{0} copy-done(%l)
}
"""
    found = cut(parse_module(text))
    check_whole(found)
    assert {left.name for left in found.left if "other end" in left.why} == {"d", "again", "first", "end"}
    assert {piece.name: piece.operands for piece in found.pieces} == {"n": (Operand("d"),), "r": (Operand("i.1"),)}


def test_what_moves_in_and_out_is_left() -> None:
    for name in ("infeed", "outfeed", "send", "recv", "send-done", "recv-done"):
        assert not cut(parse_module(module_of(BODIES[name]))).pieces, name


def test_loops_in_loops_and_all_branches_are_entered() -> None:
    text = """HloModule m
%b0 (x: f32[4]) -> f32[4] {
  %x0 = f32[4]{0} parameter(0)
  ROOT %r0 = f32[4]{0} negate(%x0)
}
%b1 (x: f32[4]) -> f32[4] {
  ROOT %x1 = f32[4]{0} parameter(0)
}
%b2 (x: f32[4]) -> f32[4] {
  %x2 = f32[4]{0} parameter(0)
  ROOT %r2 = f32[4]{0} abs(%x2)
}
%inner_go (s: (s32[], f32[4])) -> pred[] {
  %s.3 = (s32[], f32[4]{0}) parameter(0)
  %i.3 = s32[] get-tuple-element(%s.3), index=0
  %n.3 = s32[] constant(3)
  ROOT %go.3 = pred[] compare(%i.3, %n.3), direction=LT
}
%inner (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s.4 = (s32[], f32[4]{0}) parameter(0)
  %i.4 = s32[] get-tuple-element(%s.4), index=0
  %x.4 = f32[4]{0} get-tuple-element(%s.4), index=1
  %one.4 = s32[] constant(1)
  %next.4 = s32[] add(%i.4, %one.4)
  %y.4 = f32[4]{0} conditional(%i.4, %x.4, %x.4, %x.4), branch_computations={%b0, %b1, %b2}
  ROOT %t.4 = (s32[], f32[4]{0}) tuple(%next.4, %y.4)
}
%outer (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s.5 = (s32[], f32[4]{0}) parameter(0)
  %w.5 = (s32[], f32[4]{0}) while(%s.5), condition=%inner_go, body=%inner
  %x.5 = f32[4]{0} get-tuple-element(%w.5), index=1
  %i.5 = s32[] get-tuple-element(%w.5), index=0
  %m.5 = s32[] multiply(%i.5, %i.5)
  ROOT %t.5 = (s32[], f32[4]{0}) tuple(%m.5, %x.5)
}
ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %zero = s32[] constant(0)
  %t = (s32[], f32[4]{0}) tuple(%zero, %x)
  %w = (s32[], f32[4]{0}) while(%t), condition=%inner_go, body=%outer
  %y = f32[4]{0} get-tuple-element(%w), index=1
  ROOT %r = f32[4]{0} negate(%y)
}
"""
    whole = parse_module(text)
    found = cut(whole)
    check_whole(found)
    assert {p.name for p in found.pieces} == {"r0", "r2", "go.3", "next.4", "m.5", "r"}
    assert compare_pieces(whole) == (6, [])


@pytest.mark.parametrize(
    ("on_call", "on_root", "whole"),
    [
        ("", "", False),
        (', backend_config={"outer_dimension_partitions":["2"]}', "", True),
        ("", ', backend_config={"outer_dimension_partitions":["2"]}', True),
        ("", ", outer_dimension_partitions={2}", True),
        (', frontend_attributes={xla_cpu_small_call="true"}', "", True),
        (', frontend_attributes={xla_cpu_small_call="false"}', "", False),
    ],
)
def test_a_call_that_is_one_kernel_is_one_piece(on_call: str, on_root: str, whole: bool) -> None:
    text = f"""HloModule m
%inner (p: f32[64,64]) -> f32[64,64] {{
  %p = f32[64,64]{{1,0}} parameter(0)
  ROOT %t = f32[64,64]{{1,0}} tanh(%p){on_root}
}}
ENTRY %e (x: f32[64,64]) -> f32[64,64] {{
  %x = f32[64,64]{{1,0}} parameter(0)
  ROOT %call = f32[64,64]{{1,0}} call(%x), to_apply=%inner{on_call}
}}
"""
    found = cut(parse_module(text))
    check_whole(found)
    (piece,) = found.pieces
    assert piece.name == ("call" if whole else "t")
    assert ("backend_config" in print_for_compiler(piece.module)) == ("backend_config" in on_call + on_root)


def test_a_tuple_operand_is_a_parameter_for_each_array() -> None:
    text = """HloModule m
%inner (p: (f32[4], (s32[], token[], f32[4]))) -> f32[4] {
  %p = (f32[4]{0}, (s32[], token[], f32[4]{0})) parameter(0)
  %a = f32[4]{0} get-tuple-element(%p), index=0
  %q = (s32[], token[], f32[4]{0}) get-tuple-element(%p), index=1
  %b = f32[4]{0} get-tuple-element(%q), index=2
  ROOT %s = f32[4]{0} subtract(%a, %b)
}
ENTRY %e (p: (f32[4], (s32[], token[], f32[4])), x: f32[4]) -> f32[4] {
  %p.1 = (f32[4]{0}, (s32[], token[], f32[4]{0})) parameter(0)
  %x = f32[4]{0} parameter(1)
  %q.1 = (s32[], token[], f32[4]{0}) get-tuple-element(%p.1), index=1
  %t = (f32[4]{0}, (s32[], token[], f32[4]{0})) tuple(%x, %q.1)
  %one = f32[4]{0} call(%p.1), to_apply=%inner, frontend_attributes={xla_cpu_small_call="true"}
  %two = f32[4]{0} call(%t), to_apply=%inner, frontend_attributes={xla_cpu_small_call="true"}
  ROOT %r = f32[4]{0} add(%one, %two)
}
"""
    found = cut(parse_module(text))
    check_whole(found)
    by_name = {p.name: p for p in found.pieces}
    assert by_name["one"].operands == (Operand("p.1", (0,)), Operand("p.1", (1, 0)), Operand("p.1", (1, 2)))
    assert by_name["two"].operands == (Operand("t", (0,)), Operand("t", (1, 0)), Operand("t", (1, 2)))
    for piece in by_name.values():
        assert not check_module(piece.module)
    arrays = [np.float32([1, 2, 3, 4]), np.int32(0), np.float32([1, 1, 1, 1])]
    value = evaluate(by_name["one"].module, arrays, XLA_CPU).value
    assert isinstance(value, Ball)
    assert value.mid.tolist() == [0, 1, 2, 3]


def test_memory_of_the_graph_alone_is_left() -> None:
    text = """HloModule m
ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %p = b(f32[4]{0}) custom-call(%x), custom_call_target="Pin"
  %q = b(f32[4]{0}) custom-call(%p), custom_call_target="Work"
  ROOT %r = f32[4]{0} custom-call(%q), custom_call_target="Unpin"
}
"""
    found = cut(parse_module(text))
    assert not found.pieces
    assert {left.why for left in found.left if left.opcode == "custom-call"} == {
        "works on memory that only the graph has"
    }


def test_the_header_keeps_configuration_and_loses_what_is_of_the_parameters() -> None:
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[4,2]{0,1}, f32[2]{0})->f32[4,2]{0,1}}, \
allow_spmd_sharding_propagation_to_parameters={true,true}, allow_spmd_sharding_propagation_to_output={true}, \
replica_count=2, num_partitions=4, \
frontend_attributes={arg_layout_modes="default;default",kept={a = #sdy.mesh<["x"=2]>},out_layout_modes="default"}

ENTRY %e (x: f32[4,2], y: f32[2]) -> f32[4,2] {
  %x = f32[4,2]{0,1} parameter(0), sharding={replicated}
  %y = f32[2]{0} parameter(1)
  %n = f32[4,2]{0,1} negate(%x), sharding={replicated}, frontend_attributes={_a="1"}, backend_config={"k":["4","2"]}
  ROOT %r = f32[4,2]{0,1} abs(%n), control-predecessors={%n}
}
"""
    found = cut(parse_module(text))
    first, last = found.pieces
    assert first.module.attributes == {
        "is_scheduled": "true",
        "replica_count": "2",
        "num_partitions": "4",
        "frontend_attributes": '{kept={a = #sdy.mesh<["x"=2]>}}',
        "entry_computation_layout": "{(f32[4,2]{0,1})->f32[4,2]{0,1}}",
    }
    assert first.module.entry.root.attributes == {
        "frontend_attributes": '{_a="1"}',
        "backend_config": '{"k":["4","2"]}',
    }
    assert not last.module.entry.root.attributes
    assert found.module.entry.by_name["r"].attributes  # the graph's own is as it was


def test_frontend_attributes_of_the_header() -> None:
    def kept(text: str) -> str | None:
        head = f"HloModule m, frontend_attributes={text}\n\nENTRY %e (x: f32[4]) -> f32[4] {{\n"
        body = "  %x = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} negate(%x)\n}\n"
        return cut(parse_module(head + body)).pieces[0].module.attributes.get("frontend_attributes")

    assert kept('{a="1",b={c=[1,2]}}') == '{a="1",b={c=[1,2]}}'
    assert kept('{arg_memory_spaces="0"}') is None
    assert kept('{out_layout_modes="default;{1,0}",a={arg_layout_modes}}') == "{a={arg_layout_modes}}"
    with pytest.raises(HloTypeError, match="frontend_attributes"):
        kept("{arg_memory_spaces}")


def test_names_do_not_clash() -> None:
    text = """HloModule m
%r.alone (p: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %r = f32[4]{0} negate(%x)
}
%r.alone.alone (p: f32[4]) -> f32[4] {
  %x.1 = f32[4]{0} parameter(0)
  ROOT %r.1 = f32[4]{0} fusion(%x.1), kind=kLoop, calls=%r.alone
}
ENTRY %e (x: (f32[4], f32[4]), y: f32[4]) -> f32[4] {
  %x.2 = (f32[4]{0}, f32[4]{0}) parameter(0)
  %x.2.element.0 = f32[4]{0} parameter(1)
  %k = f32[4]{0} custom-call(%x.2, %x.2.element.0), custom_call_target="K"
  ROOT %r = f32[4]{0} fusion(%k), kind=kLoop, calls=%r.alone.alone
}
"""
    found = cut(parse_module(text))
    check_whole(found)
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    for piece in found.pieces:
        same_to_xla(hlo, piece)


def test_what_nobody_uses_is_a_piece() -> None:
    found = cut(parse_module(module_of("x: f32[4]{0}\n%dead = f32[4]{0} tanh(%x)\nROOT %r = f32[4]{0} negate(%x)")))
    check_whole(found)
    assert {p.name for p in found.pieces} == {"dead", "r"}


def test_a_computation_that_calls_itself_is_refused() -> None:
    whole = parse_module(module_of(BODIES["call"]))
    minus = whole.by_name["minus"]
    again = replace(minus.root, opcode="call", attributes={"to_apply": "minus"})
    looped = replace(minus, instructions=(*minus.instructions[:-1], again))
    with pytest.raises(HloTypeError, match="calls itself"):
        cut(replace(whole, computations=(*(c for c in whole.computations if c.name != "minus"), looped)))


def test_a_chain_of_constants_does_not_come_along_for_ever() -> None:
    """A thousand steps from a constant, each with all before it, would be half a million instructions."""
    lines = ["%c0 = f32[] constant(1)", *(f"%c{i} = f32[] negate(%c{i - 1})" for i in range(1, 1000))]
    found = cut(parse_module(module_of("x: f32[]\n" + "\n".join(lines) + "\nROOT %r = f32[] add(%x, %c999)")))
    check_whole(found)
    assert sum(len(p.instructions) for p in found.pieces) < 10_000


def seconds_to_cut(steps: int) -> float:
    """Of CPU, for a polynomial of that many steps in one computation."""
    lines = [
        f"%b{i} = f32[4]{{0}} broadcast(%c{i}), dimensions={{}}\n%m{i} = f32[4]{{0}} multiply(%x{i - 1}, %b{i})\n"
        f"%x{i} = f32[4]{{0}} add(%m{i}, %x0)"
        for i in range(1, steps)
    ]
    constants = [f"%c{i} = f32[] constant({i})" for i in range(1, steps)]
    module = parse_module(module_of("\n".join(["x0: f32[4]{0}", *constants, *lines, "ROOT %r = f32[4]{0} abs(%x1)"])))
    start = time.process_time()
    assert len(dedupe(cut(module))) == 2 * steps
    return time.process_time() - start


def test_four_times_the_instructions_take_four_times_as_long() -> None:
    short, long = min(seconds_to_cut(500) for _ in range(3)), seconds_to_cut(2000)
    assert long < 10 * short  # sixteen times, if each piece looked at the whole
