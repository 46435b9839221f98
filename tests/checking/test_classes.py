"""A confusion matrix of what looks like noise: for each class results that a correct compiler may give, results that
some liberty of the compiler explains, and wrong ones that look alike.

The target's results are worked out here in NumPy; no compiler has a part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from assay.checking.bounds import Settings
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import Array, from_hlo
from assay.reference.policies import for_target
from assay.report.result import CaseResult

RNG = np.random.default_rng(7)
F32 = np.float32


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and results of two runs with what is to be said of them."""

    name: str
    text: str
    arguments: list[Array]
    outputs: list[Array]
    verdict: Verdict
    klass: MismatchClass | None = None
    second: list[Array] | None = None


def judged(case: Case) -> CaseResult:
    class Pretend(Executed):
        """A target whose results are those that the case has worked out."""

        def outputs(self, *_):  # type: ignore[no-untyped-def]
            return case.outputs, case.outputs if case.second is None else case.second

    program = from_hlo(case.name, case.text, b"", "hlo-text")
    settings = Settings(for_target("cpu", "0.12.0.1"), skipped=True)
    result = judge(program, case.arguments, "", Pretend(None, program), settings)  # type: ignore[arg-type]
    assert result is not None
    return result


AGREE, MISMATCH = Verdict.AGREE, Verdict.MISMATCH
CASES: list[Case] = []


def group(make: Callable[[], list[Case]]) -> None:
    CASES.extend(make())


# ---- EXCESS_PRECISION


@group
def excess_precision() -> list[Case]:
    x = RNG.standard_normal(512).astype(F32)
    rounded = x.astype(np.float16).astype(F32)
    lost = """HloModule figure4
ENTRY e { x = f32[512] parameter(0)
  h = f16[512] convert(x)
  w = f32[512] convert(h)
  ROOT r = f32[512] subtract(x, w) }
"""
    kept = lost.replace("subtract(x, w)", "multiply(x, w)")
    return [
        Case("figure 4, rounded", lost, [x], [x - rounded], AGREE),
        Case("figure 4, elided", lost, [x], [np.zeros_like(x)], MISMATCH, MismatchClass.EXCESS_PRECISION),
        Case("figure 4, added", lost, [x], [x + rounded], MISMATCH, MismatchClass.MISCOMPILE),
        Case("a product, elided", kept, [x], [x * x], AGREE),
        Case("a product of the wrong sign", kept, [x], [-x * x], MISMATCH, MismatchClass.MISCOMPILE),
    ]


# ---- REASSOCIATION


@group
def reassociation() -> list[Case]:
    x = RNG.standard_normal((8, 4096)).astype(F32)
    text = """HloModule sums
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[8,4096] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add }
"""
    in_turn = np.array([np.add.accumulate(row, dtype=F32)[-1] for row in x])
    backwards = np.array([np.add.accumulate(row[::-1], dtype=F32)[-1] for row in x])
    return [
        Case("in turn", text, [x], [in_turn], AGREE),
        Case("backwards", text, [x], [backwards], AGREE),
        Case("in pairs", text, [x], [x.sum(1, dtype=F32)], AGREE),
        Case("without the last", text, [x], [x[:, :-1].sum(1, dtype=F32)], MISMATCH, MismatchClass.MISCOMPILE),
    ]


# ---- BRANCH_FLIP


@group
def branch_flip() -> list[Case]:
    text = """HloModule flip
ENTRY e { x = f32[64] parameter(0)
  k = f32[64] parameter(1)
  one = f32[] constant(1)
  two = f32[] constant(2)
  a = f32[64] broadcast(one), dimensions={}
  b = f32[64] broadcast(two), dimensions={}
  p = f32[64] exponential(x)
  c = pred[64] compare(p, k), direction=LT
  ROOT r = f32[64] select(c, a, b) }
"""
    x = RNG.standard_normal(64).astype(F32)
    k = np.exp(x).astype(F32)
    k[32:] *= F32(1.5)  # half of the comparisons are close, half are not
    right = np.where(np.exp(x.astype(np.float64)) < k, F32(1), F32(2))
    close, clear = right.copy(), right.copy()
    close[:32] = 3 - close[:32]
    clear[40] = 3 - clear[40]
    return [
        Case("a close comparison the other way", text, [x, k], [close], AGREE),
        Case("a clear comparison the other way", text, [x, k], [clear], MISMATCH, MismatchClass.MISCOMPILE),
    ]


# ---- SORT_TIE

PAIRS = """HloModule pairs
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = TYPE[] parameter(2)
  d = TYPE[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { k = s32[4,6] parameter(0)
  v = TYPE[4,6] parameter(1)
  ROOT s = (s32[4,6], TYPE[4,6]) sort(k, v), dimensions={1}, is_stable=STABLE, to_apply=less }
"""


def pairs(dtype: str, stable: bool) -> str:
    return PAIRS.replace("TYPE", dtype).replace("STABLE", str(stable).lower())


@group
def sort_tie() -> list[Case]:
    keys = np.tile(np.array([3, 1, 2, 1, 3, 1], np.int32), (4, 1))
    order = np.argsort(keys, 1, kind="stable")
    found = []
    for dtype, values in (("s32", np.arange(24, dtype=np.int32)), ("f32", np.arange(24, dtype=F32))):
        v = values.reshape(4, 6)
        k, right = np.take_along_axis(keys, order, 1), np.take_along_axis(v, order, 1)
        other, twice, foreign, moved = right.copy(), right.copy(), right.copy(), right.copy()
        other[0, [0, 1, 2]] = right[0, [2, 0, 1]]  # three equal keys of row 0
        twice[1, [0, 1]] = right[1, 0]  # one of the equals twice, another lost
        foreign[2, [0, 1, 2]] = right[2, [0, 0, 2]] + values.dtype.type(1)
        moved[3, [2, 3]] = right[3, [3, 2]]  # across different keys
        unstable, stable = pairs(dtype, False), pairs(dtype, True)
        bug = MismatchClass.MISCOMPILE
        found += [
            Case(f"{dtype}: equals in their order", unstable, [keys, v], [k, right], AGREE),
            Case(f"{dtype}: equals in another order", unstable, [keys, v], [k, other], AGREE),
            Case(f"{dtype}: one of the equals twice", unstable, [keys, v], [k, twice], MISMATCH, bug),
            Case(f"{dtype}: none of the equals", unstable, [keys, v], [k, foreign], MISMATCH, bug),
            Case(f"{dtype}: across keys", unstable, [keys, v], [k, moved], MISMATCH, bug),
            Case(f"{dtype}: stable, in order", stable, [keys, v], [k, right], AGREE),
            Case(f"{dtype}: stable, not", stable, [keys, v], [k, other], MISMATCH, MismatchClass.SORT_TIE),
            Case(f"{dtype}: stable, one twice", stable, [keys, v], [k, twice], MISMATCH, bug),
            Case(f"{dtype}: stable, across keys", stable, [keys, v], [k, moved], MISMATCH, bug),
        ]
    return found


# ---- PARTIAL_WRITE


@group
def partial_write() -> list[Case]:
    text = """HloModule written
ENTRY e { x = f32[2,8] parameter(0)
  i = s32[] constant(1)
  z = s32[] constant(0)
  m = f32[4,8] custom-call(), custom_call_target="AllocateBuffer"
  ROOT r = f32[4,8] dynamic-update-slice(m, x, i, z) }
"""
    x = RNG.standard_normal((2, 8)).astype(F32)
    garbage = RNG.standard_normal((4, 8)).astype(F32) * F32(1e30)
    garbage[0, 0] = np.nan
    garbage[1:3] = x
    wrong = garbage.copy()
    wrong[2, 3] += 1
    return [
        Case("garbage beside what was written", text, [x], [garbage], AGREE),
        Case("garbage in what was written", text, [x], [wrong], MISMATCH, MismatchClass.MISCOMPILE),
    ]


# ---- RNG


@group
def rng() -> list[Case]:
    uniform = """HloModule uniform
ENTRY e { a = f32[] constant(2)
  b = f32[] constant(3)
  ROOT r = f32[256] rng(a, b), distribution=rng_uniform }
"""
    numbers = (2 + RNG.random(256)).astype(F32)
    above = numbers.copy()
    above[17] = 3.5
    bits = """HloModule bits
ENTRY e { s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[4]) rng-bit-generator(s), algorithm=rng_philox }
"""
    # Philox-4x32-10 of key 0 and counter 0: Random123's known-answer file, kat_vectors.
    state = np.zeros(2, np.uint64)
    known = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)
    after = np.array([0, 1], np.uint64)
    flipped = known ^ np.array([0, 0, 1, 0], np.uint32)
    bug = MismatchClass.MISCOMPILE
    return [
        Case("numbers of the target's own", uniform, [], [numbers], Verdict.UNVERIFIED),
        Case("a number out of range", uniform, [], [above], MISMATCH, bug),
        Case("no random numbers", uniform, [], [np.full(256, 2.5, F32)], MISMATCH, bug),
        Case("the known bits", bits, [state], [after, known], AGREE),
        Case("a flipped bit", bits, [state], [after, flipped], MISMATCH, bug),
    ]


# ---- FLUSHED_SUBNORMAL


@group
def flushed_subnormal() -> list[Case]:
    def text(dtype: str) -> str:
        return f"""HloModule scaled
ENTRY e {{ x = {dtype}[64] parameter(0)
  y = {dtype}[64] parameter(1)
  ROOT r = {dtype}[64] multiply(x, y) }}
"""

    found = []
    for dtype, numpy, least, flushing in (("f32", F32, 2.0**-126, AGREE), ("f16", np.float16, 2.0**-14, MISMATCH)):
        x = np.linspace(0.25, 4, 64).astype(numpy)
        y = np.full(64, least, numpy)
        right = (x.astype(np.float64) * y.astype(np.float64)).astype(numpy)
        flushed = np.where(np.abs(right.astype(np.float64)) < least, numpy(0), right)
        wrong = flushed.copy()
        wrong[-1] = 0  # 4 times the smallest normal number
        klass = MismatchClass.FLUSHED_SUBNORMAL if flushing is MISMATCH else None
        found += [
            Case(f"{dtype}: subnormals kept", text(dtype), [x, y], [right], AGREE),
            Case(f"{dtype}: subnormals flushed", text(dtype), [x, y], [flushed], flushing, klass),
            Case(f"{dtype}: more flushed", text(dtype), [x, y], [wrong], MISMATCH, MismatchClass.MISCOMPILE),
        ]
    return found


# ---- NONDETERMINISTIC


@group
def nondeterministic() -> list[Case]:
    text = """HloModule exp
ENTRY e { x = f32[16] parameter(0)
  ROOT r = f32[16] exponential(x) }
"""
    x = RNG.standard_normal(16).astype(F32)
    right = np.exp(x.astype(np.float64)).astype(F32)
    near, far = np.nextafter(right, F32(9)), right.copy()
    far[3] *= 2
    return [
        Case("runs that differ within the bound", text, [x], [right], AGREE, second=[near]),
        Case("runs that differ", text, [x], [right], Verdict.NONDETERMINISTIC, second=[far]),
        Case("runs that differ, the first wrong", text, [x], [far], Verdict.NONDETERMINISTIC, second=[right]),
        Case("wrong twice", text, [x], [far], MISMATCH, MismatchClass.MISCOMPILE),
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_noise_is_told_from_bugs(case: Case) -> None:
    result = judged(case)
    said = (result.verdict, result.klass)
    assert said == (case.verdict, case.klass), (result.why, result.notes, result.outputs)


def test_the_matrix_has_a_bug_and_an_honest_result_for_each_class() -> None:
    """Where a program has a result that is wrong, it has one that is not, so that nothing is convicted as a whole."""
    texts = {case.text for case in CASES}
    for text in texts:
        verdicts = {case.verdict for case in CASES if case.text == text}
        assert verdicts & {MISMATCH, Verdict.NONDETERMINISTIC}, text
        assert verdicts & {AGREE, Verdict.UNVERIFIED}, text


def test_a_row_that_is_no_permutation_is_named() -> None:
    case = next(case for case in CASES if case.name == "s32: one of the equals twice")
    result = judged(case)
    assert "s: 1 of 4 sorted rows are no permutation of what was sorted" in result.notes
    assert result.outputs[1].outside == 5  # the row's open elements: three equal keys, two equal keys
    assert result.outputs[1].box == ((1, 1), (0, 5))
