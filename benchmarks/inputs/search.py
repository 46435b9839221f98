"""A search by brute force, independent of everything in assay: is there any point at which a random graph is finite?

A point is one number for each input, the same in every element, so that a sum along a row is 16 times its term and a
maximum the term itself. Points are drawn from several scales and both signs, a quarter of them among small whole
numbers and their shares, for exponents of what is negative; float32 arithmetic by NumPy. What it finds is a proof that
inputs exist; what it does not find proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graphs import COLUMNS

from assay.hlo.module import Module

Array = np.ndarray[Any, np.dtype[Any]]

_ONE: dict[str, Callable[[Array], Array]] = {
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exponential": np.exp,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "negate": np.negative,
    "abs": np.abs,
    "sine": np.sin,
    "broadcast": lambda x: x,
}
_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "divide": np.divide,
    "power": np.power,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def share_of_points(module: Module, seed: int, points: int = 200_000) -> float:
    """The share of points at which every value is finite."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    fine = np.ones(points, bool)
    with np.errstate(all="ignore"):
        for instruction in module.entry.instructions:
            if instruction.opcode == "parameter":
                scale = np.exp2(rng.uniform(-12, 12, points))
                whole = rng.integers(-17, 17, points, endpoint=True) / np.exp2(
                    rng.integers(0, 4, points, endpoint=True)
                )
                drawn = np.where(np.arange(points) % 4 == 0, whole, rng.choice([-1, 1], points) * scale)
                values[instruction.name] = drawn.astype(np.float32)
                continue
            if instruction.opcode in ("constant", "tuple"):
                continue
            operands = [values[name] for name in instruction.operands if name in values]
            if instruction.opcode == "reduce":
                value = operands[0] * np.float32(COLUMNS if instruction.attributes["to_apply"] == "sum" else 1)
            else:
                table: dict[str, Any] = _ONE if len(operands) == 1 else _TWO
                value = table[instruction.opcode](*operands).astype(np.float32)
            values[instruction.name] = value
            fine &= np.isfinite(value)
    return int(np.count_nonzero(fine)) / points
