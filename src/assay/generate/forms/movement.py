"""Operations that move elements: shapes, layouts, pieces, padding."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import pairwise

from assay.generate.expressions import converted, number, operands
from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import counted, scalar
from assay.generate.types import INDICES, Type, limits, python, tuple_text, without


@lru_cache(maxsize=4096)
def divisors(size: int) -> tuple[int, ...]:
    """Some of them where there are many."""
    among = range(1, size + 1) if size <= 4096 else (1, 2, 3, 4, 5, 8, 16, 32, 64, 128)
    return tuple(d for d in among if size % d == 0)


def factored(site: Site, size: int, rank: int) -> tuple[int, ...]:
    """So many dimensions whose product is `size`."""
    dims, left = [], size
    for _ in range(rank - 1):
        dims.append(site.draw.pick(divisors(left)))
        left //= dims[-1]
    return tuple(site.draw.shuffled([*dims, left]))


@form("reshape", "movement", "any", weight=2.2)
def _reshape(site: Site, out: Type) -> Made:
    if out.size == 0:
        dims = tuple(site.draw.shuffled(out.dims))
    else:
        rank = site.draw.weighted((0, 1, 2, 3, 4), (1, 5, 11, 15, 17)) if out.size == 1 else site.draw.between(1, 4)
        dims = factored(site, out.size, rank) if rank else ()
    return Made((Hole(out.shaped(dims)),), f"lax.reshape({{0}}, {tuple_text(out.dims)})")


@form("expand_dims", "movement", "any", weight=0.8)
def _expand(site: Site, out: Type) -> Made | None:
    ones = [i for i, d in enumerate(out.dims) if d == 1]
    if not ones:
        return None
    gone = site.draw.some(ones, site.draw.between(1, len(ones)))
    dims = tuple(d for i, d in enumerate(out.dims) if i not in gone)
    return Made((Hole(out.shaped(dims)),), f"lax.expand_dims({{0}}, {tuple_text(gone)})")


@form("squeeze", "movement", "any", weight=0.8)
def _squeeze(site: Site, out: Type) -> Made:
    at = site.draw.between(0, out.rank)
    dims = (*out.dims[:at], 1, *out.dims[at:])
    return Made((Hole(out.shaped(dims)),), f"lax.squeeze({{0}}, ({at},))")


@form("transpose", "movement", "any", weight=2.2)
def _transpose(site: Site, out: Type) -> Made | None:
    if out.rank < 2:
        return None
    order = site.draw.shuffled(range(out.rank))
    dims = [0] * out.rank
    for i, axis in enumerate(order):
        dims[axis] = out.dims[i]
    return Made((Hole(out.shaped(tuple(dims))),), f"lax.transpose({{0}}, {tuple_text(order)})")


@form("rev", "movement", "any", weight=1.4)
def _rev(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    axes = site.draw.some(range(out.rank), site.draw.between(1, out.rank))
    return Made((Hole(out),), f"lax.rev({{0}}, {tuple_text(axes)})")


@form("broadcast_in_dim", "movement", "any", weight=2.5)
def _broadcast(site: Site, out: Type) -> Made | None:
    """From some of the dimensions, in their order; some of those of size 1."""
    if out.rank == 0:
        return None
    kept = site.draw.some(range(out.rank), 0 if site.draw.chance(0.08) else site.draw.between(1, out.rank))
    once = 0.08 if len(kept) == 1 else 0.2
    dims = tuple(1 if site.draw.chance(once) else out.dims[i] for i in kept)
    return Made((Hole(out.shaped(dims)),), f"lax.broadcast_in_dim({{0}}, {tuple_text(out.dims)}, {tuple_text(kept)})")


def tiled(function: str, site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.size == 0:
        return None
    repeats = [site.draw.pick([r for r in (1, 2, 3, 4, 8) if d % r == 0]) for d in out.dims]
    dims = tuple(d // r for d, r in zip(out.dims, repeats, strict=True))
    return Made((Hole(out.shaped(dims)),), f"{function}({{0}}, {tuple_text(repeats)})")


form("tile", "movement", "any", weight=0.4)(partial(tiled, "jnp.tile"))


def widened(site: Site, dims: tuple[int, ...], most: int) -> tuple[tuple[int, ...], list[int], list[int], list[int]]:
    """Of an operand that a slice is taken from: dims, starts, limits, strides."""
    whole, starts, limits, strides = [], [], [], []
    size = max(math.prod(dims), 1)
    for dim in dims:
        room = max(most // size, 1)
        stride = site.draw.weighted((1, 2, 3, 5), (6, 8, 9, 9.5)) if room >= 4 else 1
        before = site.draw.pick((0, 0, 1, 2, 7)) if room >= 2 and dim else site.draw.pick((0, 0, 1))
        span = (dim - 1) * stride + 1 if dim else 0
        after = site.draw.pick((0, 0, 1, 3)) if room >= 2 else 0
        whole.append(before + span + after)
        starts.append(before)
        limits.append(before + span + (min(after, site.draw.below(stride)) if dim else 0))
        strides.append(stride)
        size = max(size // max(dim, 1) * max(whole[-1], 1), 1)
    return tuple(whole), starts, limits, strides


@form("slice", "movement", "any", weight=2.4)
def _slice(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    dims, starts, limits, strides = widened(site, out.dims, site.grammar.most)
    strided = f", {tuple_text(strides)}" if any(s != 1 for s in strides) else ""
    return Made((Hole(out.shaped(dims)),), f"lax.slice({{0}}, {tuple_text(starts)}, {tuple_text(limits)}{strided})")


@form("concatenate", "movement", "any", weight=2.0)
def _concatenate(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    axis, parts = site.draw.below(out.rank), site.draw.between(1, 4)
    cuts = sorted(site.draw.between(0, out.dims[axis]) for _ in range(parts - 1))
    ends = [0, *cuts, out.dims[axis]]
    sizes = [b - a for a, b in pairwise(ends)]
    holes = tuple(Hole(out.shaped(without(out.dims, axis, n))) for n in sizes)
    return Made(holes, f"lax.concatenate([{operands(parts)}], {axis})")


@form("pad", "movement", "any", weight=2.4)
def _pad(site: Site, out: Type) -> Made | None:
    """Negative and interior padding too."""
    if out.rank == 0:
        return None
    dims, config = [], []
    for dim in out.dims:
        interior = site.draw.weighted((0, 1, 2), (7, 9, 10))
        low, high = site.draw.pick((0, 0, 1, 2, -1, -2, 5)), site.draw.pick((0, 0, 1, 2, -1, -3, 6))
        # low + high + size + interior (size - 1) = dim
        left = dim - low - high
        size, rest = divmod(left + interior, interior + 1)
        gone = size <= -low or size <= -high or size + low + high <= 0  # nothing of it is left
        if left <= 0 or rest or size < 0 or (gone and not site.draw.chance(0.05)):
            low, high, interior, size = 0, 0, 0, dim
        dims.append(size)
        config.append((low, high, interior))
    if all(c == (0, 0, 0) for c in config) and site.draw.chance(0.8):
        return None
    operand = Hole(out.shaped(tuple(dims)))
    if site.draw.chance(0.4):  # as most padding is, and as a sum's window adds it
        return Made((operand,), f"lax.pad({{0}}, {number(0, out.dtype)}, {config})")
    if site.draw.chance(0.7):
        return Made((operand,), f"lax.pad({{0}}, {scalar(site.draw, out.dtype)}, {config})")
    return Made((operand, Hole(Type(out.dtype))), f"lax.pad({{0}}, {{1}}, {config})")


def starts(site: Site, dims: tuple[int, ...], room: tuple[int, ...], first: int) -> tuple[list[Hole], str]:
    """Start indices for a dynamic slice, of one type for all: constants in range and beyond, or values of any kind.
    Those that lie outside are clamped, as XLA has it. first: number of the first of the holes among the operands.
    """
    dtype = site.grammar.dtype(site.draw, INDICES)
    low, high = limits(dtype)
    holes: list[Hole] = []
    texts = []
    for dim, free in zip(dims, room, strict=True):
        kind = site.draw.below(4)
        if kind == 0:
            texts.append(f"{{{first + len(holes)}}}")
            holes.append(Hole(Type(dtype)))
            continue
        choices = [0, free, free // 2]
        if kind == 1:
            choices += [dim, dim + 3, *([-1, -dim] if low < 0 else [])]
        texts.append(number(min(max(site.draw.pick(choices), low), high), dtype))
    return holes, f"({', '.join(texts)},)"


@form("dynamic_slice", "movement", "any", weight=2.0)
def _dynamic_slice(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    dims, size = [], max(out.size, 1)
    for dim in out.dims:
        extra = site.draw.pick((0, 0, 1, 3, 120, 128)) if size * 4 <= site.grammar.most else 0
        extra = extra if size // max(dim, 1) * (dim + extra) <= site.grammar.most else 0
        size = max(size // max(dim, 1) * (dim + extra), 1)
        dims.append(dim + extra)
    room = tuple(d - o for d, o in zip(dims, out.dims, strict=True))
    holes, indices = starts(site, tuple(dims), room, 1)
    whole = Hole(out.shaped(tuple(dims)))
    return Made((whole, *holes), f"lax.dynamic_slice({{0}}, {indices}, {tuple_text(out.dims)})")


@form("dynamic_update_slice", "movement", "any", weight=2.0)
def _dynamic_update_slice(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    part = tuple(site.draw.pick(sorted({d, max(d - 1, 0), (d + 1) // 2, min(1, d)})) for d in out.dims)
    room = tuple(d - p for d, p in zip(out.dims, part, strict=True))
    shifted = site.draw.chance(0.3)  # the update is a piece of the very array that it goes to
    holes, indices = starts(site, out.dims, room, 1 if shifted else 2)
    if not shifted:
        update = Hole(out.shaped(part))
        return Made((Hole(out), update, *holes), f"lax.dynamic_update_slice({{0}}, {{1}}, {indices})")
    begin = [site.draw.pick(sorted({0, r})) for r in room]
    end = [b + p for b, p in zip(begin, part, strict=True)]
    piece = f"lax.slice({{0}}, {tuple_text(begin)}, {tuple_text(end)})"
    return Made((Hole(out), *holes), f"lax.dynamic_update_slice({{0}}, {piece}, {indices})")


@form("iota of", "movement", "real", weight=0.6)
def _iota_of(site: Site, out: Type) -> Made | None:
    """An iota in an expression, of a type that may be too narrow for it: it wraps around."""
    if out.rank == 0:
        return None
    axis = counted(site.draw, out)
    dtype = site.grammar.dtype(site.draw, ("s32", "u8", "s8", "s16", "u16", "u32"))
    iota = f"lax.broadcasted_iota({python(dtype)}, {tuple_text(out.dims)}, {axis})"
    if out.dtype == "f16" and dtype not in ("s8", "u8"):
        return None
    return Made((Hole(out),), f"lax.add({{0}}, {converted(iota, out.dtype)})")


@form("one hot", "movement", "real pred", weight=0.6, smooth=False)
def _one_hot(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    dtype = site.grammar.dtype(site.draw, ("s32", "u8", "s8", "s16", "u16"))
    last = out.rank - 1
    iota = f"lax.broadcasted_iota({python(dtype)}, {tuple_text(out.dims)}, {last})"
    # Some of them beyond the last.
    inside = f"lax.rem({{0}}, {number(min(out.dims[last] + 1, limits(dtype)[1]), dtype)})"
    index = f"lax.broadcast_in_dim({inside}, {tuple_text(out.dims)}, {tuple_text(range(last))})"
    return Made((Hole(Type(dtype, out.dims[:-1])),), converted(f"lax.eq({index}, {iota})", out.dtype))


@form("triangle", "movement", "pred real f8", weight=0.5)
def _triangle(site: Site, out: Type) -> Made | None:
    if out.rank < 2:
        return None
    return Made((Hole(out),), f"jnp.{site.draw.pick(('tril', 'triu'))}({{0}}, {site.draw.between(-2, 2)})")


@form("roll", "movement", "any", weight=0.5)
def _roll(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    return Made((Hole(out),), f"jnp.roll({{0}}, {site.draw.pick((1, -1, 2, 5))}, {site.draw.below(out.rank)})")


@form("repeat", "movement", "any", weight=0.3)
def _repeat(site: Site, out: Type) -> Made | None:
    if out.rank == 0:
        return None
    axis = site.draw.below(out.rank)
    times = [t for t in (2, 3, 4) if out.dims[axis] % t == 0 and out.dims[axis]]
    if not times:
        return None
    by = site.draw.pick(times)
    dims = without(out.dims, axis, out.dims[axis] // by)
    return Made((Hole(out.shaped(dims)),), f"jnp.repeat({{0}}, {by}, axis={axis})")
