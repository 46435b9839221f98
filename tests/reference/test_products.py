"""Upper bounds of products in single precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from assay.reference import products
from assay.reference.products import above


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(products, "_WORTH", 0)


@pytest.mark.parametrize("kind", ["normal", "tiny", "huge", "wide", "rows apart", "zeros", "infinite"])
@pytest.mark.parametrize("k", [1, 7, 300])
def test_it_is_above_and_close(kind, k):
    rng = np.random.default_rng(0)
    a, b = np.abs(rng.standard_normal((5, k))), np.abs(rng.standard_normal((k, 4)))
    if kind == "tiny":
        a, b = a * 1e-200, b * 1e-90
    elif kind == "huge":
        a, b = a * 1e200, b * 1e90
    elif kind == "wide":
        a = a * 10.0 ** rng.integers(-80, 80, a.shape)
    elif kind == "rows apart":
        a = a * 10.0 ** -np.arange(0, 200, 40)[:, None]
    elif kind == "zeros":
        a[1], b[:, 2] = 0, 0
    elif kind == "infinite":
        a[0, 0] = np.inf
    with np.errstate(all="ignore"):
        bound = above(np.matmul, a, b, k)
    for i, j in np.ndindex(5, 4):
        if not np.isfinite(a[i]).all():
            assert not np.isfinite(bound[i, j])
            continue
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True))
        slack = 1 + k * Fraction(2) ** -52  # of the way by float64
        assert Fraction(float(bound[i, j])) * slack >= exact
        assert Fraction(float(bound[i, j])) <= exact * (1 + Fraction(k + 16, 2**22))
