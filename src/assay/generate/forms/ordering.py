"""Sorting and its kin."""

from __future__ import annotations

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type, without

KEYS = ("s32", "u8", "s8", "s16", "u32")


@form("sort", "ordering", "real pred", weight=1.4)
def _sort(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] > 4096:
        return None
    axis = site.draw.below(out.rank)
    return Made((Hole(out),), f"lax.sort({{0}}, dimension={axis}, is_stable={site.draw.chance(0.7)})")


@form("sort by key", "ordering", "any", weight=1.0, smooth=False)
def _sort_by_key(site: Site, out: Type) -> Made | None:
    """Values in the order of integer keys, stably, so that nothing is left open."""
    if out.rank == 0 or out.size > 8192:
        return None
    key = out.of(site.grammar.dtype(site.draw, KEYS))
    axis = site.draw.below(out.rank)
    text = f"lax.sort(({{0}}, {{1}}), dimension={axis}, num_keys=1, is_stable=True)"
    return Made((Hole(key), Hole(out)), text, parts=(key, out), at=1)


@form("sort by two keys", "ordering", "s32 u8 s8 u32 f32", weight=0.4, smooth=False)
def _sort_by_two(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.size > 8192:
        return None
    axis = site.draw.below(out.rank)
    key = out.of(site.grammar.dtype(site.draw, ("s32", "u8")))
    text = f"lax.sort(({{0}}, {{1}}), dimension={axis}, num_keys=2)"
    return Made((Hole(key), Hole(out)), text, parts=(key, out), at=1)


@form("argsort", "ordering", "s32", weight=0.5, smooth=False)
def _argsort(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.size > 8192:
        return None
    axis = site.draw.below(out.rank)
    key = out.of(site.grammar.dtype(site.draw, ("s32", "u8", "s16")))
    return Made((Hole(key),), f"jnp.argsort({{0}}, axis={axis}, stable=True).astype(jnp.int32)")


def _wider(site: Site, out: Type) -> tuple[int, ...]:
    room = max(site.grammar.most // max(out.size // max(out.dims[-1], 1), 1) - out.dims[-1], 0)
    extra = site.draw.pick([e for e in (0, 1, 5, 100, 1000) if e <= room] or [0])
    return (*out.dims[:-1], out.dims[-1] + extra)


@form("top_k", "ordering", "real", weight=1.2)
def _top_k(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[-1] > 256:
        return None
    keys = out.shaped(_wider(site, out))
    return Made((Hole(keys),), f"lax.top_k({{0}}, {out.dims[-1]})", parts=(out, out.of("s32")))


@form("top_k indices", "ordering", "s32", weight=0.9, smooth=False)
def _top_k_indices(site: Site, out: Type) -> Made | None:
    """Of integers, so that rounding decides nothing; equals come in the order of their places."""
    if out.rank == 0 or out.dims[-1] > 256:
        return None
    keys = Type(site.grammar.dtype(site.draw, ("s32", "s8", "u8", "s16", "u32", "f32")), _wider(site, out))
    return Made((Hole(keys),), f"lax.top_k({{0}}, {out.dims[-1]})", parts=(out.of(keys.dtype), out), at=1)


@form("searchsorted", "ordering", "s32", weight=0.3, smooth=False)
def _searchsorted(site: Site, out: Type) -> Made | None:
    dtype = site.grammar.dtype(site.draw, ("s32", "s8", "f32"))
    if out.size > 2048:
        return None
    table = Type(dtype, (max(site.grammar.dim(site.draw, 256), 1),))
    method = site.draw.pick(("scan", "compare_all"))
    side = site.draw.pick(("left", "right"))
    text = f"jnp.searchsorted(jnp.sort({{0}}), {{1}}, side='{side}', method='{method}').astype(jnp.int32)"
    return Made((Hole(table), Hole(out.of(dtype))), text)


@form("median", "ordering", "s32", weight=0.2, smooth=False)
def _median(site: Site, out: Type) -> Made:
    size = site.draw.pick((1, 3, 5, 9, 33))
    text = f"lax.index_in_dim(jnp.sort({{0}}, axis={out.rank}), {size // 2}, {out.rank}, keepdims=False)"
    return Made((Hole(out.shaped((*out.dims, size))),), text)


@form("sort descending", "ordering", "real", weight=0.4)
def _descending(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.size > 8192:
        return None
    return Made((Hole(out),), f"jnp.sort({{0}}, axis={site.draw.below(out.rank)}, descending=True)")


@form("sort of three", "ordering", "any", weight=0.4, smooth=False)
def _sort_of_three(site: Site, out: Type) -> Made | None:
    """Two arrays in the order of the keys of a third; all three are results."""
    if out.rank == 0 or out.size > 4096:
        return None
    key = out.of(site.grammar.dtype(site.draw, KEYS))
    other = out.of(site.grammar.dtype(site.draw))
    axis, at = site.draw.below(out.rank), site.draw.between(1, 2)
    carried = [other, out] if at == 2 else [out, other]
    text = f"lax.sort(({{0}}, {{1}}, {{2}}), dimension={axis}, num_keys=1, is_stable=True)"
    return Made((Hole(key), *map(Hole, carried)), text, parts=(key, *carried), at=at)


@form("top_k along an axis", "ordering", "real", weight=0.4, since=(0, 10))
def _top_k_axis(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    axis = site.draw.below(out.rank)
    if out.dims[axis] > 64:
        return None
    extra = site.draw.pick((0, 1, 5))
    keys = out.shaped(without(out.dims, axis, out.dims[axis] + extra))
    text = f"lax.top_k({{0}}, {out.dims[axis]}, axis={axis})"
    return Made((Hole(keys),), text, parts=(out, out.of("s32")))


@form("approx_top_k", "ordering", "f32", weight=0.1, smooth=False, targets=("cpu",))
def _approx(site: Site, out: Type) -> Made | None:
    """Exact where nothing but a CPU is about: it sorts there. Which of equal ones is taken is open, so that indices are
    used of a parameter alone, whose values differ.
    """
    if out.rank == 0 or not 0 < out.dims[-1] <= 64:
        return None
    keys = out.shaped((*out.dims[:-1], out.dims[-1] + site.draw.pick((1, 5, 100))))
    if keys.size > site.grammar.most:
        return None
    name = site.draw.pick(("approx_max_k", "approx_min_k"))
    text = f"lax.{name}({{0}}, {out.dims[-1]})"
    if not site.depth and site.draw.chance(0.4):
        return Made((Hole(keys, leaf=True),), text, parts=(out, out.of("s32")))
    return Made((Hole(keys),), f"{text}[0]")
