"""`assay findings`: what is stored is listed, shown, marked, exported and verified, and what is wrong is one line."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.cli.main import main
from assay.oracle.verdict import MismatchClass, Verdict
from assay.store.api import open_store
from assay.store.finding import Culprit, Finding, Origin

# Wrong in every jaxlib so far (findings/integer_power.hlo); with exponents below 64 it is right.
POWER = """HloModule power
ENTRY e {
  b = s32[3] parameter(0)
  x = s32[3] parameter(1)
  ROOT r = s32[3] power(b, x)
}
"""
ADD = POWER.replace("power(", "add(").replace("module power", "module add")


def npz(*arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, *arrays)
    return file.getvalue()


THREES = np.full(3, 3, np.int32)
WRONG = npz(THREES, np.array([5, 64, 100], np.int32))
RIGHT = npz(THREES, np.array([5, 6, 7], np.int32))


def finding(name: str, **more) -> Finding:
    given = {"klass": MismatchClass.MISCOMPILE} | more
    culprit = Culprit(name, "r", "power", "tail from 1")
    return Finding(
        Verdict.MISMATCH,
        "cpu",
        "jax==0.10.2",
        culprit=culprit,
        origin=Origin("c", 1, 2),
        outside=2,
        elements=3,
        **given,
    )


@pytest.fixture
def assay(monkeypatch, capfd, tmp_path):
    """Runs `assay findings` in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["assay", "findings", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.fixture
def ids(tmp_path) -> dict[str, str]:
    """A store in the default place, with findings by what became of them in the host's toolchain."""
    files = {
        "still":   {"reduced.hlo": POWER, "reduced_inputs.npz": WRONG, "module.hlo": POWER, "inputs.npz": WRONG},
        "fixed":   {"reduced.hlo": POWER, "reduced_inputs.npz": RIGHT, "module.hlo": ADD, "inputs.npz": WRONG},
        "slipped": {"reduced.hlo": ADD, "reduced_inputs.npz": WRONG, "module.hlo": POWER + "\n", "inputs.npz": WRONG},
        "changed": {"module.hlo": POWER + "\n\n", "inputs.npz": WRONG, "report.json": "{}"},
        "nothing": {"report.json": "{}"},
        "broken":  {"module.hlo": "HloModule nonsense"},
    }  # fmt: skip
    found = {}
    with open_store(tmp_path / "assay-findings") as store:
        for name, artifacts in files.items():
            klass = MismatchClass.EXCESS_PRECISION if name == "changed" else MismatchClass.MISCOMPILE
            data = {k: v if isinstance(v, bytes) else v.encode() for k, v in artifacts.items()}
            store.add(finding(name, klass=klass), data)
            found[name] = next(f.id for f in store.findings() if f.culprit.pass_name == name)
    return found


def test_list(assay, ids):
    code, out, err = assay("list")
    assert (code, err) == (0, "")
    assert all(id in out for id in ids.values())
    code, out, _ = assay("list", "--json", "-", "--pass", "s*", "--severity", "silent")
    assert code == 0
    assert {f["culprit"]["pass"] for f in json.loads(out)["findings"]} == {"still", "slipped"}
    code, out, _ = assay("list", "--json", "-", "--buckets")
    assert [b["stored"] for b in json.loads(out)["buckets"]] == [1] * 6
    assert (
        "findings: 0" in assay("list", "--bucket", "none")[1] or "no findings" in assay("list", "--bucket", "none")[1]
    )


def test_show(assay, ids):
    code, out, _ = assay("show", ids["still"][:8])
    assert code == 0
    for words in (ids["still"], "still.power.tail-from-n.miscompile", "2 of 3 elements", "reduced_inputs.npz"):
        assert words in out
    code, out, _ = assay("show", ids["still"], "--artifact", "reduced.hlo")
    assert (code, out) == (0, POWER)
    code, out, _ = assay("show", ids["still"], "--json", "-")
    assert json.loads(out)["id"] == ids["still"]


def test_mark(assay, ids):
    assert assay("mark", ids["still"], "--known", "https://github.com/openxla/xla/issues/1")[0] == 0
    _, out, _ = assay("list", "--known", "--json", "-")
    assert [f["id"] for f in json.loads(out)["findings"]] == [ids["still"]]
    _, out, _ = assay("list", "--new", "--json", "-")
    assert len(json.loads(out)["findings"]) == 5
    assert "give --known" in assay("mark", ids["still"])[2]


def test_export_stands_alone(assay, ids):
    code, out, _ = assay("export", ids["still"], "--to", "out")
    assert code == 0
    folder = Path(out.strip())
    assert {p.name for p in folder.iterdir()} == {
        "README.md", "finding.json", "module.hlo", "inputs.npz", "reduced.hlo", "reduced_inputs.npz",
    }  # fmt: skip
    text = (folder / "README.md").read_text()
    assert "assay check reduced.hlo --target cpu --toolchain jax==0.10.2 --inputs reduced_inputs.npz" in text
    assert json.loads((folder / "finding.json").read_text())["id"] == ids["still"]
    (folder / "module.hlo").unlink()
    assert assay("export", ids["still"], "--to", "out")[0] == 0  # again, as a whole
    assert (folder / "module.hlo").exists()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    assert len(assay("export", "all", "--to", "out")[1].splitlines()) == 6
    (folder / "finding.json").write_text("{}")
    code, _, err = assay("export", ids["still"], "--to", "out")
    assert code == 2
    assert "something else of that name" in err


def test_verify(assay, ids):
    code, out, _ = assay("verify", "--toolchain", "host", "--json", "-")
    assert code == 1
    found = json.loads(out)
    names = {id: name for name, id in ids.items()}
    told = {names[v["finding"]]: v["standing"] for v in found["verifications"]}
    assert told == {
        "still": "still there", "slipped": "still there", "changed": "changed", "fixed": "fixed",
        "nothing": "unverified", "broken": "unverified",
    }  # fmt: skip
    assert found["counts"] == {"fixed": 1, "still there": 2, "changed": 1, "unverified": 2}
    whys = {names[v["finding"]]: v["why"] for v in found["verifications"]}
    assert "no program" in whys["nothing"]
    assert whys["broken"]
    assert "/" not in whys["broken"]  # not where it lay meanwhile
    assert assay("verify", "--toolchain", "host", ids["fixed"])[0] == 0
    assert assay("verify", "--toolchain", "host", ids["nothing"])[0] == 2
    code, out, _ = assay("verify", "--toolchain", "host", "--missing")
    assert (code, out) == (0, "nothing to verify\n")
    assert "still there (host)" in assay("list")[1]
    assert "fixed" in assay("show", ids["fixed"])[1]


def test_a_lost_artifact_costs_one_finding(assay, ids, tmp_path):
    with open_store(tmp_path / "assay-findings") as store:
        digest = store.get(ids["still"]).artifacts["reduced_inputs.npz"]
    folder = tmp_path / "assay-findings" / "artifacts" / "sha256" / digest[:2]
    shared = (folder / digest).read_bytes()
    (folder / digest).write_bytes(b"damaged")
    code, out, _ = assay("verify", "--toolchain", "host", "--json", "-", ids["still"], ids["fixed"])
    found = {v["finding"]: v for v in json.loads(out)["verifications"]}
    assert code == 2
    assert found[ids["still"]]["standing"] == "unverified"
    assert "not what was stored" in found[ids["still"]]["why"]
    with open_store(tmp_path / "assay-findings") as store:
        whole = sum(digest not in finding.artifacts.values() for finding in store.findings())
    code, out, err = assay("export", "all", "--to", "out")
    assert 0 < whole < 6
    assert (code, len(out.splitlines())) == (2, whole)
    assert f"assay: {ids['still']}: " in err
    assert f"{6 - whole} of 6 findings were not exported" in err
    assert len(list((tmp_path / "out").iterdir())) == whole
    (folder / digest).write_bytes(shared)
    assert assay("verify", "--toolchain", "host", ids["still"])[0] == 1


def test_a_target_that_the_toolchain_has_not_is_unverified(assay, ids, tmp_path):
    with open_store(tmp_path / "assay-findings") as store:
        other = dataclasses.replace(finding("tpu"), target="gpu")
        store.add(other, {"module.hlo": POWER.encode()})
    code, out, _ = assay("verify", "--toolchain", "host", "--json", "-", "--target", "gpu")
    (found,) = json.loads(out)["verifications"]
    assert (code, found["standing"]) == (2, "unverified")
    assert "no target" in found["why"]


NO_SERVER = "no server answers" if importlib.util.find_spec("psycopg") else "no driver"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--store", "nowhere"], "no findings there"),
        (["list", "--store", "postgresql://u@127.0.0.1:1/x?artifacts=a"], NO_SERVER),
        (["list", "--store", "postgresql://u@127.0.0.1:1/x"], "say where artifacts go"),
        (["list", "--severity", "awful"], "there is silent"),
        (["list", "--verdict", "agree"], "there is crash"),
        (["show", "ffffffff"], "no finding 'ffffffff'"),
        (["export", "ffffffff"], "no finding 'ffffffff'"),
        (["verify", "--toolchain", "jax==9.9.9.9.9x"], "is not a toolchain"),
        (["list", "--json", "missing/x.json"], "no such folder"),
    ],
)
def test_what_is_wrong_is_one_line(assay, ids, arguments, words):
    code, out, err = assay(*arguments)
    lines = [line for line in err.splitlines() if not line.endswith(" ...")]
    assert code == 2
    assert out == ""
    assert len(lines) == 1
    assert words in lines[0]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_of_ones_own_becomes_a_finding_once(assay, tmp_path):
    (tmp_path / "power.hlo").write_text(POWER)
    (tmp_path / "wrong.npz").write_bytes(WRONG)
    words = ("add", "power.hlo", "--inputs", "wrong.npz", "--store", "s")
    code, out, err = assay(*words)
    assert code == 0, err
    for _ in range(2):
        code, out, err = assay("list", "--store", "s", "--json", "-")
        (found,) = json.loads(out)["findings"]
        assert found["origin"]["file"] == "power.hlo"
        assert found["class"] == "MISCOMPILE"
        assert {"module.hlo", "inputs.npz", "reduced.hlo", "issue.md", "report.json"} <= found["artifacts"].keys()
        assert assay(*words)[0] == 0  # again, and it is there once


def test_nothing_is_made_of_a_program_that_is_right(assay, tmp_path):
    (tmp_path / "add.hlo").write_text(ADD)
    code, out, err = assay("add", "add.hlo", "--store", "s")
    assert code == 2
    assert "add.hlo: not stored: agree" in out + err
    code, out, err = assay("add", "missing.hlo", "--store", "s")
    assert code == 2
    assert "missing.hlo" in err
    assert assay("add", "missing.hlo", "--store", "never")[0] == 2
    assert assay("add", "add.hlo", "--store", "never", "--target", "gpu")[0] == 2
    assert not (tmp_path / "never").exists()
