"""Modules that leave their results open, but not by rounding: wrong ones are found all the same, by `passes` and by
`check`, and none is blamed whose results some reading explains.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.checking.bounds import Bounds
from assay.checking.target import _beyond, apart, stored
from assay.checking.weigh import Weighed, weigh, weigh_again
from assay.hlo.shape import DTYPES
from assay.isolate.judgement import Inputs
from assay.isolate.pipeline import find_culprit
from assay.oracle.verdict import Verdict
from assay.reference.value import Ball
from assay.targets.snapshots import read

from .chains import SETTINGS, module, write

N = 64
RNG = np.random.default_rng(0)
ARGUMENTS = (
    RNG.integers(-50, 50, N).astype(np.int32),
    RNG.permutation(N).astype(np.int32).reshape(N, 1),
    RNG.standard_normal(N).astype(np.float32),
)
ADD = "add { a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, b) }\n"
ENTRY = f"ENTRY e {{ x = s32[{N}] parameter(0)\n  i = s32[{N},1] parameter(1)\n  f = f32[{N}] parameter(2)\n"

SORT = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  nan = f32[] constant(nan)
  zero = f32[] constant(0)
  za = pred[] compare(a, zero), direction=EQ
  zb = pred[] compare(b, zero), direction=EQ
  sa = f32[] select(za, zero, a)
  sb = f32[] select(zb, zero, b)
  na = pred[] compare(a, a), direction=NE
  nb = pred[] compare(b, b), direction=NE
  ka = f32[] select(na, nan, sa)
  kb = f32[] select(nb, nan, sb)
  ROOT r = pred[] compare(ka, kb), direction=LT, type=TOTALORDER }
""" + ENTRY + f"  ROOT s = f32[{N}] sort(f), dimensions={{0}}, is_stable=true, to_apply=less }}\n"  # fmt: skip
REDUCE = ADD + ENTRY + "  z = s32[] constant(0)\n  ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=add }\n"
WINDOW = ADD + ENTRY + f"""  z = s32[] constant(0)
  w = s32[{N}] reduce-window(x, z), window={{size=3 pad=2_0}}, to_apply=add
  ROOT r = s32[2] slice(w), slice={{[0:2]}} }}
"""  # fmt: skip
SCATTER = ADD + ENTRY + f"""  j = s32[{N},1] copy(i)
  t = s32[{N}] scatter(x, j, x), to_apply=add, update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, unique_indices=true
  ROOT r = s32[1] slice(t), slice={{[0:1]}} }}
"""  # fmt: skip
WHOLE = ENTRY + f"  ROOT r = s32[{N}] copy(x) }}\n"
HALF = ENTRY + f"""  h = s32[{N // 2}] slice(x), slice={{[0:{N // 2}]}}
  b = s32[{N}] custom-call(), custom_call_target="AllocateBuffer"
  z = s32[] constant(0)
  ROOT r = s32[{N}] dynamic-update-slice(b, h, z) }}
"""  # fmt: skip
BITS = SORT.replace("  ROOT r", "  ba = s32[] bitcast-convert(ka)\n  bb = s32[] bitcast-convert(kb)\n  ROOT r").replace(
    "compare(ka, kb), direction=LT, type=TOTALORDER", "compare(ba, bb), direction=LT"
)

# name: a program that decides its result, and a module that gets it wrong and leaves it open
WRONG = {
    "one side of a comparator": (SORT, SORT.replace("select(za, zero, a)", "select(za, a, zero)")),
    "one side of a comparison of bits": (SORT, BITS.replace("select(nb, nan, sb)", "select(nb, sb, nan)")),
    "a comparator that is always true": (
        SORT,
        SORT.replace("compare(ka, kb), direction=LT", "compare(ka, ka), direction=EQ"),
    ),
    "an initial value of many terms": (REDUCE, REDUCE.replace("constant(0)", "constant(1)")),
    "an initial value in padding": (WINDOW, WINDOW.replace("constant(0)", "constant(1)")),
    "a body that is not associative": (REDUCE, REDUCE.replace("add(a, b)", "subtract(a, b)")),
    "indices that are not unique": (SCATTER, SCATTER.replace("copy(i)", "subtract(i, i)")),
    "memory that nobody wrote": (WHOLE, HALF),
}

FLOATS = ENTRY + f"  ROOT r = f32[{N}] copy(f) }}\n"
CANCELLED = ENTRY + f"""  k = f32[] constant(1000)
  kk = f32[{N}] broadcast(k), dimensions={{}}
  s = f32[{N}] add(f, kk)
  t = f32[{N}] subtract(kk, f)
  u = f32[{N}] add(s, t)
  ROOT r = f32[{N}] subtract(u, u.1) }}
""".replace("  ROOT", f"  s.1 = f32[{N}] add(kk, f)\n  u.1 = f32[{N}] add(s.1, t)\n  ROOT")  # fmt: skip

ZEROS = ENTRY + f"  z = s32[] constant(%d)\n  ROOT r = s32[{N}] broadcast(z), dimensions={{}} }}\n"
ALLOCATED = ENTRY + f'  ROOT r = s32[{N}] custom-call(), custom_call_target="AllocateBuffer" }}\n'
ROUNDED = ENTRY + f"""  k = f32[] constant(1000)
  kk = f32[{N}] broadcast(k), dimensions={{}}
  s = f32[{N}] add(f, kk)
  d = f32[{N}] subtract(s, kk)
  c = pred[{N}] compare(d, f), direction=EQ
  ROOT r = s32[{N}] convert(c) }}
"""  # fmt: skip

# name: a program, and a module whose results are its own by some reading
EXPLAINED = {
    "memory that holds what it should": (ZEROS % 1, ALLOCATED),
    "a sort that calls equals less": (SORT, SORT.replace("direction=LT, type=TOTALORDER", "direction=LE")),
    "what rounding decides": (ZEROS % 0, ROUNDED),
}


def weighed(program: str, compiled: str) -> tuple[Weighed, Bounds]:
    """The results of a compiled module as `check` weighs them, and its own bounds."""
    bounds, own = (Bounds(module(text), ARGUMENTS, SETTINGS) for text in (program, compiled))
    results = stored(own.middle())
    return weigh_again(bounds, results, weigh(bounds, results)), own


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_module_is_found(tmp_path: Path, name: str) -> None:
    program, compiled = WRONG[name]
    found, own = weighed(program, compiled)
    assert found.outside
    (ball,), (mask,) = own.sharp()[0], [compared.outside_mask for compared in found.comparisons]
    assert ball.und is not None
    assert mask is not None
    assert ball.und[mask].all(), "it is left open wherever it is wrong"
    assert apart(found, own)
    steps = [("", program), ("dce", program), ("culprit", compiled), ("late", compiled)]
    result = find_culprit(module(program), read(write(tmp_path, steps)), [Inputs("given", ARGUMENTS)], SETTINGS)
    assert result.culprit is not None
    assert (result.verdict, result.culprit.name) == (Verdict.MISMATCH, "culprit")


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_some_reading_explains_is_no_ones_fault(tmp_path: Path, name: str) -> None:
    program, compiled = EXPLAINED[name]
    found, own = weighed(program, compiled)
    assert not (found.outside and apart(found, own))
    steps = [("", program), ("dce", program), ("innocent", compiled)]
    result = find_culprit(module(program), read(write(tmp_path, steps)), [Inputs("given", ARGUMENTS)], SETTINGS)
    assert (result.verdict, result.culprit) == (Verdict.AGREE, None)


@pytest.mark.parametrize("name", ["memory that holds what it should", "what rounding decides"])
def test_they_are_wrong_by_the_midpoints_alone(name: str) -> None:
    found, _ = weighed(*EXPLAINED[name])
    assert found.outside == N


def test_a_program_that_leaves_it_open_convicts_nobody() -> None:
    for program, compiled in WRONG.values():
        assert not weighed(compiled, program)[0].wrong


def test_infinities_and_nan_meet_themselves() -> None:
    """Where the program is infinite for certain and so is the module by its own bounds, its midpoint says nothing."""
    f32, every = DTYPES["f32"], np.ones(5, bool)
    program = Ball(f32, np.array([np.inf, -np.inf, np.nan, 1.0, 1.0]), np.array([0, 0, 0, 0.25, 0.25]))
    theirs = Ball(f32, np.array([np.inf, np.inf, np.nan, 1.5, 1.5]), np.array([0, 0, 0, 0.25, 0.125]))
    (found,) = _beyond([program], [theirs], [every])
    np.testing.assert_array_equal(found, [False, True, False, False, True])


def test_a_radius_that_says_nothing_of_what_it_is_around_may_be_far_from_the_program() -> None:
    """All zeros, up to the rounding of a cancellation: says nothing of a zero, and is not what the program gives."""
    found, own = weighed(FLOATS, CANCELLED)
    assert found.outside == N
    (ball,) = own.plain()
    assert isinstance(ball, Ball)
    assert ball.rad is not None
    assert (ball.rad > 0).all()
    assert not ball.mid.any()
    own._sharp = [Ball(ball.dtype, ball.mid, ball.rad, np.ones(N, bool))], [True]
    assert apart(found, own)
