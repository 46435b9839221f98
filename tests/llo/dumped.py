"""Dumps written by hand in the grammar of libtpu's, of kernels whose results NumPy works out."""

from __future__ import annotations

from pathlib import Path

STAMP = 1796025828384332899

HLO = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0:T(8,128)}, \
f32[8,128]{1,0:T(8,128)})->f32[8,128]{1,0:T(8,128)}}

ENTRY %main (x: f32[8,128], y: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %y = f32[8,128]{1,0:T(8,128)} parameter(1)
  ROOT %k = f32[8,128]{1,0:T(8,128)} subtract(%x, %y)
}
"""

OPERANDS = "".join(
    f"  %s{n} = inlined_call_operand.vmem [shape: f32[8,128], index: {n}, kind: {kind}, shape index: {{}}] "
    f"/* operand {n} */\n"
    for n, kind in enumerate(("input", "input", "output"))
)

REGIONS = f"""// [Enable stack traces via -xla_jf_collect_llo_stack_trace or -xla_jf_debug_level=2]
$region0: #{{k}}
{OPERANDS}  %v3 = vld [vmem:[%s0] sm:$0xff]
  %v4 = vld [vmem:[%s1] sm:$0xff]
  %7 = xla_tuple %v3, %v4
  %v5 = vsub.f32 %v3, %v4
  %6 = vst [vmem:[%s2] sm:$0xff] /*vst_source=*/%v5
"""

_PHYSICAL = "  ;;  ".join(
    line.strip().replace(f"%s{n} =", f"%s{n}_s{n} =") for n, line in enumerate(OPERANDS.splitlines())
)
BUNDLES = f"""= control target key start
LH: loop header
= control target key end

     0   :  {{ {_PHYSICAL} }} /* entry bundle: %k = subtract(%x, %y) */
   0x1   :  {{ %v3_v0 = vld [vmem:[%s0_s0] sm:$0xff]  ;;  %v4_v1 = vld [vmem:[%s1_s1] sm:$0xff] }}
   0x2   :  {{ %v5_v0 = vsub.f32 %v3_v0, %v4_v1 }}
   0x3   :  {{ %6 = vst [vmem:[%s2_s2] sm:$0xff] /*vst_source=*/%v5_v0 }}
   0x4   :  {{}} /* exit bundle: %k = subtract(%x, %y) */
"""

EXIT = "  $region9: #{k} parent=0\n    _\n"

LOOP = f"""$region0: #{{k}}
{OPERANDS}  $region1: #{{k}} parent=0 // loop_pre_header
    _
  loop: start=0, step=1, limit=5
  $region2: #{{k}} parent=0 // loop_header
    %s10 = sphi 0, %s11
    %p12 = scmp.ge.s32.totalorder %s10, 5
  $region3: #{{k}} parent=0 // loop_header_branch
    %13 = sbr.rel (%p12) target = $region7
  $region4: #{{k}} parent=0 // loop_body
    %v3 = vld [vmem:[%s0] sm:$0xff]
    %v4 = vld [vmem:[%s1] sm:$0xff]
    %v5 = vsub.f32 %v3, %v4
    %6 = vst [vmem:[%s2] sm:$0xff] /*vst_source=*/%v5
  $region5: #{{k}} parent=0 // loop_footer
    %s11 = sadd.s32 1, %s10
  $region6: #{{k}} parent=0 // loop_footer_branch
    %14 = sbr.rel target = $region2
  $region7: #{{k}} parent=0 // loop_exit
    _
"""
"""The same result, stored five times."""

STAGES = {
    "01-original": REGIONS,
    "02-post-GVN": REGIONS.replace("%v5", "%v9"),
    "13-post-decomposer": LOOP,
    "42-packed-bundles-pre-ra": "no program: must not be read",
    "44-post-grt": REGIONS.replace("%v5 = vsub", "%9 = spseudo.reserve\n  %v5 = vsub"),
    "63-post-delay-converter": REGIONS + EXIT,
    "66-final_bundles": BUNDLES,
}


def write(folder: Path, stages: dict[str, str] | None = None, hlo: str | None = HLO) -> Path:
    """A folder of these stages of the kernel k, `NN-label` to text, with the module's HLO beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    if hlo is not None:
        (folder / f"{STAMP}-TLP-hlo.txt").write_text(hlo)
    for name, text in (STAGES if stages is None else stages).items():
        (folder / f"{STAMP + 1}-k-{name}.txt").write_text(text)
    return folder


def planted(stage: str, old: str, new: str, every: bool = False) -> dict[str, str]:
    """STAGES with a change in one of them; in all from there on if `every`."""
    names = list(STAGES)
    wrong = names[names.index(stage) :] if every else [stage]
    assert old in STAGES[stage], (stage, old)
    return {name: text.replace(old, new) if name in wrong else text for name, text in STAGES.items()}
