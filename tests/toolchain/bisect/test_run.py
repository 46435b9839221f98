"""A whole bisection: installs, answers on disk, prunes. The toolchains are folders that hold nothing but a Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.errors import AssayError, InputError, ToolchainError
from assay.toolchain import environments
from assay.toolchain.bisect import Bisection, Question, Verdict, bisect, parse_check, run
from assay.toolchain.bisect import releases as releases_module
from assay.toolchain.environments import Toolchain, installed
from assay.toolchain.installer import NotNow
from assay.toolchain.interpreters import Interpreter, find_interpreters

VERSIONS = [f"0.6.{i}" for i in range(20)]
# The bug of these tests is in 0.6.7 to 0.6.12.
CHECK = 'echo "$ASSAY_TOOLCHAIN" >> asked; v=${ASSAY_TOOLCHAIN##*.}; sleep ${SLOW:-0}; test $v -ge 7 && test $v -le 12'


def make(folder: Path, version: str) -> None:
    place = folder / "toolchains" / f"jax-{version}"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    (place / "toolchain.json").write_text(json.dumps({"spec": f"jax=={version}", "versions": {"jaxlib": version}}))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a check in it, and a cache whose index has VERSIONS; nothing is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(releases_module, "find_interpreters", lambda: [Interpreter((3, 13, 0), "python")])
    releases_module._keep("jaxlib", ["3.13"], VERSIONS)
    (tmp_path / "check.sh").write_text(f"#!/bin/sh\n{CHECK}\n")
    (tmp_path / "check.sh").chmod(0o755)

    def add(spec: str, progress: Callable[[str], None] | None = None) -> Toolchain:
        make(tmp_path / "cache", spec.partition("==")[2])
        return next(t for t in installed() if t.spec == spec)

    monkeypatch.setattr(environments, "add", add)
    return tmp_path


def asked(folder: Path) -> list[str]:
    return [line.partition("==")[2] for line in (folder / "asked").read_text().split()]


def ask(**options: object) -> Bisection:
    return bisect(Question("jaxlib", parse_check("./check.sh", None), **options))  # type: ignore[arg-type]


def names(found: Bisection) -> set[tuple[str, str]]:
    return {(found.row[c.good].version, found.row[c.bad].version) for c in found.changes}


def test_both_ends_of_a_bug_that_came_and_went(here: Path) -> None:
    found = ask(bad="0.6.9")
    assert names(found) == {("0.6.6", "0.6.7"), ("0.6.13", "0.6.12")}
    assert [t.version for t in found.trials] == sorted(asked(here), key=lambda v: int(v[4:]))
    assert found.untried == 20 - len(asked(here))
    assert {t.verdict for t in found.trials if 7 <= int(t.version[4:]) <= 12} == {Verdict.PRESENT}


@pytest.mark.parametrize(
    ("good", "bad", "change"), [("0.6.0", "0.6.10", ("0.6.6", "0.6.7")), ("0.6.19", "0.6.12", ("0.6.13", "0.6.12"))]
)
def test_between_two(here: Path, good: str, bad: str, change: tuple[str, str]) -> None:
    assert names(ask(good=good, bad=bad)) == {change}


def test_what_the_user_says_is_checked(here: Path) -> None:
    with pytest.raises(AssayError, match=r"--good 0.6.8: the bug is present there"):
        ask(good="0.6.8", bad="0.6.10")
    with pytest.raises(AssayError, match=r"--bad 0.6.3: the bug is absent there"):
        ask(bad="0.6.3")


def test_one_release_cannot_be_both(here: Path) -> None:
    with pytest.raises(InputError, match=r"--good 0.6.8 --bad 0.6.8: one and the same release"):
        ask(good="0.6.8", bad="0.6.8")
    assert not (here / "asked").exists()  # nothing was run for it


def test_no_more_than_four_of_its_own_are_kept_and_others_are_left_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(here / "cache", "0.6.19")
    most, real = [], run.try_it
    monkeypatch.setattr(run, "try_it", lambda *a: (most.append(len(installed())), real(*a))[1])
    found = ask(bad="0.6.9")
    assert len(found.trials) > 7
    assert max(most) == run.KEPT + 1 + 1  # and the one that was there
    left = {t.spec for t in installed()}
    assert "jax==0.6.19" in left
    assert {"jax==0.6.12", "jax==0.6.13"} <= left  # the ends of the change found last


def test_keep_keeps(here: Path) -> None:
    assert len(ask(bad="0.6.9", keep=True).trials) == len(installed())


def test_resume_asks_nothing_again_and_a_fresh_run_everything(here: Path) -> None:
    first = ask(bad="0.6.9")
    count = len(asked(here))
    assert ask(bad="0.6.9", resume=True).trials == first.trials
    assert len(asked(here)) == count
    ask(bad="0.6.9")
    assert len(asked(here)) == 2 * count
    (here / "check.sh").write_text((here / "check.sh").read_text() + "# another question\n")
    ask(bad="0.6.9", resume=True)
    assert len(asked(here)) == 3 * count


def test_resume_tries_again_what_was_skipped(here: Path) -> None:
    right = (here / "check.sh").read_text()
    (here / "check.sh").write_text("#!/bin/sh\n. ./inner.sh\n")
    (here / "inner.sh").write_text(right.replace("test $v -ge 7", "{ test $v -ne 6 || exit 2; } && test $v -ge 7"))
    assert names(ask(good="0.6.0", bad="0.6.10")) == {("0.6.5", "0.6.7")}
    (here / "inner.sh").write_text(right)
    assert names(ask(good="0.6.0", bad="0.6.10", resume=True)) == {("0.6.6", "0.6.7")}
    assert asked(here)[-1] == "0.6.6"


def test_a_journal_that_was_cut_short_is_read_up_to_there(here: Path) -> None:
    first = ask(bad="0.6.9")
    count, path = len(asked(here)), Path(first.journal)
    text = path.read_text()
    path.write_text(text[: text.rindex("\n", 0, len(text) - 1) + 9])  # within the last answer
    assert ask(bad="0.6.9", resume=True).changes == first.changes
    assert len(asked(here)) == count + 1


def test_releases_that_do_not_install_widen_the_change_with_their_reason(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = environments.add

    def add(spec: str, progress: Callable[[str], None] | None = None) -> Toolchain:
        if spec in ("jax==0.6.6", "jax==0.6.7"):
            raise ToolchainError(f"{spec} cannot be installed here: it needs Python 3.8")
        return real(spec, progress)

    monkeypatch.setattr(environments, "add", add)
    found = ask(good="0.6.0", bad="0.6.10")
    assert names(found) == {("0.6.5", "0.6.8")}
    assert [found.row[i].version for i in found.changes[0].skipped] == ["0.6.6", "0.6.7"]
    assert {t.said for t in found.trials if t.verdict is Verdict.SKIPPED} == {
        f"jax==0.6.{i} cannot be installed here: it needs Python 3.8" for i in (6, 7)
    }


def test_no_network_stops_and_is_no_answer(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(spec: str, progress: Callable[[str], None] | None = None) -> Toolchain:
        raise NotNow("no network")

    real = environments.add
    monkeypatch.setattr(environments, "add", add)
    with pytest.raises(ToolchainError, match="no network"):
        ask(bad="0.6.9")
    monkeypatch.setattr(environments, "add", real)
    assert len(ask(bad="0.6.9", resume=True).changes) == 2


def test_a_full_disk_is_told_before_anything_is_installed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with pytest.raises(ToolchainError, match=r"1\.0 GB free.*less than 3 GB.*ASSAY_CACHE"):
        ask(bad="0.6.9")
    assert installed() == []


def test_a_check_that_never_tells_is_given_up_after_three(here: Path) -> None:
    (here / "check.sh").write_text("#!/bin/sh\necho >> asked x==1; sleep 0.1; echo broken >&2; exit 2\n")
    with pytest.raises(AssayError, match="cannot tell, in 3 releases for the same reason: broken"):
        ask()
    assert len(asked(here)) == 3


def test_a_killed_run_goes_on_where_it_stopped(here: Path) -> None:
    for version in VERSIONS:
        make(here / "cache", version)
    releases_module._keep("jaxlib", [p.minor for p in find_interpreters()], VERSIONS)
    command = [
        sys.executable,
        "-m",
        "assay.cli.main",
        "bisect",
        "--check",
        "./check.sh",
        "--bad",
        "0.6.9",
        "--json",
        "-",
    ]
    killed = subprocess.Popen(
        command, env={**os.environ, "SLOW": "0.5"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    journal = here / "cache" / "bisect"
    while sum(f.read_text().count('"verdict"') for f in journal.glob("*.jsonl")) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    time.sleep(0.7)  # the check that was running ends by itself
    before = asked(here)
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=120)
    result = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert {(c["good"], c["bad"]) for c in result["changes"]} == {("0.6.6", "0.6.7"), ("0.6.13", "0.6.12")}
    assert not set(before[:3]) & set(asked(here)[len(before) :])
