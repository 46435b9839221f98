"""A campaign from its settings to its findings, stopped and gone on with."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from assay.campaign import api, run
from assay.campaign.api import Options, Watch, fuzz
from assay.campaign.follow import LEAST_S, Followed, Limits
from assay.campaign.lanes import Gone, Lanes
from assay.campaign.run import Progress
from assay.campaign.settings import Settings
from assay.errors import InputError, StoreError, ToolchainError
from assay.oracle.verdict import Verdict
from assay.report.campaign import as_json, exit_code, show
from assay.store.api import open_store

WRONG = Path(__file__).parents[1] / "checking" / "wrong_compilers.py"
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
QUIET = Watch(lambda settings, progress: None, lambda progress: None, lambda finding: None)

needs_passes = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")


def settings(**more: object) -> Settings:
    return Settings(seed=1, target="cpu", batch=8, epoch=2, operations=(1, 3), **more)  # type: ignore[arg-type]


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """On a compiler that adds where it is to subtract."""
    monkeypatch.setenv("WRONG_PASS", "minus")
    return settings(ops=("sub", "transpose", "reshape"), preload=str(WRONG))


@needs_passes
@pytest.mark.timeout(900)
def test_a_wrong_compiler_is_found_reduced_tested_and_stored_once(tmp_path: Path, wrong: Settings) -> None:
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


@needs_passes
@pytest.mark.timeout(900)
def test_what_another_campaign_on_the_same_compiler_stored_is_told_and_not_reduced_again(
    tmp_path: Path, wrong: Settings
) -> None:
    options = Options(programs=16, jobs=1, limits=Limits(reduce_s=10, kept=1))
    (first,) = fuzz([wrong], str(tmp_path), options, QUIET)
    assert len(first.found) == 1
    with open_store(tmp_path) as store:
        (bucket,) = (found.bucket for found in store.findings())
        before = store.count(bucket)
        loop = run.Loop(replace(wrong, seed=2), store, 16)
        full = loop._work(run.Task(0, triage=True))[1][-1]
        assert list(full.values()) == [1], "a process is told of it"
        right = run.Loop(replace(wrong, seed=2, preload=""), store, 16)
        assert right._work(run.Task(0, triage=True))[1][-1] == {}, "of another compiler it says nothing"
    (second,) = fuzz([replace(wrong, seed=3)], str(tmp_path), options, QUIET)
    mismatches = second.verdicts[str(Verdict.MISMATCH)]
    assert mismatches >= 2
    assert (second.found, second.told) == ((), {"enough of its kind": mismatches})
    with open_store(tmp_path) as store:
        assert store.count(bucket) == before + mismatches


def test_progress_is_the_same_after_a_round_trip() -> None:
    progress = Progress({0, 1, 2, 5}, corpus=[(1, (4, 5))], reached={"add f32": 1.0}, waiting={5: [("dot f32", (1,))]})
    progress.suspects = {41: False, 17: True}
    progress.tally.verdicts[Verdict.AGREE] = 7
    progress.told["enough of its kind"] = 2
    data = json.loads(json.dumps(progress.as_dict()))
    assert Progress.of(data) == progress
    del data["suspects"]  # as a campaign of an earlier assay has it
    assert Progress.of(data) == replace(progress, suspects={})


def test_no_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--time 1h, or --programs"):
        fuzz([settings()], str(tmp_path), Options(), QUIET)


@needs_passes
@pytest.mark.timeout(900)
def test_what_is_not_followed_in_time_is_noted_told_and_followed_later(
    tmp_path: Path, wrong: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AFTER_S", 1e6)  # so there is never time for a triage
    options = Options(time_s=600, programs=8, jobs=1, limits=Limits(reduce_s=10, kept=1))
    start = time.monotonic()
    (report,) = fuzz([wrong], str(tmp_path), options, QUIET)
    assert time.monotonic() - start < 300, "it does not wait for the end with nothing to do"
    assert report.left == report.verdicts[str(Verdict.MISMATCH)] >= 1
    assert (report.programs, report.found, exit_code([report])) == (8, (), 2)
    assert json.loads(as_json([report]))["campaigns"][0]["left"] == report.left
    console = Console(file=io.StringIO(), width=100)
    show([report], console)
    said = console.file.getvalue()
    assert "NOTHING STORED YET" in said
    assert f"{report.left} wrong program" in said
    assert "go on with --resume" in said
    (again,) = fuzz([wrong], str(tmp_path), Options(programs=8, jobs=1, resume=True, limits=options.limits), QUIET)
    assert again.verdicts == report.verdicts, "no program was judged again"
    assert (again.left, exit_code([again])) == (0, 1)
    with open_store(tmp_path) as store:
        (finding,) = store.findings()
        assert store.count(finding.bucket) == report.left
        assert json.loads(store.read(finding, "report.json"))["case"]["verdict"] == "mismatch"


class Turns:
    """A loop that has so many turns to do, and uses each up; the last is short."""

    def __init__(self, name: str, turns: int, told: list[str]) -> None:
        self.settings, self.progress, self.deadline = settings(), Progress(), None
        self.name, self.turns, self.told = name, turns, told

    def run(self, lanes: object, telling: object) -> Iterator[None]:
        self.told.append(self.name)
        self.turns -= 1
        if self.turns > 0 and self.deadline is not None:
            time.sleep(max(self.deadline - time.monotonic(), 0) + 0.01)
        yield from ()


def test_targets_take_turns_until_each_has_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "TURN_S", 0.05)
    told: list[str] = []
    loops: Any = [Turns("a", 3, told), Turns("b", 1, told)]
    api._turns(loops, None, None, QUIET)  # type: ignore[arg-type]
    assert told == ["a", "b", "a"], "alone it has no turns"
    told.clear()
    loops = [Turns("a", 9, told), Turns("b", 9, told)]
    start = time.monotonic()
    api._turns(loops, None, start + 0.3, QUIET)  # type: ignore[arg-type]
    assert told[:4] == ["a", "b", "a", "b"]
    assert 0.3 <= time.monotonic() - start < 2, "until the end"


def test_the_end_is_kept_whatever_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE_S", 1.0)
    with open_store(tmp_path) as store, Lanes(2) as lanes:
        loop = run.Loop(settings(), store, 16)
        loop.progress.suspects = {3: False, 4: True}
        monkeypatch.setattr(run.Loop, "_work", lambda self, task: (time.sleep, (1000,)))
        monkeypatch.setattr(run, "AFTER_S", 0.0)
        monkeypatch.setattr(run, "LEAST_S", 0.0)
        loop.end = loop.deadline = time.monotonic() + 1
        start = time.monotonic()
        assert list(loop.run(lanes, lambda progress: None)) == []
        assert 1.9 < time.monotonic() - start < 20
        assert loop.progress.suspects == {3: False, 4: True}
        assert loop.progress.done == set()


def test_a_reduction_ends_in_time() -> None:
    limits = Limits(reduce_s=100, loud_s=20)
    assert (limits.budget_s(loud=False), limits.budget_s(loud=True)) == (100, 20)
    soon = replace(limits, until=time.monotonic() + 30)
    assert 12 < (soon.budget_s(loud=False) or 0) <= 15, "half of it is for what comes after"
    assert 12 < (soon.budget_s(loud=True) or 0) <= 15
    assert replace(limits, until=time.monotonic() + LEAST_S - 1).budget_s(loud=True) is None
    assert replace(limits, reduce_s=1.0).budget_s(loud=False) == 1


def test_what_goes_first() -> None:
    loop = run.Loop.__new__(run.Loop)
    loop.progress = Progress(suspects={1: True, 2: False, 3: False, 4: True})
    loop._running, loop._late, loop._again, loop._quiet = {}, {3}, run.deque([7]), 0
    loop.deadline = loop.end = None
    numbers = iter([*range(10, 17), None])
    order = []
    while (task := loop._next(numbers)) is not None:
        order.append((task.number, task.triage))
        if task.triage:
            del loop.progress.suspects[task.number]
    batches = [(number, False) for number in (7, *range(10, 17))]
    assert order == [(2, True), *batches, (1, True), (4, True)], "4: while an epoch has to end first"
    assert loop.progress.suspects == {3: False}


def test_what_is_lost_is_done_again_and_then_told(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        loop = run.Loop(settings(), store, 16)
        loop.progress.suspects = {3: False}
        batch, suspect = run.Task(1, triage=False), run.Task(3, triage=True)
        for _ in range(run.TRIES - 1):
            loop._lost(batch, Gone(killed=False))
            loop._lost(suspect, Gone(killed=False))
        assert list(loop._again) == [1] * (run.TRIES - 1)
        assert (loop.progress.done, loop.progress.suspects) == (set(), {3: False})
        for _ in range(run.TRIES):
            loop._lost(batch, Gone(killed=True))
        assert (loop.progress.done, loop.progress.suspects) == (set(), {3: False}), "which was not its fault"
        loop._lost(batch, Gone(killed=False))
        loop._lost(suspect, Gone(killed=False))
        assert loop.progress.tally.verdicts == {Verdict.UNVERIFIED: 8}
        assert (loop.progress.done, loop.progress.suspects) == ({1}, {})
        assert loop.progress.told.total() == 1
        ended, not_triaged = loop.progress.examples
        assert loop.progress.examples == {ended: [8, 9, 10, 11, 12], not_triaged: [3]}, "the first, to be replayed"
        assert Progress.of(store.campaign(1, settings().as_dict()).progress) == loop.progress
        slow = run.Task(0, triage=False)
        for _ in range(run.SLOW_TRIES):
            loop._lost(slow, TimeoutError())
        assert loop.progress.done == {0, 1}
        for _ in range(run.TRIES - 1):
            loop._lost(run.Task(2, triage=False), ToolchainError("no server"))
        with pytest.raises(ToolchainError, match="no server"):
            loop._lost(run.Task(2, triage=False), ToolchainError("no server"))


class Answers:
    """A lane with one answer."""

    def __init__(self, answer: Followed) -> None:
        self._answer = answer

    def answer(self) -> Followed:
        return self._answer


def test_a_suspect_that_is_not_seen_again_is_looked_at_thrice_and_told(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        loop = run.Loop(settings(), store, 16)
        loop.progress.suspects = {3: False, 4: False}
        unseen: Any = Answers(Followed(why="not seen", unsure=True))
        for _ in range(run.UNSURE_TRIES):
            assert loop.progress.told == {}
            assert list(loop._ended(run.Task(3, triage=True), unseen)) == []
        assert (loop.progress.told, loop.progress.suspects) == ({"not seen": 1}, {4: False})
        late: Any = Answers(Followed(late=True))
        assert list(loop._ended(run.Task(4, triage=True), late)) == []
        assert (loop.progress.suspects, loop._late) == ({4: False}, {4}), "it is kept for the next sitting"


def test_a_full_disk_for_temporary_files_ends_it() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/tmp/x")
    with pytest.raises(StoreError, match="/tmp/x: No space left on device; make room"):
        run.refuse_full_disk(full)
    run.refuse_full_disk(OSError(errno.ENOENT, "no such file"))
    run.refuse_full_disk(ValueError("else"))


SMALL = Path(__file__).with_name("small_campaign.py")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_learned_does_not_depend_on_the_order_in_which_batches_end(seed: int) -> None:
    """Of two epochs under way the later may end first, as where a batch of the earlier was lost and is done again."""
    reached = {n: {f"f{n}": (n,), f"f{n % 5}": (n, n), f"g{n // 3}": (n, 1)} for n in range(12)}
    found = []
    for order in (list(range(12)), random.Random(seed).sample(range(12), 12)):
        progress = Progress()
        for number in order:
            progress.done.add(number)
            progress.learn(number, reached[number], 4)
        found.append((progress.corpus, set(progress.reached), progress.waiting))
    assert found[0] == found[1]
    assert not found[0][2]
    assert [since for since, _ in found[0][0]] == sorted(since for since, _ in found[0][0])


def small(store: Path, programs: int, **more: Any) -> subprocess.Popen[str]:
    words = [sys.executable, str(SMALL), str(store), "5", str(programs)]
    env = {**os.environ, "ASSAY_TEST_STORE": str(store)}
    return subprocess.Popen(words, env=env, text=True, start_new_session=True, **more)


def of_store(store: Path) -> list[psutil.Process]:
    """All processes of its campaign."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ASSAY_TEST_STORE") == str(store):
                found.append(process)
    return found


def parts(campaign: subprocess.Popen[str]) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Its own processes, and the workers of those."""
    lanes, workers = [], []
    with contextlib.suppress(psutil.Error):
        for lane in psutil.Process(campaign.pid).children():
            if "spawn_main" in " ".join(lane.cmdline()):
                lanes.append(lane)
                workers += [child for child in lane.children(recursive=True) if "worker" in " ".join(child.cmdline())]
    return lanes, workers


def wait_for_work(campaign: subprocess.Popen[str]) -> None:
    """Until it has a worker, or has ended."""
    while campaign.poll() is None and not parts(campaign)[1]:
        time.sleep(0.1)


def kill(kind: str, campaign: subprocess.Popen[str], rng: random.Random) -> bool:
    """Kills a process of the campaign, or all that are in its group; whether there was one."""
    if kind == "group":
        os.killpg(campaign.pid, signal.SIGKILL)
    elif kind == "campaign":
        campaign.kill()
    else:
        lanes, workers = parts(campaign)
        try:
            rng.choice(lanes if kind == "lane" else workers).kill()
        except (psutil.Error, IndexError):
            return False
    return True


@needs_passes
@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_kills_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    """Killed at random, all of it, the campaign alone, a process of its own or a worker, and begun again, a campaign
    comes to what it comes to when it is left alone.
    """
    rng = random.Random(0)
    kills, programs = int(os.environ.get("ASSAY_KILLS", "8")), 64
    alone, disturbed = tmp_path / "a", tmp_path / "b"
    done, running = Counter[str](), small(disturbed, programs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while done.total() < kills:
        wait_for_work(running)
        time.sleep(rng.uniform(0, 8))
        kind = rng.choice(("group", "campaign", "lane", "lane", "worker", "worker"))
        ended = running.poll() is not None
        if not ended:
            done[kind] += kill(kind, running, rng)
        if ended or kind in ("group", "campaign"):
            running.wait()
            programs += 64 * ended  # all that there was to do is done
            running = small(disturbed, programs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running.kill()
    running.wait()
    last, _ = small(disturbed, programs, stdout=subprocess.PIPE).communicate()
    whole, _ = small(alone, programs, stdout=subprocess.PIPE).communicate()
    (theirs,), (mine,) = json.loads(whole)["campaigns"], json.loads(last)["campaigns"]
    print(done, mine["seconds"], mine["verdicts"], mine["told"])
    assert mine["verdicts"] == theirs["verdicts"]
    assert mine["verdicts"][str(Verdict.MISMATCH)] >= 3
    assert {f for f, _ in mine["reached"]} == {f for f, _ in theirs["reached"]}
    assert mine["left"] == 0
    for one in (mine, theirs):
        assert len(one["found"]) + sum(one["told"].values()) == one["verdicts"][str(Verdict.MISMATCH)]
    with open_store(alone) as a, open_store(disturbed) as b:
        kept = [[(x.name, x.count, x.stored) for x in sorted(s.buckets(), key=lambda x: x.name)] for s in (a, b)]
        assert kept[0] == kept[1]
        found = b.findings()
        assert len({f.origin.number for f in found}) == len(found) == len(mine["found"])
        for finding in found:
            assert {"module.hlo", "inputs.npz", "reduced.hlo", "issue.md"} <= finding.artifacts.keys()
            assert all(b.read(finding, name) for name in finding.artifacts)
    end = time.monotonic() + 30
    while (left := of_store(disturbed)) and time.monotonic() < end:
        time.sleep(0.5)
    assert left == []
