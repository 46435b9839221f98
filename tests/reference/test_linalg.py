"""Factorizations and triangular systems against LAPACK through XLA:CPU, and against corrupted results."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from xla_cpu import assert_agree, hlo_text, outside, reference

from assay.errors import Unsupported
from assay.hlo.shape import DTYPES
from assay.reference import factors
from assay.reference.factors import Bounded

RNG = np.random.default_rng(6)
DTYPE_NAMES = ["float32", "float64", "complex64"]


def normal(*dims, dtype="float32"):
    x = RNG.normal(size=dims)
    if dtype.startswith("complex"):
        x = x + 1j * RNG.normal(size=dims)
    return x.astype(dtype)


def definite(*dims, dtype="float32"):
    x = normal(*dims, dtype=dtype)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + dims[-1] * np.eye(dims[-1])).astype(dtype)


def agree(f, *args, **options):
    with jax.enable_x64(True):
        return assert_agree(f, *args, **options)


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
    a = np.array([[1, 2], [2, 1]], np.float32)
    (ball,) = agree(jnp.linalg.cholesky, a, decided=False)
    assert ball.und.any()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve(dtype, left):
    a, b = definite(6, 6, dtype=dtype), normal(6, 6, dtype=dtype)

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
    a, b = definite(2, 5, 5), normal(2, 5, 3)
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
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), a, normal(2, 1), decided=False
    )
    assert ball.und.all()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_lu_solve_det_inverse(dtype):
    a, b = normal(6, 6, dtype=dtype), normal(6, 2, dtype=dtype)

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


def test_qr():
    for dims in ((5, 5), (8, 4), (4, 7), (2, 5, 3)):
        q, r = agree(jnp.linalg.qr, normal(*dims))
        assert q.rad.max() < 1e-2
        assert r.rad.max() < 1e-2
        assert outside(q, -q.mid).any()


def test_spectra():
    a = definite(5, 5)
    (values,) = agree(jnp.linalg.eigvalsh, a)
    np.testing.assert_allclose(values.mid, np.linalg.eigvalsh(a.astype(float)), rtol=1e-6)
    (values,) = agree(lambda x: jnp.linalg.svd(x, compute_uv=False), normal(5, 8))
    assert (values.rad < 1e-3).all()
    values, vectors = agree(jnp.linalg.eigh, a, decided=False)
    assert values.und is None
    assert vectors.und.all()
    u, s, vh = agree(jnp.linalg.svd, normal(4, 3), decided=False)
    assert s.und is None
    assert u.und.all()
    assert vh.und.all()


def test_not_finite_input_is_undecided():
    a = definite(3, 4, 4)
    a[1, 2, 2] = np.nan
    (ball,) = agree(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False), a, decided=False)
    assert ball.und[1].any()
    assert not ball.und[[0, 2]].any()


def test_unmodelled_calls_are_named():
    a = normal(4, 4)
    with pytest.raises(Unsupported, match="geev"):
        reference(hlo_text(jnp.linalg.eigvals, a), [a])


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
    b = normal(n, 2, dtype="float64")
    x = factors.solve_triangular(t, Bounded(b, np.full(b.shape, size)), True, 0.0, False)
    assert lower is not None
    assert lu is not None
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
    assert factors.roundoff(DTYPES["c64"]) == 4 * 2.0**-24
