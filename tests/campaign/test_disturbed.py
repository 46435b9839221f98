"""`assay fuzz` on a store that it cannot write to for a while: one line, and it goes on where it was."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.store.api import open_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WORDS = "fuzz --programs 160 --jobs 1 --ops neg,abs,max,transpose --operations 1-2 --seed 4 --json - --resume --store"
BEGUN_S = 300.0


def begun(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "assay.cli.main", *WORDS.split(), str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def programs(store: Path) -> int:
    """How many are done."""
    if not (store / "findings.db").exists():
        return 0
    with open_store(store) as opened:
        return sum(sum(c.progress.get("verdicts", {}).values()) for c in opened.campaigns())


def wait_for_more(campaign: subprocess.Popen[str], store: Path) -> int:
    """Until it has done more than it had; how many then."""
    first, end = programs(store), time.monotonic() + BEGUN_S
    while time.monotonic() < end and campaign.poll() is None:
        if (now := programs(store)) > first:
            return now
        time.sleep(0.2)
    raise AssertionError("it does nothing more")


def ends_with(campaign: subprocess.Popen[str], words: str) -> None:
    out, err = campaign.communicate(timeout=300)
    *progress, last = err.splitlines()
    assert (campaign.returncode, out) == (2, "")
    assert last.startswith("assay: ")
    assert words in last
    assert last.endswith("; go on with --resume")
    assert all(line.endswith(" ...") or " stored" in line for line in progress), "one line more, and no trace"


def goes_on(store: Path) -> None:
    campaign = begun(store)
    out, err = campaign.communicate(timeout=900)
    assert campaign.returncode == 0, err
    (report,) = json.loads(out)["campaigns"]
    assert sum(report["verdicts"].values()) == report["programs"] == 160 == programs(store)


def test_a_database_that_another_process_holds(tmp_path: Path) -> None:
    campaign = begun(tmp_path)
    done = wait_for_more(campaign, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "findings.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        held = programs(tmp_path)
        ends_with(campaign, "another process holds the database")
        assert programs(tmp_path) == held >= done
    goes_on(tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk(disk: Path) -> None:
    store = disk / "store"
    campaign = begun(store)
    done = wait_for_more(campaign, store)
    with contextlib.suppress(OSError), (disk / "other").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    ends_with(campaign, "make room and start again, nothing that was stored is lost")
    (disk / "other").unlink()
    assert programs(store) >= done
    goes_on(store)
