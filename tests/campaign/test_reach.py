"""What a compilation reached, and which program it is put down to."""

from __future__ import annotations

from pathlib import Path

from assay.campaign.reach import passes, reached
from assay.hlo.parse import parse_module

OPTIMIZED = """HloModule jit_together, is_scheduled=true
less {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT
}
fused {
  a = f32[4] parameter(0)
  b = f32[4] exponential(a), metadata={op_name="jit(together)/jit(p17)/exp"}
  ROOT c = f32[4] negate(b), metadata={op_name="jit(together)/jit(p17)/neg"}
}
ENTRY main {
  x = f32[4] parameter(0)
  y = s32[4] parameter(1)
  f = f32[4] fusion(x), kind=kLoop, calls=fused, metadata={op_name="jit(together)/jit(p17)/neg"}
  s = s32[4] sort(y), dimensions={0}, to_apply=less, metadata={op_name="jit(together)/jit(p18)/sort"}
  c = s32[4] copy(s)
  ROOT r = (f32[4], s32[4]) tuple(f, c)
}
"""


def test_features_and_their_programs() -> None:
    found = reached(parse_module(OPTIMIZED))
    assert found["exponential f32"] == 17
    assert found["negate of exponential"] == 17
    assert found["fusion kLoop"] == 17
    assert found["sort s32"] == 18
    assert found["copy of sort"] == -1, "the module does not say whose it is"
    assert found["compare LT"] == -1
    assert not any("parameter" in feature or "tuple" in feature for feature in found)


def test_the_passes_that_changed_something(tmp_path: Path) -> None:
    for name in (
        "module_0001.jit_f.before_optimizations.txt",
        "module_0001.jit_f.0000.simplification.after_pipeline-start.before_algsimp.txt",
        "module_0001.jit_f.0001.simplification.after_algsimp.before_dce.txt",
        "module_0001.jit_f.0002.fusion.after_cpu-instruction-fusion.before_pipeline-end.txt",
        "module_0001.jit_f.cpu_after_optimizations.txt",
    ):
        (tmp_path / name).write_text("HloModule m")
    assert passes(tmp_path) == {"algsimp", "cpu-instruction-fusion"}
    (tmp_path / "module_0001.jit_f.0001.simplification.after_algsimp.before_dce.txt").unlink()
    assert passes(tmp_path) == set(), "some are missing"
