"""jax.numpy.linalg, jax.numpy.fft, jax.scipy.linalg and einsum. Matrices that are solved with are well conditioned."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy as jsp

from programs import Entry, entries, gradient

M = "9x9"
NARROW = "f32 bf16 f16"
REAL = "f32 f64"
BOTH = "f32 f64 c64 c128"


def spd(x):
    """Hermitian and positive definite, with a condition of about 3."""
    n = x.shape[-1]
    return x @ jnp.conj(jnp.swapaxes(x, -1, -2)) / n + jnp.eye(n, dtype=x.dtype)


def near_one(x):
    n = x.shape[-1]
    return x / (3 * n) + jnp.eye(n, dtype=x.dtype)


PRODUCTS = [
    ("matmul",        jnp.matmul,
                      "33x65 65x17", "f32 bf16 f16 f64 c64 s8 s32 u8"),
    ("matmul batch",  jnp.matmul,                                             "3x17x33 3x33x9", "f32 bf16 c64 s32"),
    ("matvec",        jnp.matmul,                                             "33x65 65", "f32 bf16 f16 f64 c128"),
    ("vecmat",        jnp.matmul,                                             "33 33x65", "f32 bf16"),
    ("vdot",          jnp.vdot,                                               "257 257", "f32 bf16 f16 f64 c64 s32"),
    ("inner",         jnp.inner,                                              "9x65 17x65", "f32 bf16 s8"),
    ("tensordot",     lambda x, y: jnp.tensordot(x, y, ((1, 2), (0, 1))),     "5x7x9 7x9x3", "f32 bf16 c64 s32"),
    ("gram",          lambda x: x.T @ x,                                      "65x17", "f32 bf16 f64"),
    ("multi_dot",     lambda x, y, z: jnp.linalg.multi_dot((x, y, z)),        "9x33 33x17 17x5", "f32 f64"),
    ("matrix_power",  lambda x: jnp.linalg.matrix_power(near_one(x), 5),      M, "f32 f64 c64"),
    ("einsum ij,kj",  lambda x, y: jnp.einsum("ij,kj->ik", x, y),             "17x33 9x33", "f32 bf16 f16 c64 s32"),
    ("einsum ii",     lambda x: jnp.einsum("ii->i", x),                       "33x33", "f32 s8"),
    ("einsum bilinear", lambda x, w, y: jnp.einsum("bi,ijk,bj->bk", x, w, y), "9x5 5x7x3 9x7", "f32 bf16"),
    ("einsum heads",  lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),       "2x9x3x17 2x9x3x17", "f32 bf16 f16"),
    ("einsum chain",  lambda x, y, z: jnp.einsum("ij,jk,kl->il", x, y, z),    "9x17 17x33 33x5", "f32 f64"),
    ("einsum trace",  lambda x, y: jnp.einsum("ij,ji->", x, y),               "33x17 17x33", "f32 bf16 s32"),
    ("large matmul",  jnp.matmul,                                             "256x300 300x128", "f32 bf16"),
    ("mlp",           lambda x, w, v: jax.nn.relu(x @ w) @ v,                 "17x33 33x65 65x9", "f32 bf16 f16 f64"),
    ("grad matmul",   gradient(lambda x, y: (x @ y) ** 2, (0, 1)),            "17x33 33x9", "f32 bf16 f64"),
    ("grad einsum",   gradient(lambda x, w, y: jnp.einsum("bi,ijk,bj->bk", x, w, y) ** 2, (0, 1, 2)),
                      "9x5 5x7x3 9x7", "f32"),
    ("convolve",      lambda x, y: jnp.convolve(x, y, "same"),                "129 9", "f32 bf16 f64 c64 s32"),
    ("correlate",     lambda x, y: jnp.correlate(x, y, "full"),               "65 9", "f32 c64"),
    ("polymul",       jnp.polymul,                                            "9 5", "f32 s32"),
    ("distance matrix", lambda x, y: jnp.sqrt(jnp.sum((x[:, None] - y) ** 2, -1)), "17x5 9x5", NARROW),
    ("distances by a dot", lambda x, y: (x * x).sum(1)[:, None] - 2 * x @ y.T + (y * y).sum(1), "17x5 9x5", "f32 f64"),
]  # fmt: skip

DECOMPOSITIONS = [
    ("cholesky",      lambda x: jnp.linalg.cholesky(spd(x)),                  M, BOTH),
    ("cholesky 33",   lambda x: jnp.linalg.cholesky(spd(x)),                  "33x33", "f32 f64"),
    ("cholesky batch", lambda x: jnp.linalg.cholesky(spd(x)),                 "5x4x4", "f32 c64"),
    ("solve",         lambda x, y: jnp.linalg.solve(spd(x), y),               "9x9 9x3", BOTH),
    ("solve general", lambda x, y: jnp.linalg.solve(near_one(x), y),          "9x9 9", BOTH),
    ("inv",           lambda x: jnp.linalg.inv(spd(x)),                       M, BOTH),
    ("inv of drawn",  jnp.linalg.inv,                                         M, "f32 f64 c64"),
    ("det",           jnp.linalg.det,                                         M, "f32 f64 c64"),
    ("det of spd",    lambda x: jnp.linalg.det(spd(x)),                       M, BOTH),
    ("slogdet",       lambda x: jnp.linalg.slogdet(spd(x)),                   M, "f32 f64 c64"),
    ("qr R",          lambda x: jnp.abs(jnp.linalg.qr(x, mode="r")),          "17x5", REAL),
    ("qr",            lambda x: jnp.matmul(*jnp.linalg.qr(x)),                "17x5", REAL),
    ("svd values",    lambda x: jnp.linalg.svd(x, compute_uv=False),          "17x5", BOTH),
    ("eigh values",   lambda x: jnp.linalg.eigvalsh(spd(x)),                  M, BOTH),
    ("eigvals sum",   lambda x: jnp.linalg.eigvals(near_one(x)).sum(),        M, "f32 f64"),
    ("pinv",          jnp.linalg.pinv,                                        "17x5", REAL),
    ("lstsq",         lambda x, y: jnp.linalg.lstsq(x, y)[0],                 "17x5 17", REAL),
    ("matrix_rank",   jnp.linalg.matrix_rank,                                 "17x5", "f32"),
    ("cond",          lambda x: jnp.linalg.cond(spd(x)),                      M, "f32"),
    ("norm nuc",      lambda x: jnp.linalg.norm(x, "nuc"),                    "9x5", "f32"),
    ("norm 1",        lambda x: jnp.linalg.norm(x, 1),                        "33x17", "f32 c64"),
    ("norm fro",      jnp.linalg.norm,                                        "33x17", "f32 bf16 f64 c64"),
    ("expm",          lambda x: jsp.linalg.expm(x / 9),                       M, "f32 f64 c64"),
    ("sqrtm of spd",  lambda x: jsp.linalg.cho_factor(spd(x))[0],             M, "f32"),
    ("lu",            lambda x: jsp.linalg.lu_factor(near_one(x)),            M, "f32 f64 c64"),
    ("lu solve",      lambda x, y: jsp.linalg.lu_solve(jsp.linalg.lu_factor(near_one(x)), y), "9x9 9", REAL),
    ("cho_solve",     lambda x, y: jsp.linalg.cho_solve((jnp.linalg.cholesky(spd(x)), True), y), "9x9 9x2", "f32 c64"),
    ("solve_triangular", lambda x, y: jsp.linalg.solve_triangular(near_one(x), y, lower=True), "9x9 9x3", BOTH),
    ("solve_triangular T", lambda x, y: jsp.linalg.solve_triangular(near_one(x), y, trans=1), "9x9 9", "f32"),
    ("triangular unit", lambda x, y: jsp.linalg.solve_triangular(x / 9, y, unit_diagonal=True), "9x9 9x3", "f32 f64"),
    ("block_diag",    jsp.linalg.block_diag,                                  "3x5 2x2", "f32 s32"),
    ("toeplitz",      jsp.linalg.toeplitz,                                    "17", "f32 s32"),
    ("hilbert times", lambda x: jsp.linalg.hilbert(9) @ x,                    "9", "f32"),
    ("tridiagonal_solve", lambda a, d, c, b: jax.lax.linalg.tridiagonal_solve(a / 9, d / 9 + 2, c / 9, b),
                      "17 17 17 17x2", REAL),
    ("mahalanobis",   lambda x, y: jnp.sum(y * jnp.linalg.solve(spd(x), y)),  "9x9 9", "f32 f64"),
    ("gaussian log density", lambda x, y: -0.5 * jnp.sum(jsp.linalg.solve_triangular(
                          jnp.linalg.cholesky(spd(x)), y, lower=True) ** 2), "9x9 9", "f32 f64"),
    ("grad cholesky", gradient(lambda x: jnp.linalg.cholesky(spd(x))),        "5x5", REAL),
    ("grad solve",    gradient(lambda x, y: jnp.linalg.solve(spd(x), y), (0, 1)), "5x5 5", REAL),
    ("grad slogdet",  gradient(lambda x: jnp.linalg.slogdet(spd(x))[1]),      "5x5", REAL),
    ("grad inv",      gradient(lambda x: jnp.linalg.inv(near_one(x))),        "5x5", "f32"),
    ("grad eigvalsh", gradient(lambda x: jnp.linalg.eigvalsh(spd(x))[-1]),    "5x5", "f32"),
]  # fmt: skip

FOURIER = [
    ("fft",           jnp.fft.fft,                                            "17x64", "f32 f64 c64 c128"),
    ("fft of 45",     jnp.fft.fft,                                            "9x45", "f32 c64"),
    ("fft of a prime", jnp.fft.fft,                                           "9x31", "c64 c128"),
    ("ifft",          jnp.fft.ifft,                                           "17x64", "c64 c128"),
    ("rfft",          jnp.fft.rfft,                                           "17x64", REAL),
    ("irfft",         jnp.fft.irfft,                                          "17x33", "c64 c128"),
    ("fft2",          jnp.fft.fft2,                                           "16x32", "f32 c64"),
    ("ifft2",         jnp.fft.ifft2,                                          "16x32", "c64"),
    ("fftn",          jnp.fft.fftn,                                           "8x8x16", "c64 c128"),
    ("rfft2",         jnp.fft.rfft2,                                          "16x32", REAL),
    ("hfft",          jnp.fft.hfft,                                           "17x9", "c64"),
    ("fft padded",    lambda x: jnp.fft.fft(x, 128),                          "9x100", "c64"),
    ("fftshift",      jnp.fft.fftshift,                                       "17x9", "f32 c64"),
    ("fft round trip", lambda x: jnp.fft.irfft(jnp.fft.rfft(x)),              "17x64", REAL),
    ("fft convolution", lambda x, y: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(y)), "64 64", REAL),
    ("power spectrum", lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2,               "17x64", REAL),
    ("grad fft",      gradient(lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2),      "64", "f32"),
]  # fmt: skip


def programs() -> list[Entry]:
    rows = {"jax.numpy": PRODUCTS, "jax.numpy.linalg": DECOMPOSITIONS, "jax.numpy.fft": FOURIER}
    return [entry for library, table in rows.items() for entry in entries(library, table)]
