"""assay's verdict on real bugs is NumPy's: a finding where the XLA at hand is wrong, agreement where it is right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

from assay.checking.api import Request, check_path

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "bugs"
NOT_XLAS = {"one_hot_narrow_index"}  # the program itself is wrong, and XLA compiles it faithfully


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def right(module):
    """Case by case, whether jax computes here what the file expects."""
    tolerance = getattr(module, "RTOL", 1e-6)
    for name, function, arguments, expected in module.cases():
        got = np.asarray(jax.jit(function)(*arguments))
        yield name, bool(np.allclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def verdicts(path):
    report = check_path(str(path), Request())
    return {case.name.removeprefix(f"{path.name}: "): case.verdict == "agree" for case in report.cases}


def test_known_bugs():
    path = HERE / "known_bugs.py"
    assert verdicts(path) == dict(right(load(path)))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no collection of bugs beside the repository")
@pytest.mark.parametrize("path", sorted(SHARED.glob("*.py")), ids=lambda path: path.stem)
def test_shared_bugs(path):
    if path.stem == "run":
        pytest.skip("the runner, not a bug")
    expected = dict(right(load(path)))
    if path.stem in NOT_XLAS:
        expected = dict.fromkeys(expected, True)
    assert verdicts(path) == expected
