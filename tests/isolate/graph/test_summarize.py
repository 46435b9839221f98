"""End to end: a right compiler does not diverge, a wrong one diverges first where it is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request, settings_for
from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.isolate.graph.diverge import Watched
from assay.isolate.graph.in_place import Built
from assay.isolate.graph.summarize import Options, concluded, summarize
from assay.isolate.graph.watch import OnTpu
from assay.llo.files import read_dump
from assay.oracle.verdict import Verdict
from assay.report.summary import Row, State, SummaryCase, first_of, to_json
from assay.toolchain import Toolchain

HERE = Path(__file__).parent
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
hooked = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")

LOOP = """HloModule m, is_scheduled=true
sines { x = f32[16]{0} parameter(0)
 ROOT s = f32[16]{0} sine(x) }
halves { x = f32[16]{0} parameter(0)
 h = f32[] constant(0.5)
 b = f32[16]{0} broadcast(h), dimensions={}
 ROOT s = f32[16]{0} multiply(x, b) }
doubles { x = f32[16]{0} parameter(0)
 ROOT s = f32[16]{0} add(x, x) }
more { i = s32[] parameter(0)
 one = s32[] constant(1)
 ROOT j = s32[] add(i, one) }
less { i = s32[] parameter(0)
 n = s32[] constant(5)
 ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[16]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[16]{0} get-tuple-element(s), index=1
 y = f32[16]{0} fusion(x), kind=kLoop, calls=halves
 z = f32[16]{0} fusion(y), kind=kLoop, calls=INSIDE
 j = s32[] fusion(i), kind=kLoop, calls=more
 ROOT t = (s32[], f32[16]{0}) tuple(j, z) }
condition { s = (s32[], f32[16]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 ROOT l = pred[] fusion(i), kind=kLoop, calls=less }
ENTRY e { p = f32[16]{0} parameter(0)
 zero = s32[] constant(0)
 c = s32[] copy(zero)
 d = f32[16]{0} copy(p)
 s = (s32[], f32[16]{0}) tuple(c, d)
 w = (s32[], f32[16]{0}) while(s), condition=condition, body=body
 x = f32[16]{0} get-tuple-element(w), index=1
 sine = f32[16]{0} fusion(x), kind=kLoop, calls=OUTSIDE
 ROOT r = f32[16]{0} exponential(sine) }
"""
PRELOAD = """
from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    if " sine(" not in text:
        return None
    return _hlo.hlo_module_from_text(text.replace(" sine(", " cosine(")).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
"""


@pytest.fixture
def run(tmp_path):
    """`summarize` of LOOP whose two fusions compute what is asked for, by a compiler that takes sines for cosines."""

    def summarized(inside, outside, preload=PRELOAD, options=None, **more):
        (tmp_path / "m.hlo").write_text(LOOP.replace("INSIDE", inside).replace("OUTSIDE", outside))
        (tmp_path / "preload.py").write_text(preload)
        request = Request(preload=tmp_path / "preload.py", **more)
        return summarize(str(tmp_path / "m.hlo"), request, options or Options())

    return summarized


@hooked
def test_a_right_compiler_does_not_diverge(run) -> None:
    report = run("doubles", "sines", "")
    assert (report.verdict, report.exit_code) == (Verdict.AGREE, 0)
    (case,) = report.cases
    names = {(row.name, row.trip) for row in case.rows}
    assert {("d", 0), ("w", 0), ("y", 0), ("y", 2), ("z", 1), ("l", 2), ("sine", 0), ("r", 0)} <= names
    assert ("y", 3) not in names
    assert {row.state for row in case.rows} == {State.AGREES}
    assert [row.name for row in case.rows if row.trip == 0].index("y") > [row.name for row in case.rows].index("d")
    assert [row.name for row in case.rows][-2:] == ["sine", "r"]


@hooked
def test_the_wrong_instruction_is_first_and_what_follows_inherits(run) -> None:
    report = run("doubles", "sines")
    assert (report.verdict, report.exit_code) == (Verdict.MISMATCH, 1)
    (case,) = report.cases
    assert [row.name for row in case.first] == ["sine"]
    assert case.first[0].state is State.WRONG
    assert case.first[0].outside == 16
    states = {row.name: row.state for row in case.rows}
    assert states["r"] is State.INHERITED
    assert {states[name] for name in ("c", "d", "w", "y", "z", "j", "l")} == {State.AGREES}


@hooked
def test_in_a_loop_the_first_trip_is_named(run) -> None:
    (case,) = run("sines", "doubles").cases
    (first,) = case.first
    assert (first.name, first.computation, first.trip, first.state) == ("z", "body", 0, State.WRONG)
    by_place = {(row.name, row.index, row.trip): row.state for row in case.rows}
    assert by_place["y", (), 0] is State.AGREES
    assert by_place["y", (), 1] is State.INHERITED
    assert by_place["w", (1,), 0] is State.DIFFERS
    assert by_place["w", (0,), 0] is State.AGREES


@hooked
def test_a_fault_that_cannot_be_looked_at_shows_in_what_follows(run) -> None:
    """The compiler is right as soon as the sine is an output: the row after it has wrong operands, and is named."""
    report = run("doubles", "sines", (HERE / "wrong_unwatched.py").read_text())
    (case,) = report.cases
    states = {row.name: row.state for row in case.rows}
    assert states["sine"] is State.UNSEEN
    assert report.exit_code == 1
    assert [row.name for row in case.first] == ["r"]
    assert case.first[0].state is State.DIFFERS


@hooked
def test_another_run_in_place_of_the_reference(run, tmp_path) -> None:
    right = tmp_path / "right.json"
    right.write_text(to_json(run("doubles", "sines", "")))
    same = run("doubles", "sines", "", Options(against=str(right)))
    assert (same.verdict, same.against) == (Verdict.AGREE, str(right))
    wrong = run("doubles", "sines", options=Options(against=str(right)))
    assert wrong.exit_code == 1
    assert [row.name for row in wrong.cases[0].first] == ["sine"]
    with pytest.raises(InputError, match="other inputs"):
        run("doubles", "sines", "", Options(against=str(right)), seed=1)
    for text in ("{}", "[1]", '{"cases": [{"name": "x"}]}', "nonsense"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match="not what"):
            run("doubles", "sines", "", Options(against=str(tmp_path / "bad.json")))
    with pytest.raises(InputError, match="No such file"):
        run("doubles", "sines", "", Options(against=str(tmp_path / "none.json")))


@hooked
def test_many_small_windows_say_what_one_says(run, monkeypatch) -> None:
    whole = run("doubles", "sines")
    monkeypatch.setattr("assay.isolate.graph.watch.WINDOW", 100)
    assert run("doubles", "sines").cases[0].rows == whole.cases[0].rows


@hooked
def test_the_json_has_every_tensor(run) -> None:
    report = run("doubles", "sines")
    found = json.loads(to_json(report))
    (case,) = found["cases"]
    assert found["verdict"] == "mismatch"
    assert case["first"][0]["instruction"] == "sine"
    assert len(case["tensors"]) == len(report.cases[0].rows)
    assert sum(case["counts"].values()) == len(case["tensors"])
    assert set(case["first"][0]["target"]) == {"min", "max", "mean", "std"}


@hooked
@pytest.mark.parametrize(
    "name",
    [
        "embedding_scatter_cpu",
        pytest.param("moe_routing_cpu", marks=pytest.mark.slow),
        pytest.param("recurrent_scan_cpu", marks=pytest.mark.slow),
    ],
)
def test_real_programs_do_not_diverge(name) -> None:
    report = summarize(str(HERE / "programs" / f"{name}.hlo"), Request(), Options())
    assert report.exit_code == 0
    assert {row.state for row in report.cases[0].rows} == {State.AGREES}


@hooked
def test_an_unknown_custom_call_is_no_divergence(tmp_path) -> None:
    (tmp_path / "m.hlo").write_text("""HloModule m, is_scheduled=true
ENTRY e { p = f32[4]{0} parameter(0)
 ROOT c = f32[4]{0} custom-call(p), custom_call_target="nobody_has_this" }""")
    report = summarize(str(tmp_path / "m.hlo"), Request(), Options())
    assert report.exit_code == 2


KERNEL = """= control target key start
= control target key end

     0   :  {{ %s0_s0 = inlined_call_operand.vmem [shape: f32[128], index: 0, kind: input, shape index: {{}}]  ;;  \
%s1_s1 = inlined_call_operand.vmem [shape: f32[128], index: 1, kind: output, shape index: {{}}] }}
   0x1   :  {{ %v2_v0 = vld [vmem:[%s0_s0] sm:$0x1] }}
   0x2   :  {{ %v3_v1 = vmul.f32 {factor}, %v2_v0 }}
   0x3   :  {{ %4 = vst [vmem:[%s1_s1] sm:{mask}] /*vst_source=*/%v3_v1 }}
"""
CHAIN = parse_module("""HloModule p, is_scheduled=true
ENTRY main {
  x = f32[128]{0:T(128)} parameter(0)
  a = f32[128]{0:T(128)} negate(x)
  b = f32[128]{0:T(128)} negate(a)
  ROOT c = f32[128]{0:T(128)} negate(b)
}""")


def simulated(folder: Path, *kernels: tuple[str, str]):
    """Rows of CHAIN whose kernels multiply by the given factors, and store what the given mask says."""
    for number, (name, (factor, mask)) in enumerate(zip("abc", kernels, strict=True)):
        text = KERNEL.format(factor=factor, mask=mask)
        (folder / f"{number + 7}-{name}-01-final_bundles.txt").write_text(text)
        (folder / f"{number + 7}-{name}-00-post-delay-converter.txt").write_text(f"$region0: #{{{name}}}\n  _\n")
    (folder / "7-TLP-01-final_bundles.txt").write_text("")
    target = OnTpu(Built(CHAIN, read_dump(folder), "", 0.0), "v5e")
    settings = settings_for(Request(target="tpu:v5e", through="llo"), {})
    x = np.linspace(-3, 4, 128, dtype=np.float32)
    watched = Watched(CHAIN, [x], settings, target.has, 3)
    watched.evaluate()
    target.run(watched)
    return watched.told()


RIGHT = "-1.0", "$0x1"


def test_right_kernels_do_not_diverge(tmp_path) -> None:
    rows = simulated(tmp_path, RIGHT, RIGHT, RIGHT)
    assert [(row.name, row.state, row.outside) for row in rows] == [(name, State.AGREES, 0) for name in "abc"]
    assert rows[0].target == (-4.0, 3.0, -0.5, pytest.approx(np.linspace(-3, 4, 128).std()))


def test_where_nothing_could_be_compared_it_is_said_why() -> None:
    """Of every state but those that are a verdict, with a reason of the row's own and without, and of no row."""
    plain = Row("e", "x", "sort", (), 0, "f32", (4,), 4)
    for rows, notes, words in (
        ((), (), "no tensor was seen: the graph only names its arguments"),
        ((), ("k did not run: LLO: it has no file",), "no tensor was seen: k did not run: LLO: it has no file"),
        ((plain, plain), (), "none of 2 tensors could be compared: 2 x the reference cannot say what is right"),
        (
            (plain, *[replace(plain, state=State.UNSEEN, why=why) for why in ("a", "a", "b", "c", "d")]),
            (),
            "none of 6 tensors could be compared: 2 x a; 1 x the reference cannot say what is right; 1 x b; "
            "2 further reasons",
        ),
    ):
        case = concluded(SummaryCase("p", Verdict.AGREE, rows=rows, notes=notes))
        assert (case.verdict, case.why) == (Verdict.UNVERIFIED, words)


def test_a_wrong_kernel_is_first(tmp_path) -> None:
    rows = simulated(tmp_path, RIGHT, ("-2.0", "$0x1"), RIGHT)
    assert [row.state for row in rows] == [State.AGREES, State.WRONG, State.INHERITED]
    assert [row.name for row in first_of(rows)] == ["b"]
    assert rows[1].outside == 128


def test_what_a_kernel_did_not_write_is_open(tmp_path) -> None:
    rows = simulated(tmp_path, RIGHT, ("-1.0", "$0x0"), RIGHT)
    assert [row.state for row in rows] == [State.AGREES, State.OPEN, State.OPEN]
    assert "nobody wrote" in rows[1].why


@pytest.mark.tpu
def test_a_function_compiled_for_the_tpu(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("""
import jax, jax.numpy as jnp, numpy as np
def f(x, w):
    def body(c, _):
        return jnp.tanh(c @ w), c.sum()
    h, s = jax.lax.scan(body, x, None, length=4)
    return jax.nn.softmax(h), s
def example_args():
    r = np.random.default_rng(0)
    return r.standard_normal((16, 128)).astype(np.float32), 0.1 * r.standard_normal((128, 128)).astype(np.float32)
""")
    spec = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    report = summarize(f"{tmp_path}/f.py:f", Request(target="tpu:v5e", toolchain=spec), Options(trips=2))
    assert report.exit_code == 0
    (case,) = report.cases
    assert case.count(State.AGREES) > 5
    assert {row.trip for row in case.rows} == {0, 1}


@hooked
def test_a_known_bug_below_hlo_is_named() -> None:
    """openxla/xla#49176: the update of a shift in place is read from the buffer that is being overwritten."""
    request = Request(case="shifted rows")
    report = summarize(str(HERE.parents[1] / "checking" / "known_bugs.py"), request, Options())
    (case,) = report.cases
    assert [(row.opcode, row.state) for row in case.first] == [("fusion", State.WRONG)]
    assert "dynamic-update-slice" in case.first[0].name
    assert {row.state for row in case.rows if row not in case.first} == {State.AGREES}
