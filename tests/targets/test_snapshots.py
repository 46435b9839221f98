"""Snapshots are read in the order XLA wrote them, and a dump that is not whole is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import InputError
from assay.targets.snapshots import interval, read

CHAIN = (
    "module_0007.jit_f.x.0000.sharding-removal.after_pipeline-start.before_flatten-call-graph.txt",
    "module_0007.jit_f.x.0001.simplification.after_pipeline-start.before_algsimp.txt",
    "module_0007.jit_f.x.0002.simplification.after_algsimp.before_dce.txt",
    "module_0007.jit_f.x.0003.tpu-tiling-rewriter.before_tiling_rewriter.txt",
    "module_0007.jit_f.x.0004.copy-insertion.after_adding_copies.txt",
    "module_0007.jit_f.x.0005.Outer.after_pipeline-start.before_fusion.txt",
)
ENDS = ("module_0007.jit_f.x.before_optimizations.txt", "module_0007.jit_f.x.cpu_after_optimizations.txt")
OTHERS = (
    "module_0007.jit_f.x.cpu_after_optimizations-buffer-assignment.txt",
    "module_0007.jit_f.x.debug_options",
    "module_0007.jit_f.x.after_codegen.txt",
)


def written(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text(name)
    return folder


def test_order_and_names(tmp_path: Path) -> None:
    snapshots = read(written(tmp_path, *reversed(CHAIN), *ENDS, *OTHERS))
    assert [s.path.name for s in snapshots] == [ENDS[0], *CHAIN, ENDS[1]]
    assert [s.index for s in snapshots] == list(range(8))
    assert [(s.pipeline, s.after, s.before) for s in snapshots[2:6]] == [
        ("simplification", "pipeline-start", "algsimp"),
        ("simplification", "algsimp", "dce"),
        ("tpu-tiling-rewriter", "pipeline-start", "tiling_rewriter"),
        ("copy-insertion", "adding_copies", ""),
    ]
    assert [s.label for s in snapshots[2:5]] == [
        "0001.simplification.after_pipeline-start",
        "0002.simplification.after_algsimp",
        "0003.tpu-tiling-rewriter.before_tiling_rewriter",
    ]
    assert (snapshots[0].label, snapshots[-1].label) == ("before_optimizations", "after_optimizations")
    assert snapshots[3].text() == CHAIN[2]


def test_the_passes_of_an_interval(tmp_path: Path) -> None:
    chain = read(written(tmp_path, *CHAIN, *ENDS))
    assert interval(chain[2], chain[3], chain) == ("algsimp",)
    assert interval(chain[1], chain[3], chain) == ("flatten-call-graph", "algsimp")
    assert interval(chain[3], chain[6], chain) == ("dce", "tiling_rewriter", "adding_copies")
    assert interval(None, chain[2], chain) == ("flatten-call-graph",)
    assert interval(None, chain[0], chain) == ()


def test_a_module_that_another_takes_the_place_of(tmp_path: Path) -> None:
    later = [name.replace("0007", "0009") for name in CHAIN[:3]]
    ends = [ENDS[0], ENDS[1].replace("0007", "0009")]
    snapshots = read(written(tmp_path, *CHAIN[:4], *later, *ends))
    assert [s.path.name for s in snapshots] == [ends[0], *CHAIN[:4], *later, ends[1]]
    with pytest.raises(InputError, match="snapshots of 2 modules"):
        read(written(tmp_path, ENDS[0].replace("0007", "0009")))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), "no snapshot"),
        (ENDS, "no snapshot"),
        ((*CHAIN[:2], *CHAIN[3:]), "snapshot 0002 is not there, of 6"),
        (CHAIN[1:], "snapshot 0000 is not there"),
        (
            (*CHAIN, CHAIN[0].replace("0007", "0008")),
            "snapshots of 2 modules (module_0007.jit_f.x, module_0008.jit_f.x)",
        ),
    ],
)
def test_what_is_no_dump_of_one_module(tmp_path: Path, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, *names))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_or_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "nowhere")
    snapshots = read(written(tmp_path, *CHAIN))
    snapshots[0].path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no text at byte 0"):
        snapshots[0].text()
    snapshots[1].path.unlink()
    with pytest.raises(InputError, match="No such file"):
        snapshots[1].text()
