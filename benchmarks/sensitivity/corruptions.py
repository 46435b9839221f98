"""What a broken compiler might hand back instead of the right array: nine ways, and two systematic errors of 9 % and
1 %.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

TILE = (8, 128)


def tile_zeroed(x: Array) -> Array:
    y = x.copy()
    y[..., : TILE[0], : TILE[1]] = 0
    return y


def stale_tile(x: Array) -> Array:
    """The first tile where the last one should be, as from a buffer that was not written again."""
    y = x.copy()
    y[..., -TILE[0] :, -TILE[1] :] = x[..., : TILE[0], : TILE[1]]
    return y


def last_lane_zeroed(x: Array) -> Array:
    y = x.copy()
    y[..., -1] = 0
    return y


def first_element_added(x: Array) -> Array:
    """The largest of the first row added to all: a carry or an accumulator that was not reset."""
    carry = x.reshape(-1)[: x.shape[-1]].astype(np.float64)
    return (x.astype(np.float64) + carry[np.argmax(np.abs(carry))]).astype(x.dtype)


def scaled(by: float) -> Callable[[Array], Array]:
    return lambda x: (x.astype(np.float64) * by).astype(x.dtype)


CORRUPTIONS: dict[str, Callable[[Array], Array]] = {
    "zeroed":        np.zeros_like,
    "negated":       np.negative,
    "roll 1 lane":   lambda x: np.roll(x, 1, -1),
    "roll 8 rows":   lambda x: np.roll(x, 8, -2),
    "x 1.09":        scaled(1.09),
    "tile zeroed":   tile_zeroed,
    "lane zeroed":   last_lane_zeroed,
    "stale tile":    stale_tile,
    "+ first":       first_element_added,
    "x 1.01":        scaled(1.01),
}  # fmt: skip
