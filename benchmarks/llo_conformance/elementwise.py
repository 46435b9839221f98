"""Elementwise operations of HLO on every type that has them, and conversions between all pairs of types."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from cases import FLOATS, INTEGERS, TYPES, Collector, array
from jax import lax

UNARY = {
    "abs": lax.abs, "neg": lax.neg, "sign": lax.sign, "floor": lax.floor, "ceil": lax.ceil,
    "round_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "exp": lax.exp, "exp2": lax.exp2, "log": lax.log, "log1p": lax.log1p, "expm1": lax.expm1, "tanh": lax.tanh,
    "logistic": lax.logistic, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sin": lax.sin, "cos": lax.cos,
    "tan": lax.tan, "erf": lax.erf, "is_finite": lax.is_finite, "cube": lambda x: lax.integer_pow(x, 3),
    "reduce_precision": lambda x: lax.reduce_precision(x, 5, 6),
}  # fmt: skip
F32_ONLY = {
    "erfc": lax.erfc, "erf_inv": lax.erf_inv, "asin": lax.asin, "acos": lax.acos, "atan": lax.atan, "sinh": lax.sinh,
    "cosh": lax.cosh, "asinh": lax.asinh, "acosh": lax.acosh, "atanh": lax.atanh, "lgamma": lax.lgamma,
    "digamma": lax.digamma, "gelu": jax.nn.gelu, "silu": jax.nn.silu, "softplus": jax.nn.softplus,
    "relu": jax.nn.relu,
}  # fmt: skip
BINARY = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max, "min": lax.min,
}  # fmt: skip
FLOAT_BINARY = {"pow": lax.pow, "atan2": lax.atan2, "nextafter": lax.nextafter}
BITWISE = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}
SHIFTS = {
    "shl": lax.shift_left, "shr": lax.shift_right_logical, "sra": lax.shift_right_arithmetic,
}  # fmt: skip
COMPARES = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}


def elementwise(c: Collector) -> None:
    for t in FLOATS:
        for name, function in {**UNARY, **(F32_ONLY if t == "f32" else {})}.items():
            c.like(f"{name}_{t}", function, [t])
        for name, function in {**BINARY, **FLOAT_BINARY}.items():
            c.like(f"{name}_{t}", function, [t, t])
    for t in INTEGERS:
        signed = t.startswith("s")
        c.like(f"neg_{t}", lax.neg, [t])
        c.like(f"not_{t}", lax.bitwise_not, [t])
        if signed and t != "s4":
            c.like(f"abs_{t}", lax.abs, [t])
            c.like(f"sign_{t}", lax.sign, [t])
        for name, function in {**BINARY, **BITWISE, **SHIFTS}.items():
            c.like(f"{name}_{t}", function, [t, t])
        if t not in ("s4", "u4"):  # jax has none
            c.like(f"popcnt_{t}", lax.population_count, [t])
            c.like(f"clz_{t}", lax.clz, [t])
    c.like("not_pred", lax.bitwise_not, ["pred"])
    for name, function in BITWISE.items():
        c.like(f"{name}_pred", function, ["pred", "pred"])
    for t in ("f32", "bf16", "s32", "u32", "s8", "u8", "pred"):
        for name in ("eq", "lt") if t in ("s8", "u8", "pred") else COMPARES:
            c.like(f"{name}_{t}", COMPARES[name], [t, t])
    for t in ("f32", "bf16", "f16", "s32", "u32", "s16", "s8", "u8", "pred", "s4"):
        c.like(f"select_{t}", lax.select, ["pred", t, t])
    for t in ("f32", "bf16", "s32", "u32", "s8"):
        c.like(f"clamp_{t}", lax.clamp, [t, t, t])
    c.like("complex", lambda x, y: lax.real(lax.complex(x, y) * lax.complex(x, y + 1)), ["f32", "f32"])
    c.like("complex_abs", lambda x, y: abs(lax.complex(x, y)), ["f32", "f32"])
    c.like("complex_exp", lambda x, y: lax.imag(jnp.exp(lax.complex(x, y))), ["f32", "f32"])
    c.like("fma_chain", lambda x, y: (x * y + x) * (y - 1.5) + jnp.maximum(x, 0), ["f32", "f32"])
    c.like("fma_chain_bf16", lambda x, y: (x * y + x) * (y - 1.5) + jnp.maximum(x, 0), ["bf16", "bf16"])
    c.like("mixed", lambda x, i: jnp.where(i > 3, x, -x) * i.astype(jnp.float32), ["f32", "s32"])


def _to(target: str, most: int | None) -> Callable[..., jax.Array]:
    """most: where nearly all values would be infinite."""
    return lambda x: (x if most is None else x & most).astype(TYPES[target])


def convert(c: Collector) -> None:
    for source in TYPES:
        for target in TYPES:
            if source != target:
                c.like(
                    f"{source}_{target}", _to(target, 4095 if (source, target) == ("u32", "f16") else None), [source]
                )
    c.add("bitcast_f32_s32", lambda x: lax.bitcast_convert_type(x, jnp.int32), array("f32", 100, 200))
    c.add("bitcast_s16_bf16", lambda x: lax.bitcast_convert_type(x, jnp.bfloat16) * 2, array("s16", 100, 200))
    c.add("bitcast_f32_u8", lambda x: lax.bitcast_convert_type(x, jnp.uint8), array("f32", 10, 100))
    c.add("bitcast_u16_u32", lambda x: lax.bitcast_convert_type(x, jnp.uint32), array("u16", 10, 100, 2))


FAMILIES = {"elementwise": elementwise, "convert": convert}
