"""Kills, full disks, locks and two writers: nothing lost, nothing double, one line, and it goes on."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_work import BIG, artifact_that_does_not_fit, campaign, files, finding, until_it_cannot_grow

from assay.errors import StoreError
from assay.store import tables
from assay.store.api import open_store
from assay.store.database import Database

CALLS = 3000
PROCESSES = multiprocessing.get_context("forkserver")  # a fork of this process would take its threads' locks along
PROCESSES.set_forkserver_preload(["assay.store.api", "assay.store.database"])


def whole(place: str | Path, acknowledged: int) -> int:
    """Asserts that the first so many are there, and each as a whole; how many there are."""
    with open_store(place) as store:
        found = store.findings()
        numbers = sorted(f.origin.number for f in found)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= acknowledged
        for one in found:
            assert {name: store.read(one, name) for name in one.artifacts} == files(one.origin.number)
        assert sum(bucket.count for bucket in store.buckets()) == len(found)
        assert store.campaign(1, {}).progress.get("next", 0) <= len(found)
        return len(found)


# ---- kill -9


def killed(place: str | Path, after: int = 0, delay: float = 0.0, at: int = 0) -> int:
    """Runs `campaign` in a process that is killed so long after it told of so many; where 0 are to be told of, it ends
    itself at call `at`. How many it told of.
    """
    reader, writer = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=campaign, args=(str(place), writer, at))
    process.start()
    writer.close()
    told = 0
    with reader, contextlib.suppress(EOFError):
        while True:
            reader.recv_bytes()
            told += 1
            if told == after:
                time.sleep(delay)
                process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    return told


def kill_at_any_time(place: str | Path, times: int) -> None:
    draw, known = random.Random(times), 0
    for _ in range(times):
        told = killed(place, draw.choice((1, 2)), draw.random() * 0.03)
        # What it begins with may be a finding that was stored and not told, or not noted in its progress.
        known = whole(place, max(known, known + told - 2))
    assert known >= times // 2


@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_kill_at_any_time(tmp_path, times):
    kill_at_any_time(tmp_path / "store", times)


@pytest.mark.parametrize("step", [211, pytest.param(17, marks=pytest.mark.slow)])
def test_kill_at_each_call_of_an_add(tmp_path, step):
    """The child ends itself at its n-th call of C code after the first finding, in the next or the one after it."""
    place = tmp_path / "store"
    told = []
    for at in range(1, CALLS, step):
        told.append(killed(place, at=at))
        assert whole(place, sum(told) - len(told)) <= sum(told) + 1
    assert set(told) == {1, 2}  # before the end of the next and after it


# ---- full disk


def said_by(work: Callable[..., None], *arguments: object) -> Any:
    """What `work` sends, run in a process of its own, whose limits may be set."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    place, *more = arguments
    process = PROCESSES.Process(target=work, args=(str(place), writer, *more))
    process.start()
    writer.close()
    with reader:
        said = reader.recv()
    process.join()
    return said


def test_an_artifact_that_does_not_fit(tmp_path):
    place = tmp_path / "store"
    with open_store(place) as store:
        store.add(finding(0), files(0))

    said = said_by(artifact_that_does_not_fit, place)
    assert "make room and start again" in said
    assert "\n" not in said
    assert not [p for p in (place / "artifacts").rglob("*") if p.is_file() and p.stat().st_size == BIG // 2]
    assert whole(place, 1) == 1
    with open_store(place) as store:
        assert store.add(finding(1), files(1))
    assert whole(place, 2) == 2


@pytest.mark.parametrize("room", [0, 1000, 9000, 30_000])
def test_a_database_that_cannot_grow(tmp_path, room):
    place = tmp_path / "store"
    with open_store(place) as store:
        store.add(finding(0), {"module.hlo": b"HloModule m0"})
    size = max(p.stat().st_size for p in place.glob("findings.db*"))

    number, said = said_by(until_it_cannot_grow, place, size + room if room else 4096)
    assert "make room and start again" in said, said
    assert "\n" not in said
    with open_store(place) as store:
        assert sorted(f.origin.number for f in store.findings()) == list(range(number))
        assert store.add(finding(number), {"module.hlo": b"HloModule m%d" % number})


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with open_store(place / "store") as store:
            number, said = 0, ""
            while not said and number < 200:
                try:
                    store.add(finding(number), files(number))
                    number += 1
                except StoreError as error:
                    said = str(error)
        assert "make room and start again" in said
        assert "\n" not in said
        subprocess.run(["mount", "-o", "remount,size=4m", place], check=True)
        assert whole(place / "store", number) == number
        with open_store(place / "store") as store:
            assert store.add(finding(number), files(number))
        assert whole(place / "store", number + 1) == number + 1
    finally:
        subprocess.run(["umount", "-l", place], check=True)


# ---- what cannot be opened


def test_a_locked_database(tmp_path):
    with open_store(tmp_path, wait_s=0.2) as store:
        store.add(finding(0), files(0))
        other = sqlite3.connect(tmp_path / "findings.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for work in (lambda: store.add(finding(1), files(1)), lambda: store.sighted("b", "x"), lambda: store.cap("b")):
            with pytest.raises(StoreError, match="another process holds the database") as caught:
                work()
            assert "\n" not in str(caught.value)
        assert len(store.findings()) == 1  # who reads does not wait
        other.execute("ROLLBACK")
        assert store.add(finding(1), files(1))
        other.close()
    assert whole(tmp_path, 2) == 2


PSYCOPG = importlib.util.find_spec("psycopg") is not None


def test_files_that_are_no_store(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "findings.db").write_bytes(b"no database at all" * 100)
    (tmp_path / "b").write_text("a file")
    for place, words in (
        (tmp_path / "a", "a file that is no store"),
        (tmp_path / "b", "File exists"),
        (tmp_path / "b" / "c", "Not a directory"),
        ("postgresql://localhost/x", "say where artifacts go"),
        ("mysql://localhost/x?artifacts=a", "SQLite or PostgreSQL"),
        ("://?artifacts=a", "no database URL"),
        ("postgresql://user:secret@127.0.0.1:1/x?artifacts=a", "no server answers there" if PSYCOPG else "no driver"),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            open_store(place, wait_s=2)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
    with pytest.raises(StoreError, match="no findings there"):
        open_store(tmp_path / "missing", create=False)
    assert not (tmp_path / "missing").exists()


def test_no_driver_for_postgresql(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'assay-xla\[pg\]'"):
        open_store("postgresql://user:secret@localhost/x?artifacts=a")


def test_a_store_of_a_newer_assay(tmp_path):
    open_store(tmp_path).close()
    other = sqlite3.connect(tmp_path / "findings.db")
    other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="newer assay"):
        open_store(tmp_path)


def test_an_artifact_that_was_changed_or_lost(tmp_path):
    with open_store(tmp_path) as store:
        store.add(finding(0), files(0))
        (found,) = store.findings()
        digest = found.artifacts["module.hlo"]
        path = tmp_path / "artifacts" / "sha256" / digest[:2] / digest
        path.write_bytes(b"changed")
        with pytest.raises(StoreError, match="not what was stored"):
            store.read(found, "module.hlo")
        path.unlink()
        with pytest.raises(StoreError, match="missing"):
            store.read(found, "module.hlo")


def test_the_migrations_make_the_schema(tmp_path):
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
    database.close()
    config = Config()
    config.set_main_option("script_location", str(Path(tables.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [tables.HEAD]


def test_a_store_of_an_earlier_version_is_brought_up_to_date(tmp_path):
    from alembic import command
    from alembic.config import Config

    with open_store(tmp_path) as store:
        store.add(finding(0), files(0))
        database = store._database
        with database.writing() as connection:
            config = Config()
            config.set_main_option("script_location", str(Path(tables.__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.downgrade(config, "0001")
    with sqlite3.connect(tmp_path / "findings.db") as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
        assert "through" not in [row[1] for row in raw.execute("PRAGMA table_info(findings)")]
    raw.close()
    assert whole(tmp_path, 1) == 1
    with open_store(tmp_path) as store:
        assert store.findings()[0].through == "hlo"


def test_artifacts_at_a_url(tmp_path):
    with open_store(f"{tmp_path}/store?artifacts=memory://findings") as store:
        store.add(finding(0), files(0))
        (found,) = store.findings()
        assert store.read(found, "module.hlo") == files(0)["module.hlo"]
    assert not (tmp_path / "store" / "artifacts").exists()
    with pytest.raises(StoreError, match="nowhere"):
        open_store(f"{tmp_path}/store?artifacts=nowhere://findings")


# ---- two writers

WRITER = """
import sys
sys.path.insert(0, {folder!r})
from store_work import files, finding
from assay.store.api import open_store
place, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_store(place) as store:
    new = sum(store.add(finding(n), files(n)) for n in range(first, last))
    for n in range(0, 30):
        store.sighted("crowd", str(n))
print(new)
"""


def two_writers(place: str, count: int) -> None:
    """Both open a store that is not there yet, and write findings of which half are the other's as well."""
    code = textwrap.dedent(WRITER).format(folder=str(Path(__file__).parent))
    spans = [(0, count), (count // 2, count + count // 2)]
    command = [sys.executable, "-c", code, place]
    running = [subprocess.Popen([*command, str(a), str(b)], stdout=subprocess.PIPE, text=True) for a, b in spans]
    said = [process.communicate(timeout=200)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sum(map(int, said)) == count + count // 2  # each is new to one of them
    with open_store(place) as store:
        assert store.count("crowd") == 30
        assert sorted(f.origin.number for f in store.findings()) == list(range(count + count // 2))
        assert sum(bucket.stored for bucket in store.buckets()) == count + count // 2
        assert sum(bucket.count for bucket in store.buckets()) == count + count // 2 + 30


def test_two_processes_write_at_once(tmp_path):
    two_writers(str(tmp_path / "store"), 60)
