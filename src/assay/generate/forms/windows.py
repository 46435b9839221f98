"""Windows that slide: reduce-window with every kind of stride, dilation and padding, and what differentiates it."""

from __future__ import annotations

from functools import partial

from assay.generate.form import Hole, Made, Site, form
from assay.generate.forms.reduction import inits
from assay.generate.types import Type, python, tuple_text


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


def _reduce_window(name: str, site: Site, out: Type) -> Made | None:
    if (found := _windowed(site, out)) is None:
        return None
    dims, more = found
    return Made((Hole(out.shaped(dims)),), f"lax.reduce_window({{0}}, {inits(out.dtype)[name]}, lax.{name}, {more})")


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
