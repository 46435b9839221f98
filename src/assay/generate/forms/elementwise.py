"""Operations element by element over floats and all numbers. What has a domain takes a guard into it
(`log(|x| + 0.5)`) or a parameter, whose values are drawn to suit: results stay finite however deep a program is.
"""

from __future__ import annotations

from functools import partial

from assay.generate.expressions import number, numeric, with_numbers
from assay.generate.form import Hole, Made, Site, form
from assay.generate.leaves import ABSORBING, factor, middle, scalar
from assay.generate.types import PART_OF, WHOLE_OF, Type, is_complex, is_float, is_integer


def plain(text: str, count: int, site: Site, out: Type) -> Made:
    """The expression over so many operands of the result's own type."""
    return Made((Hole(out),) * count, with_numbers(text, out.dtype))


def guarded(bare: str, guard: str, site: Site, out: Type) -> Made:
    """The operation on a parameter as it is, on anything else behind its guard. A body's parameters are anything."""
    if not site.depth and site.draw.chance(0.2):
        return Made((Hole(out, leaf=True),), with_numbers(bare, out.dtype))
    return Made((Hole(out),), with_numbers(guard, out.dtype))


# (name, element types, expression, weight)
SMOOTH = (
    ("neg", "float int complex s4", "lax.neg({0})", 1.0),
    ("abs", "float s8 s16 s32 s64", "lax.abs({0})", 1.0),
    ("sign", "float int complex", "lax.sign({0})", 0.7),
    ("cbrt", "float", "lax.cbrt({0})", 1.0),
    ("sin", "float complex", "lax.sin({0})", 1.0),
    ("cos", "float complex", "lax.cos({0})", 1.0),
    ("tanh", "float complex", "lax.tanh({0})", 1.0),
    ("atan", "float", "lax.atan({0})", 1.0),
    ("asinh", "float", "lax.asinh({0})", 1.0),
    ("logistic", "float", "lax.logistic({0})", 1.0),
    ("erf", "float", "lax.erf({0})", 1.0),
    ("erfc", "float", "lax.erfc({0})", 1.0),
    ("square", "float int complex", "lax.square({0})", 1.0),
    ("conj", "complex", "lax.conj({0})", 1.0),
    ("stop_gradient", "float", "lax.stop_gradient({0})", 0.1),
    ("softsign", "float", "{0} / (ONE + lax.abs({0}))", 0.4),
    ("relu", "float", "jax.nn.relu({0})", 1.0),
    ("gelu", "float", "jax.nn.gelu({0})", 1.0),
    ("silu", "float", "jax.nn.silu({0})", 1.0),
    ("softplus", "f32 f64", "jax.nn.softplus({0})", 1.0),
    ("sqrt complex", "c64 c128", "lax.sqrt({0})", 0.6),
    ("log complex", "c64 c128", "lax.log({0} * {0} + ONE)", 0.6),
    ("tan complex", "c64 c128", "lax.tan(lax.sin({0}))", 0.6),
)
for _name, _results, _text, _weight in SMOOTH:
    form(_name, "elementwise", _results, weight=_weight)(partial(plain, _text, 1))

form("optimization_barrier", "elementwise", "any", weight=0.25, smooth=False, since=(0, 5))(
    partial(plain, "lax.optimization_barrier({0})", 1)
)

form("copy", "elementwise", "any", weight=0.15)(partial(plain, "jnp.array({0}, copy=True)", 1))

# What jax has of late: (name, element types, expression, operands, the first jax with it)
NEW = (
    ("log2", "float", "lax.log2(lax.abs({0}) + HALF)", 1, (0, 12)),
    ("one_minus_square", "float", "lax.one_minus_square(lax.sin({0}))", 1, (0, 12)),
    ("polynomial", "float", "lax.polynomial(lax.sin({0}), (HALF, ONE, TWO))", 1, (0, 12)),
    ("stage", "any", "lax.stage({0})", 1, (0, 12)),
    ("mulhi", "s32 u32 s64 u64", "lax.mulhi({0}, {1})", 2, (0, 10)),
)
for _name, _results, _text, _count, _since in NEW:
    form(_name, "elementwise", _results, weight=0.4, smooth=False, since=_since)(partial(plain, _text, _count))

# (name, element types, on a parameter, on anything)
GUARDED = (
    ("exp", "float complex", "lax.exp({0})", "lax.exp(lax.sin({0}))"),
    ("exp2", "float", "lax.exp2({0})", "lax.exp2(lax.tanh({0}))"),
    ("expm1", "float", "lax.expm1({0})", "lax.expm1(lax.tanh({0}))"),
    ("log", "float", "lax.log({0})", "lax.log(lax.abs({0}) + HALF)"),
    ("log1p", "float", "lax.log1p({0})", "lax.log1p(lax.abs({0}))"),
    ("sqrt", "float", "lax.sqrt({0})", "lax.sqrt(lax.abs({0}))"),
    ("rsqrt", "float", "lax.rsqrt({0})", "lax.rsqrt(lax.abs({0}) + HALF)"),
    ("tan", "float", "lax.tan({0})", "lax.tan(lax.sin({0}))"),
    ("sinh", "float", "lax.sinh({0})", "lax.sinh(lax.sin({0}))"),
    ("cosh", "float", "lax.cosh({0})", "lax.cosh(lax.sin({0}))"),
    ("asin", "float", "lax.asin({0})", "lax.asin(lax.sin({0}))"),
    ("acos", "float", "lax.acos({0})", "lax.acos(lax.cos({0}))"),
    ("acosh", "float", "lax.acosh(lax.abs({0}) + ONE)", "lax.acosh(lax.abs({0}) + ONE)"),
    ("atanh", "float", "lax.atanh({0})", "lax.atanh(HALF * lax.sin({0}))"),
    ("reciprocal", "float", "lax.reciprocal({0})", "lax.reciprocal(lax.abs({0}) + HALF)"),
    ("cube", "float int", "lax.integer_pow({0}, 3)", "lax.integer_pow({0}, 3)"),
)
for _name, _results, _bare, _guard in GUARDED:
    form(_name, "elementwise", _results, weight=0.9)(partial(guarded, _bare, _guard))

# (name, element types, expression, weight, whether jax differentiates it)
BINARY = (
    ("add", "float int complex narrow", "lax.add({0}, {1})", 2.0, True),
    ("sub", "float int complex narrow", "lax.sub({0}, {1})", 1.6, True),
    ("mul", "float int complex narrow", "lax.mul({0}, {1})", 1.8, True),
    ("max", "float int", "lax.max({0}, {1})", 1.2, True),
    ("min", "float int", "lax.min({0}, {1})", 1.2, True),
    ("rem guarded", "float", "lax.rem({0}, lax.abs({1}) + ONE)", 0.6, True),
    ("div guarded", "float", "lax.div({0}, lax.abs({1}) + HALF)", 1.2, True),
    ("atan2", "float", "lax.atan2({0}, {1})", 0.5, True),
    ("pow guarded", "float", "lax.pow(lax.abs({0}) + HALF, lax.sin({1}))", 0.6, True),
    ("div complex", "complex", "lax.div({0}, {1} * lax.conj({1}) + ONE)", 0.5, True),
    ("logaddexp", "f32 f64", "jnp.logaddexp({0}, {1})", 0.4, True),
)
for _name, _results, _text, _weight, _smooth in BINARY:
    form(_name, "elementwise", _results, weight=_weight, smooth=_smooth)(partial(plain, _text, 2))


@form("nextafter", "elementwise", "f32 f64", weight=0.3, smooth=False)
def _nextafter(site: Site, out: Type) -> Made:
    """Of parameters as they are, of anything else rounded: it reads bits, which rounding leaves open."""
    as_it_is = [not site.depth and site.draw.chance(0.4) for _ in range(2)]
    near = f"lax.round(lax.atan({{}}) * {number(64, out.dtype)})"
    texts = [numeric(f"{{{i}}}") if leaf else near.format(numeric(f"{{{i}}}")) for i, leaf in enumerate(as_it_is)]
    return Made(tuple(Hole(out, leaf=leaf) for leaf in as_it_is), f"lax.nextafter({', '.join(texts)})")


def by_a_parameter(name: str, site: Site, out: Type) -> Made:
    return Made((Hole(out), Hole(out, leaf=True)), f"lax.{name}({{0}}, {{1}})")


for _name in ("div", "rem"):
    form(_name, "elementwise", "float", weight=0.4, outermost=True)(partial(by_a_parameter, _name))


def whole_numbers(text: str, site: Site, out: Type) -> Made:
    """Rounding, mostly of values that do not all lie beside one integer."""
    inner = "{0}" if site.draw.chance(0.3) else f"{{0}} * {number(site.draw.pick((3, 8)), out.dtype)}"
    return Made((Hole(out),), text.format(inner))


for _name, _text in (
    ("floor", "lax.floor({})"),
    ("ceil", "lax.ceil({})"),
    ("round away", "lax.round({})"),
    ("round even", "lax.round({}, lax.RoundingMethod.TO_NEAREST_EVEN)"),
):
    form(_name, "elementwise", "float", weight=0.6)(partial(whole_numbers, _text))


@form("integer_pow", "elementwise", "float int complex")
def _integer_pow(site: Site, out: Type) -> Made:
    powers = (1, 2, 3, 3, 4, 5) if is_integer(out.dtype) else (1, 2, 3, 3, 4)
    power = 0 if site.draw.chance(ABSORBING) else site.draw.pick(powers)
    return Made((Hole(out),), f"lax.integer_pow({{0}}, {power})")


@form("integer_pow negative", "elementwise", "float", weight=0.4)
def _negative_power(site: Site, out: Type) -> Made:
    base = f"lax.abs({{0}}) + {number(0.5, out.dtype)}"
    return Made((Hole(out),), f"lax.integer_pow({base}, {site.draw.pick((-1, -2, -3))})")


def beside(name: str, site: Site, dtype: str) -> str:
    """A scalar for an operation."""
    if name in ("max", "min"):
        return middle(site.draw, dtype)
    return scalar(site.draw, dtype) if name in ("add", "sub") else factor(site.draw, dtype)


@form("with a scalar", "elementwise", "float int complex", weight=2.2)
def _with_scalar(site: Site, out: Type) -> Made:
    """One operand a constant: what the simplifier lives on."""
    names = ("add", "sub", "mul") if is_complex(out.dtype) else ("add", "sub", "mul", "max", "min")
    name = site.draw.pick(names)
    other = f"lax.full_like({{0}}, {beside(name, site, out.dtype)})"
    first, second = ("{0}", other) if site.draw.chance(0.6) else (other, "{0}")
    return Made((Hole(out),), f"lax.{name}({first}, {second})")


@form("chained scalars", "elementwise", "float int", weight=1.0)
def _chained(site: Site, out: Type) -> Made:
    """(x op a) op b, which is folded into one where that is right."""
    names = ["add", "sub", "mul", "max", "min"]
    if not is_float(out.dtype):
        names += ["bitwise_and", "bitwise_or", "bitwise_xor"]
    text = "{0}"
    for _ in range(2):
        name = site.draw.pick(names)
        text = f"lax.{name}({text}, lax.full_like({{0}}, {beside(name, site, out.dtype)}))"
    return Made((Hole(out),), text)


@form("complex", "elementwise", "complex", weight=1.5)
def _complex(site: Site, out: Type) -> Made:
    part = out.of(PART_OF[out.dtype])
    return Made((Hole(part), Hole(part)), "lax.complex({0}, {1})")


@form("parts of complex", "elementwise", "f32 f64", weight=0.4)
def _parts(site: Site, out: Type) -> Made | None:
    whole = WHOLE_OF[out.dtype]
    if site.grammar.dtypes.get(whole, 0) <= 0:
        return None
    return Made((Hole(out.of(whole)),), f"lax.{site.draw.pick(('real', 'imag', 'abs'))}({{0}})")
