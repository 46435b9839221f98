"""`assay fuzz` and `assay replay`: what is wrong with a command is one line, and so is what an interrupt keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.campaign import api
from assay.campaign.run import Progress
from assay.campaign.settings import Settings
from assay.errors import StoreError
from assay.oracle.verdict import Verdict
from assay.store.api import open_store

SOME = ["--programs", "4"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    (tmp_path / "a_file").touch()
    (tmp_path / "broken.toml").write_text('about = "x')
    (tmp_path / "hole.toml").write_text('about = "x"\nresults = ["a"]\n[[steps]]\nname = "a"\ntext = "{b} + 1"\n')
    (tmp_path / "empty.toml").write_text('about = "x"\n')
    with open_store(tmp_path / "begun") as store:
        campaign = store.campaign(1, Settings(1, "cpu", operations=(1, 3)).as_dict())
        campaign.save(Progress({0}).as_dict())
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fuzz"], "say when to stop: --time 1h, or --programs 2000"),
        (["fuzz", "--time", "soon"], "write a time such as 30s"),
        (["fuzz", "--time", "0s"], "--time 0s: no time at all"),
        (["fuzz", "--time=-5m"], "write a time such as 30s"),
        (["fuzz", "--programs", "0"], "greater than or equal to 1"),
        (["fuzz", "--jobs", "0", *SOME], "--jobs"),
        (["fuzz", "--seed=-1", *SOME], "--seed"),
        (["fuzz", f"--seed={2**63}", *SOME], "--seed"),
        (["fuzz", "--ops", "slcie", *SOME], "--ops slcie: no such operation; did you mean slice?"),
        (["fuzz", "--ops", "", *SOME], "--ops: no operation is named"),
        (["fuzz", "--ops", " , ", *SOME], "assay fuzz --list-ops"),
        (["fuzz", "--operations", "5-2", *SOME], "write how many a program has"),
        (["fuzz", "--operations", "0", *SOME], "write how many a program has"),
        (["fuzz", "--target", "gpu", *SOME], "no target 'gpu'; there is: cpu"),
        (["fuzz", "--toolchain", "jax=0.10", *SOME], "toolchain"),
        (["fuzz", "--template", "attenton", *SOME], "no template 'attenton'"),
        (["fuzz", "--template", "missing.toml", *SOME], "missing.toml"),
        (["fuzz", "--template", "broken.toml", *SOME], "broken.toml"),
        (["fuzz", "--template", "hole.toml", *SOME], "hole.toml: steps[0]: type is missing"),
        (["fuzz", "--template", "empty.toml", *SOME], "empty.toml: neither [[steps]] nor [grammar]"),
        (["fuzz", "--template", "attention", "--ops", "add", *SOME], "--template and --ops"),
        (["fuzz", "--store", "a_file", *SOME], "a_file: File exists; name another folder"),
        (["fuzz", "--store", "mysql://u@localhost/x?artifacts=a", *SOME], "SQLite or PostgreSQL"),
        (["fuzz", "--store", "postgresql://u@localhost/x", *SOME], "say where artifacts go"),
        (["fuzz", "--store", "s", "--preload", "missing.py", *SOME], "missing.py: "),
        (["fuzz", "--json", "missing/x.json", *SOME], "no such folder"),
        (["fuzz", "--option", "fast", *SOME], "write NAME=VALUE"),
        (["fuzz", "--store", "s", "--option", "xla_fast=1", *SOME], "xla_fast"),
        (["fuzz", "--store", "begun", "--seed", "1", "--operations", "1-3", *SOME], "go on with --resume"),
        (["fuzz", "--store", "begun", "--seed", "1", "--resume", *SOME], "operations: 1-3, not 2-12)"),
        (
            ["fuzz", "--store", "begun", "--seed", "1", "--resume", "--operations", "1-3", "--ops", "add,sub", *SOME],
            "(ops: none, not add, sub)",
        ),
        (
            [
                "fuzz",
                "--store",
                "begun",
                "--seed",
                "1",
                "--resume",
                "--operations",
                "1-3",
                "--template",
                "attention",
                *SOME,
            ],
            "(templates: none, not attention)",
        ),
        (["replay", "3"], "write SEED/NUMBER"),
        (["replay", "3/x"], "write SEED/NUMBER"),
        (["replay", "3/1", "--target", "gpu"], "no target 'gpu'"),
        (["replay", "3/1", "--store", "missing"], "no findings there"),
        (["replay", "3/1", "-o", "missing/x.py"], "no such folder"),
        (["replay", "3/1", "-o", "."], "a folder; name a file in it"),
        (["templates", "show", "attenton"], "no template 'attenton'"),
        (["templates", "check", "hole.toml"], "type is missing"),
        (["templates", "check", "attention", "--count", "0"], "--count"),
    ],
)
def test_what_is_wrong_is_one_line(run_quietly, folder: Path, words: list[str], said: str) -> None:
    code, out, lines = run_quietly(*words)
    assert (code, out) == (2, "")
    assert len(lines) == 1
    assert lines[0].startswith("assay: ")
    assert said in lines[0]


def begins(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """A campaign that comes so far, and then ends with an error."""

    def fuzz(campaigns, place, options, watch):
        progress = Progress(suspects={7: False})
        progress.tally.verdicts[Verdict.AGREE] = 32
        progress.found.append((1.0, "abc", "bucket"))
        watch.begin(campaigns[0], progress)
        raise error

    monkeypatch.setattr(api, "fuzz", fuzz)


def test_a_campaign_that_was_never_begun_is_not_resumed_without_a_word(
    run_quietly, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fuzz(campaigns, place, options, watch):
        for _ in range(2):  # turns
            watch.begin(campaigns[0], Progress())
        return []

    monkeypatch.setattr(api, "fuzz", fuzz)
    said = "assay: cpu, seed 77: nothing to resume in this store: a campaign is begun"
    assert run_quietly("fuzz", "--seed", "77", "--resume", *SOME)[2] == [said]
    assert run_quietly("fuzz", "--seed", "77", *SOME)[2] == []


def test_an_interrupt_says_what_is_kept(run_quietly, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begins(monkeypatch, KeyboardInterrupt())
    code, out, lines = run_quietly("fuzz", *SOME)
    kept = "32 programs, 1 finding and 1 wrong program to follow are kept: go on with --resume"
    assert (code, out, lines) == (130, "", [f"assay: interrupted; {kept}"])
    monkeypatch.setattr(api, "fuzz", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert run_quietly("fuzz", *SOME) == (130, "", ["assay: interrupted"])


def test_a_store_that_ends_says_how_to_go_on(run_quietly, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begins(monkeypatch, StoreError("x: the disk is full; make room"))
    code, out, lines = run_quietly("fuzz", *SOME)
    assert (code, out, lines) == (2, "", ["assay: x: the disk is full; make room; go on with --resume"])
