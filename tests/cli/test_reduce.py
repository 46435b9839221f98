"""assay reduce, from the command line: what is written, in which form, and what is told in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from assay.cli.options import seconds_of
from assay.errors import InputError
from assay.hlo.parse import parse_module

WRONG = Path(__file__).parents[1] / "isolate" / "graph" / "wrong_sine.py"

HLO = """HloModule hidden
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  z = f32[4] add(x, y)
  e = f32[4] exponential(z)
  s = f32[4] sine(e)
  n = f32[4] negate(s)
  ROOT r = f32[4] multiply(n, x)
}
"""


@pytest.fixture
def assay(monkeypatch, tmp_path, run_quietly):
    """Runs the command in an empty folder: (exit code, standard output, standard error without progress)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return partial(run_quietly, "reduce")


def test_a_folder_that_can_be_reduced_again(assay, tmp_path):
    (tmp_path / "m.hlo").write_text(HLO)
    code, out, told = assay("m.hlo", "--preload", str(WRONG), "--json", "r.json", "-o", "small")
    assert (code, told) == (0, [])
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["before"], report["after"], report["finished"]) == (7, 3, True)
    assert (report["verdict"], report["class"], report["pass"]) == ("mismatch", "MISCOMPILE", "apply-xla-transforms")
    assert report["files"] == ["small/small.hlo", "small/inputs.npz", "small/report.json", "small/README.md"]
    assert "7 instructions before, 3 after" in out
    module = parse_module((tmp_path / "small" / "small.hlo").read_text())
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "exponential", "sine"]
    with np.load(tmp_path / "small" / "inputs.npz") as inputs:
        assert inputs["arr_0"].shape == module.entry.instructions[0].array.dims
    code, out, told = assay("small", "--preload", str(WRONG), "-o", "again.hlo")
    assert (code, told) == (0, [])
    assert parse_module((tmp_path / "again.hlo").read_text()).entry.instructions == module.entry.instructions
    # What was asked in that run is in the cache: going on with it asks for nothing new.
    code, out, told = assay("small", "--preload", str(WRONG), "-o", "again.hlo", "--resume", "--json", "-")
    assert (code, json.loads(out)["tries"]) == (0, 1)


def test_a_test_is_written_and_run(assay, tmp_path):
    """The compiler of the test's own process is right, so the test passes there, and that is told."""
    (tmp_path / "m.hlo").write_text(HLO)
    code, out, told = assay("m.hlo", "--preload", str(WRONG), "-o", "small.py")
    assert (code, told) == (0, [])
    text = (tmp_path / "small.py").read_text()
    assert "import jax" in text
    assert "assay" not in text
    assert "passed 3 of 3; it does not show it" in out


@pytest.mark.slow
def test_kill_9_and_resume(assay, tmp_path):
    """What was answered before is not asked again, and the result is that of a run that was left alone."""
    (tmp_path / "m.hlo").write_text(HLO)
    words = ["m.hlo", "--preload", str(WRONG), "--json", "r.json", "-o", "small.hlo"]
    assert assay(*words)[0] == 0
    whole, alone = json.loads((tmp_path / "r.json").read_text())["tries"], (tmp_path / "small.hlo").read_text()
    (journal,) = (tmp_path / "cache" / "reduce").glob("*.jsonl")
    journal.unlink()
    for _ in range(3):
        lines = len(journal.read_text().splitlines()) if journal.exists() else 1
        command = [sys.executable, "-m", "assay.cli.main", "reduce", *words, "--resume"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + 100
            while time.monotonic() < end and process.poll() is None:
                if journal.exists() and len(journal.read_text().splitlines()) >= lines + 3:
                    break
                time.sleep(0.01)
            process.kill()
    asked = len(journal.read_text().splitlines()) - 1
    assert asked >= 6
    code, _, told = assay(*words, "--resume")
    assert (code, told) == (0, [])
    assert (tmp_path / "small.hlo").read_text() == alone
    assert json.loads((tmp_path / "r.json").read_text())["tries"] <= whole - asked + 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("m.hlo",), "nothing is wrong with m.hlo on cpu"),
        (("m.hlo", "-o", "nowhere/small.py"), "no such folder"),
        (("m.hlo", "-o", "folder.py"), "a folder; name a file"),
        (("m.hlo", "--time", "soon"), "write a time such as 30s"),
        (("none.hlo",), "no such file or folder"),
        (("m.hlo", "--target", "tpu"), "no target 'tpu'"),
        (("m.hlo", "--through", "llo"), "has no LLO"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(assay, tmp_path, words, message):
    (tmp_path / "m.hlo").write_text(HLO)
    (tmp_path / "folder.py").mkdir()
    code, out, told = assay(*words)
    assert (code, out, len(told)) == (2, "", 1)
    assert message in told[0]
    assert not (tmp_path / "reduced").exists()


def test_times():
    found = {text: seconds_of(text) for text in ("90", "30s", "5m", "1h30m", "0.5h", "2d")}
    assert found == {"90": 90, "30s": 30, "5m": 300, "1h30m": 5400, "0.5h": 1800, "2d": 172800}
    for text in ("", "m", "5 minutes", "-3s", "1x"):
        with pytest.raises(InputError, match="--time"):
            seconds_of(text)
