"""Operands for tests of elementwise operations, and a way to run one operation on balls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import ml_dtypes
import numpy as np

from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape
from assay.reference.context import Context
from assay.reference.evaluator import find
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, as_ball

POLICY = for_target("cpu", jax.__version__)
EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, -0.5, 1.5, 2.5, -2.5)
EXPONENTS = {"float32": (-126, 127), "float64": (-1000, 1000), "float16": (-20, 15), "bfloat16": (-120, 120)}
FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)


def draw(dtype: Any, count: int = 2000, seed: int = 0) -> Array:
    """Ordinary values, all exponents, small integers and edges, shuffled."""
    rng = np.random.default_rng([seed, 7])
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        values = values >> rng.integers(0, info.bits, count).astype(dtype)
        values[:4] = [0, 1, info.max, info.min]
        return rng.permutation(values)
    low, high = EXPONENTS[dtype.name]
    values = np.ldexp(1 + rng.random(count), rng.integers(low, high, count)) * rng.choice([-1, 1], count)
    half = count // 2
    values[:half] = rng.normal(size=half) * rng.choice([0.01, 1, 30], half)
    values[: count // 10] = rng.integers(-9, 9, count // 10)
    values[: len(EDGES)] = EDGES
    return rng.permutation(values.astype(dtype))


def apply(
    opcode: str,
    *balls: Ball,
    out: str | None = None,
    policy: Policy = POLICY,
    attributes: Mapping[str, str] | None = None,
) -> Ball:
    """One operation of the reference on balls; `out` is the result's element type where it is not the first
    operand's.
    """
    dtype = DTYPES[out] if out else balls[0].dtype
    dims = max((ball.dims for ball in balls), key=len)
    names = ("a", "b", "c")[: len(balls)]
    parameters = [
        Instruction(name, "parameter", ArrayShape(ball.dtype, ball.dims), parameter_number=number)
        for number, (name, ball) in enumerate(zip(names, balls, strict=True))
    ]
    instruction = Instruction("op", opcode, ArrayShape(dtype, dims), names, attributes or {})
    module = Module("m", (Computation("e", (*parameters, instruction), "op"),), "e")
    context = Context(module, policy, lambda name, arguments: arguments[0])
    with np.errstate(all="ignore"):
        return as_ball(find(opcode)(context, instruction, *balls))


def ball(dtype: str, mid: Any, rad: Any = None) -> Ball:
    mid = np.asarray(mid, np.complex128 if DTYPES[dtype].is_complex else np.float64)
    return Ball(DTYPES[dtype], mid, None if rad is None else np.broadcast_to(np.float64(rad), mid.shape))
