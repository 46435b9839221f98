"""LAPACK calls that work by Householder reflections: QR with and without pivoting, products of reflections, and the
reductions to Hessenberg and tridiagonal form.

Bounds are in `assay.reference.householder`. The two reductions have none that says anything beyond a few rows (errors
of a step grow with each of the next): their results are undecided, and judged in sampled runs alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from assay.errors import Unsupported
from assay.hlo.module import Instruction
from assay.hlo.shape import DType
from assay.reference import factors, householder
from assay.reference.context import Context
from assay.reference.factors import Bounded
from assay.reference.ops.lapack import (
    S32,
    across,
    as_columns,
    draw,
    gathered,
    is_typed,
    letter,
    matrices,
    moved_by_columns,
    moved_by_norm,
    option,
    orthogonal_growth,
    output_shape,
    outputs,
    status,
    typed,
    unsure_matrices,
    untyped,
    vectors,
)
from assay.reference.registry import custom_call
from assay.reference.value import Array, Ball, Value, union

REAL, COMPLEX = "sd", "cz"


def _exact(*arrays: Array) -> tuple[Bounded, ...]:
    return tuple(Bounded(x, np.zeros(x.shape)) for x in arrays)


def _nothing(dims: Sequence[int], like: Array) -> Bounded:
    return Bounded(np.zeros(dims, like.dtype), np.full(dims, np.inf))


# ---------------------------------------------------------------- QR


@custom_call(*typed("geqrf"))
def geqrf(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """(Householder vectors below R, tau)"""
    return outputs(instr, _factored(ctx, a))


@custom_call(*untyped("geqrf"))
def geqrf_untyped(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(batch, m, n, work size, A) -> (vectors below R, tau, info, work)"""
    a = operands[-1]
    return outputs(instr, _factored(ctx, a) | {2: _all_well(instr, 2)})


def _all_well(instr: Instruction, index: int) -> Ball:
    """The info of a routine that does not fail."""
    return status(output_shape(instr, index).dims, np.zeros(1, bool))


def _factored(ctx: Context, a: Ball) -> dict[int, Ball]:
    """(V below R, tau). What is known of Q itself is noted, for it is less than what V and tau tell of it apart."""
    *lead, m, n = a.mid.shape
    unsure = unsure_matrices(a)
    gamma = orthogonal_growth(ctx, a.dtype, m, min(m, n))
    parts, taus, columns = [], [], []
    for matrix, bad in zip(matrices(a), unsure, strict=True):
        moved = np.full(min(m, n), np.inf)
        if bad:
            found = _nothing((m, n), matrix.mid), _nothing((min(m, n),), matrix.mid)
        elif ctx.rng is not None:
            packed, tau = householder.geqrf(_moved(ctx, a, matrix))
            found = _exact(packed, tau)  # type: ignore[assignment]
        else:
            *found, moved = householder.householder(matrix, gamma)  # type: ignore[assignment]
        parts.append(found[0])
        taus.append(found[1])
        columns.append(moved)
    dims = (*lead, min(m, n))
    packed_ball = gathered(ctx, a.dtype, a.mid.shape, parts, None)
    tau_ball = gathered(ctx, a.dtype, dims, taus, None)
    if ctx.rng is None:
        for v, t, moved in zip(matrices(packed_ball), vectors(tau_ball), columns, strict=True):
            ctx.memo["Q", _signature(v, t)] = moved
    return {0: packed_ball, 1: tau_ball}


def _signature(a: Bounded, tau: Bounded) -> str:
    """Says which reflections these are, wherever they have been moved: the vectors, the scalars, and their radii."""
    rank = len(tau.mid)
    hashed = hashlib.sha256()
    for part in (np.tril(a.mid[:, :rank], -1), np.tril(a.rad[:, :rank], -1), tau.mid, tau.rad):
        hashed.update(np.ascontiguousarray(part + 0.0).tobytes())
    return hashed.hexdigest()


def _moved(ctx: Context, a: Ball, matrix: Bounded) -> Array:
    """A matrix within the backward error; columns that need no reflection stay."""
    skip = householder.trivial(matrix)
    moved = np.array(matrix.mid)
    if moved[skip:, skip:].size:
        moved[skip:, skip:] = moved_by_columns(ctx, a.dtype, moved[skip:, skip:])
    return moved


@custom_call(*typed("geqp3"))
def geqp3(ctx: Context, instr: Instruction, a: Ball, fixed: Ball) -> Value:
    """(Householder vectors below R, pivots from 1, tau) of A P, each step taking the longest column left; all columns
    must be free to move.
    """
    if fixed.mid.any() or (fixed.und is not None and fixed.und.any()):
        raise Unsupported("custom-call geqp3", "with columns that are fixed in front")
    *lead, m, n = a.mid.shape
    rank = min(m, n)
    gamma = orthogonal_growth(ctx, a.dtype, m, rank)
    parts, taus, orders, decided = [], [], [], []
    for matrix, bad in zip(matrices(a), unsure_matrices(a), strict=True):
        if bad or not rank:
            found = _nothing((m, n), matrix.mid), _nothing((rank,), matrix.mid)
            order, known = np.arange(n), 0
        elif ctx.rng is not None:
            packed, tau, order, known = householder.pivoted(
                Bounded(moved_by_columns(ctx, a.dtype, matrix.mid), matrix.rad), 0.0, 0.0
            )
            found, known = _exact(packed, tau), n  # type: ignore[assignment]
        else:
            found, order, known = _pivoted(matrix, gamma, factors.roundoff(a.dtype))
        parts.append(found[0])
        taus.append(found[1])
        orders.append(order + 1)
        decided.append(known)
    open_ = np.arange(n) >= np.reshape(np.asarray(decided, np.int64), (*lead, 1))
    order_ball = Ball(S32, np.reshape(np.asarray(orders, np.int32), (*lead, n)), None, open_ if open_.any() else None)
    return outputs(
        instr,
        {
            0: gathered(ctx, a.dtype, a.mid.shape, parts, None),
            1: order_ball,
            2: gathered(ctx, a.dtype, (*lead, rank), taus, None),
        },
    )


def _pivoted(a: Bounded, gamma: float, roundoff: float) -> tuple[tuple[Bounded, Bounded], Array, int]:
    """The factorization as far as the pivots are decided, and how many of the n columns have their place."""
    m, n = a.mid.shape
    rank = min(m, n)
    _, _, order, known = householder.pivoted(a, gamma, roundoff)
    packed, tau, _ = householder.householder(Bounded(a.mid[:, order], a.rad[:, order]), gamma)
    if known < rank:
        rad, tau_rad = np.array(packed.rad), np.array(tau.rad)
        rad[:, known:], tau_rad[known:] = np.inf, np.inf
        packed, tau = Bounded(packed.mid, rad), Bounded(tau.mid, tau_rad)
    # The columns behind the last pivot keep the order that the exchanges left them in.
    return (packed, tau), order, n if known == rank else known


# ---------------------------------------------------------------- products of reflections


@custom_call(
    *typed("orgqr", REAL), *typed("ungqr", COMPLEX), *untyped("orgqr", kinds=REAL), *untyped("ungqr", kinds=COMPLEX)
)
def orgqr(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(.., A, tau): the product of the Householder reflections that geqrf left below the diagonal; in the old form with
    (info, work).
    """
    a, tau = operands[-2:]
    m, n = a.mid.shape[-2:]
    failed = unsure_matrices(_below_diagonal(a), as_columns(tau))
    gamma = orthogonal_growth(ctx, a.dtype, m, tau.mid.shape[-1])
    start = np.eye(m, n, dtype=a.mid.dtype)
    parts = []
    for x, t in zip(matrices(a), vectors(tau), strict=True):
        one = _drawn(ctx, a.dtype, householder.reflected(x, t, start, gamma), gamma)
        moved = ctx.memo.get(("Q", _signature(x, t)))
        if moved is not None:
            rad = np.array(one.rad)
            rad[:, : len(moved)] = np.minimum(rad[:, : len(moved)], (moved + gamma * (1 + moved))[:n])
            one = Bounded(one.mid, rad)
        parts.append(one)
    found = gathered(ctx, a.dtype, a.mid.shape, parts, across(failed, a.mid.shape, 2))
    return found if is_typed(instr) else outputs(instr, {0: found, 1: _all_well(instr, 1)})


def _below_diagonal(a: Ball) -> Ball:
    """R may hold anything, for it is not read."""
    m, n = a.mid.shape[-2:]
    below = np.tri(m, n, -1, dtype=bool)
    return Ball(a.dtype, np.where(below, a.mid, 0.0), a.rad, None if a.und is None else a.und & below)


@custom_call(*typed("ormqr", REAL), *typed("unmqr", COMPLEX))
def ormqr(ctx: Context, instr: Instruction, a: Ball, tau: Ball, c: Ball) -> Value:
    """Q C, Q^H C (transpose), C Q or C Q^H with the Q of geqrf."""
    left, adjoint = bool(option(instr, "left")), bool(option(instr, "transpose"))
    failed = unsure_matrices(_below_diagonal(a), as_columns(tau))
    gamma = orthogonal_growth(ctx, c.dtype, a.mid.shape[-2], tau.mid.shape[-1])
    parts = []
    for x, t, rhs in zip(matrices(a), vectors(tau), matrices(c), strict=True):
        if left:
            parts.append(_drawn(ctx, c.dtype, _applied(x, t, rhs, gamma, adjoint), gamma))
        else:  # C Q = (Q^H C^H)^H
            parts.append(_drawn(ctx, c.dtype, _applied(x, t, rhs.adjoint(), gamma, not adjoint), gamma).adjoint())
    bad = ~np.isfinite(c.mid) if c.und is None else c.und | ~np.isfinite(c.mid)
    und = np.broadcast_to(bad.any(-2 if left else -1, keepdims=True), c.mid.shape) if bad.any() else None
    return gathered(ctx, c.dtype, c.mid.shape, parts, union(und, across(failed, c.mid.shape, 2)))


def _applied(a: Bounded, tau: Bounded, c: Bounded, gamma: float, adjoint: bool) -> Bounded:
    """A product of reflections with a matrix: an error of the matrix keeps its norm."""
    start = np.where(np.isfinite(c.mid), c.mid, 0.0)
    found = householder.reflected(a, tau, start, gamma, adjoint=adjoint)
    norms = np.sqrt((np.abs(start) ** 2).sum(0))
    spread = np.sqrt((c.rad**2).sum(0))
    with np.errstate(all="ignore"):
        relative = np.where(norms > 0, found.rad / np.where(norms > 0, norms, 1.0), found.rad.max(initial=0.0))
    return Bounded(found.mid, found.rad + spread * (1 + relative) * (spread > 0))


def _drawn(ctx: Context, dtype: DType, found: Bounded, gamma: float) -> Bounded:
    """In a sampled run a product with an error that has the norm of what one commits: some u of its bound over gamma,
    spread over the elements of a column.
    """
    if ctx.rng is None:
        return found
    rows = max(1, len(found.mid))
    size = found.rad / gamma * factors.roundoff(dtype) * 3 * (1 + np.sqrt(rows) / 2) / np.sqrt(rows)
    return Bounded(found.mid + size * draw(ctx, found.mid), np.zeros(found.mid.shape))


# ---------------------------------------------------------------- reductions


@custom_call(*typed("gehrd"), *untyped("gehrd"))
def gehrd(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(Householder vectors below a Hessenberg matrix, tau, info)"""
    a = operands[-1]
    n = a.mid.shape[-1]
    if is_typed(instr):
        low, high = option(instr, "low"), option(instr, "high")
    else:
        low, high = (int(operands[i].mid) for i in (1, 2))

    def reduced(x: Array) -> tuple[Array, ...]:
        routine: Any = scipy.linalg.get_lapack_funcs("gehrd", (x,))
        packed, tau, _ = routine(x, lo=low - 1, hi=high - 1)
        return packed, tau[: n - 1]

    found = _reduced(ctx, instr, a, reduced, hermitian=False)
    return outputs(instr, found | {2: _all_well(instr, 2)})


@custom_call(
    *typed("sytrd", REAL), *typed("hetrd", COMPLEX), *untyped("sytrd", kinds=REAL), *untyped("hetrd", kinds=COMPLEX)
)
def sytrd(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """(Householder vectors beside a tridiagonal matrix, its diagonal, the one beside it, tau, info)"""
    a = operands[-1]
    lower = letter(instr, "uplo") == "L" if is_typed(instr) else bool(operands[1].mid)

    def reduced(x: Array) -> tuple[Array, ...]:
        name = "hetrd" if np.iscomplexobj(x) else "sytrd"
        routine: Any = scipy.linalg.get_lapack_funcs(name, (x,))
        packed, diagonal, beside, tau, _ = routine(x, lower=int(lower))
        return packed, diagonal, beside, tau

    found = _reduced(ctx, instr, a, reduced, hermitian=True)
    return outputs(instr, found | {4: _all_well(instr, 4)})


def _reduced(ctx: Context, instr: Instruction, a: Ball, routine: Any, hermitian: bool) -> dict[int, Ball]:
    """What LAPACK's routine makes of each matrix: undecided but in sampled runs."""
    bad = unsure_matrices(a)
    each: list[tuple[Array, ...]] = []
    for matrix, unsure in zip(matrices(a), bad, strict=True):
        x = np.where(unsure, 0.0, matrix.mid).astype(matrix.mid.dtype)
        each.append(routine(x if ctx.rng is None else moved_by_norm(ctx, a.dtype, x, hermitian)))
    found = {}
    for index in range(len(each[0]) if each else 0):
        shape = output_shape(instr, index)
        parts = [Bounded(one[index], np.zeros(one[index].shape)) for one in each]
        whole = np.ones(shape.dims, bool)
        trailing = 2 if index == 0 else 1
        und = across(bad, shape.dims, trailing) if ctx.rng is not None else whole
        found[index] = gathered(ctx, shape.dtype, shape.dims, parts, und)
    return found
