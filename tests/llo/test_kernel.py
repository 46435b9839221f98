"""Kernels run on arrays: small ones in the grammar of the dumps, whose results are worked out by NumPy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.errors import InputError, Unsupported
from assay.hlo.shape import ArrayShape
from assay.hlo.shape_text import parse_shape
from assay.llo import interpret, native
from assay.llo.code import Code
from assay.llo.files import read_dump
from assay.llo.kernel import Engine, Pair, Result, code_of, run, same
from assay.llo.lowering import lower
from assay.llo.machine import Trap
from assay.llo.text import parse

ENGINES = [interpret.run, native.run]


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def operand(index: int, shape: str, space: str = "vmem", kind: str = "input") -> str:
    plain = shape.partition("{")[0]
    return (
        f"  %s{index} = inlined_call_operand.{space} [shape: {plain}, index: {index}, kind: {kind}, "
        f"shape index: {{}}] /* operand {index} */\n"
    )


def kernel(body: str) -> Code:
    return lower(parse(f"$region0: #{{k}}\n{body}", "k.txt", "k"))


@pytest.fixture(params=ENGINES, ids=["numpy", "c"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


TURNED = "f32[3,5]{0,1:T(8,128)S(1)}"


def test_operands_lie_in_memory_by_their_layouts(engine: Engine) -> None:
    """Of the turned array 5 rows of 3 lanes: row 4 of memory is its column 4."""
    code = kernel(
        operand(0, TURNED)
        + operand(1, "f32[3]")
        + operand(2, "f32[3]", kind="output")
        + "  %v3 = vld [vmem:[%s0 + $0x4] sm:$0x1]\n"
        + "  %v4 = vld [vmem:[%s1] sm:$0x1]\n"
        + "  %v5 = vadd.f32 %v3, %v4\n"
        + "  %6 = vst [vmem:[%s2] sm:$0x1] /*vst_source=*/%v5\n"
    )
    line = shape_of("f32[3]{0:T(128)S(1)}")
    a, b = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([100, 200, 300], np.float32)
    result = run(code, "v5e", [(shape_of(TURNED), same(a)), (line, same(b))], [line], engine=engine)
    assert result.stop is None
    (found,) = result.outputs
    assert found.first.tolist() == (a[:, 4] + b).tolist()
    assert found.unwritten is None
    assert found.first is found.second


def test_rows_of_16_bits_and_scalars_in_no_memory(engine: Engine) -> None:
    """A bf16 is what the low half of its scalar's word says; an integer is passed whole."""
    rows = "bf16[4,128]{1,0:T(8,128)(2,1)S(1)}"
    code = kernel(
        operand(0, "s32[]", "<no memory space>")
        + operand(1, "bf16[]", "<no memory space>")
        + operand(2, "s32[1,128]", kind="output")
        + operand(3, rows, kind="output")
        + "  %v4 = vstv %s0\n"
        + "  %5 = vst [vmem:[%s2] sm:$0x1] /*vst_source=*/%v4\n"
        + "  %s6 = sshll.u32 %s1, 16\n"
        + "  %s7 = sor.u32 %s6, %s1\n"
        + "  %v8 = vstv %s7\n"
        + "  %9 = vst [vmem:[%s3] sm:$0x3] /*vst_source=*/%v8\n"
    )
    scalar, half = shape_of("s32[]{:T(128)S(6)}"), shape_of("bf16[]{:T(256)S(6)}")
    inputs = [(scalar, same(np.int32(-7).reshape(()))), (half, same(np.asarray(ml_dtypes.bfloat16(-1.5))))]
    outputs = [shape_of("s32[1,128]{1,0:T(1,128)S(1)}"), shape_of(rows)]
    result = run(code, "v5e", inputs, outputs, engine=engine)
    assert (result.outputs[0].first == -7).all()
    assert (result.outputs[1].first == ml_dtypes.bfloat16(-1.5)).all()
    assert result.outputs[1].unwritten is None


FROM_HBM = (
    "  #allocation0 [shape = 'u8[4096]{0}', space=vmem, size = 0x1000, scoped, tag = 'window']\n"
    "  #allocation1 [shape = 's32[1]{0}', space=sflag, size = 0x4, scoped, tag = 'flag']\n"
)


@pytest.mark.parametrize(("generation", "shift"), [("v5e", "  %s2{0} = sshll.u32 %s{0}, 4\n"), ("v6e", "")])
def test_arrays_in_hbm_come_and_go_by_dma(generation: str, shift: str, engine: Engine) -> None:
    """v5e counts hbm in 512 bytes and a DMA in 32; v6e hands granules over."""
    a, b = ("20", "21") if shift else ("0", "1")
    code = kernel(
        FROM_HBM
        + operand(0, "f32[8,128]", "hbm")
        + operand(1, "f32[8,128]", "hbm", "output")
        + (shift.format(0) + shift.format(1) if shift else "")
        + "  %s30 = sshll.u32 [#allocation0], 4\n"
        + f"  %3 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s{a}, /*size_in_granules=*/128, /*vmem=*/%s30, "
        + "/*dst_syncflagno=*/[#allocation1]\n"
        + "  %4 = dma.done [#allocation1], 128\n"
        + "  %v5 = vld [vmem:[#allocation0] sm:$0xff]\n"
        + "  %v6 = vmul.f32 %v5, 2.0\n"
        + "  %7 = vst [vmem:[#allocation0] sm:$0xff] /*vst_source=*/%v6\n"
        + f"  %8 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s30, /*size_in_granules=*/128, /*hbm=*/%s{b}, "
        + "/*dst_syncflagno=*/[#allocation1]\n"
        + "  %9 = dma.done [#allocation1], 128\n"
    )
    shape = shape_of("f32[8,128]{1,0:T(8,128)}")
    a_value = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    result = run(code, generation, [(shape, same(a_value))], [shape], engine=engine)
    assert result.stop is None, result.words
    assert (result.outputs[0].first == a_value * 2).all()


def test_what_nobody_wrote_is_told_from_what_was(engine: Engine) -> None:
    """Rows 0 and 1 are stored; row 2 is left; row 3 is the sum of a known row and of memory that nobody wrote."""
    code = kernel(
        "  #allocation0 [shape = 'u8[4096]{0}', space=vmem, size = 0x1000, scoped, tag = 'scratch']\n"
        + operand(0, "f32[4,128]", kind="output")
        + "  %1 = vst [vmem:[%s0] sm:$0x3] /*vst_source=*/4.0\n"
        + "  %v2 = vld [vmem:[#allocation0] sm:$0xff]\n"
        + "  %v3 = vadd.f32 %v2, 1.0\n"
        + "  %4 = vst [vmem:[%s0 + $0x3] sm:$0x1] /*vst_source=*/%v3\n"
    )
    result = run(code, "v5e", [], [shape_of("f32[4,128]{1,0:T(4,128)S(1)}")], engine=engine)
    unwritten = result.outputs[0].unwritten
    assert unwritten is not None
    assert unwritten.all(axis=1).tolist() == [False, False, True, True]
    assert (result.outputs[0].first[:2] == 4).all()


def test_a_pred_that_nobody_wrote_is_either(engine: Engine) -> None:
    """Every pattern of memory reads as true."""
    code = kernel(operand(0, "pred[512]", kind="output") + "  %1 = vst [vmem:[%s0] sm:$0x0] /*vst_source=*/0\n")
    result = run(code, "v5e", [], [shape_of("pred[512]{0:T(512)(128)(4,1)S(1)}")], engine=engine)
    unwritten = result.outputs[0].unwritten
    assert unwritten is not None
    assert unwritten.all()


def test_what_depends_on_an_unwritten_operand_is_unwritten(engine: Engine) -> None:
    code = kernel(
        operand(0, "f32[128]")
        + operand(1, "f32[128]", kind="output")
        + "  %v2 = vld [vmem:[%s0] sm:$0x1]\n  %v3 = vmul.f32 %v2, 3.0\n"
        + "  %4 = vst [vmem:[%s1] sm:$0x1] /*vst_source=*/%v3\n"
    )
    line = shape_of("f32[128]{0:T(128)S(1)}")
    first = np.ones(128, np.float32)
    second = first.copy()
    second[17] = 9
    result = run(code, "v5e", [(line, Pair(first, second))], [line], engine=engine)
    unwritten = result.outputs[0].unwritten
    assert unwritten is not None
    assert np.flatnonzero(unwritten).tolist() == [17]


ONE_ROW = (
    operand(0, "f32[4,128]")
    + operand(1, "f32[4,128]", kind="output")
    + "  %2 = vst [vmem:[%s1 + $0x1] sm:$0x1] /*vst_source=*/7.0\n"
)


def test_an_output_may_lie_in_the_memory_of_an_input(engine: Engine) -> None:
    shape = shape_of("f32[4,128]{1,0:T(4,128)S(1)}")
    a = np.arange(512, dtype=np.float32).reshape(4, 128)
    expected = a.copy()
    expected[1] = 7
    inside = run(kernel(ONE_ROW), "v5e", [(shape, same(a))], [shape], {0: 0}, engine=engine)
    assert (inside.outputs[0].first == expected).all()
    assert inside.outputs[0].unwritten is None
    apart = run(kernel(ONE_ROW), "v5e", [(shape, same(a))], [shape], engine=engine)
    assert apart.outputs[0].unwritten is not None
    assert apart.outputs[0].unwritten.sum() == 3 * 128


def test_an_output_shares_no_memory_with_what_is_handed_over_as_a_value(engine: Engine) -> None:
    """libtpu says of a scatter into f32[1] that the output may alias the input, which it hands over in a register."""
    one = shape_of("f32[1]{0:T(128)}")
    body = "  %v2 = vstv %s0\n  %3 = vst [vmem:[%s1] sm:$0x1] %v2\n"
    operands = operand(0, "f32[1]", "<no memory space>") + operand(1, "f32[1]", kind="output")
    code = kernel(operands + body)
    x = np.array([-0.9678], np.float32)
    result = run(code, "v5e", [(one, same(x))], [one], {0: 0}, engine=engine)
    assert result.stop is None
    np.testing.assert_array_equal(result.outputs[0].first, x)


def test_an_operand_that_nobody_reads_may_share_its_register(engine: Engine) -> None:
    """In bundles registers are physical, and operands are in theirs before the first: what is written there stays."""
    line = shape_of("f32[128]{0:T(128)S(1)}")
    first = (
        "%s9_s0 = smov.u32 7  ;;  "
        "%s0_s0 = inlined_call_operand.vmem [shape: f32[128], index: 0, kind: input, shape index: {}]  ;;  "
        "%s1_s1 = inlined_call_operand.vmem [shape: f32[128], index: 1, kind: output, shape index: {}]"
    )
    text = (
        "= control target key start\n= control target key end\n\n"
        f"     0   :  {{ {first} }}\n"
        "   0x1   :  { %v2_v0 = vstv %s9_s0 }\n"
        "   0x2   :  { %3 = vst [vmem:[%s1_s1] sm:$0x1] /*vst_source=*/%v2_v0 }\n"
    )
    code = lower(parse(text, "k.txt", "k"))
    result = run(code, "v5e", [(line, same(np.ones(128, np.float32)))], [line], engine=engine)
    assert result.stop is None
    np.testing.assert_array_equal(result.outputs[0].first.view(np.uint32), np.full(128, 7))


@pytest.mark.parametrize("stops", [False, True])
def test_the_last_vector_of_an_array_is_all_its_own(stops: bool, engine: Engine) -> None:
    """A row of f32[128], stored as a vector of eight; from its second row on that reaches into nobody's memory."""
    line = shape_of("f32[128]{0:T(128)S(1)}")
    first = " + $0x1" if stops else ""
    body = f"  %v2 = vld [vmem:[%s0] sm:$0xff]\n  %3 = vst [vmem:[%s1{first}] sm:$0xff] %v2\n"
    code = kernel(operand(0, "f32[128]") + operand(1, "f32[128]", kind="output") + body)
    x = np.arange(128, dtype=np.float32)
    result = run(code, "v5e", [(line, same(x))], [line], engine=engine)
    assert (result.stop is not None) == stops
    if not stops:
        assert result.outputs[0].unwritten is None
        np.testing.assert_array_equal(result.outputs[0].first, x)


def stopped(body: str, engine: Engine, limit: int = 1000) -> Result:
    result = run(kernel(body), "v5e", [], [], engine=engine, limit=limit)
    assert result.stop is not None
    assert result.outputs == ()
    return result


def test_a_trap_is_a_result_with_the_line_of_the_dump(engine: Engine) -> None:
    result = stopped("  %v0 = vlaneseq.b32\n  %1 = vst [vmem:$0x0 sm:$0xff] %v0\n", engine)
    assert result.stop is not None
    assert (result.stop.trap, result.stop.line) == (Trap.OUT_OF_BOUNDS, 3)
    assert result.words == "line 3: writes vmem 0x0, which belongs to nothing"
    assert not result.unsteady


def test_a_kernel_that_does_not_end_is_stopped(engine: Engine) -> None:
    body = "  $region1: #{k} parent=0\n    %s0 = smov.u32 1\n    %1 = sbr.rel target = $region1\n"
    result = stopped(body, engine, 50)
    assert result.stop is not None
    assert result.stop.trap is Trap.STEP_LIMIT
    assert "still running after 50" in result.words


def test_a_trap_that_depends_on_unwritten_memory_says_so(engine: Engine) -> None:
    body = (
        "  #allocation0 [shape = 'u32[8]', space=smem, size = 0x20, tag = 'x']\n"
        "  %s0 = sld [smem:[#allocation0]]\n"
        "  %p1 = scmp.lt.s32.totalorder %s0, 1879048192\n"
        "  %2 = shalt.err (!%p1)\n"
    )
    result = stopped(body, engine)
    assert result.stop is not None
    assert result.stop.trap is Trap.BOUNDS_CHECK
    assert result.unsteady
    assert "depends on memory that nobody wrote" in result.words


def test_operands_that_do_not_fit_are_refused() -> None:
    code = kernel(ONE_ROW)
    good, bad = shape_of("f32[4,128]{1,0:T(4,128)S(1)}"), shape_of("f32[4,64]{1,0:T(4,128)S(1)}")
    zeros = np.zeros((4, 64), np.float32)
    with pytest.raises(InputError, match=r"k\.txt: k has 1 inputs and 1 outputs, given are 0 and 1"):
        run(code, "v5e", [], [good])
    with pytest.raises(InputError, match=r"operand 0 of k is f32\[4,128\], not f32\[4,64\]"):
        run(code, "v5e", [(bad, same(zeros))], [good])


def test_the_code_of_a_dumped_kernel(tmp_path: Path) -> None:
    """Bundles have their memory from the stage before them."""
    declared = "  #allocation0 [shape = 'u8[512]{0}', space=vmem, size = 0x200, offset = 0, scoped, tag = 'x']\n"
    (tmp_path / "1-k-00-original.txt").write_text("$region0: #{k}\n  %v0 = vnosuchthing 1.0\n  %1 = vnop\n")
    (tmp_path / "1-k-01-post-delay-converter.txt").write_text(
        f"$region0: #{{k}}\n{declared}  %1 = vnop\n  $region1: #{{k}} parent=0\n    _\n"
    )
    (tmp_path / "1-k-02-final_bundles.txt").write_text(
        "= control target key start\n= control target key end\n\n"
        "     0   :  { %1 = vst [vmem:[#allocation0] sm:$0x1] /*vst_source=*/2.0 }\n"
    )
    files = read_dump(tmp_path).kernels["k"]
    code = code_of(files, "final")
    assert [(a.name, a.size) for a in code.allocations] == [("0", 512)]
    result = run(code, "v5e", [], [])
    assert result.stop is None
    with pytest.raises(Unsupported, match="vnosuchthing"):
        code_of(files)
