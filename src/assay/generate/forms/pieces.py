"""Arrays taken apart and put together, and single rows of them."""

from __future__ import annotations

from functools import partial

from assay.generate.expressions import number, operands
from assay.generate.form import Hole, Made, Site, form
from assay.generate.forms.movement import tiled
from assay.generate.types import Type, limits, without


@form("stack", "movement", "any", weight=0.6)
def _stack(site: Site, out: Type) -> Made | None:
    axes = [i for i, d in enumerate(out.dims) if 1 <= d <= 4]
    if not axes:
        return None
    axis = site.draw.pick(axes)
    count = out.dims[axis]
    return Made((Hole(out.shaped(without(out.dims, axis))),) * count, f"jnp.stack([{operands(count)}], axis={axis})")


@form("split in parts", "movement", "any", weight=0.6)
def _split(site: Site, out: Type) -> Made | None:
    """All parts are used."""
    if out.rank == 0:
        return None
    axis, count = site.draw.below(out.rank), site.draw.between(2, 3)
    at = site.draw.below(count)
    sizes = [out.dims[axis] if i == at else site.draw.pick((1, 2, out.dims[axis])) for i in range(count)]
    whole = out.shaped(without(out.dims, axis, sum(sizes)))
    ends = [sum(sizes[: i + 1]) for i in range(count - 1)]
    parts = tuple(out.shaped(without(out.dims, axis, size)) for size in sizes)
    return Made((Hole(whole),), f"jnp.split({{0}}, {ends}, axis={axis})", parts=parts, at=at)


@form("unstack", "movement", "any", weight=0.4)
def _unstack(site: Site, out: Type) -> Made | None:
    count, axis = site.draw.between(1, 3), site.draw.between(0, out.rank)
    whole = out.shaped((*out.dims[:axis], count, *out.dims[axis:]))
    text = f"tuple(lax.index_in_dim({{0}}, i, {axis}, keepdims=False) for i in range({count}))"
    return Made((Hole(whole),), text, parts=(out,) * count, at=site.draw.below(count))


def index(site: Site, size: int, place: int) -> tuple[tuple[Hole, ...], str]:
    """A scalar index: a constant in range or a little beyond it, or a value. place: its number among the operands."""
    dtype = site.grammar.dtype(site.draw, ("s32", "u8", "s8", "s16", "u32"))
    if site.draw.chance(0.6):
        return (Hole(Type(dtype)),), f"{{{place}}}"
    low, high = limits(dtype)
    at = site.draw.pick((0, size - 1, size // 2, size, -1))
    return (), number(min(max(at, low), high), dtype)


@form("dynamic_index_in_dim", "movement", "any", weight=0.8)
def _dynamic_index(site: Site, out: Type) -> Made:
    axis = site.draw.between(0, out.rank)
    size = max(site.grammar.dim(site.draw, min(site.grammar.most // max(out.size, 1), 300)), 1)
    holes, at = index(site, size, 1)
    whole = out.shaped((*out.dims[:axis], size, *out.dims[axis:]))
    return Made((Hole(whole), *holes), f"lax.dynamic_index_in_dim({{0}}, {at}, {axis}, keepdims=False)")


@form("dynamic_update_index_in_dim", "movement", "any", weight=0.8)
def _dynamic_update_index(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or 0 in out.dims:
        return None
    axis = site.draw.below(out.rank)
    holes, at = index(site, out.dims[axis], 2)
    row = out.shaped(without(out.dims, axis))
    return Made((Hole(out), Hole(row), *holes), f"lax.dynamic_update_index_in_dim({{0}}, {{1}}, {at}, {axis})")


@form("shift along", "movement", "any", weight=0.5)
def _shift(site: Site, out: Type) -> Made | None:
    """A cache that moves on by a few rows: what remains and what is new, joined."""
    if out.rank == 0 or out.dims[0] < 2:
        return None
    by = site.draw.between(1, min(out.dims[0] - 1, 3))
    fresh = out.shaped((by, *out.dims[1:]))
    kept = f"lax.slice_in_dim({{0}}, {by}, {out.dims[0]}, axis=0)"
    return Made((Hole(out), Hole(fresh)), f"lax.concatenate([{kept}, {{1}}], 0)")


form("tile of lax", "movement", "any", weight=0.2, since=(0, 10))(partial(tiled, "lax.tile"))


@form("stack of lax", "movement", "any", weight=0.2, since=(0, 10))
def _stack_of_lax(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 1 <= out.dims[0] <= 4:
        return None
    return Made((Hole(out.shaped(out.dims[1:])),) * out.dims[0], f"lax.stack([{operands(out.dims[0])}], axis=0)")


@form("unstack of lax", "movement", "any", weight=0.2, since=(0, 12))
def _unstack_of_lax(site: Site, out: Type) -> Made:
    count = site.draw.between(1, 3)
    whole = Hole(out.shaped((count, *out.dims)))
    return Made((whole,), "lax.unstack({0}, axis=0)", parts=(out,) * count, at=site.draw.below(count))


@form("split of lax", "movement", "any", weight=0.2, since=(0, 5))
def _split_of_lax(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    more = site.draw.pick((0, 1, 5))
    whole = out.shaped((out.dims[0] + more, *out.dims[1:]))
    parts = (out, out.shaped((more, *out.dims[1:])))
    return Made((Hole(whole),), f"lax.split({{0}}, ({out.dims[0]}, {more}), axis=0)", parts=parts)
