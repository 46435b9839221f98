"""`--through llo`: the kernels that the compiler made run in the simulator.

A stand-in worker hands back the HLO and the LLO that a test wants the compiler to have made.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.checking.api import Request, check_path, settings_for
from assay.checking.judge import judge
from assay.checking.simulated import Simulated
from assay.errors import InputError
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import from_hlo
from assay.report.result import CaseResult
from assay.targets import tpu_aot
from assay.toolchain import AheadOfTime, ArrayType, Toolchain

PROGRAM = "HloModule p\nENTRY main {\n  x = f32[128] parameter(0)\n  ROOT n = f32[128] negate(x)\n}\n"
MADE = (
    "HloModule p, is_scheduled=true\nENTRY main {\n  x = f32[128]{0:T(128)} parameter(0)\n"
    "  ROOT n = f32[128]{0:T(128)} negate(x)\n}\n"
)
BUNDLES = """= control target key start
= control target key end

     0   :  { %s0_s0 = inlined_call_operand.vmem [shape: f32[128], index: 0, kind: input, shape index: {}]  ;;  """ + (
    """%s1_s1 = inlined_call_operand.vmem [shape: f32[128], index: 1, kind: output, shape index: {}] }
   0x1   :  { %v2_v0 = vld [vmem:[%s0_s0] sm:$0x1] }
   0x2   :  { %v3_v1 = vmul.f32 -1.0, %v2_v0 }
   0x3   :  { %4 = vst [vmem:[%s1_s1] sm:$0x1] /*vst_source=*/%v3_v1 }
"""
)
MEMORY = """$region0: #{n}
  #allocation1 [shape = 's32[1]{0}', space=sflag, size = 0x4, offset = 0, scoped, tag = 'flag']
  %4 = vnop
  $region1: #{n} parent=0
    _
"""
X = np.linspace(-3, 4, 128, dtype=np.float32)
REQUEST = Request(target="tpu:v5e", through="llo")


class _Platform:
    machine = staticmethod(lambda: "x86_64")
    system = staticmethod(platform.system)


@pytest.fixture
def _on_x86(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worker is no real one, so it does not matter where this runs."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tpu_aot, "platform", _Platform)
    monkeypatch.setattr(tpu_aot.sys, "platform", "linux")


@dataclass
class FakeWorker:
    """Makes `hlo` of every program, and `bundles` of its one kernel; "" is no kernel, None no LLO."""

    hlo: str
    bundles: str | None
    toolchain: Toolchain = field(default_factory=lambda: Toolchain("jax==1", "python"))
    more: dict[str, str] = field(default_factory=dict)
    compiled: int = 0

    def start_libtpu(self, topology: str, flags: Any = ()) -> tuple[int, int]:
        return 0, 117

    def compile_for_tpu(
        self, payload: Any, kind: str, topology: str, options: Any, flags: Any, timeout: Any, dump: Path, watch: Any
    ) -> AheadOfTime:
        self.compiled += 1
        assert any("deduplication-map" in flag for flag in flags)
        if self.bundles is not None:
            (dump / "llo").mkdir()
            (dump / "llo" / "7-TLP-01-final_bundles.txt").write_text("")
        if self.bundles:
            (dump / "llo" / "7-n-00-post-delay-converter.txt").write_text(MEMORY)
            (dump / "llo" / "7-n-01-final_bundles.txt").write_text(self.bundles)
        for name, text in self.more.items():
            (dump / "llo" / f"8-{name}-00-post-delay-converter.txt").write_text(MEMORY)
            (dump / "llo" / f"8-{name}-01-final_bundles.txt").write_text(text)
        line = (ArrayType("f32", (128,)),)
        return AheadOfTime(self.hlo, line, line, 0.0)


def checked(hlo: str = MADE, bundles: str | None = BUNDLES) -> CaseResult:
    worker = FakeWorker(hlo, bundles)
    program, settings = from_hlo("p", PROGRAM, PROGRAM.encode(), "hlo-text"), settings_for(REQUEST, {})
    target = Simulated(worker, program, settings, "v5e")  # type: ignore[arg-type]
    try:
        result = judge(program, (X,), "given", target, settings)
    finally:
        target.close()
    assert result is not None
    return result


FLOOR = PROGRAM.replace("ROOT n = f32[128] negate(x)", "m = f32[128] exponential(x)\n  ROOT n = f32[128] floor(m)")
MADE_FLOOR = MADE.replace(
    "ROOT n = f32[128]{0:T(128)} negate(x)",
    "m = f32[128]{0:T(128)} exponential(x)\n  ROOT n = f32[128]{0:T(128)} floor(m)",
)
EXPONENTIAL = BUNDLES.replace(
    "   0x2   :  { %v3_v1 = vmul.f32 -1.0, %v2_v0 }\n   0x3 ",
    "   0x2   :  { %v5_v2 = vmul.f32 1.442695, %v2_v0 }\n   0x3   :  { %6 = vexp2.f32 %v5_v2 }\n"
    "   0x4   :  { %v3_v1 = vpop.erf %6 }\n   0x5 ",
)


@pytest.mark.parametrize("floor", ["vfloor.f32 %v2_v0", "vadd.f32 -0.9, %v2_v0"])
def test_right_kernels_decide_what_bounds_leave_open(floor: str) -> None:
    """exp(log 2) is just above 2, or below it: the program's bounds leave floor of it open, and each kernel does as it
    should. 1.1 is neither 1 nor 2: the kernel is wrong, whatever it should have been.
    """
    bundles = BUNDLES.replace("vmul.f32 -1.0, %v2_v0", floor)
    worker = FakeWorker(MADE_FLOOR, bundles, more={"m": EXPONENTIAL})
    program, settings = from_hlo("p", FLOOR, FLOOR.encode(), "hlo-text"), settings_for(REQUEST, {})
    target = Simulated(worker, program, settings, "v5e")  # type: ignore[arg-type]
    result = judge(program, (np.full(128, np.log(2), np.float32),), "given", target, settings)
    target.close()
    assert result is not None
    if "floor" in floor:
        assert (result.verdict, result.outputs[0].undecided) == (Verdict.AGREE, 0)
    else:
        assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
        assert result.why.startswith("the kernel n is wrong: 128 of 128 elements of its output 0, at [")


pytestmark = pytest.mark.usefixtures("_on_x86")


def test_right_kernels_agree() -> None:
    result = checked()
    assert result.verdict == Verdict.AGREE, result.why
    assert "through LLO: 1 kernel simulated, " in result.notes[0]


def test_a_wrong_kernel_is_a_miscompilation() -> None:
    """The optimized HLO is right, so nothing but the simulator sees it."""
    result = checked(bundles=BUNDLES.replace("-1.0", "-2.0"))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert result.outputs[0].outside == 128
    assert (
        "the first that is wrong is n: 128 of 128 elements of its output 0, at [127] -8.0 instead of -4.0"
        in (result.notes[0])
    )


def test_one_wrong_element_is_enough() -> None:
    """The last, -4, is kept above -3.99."""
    clamped = "   0x3   :  { %v3_v1 = vmax.f32 -3.99, %v3_v1 }\n   0x4   :  { %4"
    result = checked(bundles=BUNDLES.replace("   0x3   :  { %4", clamped))
    assert result.verdict == Verdict.MISMATCH
    assert (result.outputs[0].outside, result.outputs[0].peak) == (1, (127,))


def test_a_wrong_rewrite_shows_through_right_kernels() -> None:
    result = checked(MADE.replace("negate", "abs"), BUNDLES.replace("vmul.f32 -1.0", "vand.u32 2147483647"))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert result.notes[0].endswith("instructions")  # no kernel is at fault


def test_a_result_that_nobody_wrote_differs_from_run_to_run() -> None:
    result = checked(bundles=BUNDLES.replace("[%s1_s1] sm:$0x1", "[%s1_s1] sm:$0x0"))
    assert result.verdict == Verdict.NONDETERMINISTIC
    assert result.why == "the result depends on memory that nobody wrote"


@pytest.mark.parametrize(
    ("instead", "verdict", "why"),
    [
        ("%v2_v0 = vld [vmem:$0x0 sm:$0x1]", Verdict.NONDETERMINISTIC, "depends on memory that nobody wrote"),
        (
            "%v2_v0 = vlaneseq.b32  ;;  %9 = vst [vmem:$0x0 sm:$0x1] /*vst_source=*/%v2_v0",
            Verdict.CRASH,
            "kernel n, line 5: writes vmem 0x0, which",
        ),
        ("%2 = shalt.err (1)", Verdict.CRASH, "kernel n, line 5: the kernel's own bounds check failed"),
        ("%2 = dma.done [#allocation1], 4", Verdict.HANG, "waits for 4 granules"),
        ("%v2_v0 = vnosuchthing 1.0", Verdict.UNVERIFIED, "unsupported: vnosuchthing: in the kernel n"),
    ],
)
def test_what_stops_a_kernel_is_the_verdict(instead: str, verdict: Verdict, why: str) -> None:
    result = checked(bundles=BUNDLES.replace("%v2_v0 = vld [vmem:[%s0_s0] sm:$0x1]", instead))
    assert result.verdict == verdict
    assert why in result.why


def test_without_a_kernels_llo_nothing_is_judged() -> None:
    for bundles, why in (("", "the dump has no LLO of n"), (None, "this libtpu dumps none")):
        result = checked(bundles=bundles)
        assert result.verdict == Verdict.UNVERIFIED
        assert result.why == f"unsupported: LLO: {why}"


def test_a_program_is_compiled_once_for_all_inputs() -> None:
    worker = FakeWorker(MADE, BUNDLES)
    program, settings = from_hlo("p", PROGRAM, PROGRAM.encode(), "hlo-text"), settings_for(REQUEST, {})
    target = Simulated(worker, program, settings, "v5e")  # type: ignore[arg-type]
    for scale in (1, 2):
        result = judge(program, (X * scale,), "given", target, settings)
        assert result is not None
        assert result.verdict == Verdict.AGREE
    target.close()
    assert worker.compiled == 1


def test_only_a_tpu_has_llo(tmp_path: Path) -> None:
    (tmp_path / "p.hlo").write_text(PROGRAM)
    with pytest.raises(InputError, match="--through llo: cpu has no LLO; name a TPU's compiler"):
        check_path(str(tmp_path / "p.hlo"), Request(through="llo"))
    with pytest.raises(InputError, match="through 'lo': there is hlo, llo"):
        check_path(str(tmp_path / "p.hlo"), Request(target="tpu:v5e", through="lo"))


@pytest.mark.tpu
def test_a_function_agrees_in_the_simulator(tpu_toolchain: Toolchain, tmp_path: Path, monkeypatch: Any) -> None:
    """Elementwise, a reduction, a matrix product, a loop; on the real compiler."""
    monkeypatch.undo()
    (tmp_path / "f.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "def f(x, y):\n"
        "    c, s = jax.lax.scan(lambda c, a: (c * 0.5 + a, c), jnp.zeros(40, jnp.float32), x @ y)\n"
        "    return jax.nn.softmax(x, -1), c, s, x.astype(jnp.int8)\n"
        "def example_args(): return jax.ShapeDtypeStruct((16, 128), jnp.float32), "
        "jax.ShapeDtypeStruct((128, 40), jnp.float32)\n"
    )
    spec = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    report = check_path(f"{tmp_path}/f.py:f", Request(target="tpu:v5e", toolchain=spec, through="llo"))
    assert report.verdict == Verdict.AGREE, str(report)


@pytest.mark.tpu
@pytest.mark.parametrize("through", ["hlo", "llo"])
@pytest.mark.parametrize("dims", [(4, 2, 129), (2, 4, 200)])
def test_a_bitcast_may_hide_elements_in_padding(
    tpu_toolchain: Toolchain, tmp_path: Path, through: str, dims: tuple[int, ...]
) -> None:
    """libtpu makes one row of whole registers of such an array: half of its elements lie in that row's padding, on
    which its kernel computes as well.
    """
    shape = ",".join(map(str, dims))
    (tmp_path / "f.hlo").write_text(f"""HloModule m
ENTRY e {{
  x = f32[{shape}] parameter(0)
  s = f32[] parameter(1)
  b = f32[{shape}] broadcast(s), dimensions={{}}
  ROOT m = f32[{shape}] multiply(x, b)
}}""")
    request = Request(target="tpu:v5e", toolchain=str(tpu_toolchain.spec), through=through)
    (case, *_) = check_path(str(tmp_path / "f.hlo"), request).cases
    assert case.verdict is Verdict.AGREE
    if through == "llo":
        assert [(output.outside, output.undecided) for output in case.outputs] == [(0, 0)]


def test_subnormals_that_a_kernel_reads_as_zero_or_moves_are_no_fault() -> None:
    """negate, written as 0 - x, reads a subnormal as zero; as a flip of the sign it moves it. Both are right."""
    small = np.where(np.arange(128) % 2, X, np.float32(1e-40)).astype(np.float32)
    for made in ("vsub.f32 0.0, %v2_v0", "vxor.u32 2147483648, %v2_v0"):
        bundles = BUNDLES.replace("vmul.f32 -1.0, %v2_v0", made)
        worker = FakeWorker(MADE, bundles)
        program, settings = from_hlo("p", PROGRAM, PROGRAM.encode(), "hlo-text"), settings_for(REQUEST, {})
        target = Simulated(worker, program, settings, "v5e")  # type: ignore[arg-type]
        try:
            result = judge(program, (small,), "given", target, settings)
            assert result is not None
            assert result.verdict == Verdict.AGREE
            assert target.each is not None
            assert not target.each.wrong
        finally:
            target.close()


@pytest.mark.tpu
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_clamps_by_constants(tpu_toolchain: Toolchain, tmp_path: Path, generation: str) -> None:
    """A v6e has an instruction for those that bf16 holds."""
    bounds = [(1, 2.25), (-128, 127), (-0.5, 0.25), (0.3, 0.6), (1, 1.015625), (0, 6), (-3, 3), (0.100097656, 300)]
    lines, roots = [], []
    for k, (low, high) in enumerate(bounds):
        lines += [f"  a{k} = f32[] constant({low})", f"  b{k} = f32[] constant({high})"]
        lines.append(f"  r{k} = f32[8,128] clamp(a{k}, x, b{k})")
        roots.append(f"r{k}")
    kinds = ", ".join(["f32[8,128]"] * len(bounds))
    lines.append(f"  ROOT r = ({kinds}) tuple({', '.join(roots)})")
    whole = "\n".join(["HloModule m", "ENTRY e {", "  x = f32[8,128] parameter(0)", *lines, "}"])
    (tmp_path / "f.hlo").write_text(whole)
    near = np.concatenate([np.float32([low, high]) for low, high in bounds])
    values = [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9)), np.linspace(-4, 4, 128)]
    x = np.resize(np.concatenate(values).astype(np.float32), (8, 128))
    np.savez(tmp_path / "x.npz", x)
    request = Request(
        target=f"tpu:{generation}", toolchain=str(tpu_toolchain.spec), through="llo", inputs=tmp_path / "x.npz"
    )
    (case, *_) = check_path(str(tmp_path / "f.hlo"), request).cases
    assert case.verdict is Verdict.AGREE, case
