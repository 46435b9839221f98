"""Which kernels and stages a folder of LLO dumps holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.llo.files import Dump, read_dump
from assay.targets import tpu_aot
from assay.toolchain import Worker

NAMES = """
100-TLP-00-deduplication-map.txt
100-TLP-01-original.txt
100-TLP-05-vmem_report.html
100-TLP-hlo.txt
100-<late-initialization>-00-original.txt
100-<late-finalization>-03-final_bundles.txt
101-fusion.23-00-fingerprints.txt
101-fusion.23-02-original.txt
101-fusion.23-20-post-cssa.txt
101-fusion.23-25-DGO-post-rematerialization.txt
101-fusion.23-26-DGO-vliw-packed-bundles.txt
101-fusion.23-36-critical-path.txt
101-fusion.23-40-post-cssa.txt
101-fusion.23-46-schedule-analysis_packed-bundles-pre-ra.txt
101-fusion.23-47-packed-bundles-pre-ra.txt
101-fusion.23-48-post-bundle-packing-pre-ra.txt
101-fusion.23-66-region-expansion.txt
101-fusion.23-67-pre-delay_hlo-static-per-bundle-utilization.txt
101-fusion.23-68-post-delay-converter.txt
101-fusion.23-70-schedule-analysis_final_bundles.txt
101-fusion.23-71-final_bundles.txt
103-copy-10-start-00-original.txt
99-retried-00-original.txt
104-retried-00-original.txt
104-retried-01-final_bundles.txt
"""
MAP = """key:<top-inlining-caller>
ordinal:0
equivalent_hlos[size=0]:
key:lt.11
ordinal:1
equivalent_hlos[size=1]:
  lt.11
key:fusion.23
ordinal:2
equivalent_hlos[size=2]:
  fusion.23
  fusion.25
"""


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    folder = tmp_path / "llo"
    folder.mkdir()
    for name in NAMES.split():
        (folder / name).write_text(MAP if "deduplication" in name else "")
    return read_dump(tmp_path)


def test_kernels_are_what_has_a_program_of_its_own(dump: Dump) -> None:
    assert sorted(dump.kernels) == ["copy-10-start", "fusion.23", "retried"]
    assert read_dump(dump.folder) == dump


def test_stages_are_whole_programs_in_the_order_of_the_passes(dump: Dump) -> None:
    stages = dump.kernels["fusion.23"].stages
    assert [(s.number, s.label, s.form) for s in stages] == [
        (2, "original", "regions"),
        (20, "post-cssa", "regions"),
        (40, "post-cssa", "regions"),
        (47, "packed-bundles-pre-ra", "bundles"),
        (48, "post-bundle-packing-pre-ra", "regions"),
        (68, "post-delay-converter", "regions"),
        (71, "final_bundles", "bundles"),
    ]


def test_a_kernel_that_is_like_another_runs_that_ones(dump: Dump) -> None:
    assert dump.kernel("fusion.25") is dump.kernels["fusion.23"]
    assert dump.kernel("fusion.23") is dump.kernels["fusion.23"]
    assert dump.kernel("lt.11") is None  # in the map, but a part of the program that calls kernels
    assert dump.kernel("add.1") is None


def test_a_kernel_that_was_compiled_again_is_the_later_one(dump: Dump) -> None:
    assert [s.path.name for s in dump.kernels["retried"].stages] == [
        "104-retried-00-original.txt",
        "104-retried-01-final_bundles.txt",
    ]


def test_a_stage_is_named_by_label_or_number(dump: Dump) -> None:
    kernel = dump.kernels["fusion.23"]
    assert kernel.stage("original").number == 2
    assert kernel.stage("final").number == kernel.stage("71").number == kernel.stage("final_bundles").number == 71
    assert kernel.stage("40").label == "post-cssa"
    with pytest.raises(InputError, match=r"2 stages 'post-cssa': name one by its number, 20, 40"):
        kernel.stage("post-cssa")
    with pytest.raises(InputError, match=r"fusion\.23 has no stage 'post-ra': there is 02 original, "):
        kernel.stage("post-ra")


def test_bundles_have_their_memory_declared_by_what_they_were_packed_from(dump: Dump) -> None:
    kernel = dump.kernels["fusion.23"]
    assert kernel.memory_of(kernel.stage("final")).label == "post-delay-converter"
    assert kernel.memory_of(kernel.stage("47")).label == "post-bundle-packing-pre-ra"
    assert kernel.memory_of(kernel.stage("original")).label == "original"
    other = dump.kernels["retried"]
    with pytest.raises(InputError, match="dump its stage post-delay-converter too"):
        other.memory_of(other.stage("final"))


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no LLO in it"):
        read_dump(tmp_path)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'none'}: No such file or directory")):
        read_dump(tmp_path / "none")
    (tmp_path / "1-TLP-01-original.txt").write_text("")
    assert read_dump(tmp_path).kernels == {}  # a program of scalars alone
    for name in ("1-TLP-hlo.txt", "2-TLP-hlo.txt", "3-fusion-00-original.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="more than one module"):
        read_dump(tmp_path)


ALIKE = (
    "HloModule alike\n\nENTRY e {\n"
    + "".join(
        f"  x.{k} = f32[100,200] parameter({k})\n  a.{k} = f32[100,200] tanh(x.{k})\n"
        f"  c.{k} = f32[100,200] multiply(a.{k}, x.{k})\n"
        for k in range(6)
    )
    + f"  ROOT t = ({', '.join(['f32[100,200]'] * 6)}) tuple({', '.join(f'c.{k}' for k in range(6))})\n}}\n"
)


@pytest.mark.tpu
def test_what_libtpu_dumps_by_default_holds_every_kernel(tpu_worker: Worker, tmp_path: Path) -> None:
    """Of kernels that are alike one is dumped, and the map says whose it is as well."""
    folder = tmp_path / "dump"
    made = tpu_aot.compile(tpu_worker, ALIKE, "hlo-text", "v5e", dump=folder, llo=True)
    dump = read_dump(folder)
    fusions = [i.name for i in parse_module(made.hlo).entry.instructions if i.opcode == "fusion"]
    assert fusions
    kernels = {name: dump.kernel(name) for name in fusions}
    assert all(kernel is not None for kernel in kernels.values())
    assert len(dump.kernels) < len(fusions)
    for kernel in dump.kernels.values():
        final = kernel.stage("final")
        assert final.form == "bundles"
        assert kernel.memory_of(final).label == "post-delay-converter"
        assert kernel.stage("original").path.read_text().count("$region0")
