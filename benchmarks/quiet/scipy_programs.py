"""jax.scipy: special functions, distributions, signals, images, minimisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.optimize
import jax.scipy.spatial.transform
from jax.scipy import special, stats

from programs import Entry, entries, gradient

V = "129"
VV = "129 129"
REAL = "f32 f64"
NARROW = "f32 bf16 f16"


def positive(x):
    return jnp.abs(x) + jnp.asarray(0.5, x.dtype)


def share(x):
    """Between 0 and 1, away from both."""
    return jax.nn.sigmoid(x)


SPECIAL = [
    ("gammaln",       special.gammaln,                             V, "f32 bf16 f64"),
    ("gammaln of positive", lambda x: special.gammaln(positive(x)), V, NARROW),
    ("gamma",         lambda x: special.gamma(positive(x)),        V, REAL),
    ("factorial",     special.factorial,                           V, "f32"),
    ("digamma",       special.digamma,                             V, REAL),
    ("digamma of positive", lambda x: special.digamma(positive(x)), V, "f32 bf16 f64"),
    ("polygamma",     lambda x: special.polygamma(1, positive(x)), V, REAL),
    ("polygamma 3",   lambda x: special.polygamma(3, positive(x)), V, "f32"),
    ("zeta",          lambda x: special.zeta(positive(x) + 1, 1.5), V, REAL),
    ("beta",          lambda x, y: special.beta(positive(x), positive(y)), VV, "f32"),
    ("betaln",        lambda x, y: special.betaln(positive(x), positive(y)), VV, REAL),
    ("betainc",       lambda x, y, z: special.betainc(positive(x), positive(y), share(z)), "65 65 65", "f32"),
    ("gammainc",      lambda x, y: special.gammainc(positive(x), positive(y)), VV, REAL),
    ("gammaincc",     lambda x, y: special.gammaincc(positive(x), positive(y)), VV, "f32"),
    ("erf",           special.erf,                                 V, NARROW),
    ("erfc",          special.erfc,                                V, REAL),
    ("erfcx like",    lambda x: jnp.exp(x * x) * special.erfc(positive(x)), V, "f32"),
    ("erfinv",        lambda x: special.erfinv(jnp.tanh(x)),       V, REAL),
    ("expi",          lambda x: special.expi(positive(x)),         V, REAL),
    ("exp1",          lambda x: special.exp1(positive(x)),         V, "f32"),
    ("i0",            special.i0,                                  V, REAL),
    ("i0e",           special.i0e,                                 V, "f32 bf16"),
    ("i1",            special.i1,                                  V, REAL),
    ("i1e",           special.i1e,                                 V, "f32 f64"),
    ("ndtr",          special.ndtr,                                V, "f32 f64"),
    ("ndtri",         lambda x: special.ndtri(share(x)),           V, REAL),
    ("log_ndtr",      special.log_ndtr,                            V, REAL),
    ("expit",         special.expit,                               V, NARROW),
    ("logit",         lambda x: special.logit(share(x)),           V, "f32 bf16 f64"),
    ("entr",          lambda x: special.entr(jnp.abs(x)),          V, NARROW),
    ("xlogy",         lambda x, y: special.xlogy(x, positive(y)),  VV, NARROW),
    ("xlog1py",       lambda x, y: special.xlog1py(x, positive(y)), VV, "f32 bf16"),
    ("rel_entr",      lambda x, y: special.rel_entr(positive(x), positive(y)), VV, REAL),
    ("kl_div",        lambda x, y: special.kl_div(positive(x), positive(y)), VV, "f32"),
    ("logsumexp",     lambda x: special.logsumexp(x, 1),           "33x65", "f32 bf16 f16 f64"),
    ("logsumexp weighted", lambda x, w: special.logsumexp(x, 1, jnp.abs(w)), "33x65 33x65", "f32"),
    ("logsumexp complex", lambda x: special.logsumexp(x, 1),       "33x65", "c64"),
    ("softmax",       lambda x: special.softmax(x, axis=1),             "33x65", NARROW),
    ("log_softmax",   lambda x: special.log_softmax(x, axis=1),         "33x65", NARROW),
    ("multigammaln",  lambda x: special.multigammaln(positive(x) + 3, 3), V, "f32"),
    ("spence",        lambda x: special.spence(positive(x)),       V, REAL),
    ("poch",          lambda x: special.poch(positive(x), 2.0),    V, "f32"),
    ("hyp1f1",        lambda x: special.hyp1f1(1.5, 2.5, x / 4),   "33", "f32"),
    ("bernoulli",     lambda x: special.bernoulli(8) * x,          "9", "f32"),
    ("grad gammaln",  gradient(lambda x: special.gammaln(positive(x))), V, REAL),
    ("grad erfinv",   gradient(lambda x: special.erfinv(jnp.tanh(x))), V, "f32"),
    ("grad logsumexp", gradient(lambda x: special.logsumexp(x, 1)), "33x65", "f32 bf16"),
    ("grad log_ndtr", gradient(special.log_ndtr),                  V, "f32"),
    ("grad gammainc", gradient(lambda x, y: special.gammainc(positive(x), positive(y)), (0, 1)), "65 65", "f32"),
    ("grad betainc",  gradient(lambda x: special.betainc(2.0, 3.0, share(x))), V, "f32"),
    ("grad ndtri",    gradient(lambda x: special.ndtri(share(x))), V, "f32"),
]  # fmt: skip

DISTRIBUTIONS = [
    ("norm.logpdf",        lambda x, m, s: stats.norm.logpdf(x, m, positive(s)), "129 129 129", "f32 bf16 f64"),
    ("norm.pdf",           stats.norm.pdf,                                       V, NARROW),
    ("norm.cdf",           stats.norm.cdf,                                       V, REAL),
    ("norm.logcdf",        stats.norm.logcdf,                                    V, "f32"),
    ("norm.ppf",           lambda x: stats.norm.ppf(share(x)),                   V, "f32"),
    ("norm.sf",            stats.norm.sf,                                        V, "f32"),
    ("beta.logpdf",        lambda x: stats.beta.logpdf(share(x), 2.5, 1.5),      V, REAL),
    ("beta.cdf",           lambda x: stats.beta.cdf(share(x), 2.5, 1.5),         V, "f32"),
    ("gamma.logpdf",       lambda x: stats.gamma.logpdf(positive(x), 2.5),       V, REAL),
    ("gamma.cdf",          lambda x: stats.gamma.cdf(positive(x), 2.5),          V, "f32"),
    ("cauchy.logpdf",      stats.cauchy.logpdf,                                  V, REAL),
    ("cauchy.cdf",         stats.cauchy.cdf,                                     V, "f32"),
    ("t.logpdf",           lambda x: stats.t.logpdf(x, 4.0),                     V, REAL),
    ("laplace.logpdf",     stats.laplace.logpdf,                                 V, NARROW),
    ("laplace.cdf",        stats.laplace.cdf,                                    V, "f32"),
    ("logistic.logpdf",    stats.logistic.logpdf,                                V, REAL),
    ("logistic.cdf",       stats.logistic.cdf,                                   V, "f32"),
    ("expon.logpdf",       lambda x: stats.expon.logpdf(positive(x)),            V, "f32"),
    ("pareto.logpdf",      lambda x: stats.pareto.logpdf(positive(x) + 1, 3.0),  V, "f32"),
    ("chi2.logpdf",        lambda x: stats.chi2.logpdf(positive(x), 3.0),        V, REAL),
    ("chi2.cdf",           lambda x: stats.chi2.cdf(positive(x), 3.0),           V, "f32"),
    ("uniform.logpdf",     lambda x: stats.uniform.logpdf(share(x), 0.0, 2.0),   V, "f32"),
    ("truncnorm.logpdf",   lambda x: stats.truncnorm.logpdf(x / 4, -2.0, 2.0),   V, "f32"),
    ("gennorm.logpdf",     lambda x: stats.gennorm.logpdf(x, 1.5),               V, "f32"),
    ("wrapcauchy.logpdf",  lambda x: stats.wrapcauchy.logpdf(positive(x), 0.3),  V, "f32"),
    ("vonmises.logpdf",    lambda x: stats.vonmises.logpdf(x / 2, 1.5),          V, REAL),
    ("poisson.logpmf",     lambda x: stats.poisson.logpmf(jnp.abs(x) % 9, 3.5),  "s32:129", "s32"),
    ("poisson.cdf",        lambda x: stats.poisson.cdf(jnp.abs(x) % 9, 3.5),     "s32:129", "s32"),
    ("bernoulli.logpmf",   lambda x: stats.bernoulli.logpmf(x % 2, 0.3),         "s32:129", "s32"),
    ("binom.logpmf",       lambda x: stats.binom.logpmf(x % 9, 8, 0.3),          "s32:129", "s32"),
    ("geom.logpmf",        lambda x: stats.geom.logpmf(x % 9 + 1, 0.3),          "s32:129", "s32"),
    ("nbinom.logpmf",      lambda x: stats.nbinom.logpmf(x % 9, 5, 0.4),         "s32:129", "s32"),
    ("betabinom.logpmf",   lambda x: stats.betabinom.logpmf(x % 9, 8, 2.0, 3.0), "s32:129", "s32"),
    ("multinomial.logpmf", lambda x: stats.multinomial.logpmf(x % 3, jnp.sum(x % 3), jnp.ones(5) / 5), "s32:5", "s32"),
    ("dirichlet.logpdf",   lambda x: stats.dirichlet.logpdf(jax.nn.softmax(x), jnp.full(5, 2.0, x.dtype)), "5", REAL),
    ("multivariate_normal", lambda x, a: stats.multivariate_normal.logpdf(x, jnp.zeros(5, x.dtype),
                                a @ a.T / 5 + jnp.eye(5, dtype=x.dtype)), "33x5 5x5", REAL),
    ("gaussian_kde",       lambda x, y: stats.gaussian_kde(x)(y),                "65 17", "f32"),
    ("rankdata",           lambda x: stats.rankdata(x % 9),                      "s32:65", "s32"),
    ("mode",               lambda x: stats.mode(x % 9)[0],                       "s32:65", "s32"),
    ("sem",                stats.sem,                                            V, "f32"),
    ("grad norm.logpdf",   gradient(lambda x, m, s: stats.norm.logpdf(x, m, positive(s)), (0, 1, 2)),
                           "65 65 65", "f32"),
    ("grad gamma.logpdf",  gradient(lambda x, a: stats.gamma.logpdf(positive(x), positive(a)), (0, 1)), "65 65", "f32"),
    ("grad t.logpdf",      gradient(lambda x: stats.t.logpdf(x, 4.0)),           V, "f32"),
]  # fmt: skip

OTHERS = [
    ("signal.convolve",    lambda x, y: jsp.signal.convolve(x, y, "same"),       "33x17 3x5", "f32 bf16 f64"),
    ("signal.fftconvolve", jsp.signal.fftconvolve,                               "65 9", REAL),
    ("signal.correlate2d", lambda x, y: jsp.signal.correlate2d(x, y, "valid"),   "17x19 3x4", "f32"),
    ("signal.detrend",     jsp.signal.detrend,                                   "5x65", "f32"),
    ("signal.stft",        lambda x: jsp.signal.stft(x, nperseg=32)[2],          "256", "f32"),
    ("signal.welch",       lambda x: jsp.signal.welch(x, nperseg=64)[1],         "256", "f32"),
    ("fft.dct",            jsp.fft.dct,                                          "9x32", REAL),
    ("fft.idct",           jsp.fft.idct,                                         "9x32", "f32"),
    ("fft.dctn",           jsp.fft.dctn,                                         "8x16", "f32"),
    ("ndimage.map_coordinates", lambda x, y: jsp.ndimage.map_coordinates(x, [y * 3 + 8, y[::-1] * 3 + 8], 1, "nearest"),
                           "17x19 65", "f32"),
    ("interpolate.RegularGrid", lambda v, x: jsp.interpolate.RegularGridInterpolator(
                               (jnp.linspace(-4, 4, 9), jnp.linspace(-4, 4, 7)), v)(x), "9x7 33x2", "f32"),
    ("integrate.trapezoid", jsp.integrate.trapezoid,                             "9x33", "f32 f64"),
    ("cluster.vq",         jsp.cluster.vq.vq,                                    "65x5 7x5", "f32"),
    ("spatial.Rotation",   lambda q, v: jsp.spatial.transform.Rotation.from_quat(q).apply(v), "9x4 9x3", "f32"),
    ("optimize.minimize",  lambda x: jsp.optimize.minimize(lambda v: jnp.sum((v - x) ** 2), jnp.zeros(3), method="BFGS",
                                                           options={"maxiter": 3}).x, "3", "f32"),
    ("sparse.cg",          lambda a, b: jsp.sparse.linalg.cg(a @ a.T / 5 + jnp.eye(5), b, maxiter=5)[0],
                           "5x5 5", "f32"),
    ("image.resize",       lambda x: jax.image.resize(x, (9, 50), "bilinear"),   "17x33", "f32 bf16"),
    ("image.resize cubic", lambda x: jax.image.resize(x, (25, 40), "cubic"),     "17x33", "f32"),
    ("image.resize nearest", lambda x: jax.image.resize(x, (25, 40), "nearest"), "17x33", "f32 u8"),
    ("image.scale_and_translate", lambda x, t: jax.image.scale_and_translate(
                               x, (9, 9), (0, 1), jnp.ones(2) * 0.6, t, "linear"), "17x17 2", "f32"),
]  # fmt: skip


def programs() -> list[Entry]:
    return [entry for table in (SPECIAL, DISTRIBUTIONS, OTHERS) for entry in entries("jax.scipy", table)]
