"""assay compile, as it is typed: what the compiler made goes where it was asked for; what cannot be is told in one
line.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assay import emit
from assay.hlo.parse import parse_module
from assay.targets.snapshots import read
from assay.toolchain import WorkerDied

HLO = """HloModule small
ENTRY main {
  x = f32[64,256] parameter(0)
  y = f32[64,256] parameter(1)
  a = f32[64,256] add(x, y)
  b = f32[64,256] add(x, y)
  ROOT r = f32[64,256] multiply(a, b)
}
"""
CASES = """
import jax, jax.numpy as jnp
def cases():
    x = jax.ShapeDtypeStruct((4,), jnp.float32)
    yield "twice it", lambda x: x * 2, (x,)
    yield "broken", lambda x: x.nothing, (x,)
    yield "sum", jnp.sum, (x,)
"""


@pytest.fixture
def assay(monkeypatch, tmp_path, run_quietly):
    """Runs the command in a folder with a program: (exit code, standard output, standard error without progress)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.hlo").write_text(HLO)
    (tmp_path / "cases.py").write_text(CASES)
    return run_quietly


def test_the_optimized_module_is_printed(assay):
    code, out, told = assay("compile", "small.hlo")
    assert (code, told) == (0, [])
    module = parse_module(out)
    assert sum(i.opcode == "add" for c in module.computations for i in c.instructions) == 1
    assert not Path("small").exists()


def test_snapshots_and_the_optimized_module_go_to_a_folder(assay):
    code, out, _ = assay("compile", "small.hlo", "--emit", "passes", "--emit", "hlo", "--out", "o/p")
    assert code == 0
    assert "o/p/small.optimized.hlo" in out
    assert parse_module(Path("o/p/small.optimized.hlo").read_text()).name == "small"
    snapshots = read(Path("o/p/small/passes"))
    assert len(snapshots) > 10
    assert parse_module(snapshots[0].text()).entry.root.opcode == "multiply"
    stale = Path("o/p/small/passes/module_0000.old.before_optimizations.txt")
    stale.write_text("old")
    notes = stale.with_name("notes.txt")
    notes.write_text("mine")
    assert assay("compile", "small.hlo", "--emit", "passes", "--out", "o/p")[0] == 0
    assert notes.read_text() == "mine"
    assert not stale.exists()


def test_each_case_is_compiled_and_one_that_fails_costs_no_other(assay):
    code, out, _ = assay("compile", "cases.py", "--out", "o")
    assert code == 2
    assert sorted(path.name for path in Path("o").iterdir()) == [
        "cases.py_sum.optimized.hlo",
        "cases.py_twice_it.optimized.hlo",
    ]
    assert "AttributeError" in out
    assert assay("compile", "cases.py", "--case", "sum", "--out", "o2")[0] == 0
    assert len(list(Path("o2").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("small.hlo", "--emit", "asm"), "--emit asm: there is hlo, passes, llo, bundles"),
        (("small.hlo", "--emit", "passes"), "say where to with --out"),
        (("small.hlo", "--emit", "llo", "--out", "o"), "name one with --target tpu:v5e"),
        (("small.hlo", "--target", "tpu:v9"), "no target 'tpu:v9'; there is: cpu, tpu:v4, tpu:v5e"),
        (("small.hlo", "--target", "gpu"), "no target 'gpu'"),
        (("none.hlo",), "none.hlo: no such file"),
        (("small.hlo", "--out", "small.hlo"), "name another folder with --out"),
        (("small.hlo", "--option", "xla_nonsense=1"), "--option: this XLA has no option xla_nonsense"),
        (("small.hlo", "--emit", "passes", "--out", "o", "--dump-limit", "5K"), "raise --dump-limit"),
        (("small.hlo", "--emit", "passes", "--out", "o", "--dump-limit", "much"), "--dump-limit much: write a size"),
        (("small.hlo", "--target", "tpu:v5e", "--emit", "llo", "--out", "o", "--llo-passes", "("), "--llo-passes ("),
    ],
)
def test_what_cannot_be_is_one_line(assay, arguments, told):
    code, out, lines = assay("compile", *arguments)
    assert (code, out, len(lines)) == (2, "", 1)
    assert told in lines[0]


def test_text_that_is_cut_short_is_one_line(assay, tmp_path):
    (tmp_path / "cut.hlo").write_text(HLO[:120])
    code, _, lines = assay("compile", "cut.hlo")
    assert (code, len(lines)) == (2, 1)
    assert "cut.hlo:" in lines[0]


@pytest.mark.parametrize(("kind", "code"), [("passes", 1), ("llo", 2), ("bundles", 2)])
def test_a_compiler_that_crashes_is_a_finding_unless_dumping_llo_may_be_at_fault(assay, monkeypatch, kind, code):
    def crash(*_):
        raise WorkerDied("crash", "compile_for_tpu", 6, "SIGABRT", (), "SIGABRT")

    monkeypatch.setattr(emit, "_hlo", crash)
    monkeypatch.setattr(emit, "_refuse", lambda *_: None)
    found = assay("compile", "small.hlo", "--emit", kind, "--out", "o")
    assert found[0] == code
    assert "crash during compile: SIGABRT" in " ".join(found[1].split())


@pytest.mark.tpu
def test_kernels_of_a_tpu(assay, tpu_toolchain):
    more = () if tpu_toolchain.spec == "host" else ("--toolchain", tpu_toolchain.spec)
    kinds = [word for kind in ("hlo", "passes", "llo", "bundles") for word in ("--emit", kind)]
    code, out, _ = assay("compile", "small.hlo", "--target", "tpu:v5e", *more, *kinds, "--out", "o")
    assert code == 0
    assert f"libtpu {tpu_toolchain.version('libtpu')}" in out.replace("\n", " ")
    optimized = Path("o/small.optimized.hlo").read_text()
    assert parse_module(optimized).attributes["is_scheduled"] == "true"
    assert len(read(Path("o/small/passes"))) > 20
    bundles = [path.name for path in Path("o/small/bundles").iterdir()]
    assert bundles
    assert all(name.endswith("final_bundles.txt") for name in bundles)
    assert any(name.endswith("original.txt") for name in (path.name for path in Path("o/small/llo").iterdir()))
    # What came out goes in again: a scheduled module, which for the CPU is refused.
    again = assay("compile", "o/small.optimized.hlo", "--target", "tpu:v5e", *more, "--emit", "bundles", "--out", "p")
    assert again[0] == 0
    assert len(list(Path("p/small.optimized/bundles").iterdir())) == len(bundles)
    code, _, lines = assay("compile", "o/small.optimized.hlo")
    assert (code, len(lines), "scheduled" in lines[0]) == (2, 1, True)


@pytest.mark.slow
def test_it_is_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "assay.cli.main", "compile", "--help"], capture_output=True, text=True)
    assert (done.returncode, "--emit" in done.stdout) == (0, True)
