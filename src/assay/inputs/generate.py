"""Draws arguments from a seed.

A class says what kind of values; a parameter's `Domain` (see `ranges`) says what the program can use. Each parameter
has a generator of its own, keyed by seed, class and position, so that one drawn alone has the same values.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, DType, leaves
from assay.inputs.domain import Domain
from assay.inputs.ranges import domains
from assay.reference.value import Array

BLOCK = 1 << 20
"""Elements drawn at a time, so that a large array of a narrow type needs little more than itself."""

Generator = np.random.Generator
Draw = Callable[[Generator, "Want"], Array]


@dataclass(frozen=True, slots=True)
class Want:
    """A run of elements to draw: `count` of them from flat index `start` on, of a real or integer type.

    scalar: the parameter has no dimensions. part: 0, or 1 for imaginary parts.
    """

    dtype: DType
    domain: Domain
    start: int
    count: int
    scalar: bool = False
    part: int = 0


def generate(module: Module, seed: int, input_class: str = "normal") -> list[Array]:
    """One array for each array among the entry's parameters (tuples flattened), in `dtype.numpy`."""
    if input_class not in CLASSES:
        raise InputError(f"no input class {input_class!r}; there is: {', '.join(CLASSES)}")
    shapes = [s for p in module.entry.parameters for s in leaves(p.shape) if isinstance(s, ArrayShape)]
    return [
        draw(shape, domain, seed, index, input_class)
        for index, (shape, domain) in enumerate(zip(shapes, domains(module), strict=True))
    ]


def draw(shape: ArrayShape, domain: Domain, seed: int, index: int, input_class: str = "normal") -> Array:
    """The array that parameter number `index` has under this seed and class."""
    dtype = shape.dtype
    if dtype.numpy is None:
        raise InputError(f"neither NumPy nor the installed ml_dtypes has element type {dtype}; upgrade ml_dtypes")
    key = [seed % 2**64, index, zlib.crc32(input_class.encode())]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
    if dtype.name == "f8e8m0fnu":
        domain = dataclasses.replace(domain, positive=True)  # it has neither zero nor sign
    if dtype.is_integer and domain.positive:
        domain = dataclasses.replace(domain, low=max(1, domain.low), high=min(max(1, domain.high), 100))
    if dtype.is_integer and domain.distinct and (chosen := _distinct(rng, shape, domain)) is not None:
        return chosen.astype(dtype.numpy)
    make = CLASSES[input_class]
    array = np.empty(shape.size, dtype.numpy)
    with np.errstate(all="ignore"):
        for start in range(0, shape.size, BLOCK):
            want = Want(dtype.part, domain, start, min(BLOCK, shape.size - start), shape.rank == 0)
            if dtype.is_complex:
                array.real[start : start + want.count] = make(rng, want)
                array.imag[start : start + want.count] = make(rng, dataclasses.replace(want, part=1))
            else:
                array[start : start + want.count] = make(rng, want).astype(dtype.numpy)
    array = array.reshape(shape.dims)
    if domain.definite and input_class == "normal":
        return _definite(array)
    return _sorted(array, domain) if domain.ordered else array


# ---- the classes


def _normal(rng: Generator, want: Want) -> Array:
    """Ordinary values. Floats: N(0, 1), or uniform between bounds; weights of a sum of n products are scaled by about
    1/sqrt(n), a power of two, so that deep programs neither explode nor saturate. Integers: see `_usual`."""
    dtype, domain = want.dtype, want.domain
    if not dtype.is_float:
        return _usual(rng, want)
    if domain.bounded:
        low, high = _ends(domain, -4.0, 4.0)
        return low + (high - low) * rng.random(want.count)
    values: Array = rng.standard_normal(want.count, np.float64 if dtype.name == "f64" else np.float32)
    if domain.positive:
        return np.asarray(np.maximum(np.abs(values), max(2.0**-7, _smallest(dtype))))
    if domain.fan_in > 1:
        values *= 2.0 ** -round(0.5 * np.log2(domain.fan_in))
    return values


def _usual(rng: Generator, want: Want) -> Array:
    """Integers: any in the domain. Without one: any bits where a type is narrow or unsigned (random keys), small
    magnitudes in s32 and s64, and 1 to 16 for a scalar, which may count something."""
    dtype = want.dtype
    if dtype.kind == "pred":
        return rng.integers(0, 2, want.count, np.uint8)
    least, greatest = _limits(dtype)
    if want.domain.bounded:
        low, high = _integer_ends(want)
    elif want.scalar or want.domain.steps:
        low, high = min(1, greatest), min(16, greatest)
    elif dtype.bits <= 16 or dtype.kind == "unsigned":
        low, high = least, greatest
    else:
        low, high = -100, 100
    return _uniform(rng, dtype, low, high, want.count)


def _log_uniform(rng: Generator, want: Want) -> Array:
    """All magnitudes alike, over the middle half of the type's exponents: a product of two does not overflow."""
    dtype = want.dtype
    if not dtype.is_float:
        if dtype.kind == "pred" or want.domain.bounded or want.domain.steps:
            return _usual(rng, want)
        bits = rng.integers(0, dtype.bits, want.count, np.int64)
        values = rng.integers(0, 2**64, want.count, np.uint64, endpoint=False) >> (63 - bits).astype(np.uint64)
        return values if dtype.kind == "unsigned" else _wrapped(dtype, values)
    least, greatest = -((-dtype.min_exponent) // 2), (int(np.frexp(dtype.max)[1]) - 1) // 2
    exponent = rng.integers(least, greatest, want.count, np.int64, endpoint=True)
    values = np.ldexp(1.0 + rng.random(want.count), exponent)
    sign = 1.0 if want.domain.positive else rng.integers(0, 2, want.count) * 2.0 - 1.0
    return _clipped(values * sign, want.domain)


def _small_integers(rng: Generator, want: Want) -> Array:
    """-3 to 3: sums of products are exact in any order, so that every bound is zero and a wrong index cannot hide."""
    if want.dtype.kind == "pred" or (not want.dtype.is_float and want.domain.bounded):
        return _usual(rng, want)
    values = rng.integers(-3, 3, want.count, np.int64, endpoint=True)
    if want.domain.positive or want.domain.steps:
        values = np.abs(values) % 4 + 1
    if want.dtype.is_float:
        return _clipped(values.astype(np.float64), want.domain)
    return np.clip(np.abs(values) if want.dtype.kind == "unsigned" else values, *_limits(want.dtype))


def _sparse_integers(rng: Generator, want: Want) -> Array:
    """One in sixteen is 1 or -1, the rest 0: exact even where a type holds few integers and its sums are long."""
    if not want.dtype.is_float:
        return _small_integers(rng, want)
    values = rng.integers(0, 32, want.count, np.int64)
    if want.domain.positive:
        return _clipped(np.where(values == 0, 2.0, 1.0), want.domain)
    return _clipped(np.where(values == 0, 1.0, np.where(values == 1, -1.0, 0.0)), want.domain)


def _stamps(rng: Generator, want: Want) -> Array:
    """Each element its own flat index, modulo an odd number up to which the type holds all integers: every place has
    another value than its neighbours, and rows of a power of two differ."""
    dtype, domain = want.dtype, want.domain
    index: Array = np.arange(want.start, want.start + want.count, dtype=np.int64) + want.part
    stamp: Array
    if dtype.kind == "pred":
        stamp = index % 3 == 0
    elif dtype.is_float and dtype.mantissa == 0:
        stamp = np.ldexp(1.0, index % 7)
    elif dtype.is_float:
        modulus = min(2 ** (dtype.mantissa + 1) - 1, int(min(dtype.max, 2.0**62)))
        if domain.bounded:
            least, greatest = _ends(domain, 0.0, float(modulus))
            stamp = least + (greatest - least) * ((index % modulus) / modulus)
        else:
            stamp = index % modulus + int(domain.positive)
    else:
        low, high = _integer_ends(want) if domain.bounded else (0, min(_limits(dtype)[1], 2**62))
        if domain.steps:
            low, high = min(1, _limits(dtype)[1]), min(16, _limits(dtype)[1])
        stamp = low + index % (high - low + 1)
    return stamp


def _zeros(rng: Generator, want: Want) -> Array:
    """Zero with either sign. Where zero is no value of the type or no index, the value next to it."""
    if want.dtype.is_float:
        values = np.where(rng.integers(0, 2, want.count) == 1, -0.0, 0.0)
        return np.ones(want.count) if want.dtype.mantissa == 0 else _clipped(values, want.domain)
    zeros = np.zeros(want.count, np.int64)
    return np.clip(zeros, *_integer_ends(want)) if want.domain.bounded else zeros


_HALVES = np.array([0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.5, -2.5])


def _ties(rng: Generator, want: Want) -> Array:
    """Few distinct values, most of them halves: equal sort keys, and roundings that must go to even."""
    if want.dtype.kind == "pred" or want.domain.steps:
        return _usual(rng, want)
    if want.dtype.is_float:
        values = _HALVES[rng.integers(0, _HALVES.size, want.count)]
        return _clipped(np.abs(values) + 0.5 if want.domain.positive else values, want.domain)
    low, high = _integer_ends(want) if want.domain.bounded else _limits(want.dtype)
    middle = min(max(0, low), high)
    return _uniform(rng, want.dtype, max(low, middle - 2), min(high, middle + 2), want.count)


def _edges(rng: Generator, want: Want) -> Array:
    """Half of them the ends of the type and of its subnormals, infinities, NaN, 1 and its neighbours; half ordinary."""
    plain = _normal(rng, want)
    if want.dtype.kind == "pred" or want.domain.steps:
        return plain
    special = _special_floats(want.dtype) if want.dtype.is_float else _special_integers(want)
    chosen = special[rng.integers(0, special.size, want.count)]
    return np.where(rng.integers(0, 2, want.count) == 1, chosen, plain.astype(chosen.dtype))


CLASSES: dict[str, Draw] = {
    "normal":         _normal,
    "log-uniform":    _log_uniform,
    "small-integers": _small_integers,
    "sparse-integers": _sparse_integers,
    "stamps":         _stamps,
    "zeros":          _zeros,
    "ties":           _ties,
    "edges":          _edges,
}  # fmt: skip


# ---- what they are made of


def _special_floats(dtype: DType) -> Array:
    tiny, eps = _smallest(dtype), 2.0**-dtype.mantissa
    values = [1.0, 1.0 + eps, 1.0 - eps / 2, 2.0, dtype.max, tiny, tiny * eps, tiny * (1 - eps), 0.5, 1.0 / 3.0]
    if dtype.mantissa:
        values += [0.0] + [-value for value in (0.0, *values)]
    with np.errstate(all="ignore"):
        if np.isnan(np.asarray(np.nan).astype(dtype.numpy).astype(np.float64)):
            values += [np.nan] + ([np.inf, -np.inf] if dtype.has_inf else [])
    return np.array(values)


def _special_integers(want: Want) -> Array:
    low, high = _integer_ends(want) if want.domain.bounded else _limits(want.dtype)
    values = {low, low + 1, high - 1, high, -1, 0, 1, 2**31 - 1, 2**31, 2**24 + 1, 2**53 + 1}
    inside = sorted(value for value in values if low <= value <= high)
    return np.array(inside, np.uint64 if want.dtype.kind == "unsigned" else np.int64)


def _smallest(dtype: DType) -> float:
    return float(2.0**dtype.min_exponent)


def _limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype.kind == "signed":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def _integer_ends(want: Want) -> tuple[int, int]:
    """The domain's bounds clipped to the type; where nothing is left, the nearest value of the type."""
    least, greatest = _limits(want.dtype)
    low = int(min(max(want.domain.low, least), greatest)) if want.domain.low > least else least
    high = int(max(min(want.domain.high, greatest), least)) if want.domain.high < greatest else greatest
    return (low, high) if low <= high else (low, low)


def _ends(domain: Domain, low: float, high: float) -> tuple[float, float]:
    """The domain's bounds; a side that is free is as far from the other as `low` from `high`."""
    width = high - low
    if domain.low > -np.inf and domain.high < np.inf:
        return domain.low, max(domain.low, domain.high)
    if domain.low > -np.inf:
        return domain.low, domain.low + width
    if domain.high < np.inf:
        return domain.high - width, domain.high
    return low, high


def _clipped(values: Array, domain: Domain) -> Array:
    return np.clip(values, domain.low, domain.high) if domain.bounded else values


def _uniform(rng: Generator, dtype: DType, low: int, high: int, count: int) -> Array:
    return rng.integers(low, high, count, np.uint64 if dtype.kind == "unsigned" else np.int64, endpoint=True)


def _wrapped(dtype: DType, values: Array) -> Array:
    """Unsigned draws of up to 64 bits, as signed numbers of the type's width."""
    shift = np.uint64(64 - dtype.bits)
    result: Array = (values << shift).view(np.int64) >> np.int64(64 - dtype.bits)
    return result


def _distinct(rng: Generator, shape: ArrayShape, domain: Domain) -> Array | None:
    """Distinct indices (vectors along `domain.vector`), in order where promised; None where there are too few."""
    low, high = _integer_ends(Want(shape.dtype, domain, 0, 0))
    width = high - low + 1
    vector = domain.vector
    components = 1 if vector is None or vector >= shape.rank else shape.dims[vector]
    if shape.size == 0 or components == 0:
        return None
    count = shape.size // components
    places = width**components
    if count > places:
        if shape.rank < 2 or shape.dims[0] < 2 or vector == 0:
            return None
        # Too few for all, but enough perhaps for each member of a batch.
        inner = dataclasses.replace(shape, dims=shape.dims[1:])
        within = dataclasses.replace(domain, vector=None if vector is None else vector - 1)
        members = [_distinct(rng, inner, within) for _ in range(shape.dims[0])]
        whole = [member for member in members if member is not None]
        return np.stack(whole) if len(whole) == len(members) else None
    if places <= 1 << 22:
        chosen = rng.permutation(places)[:count]
    else:  # few among many: draw, and draw again what came twice
        chosen = np.unique(rng.integers(0, min(places, 2**62), 2 * count + 16, np.int64))
        chosen = rng.permutation(chosen)[:count]
        if chosen.size < count:
            return None
    if domain.ordered:
        chosen = np.sort(chosen)
    if components == 1:
        return low + chosen.reshape(shape.dims)
    assert vector is not None
    digits = [chosen // width**k % width for k in reversed(range(components))]
    others = tuple(d for axis, d in enumerate(shape.dims) if axis != vector)
    return low + np.stack([digit.reshape(others) for digit in digits], axis=vector)


def _definite(array: Array) -> Array:
    """Symmetric (Hermitian) positive definite matrices of moderate condition, made from ordinary ones: A A* / n + 1."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    size = array.shape[-1]
    made = wide @ wide.conj().swapaxes(-1, -2) / max(1, size) + np.eye(size)
    made = made.astype(array.dtype)  # matmul may sum the two triangles in different orders: copy one to the other
    lower = np.tril(made)
    return np.asarray(lower + np.tril(made, -1).conj().swapaxes(-1, -2))


def _sorted(array: Array, domain: Domain) -> Array:
    """The same elements in order; index vectors in lexicographic order."""
    vector = domain.vector
    if array.ndim == 0:
        return array
    if vector is None or vector >= array.ndim or array.shape[vector] == 1:
        return np.sort(array, axis=None).reshape(array.shape)
    moved = np.moveaxis(array, vector, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    rows = rows[np.lexsort(rows.T[::-1])]
    return np.moveaxis(rows.reshape(moved.shape), -1, vector)
