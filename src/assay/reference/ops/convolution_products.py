"""Convolutions that are matrix products. XLA:TPU writes every dot as one: each of its dimensions becomes a spatial one.

free         a window of one element: the left operand's dimension is the result's
contracted   a window over all of it: there is one place
batch        n elements spread n apart, a window of n and a stride of n - 1: place p meets element p alone, with
             element p of the window (p n lies p into the window at p (n - 1), (p - 1) n and (p + 1) n outside it)
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod

import numpy as np

from assay.hlo.attributes import WindowDim
from assay.reference.value import Array

Role = Enum("Role", "FREE CONTRACTED BATCH")


def roles(sizes: Sequence[int], windows: Sequence[WindowDim]) -> tuple[Role, ...] | None:
    """The role of each spatial dimension, of these sizes on the left; None where they do not make a matrix product."""
    found = tuple([_role(n, w) for n, w in zip(sizes, windows, strict=True)])
    return None if None in found else found  # type: ignore[return-value]


def _role(n: int, w: WindowDim) -> Role | None:
    if w.pad_low or w.pad_high or n == 0:
        return None
    if (w.size, w.stride, w.base_dilation) == (1, 1, 1):
        return Role.FREE
    if w.size != n or w.window_dilation != 1:
        return None
    if w.base_dilation == 1:
        return Role.CONTRACTED
    return Role.BATCH if (w.base_dilation, w.stride) == (n, n - 1) else None


def product(found: Sequence[Role], lhs: Array, rhs: Array) -> Array:
    """(groups, batch, spatial.., in), not dilated, by (groups, window.., in, out) to (groups, batch, places.., out)."""

    def axes(role: Role, first: int) -> list[int]:
        return [first + d for d, each in enumerate(found) if each == role]

    rank = len(found)
    rows = (1, *axes(Role.FREE, 2))
    terms = (*axes(Role.CONTRACTED, 2), rank + 2)
    left = lhs.transpose(0, *axes(Role.BATCH, 2), *rows, *terms)
    right = rhs.transpose(0, *axes(Role.BATCH, 1), *axes(Role.FREE, 1), *axes(Role.CONTRACTED, 1), rank + 1, rank + 2)
    batch = left.shape[: left.ndim - len(rows) - len(terms)]
    depth, columns = prod(left.shape[left.ndim - len(terms) :]), rhs.shape[-1]
    made = left.reshape(prod(batch), -1, depth) @ right.reshape(prod(batch), depth, columns)
    # (groups, batch dimensions.., batch, free dimensions.., one place for each contracted.., out)
    made = made.reshape(*batch, *[lhs.shape[axis] for axis in rows], *(1 for _ in terms[1:]), columns)
    order = [0, *axes(Role.BATCH, 2), *rows, *axes(Role.CONTRACTED, 2), rank + 2]
    return np.ascontiguousarray(made.transpose(np.argsort(order)))
