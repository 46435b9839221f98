"""docs/bounds.md: each rule has a formula and names tests that exist; and the benchmark of the bounds runs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact import nearest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "bounds.md"
BENCHMARK = ROOT / "benchmarks" / "soundness"
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rules() -> list[list[str]]:
    """The rows of all tables, cells split at bars that are not escaped."""
    rows = []
    for line in DOCS.read_text().splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| rule |")):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def test_there_are_tables():
    assert len(rules()) > 50
    assert all(len(row) == 4 for row in rules()), [row for row in rules() if len(row) != 4]


@pytest.mark.parametrize("row", rules(), ids=lambda row: row[0][:50])
def test_each_rule_has_a_formula_and_tests_that_exist(row):
    rule, formula, _, tests = row
    assert rule
    assert formula
    named = NAMED.findall(tests)
    assert named, f"{rule!r} names no test"
    assert len(named) == tests.count("::"), f"{rule!r} names a test that cannot be read: {tests}"
    for file, name in named:
        path = ROOT / "tests" / "reference" / file
        assert path.exists(), f"{rule!r}: there is no {path}"
        functions = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{rule!r}: {file} has no {name}"


def test_every_bounds_test_is_named():
    """A test of a bound that no rule names is one whose rule is not written down."""
    named = {pair for row in rules() for pair in NAMED.findall(row[3])}
    helpers = {"test_midpoints_are_true", "test_what_is_not_rewritten_stays_tight"}
    for path in (ROOT / "tests" / "reference").glob("test_bounds_*.py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.name not in helpers:
                assert (path.name, node.name) in named, f"{path.name}::{node.name}"


def test_the_benchmark_rounds_correctly(monkeypatch):
    """Its own rounding against integers: ties, subnormals, overflow."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    formats = importlib.import_module("formats")
    rng = np.random.default_rng(0)
    for name in ("f32", "bf16", "f16"):
        to = formats.FORMATS[name]
        x = np.ldexp(1 + rng.integers(0, 1 << 12, 600) / 4096, rng.integers(to.low - to.digits - 2, to.low + 4, 600))
        x[:200] = 1 + rng.integers(0, 64, 200) * to.unit / 4
        x[200:220] = to.largest * (1 + np.linspace(-1, 2, 20) * to.unit)
        for value, found in zip(x, formats.nearest(x, to), strict=True):
            true = nearest(Fraction(float(value)), name)
            assert found == (np.inf if true is None else float(true)), (name, value)


def run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BENCHMARK, *arguments], capture_output=True, text=True, timeout=280, check=False
    )


def test_the_benchmark_meets_its_bars():
    found = run_benchmark("--quick")
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-2000:]
    assert ", 0 outside; 0 of " in found.stdout


def test_the_benchmark_sees_a_bound_that_is_too_narrow(tmp_path):
    """With a policy whose exponential rounds correctly, XLA's own results lie outside."""
    script = tmp_path / "narrow.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(BENCHMARK)!r})\n"
        "import dataclasses, measure, runpy\n"
        "true = measure.policy\n"
        "measure.policy = lambda: dataclasses.replace(true(), ulps={**true().ulps, 'exponential': {'f32': 0.0}})\n"
        "sys.argv = ['soundness', '--quick', '--only', 'exponential']\n"
        f"runpy.run_path({str(BENCHMARK / '__main__.py')!r}, run_name='__main__')\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "MISSED XLA" in found.stdout
