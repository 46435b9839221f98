"""Preconditions on the indices of gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from assay.checking.litmus.look import KEPT, Look, Said, Site, verdict
from assay.hlo.attributes import computation, flag, scatter_dims
from assay.hlo.graph import live
from assay.reference.bodies import KINDS
from assay.reference.ops.combining import ASSIGN, KEEP, SUBTRACT, update_kinds
from assay.reference.ops.indexing import Windows, ascend, gather_windows, scatter_windows
from assay.reference.value import Array, Ball, Value, as_ball


def says_sorted(site: Site) -> Said | None:
    return None if flag(site.instruction, "indices_are_sorted") else KEPT


def ascending(site: Site, operands: Sequence[Value]) -> Look:
    windows, indices = _windows(site, operands)
    starts = windows.starts(indices)
    unsure = _open(indices, starts)
    holds = ascend(windows, starts)
    return verdict(not holds and not unsure, unsure, "the indices do not ascend")


def _open(indices: Ball, starts: Array) -> bool:
    """Whether indices are not known of windows that could be in another order, or meet; one alone can do neither."""
    return indices.und is not None and bool(indices.und.any()) and bool(prod(starts.shape[:-1]) > 1)


def says_unique(site: Site) -> Said | None:
    return None if flag(site.instruction, "unique_indices") else KEPT


def unique(site: Site, operands: Sequence[Value]) -> Look:
    windows, indices = _windows(site, operands)
    base, starts = as_ball(operands[0]), windows.starts(indices)
    if _open(indices, starts):
        return verdict(False, True, "indices that are open")
    _, places = windows.reached(starts)
    twice = np.bincount(places, minlength=base.mid.size) > 1
    return Look(twice.reshape(base.dims), np.zeros(base.dims, np.bool_), "an element that is reached twice", True)


def order_matters(site: Site) -> Said | None:
    """Not where no element is reached twice, nor where the body is one that takes any order, or does the same each
    time, whatever the update: so jax writes `x.at[i].apply(f)`.
    """
    if flag(site.instruction, "unique_indices"):
        return KEPT  # or another precondition is broken
    count = len(site.instruction.operands) // 2
    name = computation(site.instruction, "to_apply")
    body = site.module.by_name[name]
    if live(body).isdisjoint(update.name for update in body.parameters[count:]):
        return KEPT
    kinds = update_kinds(site.module, name, count)
    return KEPT if all(kind in (*KINDS, KEEP, SUBTRACT) for kind in kinds) else None


def any_order(site: Site, operands: Sequence[Value]) -> Look:
    """Elements that are assigned different values are broken; those that another body reaches twice are undecided."""
    windows, indices = _windows(site, operands)
    base, count, starts = as_ball(operands[0]), len(operands) // 2, windows.starts(indices)
    if _open(indices, starts):
        return verdict(False, True, "indices that are open")
    fits, places = windows.reached(starts)
    twice = np.bincount(places, minlength=base.mid.size) > 1
    broken = np.zeros(base.mid.size, np.bool_)
    doubtful = np.zeros(base.mid.size, np.bool_)
    kinds = update_kinds(site.module, computation(site.instruction, "to_apply"), count)
    for kind, update in zip(kinds, operands[count + 1 :], strict=True):
        if kind == ASSIGN:
            broken |= _assigned_differently(places, _in_windows(site, windows, as_ball(update), fits), base.mid.size)
        elif kind not in (*KINDS, KEEP, SUBTRACT):
            doubtful |= twice
    why = "an element that several updates reach, which give another value in another order"
    return Look(broken.reshape(base.dims), (doubtful & ~broken).reshape(base.dims), why, True)


def _assigned_differently(places: Array, values: Array, size: int) -> Array:
    order = np.argsort(places, kind="stable")
    at, given = places[order], values[order]
    same = (given[1:] == given[:-1]) | ((given[1:] != given[1:]) & (given[:-1] != given[:-1]))
    found = np.zeros(size, np.bool_)
    found[at[1:][(at[1:] == at[:-1]) & ~same]] = True
    return found


def _in_windows(site: Site, windows: Windows, update: Ball, fits: Array) -> Array:
    """The elements of an update in the order of the places that they go to."""
    axes = scatter_dims(site.instruction).update_window_dims
    rank = update.mid.ndim
    back = np.moveaxis(update.mid, axes, range(rank - len(axes), rank))
    return np.asarray(back.reshape(fits.size, -1)[fits].ravel())


def _windows(site: Site, operands: Sequence[Value]) -> tuple[Windows, Ball]:
    base, indices = as_ball(operands[0]), as_ball(operands[len(operands) // 2])
    if site.instruction.opcode == "gather":
        return gather_windows(site.instruction, base.dims, indices.dims), indices
    return scatter_windows(site.instruction, base.dims, indices.dims, as_ball(operands[-1]).dims), indices
