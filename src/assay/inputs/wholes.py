"""What is promised of an array as a whole: distinct or sorted indices, definite matrices."""

from __future__ import annotations

import dataclasses

import numpy as np

from assay.hlo.shape import ArrayShape
from assay.inputs.classes import Generator, Want, integer_ends
from assay.inputs.domain import Domain
from assay.reference.value import Array


def distinct_indices(rng: Generator, shape: ArrayShape, domain: Domain) -> Array | None:
    """Distinct indices (vectors along `domain.vector`), in order where promised; None where there are too few."""
    low, high = integer_ends(Want(shape.dtype, domain, 0, 0))
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
        members = [distinct_indices(rng, inner, within) for _ in range(shape.dims[0])]
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


def definite_matrices(array: Array) -> Array:
    """Symmetric (Hermitian) positive definite matrices of moderate condition, made from ordinary ones: A A* / n + 1."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    size = array.shape[-1]
    made = wide @ wide.conj().swapaxes(-1, -2) / max(1, size) + np.eye(size)
    made = made.astype(array.dtype)  # matmul may sum the two triangles in different orders: copy one to the other
    lower = np.tril(made)
    return np.asarray(lower + np.tril(made, -1).conj().swapaxes(-1, -2))


def sorted_indices(array: Array, domain: Domain) -> Array:
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
