"""Elementwise functions to many digits, for judging a file's expectation where it and the reference differ.

Defined by mpmath at 60 digits, independent of the reference, of NumPy and of XLA. mpmath is needed only where a file
fails, and is not among what assay itself installs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.errors import AssayError

DIGITS = 60


def functions() -> dict[str, Callable[..., Any]]:
    """By the name that the collection gives them. Raises AssayError where mpmath is not installed."""
    try:
        import mpmath  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        message = "a failure can be explained only with mpmath, which is not installed; pip install mpmath"
        raise AssayError(message) from None
    mp = mpmath.mp.clone()
    mp.dps = DIGITS
    return {
        "acos": mp.acos,
        "acosh": mp.acosh,
        "asin": mp.asin,
        "asinh": mp.asinh,
        "atan": mp.atan,
        "atan2": mp.atan2,
        "atanh": mp.atanh,
        "bessel_i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
        "bessel_i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "cos": mp.cos,
        "cosh": mp.cosh,
        "digamma": mp.digamma,
        "div": lambda a, b: a / b,
        "erf": mp.erf,
        "erf_inv": mp.erfinv,
        "erfc": mp.erfc,
        "exp": mp.exp,
        "expm1": mp.expm1,
        "igamma": lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        "igammac": lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
        "log": mp.log,
        "log1p": mp.log1p,
        "logistic": lambda x: 1 / (1 + mp.exp(-x)),
        "mul": lambda a, b: a * b,
        "pow": mp.power,
        "regularized_incomplete_beta": lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        "rsqrt": lambda x: 1 / mp.sqrt(x),
        "sin": mp.sin,
        "sinh": mp.sinh,
        "sqrt": mp.sqrt,
        "tan": mp.tan,
        "tanh": mp.tanh,
    }
