"""Preconditions on what reductions apply: the initial value, and the algebra of the body.

A body of a known kind, or jax's argmax, is decided by its structure; one of few values by trying them all. Any other is
tried on values that occur: that may refute it, and shows nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import product

import numpy as np

from assay.checking.litmus.look import KEPT, Look, Said, Site, State, verdict
from assay.checking.litmus.written import log_of_sum, ordered, picks, tied, wins
from assay.errors import Unsupported
from assay.hlo.attributes import computation
from assay.hlo.literal import literal_array
from assay.hlo.shape import ArrayShape
from assay.reference.bodies import call_batched, component_kinds
from assay.reference.folds import neutral
from assay.reference.ops.movement import moved
from assay.reference.ops.reduction import extremum_kind
from assay.reference.registry import find
from assay.reference.value import Array, Ball, Value, as_ball, flatten, from_array

POOL = 24
"""Values of which all triples are tried."""

BITS = 4
"""Of a type whose values are all tried."""

MOST = 1 << 20
"""Elements on which an initial value is tried."""

Law = Callable[..., Array]
"""Of a site and records, where a law fails."""


def _body(site: Site) -> str:
    return computation(site.instruction, "scatter" if site.instruction.opcode == "select-and-scatter" else "to_apply")


def _count(site: Site) -> int:
    """How many arrays are reduced together."""
    return len(site.module.by_name[_body(site)].parameters) // 2


def _kinds(site: Site) -> tuple[str, ...] | None:
    """The kind of each component, each of which takes any order; None where one does not, or is not known."""
    found = component_kinds(site.module, _body(site), _count(site))
    known = tuple(kind for kind in found if kind is not None and kind != "assign")
    return known if len(known) == len(found) else None


# ---- the initial value


def init_by_structure(site: Site) -> Said | None:
    """Kept where the kinds are known and the initial values are their identities, as constants."""
    kinds = ("log of sum",) if _log_of_sum(site) else _kinds(site)
    if kinds is None:
        return None
    inits = [site.computation.by_name[name] for name in site.instruction.operands[_count(site) :]]
    if any(init.literal is None or not isinstance(init.shape, ArrayShape) for init in inits):
        return None
    for kind, init in zip(kinds, inits, strict=True):
        assert init.literal is not None
        value = literal_array(init.array, init.literal).astype(np.complex128).item()
        if value != (-np.inf if kind == "log of sum" else neutral(kind, init.array.dtype)):
            return None
    return KEPT


def _log_of_sum(site: Site) -> bool:
    return _count(site) == 1 and log_of_sum(site.module, _body(site))


def init(site: Site, operands: Sequence[Value]) -> Look:
    """Whether a result is the same with the initial value as without it, so that how often it counts is all the same:
    a maximum that starts at zero is, where it is positive.
    """
    count = _count(site)
    arrays, inits = ([as_ball(o) for o in part] for part in (operands[:count], operands[count:]))
    starts = _identities(site, inits)
    if starts is not None and all(_equal(a, b) for a, b in zip(starts, inits, strict=True)):
        return verdict(False)
    empty = arrays[0].mid.size == 0  # nothing but initial values is combined
    try:
        if starts is None:
            return _on_elements(site, arrays, inits)
        given = inits if empty else starts
        found = find(site.instruction.opcode)(site.trial, site.instruction, *arrays, *given)
        results = [as_ball(leaf) for leaf in flatten(found)]
        again = _applied(site, inits, results)
    except Unsupported as error:
        return verdict(False, True, str(error))
    broken = _any(_clash(x, y) for x, y in zip(again, results, strict=True))
    unsure = _any(_unsure(x, y) for x, y in zip(again, results, strict=True)) | any(not i.exact for i in inits)
    if _chooses(site):  # what wins over it wins, whichever of several that may be
        apart = _apart(results[0], inits[0])
        broken, unsure = broken & ~apart, unsure & ~apart
    return Look(broken, unsure & ~broken, "the initial value changes what it is combined with", elementwise=True)


def _on_elements(site: Site, arrays: Sequence[Ball], inits: Sequence[Ball]) -> Look:
    """Of a body of which nothing is known: refuted by elements, not shown by them, for partial results meet it too."""
    flat = [moved(array, lambda x: x.reshape(-1)[:MOST]) for array in arrays]
    why = "the initial value changes what it is combined with"
    if (kind := _picks(site)) is not None and _exact(arrays[0], inits[0]):
        lost = ~wins(site, kind, arrays[0], inits[0])  # how often it counts is all the same where another wins
        return Look(lost, np.zeros_like(lost), why, elementwise=True)
    if flat[0].mid.size:
        for side in (_applied(site, inits, flat), _applied(site, flat, inits)):
            if _any(_clash(a, b) for a, b in zip(side, flat, strict=True)).any():
                return verdict(True, why=why)
    if kind is not None and flat[0].mid.size == arrays[0].mid.size and ordered(arrays[0], inits[0]):
        return verdict(False)  # whatever is combined is one of the elements
    return verdict(False, True, "the initial value was tried on single elements alone")


def _identities(site: Site, inits: Sequence[Ball]) -> list[Ball] | None:
    """The initial values that would change nothing; None where they are not known."""
    kinds = _kinds(site)
    if kinds is None and _chooses(site):
        best = extremum_kind(site.module, _body(site))
        assert best is not None
        kinds = (best, "minimum")  # of equal ones the first
    if kinds is None:
        return None
    return [from_array(i.dtype, np.asarray(neutral(k, i.dtype))) for k, i in zip(kinds, inits, strict=True)]


def _equal(a: Ball, b: Ball) -> bool:
    return b.exact and bool((a.mid == b.mid).all())


def _apart(best: Ball, start: Ball) -> Array:
    """Where an extremum is known to be another value than the initial one; a NaN wins over all."""
    with np.errstate(invalid="ignore"):
        other = np.abs(best.mid - start.mid) > (0.0 if best.rad is None else best.rad)
    if best.dtype.is_integer:
        other = best.mid != start.mid
    known = np.ones(best.dims, np.bool_) if best.und is None else ~best.und
    return np.asarray((other | (best.mid != best.mid)) & known & start.exact)


def _unsure(a: Ball, b: Ball) -> Array:
    """Where two results may be the same or not."""
    same = _alike(a, b)
    open_ = [np.asarray(ball.und) for ball in (a, b) if ball.und is not None]
    return np.asarray(_any([~same, *open_]))


def _alike(a: Ball, b: Ball) -> Array:
    """Where two midpoints are the same, NaN or not."""
    return np.asarray((a.mid == b.mid) | ((a.mid != a.mid) & (b.mid != b.mid)))


def _chooses(site: Site) -> bool:
    return _count(site) == 2 and extremum_kind(site.module, _body(site)) is not None


def _picks(site: Site) -> str | None:
    return picks(site.module, _body(site)) if _count(site) == 2 else None


def _exact(keys: Ball, start: Ball) -> bool:
    return ordered(keys, start) and keys.exact and start.exact


# ---- the body


def associative_by_structure(site: Site) -> Said | None:
    if _kinds(site) is not None or _chooses(site) or _log_of_sum(site):
        return KEPT
    return _exhausted(site, 3, _grouped)


def commutative_by_structure(site: Site) -> Said | None:
    if _kinds(site) is not None or _chooses(site) or _log_of_sum(site):
        return KEPT
    return _exhausted(site, 2, _swapped)


def associative(site: Site, operands: Sequence[Value]) -> Look:
    if _picks(site) and ordered(as_ball(operands[0]), as_ball(operands[2])):
        return verdict(False)
    return _tried(site, operands, 3, _grouped, "(a b) c is not a (b c)")


def commutative(site: Site, operands: Sequence[Value]) -> Look:
    why = "a b is not b a"
    if (kind := _picks(site)) is not None:
        keys, start = as_ball(operands[0]), as_ball(operands[2])
        if ordered(keys, start):  # the greatest is the greatest; of equal ones, which of the others beside it is open
            found, known = tied(site, kind, keys, start), keys.exact and start.exact
            return Look(found & known, np.full_like(found, not known), why, elementwise=True, part=1)
    return _tried(site, operands, 2, _swapped, why)


def _grouped(site: Site, a: Sequence[Ball], b: Sequence[Ball], c: Sequence[Ball]) -> Array:
    left = _applied(site, _applied(site, a, b), c)
    right = _applied(site, a, _applied(site, b, c))
    return _any(_clash(x, y) for x, y in zip(left, right, strict=True))


def _swapped(site: Site, a: Sequence[Ball], b: Sequence[Ball]) -> Array:
    return _any(_clash(x, y) for x, y in zip(_applied(site, a, b), _applied(site, b, a), strict=True))


def _any(masks: Iterable[Array]) -> Array:
    return reduce(np.logical_or, masks)


def _exhausted(site: Site, places: int, law: Law) -> Said | None:
    """Decided by all values, where the body is of one component of a type that has few."""
    parameters = site.module.by_name[_body(site)].parameters
    dtype = parameters[0].array.dtype
    if len(parameters) != 2 or parameters[1].array.dtype != dtype or dtype.is_float or dtype.is_complex:
        return None
    bits = 1 if dtype.kind == "pred" else dtype.bits
    if bits > BITS:
        return None
    low = -(1 << (bits - 1)) if dtype.kind == "signed" else 0
    values = np.array(list(product(range(low, low + (1 << bits)), repeat=places)))
    balls = [[from_array(dtype, values[:, place].astype(dtype.numpy))] for place in range(places)]
    try:
        wrong = law(site, *balls)
    except Unsupported:
        return None
    if not wrong.any():
        return KEPT
    return Said(State.BROKEN, f"not for {', '.join(map(str, values[int(np.argmax(wrong))]))}")


def _tried(site: Site, operands: Sequence[Value], places: int, law: Law, why: str) -> Look:
    """On all combinations of a few records that occur, initial values among them."""
    count = _count(site)
    if site.instruction.opcode == "select-and-scatter":
        pools = [_few([as_ball(operands[1])], 0)]
    elif site.instruction.opcode.startswith(("all-reduce", "reduce-scatter")):
        pools = [_few([as_ball(operand)], 0) for operand in operands]
    else:
        arrays, inits = ([as_ball(o) for o in part] for part in (operands[:count], operands[count:]))
        few = _few(arrays, 0)
        pools = [
            [
                Ball(x.dtype, np.append(x.mid, i.mid), None if x.rad is None else np.append(x.rad, 0.0))
                for x, i in zip(few, inits, strict=True)
            ]
        ]
    for pool in pools:
        n = pool[0].mid.size
        axes = [[-1 if k == place else 1 for k in range(places)] for place in range(places)]
        sides = [[moved(x, partial(np.reshape, shape=shape)) for x in pool] for shape in axes]
        try:
            wrong = law(site, *sides)
        except Unsupported as error:
            return verdict(False, True, str(error))
        if wrong.any():
            return verdict(True, why=why)
    return verdict(False, True, f"not refuted by {n}**{places} combinations of values that occur")


def _few(arrays: Sequence[Ball], seed: int) -> list[Ball]:
    """The same places of each array, at random; without elements that are open."""
    size = arrays[0].mid.size
    chosen = np.random.default_rng(seed).choice(size, min(POOL, size), replace=False) if size else np.empty(0, np.int64)
    found = []
    for array in arrays:
        mid, rad = array.mid.reshape(-1)[chosen], None if array.rad is None else array.rad.reshape(-1)[chosen]
        found.append(Ball(array.dtype, mid, rad))
    return found


def _applied(site: Site, first: Sequence[Ball], second: Sequence[Ball]) -> list[Ball]:
    with np.errstate(all="ignore"):
        result = call_batched(site.trial, _body(site), [*first, *second])
    return [leaf for leaf in flatten(result) if isinstance(leaf, Ball)]


def _clash(a: Ball, b: Ball) -> Array:
    """Where two results are not the same, nor within eight times what rounding may do to them."""
    same = _alike(a, b)
    for ball in (a, b):
        if ball.und is not None:
            same = same | ball.und
    if not (a.dtype.is_float or a.dtype.is_complex):
        return np.asarray(~same)
    with np.errstate(all="ignore"):
        apart = np.abs(a.mid - b.mid)
        allowed = 8 * ((0.0 if a.rad is None else a.rad) + (0.0 if b.rad is None else b.rad))
        finite = np.isfinite(a.mid) & np.isfinite(b.mid)
    return np.asarray(~same & finite & (apart > allowed))


def select_by_structure(site: Site) -> Said | None:
    """A comparison of the two parameters is transitive, NaN or not."""
    body = site.module.by_name[computation(site.instruction, "select")]
    direction = body.root.attributes.get("direction", "")
    numbers = [body.by_name[name].parameter_number for name in body.root.operands]
    if body.root.opcode == "compare" and direction in ("GE", "GT", "LE", "LT") and numbers in ([0, 1], [1, 0]):
        return KEPT
    return Said(State.UNDECIDED, "the select computation is no comparison of its parameters")
