"""`cholesky`, `triangular-solve`, and the LAPACK calls for Cholesky, LU and triangular or tridiagonal systems.

Bounds are backward errors (Higham, "Accuracy and Stability of Numerical Algorithms", chapters 8, 9, 10, 14) carried
forward with componentwise perturbation theory, in `factors`. What a factorization leaves open is undecided: what
depends on a pivot with a rival, a factorization that may fail. Matrices of a batch are worked on one after another.
Sampled runs: see `lapack`.
"""

from __future__ import annotations

import numpy as np

from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.reference import factors
from assay.reference.context import Context, mark
from assay.reference.factors import Bounded
from assay.reference.ops.lapack import (
    S32,
    across,
    draw,
    gathered,
    growth,
    letter,
    masked,
    matrices,
    output_shape,
    outputs,
    status,
    typed,
    unsure_matrices,
    untyped,
)
from assay.reference.registry import custom_call, operation
from assay.reference.rounding import smallest_normal
from assay.reference.value import Array, Ball, Value, union


def _nothing(like: Array) -> Bounded:
    return Bounded(np.zeros_like(like), np.full(like.shape, np.inf))


# ---------------------------------------------------------------- Cholesky


@operation("cholesky")
def cholesky(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return cholesky_of(ctx, a, attributes.flag(instr, "lower"))


def cholesky_of(ctx: Context, a: Ball, lower: bool) -> Ball:
    """The factor of each matrix (.., n, n); undecided in the other triangle, and where it is open whether there is
    one.
    """
    found, info = _cholesky(ctx, a, lower)
    other = ~(np.tri(a.mid.shape[-1], dtype=bool) if lower else np.tri(a.mid.shape[-1], dtype=bool).T)
    # The other triangle is whatever the implementation leaves there.
    und = union(found.und, np.broadcast_to(other, found.mid.shape))
    failed = across((info != 0).reshape(-1), found.mid.shape, 2)
    return Ball(found.dtype, found.mid, found.rad, union(und, failed))


def _cholesky(ctx: Context, a: Ball, lower: bool) -> tuple[Ball, Array]:
    """The factor, with the other triangle as in `a`, and LAPACK's info for each matrix (batch..): 0, the order of the
    first minor that is not positive, or -1 where it is open which.
    """
    n = a.mid.shape[-1]
    keep = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    unsure = unsure_matrices(masked(a, keep))
    info = np.zeros(unsure.shape, np.int32)
    parts = []
    for i, matrix in enumerate(matrices(a)):
        triangle = matrix if lower else matrix.adjoint()
        factor: Bounded | int | None = None
        if not unsure[i]:
            drawn = triangle if ctx.rng is None else Bounded(_moved_definite(ctx, a, triangle.mid), triangle.rad)
            factor = factors.cholesky(drawn, 0.0 if ctx.rng is not None else growth(ctx, a.dtype, n + 1))
        if isinstance(factor, Bounded):
            parts.append(factor if lower else factor.adjoint())
        else:
            info[i] = -1 if factor is None else factor
            parts.append(_nothing(matrix.mid))
    found = gathered(ctx, a.dtype, a.mid.shape, parts, across(info != 0, a.mid.shape, 2))
    und = union(None if found.und is None else found.und & keep, None if a.und is None else a.und & ~keep)
    factor_ball = Ball(a.dtype, np.where(keep, found.mid, a.mid), _where(keep, found.rad, a.rad), und)
    return factor_ball, info.reshape(a.mid.shape[:-2])


def _moved_definite(ctx: Context, a: Ball, mid: Array) -> Array:
    """A within the backward error of a Cholesky factorization: |dA| of some u sqrt(a_ii a_jj) (Higham, 10.1.1)."""
    n = len(mid)
    size = np.sqrt(np.abs(mid.diagonal()))
    noise = draw(ctx, mid)
    moved = np.tril(noise, -1) + np.diag(noise.diagonal().real)
    scale = 2 * factors.roundoff(a.dtype) * (1 + np.sqrt(n) / 2)
    return np.asarray(np.tril(mid) + scale * np.outer(size, size) * moved)


def _info(info: Array) -> Ball:
    open_ = info < 0
    return Ball(S32, np.where(open_, 0, info).astype(np.int32), None, open_ if open_.any() else None)


def _where(keep: Array, inside: Array | None, outside: Array | None) -> Array | None:
    if inside is None and outside is None:
        return None
    return np.where(keep, 0.0 if inside is None else inside, 0.0 if outside is None else outside)


@custom_call(*typed("potrf"))
def potrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    found, info = _cholesky(ctx, a, letter(instr, "uplo") == "L")
    return found, _info(info)


@custom_call(*untyped("potrf"))
def potrf_untyped(ctx: Context, instr: Instruction, lower: Ball, batch: Ball, n: Ball, a: Ball) -> Value:
    found, info = _cholesky(ctx, a, bool(lower.mid))
    return found, _info(info.reshape(output_shape(instr, 1).dims))


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


def inverses(ctx: Context, a: Ball, lower: bool) -> Ball:
    """The inverse of each triangular matrix (.., n, n), zero in the other triangle. Where some of it is not finite, the
    zeros are open too: whoever computes them multiplies by it.
    """
    n = a.mid.shape[-1]
    identity = Ball(a.dtype, np.broadcast_to(np.eye(n, dtype=a.mid.dtype), a.mid.shape))
    found = _solved(ctx, a, identity, left=True, lower=lower, unit=False, transpose="N", by_inversion=True)
    keep = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    rad = None if found.rad is None else np.where(keep, found.rad, 0.0)
    finite = np.isfinite(found.mid) & (True if found.und is None else ~found.und)
    whole = (finite | ~keep).all((-2, -1), keepdims=True)
    clean = masked(Ball(found.dtype, found.mid, rad, found.und), keep)
    return mark(clean, np.broadcast_to(~whole, found.mid.shape))


@custom_call(*typed("trsm"))
def trsm(ctx: Context, instr: Instruction, a: Ball, b: Ball) -> Value:
    return _solved(
        ctx,
        a,
        b,
        left=letter(instr, "side") == "L",
        lower=letter(instr, "uplo") == "L",
        unit=letter(instr, "diag") == "U",
        transpose=letter(instr, "trans_x"),
        by_inversion=False,
    )


@custom_call(*untyped("trsm", "blas"))
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
    failed = unsure_matrices(masked(a, keep))
    gamma = growth(ctx, b.dtype, n + 3)
    parts, wild = [], []
    for t, rhs, bad in zip(matrices(a), matrices(b), failed, strict=True):
        t = Bounded(np.where(keep, t.mid, 0.0), np.where(keep, t.rad, 0.0))
        if unit:
            t = Bounded(t.mid + np.eye(n), t.rad)
        flipped = transpose != "N"
        if transpose == "C":
            t = t.conjugate()
        if not left:  # X op(T) = B is op(T)^T X^T = B^T
            flipped, rhs = not flipped, rhs.transpose()
        t = t.transpose() if flipped else t
        if bad and _all_nan(t, rhs) and not (a.und is not None and a.und.any()):
            found = Bounded(np.full_like(rhs.mid, np.nan), np.zeros(rhs.mid.shape))
        elif bad:
            found = _nothing(rhs.mid)
        elif ctx.rng is not None:
            found = _drawn_solution(ctx, b, t, rhs, lower != flipped)
        else:
            found = factors.solve_triangular(t, rhs, lower != flipped, gamma, by_inversion)
        parts.append(found if left else found.transpose())
        wild.append(_wild(t.mid, rhs.mid, found.mid, smallest_normal(b.dtype)))
    found_ball = gathered(ctx, b.dtype, b.mid.shape, parts, None)
    beyond = np.reshape(np.asarray(wild, bool), (*b.mid.shape[:-2], 1, 1)) & ~np.isnan(found_ball.mid)
    found_ball = mark(found_ball, beyond)
    # An element of B reaches its whole column of X at most (its row, where A stands on the right).
    bad_b = ~np.isfinite(b.mid) if b.und is None else b.und | ~np.isfinite(b.mid)
    reached = np.broadcast_to(bad_b.any(-2 if left else -1, keepdims=True), b.mid.shape)
    return mark(found_ball, reached & ~np.isnan(found_ball.mid))


def _wild(t: Array, rhs: Array, found: Array, smallest: float) -> bool:
    """Whether inverses or products on the way may overflow or vanish, whatever becomes of the solution."""
    size = 1 / np.sqrt(smallest)
    if not (t.size and rhs.size and np.isfinite(t).all()):
        return False
    largest = max(float(np.abs(x).max()) for x in (t, rhs[np.isfinite(rhs)], found[np.isfinite(found)]) if x.size)
    diagonal = np.abs(t.diagonal())
    return largest > size or bool((diagonal[diagonal != 0] < 1 / size).any())


def _all_nan(t: Bounded, rhs: Bounded) -> bool:
    """Whether every division is by NaN, as after a Cholesky factorization that failed; a zero may be passed over."""
    return bool(t.mid.size and np.isnan(t.mid.diagonal()).all() and (rhs.mid != 0).all())


def _drawn_solution(ctx: Context, b: Ball, t: Bounded, rhs: Bounded, lower: bool) -> Bounded:
    """Each column has a system of its own, (T + dT_j) x_j = b_j with |dT_j| some u |T|: to first order that is a
    residual of u |T||x| with independent signs.
    """
    exact = factors.solve_triangular(t, rhs, lower, 0.0, False)
    if not np.isfinite(exact.rad).all():
        return exact
    n = len(t.mid)
    size = 2 * factors.roundoff(b.dtype) * (1 + np.sqrt(n) / 2) * (np.abs(t.mid) @ np.abs(exact.mid))
    rest = factors.solve_triangular(t, Bounded(size * draw(ctx, exact.mid), np.zeros(size.shape)), lower, 0.0, False)
    return Bounded(exact.mid + rest.mid, np.zeros(size.shape))


# ---------------------------------------------------------------- LU


@custom_call(*typed("getrf"))
def getrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(LU, pivots from 1, info)"""
    *lead, m, n = a.mid.shape
    rank = min(m, n)
    unsure = unsure_matrices(a)
    parts, pivots, decided, regular = [], [], [], []
    for matrix, bad in zip(matrices(a), unsure, strict=True):
        if bad:
            found = _nothing(matrix.mid), np.zeros(rank, np.int32), 0, False
        elif ctx.rng is not None:
            packed, order = (
                factors.getrf(_moved_lu(ctx, a, matrix.mid)) if rank else (matrix.mid, np.zeros(0, np.int32))
            )
            found = Bounded(packed, np.zeros(packed.shape)), order, rank, True
        else:
            found = factors.lu(matrix, growth(ctx, a.dtype, rank))
        parts.append(found[0])
        pivots.append(found[1])
        decided.append(found[2])
        regular.append(found[3])
    order = np.reshape(np.asarray(pivots, np.int32), (*lead, rank)) + np.int32(1)
    open_ = np.arange(rank) >= np.reshape(np.asarray(decided, np.int64), (*lead, 1))
    return outputs(
        instr,
        {
            0: gathered(ctx, a.dtype, a.mid.shape, parts, None),
            1: Ball(S32, order.astype(np.int32), None, open_ if open_.any() else None),
            2: status(tuple(lead), ~np.asarray(regular, bool)),
        },
    )


def _moved_lu(ctx: Context, a: Ball, mid: Array) -> Array:
    """A within the backward error of Gaussian elimination: |dA| of some u |L||U| (Higham, Theorem 9.3)."""
    packed, pivots = factors.getrf(mid)
    m, n = mid.shape
    rank = min(m, n)
    order = np.arange(m)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    size = np.empty((m, n))
    size[order] = np.abs(np.tril(packed[:, :rank], -1) + np.eye(m, rank)) @ np.abs(np.triu(packed[:rank]))
    return np.asarray(mid + 2 * factors.roundoff(a.dtype) * (1 + np.sqrt(rank) / 2) * size * draw(ctx, mid))


@custom_call(*untyped("getrf"))
def getrf_untyped(ctx: Context, instr: Instruction, batch: Ball, m: Ball, n: Ball, a: Ball) -> Value:
    return getrf(ctx, instr, a)


# ---------------------------------------------------------------- tridiagonal systems

_LARGEST = 2048


@custom_call(*typed("gtsv"))
def gtsv(ctx: Context, instr: Instruction, below: Ball, diagonal: Ball, above: Ball, b: Ball) -> Value:
    """(what is left of the diagonals, X, info) with T X = B, T of the diagonals below (from its second element on), on
    and above (but for its last).

    Gaussian elimination with row exchanges: |dT| <= gamma |L||U|, no element of which is above 4 max|t_ij| (Higham,
    9.6 and 9.3); here a row of it is taken to be as large as the rows that it is made of.
    """
    n, dtype = b.mid.shape[-2], b.dtype
    lead = b.mid.shape[:-2]
    flat = [np.broadcast_to(x.mid, (*lead, n)).reshape(-1, n) for x in (below, diagonal, above)]
    rads = [
        np.zeros(f.shape) if x.rad is None else x.rad.reshape(f.shape)
        for f, x in zip(flat, (below, diagonal, above), strict=True)
    ]
    bad = unsure_matrices(
        *(
            Ball(x.dtype, x.mid[..., None], None, None if x.und is None else x.und[..., None])
            for x in (below, diagonal, above)
        ),
        b,
    )
    parts = []
    for i, rhs in enumerate(matrices(b)):
        matrix = Bounded(_tridiagonal(*(f[i] for f in flat)), _tridiagonal(*(r[i] for r in rads)).real)
        parts.append(_nothing(rhs.mid) if bad[i] or n > _LARGEST else _tridiagonal_solution(ctx, b, matrix, rhs))
    failed = np.asarray([not np.isfinite(part.rad).all() for part in parts], bool)
    return outputs(
        instr, {3: gathered(ctx, dtype, b.mid.shape, parts, None), 4: status(output_shape(instr, 4).dims, failed)}
    )


def _tridiagonal(below: Array, diagonal: Array, above: Array) -> Array:
    return np.asarray(np.diag(below[1:], -1) + np.diag(diagonal) + np.diag(above[:-1], 1))


def _tridiagonal_solution(ctx: Context, b: Ball, matrix: Bounded, rhs: Bounded) -> Bounded:
    """|L||U| of a row takes part of its own and of its neighbours' elements, at most two sums of two of them each."""
    size = np.abs(matrix.mid)
    rows = size.max(1, initial=0.0)
    wide = np.maximum(rows, np.maximum(np.append(rows[1:], 0.0), np.append(0.0, rows[:-1])))
    band = np.tri(len(size), k=2, dtype=bool) & np.tri(len(size), k=2, dtype=bool).T
    error = 8 * factors.roundoff(b.dtype) * wide[:, None] * band
    if ctx.rng is None:
        return factors.solve_general(matrix, rhs, error)
    moved = matrix.mid + error / 4 * draw(ctx, matrix.mid)
    return factors.solve_general(Bounded(moved, np.zeros(moved.shape)), rhs, np.zeros(moved.shape))
