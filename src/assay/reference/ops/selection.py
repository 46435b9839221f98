"""`select-and-scatter`: which element of a window is chosen, and what is combined there.

Of equal elements the first in row-major order wins under GE or LE, the last under GT or LT (hlo_evaluator.cc). Where
there is padding XLA:CPU goes through a window in another order of its dimensions (jaxlib 0.12.0.1): the choice between
elements that are first in some order is open there. Any other select computation is applied term by term, as XLA does.
Scatter computations are those whose order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.attributes import WindowDim
from assay.hlo.module import Instruction
from assay.reference.bodies import KINDS, body_kind, call_batched
from assay.reference.context import Context, mark, unit_roundoff
from assay.reference.folds import neutral, starts_neutral
from assay.reference.ops.combining import combine
from assay.reference.ops.convolution import padded_and_dilated
from assay.reference.ops.movement import moved
from assay.reference.ops.window import places_of, terms_first
from assay.reference.registry import operation
from assay.reference.sums import summed
from assay.reference.value import Array, Ball, Value, as_ball, enclosing, total, union

Terms = Callable[[Array, object], Array]
"""The terms of every window of an array, padding filled: (terms, places)."""


@operation("select-and-scatter")
def select_and_scatter(ctx: Context, instr: Instruction, x: Ball, source: Ball, init: Ball) -> Value:
    """Each source element is combined into the element of its window that is selected; padding never is."""
    windows = attributes.window(instr)
    if any(w.base_dilation != 1 or w.window_dilation != 1 for w in windows):
        raise Unsupported("select-and-scatter", "dilated windows")
    select, scatter = attributes.computation(instr, "select"), attributes.computation(instr, "scatter")
    kind = body_kind(ctx.module, scatter)
    if kind not in KINDS:
        raise Unsupported("select-and-scatter", "a scatter computation that is not one of " + ", ".join(KINDS))

    def terms(part: Array, fill: object) -> Array:
        return terms_first(padded_and_dilated(part, windows, fill), windows)

    inside = terms(np.ones(x.dims, bool), False)
    direction = _direction(ctx, select)
    if direction is None or not (x.dtype.is_float or x.dtype.is_integer):
        winner, rivals = _by_body(ctx, select, x, inside, terms)
    else:
        winner, rivals = _by_order(direction, x, inside, terms, windows)
    at = _flat_positions(x.dims, windows, winner)
    if not inside.any(0).all():  # a window of nothing but padding chooses nobody
        chosen = inside.any(0).reshape(source.dims)
        mid = np.where(chosen, source.mid, np.asarray(neutral(kind, source.dtype), source.mid.dtype))
        rest = (
            None if part is None else np.where(chosen, part, np.zeros((), part.dtype))
            for part in (source.rad, source.und)
        )
        source = Ball(source.dtype, mid, *rest)
    if rivals is not None and ctx.rng is None and kind == "add" and source.dtype.is_float:
        return _with_rivals(ctx, x, source, init, at, rivals, windows, alone=len(inside) == 1)
    found = _scattered(ctx, x, source, init, at, scatter, kind)
    if len(inside) == 1 and not starts_neutral(kind, init):
        found = mark(found, np.ones(found.dims, bool))  # XLA:CPU drops the initial value of such a window
    if rivals is None:
        return found
    open_ = np.zeros(x.mid.size, bool)
    adds = union(source.mid != 0, source.und) if kind == "add" else np.ones(source.dims, bool)
    assert adds is not None
    for positions, chosen in _contested(x, windows, rivals):
        open_[positions[chosen & adds.reshape(-1)]] = True
    return mark(found, open_.reshape(x.dims))


def _direction(ctx: Context, name: str) -> str | None:
    """The comparison that a select computation is; None where it is another."""
    body = ctx.module.by_name[name]
    root = body.root
    numbers = [body.by_name[operand].parameter_number for operand in root.operands]
    direction = root.attributes.get("direction", "")
    if root.opcode != "compare" or direction not in ("GE", "GT", "LE", "LT") or numbers not in ([0, 1], [1, 0]):
        return None
    if root.attributes.get("type", "").upper() == "TOTALORDER":
        return None
    # b < a is a > b
    return direction if numbers == [0, 1] else {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}[direction]


def _by_order(
    direction: str, x: Ball, inside: Array, terms: Terms, windows: tuple[WindowDim, ...]
) -> tuple[Array, Array | None]:
    """(the term that each window selects, the terms that may be selected instead) by a comparison.

    A NaN in a window of several elements leaves the choice open, as does a rival whose ball meets the winner's.
    """
    sign = 1 if direction in ("GE", "GT") else -1
    lowest = -np.inf if x.dtype.is_float else np.int64(np.iinfo(np.int64).min)
    if x.mid.dtype == np.uint64:
        mid = (x.mid ^ np.uint64(1 << 63)).view(np.int64)  # the same order
        mid = mid if sign == 1 else ~mid
    else:
        mid = sign * (x.mid if x.dtype.is_float else x.mid.astype(np.int64))
    values = np.where(inside, terms(mid, lowest), lowest)
    last = direction in ("GT", "LT")
    ranked = np.where(np.isnan(values), np.inf, values) if x.dtype.is_float else values
    winner = len(values) - 1 - ranked[::-1].argmax(0) if last else ranked.argmax(0)
    # The lowest value of all may stand in an element as well as in padding.
    outside = ~inside[winner, np.arange(winner.size)]
    winner = np.where(outside, _first_or_last(inside, last), winner)
    ties = _first_in_any_order(ranked, winner, windows, last) & inside if inside.size != inside.sum() else None
    return winner, _rivals(x, values, inside, terms, ties)


def _first_in_any_order(ranked: Array, winner: Array, windows: tuple[WindowDim, ...], last: bool) -> Array:
    """Which terms (terms, places) are the first largest ones (the last ones) in some order of the window's dimensions;
    none where all orders agree.
    """
    sizes = [w.size for w in windows]
    wide = [axis for axis, size in enumerate(sizes) if size > 1]
    columns = np.arange(winner.size)
    found = np.zeros(ranked.shape, bool)
    found[winner, columns] = True
    for order in permutations(wide):
        axes = (*order, *(axis for axis in range(len(sizes)) if axis not in order))
        number = np.arange(len(ranked)).reshape(sizes).transpose(axes).reshape(-1)
        number = number[::-1] if last else number
        found[number[ranked[number].argmax(0)], columns] = True
    result: Array = found & (found.sum(0) > 1)
    return result


def _first_or_last(inside: Array, last: bool) -> Array:
    return np.asarray(len(inside) - 1 - inside[::-1].argmax(0) if last else inside.argmax(0))


def _by_body(ctx: Context, select: str, x: Ball, inside: Array, terms: Terms) -> tuple[Array, Array | None]:
    """The same by any computation: a term is kept while select(kept, next) holds. Where it is open, all terms are."""
    parts = [x.mid, x.rad, x.und]
    lines = [None if part is None else terms(part, np.zeros((), part.dtype)) for part in parts]
    columns = np.arange(inside.shape[1])
    winner = inside.argmax(0)
    open_ = np.zeros(winner.shape, bool)

    def at(term: Array) -> Ball:
        mid, rad, und = (None if line is None else line[term, columns] for line in lines)
        assert mid is not None
        return Ball(x.dtype, mid, rad, und)

    for term in range(len(inside)):
        later = np.full(winner.shape, term)
        verdict = as_ball(call_batched(ctx, select, [at(winner), at(later)]))
        asked = inside[term] & (term > winner)
        if verdict.und is not None:
            open_ |= asked & verdict.und
        winner = np.where(asked & ~np.broadcast_to(verdict.mid, winner.shape), term, winner)
    return winner, (open_ & inside) if open_.any() else None


def _rivals(x: Ball, values: Array, inside: Array, terms: Terms, ties: Array | None) -> Array | None:
    """Which elements may be chosen instead of or like the winner, in windows where that is open. ties: those of equal
    elements that may.
    """
    nan = np.isnan(values) if x.dtype.is_float else np.zeros(values.shape, bool)
    open_ = nan.any(0) & (inside.sum(0) > 1)
    rivals = np.broadcast_to(open_, values.shape) & inside
    if ties is not None:
        open_ = open_ | ties.any(0)
        rivals = rivals | ties
    if x.und is not None:
        unknown = terms(x.und, False).any(0)
        open_ = open_ | unknown
        rivals = rivals | (unknown & inside)
    if x.rad is not None:
        rad = np.where(inside, terms(x.rad, 0.0), 0.0)
        bar = (values - rad).max(0)
        close = (values + rad >= bar) & inside
        exact = (~close | (rad == 0)).all(0)
        unsure = (close.sum(0) > 1) & ~exact
        open_ = open_ | unsure
        rivals = rivals | (close & unsure)
    return rivals if open_.any() else None


def _flat_positions(dims: tuple[int, ...], windows: tuple[WindowDim, ...], term: Array) -> Array:
    """Where in an array of `dims` the given term of each window lies, as row-major positions."""
    offsets = np.unravel_index(term, [w.size for w in windows])
    padded = [n + w.pad_low + w.pad_high for n, w in zip(dims, windows, strict=True)]
    starts = np.indices(places_of(padded, windows)).reshape(len(windows), -1)
    at = [
        np.clip(start * w.stride + offset - w.pad_low, 0, n - 1)
        for start, offset, w, n in zip(starts, offsets, windows, dims, strict=True)
    ]
    flat: Array = np.ravel_multi_index(at, dims)
    return flat


def _contested(x: Ball, windows: tuple[WindowDim, ...], rivals: Array) -> list[tuple[Array, Array]]:
    """For each term that is a rival anywhere: where it lies for each window, and in which windows it is one."""
    return [
        (_flat_positions(x.dims, windows, np.full(rivals.shape[1], term)), rivals[term])
        for term in range(len(rivals))
        if rivals[term].any()
    ]


def _with_rivals(
    ctx: Context,
    x: Ball,
    source: Ball,
    init: Ball,
    at: Array,
    rivals: Array,
    windows: tuple[WindowDim, ...],
    *,
    alone: bool,
) -> Ball:
    """Sums where some windows may choose one of several elements: each of these gets all or nothing of the source."""
    decided = ~rivals.any(0).reshape(source.dims)
    settled = moved(source, lambda part: np.where(decided, part, np.zeros((), part.dtype)))
    found = _scattered(ctx, x, settled, init, at, "", "add")
    if alone and not starts_neutral("add", init):
        found = mark(found, np.ones(found.dims, bool))
    flat = source.mid.reshape(-1)
    spread = np.zeros(flat.shape) if source.rad is None else source.rad.reshape(-1)
    unknown = ~np.isfinite(flat) if source.und is None else ~np.isfinite(flat) | source.und.reshape(-1)
    low, high, open_ = np.zeros(x.mid.size), np.zeros(x.mid.size), np.zeros(x.mid.size, bool)
    for positions, rival in _contested(x, windows, rivals):
        low += np.bincount(positions, np.where(rival, np.minimum(flat - spread, 0), 0), x.mid.size)
        high += np.bincount(positions, np.where(rival, np.maximum(flat + spread, 0), 0), x.mid.size)
        open_[positions[rival & unknown]] = True
    low, high = low.reshape(x.dims), high.reshape(x.dims)
    lost = open_.reshape(x.dims) | ~np.isfinite(low) | ~np.isfinite(high)
    low, high = np.where(lost, 0.0, low), np.where(lost, 0.0, high)
    middle, off = enclosing(low, high)
    rad = total(found.rad, off)
    most = len(rivals) + 1  # additions that these may be a part of, each rounded
    size = np.abs(found.mid) + np.abs(low) + np.abs(high) + (0.0 if found.rad is None else found.rad)
    touched = (low != 0) | (high != 0)
    error = np.where(touched, most * unit_roundoff(source.dtype) * size, 0.0)
    summed_up = ctx.rounded(source.dtype, found.mid + middle, rad, union(found.und, lost), error=error)
    return Ball(
        source.dtype,
        np.where(touched, summed_up.mid, found.mid),
        np.where(touched, 0.0 if summed_up.rad is None else summed_up.rad, 0.0 if found.rad is None else found.rad),
        union(summed_up.und, found.und),
    )


def _scattered(ctx: Context, x: Ball, source: Ball, init: Ball, at: Array, scatter: str, kind: str) -> Ball:
    """init combined, at each position, with the source elements that chose it."""
    if kind == "add" and source.dtype.is_float:
        return _added(ctx, x, source, init, at)
    start = moved(init, lambda part: np.broadcast_to(part, (x.mid.size,)))
    (found,) = combine(ctx, scatter, [start], at, [moved(source, np.ravel)], unique=False)
    return moved(found, lambda part: part.reshape(x.dims))


def _added(ctx: Context, x: Ball, source: Ball, init: Ball, at: Array) -> Ball:
    """init plus, at each position, the sum of the source elements that chose it."""
    flat = source.mid.reshape(-1)
    size = x.mid.size
    dims = x.mid.shape
    und = None
    if source.und is not None and source.und.any():
        und = (np.bincount(at, source.und.reshape(-1), size) > 0).reshape(dims)
    if init.und is not None:
        und = union(und, np.broadcast_to(init.und, dims))
    mid = np.bincount(at, flat, size).reshape(dims) + init.mid
    magnitude = np.bincount(at, np.abs(flat), size).reshape(dims) + np.abs(init.mid)
    rad = None if source.rad is None else np.bincount(at, source.rad.reshape(-1), size).reshape(dims)
    rad = total(rad, init.rad)
    most = int(np.max(np.bincount(at, minlength=1)))
    single = most <= 1 and not init.mid.any()
    return summed(
        ctx,
        source.dtype,
        mid,
        rad,
        und,
        magnitude=magnitude,
        terms=most + bool(init.mid.any()),
        exact=single,
        steady=True,
    )
