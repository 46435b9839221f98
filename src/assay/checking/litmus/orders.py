"""Whether a comparator is a strict weak order: irreflexive, transitive, and so is being equivalent.

What jax and XLA write is taken apart into keys; keys that compare as numbers have no order with a NaN among them. Any
other comparator is called on all pairs of a row where the row is short, on a sample of it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.checking.litmus.look import KEPT, Look, Said, Site, verdict
from assay.errors import Unsupported
from assay.hlo.attributes import computation, int_list
from assay.reference.bodies import call_batched
from assay.reference.ops.movement import moved
from assay.reference.ops.ordering import Key, key_body, lexicographic
from assay.reference.value import Array, Ball, Value, as_ball

RECORDS = 40
"""Of a row, of which all pairs are compared."""

PAIRS = 1 << 21
"""Comparisons at most."""


def by_structure(site: Site) -> Said | None:
    keys = _keys(site)
    if keys is None:
        return None
    body = site.module.by_name[_name(site)]
    numbers = [key for key in keys if body.by_name[key.name].array.dtype.is_float and not key.total]
    return None if numbers else KEPT


def compares(site: Site, operands: Sequence[Value]) -> Look:
    balls = [as_ball(operand) for operand in operands]
    axis = (int_list(site.instruction, "dimensions") or (-1,))[0]
    if balls[0].mid.ndim == 0 or balls[0].mid.shape[axis] < 2 or balls[0].mid.size == 0:
        return verdict(False)
    n = balls[0].mid.shape[axis]
    lanes = [moved(ball, lambda x: np.moveaxis(x, axis, -1).reshape(-1, n)) for ball in balls]
    keys = _keys(site)
    try:
        return _all_pairs(site, lanes) if keys is None else _numbers(site, keys, lanes)
    except Unsupported as error:
        return verdict(False, True, str(error))


def _name(site: Site) -> str:
    return computation(site.instruction, "to_apply")


def _keys(site: Site) -> tuple[Key, ...] | None:
    return lexicographic(site.module, _name(site))


def _numbers(site: Site, keys: Sequence[Key], lanes: Sequence[Ball]) -> Look:
    """A NaN is equivalent to everything; so there is no order where the rest of its row are not all equal."""
    body = site.module.by_name[_name(site)]
    seen = False
    for number, key in enumerate(keys):
        if key.total or not body.by_name[key.name].array.dtype.is_float:
            continue
        arguments = [lanes[k // 2] for k in range(2 * len(lanes))]
        ball = as_ball(call_batched(site.trial, key_body(body, key), arguments))
        nan = np.isnan(ball.mid)
        if not nan.any():
            continue
        seen = True
        apart = np.where(nan, -np.inf, ball.mid).max(1) > np.where(nan, np.inf, ball.mid).min(1)
        apart &= nan.any(1)
        if number == 0 and bool(apart.any()) and ball.rad is None and ball.und is None:
            return verdict(True, why="a NaN among keys that are compared as numbers")
    open_ = any(lane.und is not None and bool(lane.und.any()) for lane in lanes)
    return verdict(False, seen or open_, "a NaN among keys, or keys that are open")


def _all_pairs(site: Site, lanes: Sequence[Ball]) -> Look:
    rows, n = lanes[0].mid.shape
    rng = np.random.default_rng(0)
    records = np.arange(n) if n <= RECORDS else np.sort(rng.choice(n, RECORDS, replace=False))
    most = max(1, PAIRS // len(records) ** 2)
    chosen = np.arange(rows) if rows <= most else np.sort(rng.choice(rows, most, replace=False))
    part = [moved(lane, lambda x: x[np.ix_(chosen, records)]) for lane in lanes]
    arguments = [
        moved(x, (lambda p: p[:, None, :]) if right else (lambda p: p[:, :, None])) for x in part for right in (0, 1)
    ]
    told = as_ball(call_batched(site.trial, _name(site), arguments))
    less = told.mid
    if _no_order(less if told.und is None else less & ~told.und, told.und):
        return verdict(True, why="the comparator is no strict weak order of what is sorted")
    whole = len(records) == n and len(chosen) == rows and told.und is None
    return verdict(False, not whole, f"not refuted by {len(chosen)} rows of {len(records)} records")


def _no_order(less: Array, und: Array | None) -> bool:
    """less: (rows, n, n), whether record i is less than record j. Comparisons that are open refute nothing."""
    n = less.shape[-1]
    if bool(less[:, np.arange(n), np.arange(n)].any()) or bool((less & np.swapaxes(less, 1, 2)).any()):
        return True
    known = np.ones_like(less) if und is None else ~und
    not_less = ~less & known
    if bool((_through(less) & not_less).any()):
        return True
    alike = not_less & np.swapaxes(not_less, 1, 2)
    return bool((_through(alike) & ~alike & known & np.swapaxes(known, 1, 2)).any())


def _through(relation: Array) -> Array:
    """i to k by way of some j."""
    wide = relation.astype(np.float32)
    return np.asarray(np.matmul(wide, wide) > 0)
