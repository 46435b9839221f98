"""A dump that was compiled for another TPU than the one that is named is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.checking.api import Request
from assay.errors import InputError
from assay.kernels import diff, execute, opened
from assay.llo.files import read_dump
from assay.llo.generation import generation_of, refuse_other
from assay.llo.text import parse
from assay.targets import tpu_aot
from assay.toolchain import Worker

HBM = "$region0: #{k}\n  %s0 = inlined_call_operand.hbm [shape: f32[8,128], index: 0, kind: output, shape index: {}]\n"
SHIFTED = HBM + "  %s1 = sshll.u32 %s0, 4\n"
PLAIN = HBM + "  %2 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/0, /*size_in_granules=*/128, /*hbm=*/%s0, /*x=*/0\n"
WIDE = HBM + "  %3 = vmatprep.subr.bf16.mxu0 0\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [(HBM, None), (SHIFTED, "v5e"), (SHIFTED.replace(", 4", ", 5"), None), (PLAIN, "v6e"), (WIDE, "v6e")],
)
def test_addresses_and_the_matrix_unit_say_which_tpu_it_is(text, said):
    kernel = parse(text, "k.txt", "k")
    found = generation_of(kernel)
    assert (None if found is None else found[0]) == said
    for target in ("v5e", "v6e"):
        if said not in (None, target):
            with pytest.raises(InputError, match=f"k.txt:3: .* is as on tpu:{said}: this is no LLO of tpu:{target}"):
                refuse_other(kernel, target)
        else:
            refuse_other(kernel, target)
    refuse_other(kernel, "v5p")  # nothing was measured there


DOT = """HloModule dot

ENTRY e {
  x = f32[300,500] parameter(0)
  y = f32[500,260] parameter(1)
  ROOT d = f32[300,260] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.mark.tpu
@pytest.mark.parametrize(("made", "other"), [("v5e", "v6e"), ("v6e", "v5e")])
def test_a_real_dump_is_run_on_its_own_tpu_alone(tpu_worker: Worker, tmp_path: Path, made: str, other: str) -> None:
    folder = tmp_path / "dump"
    tpu_aot.compile(tpu_worker, DOT, "hlo-text", made, dump=folder, llo=True)
    assert {found[0] for files in read_dump(folder).kernels.values() for stage in files.stages
            if (found := generation_of(parse(stage.path.read_text(), "", files.name)))} == {made}  # fmt: skip
    request = Request(target=f"tpu:{other}")
    with opened(str(folder), request) as (_, (dumped,)):
        with pytest.raises(InputError, match=f"is as on tpu:{made}: this is no LLO of tpu:{other}; name the TPU"):
            diff(dumped, request, None, 1000, None, lambda _: None)
        kernel = next(name for name, files in dumped.dump.kernels.items() if "dma." in files.stages[0].path.read_text())
        with pytest.raises(InputError, match=f"this is no LLO of tpu:{other}"):
            execute(dumped, request, kernel, None)
