"""The rules for factorizations and solves of docs/bounds.md: the exact result, in rational numbers or to 40 digits, and
f32 algorithms that take their sums in different orders lie in the ball.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from elements import POLICY
from exact import fraction
from xla_cpu import reference

F32 = np.float32


def matrix(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Lower triangles: well conditioned, graded over many binades, and one whose solutions cancel (Higham, 8.2)."""
    a = np.tril(rng.normal(size=(n, n)))
    a[np.arange(n), np.arange(n)] = rng.uniform(1, 2, n) * np.sqrt(n)
    if kind == "graded":
        a *= 2.0 ** -np.arange(n)[:, None]
    elif kind == "cancelling":
        a = np.tril(-np.ones((n, n)), -1) * 0.7 + np.eye(n)
    return a.astype(F32)


def solve_text(n: int, k: int) -> str:
    return (
        f"HloModule m\n\nENTRY e {{\n  a = f32[{n},{n}] parameter(0)\n  b = f32[{n},{k}] parameter(1)\n"
        f"  ROOT x = f32[{n},{k}] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE\n}\n"
    )


def by_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.zeros_like(b)
    for i in range(len(a)):
        total = b[i].copy()
        for j in range(i):
            total = total - a[i, j] * x[j]
        x[i] = total / a[i, i]
    return x


def by_columns(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Outer products, contracted, with a reciprocal diagonal."""
    rest = b.copy()
    x = np.zeros_like(b)
    for j in range(len(a)):
        x[j] = rest[j] * (F32(1) / a[j, j])
        for i in range(j + 1, len(a)):
            rest[i] = (rest[i] - a[i, j].astype(np.float64) * x[j]).astype(F32)
    return x


def by_inverse_blocks(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Halves: the lower right one after the upper left one, sums taken backwards."""
    n = len(a)
    if n <= 2:
        return by_rows(a, b)
    half = n // 2
    top = by_inverse_blocks(a[:half, :half], b[:half])
    product = np.zeros_like(b[half:])
    for j in reversed(range(half)):
        product = product + a[half:, j, None] * top[j]
    return np.concatenate([top, by_inverse_blocks(a[half:, half:], b[half:] - product)])


@pytest.mark.parametrize("kind", ["well conditioned", "graded", "cancelling"])
def test_triangular_solves(kind):
    rng = np.random.default_rng(len(kind))
    n, k = 14, 3
    a, b = matrix(rng, n, kind), rng.normal(size=(n, k)).astype(F32)
    (ball,) = reference(solve_text(n, k), [a, b], POLICY)
    und = np.zeros(ball.dims, bool) if ball.und is None else ball.und
    exact = np.zeros((n, k))
    rows: list[list[Fraction]] = []
    for i in range(n):
        row = []
        for c in range(k):
            rest = sum((fraction(a[i, j]) * rows[j][c] for j in range(i)), Fraction(0))
            row.append((fraction(b[i, c]) - rest) / fraction(a[i, i]))
        rows.append(row)
        exact[i] = [float(v) for v in row]
    rad = np.zeros(ball.dims) if ball.rad is None else ball.rad
    assert (und | (np.abs(exact - ball.mid) <= rad * (1 + 1e-9) + 1e-15 * np.abs(exact))).all()
    assert und.mean() < 0.5
    for algorithm in (by_rows, by_columns, by_inverse_blocks):
        assert (und | (np.abs(algorithm(a, b) - ball.mid) <= rad * (1 + 1e-9))).all(), algorithm.__name__


def cholesky_text(n: int) -> str:
    return (
        f"HloModule m\n\nENTRY e {{\n  a = f32[{n},{n}] parameter(0)\n"
        f"  ROOT l = f32[{n},{n}] cholesky(a), lower=true\n}}\n"
    )


def left_looking(a: np.ndarray) -> np.ndarray:
    n = len(a)
    found = np.zeros_like(a)
    for j in range(n):
        column = a[j:, j].copy()
        for k in range(j):
            column = column - found[j:, k] * found[j, k]
        found[j:, j] = column / np.sqrt(column[0])
    return found


def right_looking(a: np.ndarray) -> np.ndarray:
    n = len(a)
    rest = a.copy()
    found = np.zeros_like(a)
    for j in range(n):
        root = np.sqrt(rest[j, j])
        found[j:, j] = rest[j:, j] * (F32(1) / root)
        found[j, j] = root
        outer = np.outer(found[j + 1 :, j].astype(np.float64), found[j + 1 :, j])
        rest[j + 1 :, j + 1 :] = (rest[j + 1 :, j + 1 :] - outer).astype(F32)
    return found


@pytest.mark.parametrize("condition", [2.0, 100.0, 1e4])
def test_cholesky_factors(condition):
    rng = np.random.default_rng(int(condition))
    n = 10
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    a = (q * np.geomspace(1, 1 / condition, n)) @ q.T
    a = ((a + a.T) / 2).astype(F32)
    (ball,) = reference(cholesky_text(n), [a], POLICY)
    und = np.zeros(ball.dims, bool) if ball.und is None else ball.und
    lower = np.tri(n, dtype=bool)
    with mpmath.workdps(40):
        true = mpmath.cholesky(mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in a]))
        exact = np.array([[float(true[i, j]) for j in range(n)] for i in range(n)])
    assert not und[lower].any()
    assert (np.abs(exact - ball.mid) <= ball.rad * (1 + 1e-9) + 1e-14)[lower].all()
    for algorithm in (left_looking, right_looking):
        assert (np.abs(algorithm(a) - ball.mid) <= ball.rad * (1 + 1e-9))[lower].all(), algorithm.__name__
    wrong = left_looking(a * F32(1 + 2.0**-8))  # a bound that holds anything would hold this
    assert condition > 10 or (np.abs(wrong - ball.mid) > ball.rad)[lower].mean() > 0.5
