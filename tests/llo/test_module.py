"""Whole modules: kernels in the simulator, everything else around them, values against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.module import Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES, ArrayShape, TupleShape
from assay.hlo.shape_text import parse_shape
from assay.llo.aliasing import shared_memory
from assay.llo.files import read_dump
from assay.llo.kernel import Pair, same
from assay.llo.machine import Trap
from assay.llo.module import ModuleRun, UnwrittenChoice, reinterpreted, run_module
from assay.reference.policies import for_target

POLICY = for_target("tpu:v5e")
ROW = "f32[128]{0:T(128)S(1)}"


def operand(index: int, shape: str, kind: str = "input") -> str:
    space = "<no memory space>" if shape.endswith("[]") else "vmem"
    return (
        f"  %s{index} = inlined_call_operand.{space} [shape: {shape}, index: {index}, kind: {kind}, "
        f"shape index: {{}}] /* operand {index} */\n"
    )


TWICE = (
    operand(0, "f32[128]")
    + operand(1, "f32[128]", "output")
    + "  %v2 = vld [vmem:[%s0] sm:$0x1]\n  %v3 = vmul.f32 %v2, 2.0\n"
    + "  %4 = vst [vmem:[%s1] sm:$0x1] /*vst_source=*/%v3\n"
)
PLUS = (
    operand(0, "f32[128]")
    + operand(1, "f32[]")
    + operand(2, "f32[128]", "output")
    + "  %v3 = vld [vmem:[%s0] sm:$0x1]\n  %v4 = vstv %s1\n  %v5 = vadd.f32 %v3, %v4\n"
    + "  %6 = vst [vmem:[%s2] sm:$0x1] /*vst_source=*/%v5\n"
)
ROW_OF = (  # row %s2 of operand 0 becomes operand 1; the others stay what they are
    operand(0, "f32[4,128]")
    + operand(1, "f32[1,128]")
    + operand(2, "s32[]")
    + operand(3, "f32[4,128]", "output")
    + "  %v4 = vld [vmem:[%s1] sm:$0x1]\n  %s5 = scalar_lea.vmem %s3, %s2\n"
    + "  %6 = vst [vmem:[%s5] sm:$0x1] /*vst_source=*/%v4\n"
)


def run(tmp_path: Path, text: str, kernels: dict[str, str], *arguments: np.ndarray, same_as: str = "") -> ModuleRun:
    for number, (name, body) in enumerate(kernels.items()):
        (tmp_path / f"{number}-{name}-00-original.txt").write_text(f"$region0: #{{{name}}}\n{body}")
    if same_as:
        (tmp_path / "0-TLP-00-deduplication-map.txt").write_text(same_as)
    return run_module(module(text), read_dump(tmp_path), arguments, "v5e", POLICY)


def module(text: str) -> Module:
    return parse_module("HloModule m, is_scheduled=true\n" + text)


LINE = np.arange(128, dtype=np.float32)


def test_kernels_run_in_the_order_of_the_schedule(tmp_path: Path) -> None:
    """A copy to the other memory, two kernels of one program, a scalar's sum by the calling program."""
    text = f"""
ENTRY e {{
  p = f32[128]{{0:T(128)}} parameter(0)
  q = f32[]{{:T(128)S(6)}} parameter(1)
  s = ({ROW}, f32[128]{{0:T(128)}}, u32[]{{:S(2)}}) copy-start(p)
  d = {ROW} copy-done(s)
  twice.1 = {ROW} negate(d)
  one = f32[]{{:T(128)S(6)}} constant(1)
  more = f32[]{{:T(128)S(6)}} add(q, one)
  plus = {ROW} add(twice.1, more)
  twice.2 = {ROW} negate(plus)
  ROOT t = ({ROW}, f32[]{{:T(128)S(6)}}) tuple(twice.2, more)
}}
"""
    group = "key:twice.1\nordinal:1\nequivalent_hlos[size=2]:\n  twice.1\n  twice.2\n"
    found = run(tmp_path, text, {"twice.1": TWICE, "plus": PLUS}, LINE, np.float32(4).reshape(()), same_as=group)
    assert (found.outputs[0].first == (LINE * 2 + 5) * 2).all()
    assert float(found.outputs[1].first) == 5
    assert [(k.name, k.kind, k.runs) for k in found.kernels] == [
        ("twice.1", "simulated", 1),
        ("plus", "simulated", 1),
        ("twice.2", "simulated", 1),
    ]
    assert found.untrusted == ()
    assert found.counts() == {"simulated": 3}


LOOP = f"""
body {{
  s = (s32[]{{:T(128)}}, {ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) parameter(0)
  i = s32[]{{:T(128)}} get-tuple-element(s), index=0
  x = {ROW} get-tuple-element(s), index=1
  all = f32[4,128]{{1,0:T(4,128)S(1)}} get-tuple-element(s), index=2
  row = f32[1,128]{{1,0:T(1,128)S(1)}} bitcast(x)
  put = f32[4,128]{{1,0:T(4,128)S(1)}} dynamic-update-slice(all, row, i, i), ALIAS
  twice = {ROW} negate(x)
  one = s32[]{{:T(128)}} constant(1)
  next = s32[]{{:T(128)}} add(i, one)
  ROOT t = (s32[]{{:T(128)}}, {ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) tuple(next, twice, put)
}}

condition {{
  s = (s32[]{{:T(128)}}, {ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) parameter(0)
  i = s32[]{{:T(128)}} get-tuple-element(s), index=0
  end = s32[]{{:T(128)}} constant(TRIPS)
  ROOT l = pred[]{{:T(512)}} compare(i, end), direction=LT
}}

ENTRY e {{
  p = {ROW} parameter(0)
  zero = s32[]{{:T(128)}} constant(0)
  memory = f32[4,128]{{1,0:T(4,128)S(1)}} custom-call(), custom_call_target="AllocateBuffer"
  t = (s32[]{{:T(128)}}, {ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) tuple(zero, p, memory)
  w = (s32[]{{:T(128)}}, {ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) while(t), condition=condition, body=body
  x = {ROW} get-tuple-element(w), index=1
  all = f32[4,128]{{1,0:T(4,128)S(1)}} get-tuple-element(w), index=2
  ROOT r = ({ROW}, f32[4,128]{{1,0:T(4,128)S(1)}}) tuple(x, all)
}}
"""
ALIAS = 'backend_config={"aliasing_operands":{"lists":[{"indices":["0","3"]}]}}'
# The dump's operands of `put` are the array, the row and one index; the HLO of this test has the index twice.
PUT = ROW_OF.replace("index: 3", "index: 4").replace(
    operand(2, "s32[]"), operand(2, "s32[]") + operand(3, "s32[]").replace("%s3", "%s7")
)


@pytest.mark.parametrize("trips", [4, 3])
def test_a_loop_that_fills_an_array_row_by_row(tmp_path: Path, trips: int) -> None:
    """In place, in memory that nobody wrote before: after 3 trips the last row is still nobody's."""
    text = LOOP.replace("TRIPS", str(trips)).replace("ALIAS", ALIAS.replace('"3"', '"4"'))
    found = run(tmp_path, text, {"put": PUT, "twice": TWICE}, LINE)
    assert (found.outputs[0].first == LINE * 2**trips).all()
    rows = LINE * 2.0 ** np.arange(trips)[:, None]
    assert (found.outputs[1].first[:trips] == rows).all()
    unwritten = found.outputs[1].unwritten
    if trips == 4:
        assert unwritten is None
    else:
        assert unwritten is not None
        assert unwritten.all(axis=1).tolist() == [False, False, False, True]
    assert {k.name: (k.kind, k.runs) for k in found.kernels} == {
        "put": ("simulated", trips),
        "twice": ("simulated", trips),
    }


def test_without_its_alias_an_update_in_place_leaves_the_rest_unwritten(tmp_path: Path) -> None:
    text = LOOP.replace("TRIPS", "4").replace(", ALIAS", "")
    found = run(tmp_path, text, {"put": PUT, "twice": TWICE}, LINE)
    unwritten = found.outputs[1].unwritten
    assert unwritten is not None
    assert unwritten.all(axis=1).tolist() == [True, True, True, False]


ONE = f"""
ENTRY e {{
  p = {ROW} parameter(0)
  twice = {ROW} negate(p)
  ROOT again = {ROW} negate(twice)
}}
"""


def test_what_a_kernel_does_not_write_is_told(tmp_path: Path) -> None:
    partial = TWICE.replace("%s1] sm:$0x1", "%s1] sm:$0x0")
    found = run(tmp_path, ONE, {"twice": partial, "again": TWICE}, LINE)
    assert [(k.name, k.kind) for k in found.kernels] == [("twice", "unwritten"), ("again", "simulated")]
    unwritten = found.outputs[0].unwritten
    assert unwritten is not None
    assert unwritten.all()


def test_the_reference_stands_in_for_a_kernel_that_cannot_run(tmp_path: Path) -> None:
    wild = "  %v9 = vlaneseq.b32\n  %10 = vst [vmem:$0x0 sm:$0xff] %v9\n"
    for kernels, kind, why in (
        ({"twice": TWICE.replace("vmul.f32", "vnosuchthing"), "again": TWICE}, "unsupported", "vnosuchthing"),
        ({"twice": TWICE + wild, "again": TWICE}, "trapped", "belongs to nothing"),
        ({"again": TWICE}, "missing", "no LLO of twice"),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        found = run(folder, ONE, kernels, LINE)
        assert (found.outputs[0].first == -LINE * 2).all()  # the reference negates, as the HLO says
        (bad,) = found.untrusted
        assert (bad.name, bad.kind) == ("twice", kind)
        assert why in bad.why
        assert (bad.stop is not None and bad.stop.trap is Trap.OUT_OF_BOUNDS) == (kind == "trapped")


def test_a_kernel_of_which_nothing_is_known_ends_the_run(tmp_path: Path) -> None:
    text = ONE.replace("twice = ", "own = ").replace("negate(p)", 'custom-call(p), custom_call_target="mine"')
    text = text.replace("negate(twice)", "negate(own)")
    found = run(tmp_path, text, {"own": TWICE.replace("vmul.f32", "vnosuchthing"), "again": TWICE}, LINE)
    assert found.outputs == ()
    assert [(k.name, k.kind, k.why) for k in found.kernels] == [("own", "unsupported", "vnosuchthing")]


def test_a_branch_on_memory_that_nobody_wrote_is_an_error_of_its_own(tmp_path: Path) -> None:
    text = f"""
yes {{
  ROOT p = {ROW} parameter(0)
}}

no {{
  q = {ROW} parameter(0)
  ROOT twice = {ROW} negate(q)
}}

ENTRY e {{
  p = {ROW} parameter(0)
  b = pred[]{{:T(512)}} custom-call(), custom_call_target="AllocateBuffer"
  ROOT c = {ROW} conditional(b, p, p), true_computation=yes, false_computation=no
}}
"""
    with pytest.raises(UnwrittenChoice, match=r"c \(conditional\) goes by memory that nobody wrote"):
        run(tmp_path, text, {"twice": TWICE}, LINE)
    decided = text.replace('custom-call(), custom_call_target="AllocateBuffer"', "constant(false)")
    assert (run(tmp_path, decided, {"twice": TWICE}, LINE).outputs[0].first == LINE * 2).all()


def test_an_asynchronous_slice_is_a_copy(tmp_path: Path) -> None:
    text = f"""
cut {{
  q = f32[256]{{0:T(256)}} parameter(0)
  ROOT s = {ROW} slice(q), slice={{[128:256]}}
}}

ENTRY e {{
  p = f32[256]{{0:T(256)}} parameter(0)
  start = ((f32[256]{{0:T(256)}}), {ROW}, u32[]{{:S(2)}}) async-start(p), calls=cut
  done = {ROW} async-done(start), calls=cut
  ROOT twice = {ROW} negate(done)
}}
"""
    both = np.arange(256, dtype=np.float32)
    found = run(tmp_path, text, {"twice": TWICE}, both)
    assert (found.outputs[0].first == both[128:] * 2).all()
    assert found.untrusted == ()


def test_what_an_update_begins_on_the_sparse_core_is_the_references(tmp_path: Path) -> None:
    """libtpu dumps no LLO of it: it is named, and what comes after it is simulated."""
    text = f"""
offloaded {{
  q = {ROW} parameter(0)
  ROOT r = {ROW} add(q, q)
}}, execution_thread="sparsecore"

embedded {{
  ROOT c = () custom-call(), custom_call_target="TODO(b/522284627)", called_computations={{offloaded}}
}}

ENTRY e {{
  p = {ROW} parameter(0)
  start = ((), (), u32[]) async-start(), async_execution_thread="sparsecore", calls=embedded
  update = (({ROW}), {ROW}, u32[]) async-update(start, p), calls=embedded
  done = {ROW} async-done(update), calls=embedded
  ROOT twice = {ROW} negate(done)
}}
"""
    found = run(tmp_path, text, {"twice": TWICE}, LINE)
    assert (found.outputs[0].first == LINE * 4).all()
    (kernel,) = found.untrusted
    assert (kernel.name, kernel.kind) == ("r", "missing")
    assert kernel.why.startswith("r runs on a SparseCore, which is not modelled; --option xla_tpu_")


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m takes f32\[128\], not float32\[3\]"):
        run(tmp_path, ONE, {"twice": TWICE}, np.zeros(3, np.float32))


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def test_memory_read_by_another_layout() -> None:
    """Of 3 rows in a tile of 8 the other 5 are padding, which a bitcast may bring in."""
    a = np.arange(3 * 128, dtype=np.float32).reshape(3, 128)
    wider = reinterpreted(same(a), shape_of("f32[3,128]{1,0:T(8,128)}"), shape_of("f32[8,128]{1,0:T(8,128)}"))
    assert (wider.first[:3] == a).all()
    unwritten = wider.unwritten
    assert unwritten is not None
    assert unwritten.all(axis=1).tolist() == [False] * 3 + [True] * 5
    turned = reinterpreted(same(a), shape_of("f32[3,128]{1,0:T(8,128)}"), shape_of("f32[128,3]{0,1:T(8,128)}"))
    assert (turned.first == a.T).all()
    assert turned.unwritten is None
    half = reinterpreted(same(a), shape_of("f32[3,128]{1,0:T(8,128)}"), shape_of("s32[3,128]{1,0:T(8,128)}"))
    assert half.first.tobytes() == a.tobytes()
    pair = Pair(a, a.copy())
    assert reinterpreted(pair, shape_of("f32[3,128]{1,0:T(8,128)}"), shape_of("f32[3,128]{1,0:T(8,128)S(1)}")) is pair


F32 = ArrayShape(DTYPES["f32"], (2,))


def test_memory_that_operands_and_results_share() -> None:
    pair, nested = TupleShape((F32, F32)), TupleShape((F32, TupleShape((F32, F32))))
    groups = '{"aliasing_operands":{"lists":[{"indices":["0","3"]},{"indices":["2","4"]}]}}'
    assert shared_memory(Instruction("f", "fusion", pair, attributes={"backend_config": groups}), 3) == {0: 0, 1: 2}
    assert shared_memory(Instruction("f", "fusion", pair, attributes={"backend_config": '"text"'}), 3) == {}
    xla = {"output_to_operand_aliasing": "{{0}: (1, {}), {1, 0}: (0, {1}), {1, 1}: (2, {})}"}
    call = Instruction("c", "custom-call", nested, attributes=xla)
    assert shared_memory(call, 4, (pair, F32, F32)) == {0: 2, 1: 1, 2: 3}
    alone = Instruction("c", "custom-call", F32, attributes={"output_to_operand_aliasing": "{{}: (0, {})}"})
    assert shared_memory(alone, 1, (F32,)) == {0: 0}


@pytest.mark.parametrize("dims", [(4, 2, 129), (2, 4, 200), (8, 1, 300)])
def test_elements_that_a_bitcast_hides_in_padding_come_back(dims: tuple[int, int, int]) -> None:
    """As around fusions of which libtpu makes one row of whole registers: f32[4,2,129] there and back."""
    rows = dims[0] * dims[1]
    there = shape_of(f"f32[{','.join(map(str, dims))}]{{2,1,0:T({dims[1]},128)}}")
    whole = shape_of(f"f32[1,{rows},{dims[2]}]{{2,1,0:T(8,128)}}")
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    changed = reinterpreted(same(x), there, whole)
    assert not np.array_equal(changed.first.reshape(dims), x), "some lie in padding"
    back = reinterpreted(changed, whole, there)
    assert back.unwritten is None
    np.testing.assert_array_equal(back.first, x)
