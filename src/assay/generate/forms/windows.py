"""Windows that slide: reduce-window with every kind of stride, dilation and padding, and what differentiates it."""

from __future__ import annotations

from functools import partial

from assay.generate.expressions import clamped
from assay.generate.form import Hole, Made, Site, form
from assay.generate.forms.reduction import inits
from assay.generate.types import Type, is_float, python, tuple_text


def _windowed(site: Site, out: Type, plain: bool = False) -> tuple[tuple[int, ...], str] | None:
    """Dimensions of the operand, and the window's arguments."""
    if out.rank == 0:
        return None
    draw = site.draw
    rows: list[tuple[int, int, tuple[int, int], int, int, int]] = []
    chosen = draw.some(range(out.rank), draw.between(1, min(out.rank, 2)))
    for axis, dim in enumerate(out.dims):
        if axis not in chosen or dim == 0:
            rows.append((1, 1, (0, 0), 1, 1, dim))
        else:
            size, stride = draw.pick((1, 2, 3, 4, dim if dim <= 64 else 5)), draw.pick((1, 1, 1, 2, 3))
            low, high = draw.pick((0, 0, 1, 2, size - 1)), draw.pick((0, 0, 1, size - 1))
            inside = 1 if plain else draw.pick((1, 1, 1, 2))
            outside = 1 if plain else draw.pick((1, 1, 1, 2))
            span = (size - 1) * outside + 1
            whole = (dim - 1) * stride + span - low - high
            operand, rest = divmod(whole - 1, inside)
            if whole < 1:
                return None
            rows.append((size, stride, (low, high + rest), inside, outside, operand + 1))
    more = f"{tuple_text(r[0] for r in rows)}, {tuple_text(r[1] for r in rows)}, {[r[2] for r in rows]}"
    if not plain:
        more += f", {tuple_text(r[3] for r in rows)}, {tuple_text(r[4] for r in rows)}"
    return tuple(r[5] for r in rows), more


def finite(name: str, text: str, dtype: str) -> str:
    """A window that holds nothing but padding has an infinity for its greatest element."""
    return clamped(text, -200, 200, dtype) if name in ("max", "min") and is_float(dtype) else text


def _reduce_window(name: str, site: Site, out: Type) -> Made | None:
    if (found := _windowed(site, out)) is None:
        return None
    dims, more = found
    text = f"lax.reduce_window({{0}}, {inits(out.dtype)[name]}, lax.{name}, {more})"
    return Made((Hole(out.shaped(dims)),), finite(name, text, out.dtype))


for _name, _results, _weight in (
    ("add", "number", 1.4),
    ("max", "real", 1.2),
    ("min", "real", 0.8),
    ("mul", "real", 0.3),
):
    form(f"reduce_window_{_name}", "windows", _results, weight=_weight, smooth=False)(partial(_reduce_window, _name))


@form("select_and_scatter_add", "windows", "f32 f64", weight=0.5, smooth=False)
def _select_and_scatter(site: Site, out: Type) -> Made | None:
    """The gradient of a maximum over windows."""
    if out.rank == 0 or out.rank > 4 or out.size == 0:
        return None
    draw = site.draw
    window = [
        draw.pick([w for w in (1, 2, 3) if w <= d]) if axis >= out.rank - 2 else 1 for axis, d in enumerate(out.dims)
    ]
    strides = [draw.pick((1, 2)) if w > 1 else 1 for w in window]
    pooled = f"lax.reduce_window(x, -np.inf, lax.max, {tuple_text(window)}, {tuple_text(strides)}, 'VALID')"
    return Made((Hole(out, leaf=True),), f"jax.grad(lambda x: jnp.sum(jnp.sin({pooled})))({{0}})")


@form("average pool", "windows", "f32 bf16", weight=0.4)
def _average(site: Site, out: Type) -> Made | None:
    if (found := _windowed(site, out, plain=True)) is None:
        return None
    dims, more = found
    ones = f"lax.reduce_window(lax.full_like({{0}}, 1), np.array(0, {python(out.dtype)}), lax.add, {more})"
    total = f"lax.reduce_window({{0}}, np.array(0, {python(out.dtype)}), lax.add, {more})"
    return Made((Hole(out.shaped(dims)),), f"{total} / lax.max({ones}, np.array(1, {python(out.dtype)}))")


@form("reduce_window of two", "windows", "f32 s32", weight=0.3, smooth=False)
def _of_two(site: Site, out: Type) -> Made | None:
    """Two at once."""
    if (found := _windowed(site, out)) is None:
        return None
    dims, more = found
    start = inits(out.dtype)
    name = "add" if is_float(out.dtype) else "max"  # a window of padding alone has no greatest float
    body = f"lambda a, b: (lax.add(a[0], b[0]), lax.{name}(a[1], b[1]))"
    operand = Hole(out.shaped(dims))
    text = f"lax.reduce_window(({{0}}, {{1}}), ({start['add']}, {start[name]}), {body}, {more})"
    return Made((operand, operand), text, parts=(out, out), at=site.draw.below(2))


@form("reduce_window by a body", "windows", "f32 s32 u8", weight=0.3, smooth=False)
def _by_a_body(site: Site, out: Type) -> Made | None:
    """What jax does not know as one of its own, though it is."""
    if (found := _windowed(site, out)) is None:
        return None
    dims, more = found
    name = site.draw.pick(("add", "max", "min"))
    text = f"lax.reduce_window({{0}}, {inits(out.dtype)[name]}, lambda a, b: lax.{name}(b, a), {more})"
    return Made((Hole(out.shaped(dims)),), finite(name, text, out.dtype))


@form("select_and_gather_add", "windows", "f32", weight=0.15, smooth=False, outermost=True)
def _select_and_gather(site: Site, out: Type) -> Made | None:
    """The derivative of a maximum over windows along a direction: of a parameter, since of equal ones any may be it."""
    if out.rank == 0 or out.rank > 4 or out.size == 0:
        return None
    axis = site.draw.below(out.rank)
    size = site.draw.pick((1, 2, 3))
    window = [size if i == axis else 1 for i in range(out.rank)]
    dims = tuple(d + size - 1 if i == axis else d for i, d in enumerate(out.dims))
    ones = tuple_text([1] * out.rank)
    pooled = f"lambda x: lax.reduce_window(x, -np.inf, lax.max, {tuple_text(window)}, {ones}, 'VALID')"
    operand = out.shaped(dims)
    text = f"jax.jvp({pooled}, ({{0}},), ({{1}},))"
    return Made((Hole(operand, leaf=True), Hole(operand)), text, parts=(out, out), at=1)
