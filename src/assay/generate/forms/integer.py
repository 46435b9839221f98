"""Operations element by element over integers and truth values."""

from __future__ import annotations

from functools import partial

from assay.generate.expressions import number
from assay.generate.form import Hole, Made, Site, form
from assay.generate.forms.elementwise import plain
from assay.generate.types import BITS, Type

# (name, element types, expression, operands, weight)
PLAIN = (
    ("not", "int pred s4", "lax.bitwise_not({0})", 1, 1.0),
    ("population_count", "int", "lax.population_count({0})", 1, 1.0),
    ("clz", "int", "lax.clz({0})", 1, 0.5),
    ("and", "int pred", "lax.bitwise_and({0}, {1})", 2, 1.2),
    ("or", "int pred", "lax.bitwise_or({0}, {1})", 2, 1.2),
    ("xor", "int pred", "lax.bitwise_xor({0}, {1})", 2, 1.2),
)
for _name, _results, _text, _count, _weight in PLAIN:
    form(_name, "elementwise", _results, weight=_weight, smooth=False)(partial(plain, _text, _count))


@form("integer division", "elementwise", "int", smooth=False)
def _integer_division(site: Site, out: Type) -> Made:
    """By what is never 0, and never -1 beside the least value: both are left open by XLA's semantics."""
    name = site.draw.pick(("div", "rem"))
    kind = site.draw.below(3)
    if kind == 0:
        by = number(site.draw.pick((1, 2, 3, 4, 7, 8, 10, 127) if name == "div" else (2, 3, 7, 8, 10, 100)), out.dtype)
        return Made((Hole(out),), f"lax.{name}({{0}}, lax.full_like({{0}}, {by}))")
    divisor = Hole(out, leaf=kind == 2)
    least = number(1 if name == "div" else 3, out.dtype)
    return Made((Hole(out), divisor), f"lax.{name}({{0}}, lax.max({{1}}, lax.full_like({{1}}, {least})))")


@form("shift", "elementwise", "int", smooth=False, weight=1.2)
def _shift(site: Site, out: Type) -> Made:
    """By less than the width: what more gives is defined, and not by all that lower it."""
    name = site.draw.pick(("shift_left", "shift_right_logical", "shift_right_arithmetic"))
    bits = BITS[out.dtype] if site.draw.chance(0.3) else BITS[out.dtype] // 2
    if site.draw.chance(0.4):
        by = number(site.draw.below(bits), out.dtype)
        return Made((Hole(out),), f"lax.{name}({{0}}, lax.full_like({{0}}, {by}))")
    return Made((Hole(out), Hole(out)), f"lax.{name}({{0}}, {{1}} & {number(bits - 1, out.dtype)})")
