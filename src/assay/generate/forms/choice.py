"""Comparisons, and what chooses by them."""

from __future__ import annotations

from assay.generate.expressions import clamped, number
from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import middle
from assay.generate.types import BITS, FLOATS, Type, is_complex, is_float, is_integer


@form("compare", "elementwise", "pred", weight=3.0, smooth=False)
def _compare(site: Site, out: Type) -> Made:
    dtype = site.grammar.dtype(site.draw)
    if dtype == "pred" or is_complex(dtype) or site.draw.chance(0.15):
        return _equality(site, out, dtype)
    direction = site.draw.pick(("lt", "le", "gt", "ge"))
    operand = out.of(dtype)
    if site.draw.chance(0.35):
        return Made((Hole(operand),), f"lax.{direction}({{0}}, lax.full_like({{0}}, {middle(site.draw, dtype)}))")
    return Made((Hole(operand), Hole(operand)), f"lax.{direction}({{0}}, {{1}})")


def _equality(site: Site, out: Type, dtype: str) -> Made:
    """Of values of which some are equal: few bits of an integer, signs of floats."""
    direction = site.draw.pick(("eq", "ne"))
    few = "{}"
    if is_integer(dtype) and BITS[dtype] > 4:
        few = f"({{}} & {number(site.draw.pick((1, 3)), dtype)})"
    elif not is_integer(dtype) and dtype != "pred" and BITS[dtype] > 8 and not is_complex(dtype):
        few = "lax.sign({})"
    operand = Hole(out.of(dtype))
    return Made((operand, operand), f"lax.{direction}({few.format('{0}')}, {few.format('{1}')})")


@form("is_finite", "elementwise", "pred", weight=0.1, smooth=False)
def _is_finite(site: Site, out: Type) -> Made:
    return Made((Hole(out.of(site.grammar.dtype(site.draw, FLOATS))),), "lax.is_finite({0})")


@form("select", "elementwise", "any", weight=2.0)
def _select(site: Site, out: Type) -> Made:
    predicate = out.of("pred") if site.draw.chance(0.8) else Type("pred")
    return Made((Hole(predicate), Hole(out), Hole(out)), "lax.select_n({0}, {1}, {2})")


@form("select of three", "elementwise", "any", weight=0.4)
def _select_three(site: Site, out: Type) -> Made:
    index = clamped("{0}", 0, 2, "s32")
    return Made((Hole(out.of("s32")), *(Hole(out),) * 3), f"lax.select_n({index}, {{1}}, {{2}}, {{3}})")


@form("clamp", "elementwise", "float int", weight=1.0)
def _clamp(site: Site, out: Type) -> Made:
    bound = out if site.draw.chance(0.4) else Type(out.dtype)
    if site.draw.chance(0.5):
        if is_float(out.dtype):
            return Made((Hole(out),), clamped("{0}", -1.5, 2.25, out.dtype))
        return Made((Hole(out),), clamped("{0}", -7 if out.dtype[0] == "s" else 1, 100, out.dtype))
    return Made((Hole(bound), Hole(out), Hole(bound)), "lax.clamp(lax.min({0}, {2}), {1}, lax.max({0}, {2}))")
