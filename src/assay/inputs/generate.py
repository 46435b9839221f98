"""Draws arguments from a seed.

A class says what kind of values; a parameter's `Domain` (see `ranges`) says what the program can use. Each parameter
has a generator of its own, keyed by seed, class and position, so that one drawn alone has the same values.
"""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape
from assay.inputs.classes import BOXES, CLASSES, GRIDDED, MEANT, Want
from assay.inputs.domain import Domain
from assay.inputs.ranges import domains
from assay.inputs.wholes import definite_matrices, distinct_indices, sorted_indices
from assay.reference.value import Array

BLOCK = 1 << 20
"""Elements drawn at a time, so that a large array of a narrow type needs little more than itself."""


def generate(module: Module, seed: int, input_class: str = "normal") -> list[Array]:
    """One array for each array among the entry's parameters (tuples flattened), in `dtype.numpy`."""
    if input_class not in CLASSES:
        raise InputError(f"no input class {input_class!r}; there is: {', '.join(CLASSES)}")
    known = domains(module, BOXES[input_class], input_class in GRIDDED)
    pairs = zip(module.arrays, known, strict=True)
    return [draw(shape, domain, seed, index, input_class) for index, (shape, domain) in enumerate(pairs)]


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
    if dtype.is_integer and domain.distinct and (chosen := distinct_indices(rng, shape, domain)) is not None:
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
                values = make(rng, want)
                if domain.nonzero and input_class not in MEANT:
                    values = _apart(values, domain)
                array[start : start + want.count] = values.astype(dtype.numpy)
    array = array.reshape(shape.dims)
    if domain.definite and input_class == "normal":
        return definite_matrices(array)
    return sorted_indices(array, domain) if domain.ordered else array


def _apart(values: Array, domain: Domain) -> Array:
    """The values, those too near to zero moved away from it."""
    least = values.dtype.type(domain.nonzero)
    near = (values < least) & (values > -least) if values.dtype.kind != "u" else values < least
    away = np.where((values < 0) | (domain.high < domain.nonzero), -least, least) if values.dtype.kind != "u" else least
    return np.where(near, away, values)
