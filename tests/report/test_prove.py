"""What a run of a test says, and that it sees nothing of this Python but pytest."""

from __future__ import annotations

import pytest

from assay.report.prove import Proof, Run, prove

PASSES = "def test_a():\n    assert True\n"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (PASSES, "passed"),
        ("def test_a():\n    assert 1 == 2\n", "failed"),
        ("import numpy as np\n\ndef test_a():\n    np.testing.assert_array_equal(1, 2)\n", "failed"),
        ("def test_a():\n    raise ValueError('no')\n", "error"),
        ("import no_such_module\n", "error"),
        ("def helper():\n    pass\n", "error"),
        ("import pytest\n\ndef test_a():\n    pytest.importorskip('no_such_module')\n", "skipped"),
        ("import os\n\ndef test_a():\n    os.abort()\n", "crashed"),
        ("import time\n\ndef test_a():\n    time.sleep(60)\n", "timeout"),
    ],
)
def test_outcomes(text, outcome):
    proof = prove(text, "host", runs=1, timeout_s=8)
    assert [run.outcome for run in proof.runs] == [outcome], proof.runs
    assert proof.passes == (outcome == "passed")
    assert proof.fails == (outcome in ("failed", "crashed"))


def test_three_runs_by_default():
    proof = prove(PASSES, "host")
    assert len(proof.runs) == 3
    assert proof.passes
    assert str(proof) == "host: passed 3 of 3"


def test_a_test_that_is_not_the_same_each_time_is_no_proof():
    """It leaves a file behind, so that its second run is another one."""
    lines = ["import os", "", "def test_a():", "    seen = os.path.exists('seen')", "    open('seen', 'w').close()"]
    text = "\n".join([*lines, "    assert seen", ""])
    proof = prove(text, "host")
    assert [run.outcome for run in proof.runs] == ["failed", "passed"]
    assert not proof.passes
    assert not proof.fails


def test_nothing_of_the_environment_reaches_it(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag")
    monkeypatch.setenv("PYTHONPATH", "/no/such/folder")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    lines = ["import os", "", "def test_a():", "    assert 'XLA_FLAGS' not in os.environ"]
    assert prove("\n".join([*lines, "    assert os.environ['JAX_PLATFORMS'] == 'cpu'", ""]), "host", runs=1).passes


def test_no_run_is_neither():
    assert not Proof("host", ()).passes
    assert not Proof("host", ()).fails
    assert not Proof("host", (Run("passed", 1.0), Run("failed", 1.0))).fails
