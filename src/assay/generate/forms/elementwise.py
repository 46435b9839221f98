"""Operations element by element. What has a domain takes a guard into it (`log(|x| + 0.5)`) or a parameter, whose values
are drawn to suit; so that results stay finite however deep a program is.
"""

from __future__ import annotations

from functools import partial

from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import scalar
from assay.generate.types import BITS, FLOATS, INTEGERS, Type, is_complex, is_float, is_integer, python


def same(text: str, count: int, site: Site, out: Type) -> Made:
    return Made((Hole(out),) * count, text)


def guarded(bare: str, guard: str, site: Site, out: Type) -> Made:
    """The operation on a parameter as it is, on anything else behind its guard."""
    if site.draw.chance(0.2):
        return Made((Hole(out, leaf=True),), bare)
    return Made((Hole(out),), guard.replace("ONE", _one(out.dtype)).replace("HALF", _half(out.dtype)))


def _one(dtype: str) -> str:
    return f"np.array(1, {python(dtype)})"


def _half(dtype: str) -> str:
    return f"np.array(0.5, {python(dtype)})"


def register(
    name: str,
    results: str,
    inverse: object,
    weight: float = 1.0,
    smooth: bool = True,
    family: str = "elementwise",
    targets: tuple[str, ...] = ("cpu", "tpu"),
) -> None:
    form(name, family, results, weight=weight, smooth=smooth, targets=targets)(inverse)  # type: ignore[arg-type]


UNARY = {
    "neg": ("float int complex s4", "lax.neg({0})"), "abs": ("float s8 s16 s32 s64", "lax.abs({0})"),
    "sign": ("float int complex", "lax.sign({0})"), "floor": ("float", "lax.floor({0})"),
    "ceil": ("float", "lax.ceil({0})"), "round away": ("float", "lax.round({0})"),
    "round even": ("float", "lax.round({0}, lax.RoundingMethod.TO_NEAREST_EVEN)"),
    "cbrt": ("float", "lax.cbrt({0})"), "sin": ("float complex", "lax.sin({0})"), "cos": ("float complex", "lax.cos({0})"),
    "tanh": ("float complex", "lax.tanh({0})"), "atan": ("float", "lax.atan({0})"), "asinh": ("float", "lax.asinh({0})"),
    "logistic": ("float", "lax.logistic({0})"), "erf": ("float", "lax.erf({0})"), "erfc": ("float", "lax.erfc({0})"),
    "bessel_i0e": ("f32 f64", "lax.bessel_i0e({0})"), "bessel_i1e": ("f32 f64", "lax.bessel_i1e({0})"),
    "square": ("float int complex", "lax.integer_pow({0}, 2)"), "not": ("int pred s4", "lax.bitwise_not({0})"),
    "population_count": ("int", "lax.population_count({0})"), "clz": ("int", "lax.clz({0})"),
    "conj": ("complex", "lax.conj({0})"), "stop_gradient": ("float", "lax.stop_gradient({0})"),
    "optimization_barrier": ("any", "lax.optimization_barrier({0})"), "softsign": ("float", "{0} / (ONE + lax.abs({0}))"),
    "relu": ("float", "jax.nn.relu({0})"), "gelu": ("float", "jax.nn.gelu({0})"), "silu": ("float", "jax.nn.silu({0})"),
    "softplus": ("f32 f64", "jax.nn.softplus({0})"),
}  # fmt: skip
NOT_SMOOTH = {"population_count", "clz", "not", "optimization_barrier"}
SELDOM = {
    "bessel_i0e": 0.2,
    "bessel_i1e": 0.2,
    "optimization_barrier": 0.25,
    "stop_gradient": 0.1,
    "clz": 0.5,
    "softsign": 0.4,
}

for _name, (_results, _text) in UNARY.items():
    if "ONE" in _text:
        register(
            _name,
            _results,
            lambda site, out, text=_text: Made((Hole(out),), text.replace("ONE", _one(out.dtype))),
            SELDOM.get(_name, 1.0),
        )
    else:
        register(_name, _results, partial(same, _text, 1), SELDOM.get(_name, 1.0), _name not in NOT_SMOOTH)

GUARDED = {
    "exp": ("float complex", "lax.exp({0})", "lax.exp(lax.sin({0}))"), "exp2": ("float", "lax.exp2({0})", "lax.exp2(lax.tanh({0}))"),
    "expm1": ("float", "lax.expm1({0})", "lax.expm1(lax.tanh({0}))"), "log": ("float", "lax.log({0})", "lax.log(lax.abs({0}) + HALF)"),
    "log1p": ("float", "lax.log1p({0})", "lax.log1p(lax.abs({0}))"), "sqrt": ("float", "lax.sqrt({0})", "lax.sqrt(lax.abs({0}))"),
    "rsqrt": ("float", "lax.rsqrt({0})", "lax.rsqrt(lax.abs({0}) + HALF)"), "tan": ("float", "lax.tan({0})", "lax.tan(lax.sin({0}))"),
    "sinh": ("float", "lax.sinh({0})", "lax.sinh(lax.sin({0}))"), "cosh": ("float", "lax.cosh({0})", "lax.cosh(lax.sin({0}))"),
    "asin": ("float", "lax.asin({0})", "lax.asin(lax.sin({0}))"), "acos": ("float", "lax.acos({0})", "lax.acos(lax.cos({0}))"),
    "acosh": ("float", "lax.acosh({0})", "lax.acosh(lax.abs({0}) + ONE)"), "atanh": ("float", "lax.atanh({0})", "lax.atanh(HALF * lax.sin({0}))"),
    "erf_inv": ("f32 f64", "lax.erf_inv({0})", "lax.erf_inv(HALF * lax.sin({0}))"),
    "lgamma": ("f32 f64", "lax.lgamma({0})", "lax.lgamma(lax.abs({0}) + HALF)"), "digamma": ("f32 f64", "lax.digamma({0})", "lax.digamma(lax.abs({0}) + HALF)"),
    "reciprocal": ("float", "lax.reciprocal({0})", "lax.reciprocal(lax.abs({0}) + HALF)"), "cube": ("float int", "lax.integer_pow({0}, 3)", "lax.integer_pow({0}, 3)"),
}  # fmt: skip
for _name, (_results, _bare, _guard) in GUARDED.items():
    register(_name, _results, partial(guarded, _bare, _guard), 0.3 if _name in ("lgamma", "digamma") else 0.9)
for _name, _guard in (("sqrt", "lax.sqrt({0})"), ("log", "lax.log({0} * {0} + ONE)"), ("tan", "lax.tan(lax.sin({0}))")):
    register(
        f"{_name} complex",
        "c64 c128",
        lambda site, out, text=_guard: Made((Hole(out),), text.replace("ONE", _one(out.dtype))),
        0.6,
    )

BINARY = {
    "add": ("float int complex narrow", "lax.add({0}, {1})", 2.0), "sub": ("float int complex narrow", "lax.sub({0}, {1})", 1.6),
    "mul": ("float int complex narrow", "lax.mul({0}, {1})", 1.8), "max": ("float int", "lax.max({0}, {1})", 1.2),
    "min": ("float int", "lax.min({0}, {1})", 1.2), "and": ("int pred", "lax.bitwise_and({0}, {1})", 1.2),
    "or": ("int pred", "lax.bitwise_or({0}, {1})", 1.2), "xor": ("int pred", "lax.bitwise_xor({0}, {1})", 1.2),
    "nextafter": ("f32 f64", "lax.nextafter({0}, {1})", 0.3), "rem guarded": ("float", "lax.rem({0}, lax.abs({1}) + ONE)", 0.6),
    "div guarded": ("float", "lax.div({0}, lax.abs({1}) + HALF)", 1.2), "atan2": ("float", "lax.atan2({0}, {1})", 0.5),
    "pow guarded": ("float", "lax.pow(lax.abs({0}) + HALF, lax.sin({1}))", 0.6),
    "div complex": ("complex", "lax.div({0}, {1} * lax.conj({1}) + ONE)", 0.5),
    "logaddexp": ("f32 f64", "jnp.logaddexp({0}, {1})", 0.4), "igamma": ("f32", "lax.igamma(lax.abs({0}) + HALF, lax.abs({1}))", 0.06),
}  # fmt: skip
for _name, (_results, _text, _weight) in BINARY.items():
    register(
        _name,
        _results,
        lambda site, out, text=_text: Made(
            (Hole(out),) * 2, text.replace("ONE", _one(out.dtype)).replace("HALF", _half(out.dtype))
        ),
        _weight,
        _name not in ("and", "or", "xor", "nextafter", "igamma"),
    )


def _leaf_divisor(name: str, site: Site, out: Type) -> Made:
    return Made((Hole(out), Hole(out, leaf=True)), f"lax.{name}({{0}}, {{1}})")


for _name in ("div", "rem"):
    register(_name, "float", partial(_leaf_divisor, _name), 0.4)


@form("integer division", "elementwise", "int", smooth=False)
def _integer_division(site: Site, out: Type) -> Made:
    """By what is never 0, and never -1 beside the least value: both are left open by XLA's semantics."""
    name = site.draw.pick(("div", "rem"))
    kind = site.draw.below(3)
    if kind == 0:
        divisor = f"np.array({site.draw.pick((1, 2, 3, 4, 7, 8, 10, 16, 100, 127))}, {python(out.dtype)})"
        return Made((Hole(out),), f"lax.{name}({{0}}, jnp.broadcast_to({divisor}, {{0}}.shape))")
    if kind == 1:
        return Made((Hole(out), Hole(out)), f"lax.{name}({{0}}, lax.max({{1}}, lax.full_like({{1}}, 1)))")
    return Made((Hole(out), Hole(out, leaf=True)), f"lax.{name}({{0}}, lax.max({{1}}, lax.full_like({{1}}, 1)))")


@form("shift", "elementwise", "int", smooth=False, weight=1.2)
def _shift(site: Site, out: Type) -> Made:
    """By less than the width: what more gives is defined, and not by all that lower it."""
    name = site.draw.pick(("shift_left", "shift_right_logical", "shift_right_arithmetic"))
    bits = BITS[out.dtype]
    if site.draw.chance(0.4):
        by = f"np.array({site.draw.below(bits)}, {python(out.dtype)})"
        return Made((Hole(out),), f"lax.{name}({{0}}, lax.full_like({{0}}, {by}))")
    return Made((Hole(out), Hole(out)), f"lax.{name}({{0}}, {{1}} & np.array({bits - 1}, {python(out.dtype)}))")


@form("integer_pow", "elementwise", "float int complex")
def _integer_pow(site: Site, out: Type) -> Made:
    return Made(
        (Hole(out),),
        f"lax.integer_pow({{0}}, {site.draw.pick((0, 1, 2, 3, 4, 5) if is_integer(out.dtype) else (0, 1, 2, 3, 4))})",
    )


@form("integer_pow negative", "elementwise", "float", weight=0.4)
def _negative_power(site: Site, out: Type) -> Made:
    return Made((Hole(out),), f"lax.integer_pow(lax.abs({{0}}) + {_half(out.dtype)}, {site.draw.pick((-1, -2, -3))})")


@form("with a scalar", "elementwise", "float int complex", weight=2.2)
def _with_scalar(site: Site, out: Type) -> Made:
    """One operand a constant: what the simplifier lives on."""
    names = ("add", "sub", "mul") if is_complex(out.dtype) else ("add", "sub", "mul", "max", "min")
    name = site.draw.pick(names)
    other = f"lax.full_like({{0}}, {scalar(site.draw, out.dtype)})"
    first, second = ("{0}", other) if site.draw.chance(0.6) else (other, "{0}")
    return Made((Hole(out),), f"lax.{name}({first}, {second})")


@form("chained scalars", "elementwise", "float int", weight=1.0)
def _chained(site: Site, out: Type) -> Made:
    """(x op a) op b, which is folded into one where that is right."""
    names = (
        ("add", "sub", "mul", "max", "min")
        if is_float(out.dtype)
        else ("add", "sub", "mul", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor")
    )
    text = "{0}"
    for _ in range(2):
        text = f"lax.{site.draw.pick(names)}({text}, lax.full_like({{0}}, {scalar(site.draw, out.dtype)}))"
    return Made((Hole(out),), text)


@form("compare", "elementwise", "pred", weight=3.0, smooth=False)
def _compare(site: Site, out: Type) -> Made:
    dtype = site.grammar.dtype(site.draw)
    direction = site.draw.pick(
        ("eq", "ne") if dtype == "pred" or is_complex(dtype) else ("eq", "ne", "lt", "le", "gt", "ge")
    )
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
    index = "lax.clamp(np.int32(0), {0}, np.int32(2))"
    return Made((Hole(out.of("s32")), Hole(out), Hole(out), Hole(out)), f"lax.select_n({index}, {{1}}, {{2}}, {{3}})")


@form("clamp", "elementwise", "float int", weight=1.0)
def _clamp(site: Site, out: Type) -> Made:
    bound = out if site.draw.chance(0.4) else Type(out.dtype)
    if site.draw.chance(0.5):
        low, high = ("-1.5", "2.25") if is_float(out.dtype) else ("1", "100")
        if is_integer(out.dtype) and out.dtype[0] == "s":
            low = "-7"
        return Made(
            (Hole(out),),
            f"lax.clamp(np.array({low}, {python(out.dtype)}), {{0}}, np.array({high}, {python(out.dtype)}))",
        )
    return Made((Hole(bound), Hole(out), Hole(bound)), "lax.clamp(lax.min({0}, {2}), {1}, lax.max({0}, {2}))")


@form("convert", "convert", "any", weight=3.5)
def _convert(site: Site, out: Type) -> Made | None:
    """A value that an integer type cannot hold is left open, so floats come clamped."""
    dtype = site.grammar.dtype(site.draw)
    if dtype == out.dtype or (is_complex(dtype) and not is_complex(out.dtype)):
        return None
    text = "{0}"
    if is_integer(out.dtype) and is_float(dtype):
        low, high = (
            (0, 7)
            if BITS[out.dtype] <= 4 and out.dtype[0] == "u"
            else (-8, 7)
            if BITS[out.dtype] <= 4
            else (0, 100)
            if out.dtype[0] == "u"
            else (-100, 100)
        )
        text = f"lax.clamp(np.array({low}, {python(dtype)}), {{0}}, np.array({high}, {python(dtype)}))"
    elif dtype in ("s16", "s32", "s64", "u16", "u32", "u64") and out.dtype in ("f16", "f8e4m3fn", "f8e5m2"):
        text = f"({{0}} & np.array(63, {python(dtype)}))"  # larger ones overflow
    elif (dtype in ("f32", "f64", "bf16") and out.dtype in ("f16", "f8e4m3fn", "f8e5m2")) or (dtype in ("f16", "f8e5m2") and out.dtype == "f8e4m3fn"):
        text = f"lax.clamp(np.array(-240, {python(dtype)}), {{0}}, np.array(240, {python(dtype)}))"
    return Made((Hole(out.of(dtype)),), f"lax.convert_element_type({text}, {python(out.dtype)})")


@form("round trip", "convert", "float int", weight=1.5)
def _round_trip(site: Site, out: Type) -> Made | None:
    """Through a narrower type and back, which must not be skipped."""
    between = {"f64": ("f32", "bf16"), "f32": ("bf16", "f16"), "f16": ("f8e5m2",), "bf16": ("f8e5m2",)}
    if is_float(out.dtype):
        middle = site.draw.pick(between[out.dtype])
        inner = (
            "{0}"
            if middle == "bf16" or out.dtype == "f64"
            else f"lax.clamp(np.array(-1000, {python(out.dtype)}), {{0}}, np.array(1000, {python(out.dtype)}))"
        )
    else:
        narrower = [t for t in INTEGERS if BITS[t] < BITS[out.dtype]] or ["pred"]
        middle, inner = site.draw.pick(narrower), "{0}"
    return Made(
        (Hole(out),),
        f"lax.convert_element_type(lax.convert_element_type({inner}, {python(middle)}), {python(out.dtype)})",
    )


@form("through an integer", "convert", "float", weight=0.8)
def _through_integer(site: Site, out: Type) -> Made:
    """Truncation: a narrowing that folding is apt to lose."""
    middle = site.draw.pick(("s32", "s16", "s8"))
    inner = f"lax.clamp(np.array(-100, {python(out.dtype)}), {{0}}, np.array(100, {python(out.dtype)}))"
    return Made(
        (Hole(out),),
        f"lax.convert_element_type(lax.convert_element_type({inner}, {python(middle)}), {python(out.dtype)})",
    )


@form("reduce_precision", "convert", "float", weight=0.7)
def _reduce_precision(site: Site, out: Type) -> Made:
    exponent, mantissa = site.draw.pick(((8, 7), (5, 10), (4, 3), (8, 3), (5, 2)))
    width = {"f16": (5, 10), "bf16": (8, 7)}.get(out.dtype, (8, 23))
    exponent, mantissa = min(exponent, width[0]), min(mantissa, width[1])
    inner = (
        "{0}"
        if exponent == width[0]
        else f"lax.clamp(np.array(-200, {python(out.dtype)}), {{0}}, np.array(200, {python(out.dtype)}))"
    )
    return Made((Hole(out),), f"lax.reduce_precision({inner}, {exponent}, {mantissa})")


_SAME_BITS = {
    "s8": ("u8",), "u8": ("s8",), "s16": ("u16", "bf16", "f16"), "u16": ("s16", "bf16", "f16"), "s32": ("u32", "f32"),
    "u32": ("s32", "f32"), "s64": ("u64", "f64"), "u64": ("s64", "f64"),
}  # fmt: skip


@form("bitcast_convert", "convert", "int", weight=0.9, smooth=False)
def _bitcast(site: Site, out: Type) -> Made:
    """To integers; the bits of an integer may be a NaN, whose payload nobody promises."""
    return Made(
        (Hole(out.of(site.draw.pick(_SAME_BITS[out.dtype]))),), f"lax.bitcast_convert_type({{0}}, {python(out.dtype)})"
    )


@form("bitcast_convert widening", "convert", "s16 u16 s32 u32", weight=0.4, smooth=False)
def _bitcast_wider(site: Site, out: Type) -> Made | None:
    if site.depth:
        return None  # jax's rule for vmap takes the wrong dimension for the parts
    part = site.draw.pick(("s8", "u8") if BITS[out.dtype] == 16 else ("s8", "u8", "s16", "u16"))
    count = BITS[out.dtype] // BITS[part]
    return Made((Hole(Type(part, (*out.dims, count))),), f"lax.bitcast_convert_type({{0}}, {python(out.dtype)})")


@form("bitcast_convert narrowing", "convert", "s8 u8 s16 u16", weight=0.4, smooth=False)
def _bitcast_narrower(site: Site, out: Type) -> Made | None:
    if site.depth or not out.rank or out.dims[-1] * BITS[out.dtype] not in (16, 32):
        return None
    whole = site.draw.pick({16: ("s16", "u16"), 32: ("s32", "u32", "f32")}[out.dims[-1] * BITS[out.dtype]])
    if BITS[whole] == BITS[out.dtype]:
        return None
    return Made((Hole(Type(whole, out.dims[:-1])),), f"lax.bitcast_convert_type({{0}}, {python(out.dtype)})")


@form("complex", "elementwise", "complex", weight=1.5)
def _complex(site: Site, out: Type) -> Made:
    part = out.of("f32" if out.dtype == "c64" else "f64")
    return Made((Hole(part), Hole(part)), "lax.complex({0}, {1})")


@form("parts of complex", "elementwise", "f32 f64", weight=0.4)
def _parts(site: Site, out: Type) -> Made | None:
    whole = "c64" if out.dtype == "f32" else "c128"
    if site.grammar.dtypes.get(whole, 0) <= 0:
        return None
    return Made((Hole(out.of(whole)),), f"lax.{site.draw.pick(('real', 'imag', 'abs'))}({{0}})")
