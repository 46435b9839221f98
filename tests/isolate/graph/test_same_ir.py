"""The machine code of a piece against that of its graph, on the host's own XLA:CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.inputs.generate import generate
from assay.isolate.graph import cpu_memory
from assay.isolate.graph.cut import cut
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.same_ir import CODE_ALONE, Code, compare, read, same_ir
from assay.reference.evaluator import evaluate
from assay.reference.policies import XLA_CPU
from assay.reference.value import Ball
from assay.targets import cpu
from assay.toolchain import Limits, RequestRefused, Worker, host

# A softmax in place, a loop, a matrix product, a sort: several kernels, one of them over its operand.
PROGRAM = """HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
%less (a: f32[], b: f32[]) -> pred[] {
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %c.1 = pred[] compare(%a.1, %b.1), direction=LT
}
%go (s: (s32[], f32[64,64])) -> pred[] {
  %s = (s32[], f32[64,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(5)
  ROOT %l = pred[] compare(%i, %n), direction=LT
}
%body (s: (s32[], f32[64,64])) -> (s32[], f32[64,64]) {
  %s.1 = (s32[], f32[64,64]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i.1, %one)
  %x.1 = f32[64,64]{1,0} get-tuple-element(%s.1), index=1
  %h = f32[] constant(0.5)
  %hs = f32[64,64]{1,0} broadcast(%h), dimensions={}
  %y = f32[64,64]{1,0} multiply(%x.1, %hs)
  %z = f32[64,64]{1,0} cosine(%y)
  ROOT %t = (s32[], f32[64,64]{1,0}) tuple(%next, %z)
}
ENTRY %e (x: f32[64,64], w: f32[64,64]) -> f32[64,64] {
  %x = f32[64,64]{1,0} parameter(0)
  %w = f32[64,64]{1,0} parameter(1)
  %d = f32[64,64]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %zero = f32[] constant(0)
  %none = s32[] constant(0)
  %start = (s32[], f32[64,64]{1,0}) tuple(%none, %d)
  %loop = (s32[], f32[64,64]{1,0}) while(%start), condition=%go, body=%body
  %v = f32[64,64]{1,0} get-tuple-element(%loop), index=1
  %e.1 = f32[64,64]{1,0} exponential(%v)
  %r = f32[64]{0} reduce(%e.1, %zero), dimensions={1}, to_apply=%sum
  %b.2 = f32[64,64]{1,0} broadcast(%r), dimensions={0}
  %q = f32[64,64]{1,0} divide(%e.1, %b.2)
  ROOT %o = f32[64,64]{1,0} sort(%q), dimensions={1}, to_apply=%less
}
"""
SMALL = "HloModule m, is_scheduled=true\nENTRY %e {\n  ROOT %c = f32[] constant(0)\n}\n"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(host(), limits=Limits(timeout_s=120)) as worker:
        try:
            worker.release(worker.compile(PROGRAM, "hlo-text"))
            worker.release(worker.compile(SMALL, "hlo-optimized"))
        except RequestRefused as refused:
            if refused.type != "NoHook":
                raise
            pytest.skip(refused.message)
        yield worker


@pytest.fixture(scope="module")
def whole(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the dump, and the optimized module."""
    folder = tmp_path_factory.mktemp("whole") / "dump"
    compiled = cpu.compile(worker, PROGRAM, "hlo-text", CODE_ALONE, dump=folder)
    worker.release(compiled)
    return folder, compiled.hlo


def pieces_of(whole: tuple[Path, str]) -> tuple[Piece, ...]:
    folder, text = whole
    return cpu_memory.as_in_graph(cut(parse_module(text)), cpu_memory.read(folder)).pieces


def test_every_piece_has_the_code_that_it_has_in_the_graph(worker: Worker, whole: tuple[Path, str]) -> None:
    code = read(whole[0])
    found = {p.name: same_ir(worker, code, p) for p in pieces_of(whole) if p.opcode != "call"}
    assert not {name: why for name, (same, why) in found.items() if same is False}
    assert [same for same, _ in found.values()].count(True) >= 3
    assert all("library" in why for same, why in found.values() if same is None)


def test_another_constant_is_other_code(worker: Worker, whole: tuple[Path, str]) -> None:
    (piece,) = (p for p in pieces_of(whole) if "constant(0.5)" in print_for_compiler(p.module))
    other = parse_module(print_for_compiler(piece.module).replace("constant(0.5)", "constant(0.75)"))
    same, why = same_ir(worker, whole[0], replace(piece, module=other))
    assert same is False
    assert "machine code" in why


def test_a_result_over_its_operand_takes_the_memory_of_the_graph(worker: Worker, whole: tuple[Path, str]) -> None:
    """What cpu_memory is for: without it the kernels that write over an operand are others."""
    plain = {p.name: p for p in cut(parse_module(whole[1])).pieces}
    sharing = [p for p in pieces_of(whole) if p != plain[p.name] and p.opcode != "call"]
    assert sharing
    code = read(whole[0])
    apart = [same_ir(worker, code, plain[p.name])[0] for p in sharing]
    assert False in apart
    assert all(same_ir(worker, code, p)[0] is not False for p in sharing)


def test_pieces_that_share_memory_compute_what_they_should(worker: Worker, whole: tuple[Path, str]) -> None:
    plain = {p.name: p for p in cut(parse_module(whole[1])).pieces}
    for piece in pieces_of(whole):
        if piece == plain[piece.name]:
            continue
        compiled = worker.compile(print_for_compiler(piece.module), "hlo-optimized")
        arrays = generate(piece.module, 0)
        kept = [a.copy() for a in arrays]
        first, second = worker.run(compiled, arrays), worker.run(compiled, arrays)
        worker.release(compiled)
        assert all(np.array_equal(a, b) for a, b in zip(arrays, kept, strict=True))
        value = evaluate(plain[piece.name].module, arrays, XLA_CPU).value
        balls = value if isinstance(value, tuple) else (value,)
        for ball, a, b in zip(balls, first, second, strict=True):
            assert isinstance(ball, Ball)
            assert np.array_equal(a, b)
            radius = 0 if ball.rad is None else ball.rad
            assert np.all(np.abs(a.astype(np.float64) - ball.mid) <= radius)


def test_a_loop_that_is_one_kernel_says_why_it_is_another(worker: Worker, whole: tuple[Path, str]) -> None:
    loops = [p for p in pieces_of(whole) if p.opcode == "call"]
    if not loops:
        pytest.skip("this XLA:CPU makes a thunk of the loop")
    same, why = same_ir(worker, whole[0], loops[0])
    assert same or "temporaries" in why


def test_what_two_compilations_say_of_each_other() -> None:
    whole = Code({"f": "1", "g": "2"})
    assert compare(whole, Code({"f": "1"})) == (True, "")
    assert compare(whole, Code({"h": "2"})) == (True, "compiled once with its like")
    assert compare(whole, Code({"f": "1", "g": "3"})) == (False, "other machine code: g")
    assert compare(whole, Code({"h": "3"}))[0] is False
    assert compare(whole, Code({"f": "2"}))[0] is False  # a name of the graph's stands for what it is there
    assert compare(whole, Code({}))[0] is None
    with pytest.raises(InputError, match="no object files"):
        compare(Code({}), Code({"f": "1"}))


def test_what_does_not_compile_is_not_known(worker: Worker, whole: tuple[Path, str]) -> None:
    piece = pieces_of(whole)[0]
    text = SMALL.replace("constant(0)", 'custom-call(), custom_call_target="no_such_target"')
    same, why = same_ir(worker, whole[0], replace(piece, module=parse_module(text)))
    assert same is None
    assert "does not compile" in why
