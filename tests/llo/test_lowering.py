"""Control flow and the order within a bundle, on small kernels whose result is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import Unsupported
from assay.llo.interpret import run
from assay.llo.lowering import lower, unknown_opcodes
from assay.llo.machine import Machine, Trap
from assay.llo.text import parse

HEAD = "= control target key start\n= control target key end\n\n"


def smem(text: str, words: int = 8) -> list[int]:
    """The first words of allocation 0, in smem, after a run."""
    allocations = parse("$region0: #{k}\n  #allocation0 [shape = 'u32[8]', space=smem, size = 0x20, tag = 'x']", "k")
    kernel = parse(text, "k.txt", "k")
    code = lower(kernel, allocations.allocations)
    machine = Machine(code, "v5e")
    outcome = run(code, machine, 10_000)
    assert outcome.stop is None, outcome.stop
    base = machine.bases["0"]
    return machine.smem[base : base + words].astype(np.int64).tolist()


def region(body: str) -> str:
    return f"$region0: #{{k}}\n{body}"


def test_a_loop_takes_its_phis_from_before_and_then_from_the_jump_back() -> None:
    """Fibonacci: both phis change at once."""
    text = region("""
  $region1: #{k} parent=0 // loop_pre_header
    _
  $region2: #{k} parent=0 // loop_header
    %s1 = sphi 0, %s5
    %s2 = sphi 0, %s3
    %s3 = sphi 1, %s6
  $region3: #{k} parent=0 // loop_header_branch
    %p4 = scmp.ge.s32.totalorder %s1, 10
    %4 = sbr.rel (%p4) target = $region6
  $region4: #{k} parent=0 // loop_body
    %s5 = sadd.s32 %s1, 1
    %s6 = sadd.s32 %s2, %s3
  $region5: #{k} parent=0 // loop_footer
    %7 = sbr.rel target = $region2
  $region6: #{k} parent=0 // loop_exit
    %8 = sst [smem:[#allocation0]] %s2
""")
    assert smem(text)[0] == 55


def test_a_loop_that_is_entered_by_the_jump_out_of_another() -> None:
    """The first counts to 3 and the second from there to 5; what stands between them is empty."""
    text = region("""
  $region1: #{k} parent=0 // loop_header
    %s1 = sphi 0, %s3
  $region2: #{k} parent=0 // loop_header_branch
    %p2 = scmp.ge.s32.totalorder %s1, 3
    %2 = sbr.rel (%p2) target = $region4
  $region3: #{k} parent=0 // loop_body
    %s3 = sadd.s32 %s1, 1
    %4 = sbr.rel target = $region1
  $region4: #{k} parent=0 // loop_exit
    _
  $region5: #{k} parent=0 // loop_pre_header
    _
  $region6: #{k} parent=0 // loop_header
    %s5 = sphi %s1, %s7
    %s6 = sphi 100, %s8
    %p7 = scmp.ge.s32.totalorder %s5, 5
    %9 = sbr.rel (%p7) target = $region8
  $region7: #{k} parent=0 // loop_body
    %s7 = sadd.s32 %s5, 1
    %s8 = sadd.s32 %s6, 1
    %10 = sbr.rel target = $region6
  $region8: #{k} parent=0 // loop_exit
    %11 = sst [smem:[#allocation0]] %s6
""")
    assert smem(text)[0] == 102


@pytest.mark.parametrize(("start", "result"), [(1, 7), (0, 100)])
def test_a_join_takes_the_first_where_the_region_was_skipped(start: int, result: int) -> None:
    """The region runs where the value is 0."""
    text = region(f"""
  $region1: #{{k}} parent=0 // pred_check
    %s1 = smov.u32 {start}
    %p2 = scmp.ne.s32.totalorder %s1, 0
  $region2: #{{k}} parent=0 // pred_check_branch
    %3 = sbr.rel (%p2) target = $region4
  $region3: #{{k}} parent=0 // pred_region
    %s4 = sadd.s32 %s1, 100
  $region4: #{{k}} parent=0 // pred_fallthru
    %s5 = sphi 7, %s4
    %6 = sst [smem:[#allocation0]] %s5
""")
    assert smem(text)[0] == result


def test_empty_regions_pass_the_edge_on() -> None:
    text = region("""
    %p2 = scmp.eq.s32.totalorder 1, 1
    %3 = sbr.rel (%p2) target = $region2
  $region1: #{k} parent=0 // pred_region
    %s4 = smov.u32 1
  $region2: #{k} parent=0 // pred_fallthru
    _
  $region3: #{k} parent=0
    %s5 = sphi 7, %s4
    %6 = sst [smem:[#allocation0]] %s5
""")
    assert smem(text)[0] == 7


def test_branches_that_are_always_or_never_taken() -> None:
    text = region("""
    %1 = sbr.rel (0) target = $region2
    %8 = sbr.rel (!1) target = $region2
    %2 = sst [smem:[#allocation0]] 5
    %3 = sbr.rel (!0) target = $region2
  $region1: #{k} parent=0
    %4 = sst [smem:[#allocation0 + $0x1]] 6
  $region2: #{k} parent=0
    %5 = sst [smem:[#allocation0 + $0x2]] 7
""")
    words = smem(text)
    assert (words[0], words[2]) == (5, 7)
    assert words[1] not in (5, 6, 7)


def test_a_tied_value_stands_where_the_predicate_fails() -> None:
    text = region("""
    %p1 = scmp.eq.s32.totalorder 1, 2
    %s2 = smov.u32 5
    %s3 = smov.u32 (%p1, %s2), 6
    %s4 = smov.u32 (!%p1, %s2), 7
    %5 = sst [smem:[#allocation0]] %s3
    %6 = sst [smem:[#allocation0 + $0x1]] %s4
""")
    assert smem(text)[:2] == [5, 7]


def test_all_reads_of_a_bundle_come_before_its_writes() -> None:
    """A swap of two registers, and a chain that is written against its order."""
    text = (
        HEAD
        + """     0   :  { %s1_s0 = smov.u32 1  ;;  %s2_s1 = smov.u32 2  ;;  %s3_s2 = smov.u32 3 }
   0x1   :  { %s4_s0 = sadd.s32 %s2_s1, 10  ;;  %s5_s1 = sadd.s32 %s1_s0, 20  ;;  %s6_s2 = sadd.s32 %s1_s0, %s2_s1 }
   0x2   :  { %7 = sst [smem:[#allocation0]] %s4_s0 }
   0x3   :  { %8 = sst [smem:[#allocation0 + $0x1]] %s5_s1 }
   0x4   :  { %9 = sst [smem:[#allocation0 + $0x2]] %s6_s2 }
"""
    )
    assert smem(text)[:3] == [12, 21, 3]


def test_loads_of_a_bundle_come_before_its_stores() -> None:
    text = (
        HEAD
        + """     0   :  { %1 = sst [smem:[#allocation0]] 4 }
   0x1   :  { %2 = sst [smem:[#allocation0]] 5  ;;  %s3_s0 = sld [smem:[#allocation0]] }
   0x2   :  { %4 = sst [smem:[#allocation0 + $0x1]] %s3_s0 }
"""
    )
    assert smem(text)[:2] == [5, 4]


def test_a_branch_takes_effect_after_four_more_bundles() -> None:
    """Its predicate is the one of its own bundle, though a later one overwrites the register."""
    stores = "".join(f"   {n:#x}   :  {{ %{n} = sst [smem:[#allocation0 + ${n:#x}]] {n} }}\n" for n in range(2, 8))
    text = (
        HEAD
        + """     0   :  { %p1_p0 = scmp.eq.s32.totalorder 1, 1 }
   0x1   :  { %1 = sbr.rel (%p1_p0) target = $region1  ;;  %p9_p0 = scmp.eq.s32.totalorder 1, 2 }
"""
        + stores
        + "   0x8   :  { %8 = sst [smem:[#allocation0]] 9 } /* Start region 1 */\n"
    )
    words = smem(text)
    assert words[0] == 9
    assert words[2:6] == [2, 3, 4, 5]
    assert 6 not in words
    assert 7 not in words


def test_who_enters_between_a_branch_and_its_effect_does_not_take_it() -> None:
    """The second time through, region 1 is entered by the jump at the end, past the branch at 0x1."""
    text = (
        HEAD
        + """     0   :  { %s1_s0 = smov.u32 0 }
   0x1   :  { %1 = sbr.rel (%p0_p1) target = $region9  ;;  %s3_s3 = smov.u32 0 }
   0x2   :  { %s2_s0 = sadd.s32 1, %s1_s0 } /* Start region 1 */
   0x3   :  { %p1_p0 = scmp.lt.s32.totalorder %s2_s0, 3 }
   0x4   :  {}
   0x5   :  {}
   0x6   :  { %2 = sbr.rel (%p1_p0) target = $region1 }
   0x7   :  {}
   0x8   :  {}
   0x9   :  {}
   0xa   :  {}
   0xb   :  { %4 = sst [smem:[#allocation0]] %s2_s0 } /* Start region 9 */
"""
    )
    text = text.replace("{ %s1_s0 = smov.u32 0 }", "{ %s1_s0 = smov.u32 0  ;;  %p0_p1 = scmp.eq.s32.totalorder 1, 2 }")
    assert smem(text)[0] == 3


def test_memory_that_the_program_lends_is_found_through_its_registry() -> None:
    """Two numbers are two places; the second look finds what the first put there."""
    text = """$region0: #{k}
  #allocation0 [shape = 'u32[8]', space=smem, size = 0x20, tag = 'x']
  #allocation1 [shape = 'u32[]', space=smem, size = 0x4, offset = 0xfff98, fixed_abs, tag = 'smem constant byte address 0xfff98 - program shared registry']
  %s1 = sld [smem:[#allocation1]]
  %s2 = int_to_ptr.smem [resolvable:$false] %s1
  %s3 = reloc 0
  %s4 = reloc 1
  %s5 = scalar_lea.smem %s2, %s3
  %s6 = sld [smem:[%s5]]
  %s7 = sld [smem:[%s2 + %s4]]
  %8 = sst [smem:[%s6]] 11
  %9 = sst [smem:[%s7]] 22
  %s10 = sld [smem:[%s2 + %s3]]
  %s11 = sld [smem:[%s10]]
  %12 = sst [smem:[#allocation0]] %s11
"""  # noqa: E501
    kernel = parse(text, "k.txt", "k")
    code = lower(kernel)
    machine = Machine(code, "v5e")
    assert run(code, machine, 1000).stop is None
    assert machine.smem[machine.bases["0"]] == 11


def test_an_endless_loop_is_stopped() -> None:
    code = lower(
        parse(
            region("  $region1: #{k} parent=0\n    %1 = vsel.nothing\n").replace(
                "vsel.nothing", "sbr.rel target = $region1"
            ),
            "k",
        )
    )
    outcome = run(code, Machine(code, "v5e"), 1000)
    assert outcome.stop is not None
    assert outcome.stop.trap == Trap.STEP_LIMIT


def test_an_opcode_without_a_meaning_is_named() -> None:
    kernel = parse(region("    %v1 = vfrobnicate.f32 %v2\n"), "k")
    assert unknown_opcodes(kernel) == {"vfrobnicate.f32": 1}
    with pytest.raises(Unsupported, match=r"vfrobnicate\.f32"):
        lower(kernel)
