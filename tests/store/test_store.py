"""A store end to end, in a folder: what is put in comes out, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import InputError, StoreError
from assay.oracle.verdict import MismatchClass, Verdict
from assay.store.api import Filters, open_store
from assay.store.finding import (
    Culprit,
    Finding,
    Origin,
    Severity,
    Standing,
    Verification,
    bucket_of,
    finding_dict,
    severity_of,
    standing_of,
)

CULPRIT = Culprit("algsimp", "reshape.3", "reshape", "zeros in rows 3..7")
FINDING = Finding(
    Verdict.MISMATCH,
    "cpu",
    "jax==0.10.2",
    MismatchClass.MISCOMPILE,
    "3 of 12 elements are wrong",
    {"jax": "0.10.2", "jaxlib": "0.10.2", "python": "3.11.7"},
    {"xla_backend_optimization_level": "1"},
    ("--xla_cpu_enable_fast_math=false",),
    CULPRIT,
    Origin("c0", 7, 41, ""),
    seconds=1.5,
    outside=3,
    elements=12,
)
FILES = {"module.hlo": b"HloModule m", "inputs.npz": b"PK", "report.json": b"{}"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store") as found:
        yield found


def test_what_is_put_in_comes_out(store):
    assert store.add(FINDING, FILES)
    (found,) = store.findings()
    for name in ("verdict", "klass", "why", "versions", "options", "flags", "culprit", "origin", "found_at", "seconds"):
        assert getattr(found, name) == getattr(FINDING, name), name
    assert {name: store.read(found, name) for name in found.artifacts} == FILES
    assert store.get(found.id[:6]) == found == store.get(found.id)
    assert finding_dict(found)["culprit"]["pass"] == "algsimp"


def test_again_is_not_new_whatever_it_is_put_down_to(store):
    assert store.add(FINDING, FILES)
    other = Finding(**{n: getattr(FINDING, n) for n in ("verdict", "target", "toolchain", "klass")})
    same = Finding(
        FINDING.verdict, "cpu", FINDING.toolchain, FINDING.klass, "other words", FINDING.versions, FINDING.options,
        FINDING.flags, Culprit("another-pass"), Origin("c1", 8, 1), seconds=9.0,
    )  # fmt: skip
    assert not store.add(same, {**FILES, "report.json": b'{"other": 1}'})
    assert [b.name for b in store.buckets()] == [FINDING.bucket]
    assert store.count(FINDING.bucket) == 1
    assert store.add(other, FILES)  # another compiler
    assert store.add(FINDING, {**FILES, "inputs.npz": b"PK2"})  # other inputs
    assert len(store.findings()) == 3


def test_a_program_is_counted_once(store):
    bucket = FINDING.bucket
    assert store.bucket(bucket) is None
    assert store.count(bucket) == 0
    assert [store.sighted(bucket, f"c0/7/{n}") for n in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    store.add(FINDING, FILES)  # c0/7/41
    assert not store.sighted(bucket, "c0/7/41")
    store.cap(bucket)
    found = store.bucket(bucket)
    assert (found.count, found.stored, found.capped) == (4, 1, True)
    assert found.first_seen <= found.last_seen


def test_buckets_go_by_culprit_and_class():
    name = bucket_of(Verdict.MISMATCH, MismatchClass.MISCOMPILE, CULPRIT)
    assert name == "algsimp.reshape.zeros-in-rows-n-n.miscompile"
    moved = Culprit("algsimp", "reshape.77", "reshape", "zeros in rows 100..1.5e+20")
    assert bucket_of(Verdict.MISMATCH, MismatchClass.MISCOMPILE, moved) == name
    for other in (
        bucket_of(Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION, CULPRIT),
        bucket_of(Verdict.CRASH, None, CULPRIT),
        bucket_of(Verdict.MISMATCH, MismatchClass.MISCOMPILE, Culprit("algsimp", "", "slice", "zeros in rows 3..7")),
        bucket_of(Verdict.MISMATCH, MismatchClass.MISCOMPILE, Culprit("fusion", "", "reshape", "zeros in rows 3..7")),
    ):
        assert other != name
    long = [bucket_of(Verdict.CRASH, None, Culprit(pattern="x" * 300 + end)) for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) <= 160


def test_silent_ones_first():
    assert severity_of(Verdict.MISMATCH, MismatchClass.MISCOMPILE) is Severity.SILENT
    assert severity_of(Verdict.NONDETERMINISTIC, None) is Severity.SILENT
    assert severity_of(Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION) is Severity.LIBERTY
    assert severity_of(Verdict.CRASH, None) is severity_of(Verdict.HANG, None) is Severity.LOUD


def test_what_is_no_finding_is_not_stored():
    for verdict in (Verdict.AGREE, Verdict.UNVERIFIED, Verdict.INVALID):
        with pytest.raises(ValueError, match="no finding"):
            Finding(verdict, "cpu", "host")


def test_filters(store):
    crash = Finding(Verdict.CRASH, "tpu:v5e", "jax==0.12.0.1,libtpu==0.0.52", origin=Origin("c1", 1, 1))
    store.add(crash, {"module.hlo": b"crash"})
    store.add(FINDING, FILES)
    store.mark(store.findings(Filters(verdict=Verdict.CRASH))[0].id, known="https://github.com/openxla/xla/issues/1")
    assert [f.verdict for f in store.findings()] == [Verdict.MISMATCH, Verdict.CRASH]
    for filters, count in (
        (Filters(verdict=Verdict.CRASH), 1),
        (Filters(severity=Severity.SILENT), 1),
        (Filters(target="tpu:*"), 1),
        (Filters(toolchain="jax==0.1*"), 2),
        (Filters(pass_name="algsimp", opcode="reshape"), 1),
        (Filters(pass_name="algsim_"), 0),
        (Filters(bucket="*.crash"), 1),
        (Filters(campaign="c1"), 1),
        (Filters(known=True), 1),
        (Filters(known=False), 1),
        (Filters(limit=1), 1),
        (Filters(target="gpu"), 0),
    ):
        assert len(store.findings(filters)) == count, filters


def test_more_can_be_said_of_a_finding(store):
    store.add(FINDING, FILES)
    (found,) = store.findings()
    attached = store.attach(found.id, {"reduced.hlo": b"small"})
    assert attached == store.get(found.id)
    assert store.read(attached, "reduced.hlo") == b"small"
    store.mark(found.id, note="seen by hand")
    store.mark(found.id, known="openxla/xla#5")
    assert (store.get(found.id).note, store.get(found.id).known) == ("seen by hand", "openxla/xla#5")
    with pytest.raises(InputError, match="add another finding"):
        store.attach(found.id, {"module.hlo": b"another"})
    assert store.read(store.get(found.id), "module.hlo") == FILES["module.hlo"]
    with pytest.raises(InputError, match="has no missing"):
        store.read(found, "missing.txt")


@pytest.mark.parametrize("killed", [False, True])
def test_what_may_not_be_written_can_be_read(tmp_path, monkeypatch, killed):
    """killed: the last process that wrote did not end well, and left what it wrote ahead."""
    writes = "from assay.store.api import open_store; import os, sys; sys.path.insert(0, sys.argv[2]); "
    writes += "from test_store import FINDING, FILES; store = open_store(sys.argv[1]); store.add(FINDING, FILES); "
    writes += "os._exit(0)" if killed else "store.close()"
    place = tmp_path / "a store"
    subprocess.run([sys.executable, "-c", writes, str(place), str(Path(__file__).parent)], check=True)
    assert (place / "findings.db-wal").exists() == killed
    before = {path.name for path in place.iterdir()}
    monkeypatch.setattr(os, "access", lambda *_: False)  # for root may do anything
    with open_store(place, create=False) as store:
        (found,) = store.findings()
        assert store.read(found, "inputs.npz") == FILES["inputs.npz"]
        with pytest.raises(StoreError, match="may not be written; copy the folder and name the copy"):
            store.mark(found.id, note="x", known=None)
    assert {path.name for path in place.iterdir()} == before


def test_ids_that_name_none_or_several(store):
    for name in ("", "zz", "%"):
        with pytest.raises(InputError, match="no finding"):
            store.get(name)
    for number in range(40):
        store.add(FINDING, {"module.hlo": b"%d" % number})
    first = [f.id[0] for f in store.findings()]
    twice = next(c for c in first if first.count(c) > 1)
    with pytest.raises(InputError, match="several ids begin"):
        store.get(twice)


def test_a_campaign_goes_on_where_it_was(tmp_path):
    settings = {"targets": ["cpu"], "depth": 7}
    with open_store(tmp_path) as store:
        campaign = store.campaign(3, settings)
        assert campaign.progress == {}
        campaign.save({"next": 12, "coverage": [["add", "mul"]]})
        assert store.campaign(4, settings).progress == {}
    with open_store(tmp_path) as store:
        assert store.campaign(3, dict(reversed(settings.items()))).progress == {
            "next": 12,
            "coverage": [["add", "mul"]],
        }
        assert [c.seed for c in store.campaigns()] == [3, 4]


def test_verifications(store):
    store.add(FINDING, FILES)
    (found,) = store.findings()
    for at, verdict, klass, standing in (
        ("2026-01-01T00:00:00.000Z", Verdict.MISMATCH, MismatchClass.MISCOMPILE, Standing.STILL),
        ("2026-01-02T00:00:00.000Z", Verdict.AGREE, None, Standing.FIXED),
        ("2026-01-03T00:00:00.000Z", Verdict.UNVERIFIED, None, Standing.UNVERIFIED),
        ("2026-01-04T00:00:00.000Z", Verdict.INVALID, None, Standing.UNVERIFIED),
        ("2026-01-05T00:00:00.000Z", Verdict.CRASH, None, Standing.CHANGED),
        ("2026-01-06T00:00:00.000Z", Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION, Standing.CHANGED),
    ):
        assert standing_of(found, verdict, klass) is standing
        store.verified(Verification(found.id, "jax==0.12.0.1", "jax 0.12.0.1", verdict, klass, standing, at=at))
    assert standing_of(found, Verdict.NONDETERMINISTIC, None) is Standing.STILL
    assert [v.standing for v in store.verifications(found.id)][:2] == [Standing.STILL, Standing.FIXED]
    assert len(store.verifications()) == 6
    with pytest.raises(StoreError):
        store.verified(Verification("nobody", "host", "", Verdict.AGREE, None, Standing.FIXED))


def test_what_a_compiler_says_may_be_any_bytes(store):
    said = Finding(Verdict.CRASH, "cpu", "host", why="a\0b \udcff ü", culprit=Culprit(pattern="\0"))
    store.add(said, {"module.hlo": b"\0"})
    assert store.findings()[0].why == "a\ufffdb ? ü"


def test_the_command_line_does_not_load_a_database():
    code = """
import sys, assay.cli.app, assay.store.api
print([m for m in ('sqlalchemy', 'alembic', 'fsspec') if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
