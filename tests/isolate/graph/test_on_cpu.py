"""A program compiled whole for XLA:CPU, and cut as it stands there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.cut import cut
from assay.isolate.graph.on_cpu import Built, built
from assay.isolate.graph.same_ir import same_ir
from assay.programs.program import Program
from assay.toolchain import Limits, RequestRefused, Worker, host

TEXT = """HloModule m
ENTRY %e (x: f32[64,64], y: f32[64]) -> f32[64,64] {
  %x = f32[64,64]{1,0} parameter(0)
  %y = f32[64]{0} parameter(1)
  %d = f32[64,64]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %b = f32[64,64]{1,0} broadcast(%y), dimensions={1}
  %s = f32[64,64]{1,0} multiply(%d, %b)
  %t = f32[64,64]{1,0} sine(%s)
  ROOT %e.1 = f32[64,64]{1,0} dot(%t, %t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(host(), limits=Limits(timeout_s=120)) as worker:
        yield worker


def program(text: str) -> Program:
    return Program("m", text.encode(), "hlo-text", parse_module(text))


@pytest.fixture(scope="module")
def whole(worker: Worker) -> Built:
    return built(worker, program(TEXT), {}, optimized=False)


def test_the_optimized_module_is_cut(whole: Built) -> None:
    assert whole.module.attributes["is_scheduled"] == "true"
    assert [p.name for p in whole.cut.pieces] == [p.name for p in cut(whole.module).pieces]
    assert whole.compile_s > 0


def test_an_optimized_module_is_cut_as_it_stands(worker: Worker, whole: Built) -> None:
    again = built(worker, program(print_for_compiler(whole.module)), {}, optimized=True)
    assert [p.name for p in again.cut.pieces] == [p.name for p in whole.cut.pieces]
    if again.code is not None and whole.code is not None:  # jax 0.10.2 and later
        assert again.code == whole.code
        assert [p.module for p in again.cut.pieces] == [p.module for p in whole.cut.pieces]
        assert all(same_ir(worker, again.code, p)[0] is not False for p in again.cut.pieces)


def test_a_program_that_is_refused_is_refused(worker: Worker) -> None:
    text = TEXT.replace("sine(%s)", 'custom-call(%s), custom_call_target="no_such_target"')
    with pytest.raises(RequestRefused):
        built(worker, program(text), {}, optimized=False)
