"""XLA:CPU rewrites divisions so that what lies between overflows or vanishes although the quotient does neither.
Wrong in jaxlib 0.4.13, 0.6.2, 0.10.2 and 0.12.0.1 (the constant divisor: 0.10.2 and 0.12.0.1), the ones tried.

    assay check findings/division_rewrites.py

a / (b / c) becomes a * c / b, and a * c overflows; (a / b) / c becomes a / (b * c), and b * c does (also on a TPU,
libtpu 0.0.52). (a / b) / (c / a) becomes a * a / (b * c), and a * a vanishes in
f16. x / c for a constant c becomes x * (1 / c), and 1 / c is subnormal and flushed to zero.
"""

import numpy as np

RTOL = 1e-2


def by_a_quotient(a, b, c):
    return a / (b / c)


def of_a_quotient(a, b, c):
    return a / b / c


def of_quotients(a, b, c):
    return (a / b) / (c / a)


def by_a_large_constant(x):
    return x / np.float32(3e38)


def cases():
    f16 = [np.float16(v) for v in (-169.2, -822, -3468)]
    yield "a / (b / c) in f16", by_a_quotient, tuple(f16), np.float16(-714)
    f32 = [np.float32(v) for v in (-3.84e24, -9.84e31, -6.46e27)]
    yield "a / (b / c) in f32", by_a_quotient, tuple(f32), np.float32(f32[0] / (f32[1] / f32[2]))
    large = [np.float32(v) for v in (3e22, 2e22, 5e21)]
    yield "(a / b) / c in f32", of_a_quotient, tuple(large), np.float32(large[0] / large[1] / large[2])
    small = [np.float16(v) for v in (-1.519e-4, 3.156, 0.010155)]
    yield "(a / b) / (c / a) in f16", of_quotients, tuple(small), None
    x = np.float32([1e38, 2e38])
    yield "x / 3e38 in f32", by_a_large_constant, (x,), x / np.float32(3e38)
