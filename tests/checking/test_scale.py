"""The scale of an output where its terms cancel."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.checking.scale import Scales
from assay.hlo.parse import parse_module
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target

MEAN = """HloModule mean
adding {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[50] parameter(0)
  zero = f32[] constant(0)
  sum = f32[] reduce(x, zero), dimensions={0}, to_apply=adding
  n = f32[] constant(50)
  ROOT mean = f32[] divide(sum, n)
}
"""


@pytest.mark.parametrize("offset", [0.01, 0.3, 2.0])
def test_a_mean_is_as_large_as_its_terms_make_it(offset):
    module = parse_module(MEAN)
    x = (np.linspace(-1, 1, 50) + offset).astype(np.float32)
    scales = Scales(module)
    value = evaluate(module, [x], for_target("cpu"), on_value=scales.see).value
    rms, total = np.sqrt(np.mean(x.astype(float) ** 2)), x.astype(float).sum()
    expected = abs(total / 50) * max(1.0, rms / abs(total))
    assert scales.of(0, value) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x.sum(), lambda x: x.mean(), lambda x: (x - x.mean()).sum()], ids=["sum", "mean", "centred"]
)
def test_a_sum_near_zero_is_judged(function):
    report = assay.check(function, np.linspace(-1.5, 1.5, 50).astype(np.float32))
    assert report.ok
    assert report.cases[0].outputs[0].undecided == 0
