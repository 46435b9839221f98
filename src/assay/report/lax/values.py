"""Element types, numbers and arrays as NumPy source that gives the same bits back: a formula where there is one, a list
where it is short, else compressed.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from assay.errors import Unsupported
from assay.hlo.shape import DType
from assay.reference.value import Array

INLINE = 90
"""Characters of a list of numbers; a longer array gets a formula or is compressed."""

UNPACK = (
    "def unpack(text, dtype, *shape):",
    "    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)",
)
"""The function that compressed arrays call; it needs base64 and zlib."""

EXACT = 2.0**53
"""Below it float64 holds every integer."""

_OWN = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
_FLOATS = frozenset(("float16", "float32", "float64", "complex64", "complex128"))


def dtype_text(dtype: DType) -> str:
    """`np.float32`, `jnp.bfloat16`. Raises Unsupported where NumPy has none."""
    if dtype.numpy is None:
        raise Unsupported(f"element type {dtype.name}", "neither NumPy nor the installed ml_dtypes has it")
    name = dtype.numpy.name
    if name == "bool":
        return "np.bool_"
    return f"np.{name}" if name in _OWN or name in _FLOATS else f"jnp.{name}"


def dims_text(dims: tuple[int, ...]) -> str:
    """`(4,)`, `(2, 3)`, `()`."""
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def array_text(array: Array, dtype: DType) -> str:
    """An expression of `array`, which is of dtype.numpy; it may call `unpack`."""
    array, name = np.asarray(array), dtype_text(dtype)
    text = _written(array, dtype, name)
    if text is not None and name.startswith("jnp."):  # not all conversions of ml_dtypes are exact
        made = eval(text, {"np": np, "jnp": ml_dtypes})
        text = text if identical(np.asarray(made), array) else None
    if text is not None:
        return text
    data = base64.b85encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
    return f"unpack({', '.join([f'{chr(34)}{data}{chr(34)}', name, *map(str, array.shape)])})"


def _written(array: Array, dtype: DType, name: str) -> str | None:
    """A formula or a short list; None where there is none that gives the same bits."""
    if _marked(array.reshape(-1), dtype):
        return None
    if array.ndim == 0:
        own = name.startswith("np.")
        return f"{name}({number_text(array, dtype)})" if own else f"np.array({_bare(array, dtype)}, {name})"
    for text in _formulas(array, dtype, name):
        return text
    if array.size > INLINE:
        return None
    listed = f"np.array({_listed(array, dtype)}, {name})"
    return listed if len(listed) <= INLINE or array.size <= 4 else None


def number_text(value: Array, dtype: DType) -> str:
    """A number as an argument of its type: `1.5`, `-3`, `"nan"`, `1+2j`, `True`."""
    if dtype.kind == "pred":
        return str(bool(value))
    if dtype.is_integer:
        return str(int(value))
    if dtype.is_complex:
        number = complex(value)
        plain = np.isfinite(number.real) and np.isfinite(number.imag) and not _negative_zero(number)
        part = dtype.part
        assert part.numpy is not None
        real, imag = (number_text(np.asarray(p, part.numpy), part).strip('"') for p in (number.real, number.imag))
        if plain:
            return f"{real}{'' if imag.startswith('-') else '+'}{imag}j" if number.real else f"{imag}j"
        return f"complex({_part(real)}, {_part(imag)})"
    wide = np.asarray(value).astype(np.float64 if dtype.bits == 64 else np.float32)
    if np.isnan(wide):
        return '"nan"' if not np.signbit(wide) else '"-nan"'
    if np.isinf(wide):
        return '"-inf"' if np.signbit(wide) else '"inf"'
    text = str(wide)
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def _negative_zero(number: complex) -> bool:
    return any(part == 0 and np.signbit(part) for part in (number.real, number.imag))


def _part(text: str) -> str:
    return text.replace("nan", "np.nan").replace("inf", "np.inf")


def _formulas(array: Array, dtype: DType, name: str) -> Iterator[str]:
    """Those that give the same bits."""
    shape = dims_text(array.shape)
    if not array.size:
        yield f"np.zeros({shape}, {name})"
        return
    flat = array.reshape(-1)
    if identical(array, np.broadcast_to(flat[0], array.shape)) and array.size > 1:
        number = _bare(flat[0], dtype)
        yield f"np.zeros({shape}, {name})" if number in ("0", "False") else f"np.full({shape}, {number}, {name})"
    if array.size < 5 or dtype.kind == "pred" or dtype.is_complex:
        return
    reshape = "" if array.ndim == 1 else f".reshape{shape}"
    yield from _progression(array, dtype, name, reshape)
    yield from _drawn(array, dtype, name, shape)


def _progression(array: Array, dtype: DType, name: str, reshape: str) -> Iterator[str]:
    flat = array.reshape(-1).astype(np.float64)
    with np.errstate(all="ignore"):
        start, step = flat[0], flat[1] - flat[0]
    if not (np.isfinite(step) and 0 < abs(step) < EXACT and abs(start) < EXACT and abs(start / step) < EXACT):
        return
    if start != np.trunc(start):
        return
    with np.errstate(all="ignore"):
        for scale in (1.0, step):
            count = np.arange(array.size) if step == scale else np.arange(array.size) * (step / scale)
            offset = start / scale
            if offset != np.trunc(offset) or not np.array_equal(count, np.trunc(count)):
                continue
            made = ((count.astype(np.int64) + int(offset)) * scale).astype(array.dtype).reshape(array.shape)
            if identical(made, array):
                first, by = int(offset), int(step / scale)
                limits = f"{first}, {first + by * array.size}, {by}" if by != 1 else f"{first}, {first + array.size}"
                limits = limits.removeprefix("0, ") if by == 1 and first == 0 else limits
                times = "" if scale == 1 else f" * {scale!r}"
                whole = f"np.arange({limits}){times}" if not times else f"(np.arange({limits}){times})"
                yield f"{whole}.astype({name}){reshape}"
                return


def _drawn(array: Array, dtype: DType, name: str, shape: str) -> Iterator[str]:
    """What people write who want some numbers."""
    for text in drawn_texts(array.shape, dtype):
        made = eval(text, {"np": np}).astype(array.dtype)
        if identical(made, array):
            yield f"{text}.astype({name})"
            return


def drawn_texts(shape: tuple[int, ...], dtype: DType) -> Iterator[str]:
    """Expressions of drawn arrays that `array_text` knows again; `.astype(dtype)` is still to be put to them."""
    written = dims_text(shape)
    for seed in range(3):
        if dtype.is_float:
            yield f"np.random.default_rng({seed}).standard_normal({written})"
            yield f"np.random.default_rng({seed}).integers(-8, 9, {written})"
            yield f"np.random.RandomState({seed}).randn({', '.join(map(str, shape))})"
        else:
            low, high = (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1))
            low, high = (low, high) if dtype.kind == "signed" else (0, 1 << dtype.bits)
            if dtype.bits < 64:
                yield f"np.random.default_rng({seed}).integers({low}, {high}, {written})"
            yield f"np.random.default_rng({seed}).integers({max(low, -8)}, {min(high, 9)}, {written})"


def _marked(array: Array, dtype: DType) -> bool:
    """Whether it has a NaN other than the usual one, which no number that is written down gives."""
    if not (dtype.is_float or dtype.is_complex):
        return False
    part = dtype.part.numpy
    assert part is not None
    parts = np.ascontiguousarray(array).view(part)
    nans = parts[np.isnan(parts)]
    return bool(nans.size) and not identical(nans, np.full(nans.shape, np.nan, part))


def identical(a: Array, b: Array) -> bool:
    """Whether two arrays are one in type, shape and every bit."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _listed(array: Array, dtype: DType) -> str:
    if array.ndim == 0:
        return _bare(array, dtype)
    return f"[{', '.join(_listed(part, dtype) for part in array)}]"


def _bare(value: Array, dtype: DType) -> str:
    """A number that needs no type to read it."""
    text = number_text(value, dtype)
    return _part(text.strip('"')) if '"' in text else text
