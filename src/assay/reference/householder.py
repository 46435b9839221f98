"""QR factorizations by Householder reflections, with proved bounds: one matrix at a time, no balls, no policy.

The computed R is that of A + dA with an exactly unitary Q, whose reflections are those of the computed vectors up to
their own rounding; a column of dA is at most gamma times the column of A in norm (Higham, Theorem 19.4). From there:

- R and Q. With G = dA R^-1, A + dA = (Q + G) R; the Cholesky factor I + Y of (Q + G)^H (Q + G) = I + E gives R + dR =
  (I + Y) R and Q + dQ = (Q + G)(I + Y)^-1, and |Y| <= half(|E| + |Y|^T |Y|) (Sun 1992; Chang and Stehle 2010).
- the reflections. H_1 .. H_k = I - V T V^H, so that the first k columns of Q - I are V U with V unit lower trapezoidal
  and U = -T V_1^H upper triangular with diagonal -tau: an LU factorization without pivoting (Ballard et al. 2014,
  "Reconstructing Householder Vectors from Tall-Skinny QR"), whose pivots lie between 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from assay.reference.factors import Bounded, half, lu_moves, settled, substituted
from assay.reference.value import Array


def geqrf(a: Array) -> tuple[Array, Array]:
    """LAPACK's own: (V below R, tau)."""
    if 0 in a.shape:
        return a, np.zeros(0, a.dtype)
    routine: Any = scipy.linalg.get_lapack_funcs("geqrf", (a,))
    packed, tau, *_ = routine(a)
    return packed, tau


def householder(a: Bounded, gamma: float) -> tuple[Bounded, Bounded, Array]:
    """(V below R as geqrf stores them, tau, errors of Q's first columns in norm); infinite where nothing can be said.

    gamma: the backward error, relative to a column's norm.
    """
    m, n = a.mid.shape
    rank = min(m, n)
    skip = trivial(a)
    packed, tau = np.array(a.mid), np.zeros(rank, a.mid.dtype)
    rad, tau_rad = np.array(a.rad), np.zeros(rank)
    rad[np.tril_indices(m, -1, n)] = 0.0
    rest = Bounded(a.mid[skip:, skip:], a.rad[skip:, skip:])
    moved = np.zeros(rank)
    if rest.mid.size:
        corner, (tau[skip:], tau_rad[skip:]), moved[skip:] = _factored(rest, gamma)
        packed[skip:, skip:], rad[skip:, skip:] = corner
    return Bounded(packed, rad), Bounded(tau, tau_rad), moved


def trivial(a: Bounded) -> int:
    """How many leading columns are zero below the diagonal for certain: their reflections are identities."""
    rank = min(a.mid.shape)
    for k in range(rank):
        if a.rad[k + 1 :, k].any() or a.mid[k + 1 :, k].any() or (np.iscomplexobj(a.mid) and a.mid[k, k].imag):
            return k
        if np.iscomplexobj(a.mid) and a.rad[k, k]:
            return k
    return int(rank)


def _factored(a: Bounded, gamma: float) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
    m, n = a.mid.shape
    packed, tau = geqrf(a.mid)
    rad, tau_rad, moved = np.full((m, n), np.inf), np.full(len(tau), np.inf), np.full(len(tau), np.inf)
    k = _well_conditioned(a, packed, gamma)
    while k > 0:
        found = _leading(a, packed, tau, k, gamma)
        if found is not None:
            rad, tau_rad, moved = found
            break
        k //= 2
    return (packed, rad), (tau, tau_rad), moved


def column_errors(a: Bounded, gamma: float) -> Array:
    """How far each column may be off, in norm."""
    norms = np.sqrt((np.abs(a.mid) ** 2).sum(0))
    spread = np.sqrt((a.rad**2).sum(0))
    return np.asarray(gamma * (norms + spread) + spread)


def _well_conditioned(a: Bounded, packed: Array, gamma: float) -> int:
    """How many leading columns of R can be inverted with G well below one."""
    rank = min(packed.shape)
    upper = np.triu(packed[:rank, :rank])
    if (upper.diagonal() == 0).any():
        rank = int(np.argmax(upper.diagonal() == 0))
        upper = upper[:rank, :rank]
    if rank == 0:
        return 0
    with np.errstate(all="ignore"):
        inverse = np.abs(substituted(upper, np.eye(rank), False))
    moved = column_errors(a, gamma)[:rank] @ inverse
    open_ = ~(moved < 0.125)
    return int(np.argmax(open_)) if open_.any() else rank


def _leading(a: Bounded, packed: Array, tau: Array, k: int, gamma: float) -> tuple[Array, Array, Array] | None:
    """The radii of (V below R), of tau, and of Q's columns as far as the first k columns tell them, else infinite.

    The columns behind the first k have R_12 = Q_1^H A_2 with an error of their own.
    """
    m, n = packed.shape
    upper = np.triu(packed[:k, :k])
    inverse = np.abs(substituted(upper, np.eye(k), False))
    errors = column_errors(a, gamma)
    g = errors[:k] @ inverse  # norms of the columns of G
    e = g[:, None] + g + np.outer(g, g)
    y = settled(half(e), lambda y: half(e + y.T @ y))
    if y is None or y.sum(0).max() >= 0.5:
        return None
    # dQ (I + Y) = G - Q Y, column by column in norm
    moved = np.linalg.solve((np.eye(k) - y).T, g + np.sqrt((y**2).sum(0)))
    norms = np.sqrt((np.abs(a.mid) ** 2).sum(0)) + errors
    steps = k if np.iscomplexobj(packed) else min(m - 1, k)
    found = _reflections(packed, tau, steps, moved, gamma)
    if found is None:
        return None
    below, taus, told = found
    told = k if told == steps else told
    top = np.full((m, n), np.inf)
    top[:told, :k] = (y @ np.abs(upper))[:told]
    top[:told, k:] = (errors[k:] + np.outer(moved, norms[k:]))[:told]
    low = np.full((m, n), np.inf)
    low[:, : min(told, steps)] = below[:, : min(told, steps)]
    tau_rad = np.full(len(tau), np.inf)
    tau_rad[:told] = 0.0
    tau_rad[: min(told, steps)] = taus[: min(told, steps)]
    columns = np.full(len(tau), np.inf)
    columns[:told] = moved[:told]
    return np.where(np.tri(m, n, -1, dtype=bool), low, top), tau_rad, columns


def _reflections(packed: Array, tau: Array, steps: int, moved: Array, gamma: float) -> tuple[Array, Array, int] | None:
    """Radii of the vectors (m, steps) and of tau, from norms of the errors of Q's columns, and how many of them hold:
    up to the first whose diagonal element before the reflection, 1 - Re tau of the new one, may have either sign.
    """
    m = len(packed)
    if steps == 0:
        return np.zeros((m, 0)), np.zeros(0), 0
    lower = np.tril(packed[:, :steps], -1) + np.eye(m, steps)
    upper = -compact(lower, tau[:steps]) @ lower[:steps].conj().T
    if (upper.diagonal() == 0).any():
        return None
    found = lu_moves(lower, upper, np.broadcast_to(moved[:steps], (m, steps)))
    if found is None:
        return None
    low, up = found
    taus = up.diagonal() + gamma * np.abs(tau[:steps])
    unsure = ~(tau[:steps].real - taus > 1.0)
    told = int(np.argmax(unsure)) if unsure.any() else steps
    return low + gamma * np.abs(lower), taus, told


def compact(vectors: Array, tau: Array) -> Array:
    """T with H_1 .. H_k = I - V T V^H (Schreiber and Van Loan 1989; LAPACK's larft)."""
    k = len(tau)
    t = np.zeros((k, k), np.result_type(vectors, tau))
    products = vectors.conj().T @ vectors
    for i in range(k):
        t[i, i] = tau[i]
        t[:i, i] = -tau[i] * (t[:i, :i] @ products[:i, i])
    return t


# ---------------------------------------------------------------- pivoting


def pivoted(a: Bounded, gamma: float, roundoff: float) -> tuple[Array, Array, Array, int]:
    """(V below R, tau, pivots from 0, how many pivots are decided) with column pivoting, as geqp3 does it.

    Each step takes the column whose rest is the longest. LAPACK updates the norms and computes one anew once sqrt(u) is
    all that is left of it (Drmac and Bujanovic 2008), so that two are told apart where they differ by more than that.
    """
    routine: Any = scipy.linalg.get_lapack_funcs("geqp3", (a.mid,))
    packed, pivots, tau, *_ = routine(a.mid)
    order = np.asarray(pivots) - 1
    errors = column_errors(a, gamma)[order]
    rank = min(packed.shape)
    resolved = 4 * np.sqrt(roundoff)
    for k in range(rank):
        rest = np.sqrt((np.abs(np.triu(packed)[k:, k:]) ** 2).sum(0))
        best = rest[0] * (1 - resolved) - 2 * errors[k]
        if (rest[1:] * (1 + resolved) + 2 * errors[k + 1 :] >= best).any():
            return packed, tau, order, k
    return packed, tau, order, rank


# ---------------------------------------------------------------- products


def reflected(a: Bounded, tau: Bounded, start: Array, gamma: float, *, adjoint: bool = False) -> Bounded:
    """H_1 .. H_k C (its adjoint's product where `adjoint`), H_i = I - tau_i v_i v_i^H, v_i below the diagonal of a, its
    own element one, C = start.

    A product of reflections is off by gamma a column (Higham, Lemma 19.3), and by what v_i and tau_i may move: dH_i
    has norm at most dtau |v|^2 + |tau| (2 |v| + |dv|) |dv|, reflections themselves have norm one.
    """
    m, k = len(a.mid), len(tau.mid)
    lower = np.tril(a.mid[:, :k], -1) + np.eye(m, k)
    unsure = np.tril(a.rad[:, :k], -1)
    norm, dv = np.sqrt((np.abs(lower) ** 2).sum(0)), np.sqrt((unsure**2).sum(0))
    moved = (tau.rad * (norm + dv) ** 2 + np.abs(tau.mid) * (2 * norm + dv) * dv).sum()
    t = compact(lower, tau.mid)
    product = start - lower @ ((t.conj().T if adjoint else t) @ (lower.conj().T @ start))
    # what is not a reflection (a tau that no QR made) may be longer than one
    longest = np.prod(np.maximum(1.0, np.abs(1 - tau.mid * norm**2)))
    error = (np.expm1(moved) * (1 + gamma) + gamma) * longest
    return Bounded(product, np.broadcast_to(error * np.sqrt((np.abs(start) ** 2).sum(0)), product.shape))
