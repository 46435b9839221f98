"""Reductions over dimensions, and cumulative ones along one."""

from __future__ import annotations

import math
from functools import partial

from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import scalar
from assay.generate.types import Type, is_complex, is_float, python, tuple_text

MOST = 1 << 9
"""Terms of a sum, ordinarily: the bounds of long sums of narrow types say little."""


def spread(
    site: Site, out: Type, most_terms: int = MOST, filled: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions with some more among them, and which those are. filled: whether none of these may be 0."""
    count = site.draw.weighted((1, 2, 3), (6, 9, 10))
    dims, room = list(out.dims), min(site.grammar.most // max(out.size, 1), most_terms)
    axes: list[int] = []
    for _ in range(count):
        size = site.grammar.dim(site.draw, max(room, 1))
        size = max(size, 1) if filled else size
        at = site.draw.between(0, len(dims))
        dims.insert(at, size)
        axes = [a + (a >= at) for a in axes] + [at]
        room //= max(size, 1)
    return tuple(dims), tuple(sorted(axes))


def inits(dtype: str) -> dict[str, str]:
    """The value that leaves another as it is, for each way to combine two."""
    whole = python(dtype)
    least, most = ("-np.inf", "np.inf") if is_float(dtype) else (f"jnp.iinfo({whole}).min", f"jnp.iinfo({whole}).max")
    found = {"add": f"np.array(0, {whole})", "mul": f"np.array(1, {whole})"}
    if not is_complex(dtype):
        found |= {"max": f"np.array({least}, {whole})", "min": f"np.array({most}, {whole})"}
    return found


def _reduced(name: str, site: Site, out: Type) -> Made:
    # Nothing's greatest element is minus infinity.
    filled = name in ("max", "min") and is_float(out.dtype)
    dims, axes = spread(site, out, 8 if name == "mul" else MOST, filled)
    return Made(
        (Hole(out.shaped(dims)),), f"lax.reduce({{0}}, {inits(out.dtype)[name]}, lax.{name}, {tuple_text(axes)})"
    )


for _name, _results, _weight in (
    ("add", "number", 3.0),
    ("mul", "number", 0.7),
    ("max", "real", 1.6),
    ("min", "real", 1.4),
):
    form(f"reduce_{_name}", "reduction", _results, weight=_weight)(partial(_reduced, _name))


@form("reduce logical", "reduction", "pred", weight=1.0, smooth=False)
def _logical(site: Site, out: Type) -> Made:
    """Over few, or all of them come to the same."""
    dims, axes = spread(site, out, MOST if site.draw.chance(0.2) else 3)
    name, init = site.draw.pick((("bitwise_and", "True"), ("bitwise_or", "False"), ("bitwise_xor", "False")))
    return Made((Hole(out.shaped(dims)),), f"lax.reduce({{0}}, np.array({init}), lax.{name}, {tuple_text(axes)})")


@form("reduce bitwise", "reduction", "int", weight=0.8, smooth=False)
def _bitwise(site: Site, out: Type) -> Made:
    dims, axes = spread(site, out, MOST if site.draw.chance(0.2) else 3)
    name, init = site.draw.pick((("bitwise_and", "~0"), ("bitwise_or", "0"), ("bitwise_xor", "0")))
    start = f"lax.full((), np.array(0, {python(out.dtype)}))" if init == "0" else f"~np.array(0, {python(out.dtype)})"
    return Made((Hole(out.shaped(dims)),), f"lax.reduce({{0}}, {start}, lax.{name}, {tuple_text(axes)})")


@form("reduce of two", "reduction", "real", weight=0.6, smooth=False)
def _variadic(site: Site, out: Type) -> Made:
    """Sum and greatest at once."""
    dims, axes = spread(site, out, filled=is_float(out.dtype))
    values = inits(out.dtype)
    body = "lambda a, b: (lax.add(a[0], b[0]), lax.max(a[1], b[1]))"
    starts = f"({values['add']}, {values['max']})"
    operand = Hole(out.shaped(dims))
    text = f"lax.reduce(({{0}}, {{1}}), {starts}, {body}, {tuple_text(axes)})"
    return Made((operand, operand), text, parts=(out, out), at=site.draw.below(2))


def _of_some(function: str, site: Site, out: Type) -> Made | None:
    """What is no number of no elements."""
    dims, axes = spread(site, out)
    if any(dims[a] == 0 for a in axes):
        return None
    return Made((Hole(out.shaped(dims)),), f"{function}({{0}}, axis={tuple_text(axes)})")


form("mean", "reduction", "float", weight=0.8)(partial(_of_some, "jnp.mean"))


@form("variance", "reduction", "f32 f64", weight=0.4)
def _variance(site: Site, out: Type) -> Made | None:
    dims, axes = spread(site, out)
    if math.prod(dims[a] for a in axes) < 2:
        return None
    return Made((Hole(out.shaped(dims)),), f"jnp.var({{0}}, axis={tuple_text(axes)})")


form("logsumexp", "reduction", "f32 f64", weight=0.5)(partial(_of_some, "jax.nn.logsumexp"))


@form("softmax", "reduction", "f32 bf16 f64", weight=0.8)
def _softmax(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    return Made(
        (Hole(out),), f"jax.nn.{site.draw.pick(('softmax', 'log_softmax'))}({{0}}, axis={site.draw.below(out.rank)})"
    )


@form("argmax", "reduction", "s32 s8 u8 s16 u32 s64", weight=1.5, smooth=False)
def _arg(site: Site, out: Type) -> Made | None:
    """Of integers mostly, where rounding cannot decide."""
    at = site.draw.between(0, out.rank)
    room = max(site.grammar.most // max(out.size, 1), 1)
    limit = {"s8": 127, "u8": 255}.get(out.dtype, 1 << 15)
    size = max(site.grammar.dim(site.draw, min(room, limit)), 2)
    dims = (*out.dims[:at], size, *out.dims[at:])
    dtype = site.grammar.dtype(site.draw, ("s32", "s8", "u8", "s16", "f32", "bf16", "u32"))
    return Made(
        (Hole(Type(dtype, dims)),), f"lax.{site.draw.pick(('argmax', 'argmin'))}({{0}}, {at}, {python(out.dtype)})"
    )


def _cumulative(name: str, site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    axis = site.draw.below(out.rank)
    if name == "cumprod" and out.dims[axis] > 12:
        return None
    if name in ("cumsum", "cumlogsumexp") and out.dims[axis] > 4096:
        return None
    return Made((Hole(out),), f"lax.{name}({{0}}, axis={axis}, reverse={site.draw.chance(0.3)})")


for _name, _results, _weight in (
    ("cumsum", "number", 1.6),
    ("cumprod", "real", 0.6),
    ("cummax", "real", 0.9),
    ("cummin", "real", 0.7),
    ("cumlogsumexp", "f32 f64", 0.4),
):
    form(_name, "reduction", _results, weight=_weight)(partial(_cumulative, _name))


@form("cumsum of a constant", "reduction", "real", weight=0.5)
def _constant_cumsum(site: Site, out: Type) -> Made | None:
    """A running sum of one value, which is an iota times it; unless it was rounded on the way."""
    if out.rank == 0 or out.dims[-1] > 512:
        return None
    whole = f"lax.broadcast_in_dim({{0}}, {tuple_text(out.dims)}, {tuple_text(list(range(out.rank - 1)))})"
    return Made((Hole(out.shaped(out.dims[:-1])),), f"lax.cumsum({whole}, axis={out.rank - 1})")


@form("associative_scan", "reduction", "real", weight=0.3)
def _associative_scan(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[0] > 64:
        return None
    return Made((Hole(out),), f"lax.associative_scan(lax.{site.draw.pick(('add', 'max'))}, {{0}}, axis=0)")


@form("reduce with a value", "reduction", "real", weight=0.4, smooth=False)
def _reduce_value(site: Site, out: Type) -> Made:
    """The greatest of a constant and of everything. The start of a reduction must be neutral, so it comes after."""
    dims, axes = spread(site, out)
    name = site.draw.pick(("max", "min"))
    reduced = f"lax.reduce({{0}}, {inits(out.dtype)[name]}, lax.{name}, {tuple_text(axes)})"
    limit = f"lax.full({tuple_text(out.dims)}, {scalar(site.draw, out.dtype)})"
    return Made((Hole(out.shaped(dims)),), f"lax.{name}({reduced}, {limit})")
