"""What kernels get wrong, followed to a finding: the fusion, the pass over LLO, and a test for a chip."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.campaign.add import add
from assay.campaign.describe import CHIP
from assay.campaign.stage import EMITTER
from assay.checking import api
from assay.isolate.executable import BELOW
from assay.oracle.verdict import Verdict
from assay.store.api import open_store
from assay.toolchain import Toolchain

pytestmark = [pytest.mark.tpu, pytest.mark.slow]

SHIFTED = """HloModule shifted
ENTRY e {
  x = f32[] parameter(0)
  i = f32[7] iota(), iota_dimension=0
  ROOT p = f32[7] pad(i, x), padding=1_-1
}"""
"""Found in libtpu 0.0.42.1 to 0.0.52: the iota is too large by 1024."""
POOL = """HloModule pool
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[10] parameter(0)
  s = f32[8] parameter(1)
  zero = f32[] constant(0)
  ROOT g = f32[10] select-and-scatter(x, s, zero), window={size=3}, select=ge, scatter=sum
}"""
"""Found in the same: the last elements have what the padding of the operands holds."""


@pytest.mark.parametrize(
    ("text", "verdict", "opcode", "note"),
    [
        (SHIFTED, Verdict.MISMATCH, "iota", CHIP),
        (POOL, Verdict.NONDETERMINISTIC, "select-and-scatter", "no test: "),
    ],
)
def test_a_wrong_kernel_is_followed(
    text: str, verdict: Verdict, opcode: str, note: str, tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    path = tmp_path / "program.hlo"
    path.write_text(text)
    request = api.Request(target="tpu:v5e", toolchain=tpu_toolchain.spec, through="llo")
    with open_store(str(tmp_path / "store")) as store:
        ((_, finding, why),) = add(str(path), request, store)
    if finding is None and why == "agree":
        pytest.skip(f"{tpu_toolchain.spec} has it right")
    assert finding is not None, why
    assert (finding.verdict, finding.through, finding.culprit.pass_name) == (verdict, "llo", BELOW)
    assert opcode in finding.culprit.opcode
    assert finding.culprit.pattern == EMITTER
    assert finding.note.startswith(note)
    tests = [name for name in finding.artifacts if name.startswith("test_")]
    assert len(tests) == (note == CHIP)
