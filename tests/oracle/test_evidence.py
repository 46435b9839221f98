"""What a radius says of an element."""

from __future__ import annotations

import numpy as np

from assay.hlo.shape import DTYPES
from assay.oracle.evidence import says_nothing, says_too_little, typical_size
from assay.reference.value import Ball

F32 = DTYPES["f32"]


def ball(mid, rad, und=None):
    return Ball(F32, np.array(mid, float), np.array(rad, float), None if und is None else np.array(und))


def test_a_radius_says_nothing_where_it_passes_the_element_and_the_array():
    mask = says_nothing(ball([1, 1, 0, 0], [0.9, 1.1, 0.1, 0.2]), 0.7)
    assert mask is not None
    assert mask.tolist() == [False, True, False, True]
    assert says_nothing(ball([1, 1], [0.1, 0.1]), 1.0) is None
    assert says_nothing(Ball(F32, np.ones(3)), 1.0) is None


def test_undecided_elements_and_wide_radii_ask_for_more():
    mask = says_too_little(ball([1, 1, 0, 0], [0.02, 0.001, 0.02, 0.001], [False, True, False, False]), 0.7)
    assert mask is not None
    assert mask.tolist() == [True, True, True, False]
    assert says_too_little(ball([1, 1], [1e-6, 1e-6]), 1.0) is None


def test_typical_size_does_not_overflow_and_leaves_out_what_is_not_finite():
    assert typical_size(ball([3e300, 4e300, np.inf, np.nan], [0, 0, 0, 0])) == np.sqrt(12.5) * 1e300
    assert typical_size(ball([], [])) == 0


def test_a_modulus_that_overflows_is_left_out():
    large = Ball(DTYPES["c128"], np.array([1.7e308 + 1.7e308j, 3 + 4j]))
    with np.errstate(all="raise"):
        assert typical_size(large) == 5.0
