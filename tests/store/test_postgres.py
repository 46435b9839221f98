"""A store in PostgreSQL, of a server that the test starts; SQLite's tests say what a store does."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import pytest
import test_robust

from assay.errors import StoreError
from assay.store.api import Filters, open_store
from assay.store.finding import Verification

pytestmark = pytest.mark.slow
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
needs_passes = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")


def programs() -> Path | None:
    """Where initdb and postgres are."""
    found = shutil.which("initdb")
    places = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((place for place in places if (place / "postgres").exists()), None)


@pytest.fixture(scope="module")
def server():
    """The URL of a database, in a socket's folder."""
    pytest.importorskip("psycopg", reason="needs assay-xla[pg]")
    place = programs()
    if place is None:
        pytest.skip("no PostgreSQL server on this machine: neither initdb on PATH nor /usr/lib/postgresql")
    user = None
    if os.geteuid() == 0:  # which PostgreSQL refuses
        user = next((u.pw_name for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody")), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short, and open to the user
    try:
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        made = [place / "initdb", "-D", data, "-U", "assay", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, user=user, cwd=folder)
        command = [place / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=folder)
        try:
            ready = [place / "pg_isready", "-h", folder, "-U", "assay"]
            for _ in range(100):
                if subprocess.run(ready, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                pytest.fail((folder / "log").read_text())
            yield f"postgresql://assay@/postgres?host={folder}"
        finally:
            process.terminate()
            process.wait(timeout=30)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def place(server, tmp_path):
    """A store in a database of its own."""
    import psycopg

    name = "d" + os.urandom(4).hex()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?") + f"&artifacts={tmp_path}/artifacts"


def test_two_processes_write_at_once(place):
    test_robust.two_writers(place, 200)


def test_kill_at_any_time(place):
    test_robust.kill_at_any_time(place, 25)


def test_what_is_put_in_comes_out(place):
    with open_store(place) as store:
        one = test_robust.finding(3)
        assert store.add(one, test_robust.files(3))
        assert not store.add(one, test_robust.files(3))
        (found,) = store.findings(Filters(target="c*"))
        assert found.culprit == one.culprit
        assert store.read(found, "module.hlo") == test_robust.files(3)["module.hlo"]
        store.mark(found.id, known="openxla/xla#1")
        assert store.findings(Filters(known=True))[0].known == "openxla/xla#1"
        campaign = store.campaign(1, {"a": 1})
        campaign.save({"next": [1, {"b": None}]})
        assert store.campaign(1, {"a": 1}).progress == {"next": [1, {"b": None}]}
        nobody = Verification("nobody", "host", "", found.verdict, None, "fixed")
        with pytest.raises(StoreError, match="foreign key"):
            store.verified(nobody)


def test_a_server_that_goes_away(place, server):
    import psycopg

    with open_store(place) as store:
        assert store.add(test_robust.finding(0), test_robust.files(0))
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert store.add(test_robust.finding(1), test_robust.files(1))  # it comes back


def test_a_database_that_is_not_there(server):
    with pytest.raises(StoreError, match="does not exist") as caught:
        open_store(server.replace("/postgres?", "/nowhere?") + "&artifacts=/tmp/x")
    assert "\n" not in str(caught.value)


SMALL = Path(__file__).parents[1] / "campaign" / "small_campaign.py"


@needs_passes
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", [(2, 4), (4, 4)], ids=["two campaigns", "one campaign twice"])
def test_two_processes_of_campaigns_at_once(place, seeds):
    """Each comes to all of its programs, and what is wrong is counted once, whoever saw it."""
    words = [[sys.executable, str(SMALL), place, str(seed), "16"] for seed in seeds]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in words]
    said = [process.communicate(timeout=1500)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    reports = [json.loads(text)["campaigns"][0] for text in said]
    assert [report["programs"] for report in reports] == [16, 16]
    assert [report["left"] for report in reports] == [0, 0]
    if len(set(seeds)) == 1:
        assert reports[0]["verdicts"] == reports[1]["verdicts"]
        reports = reports[:1]
    wrong = sum(report["verdicts"].get("mismatch", 0) for report in reports)
    assert wrong >= 2
    with open_store(place) as store:
        assert len(store.campaigns()) == len(set(seeds))
        assert sum(bucket.count for bucket in store.buckets()) == wrong
        found = [(finding.origin.seed, finding.origin.number) for finding in store.findings()]
        assert len(set(found)) == len(found) >= 2
        for finding in store.findings():
            assert all(store.read(finding, name) for name in finding.artifacts)
