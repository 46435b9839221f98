"""What still holds of elements that the reference leaves open.

A sort may put equal keys in any order unless it is stable, so what travels with them is open; yet its results are a
permutation of what was sorted, row by row. `rng` gives numbers of its own; yet they lie in the range asked for. Both
are looked at where such an instruction's results are the program's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.checking.bounds import Bounds
from assay.checking.weigh import Weighed
from assay.hlo.attributes import computation as called_computation
from assay.hlo.attributes import flag, int_list, integer, word
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType, leaves
from assay.oracle.compare import OutputComparison, Scalar
from assay.programs.program import Array
from assay.reference.ops.ordering import lexicographic
from assay.reference.rounding import flushes, smallest_normal
from assay.reference.value import Ball, Value, union

FEW = 64
"""So many random numbers are never all the same: not in 2**-63 of all runs, of a type with two values."""


@dataclass(frozen=True, slots=True)
class Broken:
    """words: what is not kept. weighed: with the elements that show it outside."""

    words: str
    weighed: Weighed


def broken(bounds: Bounds, weighed: Weighed, target: Sequence[Array]) -> Broken | None:
    """What open elements of `target` break, None where nothing is known to be. Raises what `evaluate` raises."""
    open_ = [_open(leaf) is not None for leaf in weighed.balls if isinstance(leaf, Ball)]
    places = [place for place in _shown(bounds.module) if any(open_)]
    for name in dict.fromkeys(maker.name for _, maker, _ in places):
        shown = [(output, operand) for output, maker, operand in places if maker.name == name]
        maker = bounds.module.entry.by_name[name]
        masks, words = None, ""
        if maker.opcode == "sort" and not flag(maker, "is_stable"):
            masks, words = _no_permutation(bounds, maker, shown, target)
        elif maker.opcode == "rng":
            masks, words = _out_of_range(bounds, maker, shown, target)
        if masks is not None:
            comparisons = _marked(weighed, masks, target)
            if any(compared.outside for compared in comparisons):
                return Broken(words, replace(weighed, comparisons=comparisons))
    return None


def _open(ball: Ball) -> Array | None:
    """The elements that may be one thing or another."""
    return union(ball.und, None if ball.rad is None else ball.rad > 0)


def ties_alone(bounds: Bounds, weighed: Weighed, target: Sequence[Array]) -> bool:
    """Whether all that is wrong is the order of equal keys in a stable sort: the sorted keys are right, and the rows
    are a permutation of those that were sorted.
    """
    places = list(_shown(bounds.module))
    wrong = {index for index, compared in enumerate(weighed.comparisons) if compared.outside}
    makers = {maker.name for output, maker, _ in places if output in wrong}
    if len(makers) != 1 or not wrong <= {output for output, _, _ in places}:
        return False
    (maker,) = (bounds.module.entry.by_name[name] for name in makers)
    if maker.opcode != "sort":
        return False
    keys = lexicographic(bounds.module, called_computation(maker, "to_apply"))
    shown = [(output, operand) for output, m, operand in places if m.name == maker.name]
    right = {operand for output, operand in shown if output not in wrong}
    if keys is None or not all(key.operand in right and key.same for key in keys):
        return False
    return _no_permutation(bounds, maker, shown, target) == (None, "")


# ---- which outputs are an instruction's own


def _shown(module: Module) -> Iterator[tuple[int, Instruction, int]]:
    """(output array, the sort or rng that it is a result of, which of its results), where nothing lies between."""
    entry = module.entry
    roots = entry.operands(entry.root) if entry.root.opcode == "tuple" else (entry.root,)
    output = 0
    for root in roots:
        count = sum(isinstance(leaf, ArrayShape) for leaf in leaves(root.shape))
        maker, index = _maker(entry, root)
        if maker.opcode in ("sort", "rng"):
            for k in range(count):
                yield output + k, maker, index + k
        output += count


def _maker(entry: Computation, root: Instruction) -> tuple[Instruction, int]:
    index = 0
    while root.opcode in ("copy", "get-tuple-element", "opt-barrier"):
        index += integer(root, "index") if root.opcode == "get-tuple-element" else 0
        root = entry.by_name[root.operands[0]]
    return root, index


# ---- permutations


def _no_permutation(
    bounds: Bounds, sort: Instruction, shown: Sequence[tuple[int, int]], target: Sequence[Array]
) -> tuple[dict[int, Array] | None, str]:
    """For each output the elements of rows that are none of what was sorted; None where all are, or it is not known."""
    given = _values(bounds, sort.operands)
    columns = [given.get(sort.operands[operand]) for _, operand in shown]
    axis = (int_list(sort, "dimensions") or (-1,))[0]
    if any(ball is None or not ball.exact or ball.mid.ndim == 0 or ball.mid.size == 0 for ball in columns):
        return None, ""
    balls = [ball for ball in columns if ball is not None]
    before = [_codes(bounds, ball.dtype, ball.mid, axis) for ball in balls]
    after = [_codes(bounds, ball.dtype, target[output], axis) for (output, _), ball in zip(shown, balls, strict=True)]
    lanes = _in_order(before) != _in_order(after)
    bad = lanes.any((0, 2))
    if not bad.any():
        return None, ""
    dims = np.moveaxis(balls[0].mid, axis, -1).shape
    mask = np.moveaxis(np.broadcast_to(bad[:, None], (bad.size, dims[-1])).reshape(dims), -1, axis)
    words = f"{sort.name}: {np.count_nonzero(bad)} of {bad.size} sorted rows are no permutation of what was sorted"
    return {output: mask for output, _ in shown}, words


def _codes(bounds: Bounds, dtype: DType, array: Array, axis: int) -> Array:
    """Elements as words that are equal where the values are the same to a sort's user (rows, n): one zero, one NaN,
    and one for all subnormals where the target may flush them.
    """
    rows = np.moveaxis(array, axis, -1)
    rows = rows.reshape(-1, rows.shape[-1])
    if not dtype.is_float:
        return rows.astype(np.int64) if rows.dtype.kind != "u" else rows.astype(np.uint64).view(np.int64)
    wide = rows.astype(np.float64)
    small = np.abs(wide) < smallest_normal(dtype) if flushes(bounds.settings.policy, dtype) else wide == 0
    wide = np.where(np.isnan(wide), np.nan, np.where(small, 0.0, wide))
    return np.ascontiguousarray(wide).view(np.int64)


def _in_order(columns: Sequence[Array]) -> Array:
    """Records sorted within each row: (columns, rows, n)."""
    rows, n = columns[0].shape
    row = np.repeat(np.arange(rows), n)
    order = np.lexsort([*(column.ravel() for column in reversed(columns)), row])
    return np.stack([column.ravel()[order].reshape(rows, n) for column in columns])


# ---- ranges


def _out_of_range(
    bounds: Bounds, rng: Instruction, shown: Sequence[tuple[int, int]], target: Sequence[Array]
) -> tuple[dict[int, Array] | None, str]:
    """uniform: from the first parameter up to the second, which rounding may reach; normal: finite. Not all alike."""
    ((output, _),) = shown
    given = _values(bounds, rng.operands)
    ends = [given.get(name) for name in rng.operands]
    drawn, shape = target[output], rng.array
    if any(ball is None or not ball.exact for ball in ends) or shape.dtype.is_complex:
        return None, ""
    low, high = (ball.mid for ball in ends if ball is not None)
    if word(rng, "distribution") == "rng_uniform":
        values = drawn.astype(np.float64) if shape.dtype.is_float else drawn
        past = values > high if shape.dtype.is_float else values >= high
        mask = (values < low) | past | (values != values)
        if shape.dtype.kind == "pred":
            mask = np.zeros(drawn.shape, np.bool_)
        words = f"{rng.name}: {np.count_nonzero(mask)} numbers outside [{low}, {high})"
        constant = bool(low + 1 >= high) if not shape.dtype.is_float else bool(low == high)
    else:
        mask = ~np.isfinite(drawn.astype(np.float64))
        words = f"{rng.name}: {np.count_nonzero(mask)} numbers of a normal distribution are infinite or NaN"
        constant = bool(high == 0)
    if not mask.any() and not constant and drawn.size >= FEW and bool((drawn == drawn.ravel()[0]).all()):
        mask, words = np.ones(drawn.shape, np.bool_), f"{rng.name}: all {drawn.size} random numbers are the same"
    return ({output: mask}, words) if mask.any() else (None, "")


# ---- values, and telling


@dataclass(slots=True)
class _Kept:
    entry: str
    names: frozenset[str]
    balls: dict[str, Ball] = field(default_factory=dict)

    def see(self, computation: Computation, instruction: Instruction, value: Value) -> None:
        if computation.name == self.entry and instruction.name in self.names and isinstance(value, Ball):
            self.balls[instruction.name] = value


def _values(bounds: Bounds, names: Sequence[str]) -> dict[str, Ball]:
    kept = _Kept(bounds.module.entry_name, frozenset(names))
    bounds.watched(kept.see)
    return kept.balls


def _marked(weighed: Weighed, masks: dict[int, Array], target: Sequence[Array]) -> list[OutputComparison]:
    """Comparisons with the undecided elements of each mask outside."""
    balls = [leaf for leaf in weighed.balls if isinstance(leaf, Ball)]
    found = []
    for index, compared in enumerate(weighed.comparisons):
        open_, und = _open(balls[index]), balls[index].und
        mask = masks[index] & open_ if index in masks and open_ is not None else None
        if mask is None or not mask.any():
            found.append(compared)
            continue
        where = np.argwhere(mask)
        peak = tuple(int(i) for i in where[0])
        count = len(where)
        found.append(
            replace(
                compared,
                outside=compared.outside + count,
                undecided=compared.undecided - (0 if und is None else int(np.count_nonzero(mask & und))),
                worst_bound=np.inf,
                box=tuple((int(a), int(b)) for a, b in zip(where.min(0), where.max(0), strict=True)),
                peak=peak,
                peak_target=_scalar(target[index][peak]),
                peak_reference=_scalar(balls[index].mid[peak]),
                peak_radius=0.0,
                outside_mask=mask if compared.outside_mask is None else mask | compared.outside_mask,
            )
        )
    return found


def _scalar(value: np.generic) -> Scalar:
    found = value.item() if value.dtype.kind in "biufc" else float(value)
    assert isinstance(found, (float, complex, int, bool))
    return found
