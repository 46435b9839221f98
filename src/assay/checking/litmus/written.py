"""Bodies that jax writes, known by their structure: pairs of which the one that compares as greater is picked, and the
logarithm of a sum of exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.checking.litmus.look import Site
from assay.hlo.attributes import called, int_list, window
from assay.hlo.module import Computation, Module
from assay.reference.ops.convolution import padded_and_dilated
from assay.reference.ops.window import places_of, terms_first
from assay.reference.value import Array, Ball

Tree = int | tuple[Any, ...]
"""A parameter's number, or an opcode (of a comparison with its direction) with the trees that it is given."""

SMALL = 16
"""Instructions of a body that may be one of these."""

_FLIPPED = {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}
_EITHER_WAY = frozenset(("add", "maximum"))
_DIFFERENCE = ("subtract", 0, 1)
_LOG_OF_SUM = (
    "select",
    ("compare NE", _DIFFERENCE, _DIFFERENCE),  # infinities of one sign
    ("add", 0, 1),
    ("add", ("log-plus-one", ("exponential", ("negate", ("abs", _DIFFERENCE)))), ("maximum", 0, 1)),
)


def picks(module: Module, name: str) -> str | None:
    """`maximum` where a body of pairs gives back the one whose first part compares as greater than the other's,
    `minimum` where as smaller: of equal ones always the left, or always the right. So jax writes the derivative of
    pooling, and approximate top-k.
    """
    body = module.by_name[name]
    if len(body.parameters) != 4 or body.root.opcode != "tuple":
        return None
    first, *others = (tree(module, body, operand) for operand in body.root.operands)
    if not isinstance(first, tuple) or first[0] != "select" or first[2:] != (0, 2):
        return None
    condition = first[1]
    if others != [("select", condition, 1, 3)] or not isinstance(condition, tuple):
        return None
    found = {("compare GE", 0, 2): "maximum", ("compare GT", 0, 2): "maximum"}
    found |= {("compare LE", 0, 2): "minimum", ("compare LT", 0, 2): "minimum"}
    return found.get(condition)


def log_of_sum(module: Module, name: str) -> bool:
    """Whether a body is jax.numpy.logaddexp: any order gives the same but for rounding, and minus infinity nothing."""
    body = module.by_name[name]
    return len(body.parameters) == 2 and tree(module, body, body.root_name) == _LOG_OF_SUM


def tree(module: Module, body: Computation, name: str, given: Sequence[Tree] = ()) -> Tree:
    """What an instruction works out of the body's parameters, calls written out. given: what stands for them. What has
    no operands, or is of a large body, reads as `()`.
    """
    if len(body.instructions) > SMALL:
        return ()
    instruction = body.by_name[name]
    if instruction.parameter_number is not None:
        number = instruction.parameter_number
        return given[number] if given else number
    operands = [tree(module, body, operand, given) for operand in instruction.operands]
    if instruction.opcode == "call":
        inner = module.by_name[called(instruction)[0]]
        return tree(module, inner, inner.root_name, operands)
    if not operands:
        return ()
    opcode = instruction.opcode
    if opcode == "compare":
        direction = instruction.attributes.get("direction", "")
        if direction in _FLIPPED and operands != sorted(operands, key=repr):
            operands, direction = operands[::-1], _FLIPPED[direction]
        opcode = f"compare {direction}"
    if opcode in _EITHER_WAY:
        operands.sort(key=repr)
    return (opcode, *operands)


def ordered(*balls: Ball) -> bool:
    """Whether they are known to have no NaN among them, which compares with nothing."""
    return not any(bool(np.isnan(b.mid).any()) for b in balls if b.dtype.is_float) and all(b.und is None for b in balls)


def tied(site: Site, kind: str, keys: Ball, start: Ball) -> Array:
    """For each result of a reduction that picks, whether several of its keys are the greatest, or the least."""
    rows = _rows(site, keys.mid, start.mid)
    return np.asarray(np.count_nonzero(rows == _best(kind, rows, start.mid)[..., None], -1) > 1)


def wins(site: Site, kind: str, keys: Ball, start: Ball) -> Array:
    """For each result, whether one of its keys is picked and not the initial value; so where it has no keys."""
    rows = _rows(site, keys.mid, start.mid)
    return np.asarray((_best(kind, rows, start.mid) != start.mid) | (rows.shape[-1] == 0))


def _best(kind: str, rows: Array, start: Array) -> Array:
    return np.asarray(rows.max(-1, initial=start.item()) if kind == "maximum" else rows.min(-1, initial=start.item()))


def _rows(site: Site, keys: Array, start: Array) -> Array:
    """(results.., terms)."""
    if site.instruction.opcode == "reduce":
        dims = int_list(site.instruction, "dimensions")
        last = np.moveaxis(keys, dims, range(keys.ndim - len(dims), keys.ndim))
        return last.reshape(*last.shape[: keys.ndim - len(dims)], -1)
    windows = window(site.instruction)
    padded = padded_and_dilated(keys, windows, start)
    terms = terms_first(padded, windows)
    return np.moveaxis(terms, 0, -1).reshape(*places_of(padded.shape, windows), -1)
