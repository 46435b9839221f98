"""Dumps stay within their limit and their disk, and what a killed process left goes."""

from __future__ import annotations

import os
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.targets import dumps
from assay.targets.dumps import DumpLimit, scratch, size_of, watched

Usage = namedtuple("Usage", "total used free")


def test_a_dump_within_its_limit_stays(tmp_path: Path) -> None:
    with watched(tmp_path / "new" / "dump", 1000) as watch:
        (tmp_path / "new" / "dump" / "a.txt").write_text("x" * 999)
        watch()
    assert size_of(tmp_path / "new") == 999


def fill(folder: Path, looks: bool) -> None:
    """As a compiler would that dumps 2 MiB; looks: whether its host looks in meanwhile."""
    with watched(folder, 1 << 20) as watch:
        (folder / "llo").mkdir()
        (folder / "llo" / "a.txt").write_bytes(bytes(2 << 20))
        if looks:
            watch._next = 0.0
            watch()


@pytest.mark.parametrize("looks", [False, True])
def test_a_dump_above_its_limit_is_deleted_and_told(tmp_path: Path, looks: bool) -> None:
    """Whether it is seen while it grows or only in the end."""
    with pytest.raises(DumpLimit, match=r"dumped 2\.0 MiB, the limit is 1\.0 MiB.*--dump-limit"):
        fill(tmp_path, looks)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("free", [[100 << 20], [1 << 40, 100 << 20]])
def test_a_disk_that_is_full_is_told_before_and_while_dumping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: list[int]
) -> None:
    left = iter(free)
    monkeypatch.setattr(dumps.shutil, "disk_usage", lambda _: Usage(1 << 40, 0, next(left)))
    with pytest.raises(DumpLimit, match=r"100 MiB free on this disk.*make room"):
        fill(tmp_path, looks=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused_and_left(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"), watched(tmp_path):
        pass
    assert (tmp_path / "mine.txt").read_text() == "mine"
    with pytest.raises(InputError, match="name another folder"), watched(tmp_path / "mine.txt" / "dump"):
        pass


def test_another_error_leaves_the_dump(tmp_path: Path) -> None:
    """The last snapshot of a compiler that crashed tells where."""

    def crash() -> None:
        with watched(tmp_path):
            (tmp_path / "last.txt").write_text("HloModule")
            raise RuntimeError("the compiler crashed")

    with pytest.raises(RuntimeError):
        crash()
    assert (tmp_path / "last.txt").exists()


def test_scratch_goes_with_its_use_and_takes_what_dead_processes_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    process = subprocess.Popen(["true"])
    process.wait()
    dead, living, other = (tmp_path / "dumps" / n for n in (f"{process.pid}-a", f"{os.getpid()}-b", "notes"))
    for folder in (dead, living, other):
        (folder / "deep").mkdir(parents=True)
    with scratch() as folder:
        assert list(folder.iterdir()) == []
        (folder / "a.txt").write_text("x")
        assert (dead.exists(), living.exists(), other.exists()) == (False, True, True)
    assert not folder.exists()
