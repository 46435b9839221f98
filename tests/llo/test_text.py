"""The grammar of the dumps, on small kernels written for it."""

from __future__ import annotations

import struct

import pytest

from assay.errors import LloSyntaxError
from assay.llo.program import Address, Immediate, Instruction, Value
from assay.llo.spellings import normal
from assay.llo.text import parse, parse_allocations

REGIONS = """
// a comment
$region0: #{add}
  #allocation0 [shape = 'u8[8192]{0}', space=vmem, size = 0x2000, scoped, tag = 'operand span for operand 0']
  #allocation1 [shape = 's32[]', space=smem, size = 0x4, offset = 0xfff80, fixed_abs, tag = 'seed']
  #allocation2_spill [shape = 'u8[4]', space=sflag, size = 0x4, offset = 4, scoped, tag = 'x, y']
  %s0 = inlined_call_operand.<no memory space> [shape: f32[], index: 3, kind: input, shape index: {}] /* operand 3 */
  %s1 = inlined_call_operand.hbm [shape: f32[8,128], index: 1, kind: output, shape index: {1}, may-alias: {0,1}] /* x */
  loop: start=0, step=1, limit=4
  $region1 (predicated_skipper): #{add} parent=0 // loop_body
    _
  $region2: #{add} parent=0 // pred_fallthru
    %v2 = vld [vmem:[%s1 + $0x8] ss:$-1 sm:$0x3f] /* strided
 over two lines */
    %11 = xla_tuple %v2, 1.5
    %v3 = vld.sshfl [vmem:[#allocation0 - $0x8] sm:%s4 pattern:$0x76543210]
    %5 = vst.msk [vmem:[#allocation0] sm:$0xff] /*vm=*/%vm6, /*vst_source=*/-inf
    %s7 = smov.u32 (!%p8, %s9), 4294967295
    %10 = sbr.rel (!%p8) target = $region1
    %12 = vxpose.xlu1.c.b16.cont [2/8] (short) (narrow) /*vx=*/%v2, /*width=*/64
    %v13 = vpop.f32.mrf.mxu3
    %s14 = scalar_lea.vmem %s1, %s9 [#allocation0]
    %15 = dma.hbm_to_vmem [thread:$0]  (%p8), /*hbm=*/%s1, /*size_in_granules=*/16, /*vmem=*/%s14, /*dst_syncflagno=*/[#allocation2_spill] /* 
base_bounds: (1) */
    %16 = vmatpush.bf16.msra.mxu0 1.0|-2.0
"""  # noqa: W291, E501

BUNDLES = """= control target key start
LH: loop header
= control target key end

     0   :  { %s9_s0 = sshll.u32 %s8_s1, 4  ;;  %v1_v3 = vld [vmem:[%s8_s1 + %s2_s4] sm:$0xff] } /* Start region 0 :: Start/End empty region 4 */
   0x1 LB: > { %5 = vtanh.f32 %v1_v3  ;;  %6 = shalt.err (!%p1_p0) /* check of /*hbm=*/%s1
 */ }
   0x2   :  {} /* End region 0 */
   0x3   : > > { %7 = sbr.rel (%p1_p0) target = $region4 }
"""  # noqa: E501


def read(text: str = REGIONS) -> list[Instruction]:
    return [i for region in parse(text, "k.txt").regions for i in region.instructions]


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def test_regions_and_their_instructions() -> None:
    kernel = parse(REGIONS, "k.txt", "add")
    assert [(r.number, r.kind, len(r.instructions)) for r in kernel.regions] == [
        (0, "", 2), (1, "loop_body", 0), (2, "pred_fallthru", 10),
    ]  # fmt: skip
    assert not kernel.bundles
    assert kernel.instructions == 12


def test_allocations() -> None:
    found = parse(REGIONS, "k.txt").allocations
    assert [(a.name, a.space, a.size, a.offset, a.fixed) for a in found] == [
        ("0", "vmem", 0x2000, None, False),
        ("1", "smem", 4, 0xFFF80, True),
        ("2_spill", "sflag", 4, 4, False),
    ]
    assert found[0].shape == "u8[8192]{0}"
    assert found == parse_allocations(REGIONS, "k.txt")


def test_an_operand_of_the_kernel() -> None:
    value, result = read()[:2]
    assert (value.words, value.operands) == ("- input f32[]", (Immediate(3),))
    assert (result.words, result.operands) == ("hbm output f32[8,128]", (Immediate(1),))


def test_memory() -> None:
    load, shuffled, store = (i for i in read() if i.memory is not None)
    assert load.memory is not None
    assert shuffled.memory is not None
    assert store.memory is not None
    assert (load.memory.base, load.memory.offset, load.memory.stride) == (Value("s1", "S"), 8, -1)
    assert load.memory.sublanes == Immediate(0x3F)
    assert (shuffled.memory.base, shuffled.memory.offset) == (Address("0"), -8)
    assert (shuffled.memory.sublanes, shuffled.memory.pattern) == (Value("s4", "S"), 0x76543210)
    assert store.operands == (Value("vm6", "M"), Immediate(f32(float("-inf"))))
    assert (load.line, shuffled.line) == (13, 16)


def test_predicates_and_units() -> None:
    by_opcode = {i.opcode: i for i in read()}
    tied = by_opcode["smov.u32"]
    assert tied.predicate == Value("p8", "P", None, True)
    assert tied.otherwise == Value("s9", "S")
    assert tied.operands == (Immediate(0xFFFFFFFF),)
    assert by_opcode["sbr.rel"].target == 1
    assert (by_opcode["vpop.f32.mrf"].unit, by_opcode["vpop.f32.mrf"].dst) == ("mxu3", Value("v13", "V"))
    transpose = by_opcode["vxpose.c.b16.cont"]
    assert (transpose.unit, transpose.words, transpose.operands[1]) == ("xlu1", "[2/8] (short) (narrow)", Immediate(64))
    assert by_opcode["scalar_lea.vmem"].operands == (Value("s1", "S"), Value("s9", "S"))
    dma = by_opcode["dma.hbm_to_vmem"]
    assert dma.labels == ("hbm", "size_in_granules", "vmem", "dst_syncflagno")
    assert dma.operands[3] == Address("2_spill")
    assert dma.predicate == Value("p8", "P")
    assert by_opcode["vmatpush.bf16.msra"].operands == (Immediate(f32(1.0) >> 16 | f32(-2.0) >> 16 << 16),)


def test_bundles() -> None:
    kernel = parse(BUNDLES, "k.txt")
    assert [(b.number, len(b.instructions), b.starts) for b in kernel.bundles] == [
        (0, 2, (0, 4)), (1, 2, ()), (2, 0, ()), (3, 1, ()),
    ]  # fmt: skip
    shift, load = kernel.bundles[0].instructions
    assert shift.dst == Value("s9", "S", "s0")
    assert load.memory is not None
    assert load.memory.index == Value("s2", "S", "s4")
    assert kernel.bundles[3].instructions[0].target == 4


@pytest.mark.parametrize(
    ("old", "new", "unit"),
    [
        ("vunpack.c.h.bf16", "vunpack.c.u.bf16.f32", ""),
        ("vunpack.c.2.s8", "vunpack.c.2.s8.s32", ""),
        ("vunpack.c.2.s8.s32.s8", "vunpack.c.2.s8.s32", ""),
        ("vperm.xlu1", "vperm.lane", "xlu1"),
        ("vperm.lane.xlu1", "vperm.lane", "xlu1"),
        ("vxpose.binary.xlu0.c.b16.start", "vxpose.binary.c.b16.start", "xlu0"),
        ("vmatpush.lsf.msk.msk.msrb.mxu0", "vmatpush.lsf.msk.msrb", "mxu0"),
        ("vllmr.8.mxu2", "vllmr.8", "mxu2"),
        ("vpow.pop", "vexp2.f32.pop", ""),
        ("smov", "smov.u32", ""),
        ("vclamp-gez-f32", "vclamp.gez.f32", ""),
        ("vunpack.c.h.b16", "vunpack.c.u.s16.s32", ""),
        ("vunpack.c.l.s16.s32.s16", "vunpack.c.l.s16.s32", ""),
        ("vand.u32.u16", "vand.u32", ""),
        ("vmax.u32.u32", "vmax.u32", ""),
        ("vsel.s8", "vsel", ""),
        ("vshra.s32.s4", "vshra.s32", ""),
        ("vcvt.s32.f32", "vcvt.s32.f32", ""),
    ],
)
def test_one_spelling_for_all_releases(old: str, new: str, unit: str) -> None:
    assert normal(old) == (new, unit)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no region"),
        ("$region0: #{a}\n  %v1 = vadd.f32 %v2, hello", 2, "no operand"),
        ("$region0: #{a}\n  %1 = sbr.rel (%v1 + 2) target = $region0", 2, "no branch"),
        ("$region0: #{a}\n  what is this", 2, "not a line of LLO"),
        ("%v1 = vmov %v2", 1, "outside of any region"),
        ("$region0: #{a}\n  #allocation0 [shape = 'x', space=attic, size = 0x1]", 2, "not an allocation"),
        ("$region0: #{a}\n  %v1 = vld [vmem:[%s1] turbo:$1]", 2, "turbo"),
        ("= control target key start\n= control target key end\n  0  :  { %v1 = vmov", 3, "not a bundle"),
        ("= control target key start\n= control target key end\n 0x1  :  {}", 3, "bundle 0x1 where 0x0"),
        (" 0  :  {} /* entry bundle: %f = fusion() */\n 0x1  :  {}", 2, "is the file cut"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(LloSyntaxError, match=words) as caught:
        parse(text, "k.txt")
    assert (caught.value.line, caught.value.source) == (line, "k.txt")


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("1", 1.0),
        ("-128", -128.0),
        ("-0", -0.0),
        ("2.25", 2.25),
        ("1.01562", 1.015625),
        ("0.100098", 0.10009765625),
        ("0.00100708", 0.001007080078125),
        ("3.38953e+38", 3.3895313892515355e38),
    ],
)
def test_bounds_of_a_clamp_are_bf16_in_six_digits(printed: str, value: float) -> None:
    """As libtpu 0.0.52 prints clamps by these for a v6e."""
    body = f"""= control target key start
= control target key end

     0   :  {{ %v1_v0 = vclampa.f32 %v0_v0, {printed}, 300 }}
"""
    (clamp,) = parse(body, "k.txt").bundles[0].instructions
    assert clamp.operands[1:] == (Immediate(f32(value)), Immediate(f32(300.0)))
