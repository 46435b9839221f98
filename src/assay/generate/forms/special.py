"""Special functions, each on what it is defined for."""

from __future__ import annotations

from functools import partial

from assay.generate.form import form
from assay.generate.forms.elementwise import plain

# Parameters begin at 1: below a half the logarithm of gamma is made by its reflection, and at that half either is.
# (name, expression, operands, weight)
SPECIAL = (
    ("igamma", "lax.igamma(lax.abs({0}) + ONE, lax.abs({1}))", 2, 0.05),
    ("igammac", "lax.igammac(lax.abs({0}) + ONE, lax.abs({1}))", 2, 0.05),
    ("igamma_grad_a", "lax.igamma_grad_a(lax.abs({0}) + ONE, lax.abs({1}) + ONE)", 2, 0.03),
    ("random_gamma_grad", "lax.random_gamma_grad(lax.abs({0}) + ONE, lax.abs({1}) + ONE)", 2, 0.03),
    ("betainc", "lax.betainc(lax.abs({0}) + ONE, lax.abs({1}) + ONE, lax.logistic({2}))", 3, 0.05),
    ("polygamma", "lax.polygamma(lax.full_like({0}, ONE), lax.abs({0}) + ONE)", 1, 0.05),
    ("zeta", "lax.zeta(lax.abs({0}) + TWO, lax.abs({1}) + ONE)", 2, 0.05),
    ("bessel_i0e", "lax.bessel_i0e({0})", 1, 0.2),
    ("bessel_i1e", "lax.bessel_i1e({0})", 1, 0.2),
    ("erf_inv", "lax.erf_inv(HALF * lax.sin({0}))", 1, 0.7),
    ("lgamma", "lax.lgamma(lax.abs({0}) + ONE)", 1, 0.3),
    ("digamma", "lax.digamma(lax.abs({0}) + ONE)", 1, 0.3),
)
_SMOOTH = {"bessel_i0e", "bessel_i1e", "erf_inv", "lgamma", "digamma"}
for _name, _text, _count, _weight in SPECIAL:
    form(_name, "special", "f32 f64", weight=_weight, smooth=_name in _SMOOTH)(partial(plain, _text, _count))
