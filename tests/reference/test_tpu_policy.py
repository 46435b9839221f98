"""What the TPU policies promise is what libtpu's low-level code does: its instructions, counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.targets import tpu_aot
from assay.toolchain import Worker

pytestmark = [pytest.mark.tpu, pytest.mark.slow]

DOT = """HloModule m
ENTRY e {
  a = f32[128,128] parameter(0)
  b = f32[128,128] parameter(1)
  ROOT r = f32[128,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={P,P}
}"""
BODY = "HloModule m\nENTRY e {\n  x = f32[8,128] parameter(0)\n  y = f32[8,128] parameter(1)\n"
DIVISION = BODY + "  ROOT r = f32[8,128] divide(x, y)\n}"
THERE_AND_BACK = (
    BODY + "  h = f16[8,128] convert(x)\n  g = f32[8,128] convert(h)\n  ROOT r = f32[8,128] subtract(x, g)\n}"
)


def instructions(worker: Worker, text: str, generation: str, folder: Path, **options: str) -> list[str]:
    """The vector instructions of all kernels as they are first written."""
    tpu_aot.compile(worker, text, "hlo-text", generation, options, dump=folder, llo=True)
    files = [path for path in (folder / "llo").rglob("*original*") if path.is_file()]
    assert files
    return [name for path in files for name in re.findall(r"\b(v[a-z][a-z0-9.]*)\b(?= |\()", path.read_text())]


@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_a_dot_takes_one_three_or_six_passes(tpu_worker: Worker, tmp_path: Path, generation: str) -> None:
    """One instruction of bf16 operands takes 16 rows, one of f32 operands, each a part of 8 bits, takes 8."""
    rows = {}
    for name in ("default", "high", "highest"):
        found = instructions(tpu_worker, DOT.replace("P", name), generation, tmp_path / name)
        rows[name] = sum(16 if ".bf16." in i else 8 for i in found if i.startswith("vmatmul"))
    assert rows == {"default": 128, "high": 3 * 128, "highest": 6 * 128}


@pytest.mark.parametrize(("generation", "steps"), [("v4", 1), ("v5e", 1), ("v5p", 1), ("v6e", 0), ("tpu7x", 0)])
def test_a_division_refines_the_reciprocal_or_not(
    tpu_worker: Worker, tmp_path: Path, generation: str, steps: int
) -> None:
    """r (2 - r y) has two products and a difference more than x r."""
    found = instructions(tpu_worker, DIVISION, generation, tmp_path / "dump")
    assert sum(i.startswith("vrcp") for i in found) == 1
    assert found.count("vmul.f32") == 1 + 2 * steps
    assert found.count("vsub.f32") == steps


def test_a_narrower_type_on_the_way_is_skipped_unless_told_not_to(tpu_worker: Worker, tmp_path: Path) -> None:
    skipped = instructions(tpu_worker, THERE_AND_BACK, "v5e", tmp_path / "a")
    kept = instructions(tpu_worker, THERE_AND_BACK, "v5e", tmp_path / "b", xla_allow_excess_precision="false")
    assert not any(i.startswith("vcvt.f32.hf16") for i in skipped)
    assert any(i.startswith("vcvt.f32.hf16") for i in kept)
