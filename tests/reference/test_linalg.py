"""Factorizations and triangular systems against LAPACK through XLA:CPU, and against corrupted results."""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from lapack_calls import agree, definite, matrix, same_matrices_in_any_order, sampled  # noqa: F401
from xla_cpu import outside, reference

from assay.hlo.shape import DTYPES
from assay.reference import factors
from assay.reference.factors import Bounded

RNG = np.random.default_rng(6)
DTYPE_NAMES = ["float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_cholesky(dtype):
    for dims in ((5, 5), (3, 4, 4), (40, 40)):
        a = definite(*dims, dtype=dtype)
        (ball,) = agree(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False), a)
        bound = 1e-3 if dtype != "float64" else 1e-11
        assert ball.rad.max() < bound * np.abs(ball.mid).max()
        wrong = ball.mid.copy()
        wrong[..., 2, 1] *= 1.01
        assert outside(ball, wrong).any()


def test_a_matrix_that_may_not_be_definite_is_undecided():
    for last in (1.0, 1 + 2.0**-23):
        a = np.array([[1, 1], [1, last]], np.float32)
        (ball,) = agree(jnp.linalg.cholesky, a, decided=False)
        assert ball.und.any()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve(dtype, left):
    a, b = definite(6, 6, dtype=dtype), matrix(6, 6, dtype=dtype)

    def f(a, b):
        return [
            lax.linalg.triangular_solve(
                a, b, left_side=left, lower=lower, transpose_a=transpose, conjugate_a=conjugate, unit_diagonal=unit
            )
            for lower in (True, False)
            for transpose, conjugate in ((False, False), (True, False), (True, True))
            for unit in (False, True)
        ]

    for ball in agree(f, a, b, decided=False):
        assert ball.und is None
        wrong = ball.mid * 1.1
        assert outside(ball, wrong).mean() > 0.5


def test_triangular_solve_opcode():
    text = """HloModule m

ENTRY e {
  a = f32[2,5,5] parameter(0)
  b = f32[2,5,3] parameter(1)
  ROOT r = f32[2,5,3] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=TRANSPOSE
}
"""
    a, b = definite(2, 5, 5), matrix(2, 5, 3)
    (ball,) = reference(text, [a, b])
    for i in range(2):
        want = scipy.linalg.solve_triangular(a[i].astype(float), b[i].astype(float), lower=True, trans="T")
        np.testing.assert_allclose(ball.mid[i], want, rtol=1e-12)


def test_cholesky_opcode_leaves_the_other_triangle_open():
    text = """HloModule m

ENTRY e {
  a = f32[4,4] parameter(0)
  ROOT r = f32[4,4] cholesky(a), lower=false
}
"""
    a = definite(4, 4)
    (ball,) = reference(text, [a])
    np.testing.assert_array_equal(ball.und, np.tri(4, k=-1, dtype=bool))
    np.testing.assert_allclose(np.triu(ball.mid), np.linalg.cholesky(a.astype(float)).T, rtol=1e-12)


def test_a_singular_triangle_is_undecided():
    a = np.array([[1, 0], [1, 0]], np.float32)
    (ball,) = agree(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), a, matrix(2, 1), decided=False
    )
    assert ball.und.all()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_lu_solve_det_inverse(dtype):
    a, b = matrix(6, 6, dtype=dtype), matrix(6, 2, dtype=dtype)

    def f(a, b):
        return (
            lax.linalg.lu(a),
            lax.linalg.lu(a[:, :4]),
            lax.linalg.lu(a[:4]),
            jnp.linalg.solve(a, b),
            jnp.linalg.det(a),
        )

    balls = agree(f, a, b)
    assert balls[0].rad.max() < (1e-3 if dtype != "float64" else 1e-12)
    assert balls[1].exact


def test_tied_pivots_are_undecided():
    (lu, *_) = agree(lax.linalg.lu, np.array([[1, 2], [-1, 3]], np.float32), decided=False)
    assert lu.und.any()


def test_not_finite_input_is_undecided():
    a = definite(3, 4, 4)
    a[1, 2, 2] = np.nan
    (ball,) = agree(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False), a, decided=False)
    assert ball.und[1].any()
    assert not ball.und[[0, 2]].any()


@pytest.mark.parametrize("dtype", [*DTYPE_NAMES, "complex128"])
def test_tridiagonal_systems(dtype):
    for n in (1, 3, 40):
        below, diagonal, above = (matrix(n, dtype=dtype) for _ in range(3))
        diagonal = diagonal + 4 * np.sign(diagonal.real).astype(dtype)
        below[0] = above[-1] = 0
        b = matrix(n, 2, dtype=dtype)
        (x,) = agree(lax.linalg.tridiagonal_solve, below, diagonal, above, b)
        wide = complex if dtype.startswith("complex") else float
        dense = np.diag(diagonal.astype(wide)) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
        np.testing.assert_allclose(x.mid, np.linalg.solve(dense, b.astype(wide)), rtol=1e-10)
        assert outside(x, x.mid * 1.01).all()


def test_an_indefinite_matrix_gives_nan_for_certain():
    a = np.diag([4.0, 1.0, -3.0, 2.0]).astype(np.float32) + 0.1
    (ball,) = agree(jnp.linalg.cholesky, a)
    assert np.isnan(ball.mid[np.tri(4, dtype=bool)]).all()
    agree(lambda a, b: jsl.solve(a, b, assume_a="pos"), a, matrix(4, 2))


def test_pivots_before_a_tie_are_decided():
    """Rows 1 and 2 tie in the second step: the first row and column are decided, the rest is not."""
    a = np.array([[8, 2, 1], [4, 3, 5], [4, -1, 7]], np.float32)
    packed, pivots, _ = agree(lax.linalg.lu, a, decided=False)
    assert not packed.und[0].any()
    assert packed.und[1:].all()
    assert pivots.und.tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_pivots_are_chosen_by_the_sum_of_parts(dtype):
    """3 + 3i is longer than 4 + 1i in LAPACK's measure and in modulus, 3 + 3i than 4.2 in the former alone."""
    a = np.array([[4.2, 1], [3 + 3j, 2]], dtype)
    packed, pivots, _ = agree(lax.linalg.lu, a)
    assert pivots.mid[0] == 1
    assert abs(packed.mid[0, 0]) > 4.2


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_badly_conditioned_systems_are_judged_by_sampled_runs(dtype):
    n = 8
    hilbert = (1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)).astype(dtype)
    a = hilbert + 1e-3 * np.eye(n, dtype=dtype)
    for f in (jnp.linalg.inv, jnp.linalg.det):
        ((ball, got),) = sampled(f, a)
        assert not outside(ball, got).any()
        assert ball.und is None or not ball.und.any()
        assert outside(ball, got * 1.2).mean() > 0.9


# ---------------------------------------------------------------- the bounds themselves


@pytest.mark.parametrize("trial", range(5))
def test_factors_of_nearby_matrices_lie_inside(trial):
    """The worst signs of a perturbation, drawn many times."""
    n = 6
    size = 1e-4
    a = definite(n, n, dtype="float64")
    lower = factors.cholesky(Bounded(a, np.full((n, n), size)), 0.0)
    lu = factors.lu(Bounded(a, np.full((n, n), size)), 0.0)
    t = Bounded(np.tril(a), np.full((n, n), size) * np.tri(n))
    b = matrix(n, 2, dtype="float64")
    x = factors.solve_triangular(t, Bounded(b, np.full(b.shape, size)), True, 0.0, False)
    assert isinstance(lower, Bounded)
    assert lu[2] == n
    for _ in range(50):
        noise = RNG.choice([-size, size], (n, n))
        symmetric = np.tril(noise) + np.tril(noise, -1).T
        assert (np.abs(np.linalg.cholesky(a + symmetric) - lower.mid) <= lower.rad).all()
        packed, pivots = scipy.linalg.lu_factor(a + noise)
        np.testing.assert_array_equal(pivots, lu[1])
        assert (np.abs(packed - lu[0].mid) <= lu[0].rad).all()
        solved = scipy.linalg.solve_triangular(np.tril(a + noise), b + RNG.choice([-size, size], b.shape), lower=True)
        assert (np.abs(solved - x.mid) <= x.rad).all()


def test_roundoff_counts_our_own_error_in_f64():
    assert factors.roundoff(DTYPES["f64"]) == 2 * 2.0**-53
    assert factors.roundoff(DTYPES["c64"]) == np.sqrt(8.0) * 2.0**-24
