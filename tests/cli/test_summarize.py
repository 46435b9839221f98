"""`assay summarize` from the command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from typer.testing import CliRunner

from assay.cli.app import app
from assay.cli.main import main

VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
pytestmark = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")

HLO = """HloModule m, is_scheduled=true
f { x = f32[8]{0} parameter(0)
 ROOT s = f32[8]{0} sine(x) }
g { x = f32[8]{0} parameter(0)
 ROOT s = f32[8]{0} add(x, x) }
ENTRY e { x = f32[8]{0} parameter(0)
 doubled = f32[8]{0} fusion(x), kind=kLoop, calls=g
 ROOT sine = f32[8]{0} fusion(doubled), kind=kLoop, calls=f }
"""
PRELOAD = """
from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(_hlo.HloPrintOptions())
    if " sine(" not in text:
        return None
    return _hlo.hlo_module_from_text(text.replace(" sine(", " cosine(")).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "m.hlo").write_text(HLO)
    (tmp_path / "wrong.py").write_text(PRELOAD)

    def summarized(*arguments):
        return CliRunner().invoke(app, ["summarize", str(tmp_path / "m.hlo"), *arguments])

    return summarized


def test_nothing_diverges(run, tmp_path) -> None:
    found = run("--verbose", "--json", str(tmp_path / "a.json"))
    assert found.exit_code == 0
    assert "AGREE" in found.stdout
    assert "2 tensors were looked at, none diverges" in found.stdout
    assert "doubled" in found.stdout
    assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "agree"
    again = run("--against", str(tmp_path / "a.json"))
    assert again.exit_code == 0


def test_what_diverges_is_named_first(run, tmp_path) -> None:
    found = run("--preload", str(tmp_path / "wrong.py"))
    assert found.exit_code == 1
    assert "sine is wrong" in found.stdout.splitlines()[0]
    assert "8 of 8 elements are none that it can give" in found.stdout
    piped = run("--preload", str(tmp_path / "wrong.py"), "--json", "-")
    assert json.loads(piped.stdout)["cases"][0]["first"][0]["instruction"] == "sine"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--against", "nowhere.json"], "--against nowhere.json: No such file or directory; name ref or a file"),
        (["--target", "gpu"], "no target 'gpu'"),
        (["--json", "/nowhere/x.json"], "no such folder /nowhere"),
    ],
)
def test_a_wrong_command_ends_with_2(more, told, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "m.hlo").write_text(HLO)
    monkeypatch.setattr("sys.argv", ["assay", "summarize", str(tmp_path / "m.hlo"), *more])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert told in capsys.readouterr().err
