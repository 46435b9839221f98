"""What is emitted was tried: it fails with what was seen, and nothing else will do.

No compiler here is wrong, so the expectation is: then the host is the bad toolchain, and what it gives is what was
seen.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.checking.emitted import NoTest, emitted, seen, simpler
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.value import Ball
from assay.report.expected import Expected, expected_of

NEGATE = "HloModule m\n\nENTRY e {\n  x = TYPE parameter(0)\n  ROOT y = TYPE OPCODE(x)\n}\n"


def module_of(type_: str, opcode: str = "negate"):
    return parse_module(NEGATE.replace("TYPE", type_).replace("OPCODE", opcode))


def wrongly(arguments, by=1.0, lie=0.0):
    """An expectation that is off in the last element, and what a right compiler gives, off by `lie`."""
    right = -np.asarray(arguments[0]).astype(np.float64)
    want = right.copy()
    want.reshape(-1)[-1] += by
    return [Expected(want, want, want, (want.size - 1,))], [(right + lie).astype(np.float32)]


def test_the_first_form_that_fails_as_seen():
    x = np.float32([1, 2, 3])
    found = emitted(module_of("f32[3]"), [x], wrongly, title="negate", bad="host", runs=2)
    assert found.form == "lax"
    assert found.bad.fails
    assert len(found.bad.runs) == 2
    assert found.good is None
    assert "np.array([-1, -2, -2], np.float32)" in found.text


def test_other_results_than_were_seen_are_no_test():
    x = np.float32([1, 2, 3])
    with pytest.raises(NoTest, match="other results than were seen"):
        emitted(module_of("f32[3]"), [x], lambda a: wrongly(a, lie=3.0), title="n", bad="host", forms=["lax"], runs=1)


def test_what_fails_in_the_good_toolchain_is_no_test():
    x = np.float32([1, 2, 3])
    with pytest.raises(NoTest, match="lax: host: failed 1 of 1"):
        emitted(module_of("f32[3]"), [x], wrongly, title="n", bad="host", good="host", forms=["lax"], runs=1)


def test_a_right_expectation_is_no_test():
    def rightly(arguments):
        right = -np.asarray(arguments[0]).astype(np.float64)
        return [Expected(right, right, right, ())], [right.astype(np.float32)]

    with pytest.raises(NoTest, match="right on inputs"):
        emitted(module_of("f32[3]"), [np.float32([1, 2, 3])], rightly, title="n", bad="host")


def test_an_argument_that_is_too_long_gives_way():
    rng = np.random.default_rng(1234)
    x = rng.normal(size=(64, 64)).astype(np.float32)
    i = rng.integers(3, 17, (900,)).astype(np.int32)
    module = parse_module(
        "HloModule m\n\nENTRY e {\n  x = f32[64,64] parameter(0)\n  i = s32[900] parameter(1)\n"
        "  s = f32[2] parameter(2)\n  ROOT y = (f32[64,64], s32[900]) tuple(x, i)\n}\n"
    )
    s = np.float32([1, 2])
    sets = list(simpler(module, [x, i, s]))
    assert sets[0] == ([x, i, s], {})
    assert len(sets) > 4
    assert not sets[1][1]
    assert np.array_equal(sets[1][0][0], np.rint(np.clip(x, -4, 4)))
    for values, spelled in sets[2:]:
        assert set(spelled) == {0, 1}
        assert [v.dtype for v in values] == [np.float32, np.int32, np.float32]
        assert values[2] is s
        assert (int(values[1].min()), int(values[1].max())) >= (3, 3)
        assert int(values[1].max()) <= 16
        for k, text in spelled.items():
            assert np.array_equal(eval(text, {"np": np}).astype(values[k].dtype), values[k])


def test_a_few_special_values_stay_in_their_places():
    x = np.random.default_rng(1234).normal(size=(64, 64)).astype(np.float32)
    x[0, 3], x[5, 5], x[63, 63] = np.nan, np.inf, -np.inf
    for values, _ in simpler(module_of("f32[64,64]"), [x]):
        assert np.isnan(values[0]).sum() == 1
        assert np.isnan(values[0][0, 3])
        assert (values[0][5, 5], values[0][63, 63]) == (np.inf, -np.inf)


def test_bounds_around_what_was_seen_leave_out_what_is_right():
    low, high = np.array([1.0, 5.0, np.nan, np.inf, 2.0]), np.array([2.0, 5.0, np.nan, np.inf, 2.0])
    actual = np.array([1.5, 7.0, 3.0, 8.0, np.nan], np.float32)
    (found,) = seen([Expected(low, low, high, (1,))], [actual])
    assert found.low.tolist()[:4] == [1.0, 6.0, 3.0, 8.0]
    assert found.high.tolist()[:4] == [2.0, 8.0, 3.0, 8.0]
    assert np.isnan(found.low[4])
    (whole,) = seen([Expected(np.array([4]), np.array([4]), np.array([4]), (0,))], [np.array([5])])
    assert (whole.low[0], whole.high[0]) == (5, 5)
    (both,) = seen([Expected(np.array([1j]), np.array([1j]), np.array([1j]), (0,))], [np.array([0j])])
    assert (both.low[0], both.high[0]) == (-0.5j, 0.5j)


def test_an_infinite_part_leaves_the_other_alone():
    """Of a complex result, of its bounds, and of what was seen."""
    inf = np.inf
    seen_, want = np.array([complex(5, 2)]), np.array([complex(1, 2)])
    low, high = np.array([complex(1, -inf)]), np.array([complex(1, inf)])
    (found,) = seen([Expected(want, low, high, (0,))], [seen_])
    assert (found.low.real[0], found.high.real[0]) == (3, 7)
    assert (found.low.imag[0], found.high.imag[0]) == (-inf, inf)
    ball = Ball(DTYPES["c64"], np.array([complex(1, inf), complex(1, 2)]), np.array([0.5, inf]))
    (bounds,) = expected_of(module_of("c64[2]"), [ball])
    assert bounds.low.real.tolist() == [0.5, -inf]
    assert bounds.high.real.tolist() == [1.5, inf]
    assert bounds.low.imag.tolist() == [inf, -inf]
    assert bounds.high.imag.tolist() == [inf, inf]
