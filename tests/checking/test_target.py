"""A target that is not there: what its compiler made of a program is evaluated and judged as another's results are.

A stand-in worker hands back what a test wants the compiler to have made.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from assay.checking.api import Request, check_path, settings_for
from assay.checking.judge import judge
from assay.checking.target import Evaluated, stored
from assay.errors import HloSyntaxError, InputError, ToolchainError, WorkerError
from assay.hlo.shape import DTYPES
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import from_hlo
from assay.reference.value import Ball
from assay.targets import tpu_aot
from assay.toolchain import AheadOfTime, ArrayType, RequestRefused, Toolchain, WorkerDied

PROGRAM = """HloModule p
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  z = f32[8] add(x, y)
  e = f32[8] exponential(z)
  i = s32[8] iota(), iota_dimension=0
  ROOT r = (f32[8], s32[8]) tuple(e, i)
}
"""
REVERSED = PROGRAM.replace("e = f32[8] exp", "w = f32[8] exp").replace(
    "  i =", "  e = f32[8] reverse(w), dimensions={0}\n  i ="
)
PARAMETERS = (ArrayType("f32", (8,)), ArrayType("f32", (8,)))
RESULTS = (ArrayType("f32", (8,)), ArrayType("s32", (8,)))
X = np.linspace(-1, 1, 8, dtype=np.float32)
REQUEST = Request(target="tpu:v5e")


@pytest.fixture(autouse=True)
def _on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is no real one, so it does not matter where this runs."""
    monkeypatch.setattr(tpu_aot, "platform", _Platform)
    monkeypatch.setattr(tpu_aot.sys, "platform", "linux")


class _Platform:
    machine = staticmethod(lambda: "x86_64")
    system = staticmethod(platform.system)


@dataclass
class FakeWorker:
    """Makes `strict` of every program where excess precision is off, else `made`; an exception is raised."""

    made: str | Exception
    strict: str | None = None
    parameters: tuple[ArrayType, ...] = PARAMETERS
    results: tuple[ArrayType, ...] = RESULTS
    toolchain: Toolchain = field(default_factory=lambda: Toolchain("jax==1", "python"))
    options: list[dict[str, str]] = field(default_factory=list)

    def start_libtpu(self, topology: str, flags: Any = ()) -> tuple[int, int]:
        return 0, 117

    def compile_for_tpu(self, payload: bytes, kind: str, topology: str, options: Any, *_: Any) -> AheadOfTime:
        self.options.append(dict(options))
        if isinstance(self.made, Exception):
            raise self.made
        off = options.get("xla_allow_excess_precision") == "false" and self.strict is not None
        return AheadOfTime(self.strict if off else self.made, self.parameters, self.results, 0.25)


def judged(worker: FakeWorker, hlo: str = PROGRAM, arguments: Any = (X, X)) -> Any:
    program = from_hlo("p", hlo, hlo.encode(), "hlo-text")
    settings = settings_for(REQUEST, {})
    target = Evaluated(worker, program, settings, "v5e")  # type: ignore[arg-type]
    result = judge(program, arguments, "given", target, settings)
    target.close()
    return result


def test_another_form_of_the_program_agrees() -> None:
    """2**(z log2 e) is another rounding of exp(z), and inside the bound of the latter."""
    other = PROGRAM.replace("exponential(z)", "power(b, w)").replace(
        "  e =",
        "  l = f32[] constant(1.442695)\n  t = f32[] constant(2)\n  m = f32[8] broadcast(l), dimensions={}\n"
        "  b = f32[8] broadcast(t), dimensions={}\n  w = f32[8] multiply(z, m)\n  e =",
    )
    for made in (PROGRAM, other):
        result = judged(FakeWorker(made))
        assert result.verdict == Verdict.AGREE
        assert [(o.elements, o.outside) for o in result.outputs] == [(8, 0), (8, 0)]
        assert result.seconds["compile"] == 0.25
        assert {"compile", "optimized", "reference"} <= set(result.seconds)


def test_a_wrong_rewrite_is_a_mismatch_and_says_where() -> None:
    result = judged(FakeWorker(REVERSED))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert [o.outside for o in result.outputs] == [8, 0]
    assert result.outputs[0].peak_target.startswith("0.1353") or result.outputs[0].peak_target.startswith("7.389")


def test_an_integer_is_equal_or_wrong() -> None:
    later = "  s = s32[] constant(1)\n  o = s32[8] broadcast(s), dimensions={}\n  j = s32[8] add(i, o)\n  ROOT"
    result = judged(FakeWorker(PROGRAM.replace("tuple(e, i)", "tuple(e, j)").replace("  ROOT", later)))
    assert result.verdict == Verdict.MISMATCH
    assert [o.outside for o in result.outputs] == [0, 8]


def test_memory_that_nobody_wrote_is_wrong_where_the_program_has_another_number() -> None:
    empty = '  j = s32[8] custom-call(), custom_call_target="AllocateBuffer"\n  ROOT'
    result = judged(FakeWorker(PROGRAM.replace("tuple(e, i)", "tuple(e, j)").replace("  ROOT", empty)))
    assert result.verdict == Verdict.MISMATCH
    assert [o.outside for o in result.outputs] == [0, 7]


def test_what_a_declared_rounding_explains_is_excess_precision() -> None:
    narrow = PROGRAM.replace("exponential(z)", "negate(n)").replace(
        "  e =", "  h = f16[8] convert(z)\n  n = f32[8] convert(h)\n  e ="
    )
    skipped = PROGRAM.replace("exponential(z)", "negate(m)").replace("  e =", "  m = f32[8] copy(z)\n  e =")
    # By the TPU's own policy the rounding may be skipped; `strict` has it in place.
    assert judged(FakeWorker(skipped), narrow).verdict == Verdict.AGREE
    program = from_hlo("p", narrow, narrow.encode(), "hlo-text")
    settings = settings_for(Request(target="tpu:v5e", policy="strict"), {})
    target = Evaluated(FakeWorker(skipped, strict=narrow), program, settings, "v5e")  # type: ignore[arg-type]
    result = judge(program, (X, X), "given", target, settings)
    assert result is not None
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION)


def test_where_both_bounds_meet_nothing_is_wrong() -> None:
    """The difference of two equal sums, taken in another order, is a small number in place of zero: the bound of the
    program does not hold it where the optimized module's holds both."""
    exact = """HloModule d
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  z = f32[8] subtract(x, x)
  i = s32[8] iota(), iota_dimension=0
  ROOT r = (f32[8], s32[8]) tuple(z, i)
}
"""
    # tanh is off by some ulps, whichever way: x - x by way of it is anything near zero.
    loose = (
        exact.replace("subtract(x, x)", "subtract(t, u)")
        .replace("  z =", "  t = f32[8] tanh(x)\n  v = f32[8] add(x, c)\n  u = f32[8] tanh(v)\n  z =")
        .replace("  y =", "  s = f32[] constant(6e-8)\n  c = f32[8] broadcast(s), dimensions={}\n  y =")
    )
    result = judged(FakeWorker(loose), exact)
    assert result.verdict == Verdict.AGREE
    assert any("optimized module" in note for note in result.notes)
    far = loose.replace("6e-8", "1e-2")
    assert judged(FakeWorker(far), exact).verdict == Verdict.MISMATCH


def test_what_rounding_decides_is_compared_by_midpoints() -> None:
    """tanh(x) > tanh(y) for x = y: the bounds leave it open which, and both modules say the same, or do not."""
    program = """HloModule c
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  t = f32[8] tanh(x)
  u = f32[8] tanh(y)
  z = f32[8] negate(x)
  p = pred[8] compare(t, u), direction=GT
  s = f32[8] select(p, x, z)
  i = s32[8] iota(), iota_dimension=0
  ROOT r = (f32[8], s32[8]) tuple(s, i)
}
"""
    result = judged(FakeWorker(program), program)
    assert (result.verdict, result.outputs[0].undecided) == (Verdict.AGREE, 0)
    other = program.replace("direction=GT", "direction=GE")
    result = judged(FakeWorker(other), program)
    assert (result.verdict, result.outputs[0].undecided > 0, result.outputs[0].outside) == (Verdict.AGREE, True, 0)
    wrong = program.replace("select(p, x, z)", "select(p, z, x)")
    far = (X + 4, np.zeros(8, np.float32))  # decided
    assert judged(FakeWorker(wrong), program, far).verdict == Verdict.MISMATCH


def test_what_the_reference_lacks_is_unverified_by_name() -> None:
    strange = PROGRAM.replace("exponential(z)", 'custom-call(z), custom_call_target="tpu_custom_call"')
    result = judged(FakeWorker(strange))
    assert result.verdict == Verdict.UNVERIFIED
    assert result.why.startswith("unsupported: ")
    assert "tpu_custom_call" in result.why
    result = judged(FakeWorker(PROGRAM), strange)
    assert (result.verdict, "tpu_custom_call" in result.why) == (Verdict.UNVERIFIED, True)


def test_a_compiler_that_ends_is_a_finding_where_it_does_so_twice() -> None:
    for kind, verdict in (("crash", Verdict.CRASH), ("hang", Verdict.HANG), ("resource", Verdict.UNVERIFIED)):
        died = WorkerDied(kind, "compile_for_tpu", 6, "SIGABRT", ("last words",), "SIGABRT")  # type: ignore[arg-type]
        result = judged(FakeWorker(died))
        assert result.verdict == verdict
        assert result.stderr_tail == ("last words",)


def test_refusals() -> None:
    with pytest.raises(InputError, match="--option: no option"):
        judged(FakeWorker(RequestRefused("compile_for_tpu", "UnknownOption", "no option xla_x")))
    result = judged(FakeWorker(RequestRefused("compile_for_tpu", "PjrtError", "UNIMPLEMENTED: not this")))
    assert (result.verdict, "UNIMPLEMENTED: not this" in result.why) == (Verdict.INVALID, True)
    with pytest.raises(ToolchainError, match="of about one time"):
        judged(FakeWorker(RequestRefused("compile_for_tpu", "LibtpuDoesNotFit", "ids too large")))


def test_an_optimized_module_that_is_another_program_is_not_judged() -> None:
    with pytest.raises(WorkerError, match=r"other results: f32\[8\], s32\[9\]"):
        judged(FakeWorker(PROGRAM, results=(RESULTS[0], ArrayType("s32", (9,)))))
    with pytest.raises(WorkerError, match="other parameters"):
        judged(FakeWorker(PROGRAM, parameters=PARAMETERS[:1]))
    with pytest.raises(HloSyntaxError, match="p, optimized"):
        judged(FakeWorker(PROGRAM[:90]))


def test_compiled_once_for_all_inputs() -> None:
    worker = FakeWorker(PROGRAM)
    program, settings = from_hlo("p", PROGRAM, PROGRAM.encode(), "hlo-text"), settings_for(REQUEST, {})
    target = Evaluated(worker, program, settings, "v5e")  # type: ignore[arg-type]
    for scale in (1, 2):
        result = judge(program, (X * scale, X), "given", target, settings)
        assert result is not None
        assert result.verdict == Verdict.AGREE
    assert len(worker.options) == 1


@pytest.mark.tpu
def test_a_function_agrees_on_the_real_compiler(tpu_toolchain: Toolchain, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.undo()
    (tmp_path / "f.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "def f(x, y): return jax.nn.softmax(x @ y, -1), jnp.cumsum(x, 1), x.astype(jnp.int8)\n"
        "def example_args(): return jax.ShapeDtypeStruct((16, 128), jnp.float32), "
        "jax.ShapeDtypeStruct((128, 40), jnp.float32)\n"
    )
    spec = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    report = check_path(f"{tmp_path}/f.py:f", Request(target="tpu:v5e", toolchain=spec))
    assert report.verdict == Verdict.AGREE, str(report)
    assert f"libtpu {tpu_toolchain.version('libtpu')}" in report.toolchain


def test_infinite_parts_leave_the_other_part_alone() -> None:
    """A product with 1j is NaN beside an infinity."""
    z = np.array([complex(np.inf, 2.0), complex(1.5, -np.inf), complex(-0.25, 0.5)])
    (kept,) = stored([Ball(DTYPES["c64"], z)])
    assert np.array_equal(kept.real, z.real)
    assert np.array_equal(kept.imag, z.imag)
