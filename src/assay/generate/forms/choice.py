"""Comparisons, and what chooses by them."""

from __future__ import annotations

from assay.generate.expressions import clamped
from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import scalar
from assay.generate.types import FLOATS, Type, is_complex, is_float


@form("compare", "elementwise", "pred", weight=3.0, smooth=False)
def _compare(site: Site, out: Type) -> Made:
    dtype = site.grammar.dtype(site.draw)
    ordered = dtype != "pred" and not is_complex(dtype)
    direction = site.draw.pick(("eq", "ne", "lt", "le", "gt", "ge") if ordered else ("eq", "ne"))
    operand = out.of(dtype)
    if site.draw.chance(0.35):
        return Made((Hole(operand),), f"lax.{direction}({{0}}, lax.full_like({{0}}, {scalar(site.draw, dtype)}))")
    return Made((Hole(operand), Hole(operand)), f"lax.{direction}({{0}}, {{1}})")


@form("is_finite", "elementwise", "pred", weight=0.3, smooth=False)
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
