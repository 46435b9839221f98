"""The commands, as they are typed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.toolchain import environments

PROGRAM = """
import numpy as np
def double(x): return {"twice": x * 2, "sum": x.sum()}
def example_args(): return (np.arange(6, dtype=np.float32).reshape(2, 3),)
"""


@pytest.fixture
def assay(monkeypatch, tmp_path, run_command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "program.py").write_text(PROGRAM)
    return run_command


def test_json_has_what_its_schema_says(assay):
    code, out, _ = assay("check", "program.py:double", "--seed", "7", "--json", "-")
    report = json.loads(out)
    assert code == 0
    assert {"schema", "verdict", "class", "target", "toolchain", "seed", "outputs", "program", "command"} <= set(report)
    assert (report["schema"], report["verdict"], report["class"], report["seed"]) == (1, "agree", None, 7)
    assert report["command"] == "assay check program.py:double --seed 7 --json -"
    first, second = report["outputs"]
    assert {"index", "shape", "dtype", "elements", "outside", "undecided", "masked", "worst_ulp", "worst_bound"} <= set(
        first
    )
    assert (first["name"], first["shape"], second["name"], second["shape"]) == ("['sum']", [], "['twice']", [2, 3])


def test_the_table_and_a_file_at_once(assay, tmp_path):
    code, out, _ = assay("check", "program.py:double", "--json", "out.json")
    assert code == 0
    assert out.startswith("AGREE")
    assert "f32[2,3]" in out
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "agree"


def test_arguments_from_a_file(assay, tmp_path):
    np.savez(tmp_path / "args.npz", np.full((2, 3), 1.5, np.float32))
    assert assay("check", "program.py:double", "--inputs", "args.npz")[0] == 0


def test_options_reach_the_compiler(assay):
    assert assay("check", "program.py:double", "--option", "xla_backend_optimization_level=0")[0] == 0


def test_toolchains_are_listed_and_what_is_not_there_is_not_removed(assay):
    code, out, _ = assay("toolchain", "list")
    assert code == 0
    assert "host" in out
    code, _, err = assay("toolchain", "remove", "jax==0.0.1")
    assert code == 2
    assert "jax==0.0.1" in err


def test_a_toolchain_is_listed_by_its_whole_name(assay, monkeypatch):
    spec = "jax==0.10.2,libtpu==0.0.42.1"
    many = tuple((name, "0.0.0.0") for name in environments.DISTRIBUTIONS)
    monkeypatch.setattr(environments, "installed", lambda: [environments.Toolchain(spec, "/a/long/way/" * 9, many)])
    _, out, _ = assay("toolchain", "list")
    assert f"{spec} " in out


def test_policies_are_listed_with_their_targets(assay):
    code, out, _ = assay("policies")
    assert code == 0
    assert all(name in out.splitlines()[1] for name in ("strict", "xla-cpu", "tpu-v5e", "tpu-v6e", "gpu"))
    assert "every declared rounding" in out


def test_settings_of_the_judgement_are_named_in_the_report(assay):
    code, out, _ = assay(
        "check", "program.py:double", "--policy", "strict", "--accumulation", "certain", "--bounds", "sampled"
    )
    assert code == 0
    assert "by policy strict, certain accumulation, sampled bounds" in out.splitlines()[0]


def test_the_doctor_finds_the_cpu_target_working(assay):
    code, out, _ = assay("doctor")
    assert code == 0
    assert "compiles and runs" in out
