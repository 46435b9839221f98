"""From one element type to another, by value and by bits, and through a narrower one and back."""

from __future__ import annotations

from assay.generate.expressions import clamped, converted, number, numeric
from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import BITS, INTEGERS, Type, is_complex, is_float, is_integer, python

_SMALL = {"s4": (-8, 7), "u4": (0, 7)}
_GREATEST = {"f16": 60000, "f8e5m2": 50000, "f8e4m3fn": 240}
"""What converts to a type that ends early, for which wider ones are clamped."""


def fitted(dtype: str, to: str, scale: int = 1) -> str:
    """An operand of one type, cut to what another can hold: beyond that, XLA leaves integers open, and floats are
    infinite. scale: of a float before it becomes an integer.
    """
    if is_float(dtype) and is_integer(to):
        low, high = _SMALL.get(to, (0, 100) if to[0] == "u" else (-100, 100))
        inner = numeric("{0}") if scale == 1 else f"{numeric('{0}')} * {number(scale, dtype)}"
        return clamped(inner, low, high, dtype)
    if is_integer(dtype) and to in _GREATEST and BITS[dtype] > 8:
        return f"({{0}} & {number(63, dtype)})"
    if is_float(dtype) and to in _GREATEST and _GREATEST[to] < _GREATEST.get(dtype, 1 << 20):
        return clamped("{0}", -240, 240, dtype)
    return "{0}"


@form("convert", "convert", "any", weight=3.5)
def _convert(site: Site, out: Type) -> Made | None:
    dtype = site.grammar.dtype(site.draw)
    if dtype == out.dtype or (is_complex(dtype) and not is_complex(out.dtype)):
        return None
    return Made((Hole(out.of(dtype)),), converted(fitted(dtype, out.dtype, site.draw.pick((1, 8, 16))), out.dtype))


_BETWEEN = {"f64": ("f32", "bf16"), "f32": ("bf16", "f16"), "f16": ("f8e5m2",), "bf16": ("f8e5m2",)}


@form("round trip", "convert", "float int", weight=1.5)
def _round_trip(site: Site, out: Type) -> Made:
    """Through a narrower type and back, which must not be skipped."""
    if is_float(out.dtype):
        middle = site.draw.pick(_BETWEEN[out.dtype])
        exact = middle == "bf16" or out.dtype == "f64"
        inner = "{0}" if exact else clamped("{0}", -1000, 1000, out.dtype)
    else:
        narrower = [t for t in INTEGERS if BITS[t] < BITS[out.dtype]] or ["pred"]
        middle, inner = site.draw.pick(narrower), "{0}"
    return Made((Hole(out),), converted(converted(inner, middle), out.dtype))


@form("through an integer", "convert", "float", weight=0.8)
def _through_integer(site: Site, out: Type) -> Made:
    """Truncation: a narrowing that folding is apt to lose."""
    middle = site.draw.pick(("s32", "s16", "s8"))
    known = numeric("{0}")
    scaled = known if site.draw.chance(0.3) else f"{known} * {number(site.draw.pick((4, 16)), out.dtype)}"
    return Made((Hole(out),), converted(converted(clamped(scaled, -100, 100, out.dtype), middle), out.dtype))


@form("reduce_precision", "convert", "float", weight=0.7)
def _reduce_precision(site: Site, out: Type) -> Made:
    exponent, mantissa = site.draw.pick(((8, 7), (5, 10), (4, 3), (8, 3), (5, 2)))
    width = {"f16": (5, 10), "bf16": (8, 7)}.get(out.dtype, (8, 23))
    exponent, mantissa = min(exponent, width[0]), min(mantissa, width[1])
    inner = "{0}" if exponent == width[0] else clamped("{0}", -200, 200, out.dtype)
    return Made((Hole(out),), f"lax.reduce_precision({inner}, {exponent}, {mantissa})")


_SAME_BITS = {
    "s8": ("u8",), "u8": ("s8",), "s16": ("u16", "bf16", "f16"), "u16": ("s16", "bf16", "f16"), "s32": ("u32", "f32"),
    "u32": ("s32", "f32"), "s64": ("u64", "f64"), "u64": ("s64", "f64"),
}  # fmt: skip


@form("bitcast_convert", "convert", "int", weight=0.9, smooth=False)
def _bitcast(site: Site, out: Type) -> Made:
    """To integers; the bits of an integer may be a NaN, whose payload nobody promises."""
    dtype = site.grammar.dtype(site.draw, _SAME_BITS[out.dtype])
    return Made((Hole(out.of(dtype)),), f"lax.bitcast_convert_type({_bits_of(dtype)}, {python(out.dtype)})")


def _bits_of(dtype: str) -> str:
    return numeric("{0}") if is_float(dtype) else "{0}"


# vmap's rule for these takes the wrong dimension for the parts, so they stay out of bodies.


@form("bitcast_convert widening", "convert", "s16 u16 s32 u32", weight=0.4, smooth=False, outermost=True)
def _bitcast_wider(site: Site, out: Type) -> Made:
    part = site.draw.pick(("s8", "u8") if BITS[out.dtype] == 16 else ("s8", "u8", "s16", "u16"))
    count = BITS[out.dtype] // BITS[part]
    return Made((Hole(Type(part, (*out.dims, count))),), f"lax.bitcast_convert_type({{0}}, {python(out.dtype)})")


_WHOLE = {16: ("s16", "u16"), 32: ("s32", "u32", "f32")}


@form("bitcast_convert narrowing", "convert", "s8 u8 s16 u16", weight=0.4, smooth=False, outermost=True)
def _bitcast_narrower(site: Site, out: Type) -> Made | None:
    bits = out.dims[-1] * BITS[out.dtype] if out.rank else 0
    if bits not in _WHOLE or bits == BITS[out.dtype]:
        return None
    whole = Type(site.draw.pick(_WHOLE[bits]), out.dims[:-1])
    return Made((Hole(whole),), f"lax.bitcast_convert_type({_bits_of(whole.dtype)}, {python(out.dtype)})")
