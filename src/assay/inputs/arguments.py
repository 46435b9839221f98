"""Reads arguments from an .npz file and fits them to a program's parameters."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, DType, leaves
from assay.reference.value import Array


def load_arguments(path: str | Path, module: Module | None) -> list[Array]:
    """The arrays of an .npz file, one for each array parameter of `module`, in its order and types.

    Arrays are found by name (`arr_0` as np.savez writes them, `arg0`, or the parameters' own names), else taken in the
    file's order. Without a module they come as they are, for a function that is yet to be traced.
    """
    arrays = _read(Path(path))
    if module is None:
        return [arrays[name] for name in _numbered(list(arrays)) or arrays]
    parameters = parameter_names(module)
    order = _order(list(arrays), [name for name, _ in parameters])
    if len(order) != len(parameters):
        raise InputError(f"{path} has {len(order)} arrays, {module.name} takes {len(parameters)}")
    return [fit(arrays[key], shape, f"{path}: {key}") for key, (_, shape) in zip(order, parameters, strict=True)]


def parameter_names(module: Module) -> list[tuple[str, ArrayShape]]:
    """Name and shape of each array parameter; the arrays of a tuple are named `name.0`, `name.1`, ..."""
    found = []
    for parameter in module.entry.parameters:
        arrays = [leaf for leaf in leaves(parameter.shape) if isinstance(leaf, ArrayShape)]
        single = isinstance(parameter.shape, ArrayShape)
        found += [(parameter.name if single else f"{parameter.name}.{k}", leaf) for k, leaf in enumerate(arrays)]
    return found


def fit_arguments(values: Sequence[object], module: Module) -> list[Array]:
    """Python or NumPy values as arguments of `module`; raises InputError where one does not fit."""
    parameters = parameter_names(module)
    if len(values) != len(parameters):
        raise InputError(f"{len(values)} arguments were given, {module.name} takes {len(parameters)}")
    return [
        fit(np.asarray(value), shape, f"argument {k} ({name})")
        for k, (value, (name, shape)) in enumerate(zip(values, parameters, strict=True))
    ]


def save_arguments(file: str | Path | IO[bytes], arrays: Sequence[Array]) -> None:
    """An .npz file that `load_arguments` reads. NumPy writes the dtype of f8e5m2 in a way that it does not read."""
    raw = [array.view("V1") if array.dtype.str[1:] == "f1" else array for array in map(np.asarray, arrays)]
    np.savez(file, *raw)


def fit(array: Array, shape: ArrayShape, label: str) -> Array:
    """`array` in the parameter's type, which must hold every value as it is; raises InputError otherwise.

    A type that NumPy lacks comes out of a file as raw bytes (`|V2` for bf16) and is taken as it lies. Any other type
    may stand in where the conversion is exact in every element (float64 that holds float32 values, Python integers).
    """
    dtype = shape.dtype
    wanted = f"{dtype}[{','.join(map(str, shape.dims))}]"
    if dtype.numpy is None:
        raise InputError(f"{label}: neither NumPy nor the installed ml_dtypes has element type {dtype}")
    if array.shape != shape.dims:
        raise InputError(f"{label} has shape {list(array.shape)}, the parameter is {wanted}")
    if array.dtype == dtype.numpy:
        return array
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == dtype.numpy.itemsize:
        return np.ascontiguousarray(array).view(dtype.numpy).reshape(shape.dims)
    if not _convertible(array.dtype, dtype):
        raise InputError(f"{label} is {array.dtype}, the parameter is {wanted}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype.numpy)
        back = converted.astype(array.dtype)
    same = back == array
    if array.dtype.kind in "fc":
        same |= np.isnan(array) & np.isnan(back)
    if not same.all():
        where = [int(i) for i in np.argwhere(~same)[0]] if array.ndim else "the scalar"
        raise InputError(
            f"{label} is {array.dtype} and the parameter {wanted}, which does not hold the value at {where}; "
            f"convert it yourself, with .astype({dtype.numpy.name!r})"
        )
    return converted


def _convertible(given: np.dtype[np.generic], dtype: DType) -> bool:
    """Whether an exact conversion between these kinds is what the user means."""
    if dtype.kind == "pred":
        return given.kind == "b"
    if dtype.is_integer:
        return given.kind in "iu"
    return given.kind in ("iufc" if dtype.is_complex else "iuf")


def _read(path: Path) -> dict[str, Array]:
    try:
        with open(path, "rb") as file:
            magic = file.read(len(_NPY))
        if not magic.startswith(_ZIP) and magic != _NPY:  # NumPy takes everything else for a pickle
            raise InputError(f"{path} is not an .npz file: {_begins(magic)}; save the arguments with np.savez")
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise InputError(f"{path} holds one bare array; save the arguments with np.savez")
        with loaded:
            found = {name: loaded[name] for name in loaded.files}
        other = [name for name, value in found.items() if not isinstance(value, np.ndarray)]
        if other:
            raise InputError(f"{path} holds {other[0]}, which is no array; save the arguments with np.savez")
        return found
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        if "Object arrays" in str(error):
            raise InputError(f"{path} holds Python objects, not arrays; save plain arrays with np.savez") from None
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{path} is not an .npz file that can be read: {told.splitlines()[0]}") from None


_ZIP, _NPY = b"PK", b"\x93NUMPY"


def _begins(magic: bytes) -> str:
    if not magic:
        return "it is empty"
    if magic[0] == 0x80:
        return "it looks like a pickle"
    return f"it begins with {magic!r}"


_NUMBERED = re.compile(r"(?:arr_|arg_?|p)?(\d+)")


def _numbered(keys: list[str]) -> list[str] | None:
    """The keys by their number, where all have one (`arr_0`, `arg0`, `arg_0`, `p0`, `0`) and they count from 0."""
    matches = [_NUMBERED.fullmatch(key) for key in keys]
    numbers = {int(match[1]): key for match, key in zip(matches, keys, strict=True) if match}
    if len(numbers) != len(keys) or sorted(numbers) != list(range(len(keys))):
        return None
    return [numbers[i] for i in range(len(keys))]


def _order(keys: list[str], names: list[str]) -> list[str]:
    """The keys in the parameters' order. jax numbers a parameter's name (`x.1`), which need not be written."""
    if sorted(keys) == sorted(names):
        return names
    plain = {re.sub(r"\.\d+$", "", name): name for name in names}
    if len(plain) == len(names) and sorted(keys) == sorted(plain):
        return list(plain)
    order = _numbered(keys)
    if order is None:
        wanted = ", ".join(plain if len(plain) == len(names) else names)
        raise InputError(
            f"the arrays are named {', '.join(keys)}, the parameters {wanted}; name them alike, or arr_0, arr_1, ... "
            "by position"
        )
    return order
