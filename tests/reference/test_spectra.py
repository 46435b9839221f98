"""Eigenvalues, singular values and Schur forms: bounds against NumPy and XLA:CPU; what vectors leave open is drawn, and
what does not depend on it is decided.
"""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from lapack_calls import agree, definite, matrix, old_call, same_matrices_in_any_order, sampled  # noqa: F401
from xla_cpu import outside, reference

DTYPES = ["float32", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float64", "complex64", "complex128"))]
KINDS = [("float32", "s"), ("float64", "d"), ("complex64", "c"), ("complex128", "z")]


def wide(a):
    return a.astype(complex if a.dtype.kind == "c" else float)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_bounded_and_vectors_undecided(dtype):
    for dims in ((5, 5), (2, 4, 4)):
        a = definite(*dims, dtype=dtype)
        (values,) = agree(jnp.linalg.eigvalsh, a)
        np.testing.assert_allclose(values.mid, np.linalg.eigvalsh(wide(a)), rtol=1e-6)
        assert outside(values, values.mid * 1.01).all()
    values, vectors = agree(jnp.linalg.eigh, a, decided=False)
    assert values.und is None
    assert vectors.und.all()
    b = matrix(4, 3, dtype=dtype)
    for full in (True, False):
        u, s, vh = agree(lambda b: jnp.linalg.svd(b, full_matrices=full), b, decided=False)  # noqa: B023
        assert s.und is None
        np.testing.assert_allclose(s.mid, np.linalg.svd(wide(b), compute_uv=False), rtol=1e-6)
        assert u.und.all()
        assert vh.und.all()
    (s,) = agree(lambda b: jnp.linalg.svd(b, compute_uv=False), b)
    assert outside(s, s.mid * 0.99).all()
    agree(lambda b: lax.linalg.svd(b, algorithm=lax.linalg.SvdAlgorithm.QR), b, decided=False)
    agree(jnp.linalg.eig, matrix(4, 4, dtype=dtype), decided=False)
    agree(lax.linalg.schur, matrix(4, 4, dtype=dtype), decided=False)


def symmetric_power(a):
    values, vectors = jnp.linalg.eigh(a)
    return (vectors * values**3) @ jnp.conj(vectors.T)


def product_of_eigenvalues(a):
    return jnp.prod(lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0])


def rebuilt_from_eigenvectors(a):
    values, vectors = jnp.linalg.eig(a)
    return (vectors * values) @ jnp.linalg.inv(vectors)


INVARIANT = {
    "pinv": (jnp.linalg.pinv, (5, 3)),
    "lstsq": (lambda a: jnp.linalg.lstsq(a, a[:, 0] + a[:, 1] * 0.5 + 1)[0], (6, 3)),
    "polar": (lambda a: jsl.polar(a, method="svd")[0], (4, 4)),
    "power": (lambda a: symmetric_power(a + jnp.conj(a.T)), (4, 4)),
    "determinant": (product_of_eigenvalues, (4, 4)),
    "rebuilt": (rebuilt_from_eigenvectors, (4, 4)),
    "sqrtm": (lambda a: jsl.sqrtm(a + 5 * jnp.eye(3, dtype=a.dtype)), (3, 3)),  # no eigenvalue at the branch cut
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", INVARIANT)
def test_what_does_not_depend_on_the_choice_of_vectors_is_decided(name, dtype):
    f, dims = INVARIANT[name]
    ((ball, got),) = sampled(f, matrix(*dims, dtype=dtype))
    assert not outside(ball, got).any()
    decided = ~np.broadcast_to(False if ball.und is None else ball.und, ball.dims)
    assert decided.mean() > 0.8
    assert outside(ball, got * 1.05)[decided].mean() > 0.8


@pytest.mark.parametrize("name", ["pinv", "power", "rebuilt"])
def test_the_commonest_of_them(name):
    f, dims = INVARIANT[name]
    ((ball, got),) = sampled(f, matrix(*dims))
    assert not outside(ball, got).any()
    decided = ~np.broadcast_to(False if ball.und is None else ball.und, ball.dims)
    assert decided.mean() > 0.8
    assert outside(ball, got * 1.02)[decided].mean() > 0.8


def test_degenerate_values_leave_their_vectors_open():
    """The eigenvectors of a multiple of the identity may be any; their projector is decided."""
    a = np.diag([2, 2, 2, 5]).astype(np.float32)

    def vectors(a):
        return jnp.linalg.eigh(a)[1][:, :3]

    def projector(a):
        v = vectors(a)
        return v @ v.T

    ((ball, got),) = sampled(vectors, a)
    assert np.broadcast_to(ball.und, ball.dims)[:3].all()
    ((ball, got),) = sampled(projector, a)
    assert not outside(ball, got).any()
    assert ball.und is None or not ball.und[np.eye(4, dtype=bool) & (np.arange(4) < 3)].any()


@pytest.mark.parametrize(("dtype", "kind"), KINDS)
def test_calls_of_old_releases(dtype, kind):
    real = {"s": "f32", "d": "f64", "c": "f32", "z": "f64"}[kind]
    is_complex = kind in "cz"
    a = definite(4, 4, dtype=dtype)
    name = "heevd" if is_complex else "syevd"
    results = (
        f"A[4,4], {real}[4], s32[], A[25], {real}[53], s32[23]" if is_complex else "A[4,4], A[4], s32[], A[57], s32[23]"
    )
    _, values, info, *_ = reference(old_call(f"lapack_{kind}{name}", results, "1 1 4", "A[4,4]", kind), [a])
    np.testing.assert_allclose(values.mid, np.linalg.eigvalsh(wide(a)), rtol=1e-10)
    assert values.und is None
    assert info.exact
    b = matrix(5, 3, dtype=dtype)
    results = f"A[5,3], {real}[3], A[5,5], A[3,3], s32[], s32[24], A[210]"
    _, s, u, vh, info, *_ = reference(old_call(f"lapack_{kind}gesdd", results, "1 1 1 5 3 210", "A[5,3]", kind), [b])
    np.testing.assert_allclose(s.mid, np.linalg.svd(wide(b), compute_uv=False), rtol=1e-10)
    assert u.und.all()
    assert vh.und.all()
    general = matrix(4, 4, dtype=dtype)
    complex_type = {"s": "c64", "d": "c128", "c": "c64", "z": "c128"}[kind]
    vectors = f"{complex_type}[4,4], {complex_type}[4,4], s32[]"
    results = f"A[4,4], {real}[4], A[4], {vectors}" if is_complex else f"A[4,4], A[4,4], A[4,4], A[4], A[4], {vectors}"
    found = reference(old_call(f"lapack_{kind}geev", results, "1 4 78 86", "A[4,4]", kind), [general])
    values = found[2].mid if is_complex else found[3].mid + 1j * found[4].mid
    np.testing.assert_allclose(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(wide(general))), rtol=1e-10)
    right = found[-2].mid
    np.testing.assert_allclose(wide(general) @ right, right * values, atol=1e-10)
    results = (
        f"A[4,4], {real}[4], A[4], A[4,4], s32[], s32[]" if is_complex else "A[4,4], A[4], A[4], A[4,4], s32[], s32[]"
    )
    t, *_, z, selected, info = reference(
        old_call(f"lapack_{kind}gees", results, "1 4 86 78", "A[4,4]", kind), [general]
    )
    np.testing.assert_allclose(z.mid @ t.mid @ z.mid.conj().T, wide(general), atol=1e-10)
    np.testing.assert_allclose(np.sort_complex(scipy.linalg.eigvals(t.mid)), np.sort_complex(values), rtol=1e-8)
    assert selected.mid == 0


def test_not_finite_input_is_undecided():
    a = definite(3, 4, 4)
    a[1, 2, 2] = np.nan
    (values,) = agree(jnp.linalg.eigvalsh, a, decided=False)
    assert np.broadcast_to(values.und, values.dims).all(1).tolist() == [False, True, False]


def test_a_solution_with_zeros_is_decided():
    """An output of which balls decide nothing takes its scale from the sampled runs."""
    a = matrix(6, 3)
    (ball, got), *_ = sampled(lambda a: jnp.linalg.lstsq(a, a[:, 0])[0], a)
    assert not outside(ball, got).any()
    assert ball.und is None or not ball.und.any()
    assert outside(ball, got + np.float32(1e-3)).all()
