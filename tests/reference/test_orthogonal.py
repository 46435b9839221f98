"""QR, products of reflections and the reductions against LAPACK through XLA:CPU, against SciPy, and their bounds
against matrices nearby.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from lapack_calls import agree, matrix, old_call, same_matrices_in_any_order, sampled  # noqa: F401
from xla_cpu import outside, reference

from assay.reference import householder
from assay.reference.factors import Bounded

DTYPES = ["float32", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float64", "complex64", "complex128"))]
SHAPES = [(5, 5), (8, 4), (4, 7), (2, 5, 3), (1, 1), (3, 1), (1, 3), (0, 3), (3, 0)]


def raw(a):
    transposed, taus = jnp.linalg.qr(a, mode="raw")
    return transposed.T, taus


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(dtype):
    for dims in SHAPES:
        a = matrix(*dims, dtype=dtype)
        q, r = agree(jnp.linalg.qr, a)
        exact_q, exact_r = np.linalg.qr(a.astype(complex if a.dtype.kind == "c" else float))
        for ball, exact in ((q, exact_q), (r, exact_r)):
            assert (np.abs(ball.mid - exact) <= 1e-10).all()
            assert ball.rad is None or ball.rad.max(initial=0.0) < (1e-2 if "32" in dtype or "64" in dtype else 1e-9)
        if min(dims) > 1:
            assert outside(q, -q.mid).all()
            assert outside(r, r.mid * 1.01).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_other_forms(dtype):
    a = matrix(6, 4, dtype=dtype)
    for mode in ("complete", "raw", "r"):
        agree(lambda a: jnp.linalg.qr(a, mode=mode), a)  # noqa: B023
    taus = householder.geqrf(a)[1]
    agree(lax.linalg.householder_product, *householder.geqrf(a))
    for left in (True, False):
        for transpose in (True, False):
            c = matrix(6, 3, dtype=dtype) if left else matrix(3, 6, dtype=dtype)
            agree(lambda a, t, c: lax.linalg.ormqr(a, t, c, left=left, transpose=transpose), a, taus, c)  # noqa: B023


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivoting(dtype):
    for dims in ((5, 5), (6, 3), (3, 6), (2, 4, 3)):
        a = matrix(*dims, dtype=dtype)
        a *= np.arange(1, dims[-1] + 1, dtype=np.float32) ** 2  # columns of different lengths
        _, r, _ = agree(lambda a: jsl.qr(a, pivoting=True, mode="economic"), a)
        assert r.rad.max() < 0.05 * np.abs(r.mid).max()
    tied = np.array([[1, 1], [2, -2]], dtype)
    _, r, order = agree(lambda a: jsl.qr(a, pivoting=True), tied, decided=False)
    assert order.und.all()
    assert np.broadcast_to(r.und, r.dims)[0].all()


def test_what_needs_no_reflection_is_exact():
    upper = np.triu(matrix(4, 4)).astype(np.float32)
    packed, taus = agree(raw, upper)
    assert packed.exact
    assert taus.exact
    np.testing.assert_array_equal(packed.mid, upper)
    upper[3, 2] = 0.5  # only the last two columns are reflected
    packed, taus = agree(raw, upper)
    np.testing.assert_array_equal(packed.mid[:2], upper[:2])
    assert taus.mid[:2].tolist() == [0, 0]


def test_columns_behind_a_dependent_one_are_undecided():
    a = matrix(6, 5)
    a[:, 3] = a[:, 1]
    packed, taus = agree(raw, a, decided=False)
    und = np.broadcast_to(packed.und, packed.dims)
    assert not und[:, :3].any()
    assert und[3:, 3:].all()
    assert taus.und.tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("kind", [float, complex])
def test_factors_of_nearby_matrices_lie_inside(kind):
    """The worst signs of a perturbation of each column, drawn many times, and the worst single columns."""
    rng = np.random.default_rng(3)
    for m, n in ((6, 6), (7, 3), (4, 6)):
        a = rng.normal(size=(m, n)).astype(kind) + (1j * rng.normal(size=(m, n)) if kind is complex else 0)
        size = 1e-5
        packed, tau, columns = householder.householder(Bounded(a, np.full((m, n), size)), 0.0)
        assert np.isfinite(packed.rad).all()
        q = np.linalg.qr(a)[0]
        worst = 0.0
        for trial in range(200):
            noise = rng.choice([-size, size], (m, n)).astype(kind)
            if kind is complex:
                noise = noise * np.exp(2j * np.pi * rng.random((m, n)))
            if trial % 2:
                noise[:, np.arange(n) != trial % n] = 0
            other, other_tau = householder.geqrf(a + noise)
            assert (np.abs(other - packed.mid) <= packed.rad).all()
            assert (np.abs(other_tau - tau.mid) <= tau.rad).all()
            moved = np.sqrt((np.abs(np.linalg.qr(a + noise)[0] - q) ** 2).sum(0))
            assert (moved <= columns).all()
            worst = max(worst, (np.abs(other - packed.mid) / packed.rad).max())
        assert worst > 0.02  # and are not far too wide


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    """Undecided in balls, judged by sampled runs: the sign of no element is open."""
    for size in (6,):
        a = matrix(size, size, dtype=dtype)
        for f in (lax.linalg.hessenberg, lambda a: lax.linalg.tridiagonal(a + jnp.conj(a.T))[:4]):
            agree(f, a, decided=False)
            for ball, got in sampled(f, a):
                assert not outside(ball, got).any()
                decided = ~np.broadcast_to(False if ball.und is None else ball.und, ball.dims)
                assert decided.mean() > 0.9
                wrong = np.where(np.abs(ball.mid) > 0.1, got * 1.02, got)
                assert (outside(ball, wrong) | (np.abs(ball.mid) <= 0.1) | ~decided).all()


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", "s"), ("float64", "d"), ("complex64", "c"), ("complex128", "z")]
)
def test_calls_of_old_releases(dtype, kind):
    """The same from the calls of jaxlib before 0.4.32, whose sizes are operands."""
    a = matrix(5, 3, dtype=dtype)
    wide = a.astype(complex if kind in "cz" else float)
    packed, taus, info, _ = reference(
        old_call(f"lapack_{kind}geqrf", "A[5,3], A[3], s32[], A[96]", "1 5 3 96", "A[5,3]", kind), [a]
    )
    exact, exact_tau = householder.geqrf(wide)
    np.testing.assert_allclose(packed.mid, exact, atol=1e-12)
    np.testing.assert_allclose(taus.mid, exact_tau, atol=1e-12)
    assert info.exact
    name = "orgqr" if kind in "sd" else "ungqr"
    q, info, _ = reference(
        old_call(f"lapack_{kind}{name}", "A[5,3], s32[], A[96]", "1 5 3 3 96", "A[5,3] A[3]", kind),
        [exact.astype(dtype), exact_tau.astype(dtype)],
    )
    np.testing.assert_allclose(q.mid, np.linalg.qr(wide)[0], atol=1e-5)
    square = matrix(4, 4, dtype=dtype)
    packed, taus, info, _ = reference(
        old_call(f"lapack_{kind}gehrd", "A[4,4], A[3], s32[], A[128]", "4 1 4 4 1 128", "A[4,4]", kind), [square]
    )
    hessenberg = scipy.linalg.hessenberg(square.astype(wide.dtype))
    np.testing.assert_allclose(np.triu(packed.mid, -1), hessenberg, atol=1e-12)
    assert packed.und.all()
    hermitian = square + square.conj().T
    name = "sytrd" if kind in "sd" else "hetrd"
    real = {"s": "f32", "d": "f64", "c": "f32", "z": "f64"}[kind]
    _, diagonal, beside, *_ = reference(
        old_call(
            f"lapack_{kind}{name}", f"A[4,4], {real}[4], {real}[3], A[3], s32[], A[128]", "4 1 4 1 128", "A[4,4]", kind
        ),
        [hermitian],
    )
    tridiagonal = np.diag(diagonal.mid) + np.diag(beside.mid, 1) + np.diag(beside.mid, -1)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(tridiagonal), np.linalg.eigvalsh(hermitian.astype(wide.dtype)), atol=1e-10
    )


def test_not_finite_matrices_are_undecided():
    a = matrix(3, 4, 4)
    a[1, 2, 2] = np.nan
    q, r = agree(jnp.linalg.qr, a, decided=False)
    for ball in (q, r):
        assert np.broadcast_to(ball.und, ball.dims)[1].any()
        assert not np.broadcast_to(ball.und, ball.dims)[[0, 2]].any()
    assert jax.config.jax_enable_x64 is False
