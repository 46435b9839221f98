"""Bounds from above on sums of products that are not negative, in float32 BLAS: twice as fast as float64.

Magnitudes and radii need no more than a few digits, as long as they are not too small. A sum of n products in
float32, operands rounded to it, is off by at most a factor of (1 - 2**-24)**(n + 2), in any order, where nothing
overflows or is subnormal (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1). So operands are scaled to at
most 1, their smallest products are kept above the smallest normal number, and the result is lifted by more than that
factor. Zeros stay zeros. Where float32 will not do, the product is taken in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, ldexp

import numpy as np

from assay.reference.value import Array

Bilinear = Callable[[Array, Array], Array]

SMALL = 1 << 12  # elements of both operands up to which it is not worth it
MOST_TERMS = 1 << 16
NORMAL = -126  # log2 of the smallest normal float32


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that is not negative. narrow: times 2**-exponent in float32, all at most 1; None where that will not
    do. least: the exponent of its smallest element that is not zero.
    """

    wide: Array
    narrow: Array | None
    exponent: int
    least: int


def operand(x: Array) -> Operand:
    """Prepares `x` (float64, not negative, no -0) to be a factor of `upper_bound`."""
    most = float(x.max(initial=0.0))
    if not 0 < most < float("inf"):
        return Operand(x, None, 0, 0)
    exponent = frexp(most)[1]
    # Bits are in the order of the numbers; less one, zero is the largest.
    less: Array = x.view(np.uint64) - np.uint64(1)
    smallest = np.uint64(int(less.min()) + 1).view(np.float64)
    least = frexp(float(smallest))[1] - 1 - exponent
    if least < NORMAL or not -1000 < exponent < 1000:
        return Operand(x, None, 0, 0)
    return Operand(x, (x * ldexp(1.0, -exponent)).astype(np.float32), exponent, least)


def upper_bound(f: Bilinear, a: Operand, b: Operand, terms: int) -> Array:
    """At least f(a, b), each of whose elements is a sum of at most `terms` products, and at most (terms + 8) 2**-22
    above it, relatively.
    """
    small = a.wide.size + b.wide.size <= SMALL
    if a.narrow is None or b.narrow is None or small or terms > MOST_TERMS or a.least + b.least < NORMAL:
        return f(a.wide, b.wide)
    found = f(a.narrow, b.narrow).astype(np.float64)
    found *= ldexp(1 + (terms + 8) * 2.0**-23, a.exponent)
    found *= ldexp(1.0, b.exponent)
    return found
