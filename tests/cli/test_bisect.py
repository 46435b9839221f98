"""assay bisect, as it is typed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.toolchain.bisect import releases
from assay.toolchain.interpreters import Interpreter

Run = Callable[..., tuple[int, str, str]]
BAD = ("0.6.3", "0.6.4")


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run_command: Run) -> Run:
    """The command in a folder with ./check.sh, and eight toolchains: BAD have the bug, 0.6.2 cannot tell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    versions = [f"0.6.{i}" for i in range(8)]
    monkeypatch.setattr(releases, "find_interpreters", lambda: [Interpreter((3, 13, 0), "python")])
    releases._keep("jaxlib", ["3.13"], versions)
    for version in versions:
        place = tmp_path / "cache" / "toolchains" / f"jax-{version}"
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python").symlink_to(sys.executable)
        (place / "toolchain.json").write_text(json.dumps({"spec": f"jax=={version}", "versions": {"jaxlib": version}}))
    lines = ["#!/bin/sh", "case $ASSAY_TOOLCHAIN in", "*.2) echo cannot tell; exit 125;;"]
    lines += [f"*{v}) echo wrong; exit 0;;" for v in BAD]
    (tmp_path / "check.sh").write_text("\n".join([*lines, "*) echo right; exit 1;; esac", ""]))
    (tmp_path / "check.sh").chmod(0o755)

    return partial(run_command, "bisect")


def test_the_report_says_what_was_found_skipped_and_assumed(assay: Run) -> None:
    code, out, err = assay("--check", "./check.sh", "--bad", "0.6.4")
    assert code == 0
    assert out.splitlines()[:2] == [
        "first bad release: jaxlib 0.6.3; the last judged before it, 0.6.1, is good; skipped between: 0.6.2",
        "first good release: jaxlib 0.6.5; the one before it, 0.6.4, is bad",
    ]
    assert "assumed: between two tried releases of the same verdict there is none of the other" in out
    assert "cannot tell" in out
    assert "jax==0.6.3: present  wrong" in err.splitlines()


def test_json(assay: Run, tmp_path: Path) -> None:
    code, out, _ = assay("--check", "./check.sh", "--good", "0.6.0", "--bad", "0.6.4", "--json", "-")
    found = json.loads(out)
    assert code == 0
    assert (found["schema"], found["over"], found["first_bad"], found["first_good"]) == (1, "jaxlib", "0.6.3", None)
    assert found["changes"] == [{"good": "0.6.1", "bad": "0.6.3", "skipped": ["0.6.2"]}]
    trials = {t["version"]: t for t in found["trials"]}
    assert set(trials) == {"0.6.0", "0.6.1", "0.6.2", "0.6.3", "0.6.4"}
    assert (trials["0.6.2"]["verdict"], trials["0.6.2"]["said"]) == ("skipped", "cannot tell")
    assay("--check", "./check.sh", "--good", "0.6.0", "--bad", "0.6.4", "--json", "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["changes"] == found["changes"]


def test_no_change_is_exit_code_2(assay: Run) -> None:
    code, out, _ = assay("--check", "false")
    assert code == 2
    assert out.startswith("no change found: the bug is absent in all 8 releases of jaxlib tried, 0.6.0 to 0.6.7")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to check"),
        (["missing.py"], "missing.py: no such file"),
        (["--over", "xla", "--check", "true"], "--over xla: there is jaxlib, libtpu"),
        (["check.sh", "--over", "libtpu", "--target", "cpu"], "--target cpu does not depend on libtpu"),
        (["check.sh", "--target", "tpu:v5e"], "--target tpu:v5e does not depend on jaxlib"),
        (["--check", "true", "--target", "cpu"], "--target and --case belong into the command"),
        (["--check", "true", "--bad", "0.9.9"], "there is no jaxlib 0.9.9 to be had here; nearest: 0.6.7"),
        (["--check", "./check.sh", "--good", "0.6.3"], "--good 0.6.3: the bug is present there"),
        (["--check", "./check.sh", "--good", "0.6.3", "--bad", "0.6.3"], "one and the same release; name two"),
        (["--check", "./check.sh", "--bad", "0.6.2"], "--bad 0.6.2: the bug cannot be judged there"),
        (["--check", "true", "--json", "no/such/out.json"], "--json no/such/out.json"),
    ],
)
def test_bad_input_is_one_line(assay: Run, arguments: list[str], said: str) -> None:
    code, out, err = assay(*arguments)
    lines = [line for line in err.splitlines() if line.startswith("assay: ") and not line.endswith(" ...")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert said in lines[0]


@pytest.mark.slow
def test_a_real_miscompile_between_two_real_releases(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """openxla/xla#42732, log(exp(x)): wrong up to jaxlib 0.11.0, right from 0.11.1."""
    (tmp_path / "bug.py").write_text(
        "import jax.numpy as jnp, numpy as np\n"
        "def log_exp(x): return jnp.log(jnp.exp(x))\n"
        "def example_args(): return (np.float32(89),)\n"
    )
    arguments = [str(tmp_path / "bug.py:log_exp"), "--good", "0.11.2", "--bad", "0.10.2", "--json", "-"]
    monkeypatch.setattr(sys, "argv", ["assay", "bisect", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    found = json.loads(capsys.readouterr().out)
    assert stop.value.code == 0
    assert found["changes"] == [{"good": "0.11.1", "bad": "0.11.0", "skipped": []}]
