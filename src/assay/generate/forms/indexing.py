"""Gathers and scatters, as numpy's indexing and as lax's own, with every mode and every type of index."""

from __future__ import annotations

import math
from functools import partial

from assay.generate.expressions import clamped, number
from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import INDICES, Type, is_integer, limits, python, tuple_text, without

FILL = "'fill', fill_value=0"
"""What lies outside is otherwise a NaN."""


def table(site: Site, rest: int, most: int = 20000) -> int:
    """The size of a dimension that is indexed: beyond narrow types' ends now and then."""
    room = max(min(site.grammar.most // max(rest, 1), most), 1)
    return max(site.grammar.dim(site.draw, room), min(2, room))


def index_type(site: Site, most: int = 0) -> str:
    """most: what the type must be able to hold, where jax itself compares indices with a size."""
    return site.grammar.dtype(site.draw, tuple(t for t in INDICES if limits(t)[1] >= most))


def inside(site: Site, text: str, size: int, dtype: str) -> str:
    """Indices that mostly lie within a dimension, some of them a little beyond it; or as they come."""
    if site.draw.chance(0.15) or size + 2 > limits(dtype)[1]:
        return text
    return f"lax.rem({text}, {number(size + site.draw.pick((0, 1, 2)), dtype)})"


@form("take", "indexing", "any", weight=1.6)
def _take(site: Site, out: Type) -> Made | None:
    """Along one axis, which the dimensions of the indices replace."""
    if out.rank == 0:
        return None
    axis = site.draw.below(out.rank)
    last = site.draw.between(axis, min(out.rank, axis + 2))
    rest = math.prod(out.dims[:axis]) * math.prod(out.dims[last:])
    dims = (*out.dims[:axis], table(site, rest), *out.dims[last:])
    indices = Type(index_type(site, dims[axis]), out.dims[axis:last])
    mode = site.draw.pick(("'clip'", "'clip'", FILL, "'wrap'"))
    at = inside(site, "{1}", dims[axis], indices.dtype)
    return Made((Hole(out.shaped(dims)), Hole(indices)), f"jnp.take({{0}}, {at}, axis={axis}, mode={mode})")


@form("take in bounds", "indexing", "any", weight=0.8)
def _take_in_bounds(site: Site, out: Type) -> Made | None:
    """Indices promised to be in bounds, which they are."""
    if out.rank == 0:
        return None
    size = table(site, out.size // max(out.dims[0], 1))
    wide = site.grammar.dtype(site.draw, ("s32", "u32"))
    index = f"lax.rem({{1}} & np.array(0x7fff, {python(wide)}), np.array({size}, {python(wide)}))"
    text = f"jnp.asarray({{0}}).at[{index}].get(mode='promise_in_bounds')"
    return Made((Hole(out.shaped((size, *out.dims[1:]))), Hole(Type(wide, out.dims[:1]))), text)


@form("take_along_axis", "indexing", "any", weight=0.9)
def _take_along(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or (0 in out.dims and site.grammar.jax < (0, 5)):  # which older ones do not trace
        return None
    axis = site.draw.below(out.rank)
    rest = out.size // max(out.dims[axis], 1)
    dims = without(out.dims, axis, table(site, rest))
    mode = site.draw.pick(("'clip'", FILL))
    dtype = index_type(site, dims[axis])
    at = inside(site, "{1}", dims[axis], dtype)
    operands = (Hole(out.shaped(dims)), Hole(out.of(dtype)))
    return Made(operands, f"jnp.take_along_axis({{0}}, {at}, axis={axis}, mode={mode})")


@form("gather of slices", "indexing", "any", weight=1.4)
def _gather(site: Site, out: Type) -> Made | None:
    """lax.gather: windows of the operand at starts, one a row of the indices."""
    if out.rank == 0:
        return None
    draw = site.draw
    batch = draw.some(range(out.rank), draw.between(0, min(out.rank, 2)))
    offsets = [i for i in range(out.rank) if i not in batch]
    indexed = draw.between(0, max(len(offsets), 1))
    # The operand: the window's dimensions, some of which are larger than the window, and some collapsed to nothing.
    collapsed = draw.between(0, 2)
    sizes: list[int] = [out.dims[i] for i in offsets]
    operand: list[int] = []
    slice_sizes, gone = [], []
    order = draw.shuffled(["o"] * len(sizes) + ["c"] * collapsed)
    left = list(sizes)
    room = site.grammar.most
    for at, kind in enumerate(order):
        size = left.pop(0) if kind == "o" else 1
        extra = draw.pick((0, 1, 3, 128, 255))
        extra = extra if math.prod(operand) * (size + extra) * max(math.prod(left), 1) <= room else 0
        operand.append(size + extra)
        slice_sizes.append(size)
        if kind == "c":
            gone.append(at)
    if math.prod(operand) > room or not operand:
        return None
    mapped = draw.shuffled(draw.some(range(len(operand)), min(indexed + collapsed, len(operand))))
    if not mapped:
        return None
    starts = Type(index_type(site), (*(out.dims[i] for i in batch), len(mapped)))
    numbers = f"lax.GatherDimensionNumbers({tuple_text(offsets)}, {tuple_text(gone)}, {tuple_text(mapped)})"
    mode = draw.pick(("'clip'", FILL))
    room = min(operand[i] - slice_sizes[i] for i in mapped)
    where = inside(site, "{1}", room + 1, starts.dtype)
    text = f"lax.gather({{0}}, {where}, {numbers}, {tuple_text(slice_sizes)}, mode={mode})"
    return Made((Hole(out.shaped(tuple(operand))), Hole(starts)), text)


_SCATTERS = {
    "set": ("any", "set"), "add": ("number", "add"), "min": ("real", "min"), "max": ("real", "max"),
    "mul": ("real", "multiply"),
}  # fmt: skip


def _at(name: str, method: str, site: Site, out: Type) -> Made | None:
    """`x.at[i].add(y)`. Where two rows go to one place and the order matters, indices are made to differ."""
    if out.rank == 0:
        return None
    count = site.draw.pick((0, 1, 2, 3, 9, 17, 64, 200))
    rows = out.size // max(out.dims[0], 1)
    if count * rows > site.grammar.most:
        return None
    kind = index_type(site, max(out.dims[0], count + 15, 2 * count))
    distinct = name == "set"
    if name == "mul":
        count = min(count, 3)
    mode = site.draw.pick(("drop", "drop", "clip")) if not distinct else "drop"
    update = out.shaped((count, *out.dims[1:]))
    more = ""
    if distinct:
        # Distinct as an iota is, shifted by a value that is the same for all; what lies beyond is dropped.
        step = site.draw.pick((1, 1, 2)) if count < 60 else 1
        apart = f"lax.iota({python(kind)}, {count}) * {number(step, kind)}"
        index = f"({apart} + ({{2}} & {number(15, kind)}))"
        if site.draw.chance(0.4):
            more = ", unique_indices=True"
        if site.draw.chance(0.3):
            more += ", indices_are_sorted=True"
        return Made(
            (Hole(out), Hole(update), Hole(Type(kind))),
            f"jnp.asarray({{0}}).at[{index}].{method}({{1}}, mode='{mode}'{more})",
        )
    at = inside(site, "{2}", out.dims[0], kind)
    operands = (Hole(out), Hole(update), Hole(Type(kind, (count,))))
    return Made(operands, f"jnp.asarray({{0}}).at[{at}].{method}({{1}}, mode='{mode}')")


for _name, (_results, _method) in _SCATTERS.items():
    form(
        f"scatter_{_name}",
        "indexing",
        _results,
        weight=1.2 if _name in ("set", "add") else 0.6,
        smooth=_name in ("set", "add"),
    )(partial(_at, _name, _method))


@form("scatter of windows", "indexing", "number", weight=1.0, smooth=False)
def _scatter(site: Site, out: Type) -> Made | None:
    """lax.scatter_add: windows added at starts, some of the operand's dimensions inserted."""
    if out.rank == 0:
        return None
    draw = site.draw
    inserted = draw.some(range(out.rank), draw.between(0, min(2, out.rank)))
    window = [i for i in range(out.rank) if i not in inserted]
    sizes = [draw.pick(sorted({out.dims[i], (out.dims[i] + 1) // 2, min(out.dims[i], 1)})) for i in window]
    batch = [draw.pick((1, 2, 5, 9)) for _ in range(draw.between(0, 2))]
    if math.prod(sizes) * math.prod(batch) > site.grammar.most:
        return None
    mapped = draw.shuffled(sorted({*inserted, *draw.some(range(out.rank), draw.between(0, out.rank))}))
    if not mapped:
        return None
    rank = len(batch) + len(sizes)
    places = draw.some(range(rank), len(sizes))
    dims = [0] * rank
    for at, size in zip(places, sizes, strict=True):
        dims[at] = size
    free = iter(batch)
    dims = [d if at in places else next(free) for at, d in enumerate(dims)]
    name = draw.pick(("scatter_add", "scatter_min", "scatter_max")) if out.dtype[0] != "c" else "scatter_add"
    numbers = f"lax.ScatterDimensionNumbers({tuple_text(places)}, {tuple_text(inserted)}, {tuple_text(mapped)})"
    narrow = any(out.dims[i] > limits("s8")[1] for i in mapped) and draw.chance(0.4)
    dtype = site.grammar.dtype(draw, ("s8", "u8")) if narrow else index_type(site)
    indices = Type(dtype, (*batch, len(mapped)))
    mode = f"lax.GatherScatterMode.{draw.pick(('CLIP', 'FILL_OR_DROP'))}"
    operands = (Hole(out), Hole(indices), Hole(out.shaped(tuple(dims))))
    return Made(operands, f"lax.{name}({{0}}, {{1}}, {{2}}, {numbers}, mode={mode})")


@form("index in the middle", "indexing", "any", weight=0.7)
def _middle(site: Site, out: Type) -> Made | None:
    """Two index arrays at once, with a slice between or not."""
    if out.rank == 0:
        return None
    between = site.draw.chance(0.5) and out.rank > 1
    first, second = table(site, out.size // max(out.dims[0], 1), 200), site.draw.pick((1, 2, 5, 9))
    dims = (first, out.dims[1], second, *out.dims[2:]) if between else (first, second, *out.dims[1:])
    if math.prod(dims) > site.grammar.most:
        return None
    index = Type(index_type(site, max(first, second)), out.dims[:1])
    at = [inside(site, f"{{{i}}}", size, index.dtype) for i, size in ((1, first), (2, second))]
    where = f"{at[0]}, :, {at[1]}" if between else ", ".join(at)
    mode = site.draw.pick(("'clip'", FILL))
    return Made((Hole(out.shaped(dims)), Hole(index), Hole(index)), f"jnp.asarray({{0}}).at[{where}].get(mode={mode})")


@form("segment_sum", "indexing", "f32 s32 f64", weight=0.5)
def _segment_sum(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[0] == 0:
        return None
    count = site.draw.pick((1, 5, 17, 64))
    rows = out.shaped((count, *out.dims[1:]))
    if rows.size > site.grammar.most:
        return None
    name = "segment_sum" if not is_integer(out.dtype) or site.draw.chance(0.5) else "segment_max"
    index = Type(site.grammar.dtype(site.draw, ("s32", "u8")), (count,))
    return Made((Hole(rows), Hole(index)), f"jax.ops.{name}({{0}}, {{1}}, num_segments={out.dims[0]})")


@form("bincount", "indexing", "s32", weight=0.3, smooth=False)
def _bincount(site: Site, out: Type) -> Made | None:
    if out.rank != 1 or out.dims[0] == 0:
        return None
    index = Type(site.grammar.dtype(site.draw, ("s32", "u8", "s16")), (site.draw.pick((1, 9, 65, 300)),))
    return Made((Hole(index),), f"jnp.bincount({{0}}, length={out.dims[0]}).astype(jnp.int32)")


@form("scatter_apply", "indexing", "f32 s32", weight=0.3, smooth=False)
def _scatter_apply(site: Site, out: Type) -> Made | None:
    """A function of the elements at some rows, once for each row that is named, however often."""
    if out.rank == 0:
        return None
    index = Type(index_type(site, max(out.dims[0], 20)), (site.draw.pick((1, 2, 9)),))
    function = "lambda x: x * 2 + 1" if site.draw.chance(0.5) else "lax.neg"
    return Made((Hole(out), Hole(index)), f"jnp.asarray({{0}}).at[{{1}}].apply({function}, mode='drop')")


@form("scatter_sub", "indexing", "f32 s32 u8", weight=0.3, smooth=False, since=(0, 8))
def _scatter_sub(site: Site, out: Type) -> Made | None:
    return _at("sub", "subtract", site, out)


@form("index_take", "indexing", "any", weight=0.4, smooth=False)
def _index_take(site: Site, out: Type) -> Made | None:
    """lax.index_take: rows by their numbers along two axes at once."""
    if out.rank == 0 or 0 in out.dims:
        return None
    first, second = table(site, out.size // out.dims[0], 100), site.draw.pick((1, 2, 5))
    whole = out.shaped((first, second, *out.dims[1:]))
    if whole.size > site.grammar.most:
        return None
    index = Hole(Type("s32", out.dims[:1]))
    at = f"({clamped('{1}', 0, first - 1, 's32')}, {clamped('{2}', 0, second - 1, 's32')})"
    return Made((Hole(whole), index, index), f"lax.index_take({{0}}, {at}, (0, 1))")
