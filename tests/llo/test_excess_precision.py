"""Figure 4 of the paper: a rounding that the compiler leaves out is seen in the kernel's text and in its result."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.llo.files import read_dump
from assay.llo.module import run_module
from assay.llo.text import parse
from assay.reference.policies import for_target
from assay.targets import tpu_aot
from assay.toolchain import Worker

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "figure4_excess_precision.py"
ROUNDING = re.compile(r"hf16|f16|vpack|vunpack|vcvt")


@pytest.mark.tpu
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
@pytest.mark.parametrize("excess", [True, False])
def test_the_lost_rounding(tpu_worker: Worker, tmp_path: Path, generation: str, excess: bool) -> None:
    (case,) = tpu_worker.load(str(EXAMPLE), "lost", platform="tpu").cases
    (x,) = (np.asarray(argument.value) for argument in case.arguments)
    options = {} if excess else {"xla_allow_excess_precision": "false"}
    made = tpu_aot.compile(
        tpu_worker, case.stablehlo, "stablehlo", generation, options, dump=tmp_path / "dump", llo=True
    )
    module, dump = parse_module(made.hlo), read_dump(tmp_path / "dump")
    converts = [i for c in module.computations for i in c.instructions if i.opcode == "convert"]
    assert len(converts) == 2 or not excess  # both stand in the fusion
    rounded = x - x.astype(np.float16).astype(np.float32)
    assert np.count_nonzero(rounded) > 0.9 * x.size
    for stage in ("original", "final"):
        ran = run_module(module, dump, (x,), generation, for_target(f"tpu:{generation}"), stage=stage)
        assert [kernel.kind for kernel in ran.kernels] == ["simulated"] * len(ran.kernels)
        assert not ran.untrusted
        (output,) = ran.outputs
        wanted = np.zeros_like(x) if excess else rounded
        assert output.unwritten is None
        assert np.array_equal(output.first.view(np.uint32), wanted.view(np.uint32))
        opcodes = {
            instruction.opcode
            for files in dump.kernels.values()
            for kernel in (parse(files.stage(stage).path.read_text(), "", files.name),)
            for part in kernel.regions or kernel.bundles
            for instruction in part.instructions
        }
        assert bool(list(filter(ROUNDING.match, opcodes))) is not excess
