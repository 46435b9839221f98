"""assay isolate, from the command line: the piece that is wrong comes first; nothing is lost to a kill."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
import jax, jax.numpy as jnp
import numpy as np


def step(x, w, b):
    h = jnp.tanh(x @ w + b)
    for k in range(3):
        h = jnp.sort(h * (k + 1.5), axis=1) - h.mean(axis=1, keepdims=True)
        h = jnp.tanh(h @ w)
    return h.sum(axis=0), (h / (1 + jnp.abs(h))).max(axis=1)


def example_args():
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(8, 8)), rng.normal(size=(8, 8)), rng.normal(size=8)
    return tuple(a.astype(np.float32) for a in arrays)
"""
# A pass that takes one opcode of fusions for another, in whatever is compiled: the graph, and each piece of it.
WRONG = """
from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    head, entry, rest = text.partition("ENTRY ")
    if " divide(" not in head:
        return None
    head = head.replace(" divide(", " multiply(")
    return _hlo.hlo_module_from_text(head + entry + rest).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
"""


@pytest.fixture
def assay(monkeypatch, tmp_path, run_quietly):
    """Runs a command in a folder with step.py and wrong.py: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache" / "toolchains"))
    (tmp_path / "step.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    return run_quietly


def optimized(assay, tmp_path) -> Path:
    """The right optimized module, compiled without the wrong pass."""
    code, _, _ = assay("compile", "step.py:step", "--emit", "hlo", "--out", "out")
    assert code == 0
    return next((tmp_path / "out").glob("*.optimized.hlo"))


def test_a_right_compiler_agrees_and_an_earlier_run_is_taken_up(assay):
    code, out, _ = assay("isolate", "step.py:step", "--json", "a.json")
    assert code == 0, out
    report = json.loads(Path("a.json").read_text())
    (program,) = report["programs"]
    assert report["candidates"] == []
    assert program["counts"] == {"agree": program["distinct"]}
    assert program["whole"]["verdict"] == "agree"
    assert not Path("isolated").exists()
    code, out, _ = assay("isolate", "step.py:step", "--resume", "--pieces", "--json", "b.json")
    assert code == 0, out
    again = json.loads(Path("b.json").read_text())["programs"][0]
    assert again["resumed"] == program["distinct"]
    assert again["rows"] == program["rows"]


def test_the_wrong_piece_comes_first_with_a_reproducer_that_shows_it(assay, tmp_path):
    module = optimized(assay, tmp_path)
    code, out, told = assay("isolate", str(module), "--preload", "wrong.py", "--json", "r.json")
    assert code == 1, out
    report = json.loads(Path("r.json").read_text())
    first = report["candidates"][0]
    assert len(report["candidates"]) == 1
    assert first["verdict"] == "mismatch"
    assert first["class"] == "MISCOMPILE"
    body = module.read_text()
    assert "divide(" in body.split(f"%{first['name']} = ")[0]  # what it calls stands before it
    assert any(first["name"] in line and "mismatch" in line for line in told)
    folder = Path(first["reproducer"])
    assert {p.name for p in folder.iterdir()} == {"README.md", "inputs.npz", "piece.hlo", "report.json"}
    assert first["votes"]["reference"] == "judges"
    code, out, _ = assay("check", str(folder / "piece.hlo"), "--inputs", str(folder / "inputs.npz"))
    assert code == 0, out  # a right compiler
    with np.load(folder / "inputs.npz") as inputs:
        assert len(inputs.files) >= 1


def test_what_the_graph_hands_to_its_pieces(assay, tmp_path):
    module = optimized(assay, tmp_path)
    arrays = [np.full((8, 8), 0.25, np.float32), np.eye(8, dtype=np.float32), np.zeros(8, np.float32)]
    np.savez(tmp_path / "args.npz", *arrays)
    words = ["isolate", str(module), "--inputs", "args.npz", "--preload", "wrong.py", "--pieces", "--json", "t.json"]
    code, out, _ = assay(*words)
    assert code == 1, out
    first = json.loads(Path("t.json").read_text())["candidates"][0]
    assert "args.npz, as the graph has it" in first["inputs"]


def test_rows_of_another_question_are_not_written_over(assay, tmp_path):
    module, rows = optimized(assay, tmp_path), tmp_path / "rows.jsonl"
    words = ["--pieces", "--filter", "opcode=fusion", "--rows", str(rows)]
    assert assay("isolate", str(module), *words)[0] == 0
    before = rows.read_bytes()
    assert before.count(b"\n") > 1
    other = tmp_path / "other.hlo"
    other.write_text(module.read_text())
    for changed, said in (
        (["isolate", str(other)], f"has rows of {module.name}, not of other.hlo"),
        (["isolate", str(module), "--seed", "7"], "of another target or other options"),
    ):
        code, _, told = assay(*changed, "--resume", *words)
        assert code == 2
        assert len(told) == 1
        assert said in told[0]
        assert rows.read_bytes() == before
    code, out, _ = assay("isolate", str(module), "--resume", *words)
    assert code == 0
    assert "of an earlier run" in out


def test_a_module_of_another_target_is_told_as_such(assay, tmp_path):
    (tmp_path / "tpu.hlo").write_text(
        "HloModule m, is_scheduled=true\n\nENTRY e {\n  x = f32[8,128]{1,0:T(8,128)} parameter(0)\n"
        "  s = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(x)\n"
        "  d = f32[8,128]{1,0:T(8,128)S(1)} copy-done(s)\n  ROOT r = f32[8,128]{1,0:T(8,128)} sine(d)\n}\n"
    )
    code, out, _ = assay("isolate", "tpu.hlo", "--pieces")
    assert code == 2
    assert "it is optimized for a TPU" in out


def test_an_agreement_in_which_nothing_is_compared_is_none(assay, tmp_path):
    module = optimized(assay, tmp_path)
    arrays = [np.full((8, 8), np.nan, np.float32), np.eye(8, dtype=np.float32), np.zeros(8, np.float32)]
    np.savez(tmp_path / "nan.npz", *arrays)
    code, out, _ = assay("isolate", str(module), "--inputs", "nan.npz", "--json", "t.json")
    report = json.loads(Path("t.json").read_text())
    assert code == 2
    assert report["programs"][0]["whole"]["verdict"] == "unverified"
    assert "the whole program: unverified (nothing is compared" in out
    assert {row["verdict"] for row in report["programs"][0]["rows"]} == {"agree"}  # on inputs that were drawn


def test_shards_are_everything_once(assay, tmp_path):
    whole = assay("isolate", "step.py:step", "--pieces", "--json", "all.json")
    assert whole[0] == 0
    keys = [row["key"] for row in json.loads(Path("all.json").read_text())["programs"][0]["rows"]]
    found = []
    for number in (1, 2):
        code, out, _ = assay("isolate", "step.py:step", "--shard", f"{number}/2", "--json", "s.json", "--jobs", "1")
        assert code == 0, out
        found += [row["key"] for row in json.loads(Path("s.json").read_text())["programs"][0]["rows"]]
    assert sorted(found) == sorted(keys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.hlo"], "nowhere.hlo: no such file"),
        (["step.py:step", "--filter", "opcode"], "write FIELD=GLOB"),
        (["step.py:step", "--filter", "colour=red"], "write FIELD=GLOB"),
        (["step.py:step", "--filter", "opcode=fft"], "no such piece; their opcodes are"),
        (["step.py:step", "--shard", "3/2"], "--shard 3/2"),
        (["step.py:step", "--target", "npu"], "no target 'npu'"),
        (["step.py:step", "--preload", "gone.py"], "gone.py"),
        (["step.py:step", "--out", "step.py"], "step.py is no folder"),
        (["step.py:step", "--rows", "step.py"], "assay isolate did not write"),
        (["step.py:step", "--rows", "."], "--rows .: it is a folder; name a file in it"),
        (["step.py:step", "--rows", "step.py/rows.jsonl"], "step.py is no folder"),
        (["cut.hlo"], "cut.hlo"),
    ],
)
def test_bad_input_is_told_in_one_line(assay, tmp_path, words, said):
    (tmp_path / "cut.hlo").write_text("HloModule m, is_scheduled=true\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT")
    code, _, told = assay("isolate", *words)
    assert code == 2
    assert len(told) == 1
    assert said in told[0]


def rows_of(path: Path) -> int:
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def killed_and_resumed(tmp_path: Path, times: int) -> None:
    """Killed at a random moment and resumed, over and over: no row is lost, and none is made twice."""
    (tmp_path / "step.py").write_text(PROGRAM)
    env = {**os.environ, "ASSAY_CACHE": str(tmp_path / "cache" / "toolchains")}
    rows = tmp_path / "rows.jsonl"
    start = "from assay.cli.main import main; main()"
    words = [sys.executable, "-c", start, "isolate", "step.py:step", "--pieces", "--resume", "--rows", str(rows)]
    words += ["--json", str(tmp_path / "k.json")]
    rng = random.Random(5)
    known = 0
    for _ in range(times):
        with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=-3, stderr=-3, start_new_session=True) as process:
            end = time.monotonic() + 120
            while process.poll() is None and rows_of(rows) <= known and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.3))
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        now = rows_of(rows)
        assert now >= known
        known = now
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "k.json").read_text())["programs"][0]
    assert report["counts"] == {"agree": report["distinct"]}
    assert report["resumed"] >= known - 1
    keys = [json.loads(line)["key"] for line in rows.read_text().splitlines()[1:]]
    assert len(keys) == len(set(keys)) == report["distinct"]


def test_a_kill_loses_one_piece_at_most(tmp_path):
    killed_and_resumed(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_twenty_kills(tmp_path):
    killed_and_resumed(tmp_path, 20)


@pytest.mark.tpu
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_figure_4_is_first_of_all_kernels_of_a_transformer(assay, monkeypatch, tpu_toolchain):
    monkeypatch.delenv("ASSAY_CACHE")
    example = Path(__file__).parents[2] / "examples" / "figure4_in_transformer.py"
    words = ["isolate", f"{example}:forward", "--target", "tpu:v5e", "--toolchain", tpu_toolchain.spec]
    code, out, _ = assay(*words, "--json", "f.json")
    assert code == 1, out
    report = json.loads(Path("f.json").read_text())
    (only,) = report["candidates"]
    assert (only["verdict"], only["class"], only["pattern"]) == ("mismatch", "EXCESS_PRECISION", "all zero")
    assert only["outside"] > 0.99 * 128 * 128
    others = [row["verdict"] for row in report["programs"][0]["rows"] if row["key"] != only["key"]]
    assert set(others) == {"agree"}
    # With every declared rounding in place the kernel is right.
    code, out, _ = assay(*words, "--option", "xla_allow_excess_precision=false", "--pieces")
    assert code == 0, out
