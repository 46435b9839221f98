"""Sorting and its kin."""

from __future__ import annotations

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type


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
    key = out.of(site.grammar.dtype(site.draw, ("s32", "u8", "s8", "s16", "u32")))
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
