"""A campaign from its settings to its findings, stopped and gone on with."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from assay.campaign.api import Options, Watch, fuzz
from assay.campaign.run import Progress
from assay.campaign.settings import Settings
from assay.campaign.triage import Limits
from assay.errors import InputError
from assay.oracle.verdict import Verdict
from assay.store.api import open_store

WRONG = Path(__file__).parents[1] / "checking" / "wrong_compilers.py"
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
QUIET = Watch(lambda settings, progress: None, lambda progress: None, lambda finding: None)

needs_passes = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")


def settings(**more: object) -> Settings:
    return Settings(seed=1, target="cpu", batch=8, epoch=2, operations=(1, 3), **more)  # type: ignore[arg-type]


@needs_passes
def test_a_wrong_compiler_is_found_reduced_tested_and_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_PASS", "minus")
    wrong = settings(ops=("sub", "transpose", "reshape"), preload=str(WRONG))
    options = Options(programs=16, jobs=1, limits=Limits(reduce_s=10, kept=1))
    (report,) = fuzz([wrong], str(tmp_path), options, QUIET)
    assert report.programs == 16
    assert report.verdicts[str(Verdict.MISMATCH)] >= 2
    assert len(report.buckets) == 1
    with open_store(tmp_path) as store:
        (finding,) = store.findings()
        assert "subtract" in finding.culprit.opcode or "add" in finding.culprit.opcode
        assert {"program.py", "module.hlo", "reduced.hlo", "reduced_inputs.npz", "issue.md"} <= finding.artifacts.keys()
        reduced = store.read(finding, "reduced.hlo").decode()
        assert reduced.count(" = ") <= 3, "two parameters and a subtraction"
        assert store.count(finding.bucket) == report.verdicts[str(Verdict.MISMATCH)], "the others are counted"
        told = finding.note
    assert told.startswith("no test"), "the wrong pass is in assay's workers and nowhere else"
    with pytest.raises(InputError, match=r"was begun \(16 programs\); go on with --resume"):
        fuzz([wrong], str(tmp_path), options, QUIET)
    (again,) = fuzz([wrong], str(tmp_path), Options(programs=16, jobs=1, resume=True), QUIET)
    assert again.verdicts == report.verdicts
    assert [row.id for row in again.found] == [row.id for row in report.found]


def test_progress_is_the_same_after_a_round_trip() -> None:
    progress = Progress({0, 1, 2, 5}, corpus=[(1, (4, 5))], reached={"add f32": 1.0}, waiting={5: [("dot f32", (1,))]})
    progress.tally.verdicts[Verdict.AGREE] = 7
    progress.told["enough of its kind"] = 2
    again = Progress.of(json.loads(json.dumps(progress.as_dict())))
    assert again == progress


def test_no_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--time 1h, or --programs"):
        fuzz([settings()], str(tmp_path), Options(), QUIET)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    """Killed at random, the whole group or its workers, and begun again, a campaign comes to what it comes to when it
    is left alone.
    """
    words = [
        sys.executable,
        "-m",
        "assay.cli.main",
        "fuzz",
        "--target",
        "cpu",
        "--programs",
        "96",
        "--operations",
        "1-3",
    ]
    words += ["--seed", "5", "--jobs", "2", "--json", "-"]
    whole = json.loads(
        subprocess.run([*words, "--store", str(tmp_path / "a")], capture_output=True, check=False).stdout
    )
    rng = random.Random(0)
    for _ in range(int(os.environ.get("ASSAY_KILLS", "8"))):
        process = subprocess.Popen(
            [*words, "--resume", "--store", str(tmp_path / "b")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(1, 12))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run([*words, "--resume", "--store", str(tmp_path / "b")], capture_output=True, check=False)
    last = json.loads(done.stdout)
    mine, theirs = last["campaigns"][0], whole["campaigns"][0]
    assert mine["verdicts"] == theirs["verdicts"]
    assert mine["reached"]
    assert {f for f, _ in mine["reached"]} == {f for f, _ in theirs["reached"]}
    assert [row["number"] for row in mine["found"]] == [row["number"] for row in theirs["found"]]
