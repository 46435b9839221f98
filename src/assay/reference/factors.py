"""Matrix factorizations in float64 with componentwise error bounds: one matrix at a time, no balls, no policy.

A `Bounded` is a midpoint and a radius for each element. Every function takes `gamma`, the backward error of the
target's algorithm relative to the absolute values that take part, and gives None where the factorization may fail.
Second-order terms are not dropped: a bound |Y| <= f(|Y|) is solved by iteration from its first-order value, and is no
bound at all (None, or infinity) where that does not settle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from assay.hlo.shape import DType
from assay.reference.context import unit_roundoff
from assay.reference.value import Array

_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Bounded:
    mid: Array
    rad: Array

    def transpose(self) -> Bounded:
        return Bounded(self.mid.T, self.rad.T)

    def conjugate(self) -> Bounded:
        return Bounded(self.mid.conj(), self.rad)

    def adjoint(self) -> Bounded:
        return Bounded(self.mid.conj().T, self.rad.T)


def roundoff(dtype: DType) -> float:
    """The unit roundoff of one operation in `dtype`, sqrt(8) times as much for a complex one (Higham, Lemma 3.5);
    doubled for f64, where ours counts too.
    """
    u = unit_roundoff(dtype) * (np.sqrt(8.0) if dtype.is_complex else 1.0)
    return float(2 * u if dtype.part.name == "f64" else u)


def gamma(n: int, dtype: DType, confidence: float) -> float:
    """min(n, confidence sqrt(n)) u: the error of inner products of length n (see `sums`)."""
    return float(min(n, confidence * np.sqrt(n)) * roundoff(dtype))


def settled(first: Array, again: Callable[[Array], Array], told: Array | bool = True) -> Array | None:
    """The smallest Y >= 0 with Y >= again(Y), by iteration from `first`; None where it does not settle in the elements
    `told`.
    """
    y = first
    for _ in range(_ROUNDS):
        new = again(y)
        if not np.isfinite(new).all():
            return None
        if ((new <= y * (1 + 2.0**-20) + 1e-300) | ~np.asarray(told)).all():
            return new * (1 + 2.0**-10)
        y = new
    return None


def half(e: Array) -> Array:
    """The strict upper triangle and half the diagonal."""
    return np.asarray(np.triu(e, 1) + 0.5 * np.diag(e.diagonal()))


def substituted(t: Array, b: Array, lower: bool) -> Array:
    """T^-1 B by substitution; not finite where T is singular. SciPy's own solver takes a thousand times as long on
    small matrices.
    """
    if not b.size:
        return b
    routine: Any = scipy.linalg.get_blas_funcs("trsm", (t, b))
    found: Array = routine(1.0, t, b, lower=int(lower))
    return found


def cholesky(a: Bounded, gamma: float) -> Bounded | int | None:
    """L with A = L L^H, from A's lower triangle; k where the leading minor of order k is the first that is not
    positive, None where that is open.

    |dA| <= gamma |L||L^H| (Higham, Theorem 10.3). With F = L^-1 dA L^-H the factor moves by L Y, Y lower triangular,
    Y + Y^H + Y Y^H = F, so |Y| <= half(|F| + |Y||Y|^T), half taking the lower triangle and half the diagonal (Sun
    1992).
    """
    n = len(a.mid)
    if n == 0:
        return Bounded(a.mid, np.zeros(a.mid.shape))
    potrf: Any = scipy.linalg.get_lapack_funcs("potrf", (a.mid,))
    packed, failed = potrf(a.mid, lower=True, clean=True)
    if failed > 0:
        return failed if _fails_at(a, packed, failed, gamma) else None
    found = _cholesky_rad(a, packed, gamma)
    return None if found is None else Bounded(packed, found)


def _cholesky_rad(a: Bounded, factor: Array, gamma: float) -> Array | None:
    n = len(factor)
    size = np.abs(factor)
    with np.errstate(all="ignore"):
        inverse = np.abs(substituted(factor, np.eye(n), True))
        low = np.tril(a.rad)
        error = gamma * (size @ size.T) + low + np.tril(low, -1).T
        moved = inverse @ error @ inverse.T
        y = settled(half(moved), lambda y: half(moved + y.T @ y))  # the transpose of Y
    if y is None or y.diagonal().max() >= 0.5:
        return None
    return np.asarray(np.tril(size @ y.T))


def _fails_at(a: Bounded, packed: Array, k: int, gamma: float) -> bool:
    """Whether the k-th pivot a_kk - |l_k|^2 is below zero for certain, the minors before it being positive."""
    before = k - 1
    lead = Bounded(a.mid[:before, :before], a.rad[:before, :before])
    factor = np.tril(packed[:before, :before])
    rad = _cholesky_rad(lead, factor, gamma) if before else np.zeros((0, 0))
    if rad is None:
        return False
    row = Bounded(a.mid[before, :before, None].conj(), a.rad[before, :before, None])
    found = solve_triangular(Bounded(factor, rad), row, True, gamma, False) if before else row
    if not np.isfinite(found.rad).all():
        return False
    size, spread = (np.abs(found.mid) ** 2).sum(), ((2 * np.abs(found.mid) + found.rad) * found.rad).sum()
    diagonal = a.mid[before, before].real
    room = a.rad[before, before] + spread + gamma * (np.abs(diagonal) + size + spread)
    return bool(diagonal - size + room < 0)


def solve_triangular(t: Bounded, b: Bounded, lower: bool, gamma: float, by_inversion: bool) -> Bounded:
    """X with T X = B; the radius is infinite where T may be singular.

    Substitution has (T + dT) x = b, |dT| <= gamma |T| (Higham, Theorem 8.5), so |dx| <= |T^-1| (E (|x| + |dx|) + rb)
    with E = gamma |T| + rt. Methods that invert blocks have |T^-1||b| for |x| there (Higham, 14.2).
    """
    n = len(t.mid)
    nowhere = Bounded(np.zeros_like(b.mid), np.full(b.mid.shape, np.inf))
    if n == 0 or b.mid.size == 0:
        return Bounded(b.mid, np.zeros(b.mid.shape))
    if (np.abs(t.mid.diagonal()) <= t.rad.diagonal()).any():
        return nowhere
    finite = np.where(np.isfinite(b.mid), b.mid, 0.0)  # the caller marks the columns with others
    x = substituted(t.mid, finite, lower)
    inverse = np.abs(substituted(t.mid, np.eye(n), lower))
    if not (np.isfinite(inverse).all() and np.isfinite(x).all()):
        return nowhere
    gamma = 3 * gamma if by_inversion else gamma
    error = gamma * np.abs(t.mid) + t.rad
    size = inverse @ np.abs(finite) if by_inversion else np.abs(x)
    first = inverse @ (error @ size + b.rad)
    growth = inverse @ error
    if np.max(growth.sum(1)) >= 0.5:
        bound = _solve_nonnegative(growth, first)
        if bound is None:
            return nowhere
    else:
        bound = np.linalg.solve(np.eye(n) - growth, first)
    return Bounded(x, np.abs(bound) * (1 + 2.0**-20))


def _solve_nonnegative(growth: Array, first: Array) -> Array | None:
    """(I - G)^-1 f for G >= 0 of spectral radius below one, None otherwise. A triangular G has its diagonal as
    spectrum.
    """
    if growth.diagonal().max() >= 0.9:
        return None
    bound = np.linalg.solve(np.eye(len(growth)) - growth, first)
    return bound if np.isfinite(bound).all() and (bound >= 0).all() else None


def lu(a: Bounded, gamma: float) -> tuple[Bounded, Array, int, bool]:
    """(L below U as getrf stores them, pivots from 0, how many pivots are decided, whether none can be zero) with
    partial pivoting.

    |dA| <= gamma |L||U| (Higham, Theorem 9.3). The radius is infinite for what depends on a pivot that is not decided:
    all but the rows of U and columns of L before it.
    """
    m, n = a.mid.shape
    rank = min(m, n)
    if rank == 0:
        return Bounded(a.mid, np.zeros(a.mid.shape)), np.zeros(0, np.int32), 0, True
    packed, pivots = getrf(a.mid)
    order = np.arange(m)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    low = np.tril(packed[:, :rank], -1) + np.eye(m, rank)
    up = np.triu(packed[:rank])
    error = gamma * (np.abs(low) @ np.abs(up)) + a.rad[order]
    rad = np.full((m, n), np.inf)
    zero = up.diagonal() == 0
    steps = int(np.argmax(zero)) if zero.any() else rank
    while steps > 0:
        found = lu_moves(low[:, :steps], up[:steps], error)
        if found is not None:
            sure = _sure_pivots(low[:, :steps], up[:steps, :steps], *found)
            rad[:sure] = np.where(np.tri(m, n, -1, dtype=bool)[:sure], np.inf, found[1][:sure])
            last = m if sure == rank else sure
            inside = np.tri(m, sure, -1, dtype=bool) & (np.arange(m) < last)[:, None]
            rad[:, :sure] = np.where(inside, found[0][:, :sure], rad[:, :sure])
            # Whichever row wins a tie, a matrix that is of full rank for certain has no zero pivot.
            regular = steps == rank and (sure == rank or lu_moves(low, up, 4 * error) is not None)
            return Bounded(packed, rad), pivots, sure, regular
        steps //= 2
    return Bounded(packed, rad), pivots, 0, False


def getrf(a: Array) -> tuple[Array, Array]:
    """LAPACK's own: (L below U, pivots from 0)."""
    routine: Any = scipy.linalg.get_lapack_funcs("getrf", (a,))
    packed, pivots, _ = routine(a)
    return packed, np.asarray(pivots, np.int32)


def lu_moves(low: Array, up: Array, error: Array) -> tuple[Array, Array] | None:
    """How far the factors L (m, k), unit lower trapezoidal, and U (k, n), upper, of k steps without pivoting may move
    where L U + rest moves by `error` (m, n); None where nothing can be said.

    With F = L^-1 dA U^-1, both completed to square matrices by unit vectors, the factors move by L X and Y U, X
    strictly lower and Y upper triangular, (I + X)(I + Y) = I + F, so |F'| <= |F| + |X||Y| bounds both (Higham, 9.11;
    Sun 1992).
    """
    m, k = low.shape
    n = up.shape[1]
    full_low, full_up = np.eye(m, dtype=low.dtype), np.eye(n, dtype=up.dtype)
    full_low[:, :k], full_up[:k] = low, up
    with np.errstate(all="ignore"):
        low_inverse = np.abs(substituted(full_low, np.eye(m), True))
        up_inverse = np.abs(substituted(full_up, np.eye(n), False))
        moved = low_inverse @ error @ up_inverse  # (m, n)
        if not np.isfinite(moved).all():
            return None
        f = settled(moved, lambda f: moved + np.tril(f[:, :k], -1) @ np.triu(f[:k]), _told(m, n, k))
    if f is None or f[:k, :k].diagonal().max() >= 0.5:
        return None
    x = np.zeros((m, m))
    x[:, :k] = np.tril(f[:, :k], -1)
    return (np.abs(full_low) @ x)[:, :k], np.triu(f[:k]) @ np.abs(full_up)


def _told(m: int, n: int, k: int) -> Array:
    """What k steps of elimination work out: the first k rows and columns."""
    told = np.zeros((m, n), bool)
    told[:k] = True
    told[:, :k] = True
    return told


def _sure_pivots(low: Array, up: Array, low_rad: Array, up_rad: Array) -> int:
    """How many pivots have no rival: a row i is none at step k where |l_ik| < 1 for all factors that may be.

    LAPACK takes |re| + |im| for the size of a complex number, so that candidates are compared before they are divided.
    """
    m, k = low.shape
    below = np.tri(m, k, -1, dtype=bool)
    if not np.iscomplexobj(low):
        rival = np.where(below, np.abs(low) + low_rad, 0.0) >= 1
    else:
        pivot, pivot_rad = up.diagonal(), up_rad[: len(up), : len(up)].diagonal()
        candidate = low * pivot
        spread = np.sqrt(2.0) * ((np.abs(low) + low_rad) * pivot_rad + low_rad * np.abs(pivot))
        size = np.abs(candidate.real) + np.abs(candidate.imag) + spread
        best = np.abs(pivot.real) + np.abs(pivot.imag) - np.sqrt(2.0) * pivot_rad
        rival = below & (size >= best)
    open_ = rival.any(0)
    return int(np.argmax(open_)) if open_.any() else low.shape[1]


def solve_general(a: Bounded, b: Bounded, error: Array) -> Bounded:
    """X with A X = B, where A may be off by `error` besides its radius: |dx| <= |A^-1| ((E + ra)(|x| + |dx|) + rb)."""
    n = len(a.mid)
    nowhere = Bounded(np.zeros(b.mid.shape, np.result_type(a.mid, b.mid)), np.full(b.mid.shape, np.inf))
    try:
        x = np.linalg.solve(a.mid, b.mid)
        inverse = np.abs(np.linalg.inv(a.mid))
    except np.linalg.LinAlgError:
        return nowhere
    moved = error + a.rad
    first, growing = inverse @ (moved @ np.abs(x) + b.rad), inverse @ moved
    if not (np.isfinite(first).all() and np.isfinite(growing).all()) or growing.sum(1).max() >= 0.5:
        return nowhere
    bound = np.linalg.solve(np.eye(n) - growing, first)
    return Bounded(x, np.abs(bound) * (1 + 2.0**-20))
