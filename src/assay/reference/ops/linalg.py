"""`cholesky`, `triangular-solve`, and the LAPACK custom calls of jaxlib's CPU backend.

Bounds are backward errors (Higham, "Accuracy and Stability of Numerical Algorithms", chapters 8, 9, 10, 19) carried
forward with componentwise perturbation theory, in `factors`. What a factorization leaves open is undecided:
eigenvectors and singular vectors (sign, rotation), a pivot with a rival, a factorization that may fail.
Matrices of a batch are worked on one after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, DType, TupleShape
from assay.reference import factors
from assay.reference.context import Context
from assay.reference.factors import Bounded
from assay.reference.registry import custom_call, operation
from assay.reference.value import Array, Ball, Value, union

S32 = DTYPES["s32"]


# ---------------------------------------------------------------- attributes of the calls


def _options(instr: Instruction) -> dict[str, int]:
    """`backend_config={uplo = 76 : ui8}` -> {"uplo": 76}: the options of a typed FFI call."""
    text = instr.attributes.get("backend_config", "")
    return {key: int(value) for key, value in re.findall(r"(\w+)\s*=\s*(\d+)\s*:", text)}


def _option(instr: Instruction, key: str) -> str:
    """An option that is a letter, as LAPACK takes it."""
    options = _options(instr)
    if key not in options:
        raise Unsupported(instr.attributes.get("custom_call_target", instr.opcode), f"without the option {key}")
    return chr(options[key])


def _typed(routine: str) -> tuple[str, ...]:
    return tuple(f"lapack_{kind}{routine}_ffi" for kind in "sdcz")


def _untyped(routine: str, prefix: str = "lapack") -> tuple[str, ...]:
    """The names of jaxlib before 0.4.32, which pass sizes and options as operands."""
    return tuple(f"{prefix}_{kind}{routine}" for kind in "sdcz")


# ---------------------------------------------------------------- batches


def _matrices(x: Ball) -> list[Bounded]:
    """The matrices of a batch, with their radii. (.., m, n) -> list of (m, n)"""
    m, n = x.mid.shape[-2:]
    mids = x.mid.reshape(-1, m, n)
    rads = np.broadcast_to(0.0, mids.shape) if x.rad is None else x.rad.reshape(-1, m, n)
    return [Bounded(mid, rad) for mid, rad in zip(mids, rads, strict=True)]


def _unsure_matrices(*operands: Ball) -> Array:
    """Which matrices of a batch have an undecided or not finite element. (batch,)"""
    found: Array | None = None
    for x in operands:
        bad = ~np.isfinite(x.mid)
        bad = bad if x.und is None else bad | x.und
        found = union(found, np.asarray(bad.reshape(-1, x.mid.shape[-2] * x.mid.shape[-1]).any(1)))
    assert found is not None
    return found


def _gathered(ctx: Context, dtype: DType, dims: Sequence[int], parts: Sequence[Bounded], und: Array | None) -> Ball:
    """A ball of `dims` from the matrices or vectors of a batch; a radius that is not finite means undecided."""
    if not parts:
        return Ball(dtype, np.zeros(dims, np.complex128 if dtype.is_complex else np.float64))
    mid = np.stack([part.mid for part in parts]).reshape(dims)
    rad = np.stack([np.broadcast_to(part.rad, part.mid.shape) for part in parts]).reshape(dims)
    lost = ~np.isfinite(rad) | ~np.isfinite(mid)
    mid, rad = np.where(lost, 0.0, mid), np.where(lost, 0.0, rad)
    und = union(und, lost) if lost.any() else und
    return ctx.rounded(dtype, mid, None, und, error=rad)


def _status(dims: tuple[int, ...], und: Array) -> Ball:
    """LAPACK's info: 0 where all went well, undecided where it may not have."""
    return Ball(S32, np.zeros(dims, np.int32), None, und.reshape(dims) if und.any() else None)


def _across(flags: Array, dims: Sequence[int], trailing: int) -> Array | None:
    """One flag a matrix -> one an element, where any is set."""
    if not flags.any():
        return None
    lead = dims[: len(dims) - trailing]
    return np.broadcast_to(flags.reshape(*lead, *(1,) * trailing), dims)


def _gamma(ctx: Context, dtype: DType, n: int) -> float:
    """The backward error of n operations, relative to the absolute values that take part, a complex one counting for
    four.
    """
    return factors.gamma(n, dtype, ctx.policy.confidence)


# ---------------------------------------------------------------- Cholesky


@operation("cholesky")
def cholesky(ctx: Context, instr: Instruction, a: Ball) -> Value:
    lower = attributes.flag(instr, "lower")
    found, failed = _cholesky(ctx, a, lower)
    other = ~(np.tri(a.mid.shape[-1], dtype=bool) if lower else np.tri(a.mid.shape[-1], dtype=bool).T)
    # The other triangle is whatever the implementation leaves there.
    und = union(found.und, np.broadcast_to(other, found.mid.shape), _across(failed, found.mid.shape, 2))
    return Ball(found.dtype, found.mid, found.rad, und)


def _cholesky(ctx: Context, a: Ball, lower: bool) -> tuple[Ball, Array]:
    """The factor, with the other triangle as in `a`, and which matrices may not be positive definite."""
    n = a.mid.shape[-1]
    keep = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    failed = _unsure_matrices(_masked(a, keep))
    parts = []
    for i, matrix in enumerate(_matrices(a)):
        triangle = matrix if lower else matrix.adjoint()
        factor = None if failed[i] else factors.cholesky(triangle, _gamma(ctx, a.dtype, n + 1))
        if factor is None:
            failed[i] = True
            parts.append(Bounded(np.zeros_like(matrix.mid), np.zeros(matrix.mid.shape)))
        else:
            parts.append(factor if lower else factor.adjoint())
    found = _gathered(ctx, a.dtype, a.mid.shape, parts, _across(failed, a.mid.shape, 2))
    und = union(None if found.und is None else found.und & keep, None if a.und is None else a.und & ~keep)
    return Ball(a.dtype, np.where(keep, found.mid, a.mid), _where(keep, found.rad, a.rad), und), failed


def _masked(x: Ball, keep: Array) -> Ball:
    return Ball(x.dtype, np.where(keep, x.mid, 0.0), None, None if x.und is None else x.und & keep)


def _where(keep: Array, inside: Array | None, outside: Array | None) -> Array | None:
    if inside is None and outside is None:
        return None
    return np.where(keep, 0.0 if inside is None else inside, 0.0 if outside is None else outside)


@custom_call(*_typed("potrf"))
def potrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    found, failed = _cholesky(ctx, a, _option(instr, "uplo") == "L")
    return found, _status(a.mid.shape[:-2], failed)


@custom_call(*_untyped("potrf"))
def potrf_untyped(ctx: Context, instr: Instruction, lower: Ball, batch: Ball, n: Ball, a: Ball) -> Value:
    found, failed = _cholesky(ctx, a, bool(lower.mid))
    return found, _status(_info_dims(instr, 1), failed)


def _info_dims(instr: Instruction, index: int) -> tuple[int, ...]:
    assert isinstance(instr.shape, TupleShape)
    dims: tuple[int, ...] = instr.shape.elements[index].dims  # type: ignore[union-attr]
    return dims


# ---------------------------------------------------------------- triangular systems


@operation("triangular-solve")
def triangular_solve(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    """Any stable method, inversion of diagonal blocks included (triangular_solve_expander.cc)."""
    transpose = attributes.word(instr, "transpose_a", "NO_TRANSPOSE")
    return _solved(
        ctx,
        a,
        b,
        left=attributes.flag(instr, "left_side"),
        lower=attributes.flag(instr, "lower"),
        unit=attributes.flag(instr, "unit_diagonal"),
        transpose={"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[transpose],
        by_inversion=True,
    )


@custom_call(*_typed("trsm"))
def trsm(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return _solved(
        ctx,
        a,
        b,
        left=_option(instr, "side") == "L",
        lower=_option(instr, "uplo") == "L",
        unit=_option(instr, "diag") == "U",
        transpose=_option(instr, "trans_x"),
        by_inversion=False,
    )


@custom_call(*_untyped("trsm", "blas"))
def trsm_untyped(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    left, lower, trans, diag, *_, a, b = operands
    return _solved(
        ctx,
        a,
        b,
        left=bool(left.mid),
        lower=bool(lower.mid),
        unit=bool(diag.mid),
        transpose="NTC"[int(trans.mid)],
        by_inversion=False,
    )


def _solved(
    ctx: Context, a: Ball, b: Ball, *, left: bool, lower: bool, unit: bool, transpose: str, by_inversion: bool
) -> Ball:
    """X with op(A) X = B, or X op(A) = B."""
    n = a.mid.shape[-1]
    keep = np.tri(n, k=-1 if unit else 0, dtype=bool)
    keep = keep if lower else keep.T
    failed = _unsure_matrices(_masked(a, keep))
    gamma = _gamma(ctx, b.dtype, n + 3)
    parts = []
    for t, rhs, bad in zip(_matrices(a), _matrices(b), failed, strict=True):
        t = Bounded(np.where(keep, t.mid, 0.0), np.where(keep, t.rad, 0.0))
        if unit:
            t = Bounded(t.mid + np.eye(n), t.rad)
        flipped = transpose != "N"
        if transpose == "C":
            t = t.conjugate()
        if not left:  # X op(T) = B is op(T)^T X^T = B^T
            flipped, rhs = not flipped, rhs.transpose()
        t = t.transpose() if flipped else t
        if bad:
            found = Bounded(np.zeros_like(rhs.mid), np.full(rhs.mid.shape, np.inf))
        else:
            found = factors.solve_triangular(t, rhs, lower != flipped, gamma, by_inversion)
        parts.append(found if left else found.transpose())
    # An element of B reaches its whole column of X at most (its row, where A stands on the right).
    bad_b = ~np.isfinite(b.mid) if b.und is None else b.und | ~np.isfinite(b.mid)
    und = np.broadcast_to(bad_b.any(-2 if left else -1, keepdims=True), b.mid.shape) if bad_b.any() else None
    return _gathered(ctx, b.dtype, b.mid.shape, parts, und)


# ---------------------------------------------------------------- LU, QR


@custom_call(*_typed("getrf"))
def getrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(LU, pivots from 1, info)"""
    *lead, m, n = a.mid.shape
    rank = min(m, n)
    failed = _unsure_matrices(a)
    parts, pivots = [], []
    for i, matrix in enumerate(_matrices(a)):
        found = None if failed[i] else factors.lu(matrix, _gamma(ctx, a.dtype, rank))
        failed[i] = found is None
        if found is None:
            found = Bounded(np.zeros_like(matrix.mid), np.zeros(matrix.mid.shape)), np.zeros(rank, np.int32)
        parts.append(found[0])
        pivots.append(found[1])
    order = np.reshape(np.asarray(pivots, np.int32), (*lead, rank)) + np.int32(1)
    return (
        _gathered(ctx, a.dtype, a.mid.shape, parts, _across(failed, a.mid.shape, 2)),
        Ball(S32, order.astype(np.int32), None, _across(failed, order.shape, 1)),
        _status(tuple(lead), failed),
    )


@custom_call(*_untyped("getrf"))
def getrf_untyped(ctx: Context, instr: Instruction, batch: Ball, m: Ball, n: Ball, a: Ball) -> Value:
    return getrf(ctx, instr, a)


@custom_call(*_typed("geqrf"))
def geqrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(Householder vectors below R, tau)"""
    *lead, m, n = a.mid.shape
    failed = _unsure_matrices(a)
    parts, taus = [], []
    for i, matrix in enumerate(_matrices(a)):
        found = None if failed[i] else factors.householder(matrix, _gamma(ctx, a.dtype, 4 * m))
        failed[i] = found is None
        if found is None:
            zero = np.zeros(min(m, n), matrix.mid.dtype)
            found = Bounded(np.zeros_like(matrix.mid), np.zeros(matrix.mid.shape)), Bounded(zero, np.zeros(len(zero)))
        parts.append(found[0])
        taus.append(found[1])
    dims = (*lead, min(m, n))
    return (
        _gathered(ctx, a.dtype, a.mid.shape, parts, _across(failed, a.mid.shape, 2)),
        _gathered(ctx, a.dtype, dims, taus, _across(failed, dims, 1)),
    )


@custom_call(*_typed("orgqr"), *_typed("ungqr"))
def orgqr(ctx: Context, instr: Instruction, a: Ball, tau: Ball) -> Value:
    """The product of the Householder reflections that geqrf left below the diagonal."""
    failed = _unsure_matrices(
        a, Ball(tau.dtype, tau.mid[..., None], None, None if tau.und is None else tau.und[..., None])
    )
    columns = tau.mid.reshape(-1, tau.mid.shape[-1])
    rads = np.zeros(columns.shape) if tau.rad is None else tau.rad.reshape(columns.shape)
    parts = [
        factors.reflected(matrix, Bounded(t, r), _gamma(ctx, a.dtype, 4 * a.mid.shape[-2]))
        for matrix, t, r in zip(_matrices(a), columns, rads, strict=True)
    ]
    return _gathered(ctx, a.dtype, a.mid.shape, parts, _across(failed, a.mid.shape, 2))


# ---------------------------------------------------------------- spectra


def _spectrum(ctx: Context, instr: Instruction, a: Ball, values: Callable[[Array], Array]) -> list[Bounded]:
    """Eigenvalues of Hermitian matrices or singular values, each off by at most the norm of the error (Weyl).

    LAPACK's error is p(n) u ||A||_2 with p a low polynomial; 4 (m + n) holds with room in practice (LAPACK Users'
    Guide, 4.7, 4.9).
    """
    *_, m, n = a.mid.shape
    growth = 4 * (m + n) * factors.roundoff(a.dtype)
    found = []
    for matrix in _matrices(a):
        if not np.isfinite(matrix.mid).all():
            found.append(Bounded(np.zeros(min(m, n)), np.full(min(m, n), np.inf)))
            continue
        spectrum = values(matrix.mid)
        norm = np.abs(spectrum).max(initial=0.0)
        spread = np.sqrt((matrix.rad**2).sum())
        found.append(Bounded(spectrum, np.full(spectrum.shape, growth * (norm + spread) + spread)))
    return found


def _undecided_output(instr: Instruction, index: int) -> Ball:
    """An output that the reference cannot tell, such as eigenvectors: every element undecided."""
    assert isinstance(instr.shape, TupleShape)
    shape = instr.shape.elements[index]
    dims: tuple[int, ...] = shape.dims  # type: ignore[union-attr]
    dtype: DType = shape.dtype  # type: ignore[union-attr]
    return Ball(dtype, np.zeros(dims, np.complex128 if dtype.is_complex else np.float64), None, np.ones(dims, bool))


@custom_call(*_typed("syevd"), *_typed("heevd"))
def syevd(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(eigenvectors, eigenvalues ascending, info)"""
    lower = _option(instr, "uplo") == "L"
    keep = np.tri(a.mid.shape[-1], dtype=bool)
    half = _masked(a, keep if lower else keep.T)
    mirrored = Ball(
        a.dtype, half.mid, None if a.rad is None else np.maximum(a.rad, np.swapaxes(a.rad, -1, -2)), half.und
    )
    failed = _unsure_matrices(half)
    spectrum = _spectrum(ctx, instr, mirrored, lambda x: np.linalg.eigvalsh(x, UPLO="L" if lower else "U"))
    dims = a.mid.shape[:-1]
    values = _gathered(ctx, a.dtype.part, dims, spectrum, _across(failed, dims, 1))
    return _undecided_output(instr, 0), values, _status(a.mid.shape[:-2], failed)


@custom_call(*_typed("gesdd"), *_typed("gesvd"))
def gesdd(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(what is left of A, singular values descending, U, V^H, info)"""
    failed = _unsure_matrices(a)
    spectrum = _spectrum(ctx, instr, a, lambda x: np.asarray(np.linalg.svd(x, compute_uv=False)))
    dims = (*a.mid.shape[:-2], min(a.mid.shape[-2:]))
    values = _gathered(ctx, a.dtype.part, dims, spectrum, _across(failed, dims, 1))
    vectors = _undecided_output(instr, 2), _undecided_output(instr, 3)
    return _undecided_output(instr, 0), values, *vectors, _status(a.mid.shape[:-2], failed)
