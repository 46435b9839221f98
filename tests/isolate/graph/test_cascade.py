"""One piece and its verdict: the three votes, tamer arguments, and what is put down to whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.checking import bounds as bounds_module
from assay.checking.api import Request, settings_for
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.errors import Unsupported
from assay.hlo.parse import parse_module
from assay.inputs.generate import generate
from assay.isolate.graph import cascade
from assay.isolate.graph.cascade import judge_piece
from assay.isolate.graph.cut import cut
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Array, Program
from assay.report.isolation import PieceResult
from assay.toolchain import ArrayType, Limits, RequestRefused, Worker, WorkerDied, host

HERE = Path(__file__).parent
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
hooked = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")

WAVES = """HloModule waves, is_scheduled=true
fused { x = f32[64]{0} parameter(0)
  s = f32[64]{0} sine(x)
  e = f32[64]{0} exponential(x)
  ROOT m = f32[64]{0} multiply(s, e) }
ENTRY main { x = f32[64]{0} parameter(0)
  ROOT waves = f32[64]{0} fusion(x), kind=kLoop, calls=fused }
"""
LOG = """HloModule log, is_scheduled=true
fused { x = f32[64]{0} parameter(0)
  ROOT l = f32[64]{0} log(x) }
ENTRY main { x = f32[64]{0} parameter(0)
  ROOT logs = f32[64]{0} fusion(x), kind=kLoop, calls=fused }
"""
NEVER = LOG.replace(
    "ROOT l = f32[64]{0} log(x)",
    """a = f32[64]{0} abs(x)
  n = f32[64]{0} negate(a)
  ROOT l = f32[64]{0} log(n)""",
)


def row_of(text: str, worker: Any, request: Request | None = None, given: Any = ()) -> PieceResult:
    (piece,) = cut(parse_module(text)).pieces
    request = request or Request()
    settings = settings_for(request, {"jaxlib": metadata.version("jaxlib")})
    return judge_piece(piece, "key", "group", (piece.name, "other"), worker, request, settings, given=given)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(host()) as found:
        yield found


@pytest.fixture
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker whose compiler is wrong, where the parameter says."""
    monkeypatch.setenv("WRONG_SINE", request.param)
    with Worker(host(), limits=Limits(timeout_s=60)) as found:
        found.load(HERE / "wrong_sine.py")
        yield found


@hooked
def test_a_right_piece_agrees(worker: Worker) -> None:
    row = row_of(WAVES, worker)
    assert (row.verdict, row.klass, row.outside, row.undecided, row.masked) == (Verdict.AGREE, None, 0, 0, 0)
    assert (row.key, row.group, row.name, row.computation, row.opcode) == ("key", "group", "waves", "main", "fusion")
    assert row.instances == ("waves", "other")
    assert row.elements == 64
    assert row.votes == {"target": "agrees", "reference": "judges"}
    assert row.seconds > 0


@hooked
@pytest.mark.parametrize("wrong", [""], indirect=True)
def test_a_wrong_fusion_stands_alone_against_two(wrong: Worker) -> None:
    row = row_of(WAVES, wrong)
    assert (row.verdict, row.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert row.outside > 60
    assert row.votes["target"] == f"{row.outside} of 64 elements outside"
    assert row.votes["unfused"] == "agrees"
    assert row.worst_bound > 1e3
    assert [a.shape for a in row.arguments] == [(64,)]


@hooked
@pytest.mark.parametrize("wrong", ["everywhere"], indirect=True)
def test_agreeing_with_its_own_unfused_form_acquits_nobody(wrong: Worker) -> None:
    """The same wrong operation on both sides, where the upstream tool stops at its first stage and passes."""
    row = row_of(WAVES, wrong)
    assert (row.verdict, row.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert row.votes["unfused"] == row.votes["target"] == f"{row.outside} of 64 elements outside"


@hooked
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_honest_dot_agrees_unfused(dtype: str, worker: Worker) -> None:
    """XLA:CPU sums up bf16 products in f32 by way of the pass that gives dots to a library; that pass stays."""
    text = f"""HloModule m, is_scheduled=true
ENTRY main {{ a = {dtype}[32,256]{{1,0}} parameter(0)
  b = {dtype}[256,32]{{1,0}} parameter(1)
  ROOT d = {dtype}[32,32]{{1,0}} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}
"""
    program = Program("m", text.encode(), "hlo-text", parse_module(text))
    assert program.module is not None
    settings = settings_for(Request(), {"jaxlib": metadata.version("jaxlib")})
    settings = replace(settings, options=cascade.unfusing({}, program.module))
    arguments = generate(program.module, 0)
    with closing(Executed(worker, cascade.without_fusions(program))) as target:
        result = judge(target.program, arguments, "", target, settings)
    assert result is not None
    assert result.verdict is Verdict.AGREE


NARROW = """HloModule narrow, is_scheduled=true
ENTRY main { a = bf16[64,64]{1,0} parameter(0)
  b = bf16[64,64]{1,0} parameter(1)
  ROOT d = bf16[64,64]{1,0} dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1} }
"""


def summed_in_bf16(a: Array, b: Array) -> Array:
    total = np.zeros((64, 64), a.dtype)
    for k in range(64):
        total = (total + (a[k][:, None] * b[:, k][None, :]).astype(a.dtype)).astype(a.dtype)
    return total


def test_a_narrow_dot_that_is_summed_up_in_its_own_type_is_told_so() -> None:
    """As XLA:CPU does with transposed products: findings/bf16_transposed_product.py."""
    row = row_of(NARROW, Fake([summed_in_bf16], type_=ArrayType("bf16", (64, 64))))
    assert (row.verdict, row.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert cascade.NARROW in row.notes


def test_a_narrow_dot_that_is_wrong_otherwise_is_not() -> None:
    def rolled(a: Array, b: Array) -> Array:
        return np.roll(summed_in_bf16(a, b), 1, 0)

    row = row_of(NARROW, Fake([rolled], type_=ArrayType("bf16", (64, 64))))
    assert (row.verdict, row.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert cascade.NARROW not in row.notes


@hooked
def test_without_a_reference_nothing_is_verified(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise Unsupported("sine")

    monkeypatch.setattr(bounds_module, "evaluate", missing)
    row = row_of(WAVES, worker)
    assert (row.verdict, row.why) == (Verdict.UNVERIFIED, "unsupported: sine")
    assert row.votes["reference"] == "unsupported: sine"
    assert "which proves nothing" in row.votes["unfused"] or "other bits" in row.votes["unfused"]


@hooked
@pytest.mark.parametrize("wrong", [""], indirect=True)
def test_without_a_reference_a_wrong_fusion_is_told_but_not_convicted(
    wrong: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise Unsupported("sine")

    monkeypatch.setattr(bounds_module, "evaluate", missing)
    row = row_of(WAVES, wrong)
    assert row.verdict is Verdict.UNVERIFIED
    assert row.votes["unfused"].startswith("other bits than the target in ")


# ---- infinities and NaN


@hooked
def test_arguments_that_leave_the_domain_are_tamed(worker: Worker) -> None:
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    row = row_of(LOG, worker, Request(classes=()), given=[("from the graph", [x])])
    assert row.verdict is Verdict.AGREE
    assert (row.elements, row.masked) == (64, 0)
    assert row.inputs == "from the graph; from the graph, of each its absolute value"
    negative = int((x < 0).sum())
    share = f"from the graph: {negative / 64:.0%} of the elements leave a domain or a range"
    assert any(note.startswith(share) for note in row.notes)
    assert f"masked: {negative} by leaving a domain or a range (l: log)" in row.notes


@hooked
def test_few_infinities_are_left_alone(worker: Worker) -> None:
    x = np.linspace(0, 4, 64, dtype=np.float32)
    row = row_of(LOG, worker, Request(classes=()), given=[("from the graph", [x])])
    assert (row.verdict, row.masked, row.inputs) == (Verdict.AGREE, 1, "from the graph")


@hooked
def test_what_has_no_value_anywhere_is_not_verified(worker: Worker) -> None:
    x = np.linspace(1, 4, 64, dtype=np.float32)
    row = row_of(NEVER, worker, Request(classes=()), given=[("from the graph", [x])])
    assert row.verdict is Verdict.UNVERIFIED
    assert "leaves a domain or a range, on all inputs that were tried (l: log)" in row.why


def test_where_nothing_can_be_drawn_the_piece_is_invalid() -> None:
    def infinite(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log(-np.abs(x))

    row = row_of(NEVER, Fake([infinite]))
    assert row.verdict is Verdict.INVALID
    assert row.why.startswith("unsatisfiable: ")
    assert "l" in row.why.removeprefix("unsatisfiable: ").split(", ")
    x = np.linspace(1, 4, 64, dtype=np.float32)
    real = row_of(NEVER, Fake([infinite]), given=[("from the graph", [x])])
    assert real.verdict is Verdict.UNVERIFIED
    assert any("unsatisfiable" in note for note in real.notes)


@hooked
def test_an_infinity_that_is_meant_is_verified(worker: Worker) -> None:
    text = """HloModule low, is_scheduled=true
fused { c = f32[] constant(-inf)
  ROOT b = f32[64]{0} broadcast(c), dimensions={} }
ENTRY main { ROOT lows = f32[64]{0} fusion(), kind=kLoop, calls=fused }
"""
    row = row_of(text, worker)
    assert (row.verdict, row.masked, row.inputs) == (Verdict.AGREE, 64, "no inputs")
    assert "masked: 64 by constants (c)" in row.notes


@hooked
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("integers", [False, True])
def test_agreement_on_nan_arguments_is_none(value: float, integers: bool, worker: Worker) -> None:
    """Where every element is NaN because the arguments are, nothing was compared; whole numbers made of it were."""
    text = WAVES
    if integers:
        text = text.replace("ROOT m = f32[64]{0} multiply(s, e)", "ROOT m = pred[64]{0} compare(s, e), direction=LT")
        text = text.replace("ROOT waves = f32[64]{0}", "ROOT waves = pred[64]{0}")
    x = np.full(64, value, np.float32)
    row = row_of(text, worker, Request(classes=()), given=[("given", [x])])
    if integers:
        assert (row.verdict, row.masked) == (Verdict.AGREE, 0)
        return
    assert (row.verdict, row.elements, row.masked) == (Verdict.UNVERIFIED, 64, 64)
    assert row.why.startswith("nothing is compared")
    assert "agrees" not in row.votes.values()
    # One element that is a number is evidence; and so are other inputs, beside which the blank ones are told.
    x[3] = 0.5
    some = row_of(text, worker, Request(classes=()), given=[("given", [x])])
    assert (some.verdict, some.masked) == (Verdict.AGREE, 63)
    both = row_of(text, worker, given=[("given", [np.full(64, value, np.float32)])])
    assert (both.verdict, both.masked) == (Verdict.AGREE, 0)
    assert "given" not in both.inputs
    assert any(note.startswith("not judged on given: nothing is compared") for note in both.notes)


# ---- what is whose fault


class Fake:
    """A worker that compiles or runs as a test says: `compiled` by kind, and the results of the runs in turn."""

    def __init__(self, results: list[Any], refuses: tuple[str, ...] = (), type_: ArrayType | None = None) -> None:
        self.results, self.refuses, self.type_ = results, refuses, type_ or ArrayType("f32", (64,))
        self.kinds: list[str] = []

    def compile(self, payload: bytes, kind: str, options: Any = None, timeout_s: Any = None) -> Any:
        self.kinds.append(kind)
        if kind in self.refuses:
            raise RequestRefused("compile", "NoHook", "no such hook")
        return SimpleNamespace(results=(self.type_,), parameters=(), seconds=0.0)

    def run(self, compiled: Any, arrays: list[Array], timeout_s: Any = None) -> list[Array]:
        found = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(found, Exception):
            raise found
        return [found(*arrays)]

    def holds(self, compiled: Any) -> bool:
        return True

    def release(self, compiled: Any) -> None:
        pass


def right(x: Array) -> Array:
    wide = x.astype(np.float64)
    return (np.sin(wide) * np.exp(wide)).astype(np.float32)


def doubled(x: Array) -> Array:
    return right(x) * 2


def died(request: str) -> WorkerDied:
    return WorkerDied("crash", request, 11, "SIGSEGV", (), "SIGSEGV")


def test_a_piece_that_is_not_taken_as_it_is_is_compiled_anew() -> None:
    worker = Fake([right], refuses=("hlo-optimized",))
    row = row_of(WAVES, worker)
    assert row.verdict is Verdict.AGREE
    assert cascade.ANEW in row.notes
    assert worker.kinds[0] == "hlo-optimized"
    assert set(worker.kinds[1:]) == {"hlo-text"}


def test_a_piece_that_does_not_compile_alone_is_no_finding() -> None:
    row = row_of(WAVES, Fake([right], refuses=("hlo-optimized", "hlo-text")))
    assert row.verdict is Verdict.UNVERIFIED
    assert row.why.startswith("alone it does not compile: ")


def test_a_crash_is_the_pieces_own() -> None:
    row = row_of(WAVES, Fake([died("run")]))
    assert row.verdict is Verdict.CRASH
    assert row.why == "SIGSEGV during run, twice"


def test_a_wrong_result_that_does_not_come_again_is_nondeterministic() -> None:
    """Two runs alike and wrong, and a later one that is right."""
    row = row_of(WAVES, Fake([doubled, doubled, doubled, doubled, doubled, right, doubled]))
    assert row.verdict is Verdict.NONDETERMINISTIC
    assert row.klass is None
    assert "further runs differ" in row.why


def test_a_wrong_result_that_comes_again_is_a_mismatch() -> None:
    row = row_of(WAVES, Fake([doubled]))
    assert (row.verdict, row.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert row.pattern == "scaled by 2"
