"""Collectives over an axis that vmap names, which jax turns into plain operations. They stay out of bodies, where an
axis of the same name may be about.
"""

from __future__ import annotations

from functools import partial

from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import Type

_AXIS = "axis_name='v'"


def _reduced(name: str, site: Site, out: Type) -> Made | None:
    size = site.draw.pick((1, 2, 3, 5))
    if out.size * size > site.grammar.most:
        return None
    operand = out.shaped((size, *out.dims))
    return Made((Hole(operand),), f"jax.vmap(lambda x: lax.{name}(x, 'v'), {_AXIS})({{0}})[0]")


for _name, _results in (("psum", "f32 s32 bf16"), ("pmax", "f32 s32"), ("pmin", "f32 s32"), ("pmean", "f32")):
    form(f"{_name} over vmap", "collectives", _results, weight=0.15, smooth=False, outermost=True)(
        partial(_reduced, _name)
    )


def _mapped(text: str, site: Site, out: Type) -> Made | None:
    """A body over the rows. N: how many there are."""
    if out.rank == 0 or not 0 < out.dims[0] <= 16:
        return None
    return Made((Hole(out),), f"jax.vmap(lambda x: {text.replace('N', str(out.dims[0]))}, {_AXIS})({{0}})")


for _name, _text in (
    ("ppermute over vmap", "lax.ppermute(x, 'v', [(i, (i + 1) % N) for i in range(N)])"),
    ("axis_index over vmap", "x + lax.convert_element_type(lax.axis_index('v'), x.dtype)"),
    ("all_gather over vmap", "lax.all_gather(x, 'v')[(lax.axis_index('v') + 1) % N]"),
):
    form(_name, "collectives", "f32 s32 u8", weight=0.15, smooth=False, outermost=True)(partial(_mapped, _text))


@form("all_to_all over vmap", "collectives", "f32 s32", weight=0.15, smooth=False, outermost=True)
def _all_to_all(site: Site, out: Type) -> Made | None:
    if out.rank < 2 or out.dims[0] != out.dims[1] or not 0 < out.dims[0] <= 16:
        return None
    return Made((Hole(out),), f"jax.vmap(lambda x: lax.all_to_all(x, 'v', 0, 0), {_AXIS})({{0}})")
