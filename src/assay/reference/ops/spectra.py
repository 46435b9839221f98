"""LAPACK calls for eigenvalues and singular values.

Those of Hermitian matrices, and singular values, move by no more than the matrix does (Weyl), and are bounded. Vectors
are defined up to sign, phase, or a rotation where values come together, and eigenvalues of general matrices come in an
order that nobody promises: they are undecided. In sampled runs what is open is drawn, so that results that do not
depend on it are decided: a pseudo-inverse, a least-squares solution, a function of a matrix, sorted eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from assay.hlo.module import Instruction
from assay.reference import factors
from assay.reference.context import Context
from assay.reference.factors import Bounded
from assay.reference.ops.lapack import (
    S32,
    across,
    drawn_signs,
    gathered,
    is_typed,
    letter,
    masked,
    matrices,
    moved_by_norm,
    output_shape,
    outputs,
    status,
    typed,
    unsure_matrices,
    untyped,
)
from assay.reference.registry import custom_call
from assay.reference.value import Array, Ball, Value

REAL, COMPLEX = "sd", "cz"
Parts = Sequence[tuple[Array, ...]]


def _spectrum(a: Ball, values: Callable[[Array], Array]) -> list[Bounded]:
    """Eigenvalues of Hermitian matrices or singular values, each off by at most the norm of the error (Weyl).

    LAPACK's error is p(n) u ||A||_2 with p a low polynomial; 4 (m + n) holds with room in practice (LAPACK Users'
    Guide, 4.7, 4.9).
    """
    *_, m, n = a.mid.shape
    growth = 4 * (m + n) * factors.roundoff(a.dtype)
    found = []
    for matrix in matrices(a):
        if not np.isfinite(matrix.mid).all():
            found.append(Bounded(np.zeros(min(m, n)), np.full(min(m, n), np.inf)))
            continue
        spectrum = values(matrix.mid)
        norm = np.abs(spectrum).max(initial=0.0)
        spread = np.sqrt((matrix.rad**2).sum())
        found.append(Bounded(spectrum, np.full(spectrum.shape, growth * (norm + spread) + spread)))
    return found


def _gathered(ctx: Context, instr: Instruction, each: Parts, wanted: dict[int, int], bad: Array) -> dict[int, Ball]:
    """Outputs from what was computed for each matrix: `wanted` gives an output's place in the tuples of `each`. They
    are undecided but in sampled runs.
    """
    found = {}
    for output, place in wanted.items():
        shape = output_shape(instr, output)
        parts = [one[place] for one in each]
        if any(part.shape != shape.dims[len(shape.dims) - part.ndim :] for part in parts):
            continue  # vectors that were not asked for
        trailing = parts[0].ndim if parts else 1
        und = across(bad, shape.dims, trailing) if ctx.rng is not None else np.ones(shape.dims, bool)
        bounded = [Bounded(part, np.zeros(part.shape)) for part in parts]
        found[output] = gathered(ctx, shape.dtype, shape.dims, bounded, und)
    return found


def _finite(matrix: Bounded) -> Array:
    return np.where(np.isfinite(matrix.mid), matrix.mid, 0.0)


# ---------------------------------------------------------------- Hermitian


@custom_call(
    *typed("syevd", REAL), *typed("heevd", COMPLEX), *untyped("syevd", kinds=REAL), *untyped("heevd", kinds=COMPLEX)
)
def syevd(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(eigenvectors, eigenvalues ascending, info)"""
    a = operands[-1]
    lower = letter(instr, "uplo") == "L" if is_typed(instr) else bool(operands[0].mid)
    keep = np.tri(a.mid.shape[-1], dtype=bool)
    half = masked(a, keep if lower else keep.T)
    bad = unsure_matrices(half)
    each = [_eigh(ctx, a, matrix, lower) for matrix in matrices(half)]
    found = _gathered(ctx, instr, each, {0: 0} if ctx.rng is None else {0: 0, 1: 1}, bad)
    if ctx.rng is None:
        flipped = None if a.rad is None else np.maximum(np.where(keep if lower else keep.T, a.rad, 0.0), 0.0)
        rad = None if flipped is None else np.maximum(flipped, np.swapaxes(flipped, -1, -2))
        whole = Ball(a.dtype, half.mid, rad, half.und)
        spectrum = _spectrum(whole, lambda x: np.linalg.eigvalsh(x, UPLO="L" if lower else "U"))
        dims = a.mid.shape[:-1]
        found[1] = gathered(ctx, a.dtype.part, dims, spectrum, across(bad, dims, 1))
    return outputs(instr, found | {2: status(output_shape(instr, 2).dims, bad)})


def _eigh(ctx: Context, a: Ball, matrix: Bounded, lower: bool) -> tuple[Array, Array]:
    x = _finite(matrix)
    triangle = np.tril(x) if lower else np.triu(x).conj().T
    x = triangle + np.tril(triangle, -1).conj().T
    if np.iscomplexobj(x):
        x = x - 1j * np.diag(x.diagonal().imag)  # LAPACK does not look at it
    if ctx.rng is not None:
        x = moved_by_norm(ctx, a.dtype, x, hermitian=True)
    values, vectors = np.linalg.eigh(x)
    if ctx.rng is not None:
        vectors = vectors * drawn_signs(ctx, len(values), a.dtype.is_complex)
    return vectors, values


# ---------------------------------------------------------------- singular values


@custom_call(*typed("gesdd"), *typed("gesvd"), *untyped("gesdd"))
def gesdd(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(what is left of A, singular values descending, U, V^H, info)"""
    a = operands[-1]
    bad = unsure_matrices(a)
    dims = (*a.mid.shape[:-2], min(a.mid.shape[-2:]))
    full = (
        output_shape(instr, 2).dims[-1:] == a.mid.shape[-2:-1]
        and output_shape(instr, 3).dims[-2:-1] == a.mid.shape[-1:]
    )
    each = [_svd(ctx, a, matrix, full) for matrix in matrices(a)]
    found = _gathered(ctx, instr, each, {2: 1, 3: 2} if ctx.rng is None else {1: 0, 2: 1, 3: 2}, bad)
    if ctx.rng is None:
        spectrum = _spectrum(a, lambda x: np.asarray(np.linalg.svd(x, compute_uv=False)))
        found[1] = gathered(ctx, a.dtype.part, dims, spectrum, across(bad, dims, 1))
    return outputs(instr, found | {4: status(output_shape(instr, 4).dims, bad)})


def _svd(ctx: Context, a: Ball, matrix: Bounded, full: bool) -> tuple[Array, Array, Array]:
    x = _finite(matrix)
    if ctx.rng is not None:
        x = moved_by_norm(ctx, a.dtype, x)
    u, values, vh = np.linalg.svd(x, full_matrices=full)
    if ctx.rng is not None:
        rank = len(values)
        signs = drawn_signs(ctx, rank, a.dtype.is_complex)
        u[:, :rank] *= signs
        vh[:rank] *= signs.conj()[:, None]
        u[:, rank:] = u[:, rank:] @ _turned(ctx, u.shape[1] - rank, x.dtype)
        vh[rank:] = _turned(ctx, vh.shape[0] - rank, x.dtype) @ vh[rank:]
    return values, u, vh


def _turned(ctx: Context, n: int, dtype: np.dtype[np.generic]) -> Array:
    """A random orthogonal or unitary matrix; the identity in a run without errors."""
    assert ctx.rng is not None
    if ctx.amplitude == 0 or n == 0:
        return np.eye(n, dtype=dtype)
    noise = ctx.rng.normal(size=(n, n))
    if np.issubdtype(dtype, np.complexfloating):
        noise = noise + 1j * ctx.rng.normal(size=(n, n))
    return np.asarray(np.linalg.qr(noise)[0])


# ---------------------------------------------------------------- general matrices


@custom_call(*typed("geev"), *untyped("geev"))
def geev(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """Typed: (eigenvalues, real and imaginary parts apart for a real matrix; left and right eigenvectors, complex;
    info). The old form has work arrays in front, three for real matrices and one for complex ones.
    """
    a = operands[-1]
    bad = unsure_matrices(a)
    each = [_eig(ctx, a, matrix) for matrix in matrices(a)]
    real = not a.dtype.is_complex
    first = 0 if is_typed(instr) else (3 if real else 1)
    if not is_typed(instr) and not real:
        # (A, rwork, w, vl, vr, info)
        first = 2
    values = {first: 0, first + 1: 1} if real else {first: 2}
    after = first + len(values)
    found = _gathered(ctx, instr, each, values | {after: 3, after + 1: 4}, bad)
    return outputs(instr, found | {after + 2: status(output_shape(instr, after + 2).dims, bad)})


def _eig(ctx: Context, a: Ball, matrix: Bounded) -> tuple[Array, Array, Array, Array, Array]:
    """(real parts, imaginary parts, eigenvalues, left vectors, right vectors)

    A vector has norm one, and its largest component real (LAPACK Users' Guide, geev), of either sign.
    """
    x = _finite(matrix)
    if ctx.rng is not None:
        x = moved_by_norm(ctx, a.dtype, x)
    found: tuple[Array, ...] = scipy.linalg.eig(x, left=True, right=True)
    values, left, right = found
    if ctx.rng is not None and ctx.amplitude:
        order = _drawn_order(ctx, values, pairs=not a.dtype.is_complex)
        values, left, right = values[order], left[:, order], right[:, order]
        signs = [_pairwise(drawn_signs(ctx, len(values), False), values, a.dtype.is_complex) for _ in range(2)]
        left, right = left * signs[0], right * signs[1]
    return values.real, values.imag, values, np.asarray(left, np.complex128), np.asarray(right, np.complex128)


def _drawn_order(ctx: Context, values: Array, pairs: bool) -> Array:
    """A random order; the eigenvalues of a real matrix that are conjugate stay together, the one above the axis
    first.
    """
    assert ctx.rng is not None
    group = np.arange(len(values))
    if pairs:
        group = np.cumsum(~(values.imag < 0)) - 1  # geev gives pairs as (a + bi, a - bi)
    key = ctx.rng.permutation(int(group[-1]) + 1)[group] if len(values) else group
    return np.lexsort((np.arange(len(values)), key))


def _pairwise(signs: Array, values: Array, complex_matrix: bool) -> Array:
    """One sign for both vectors of a conjugate pair."""
    if not complex_matrix:
        second = values.imag < 0
        signs = np.where(second, np.roll(signs, 1), signs)
    return signs


# ---------------------------------------------------------------- Schur


@custom_call(*typed("gees"), *untyped("gees"))
def gees(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """Typed: (T, Schur vectors, eigenvalues, as in geev, how many were selected, info). The old form: (T, eigenvalues,
    vectors, selected, info), with a work array before a complex matrix's eigenvalues.
    """
    a = operands[-1]
    bad = unsure_matrices(a)
    each = [_schur(ctx, a, matrix) for matrix in matrices(a)]
    real = not a.dtype.is_complex
    if is_typed(instr):
        wanted = {0: 0, 1: 1} | ({2: 2, 3: 3} if real else {2: 4})
    else:
        wanted = {0: 0, 3: 1} | ({1: 2, 2: 3} if real else {2: 4})
    last = max(wanted)
    found = _gathered(ctx, instr, each, wanted, bad)
    selected = Ball(S32, np.zeros(output_shape(instr, last + 1).dims, np.int32))  # none: jax asks for no order
    info = status(output_shape(instr, last + 2).dims, bad)
    return outputs(instr, found | {last + 1: selected, last + 2: info})


def _schur(ctx: Context, a: Ball, matrix: Bounded) -> tuple[Array, Array, Array, Array, Array]:
    """(T, Schur vectors, real parts, imaginary parts, eigenvalues); the signs and the order of vectors are drawn."""
    x = _finite(matrix)
    if ctx.rng is not None:
        x = moved_by_norm(ctx, a.dtype, x)
    t, z = scipy.linalg.schur(x, output="complex" if a.dtype.is_complex else "real")
    if ctx.rng is not None and ctx.amplitude and x.size:
        t, z = _reordered(ctx, t, z)
        signs = drawn_signs(ctx, len(t), a.dtype.is_complex)
        t, z = signs.conj()[:, None] * t * signs, z * signs
    values = np.asarray(t.diagonal()) if a.dtype.is_complex else _quasi_values(t)
    return t, z, values.real, values.imag, values


def _reordered(ctx: Context, t: Array, z: Array) -> tuple[Array, Array]:
    """A Schur form with its eigenvalues in a random order. Blocks that are too much alike to change places stay."""
    assert ctx.rng is not None
    swap: Any = scipy.linalg.get_lapack_funcs("trexc", (t,))
    for place in range(1, len(t)):
        t, z, _ = swap(t, z, int(ctx.rng.integers(place, len(t) + 1)), place)
    return t, z


def _quasi_values(t: Array) -> Array:
    """The eigenvalues of a real Schur form in the order of its diagonal."""
    values = t.diagonal().astype(np.complex128)
    i = 0
    while i < len(t) - 1:
        if t[i + 1, i] != 0:
            root = np.sqrt(complex(t[i, i + 1]) * t[i + 1, i])
            values[i], values[i + 1] = t[i, i] + 1j * abs(root.imag), t[i, i] - 1j * abs(root.imag)
            i += 1
        i += 1
    return values
