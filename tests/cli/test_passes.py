"""assay passes, from the command line: the pass that is wrong is named; what cannot be judged is told in one line."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

KNOWN = Path(__file__).parents[1] / "checking" / "known_bugs.py"
BLAMED = {  # by the thread that reports each; what lies below HLO has no pass
    "nested slices": "algsimp",
    "narrow scatter": "scatter_expander",
    "cropped window": "algsimp",
    "dilated maximum": "code generation",
    "log of exp": "algsimp",
    "product of exps": "algsimp",
    "running sum": "algsimp",
    "shifted rows": "code generation",
}

HLO = """HloModule small
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  z = f32[4] add(x, y)
  ROOT r = f32[4] tanh(z)
}
"""
NUMBERED = "module_0000.small.{:04d}.simplification.after_{}.before_dce.txt"


@pytest.fixture
def assay(monkeypatch, tmp_path, run_quietly):
    """Runs the command in an empty folder: (exit code, standard output, standard error without progress)."""
    monkeypatch.chdir(tmp_path)
    return partial(run_quietly, "passes")


def wrong_here():
    """The cases that this jax computes otherwise than NumPy says."""
    spec = importlib.util.spec_from_file_location("known_bugs", KNOWN)
    known = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(known)
    for name, function, arguments, wanted in known.cases():
        got = np.asarray(jax.jit(function)(*arguments))
        if not np.allclose(got, wanted, rtol=1e-6, atol=1e-6, equal_nan=True):
            yield name


def test_known_bugs_and_their_passes(assay):
    code, out, _ = assay(str(KNOWN), "--json", "-")
    report = json.loads(out)
    wrong = set(wrong_here())
    assert code == (1 if wrong else 0)
    blamed = {}
    for case in report["cases"]:
        name = case["name"].removeprefix("known_bugs.py: ")
        assert case["verdict"] == ("mismatch" if name in wrong else "agree"), name
        if case["culprit"] is not None:
            blamed[name] = case["culprit"]["pass"]
            assert case["culprit"]["pass"] in case["culprit"]["passes"]
            assert bool(case["culprit"]["instructions"]) == (blamed[name] != "code generation")
    assert blamed == {name: BLAMED[name] for name in wrong}


def test_a_program_that_is_right(assay, tmp_path):
    (tmp_path / "small.hlo").write_text(HLO)
    code, out, told = assay("small.hlo", "--all", "--keep", "kept")
    assert (code, told) == (0, [])
    assert out.startswith("AGREE  small.hlo  on cpu")
    kept = sorted(path.name for path in (tmp_path / "kept" / "small.hlo").iterdir())
    assert any(".after_pipeline-start." in name for name in kept)
    assert all(name.endswith((".txt", ".pb")) and "buffer-assignment" not in name for name in kept)
    assert f"{len(kept)} of {len(kept)} snapshots evaluated" in out
    code, out, told = assay("kept/small.hlo", "--all")
    assert (code, told) == (0, [])
    assert f"{len(kept)} of {len(kept)} snapshots evaluated" in out
    code, out, told = assay("small.hlo", "--keep", "kept")
    assert (code, out) == (2, "")
    assert "not empty" in told[0]


def dump(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / NUMBERED.format(number, f"pass-{number}")).write_text(text)
    return folder


def test_a_dump_is_taken_as_it_is(assay, tmp_path):
    dump(tmp_path / "d", HLO, HLO, HLO.replace("add(x, y)", "subtract(x, y)"), HLO)
    code, out, told = assay("d", "--all", "--json", "-")
    assert (code, told) == (1, [])
    report = json.loads(out)
    assert report["culprit"]["pass"] == "pass-2"
    assert report["culprit"]["pipeline"] == "simplification"
    assert report["culprit"]["snapshot"] == "0002.simplification.after_pass-2"
    assert report["culprit"]["instructions"] == ["z"]
    assert [look["state"] for look in report["cases"][0]["looks"]] == ["agrees", "agrees", "differs", "agrees"]
    code, out, _ = assay("d", "--all")
    assert "simplification / pass-2 made it wrong" in out
    assert "add(%x, %y)" in out
    assert "subtract(%x, %y)" in out


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ((HLO[:60],), "cut short"),
        (("\x7fELF\0",), "binary file"),
        (("",), "the text is empty"),
    ],
)
def test_a_first_snapshot_that_cannot_be_read(assay, tmp_path, texts, told):
    dump(tmp_path / "d", *texts, HLO)
    code, out, lines = assay("d")
    assert (code, out, len(lines)) == (2, "", 1)
    assert told in lines[0]
    assert "module_0000.small.0000" in lines[0]


def test_a_later_snapshot_that_cannot_be_read_is_unverified(assay, tmp_path):
    dump(tmp_path / "d", HLO, HLO, HLO[:70])
    code, out, told = assay("d", "--all")
    assert (code, told) == (2, [])
    assert out.startswith("UNVERIFIED")
    assert "all agree up to 0001.simplification.after_pass-1" in out
    assert "cut short" in out


@pytest.mark.parametrize("how", [(), ("--all",)])
def test_snapshots_that_cannot_be_read_share_the_blame(assay, tmp_path, how):
    """The pass that ran last is named, and that one of those before it may be the one."""
    wrong = HLO.replace("add(x, y)", "subtract(x, y)")
    dump(tmp_path / "d", HLO, HLO[:70], HLO, HLO[:70], HLO[:80], wrong, HLO[:70], wrong)
    code, out, told = assay("d", *how)
    assert (code, told) == (1, [])
    assert "pass-5 made it wrong, or a pass before it: unverified snapshots in between: 2\n" in out
    assert "right: 0002.simplification.after_pass-2" in out
    dump(tmp_path / "e", HLO, HLO[:70], HLO, wrong, HLO[:70], wrong)
    code, out, told = assay("e", *how)
    assert (code, told) == (1, [])
    assert "pass-3 made it wrong\n" in out


def test_a_snapshot_that_is_missing(assay, tmp_path):
    dump(tmp_path / "d", HLO, HLO, HLO)
    (tmp_path / "d" / NUMBERED.format(1, "pass-1")).unlink()
    code, _, told = assay("d")
    assert (code, len(told)) == (2, 1)
    assert "snapshot 0001 is not there" in told[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.py",), "no such file"),
        (("small.hlo", "--target", "abacus"), "no target 'abacus'"),
        (("small.hlo", "--json", "."), "a folder"),
        (("small.hlo", "--input-class", "odd"), "there is"),
        (("small.hlo", "--toolchain", "jax"), "is not a toolchain"),
        (("small.hlo", "--dump-limit", "5K"), "the limit is 5.0 KiB; it is deleted: raise --dump-limit"),
        (("small.hlo", "--dump-limit", "much"), "--dump-limit much: write a size"),
    ],
)
def test_usage(assay, tmp_path, arguments, told):
    (tmp_path / "small.hlo").write_text(HLO)
    code, out, lines = assay(*arguments)
    assert (code, out, len(lines)) == (2, "", 1)
    assert told in lines[0]
