"""Products of matrices, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type, python, tuple_text

TERMS = 300
"""Of one sum of products, ordinarily."""

_FROM = {
    "f32": ("bf16", "f16", "f32", "f32"), "s32": ("s8", "u8", "s16", "s32"), "f64": ("f32", "f64"), "bf16": ("bf16",),
    "f16": ("f16",), "u32": ("u8", "u32"), "s16": ("s8", "s16"), "c64": ("c64",), "c128": ("c128",), "s8": ("s8",),
    "u8": ("u8",), "s64": ("s32", "s64"), "u64": ("u64",), "u16": ("u8", "u16"),
}  # fmt: skip


def source(site: Site, out: Type) -> str:
    """An element type of operands whose product may be summed in `out`'s."""
    return site.grammar.dtype(site.draw, _FROM[out.dtype])


def _sizes(site: Site, out: Type, count: int) -> list[int]:
    """Contracted dimensions."""
    left = TERMS
    sizes = []
    for _ in range(count):
        sizes.append(site.grammar.dim(site.draw, max(min(left, site.grammar.most // max(out.size, 1)), 1)))
        left //= max(sizes[-1], 1)
    return sizes


@form("dot_general", "contraction", "number", weight=3.0)
def _dot_general(site: Site, out: Type) -> Made | None:
    batch = site.draw.weighted((0, 1, 2), (6, 9, 10)) if out.rank else 0
    batch = min(batch, out.rank)
    split = site.draw.between(batch, out.rank)
    sizes = _sizes(site, out, site.draw.weighted((0, 1, 2), (1, 8, 10)))
    outer, left, right = out.dims[:batch], out.dims[batch:split], out.dims[split:]
    first, dims_a = _placed(site, outer, sizes, left)
    second, dims_b = _placed(site, outer, sizes, right)
    if math.prod(dims_a) > site.grammar.most or math.prod(dims_b) > site.grammar.most:
        return None
    dtype = source(site, out)
    contracted = f"({tuple_text(first['c'])}, {tuple_text(second['c'])})"
    numbers = f"({contracted}, ({tuple_text(first['b'])}, {tuple_text(second['b'])}))"
    more = f", preferred_element_type={python(out.dtype)}"
    if out.dtype == "f32" and dtype == "f32" and site.draw.chance(0.25):
        more += ", precision=lax.Precision.HIGHEST"
    return Made(
        (Hole(Type(dtype, dims_a)), Hole(Type(dtype, dims_b))), f"lax.dot_general({{0}}, {{1}}, {numbers}{more})"
    )


def _placed(
    site: Site, batch: Sequence[int], contracted: Sequence[int], free: Sequence[int]
) -> tuple[dict[str, list[int]], tuple[int, ...]]:
    """Dimensions of the three kinds in any order; free ones keep theirs. (places by kind, dims)"""
    tagged = [("b", i, d) for i, d in enumerate(batch)] + [("c", i, d) for i, d in enumerate(contracted)]
    mixed = site.draw.shuffled(tagged) if site.draw.chance(0.5) else tagged
    where = list(mixed)
    for i, d in enumerate(free):
        last = max((at for at, entry in enumerate(where) if entry[0] == "f"), default=-1)
        where.insert(site.draw.between(last + 1, len(where)), ("f", i, d))
    places: dict[str, list[int]] = {"b": [0] * len(batch), "c": [0] * len(contracted), "f": [0] * len(free)}
    for at, (kind, i, _) in enumerate(where):
        places[kind][i] = at
    return places, tuple(d for _, _, d in where)


@form("matmul", "contraction", "float int complex", weight=1.0)
def _matmul(site: Site, out: Type) -> Made | None:
    if out.rank < 2:
        return None
    (inner,) = _sizes(site, out, 1)
    a, b = (*out.dims[:-1], inner), (*out.dims[:-2], inner, out.dims[-1])
    return Made((Hole(out.shaped(a)), Hole(out.shaped(b))), "jnp.matmul({0}, {1})")


@form("outer", "contraction", "float int", weight=0.4)
def _outer(site: Site, out: Type) -> Made | None:
    if out.rank != 2:
        return None
    return Made((Hole(out.shaped(out.dims[:1])), Hole(out.shaped(out.dims[1:]))), "jnp.outer({0}, {1})")


@form("einsum of three", "contraction", "f32 f64 s32", weight=0.4)
def _einsum(site: Site, out: Type) -> Made | None:
    if out.rank != 2:
        return None
    k = max(site.grammar.dim(site.draw, 32), 1)
    m, n = out.dims
    return Made(
        (Hole(out.shaped((m, k))), Hole(out.shaped((k, k))), Hole(out.shaped((k, n)))),
        "jnp.einsum('ij,jk,kl->il', {0}, {1}, {2})",
    )


@form("conv_general_dilated", "contraction", "float s32", weight=1.6)
def _convolution(site: Site, out: Type) -> Made | None:
    """Of one, two or three spatial dimensions, in any order of dimensions, grouped by features or by batch."""
    if out.rank < 3 or out.rank > 5 or out.size == 0:
        return None
    draw, spatial = site.draw, out.rank - 2
    orders = _orders(spatial)
    spec = draw.pick(orders)
    shape = dict(zip(spec[2], out.dims, strict=True))
    features, batch = shape["C"], shape["N"]
    groups = draw.pick([g for g in (1, 1, 2, 3, features) if features % g == 0])
    by_batch = groups > 1 and draw.chance(0.3)
    per_group = draw.pick((1, 2, 3, 4, 8))
    window, strides, pads, lhs_dilation, rhs_dilation, sizes = [], [], [], [], [], []
    for axis in "DHW"[3 - spatial :]:
        kernel, stride = draw.pick((1, 2, 3, 3, 4, 5)), draw.pick((1, 1, 1, 2, 3))
        inside, outside = draw.pick((1, 1, 1, 2)), draw.pick((1, 1, 2))
        low, high = draw.pick((0, 0, 1, 2, -1)), draw.pick((0, 0, 1, 3, -1))
        span = (kernel - 1) * outside + 1
        # padded size = (out - 1) * stride + span, of a base (size - 1) * inside + 1
        base = (shape[axis] - 1) * stride + span - low - high
        size, rest = divmod(base - 1, inside)
        high += rest
        size += 1
        if size < 1:
            return None
        window.append(kernel)
        strides.append(stride)
        pads.append((low, high))
        lhs_dilation.append(inside)
        rhs_dilation.append(outside)
        sizes.append(size)
    channels = per_group if by_batch else per_group * groups
    rows = batch * groups if by_batch else batch
    lhs = {"N": rows, "C": channels, **dict(zip("DHW"[3 - spatial :], sizes, strict=True))}
    rhs = {"O": features, "I": per_group, **dict(zip("DHW"[3 - spatial :], window, strict=True))}
    if per_group * math.prod(window) > TERMS:
        return None
    dtype = source(site, out)
    text = (
        f"lax.conv_general_dilated({{0}}, {{1}}, {tuple_text(strides)}, {pads}, {tuple_text(lhs_dilation)}, "
        f"{tuple_text(rhs_dilation)}, {spec!r}, {1 if by_batch else groups}, {groups if by_batch else 1}, "
        f"preferred_element_type={python(out.dtype)})"
    )
    first = Type(dtype, tuple(lhs[c] for c in spec[0]))
    return Made((Hole(first), Hole(Type(dtype, tuple(rhs[c] for c in spec[1])))), text)


def _orders(spatial: int) -> list[tuple[str, str, str]]:
    """Of lhs, rhs and result."""
    axes = "DHW"[3 - spatial :]
    return [
        (f"NC{axes}", f"OI{axes}", f"NC{axes}"),
        (f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        (f"NC{axes}", f"OI{axes}", f"N{axes}C"),
        (f"{axes}NC", f"{axes}OI", f"{axes}NC"),
    ]


@form("conv separable", "contraction", "f32", weight=0.4)
def _depthwise(site: Site, out: Type) -> Made | None:
    """One filter a channel."""
    if out.rank != 4 or out.size == 0:
        return None
    n, h, w, c = out.dims
    kernel = site.draw.pick((1, 2, 3, 5))
    numbers = "dimension_numbers=('NHWC', 'HWIO', 'NHWC')"
    text = f"lax.conv_general_dilated({{0}}, {{1}}, (1, 1), 'VALID', {numbers}, feature_group_count={c})"
    lhs = out.shaped((n, h + kernel - 1, w + kernel - 1, c))
    return Made((Hole(lhs), Hole(out.shaped((kernel, kernel, 1, c)))), text)


@form("conv transpose", "contraction", "f32", weight=0.3)
def _transposed(site: Site, out: Type) -> Made | None:
    if out.rank != 3 or out.size == 0:
        return None
    n, w, c = out.dims
    stride, channels = site.draw.pick([s for s in (1, 2, 3) if w % s == 0]), site.draw.pick((1, 2, 4))
    text = f"lax.conv_transpose({{0}}, {{1}}, ({stride},), 'SAME', dimension_numbers=('NWC', 'WIO', 'NWC'))"
    return Made((Hole(out.shaped((n, w // stride, channels))), Hole(out.shaped((3, channels, c)))), text)


@form("ragged_dot", "contraction", "f32 bf16", weight=0.3, smooth=False, outermost=True)
def _ragged(site: Site, out: Type) -> Made | None:
    """Groups of rows, each by a matrix of its own; rows beyond the groups give zeros. vmap has half a rule for it."""
    if out.rank != 2 or out.size == 0:
        return None
    m, n = out.dims
    groups, k = site.draw.between(1, 4), max(site.grammar.dim(site.draw, 64), 1)
    if groups * k * n > site.grammar.most or m * k > site.grammar.most:
        return None
    left, sizes = m, []
    for _ in range(groups):
        sizes.append(site.draw.between(0, left))
        left -= sizes[-1]
    text = f"lax.ragged_dot({{0}}, {{1}}, np.array({sizes}, jnp.int32))"
    return Made((Hole(out.shaped((m, k))), Hole(out.shaped((groups, k, n)))), text)


@form("conv patches", "contraction", "f32", weight=0.3)
def _patches(site: Site, out: Type) -> Made | None:
    if out.rank != 4 or out.size == 0:
        return None
    n, c, h, w = out.dims
    sides = [(a, b) for a, b in ((1, 1), (2, 1), (1, 2), (2, 2), (3, 3), (1, 3)) if c % (a * b) == 0]
    a, b = site.draw.pick(sides)
    whole = out.shaped((n, c // (a * b), h + a - 1, w + b - 1))
    return Made((Hole(whole),), f"lax.conv_general_dilated_patches({{0}}, ({a}, {b}), (1, 1), 'VALID')")


@form("conv local", "contraction", "f32", weight=0.2)
def _local(site: Site, out: Type) -> Made | None:
    """A filter of its own at each place."""
    if out.rank != 4 or out.size == 0 or out.size > 4096:
        return None
    n, c, h, w = out.dims
    side, channels = site.draw.pick((1, 2)), site.draw.pick((1, 2))
    whole = out.shaped((n, channels, h + side - 1, w + side - 1))
    filters = out.shaped((c, channels * side * side, h, w))
    if filters.size > site.grammar.most or whole.size > site.grammar.most:
        return None
    text = f"lax.conv_general_dilated_local({{0}}, {{1}}, (1, 1), 'VALID', ({side}, {side}))"
    return Made((Hole(whole), Hole(filters)), text)
