"""Matrix factorizations in float64 with componentwise error bounds: one matrix at a time, no balls, no policy.

A `Bounded` is a midpoint and a radius for each element. Every function takes `gamma`, the backward error of the
target's algorithm relative to the absolute values that take part, and gives None where the factorization may fail.
Second-order terms are not dropped: a bound |Y| <= f(|Y|) is solved by iteration from its first-order value, and is no
bound at all (None, or infinity) where that does not settle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from assay.hlo.shape import DType
from assay.reference.context import unit_roundoff
from assay.reference.value import Array

_ROUNDS = 30
_TRIALS = 6
_SAFETY = 16.0


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
    """The unit roundoff of one operation in `dtype`, a complex one counting for four; doubled for f64, where ours
    counts too.
    """
    u = unit_roundoff(dtype) * (4.0 if dtype.is_complex else 1.0)
    return 2 * u if dtype.part.name == "f64" else u


def gamma(n: int, dtype: DType, confidence: float) -> float:
    """min(n, confidence sqrt(n)) u: the error of inner products of length n (see `sums`)."""
    return float(min(n, confidence * np.sqrt(n)) * roundoff(dtype))


def _settled(first: Array, again: object) -> Array | None:
    """The smallest Y >= 0 with Y >= again(Y), by iteration from `first`; None where it does not settle."""
    assert callable(again)
    y = first
    for _ in range(_ROUNDS):
        new: Array = again(y)
        if not np.isfinite(new).all():
            return None
        if (new <= y * (1 + 2.0**-20) + 1e-300).all():
            return new * (1 + 2.0**-10)
        y = new
    return None


def cholesky(a: Bounded, gamma: float) -> Bounded | None:
    """L with A = L L^H, from A's lower triangle; None where A may not be positive definite.

    |dA| <= gamma |L||L^H| (Higham, Theorem 10.3). With F = L^-1 dA L^-H the factor moves by L Y, Y lower triangular,
    Y + Y^H + Y Y^H = F, so |Y| <= half(|F| + |Y||Y|^T), half taking the lower triangle and half the diagonal (Sun
    1992).
    """
    try:
        factor = np.linalg.cholesky(a.mid)
    except np.linalg.LinAlgError:
        return None
    n = len(factor)
    if n == 0:
        return Bounded(factor, np.zeros(factor.shape))
    size = np.abs(factor)
    inverse = np.abs(scipy.linalg.solve_triangular(factor, np.eye(n), lower=True))
    low = np.tril(a.rad)
    error = gamma * (size @ size.T) + low + np.tril(low, -1).T
    half = np.tri(n) - 0.5 * np.eye(n)
    moved = inverse @ error @ inverse.T
    y = _settled(half * moved, lambda y: half * (moved + y @ y.T))
    if y is None or y.diagonal().max() >= 0.5:
        return None
    return Bounded(factor, np.tril(size @ y))


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
    x = scipy.linalg.solve_triangular(t.mid, finite, lower=lower)
    inverse = np.abs(scipy.linalg.solve_triangular(t.mid, np.eye(n), lower=lower))
    if not (np.isfinite(inverse).all() and np.isfinite(x).all()):
        return nowhere
    gamma = 3 * gamma if by_inversion else gamma
    error = gamma * np.abs(t.mid) + t.rad
    size = inverse @ np.abs(finite) if by_inversion else np.abs(x)
    first = inverse @ (error @ size + b.rad)
    growth = inverse @ error
    if growth.sum(1).max() >= 0.5:
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


def lu(a: Bounded, gamma: float) -> tuple[Bounded, Array] | None:
    """(L below U as getrf stores them, pivots from 0) with partial pivoting; None where a pivot may be zero or has a
    rival.

    |dA| <= gamma |L||U| (Higham, Theorem 9.3). With F = L^-1 dA U^-1 the factors move by L X and Y U, X strictly lower
    and Y upper triangular, (I + X)(I + Y) = I + F. A row i is no rival at step k if |l_ik| < 1 for all factors that
    may be.
    """
    m, n = a.mid.shape
    rank = min(m, n)
    if rank == 0:
        return Bounded(a.mid, np.zeros(a.mid.shape)), np.zeros(0, np.int32)
    packed, pivots = scipy.linalg.lu_factor(a.mid, check_finite=False) if m == n else _lu_rectangular(a.mid)
    order = np.arange(m)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    low = np.tril(packed[:, :rank], -1) + np.eye(m, rank)
    up = np.triu(packed[:rank])
    if (up.diagonal() == 0).any():
        return None
    error = gamma * (np.abs(low) @ np.abs(up)) + a.rad[order]
    # Extend both factors to square ones by unit columns and rows, which move nothing.
    full_low = np.eye(m, dtype=low.dtype)
    full_low[:, :rank] = low
    full_up = np.eye(n, dtype=up.dtype)
    full_up[:rank] = up
    low_inverse = np.abs(scipy.linalg.solve_triangular(full_low, np.eye(m), lower=True))
    up_inverse = np.abs(scipy.linalg.solve_triangular(full_up, np.eye(n)))
    if not (np.isfinite(low_inverse).all() and np.isfinite(up_inverse).all()):
        return None
    moved = low_inverse @ error @ up_inverse  # (m, n)

    def again(f: Array) -> Array:
        more: Array = moved + np.tril(f[:, :rank], -1) @ np.triu(f[:rank])
        return more

    f = _settled(moved, again)
    if f is None or f[:rank, :rank].diagonal().max() >= 0.5:
        return None
    low_rad = np.abs(full_low)[:, :] @ np.pad(np.tril(f[:, :rank], -1), ((0, 0), (0, m - rank)))[:, :rank]
    up_rad = np.pad(np.triu(f[:rank]), ((0, 0), (0, 0))) @ np.abs(full_up)
    below = np.tril(np.abs(low), -1) + np.tril(low_rad, -1)
    if (below >= 1).any():
        return None
    rad = np.zeros((m, n))
    rad[:, :rank] += np.tril(low_rad, -1)
    rad[:rank] += np.triu(up_rad)
    return Bounded(packed, rad), np.asarray(pivots, np.int32)


def _lu_rectangular(a: Array) -> tuple[Array, Array]:
    getrf: Any = scipy.linalg.get_lapack_funcs("getrf", (a,))
    packed, pivots, _ = getrf(a)
    return packed, pivots


# ---------------------------------------------------------------- Householder


def householder(a: Bounded, gamma: float) -> tuple[Bounded, Bounded] | None:
    """(V below R as geqrf stores them, tau); None where the sign of a diagonal element of R may change.

    No componentwise theory is at hand: the radius is 16 times the largest move in six trials with A perturbed by its
    backward error, gamma times a column's norm (Higham, Theorem 19.4), and by its radius. An estimate, not a proof.
    """
    m, n = a.mid.shape
    if min(m, n) == 0:
        return Bounded(a.mid, np.zeros(a.mid.shape)), Bounded(np.zeros(0), np.zeros(0))
    packed, tau = _geqrf(a.mid)
    columns = gamma * np.sqrt((np.abs(a.mid) ** 2).sum(0, keepdims=True)) / np.sqrt(m)
    rng = np.random.default_rng(0)
    rad = np.zeros((m, n))
    tau_rad = np.zeros(len(tau))
    for _ in range(_TRIALS):
        other, other_tau = _geqrf(a.mid + (columns + a.rad) * rng.choice([-1.0, 1.0], (m, n)))
        rad = np.maximum(rad, np.abs(other - packed))
        tau_rad = np.maximum(tau_rad, np.abs(other_tau - tau))
    rad, tau_rad = _SAFETY * rad, _SAFETY * tau_rad
    diagonal = np.abs(packed.diagonal())
    steps = min(m - 1, n)
    if (rad.diagonal()[:steps] >= diagonal[:steps]).any() or (tau_rad[:steps] >= 0.25).any():
        return None
    return Bounded(packed, rad), Bounded(tau, tau_rad)


def _geqrf(a: Array) -> tuple[Array, Array]:
    geqrf: Any = scipy.linalg.get_lapack_funcs("geqrf", (a,))
    packed, tau, *_ = geqrf(a)
    return packed, tau


def reflected(a: Bounded, tau: Bounded, gamma: float) -> Bounded:
    """The first columns of H_1 .. H_k, H_i = I - tau_i v_i v_i^H, v_i below the diagonal of a, whose own is one.

    A product of reflections is off by gamma a column (Higham, Lemma 19.3), and by what v_i and tau_i may move: dH_i
    has norm at most dtau |v|^2 + 2 |tau| |v| |dv|, reflections themselves have norm one.
    """
    m, n = a.mid.shape
    q = np.eye(m, n, dtype=a.mid.dtype)
    moved = 0.0
    for i in reversed(range(len(tau.mid))):
        v = np.concatenate([np.zeros(i), [1.0], a.mid[i + 1 :, i]])
        dv = np.sqrt((a.rad[i + 1 :, i] ** 2).sum())
        norm = np.sqrt((np.abs(v) ** 2).sum())
        q -= tau.mid[i] * np.outer(v, v.conj() @ q)
        moved += tau.rad[i] * (norm + dv) ** 2 + np.abs(tau.mid[i]) * (2 * norm + dv) * dv
    return Bounded(q, np.full((m, n), np.expm1(moved) * (1 + gamma) + gamma))
