"""Operands that are not exact, of every opcode: what the reference tells holds of all that they may be.

An undecided element may be anything, and a ball is any number in it. So whatever is put in their places, each element
of the result that is told as decided must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from independence.builder import Program
from independence.catalogue import CATALOGUE, NotDrawn, draw_program
from independence.choices import Choices
from independence.values import CLASSES, values_of

from assay.errors import AssayError, Unsupported
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.reference.evaluator import check_result, evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, flatten, from_array, round_to

POLICY = Policy("xla-cpu")
DRAWS = 4
MOST = 20_000  # instructions of an evaluation: what is undecided may be the trips of a loop


class _Endless(AssayError):
    pass


def evaluated(module: Module, arguments: list[Array | Ball]) -> list[Ball]:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1
        if steps > MOST:
            raise _Endless

    found = evaluate(module, arguments, POLICY, on_value=lambda _, i, v: check_result(i, v), deadline=count)
    return [leaf for leaf in flatten(found.value) if isinstance(leaf, Ball)]


def apart(a: Ball, b: Ball) -> Array:
    """Which elements both balls call decided and no value lies in both."""
    both = np.ones(a.dims, bool)
    for ball in (a, b):
        if ball.und is not None:
            both &= ~ball.und
    if not (a.dtype.is_float or a.dtype.is_complex):
        return both & (a.mid != b.mid)
    with np.errstate(all="ignore"):
        reach = (0.0 if a.rad is None else a.rad) + (0.0 if b.rad is None else b.rad)
        near = np.abs(a.mid - b.mid) <= reach * (1 + 1e-12)
        return both & ~(near | (a.mid == b.mid) | (np.isnan(a.mid) & np.isnan(b.mid)))


def programs(opcode: str, draws: int) -> Iterator[tuple[Program, np.random.Generator]]:
    for dtype in CATALOGUE[opcode].dtypes:
        for number in range(draws):
            rng = np.random.default_rng([*opcode.encode(), *dtype.encode(), number])
            try:
                yield draw_program(opcode, dtype, Choices(rng)), rng
            except NotDrawn:
                continue


def contradictions(module: Module, arguments: list[Array], rng: np.random.Generator) -> int:
    """How many elements are told as decided with some elements of the arguments undecided, and as something else with
    other values in their places. Raises Unsupported and _Endless.
    """
    doubtful: list[Array | Ball] = []
    others: list[Array | Ball] = []
    for shape, value in zip(module.arrays, arguments, strict=True):
        und = rng.random(shape.dims) < rng.choice([0.1, 0.9])
        with np.errstate(invalid="ignore"):  # signalling NaN
            doubtful.append(Ball(shape.dtype, from_array(shape.dtype, value).mid, None, und))
        others.append(np.where(und, values_of(rng, shape.dtype, shape.dims, str(rng.choice(CLASSES))), value))
    told, plain = evaluated(module, doubtful), evaluated(module, others)
    return sum(int(apart(a, b).sum()) for a, b in zip(told, plain, strict=True))


def outside(module: Module, arguments: list[Array], rng: np.random.Generator) -> int:
    """How many elements lie outside what is told of balls, with other values of the balls in their places."""
    balls: list[Array | Ball] = []
    others: list[Array | Ball] = []
    for shape, value in zip(module.arrays, arguments, strict=True):
        with np.errstate(all="ignore"):
            mid = from_array(shape.dtype, value).mid
        if not shape.dtype.is_float:
            balls.append(value)
            others.append(value)
            continue
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(mid), np.abs(mid), 0.0)
            share = rng.choice([0.0, 2.0**-20, 0.01, 0.5, 1.0, 3.0], shape.dims)
            rad = np.where(size < 1e300, size * share, 0.0)  # of what float64 holds with some room
            reach = rng.choice([-1.0, 1.0, -0.5, 0.0, 0.3], shape.dims)
            other = round_to(shape.dtype, mid + rad * reach)
            inside = np.abs(other - mid) <= rad
            other = np.where(inside & np.isfinite(other), other, mid)
        balls.append(Ball(shape.dtype, mid, rad))
        others.append(Ball(shape.dtype, other))
    told, plain = evaluated(module, balls), evaluated(module, others)
    return sum(int(apart(a, b).sum()) for a, b in zip(told, plain, strict=True))


@pytest.mark.parametrize("draws", [DRAWS, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("opcode", sorted(CATALOGUE))
@pytest.mark.parametrize("wrong", [contradictions, outside])
def test_what_is_told_holds_of_all_that_the_operands_may_be(opcode, draws, wrong):
    judged = 0
    for program, rng in programs(opcode, draws):
        try:
            bad = wrong(parse_module(program.text), program.arguments, rng)
        except (Unsupported, _Endless):
            continue
        judged += 1
        assert not bad, f"{bad} elements of {program.statement}\n--again {list(program.record)}"
    assert judged or not program.parameters


@pytest.mark.parametrize(
    ("target", "result", "operands"),
    [
        ("X64Combine", "u64[5,2]", ("u32[5,2]", "u32[5,2]")),
        ("X64Combine", "s64[5,2]", ("u32[5,2]", "s32[5,2]")),
        ("X64Combine", "c64[5,2]", ("f32[5,2]", "f32[5,2]")),
        ("X64SplitLow", "u32[5,2]", ("u64[5,2]",)),
        ("X64SplitHigh", "s32[5,2]", ("s64[5,2]",)),
        ("X64SplitHigh", "f32[5,2]", ("c64[5,2]",)),
        ("TopKBatchMajorSmallK", "s32[4,2]", ("s32[4,6]",)),
        ("GatherScatterIndicesBitpacked", "s32[5]", ("s32[5]",)),
        ("Cholesky", "f32[3,2,2]", ("f32[3,2,2]",)),
        ("InvertDiagBlocksLowerTriangular", "f32[1,3,2,2]", ("f32[1,3,2,2]",)),
        ("InvertDiagBlocksUpperTriangular", "f32[1,3,2,2]", ("f32[1,3,2,2]",)),
    ],
)
def test_so_it_does_in_the_calls_of_the_tpu_compiler(target, result, operands):
    lines = [f"  p{k} = {shape} parameter({k})" for k, shape in enumerate(operands)]
    given = ", ".join(f"p{k}" for k in range(len(operands)))
    lines.append(f'  ROOT r = {result} custom-call({given}), custom_call_target="{target}"')
    module = parse_module("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")
    for number in range(10 * DRAWS):
        rng = np.random.default_rng([*target.encode(), number])
        arguments = [values_of(rng, shape.dtype, shape.dims, str(rng.choice(CLASSES))) for shape in module.arrays]
        assert not contradictions(module, arguments, rng)
        assert not outside(module, arguments, rng)
