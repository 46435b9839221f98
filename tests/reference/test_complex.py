"""Complex operations: XLA:CPU, mpmath in the disk, branch cuts, and the overflows that once were bugs."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from elements import POLICY, apply
from jax import lax
from xla_cpu import assert_agree, assert_hlo_agrees

from assay.hlo.shape import DTYPES
from assay.reference.ops.complex import FUNCTIONS
from assay.reference.value import Ball

pytestmark = pytest.mark.usefixtures("x64")


def disk(z, r=None, dtype="c64"):
    mid = np.atleast_1d(np.asarray(z, np.complex128))
    return Ball(DTYPES[dtype], mid, None if r is None else np.broadcast_to(np.float64(r), mid.shape))


def draw(dtype, octaves, seed=0, count=1500):
    rng = np.random.default_rng([seed, octaves])
    z = 2.0 ** rng.uniform(-octaves, min(octaves, 100), count) * np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    z[:200] = rng.integers(-4, 5, 200) + 1j * rng.integers(-4, 5, 200)
    z[200:204] = [np.inf, np.nan, complex(0, np.inf), 0]
    return z.astype(dtype)


UNARY = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "logistic", "sin", "cos", "tan", "sign", "abs", "real",
    "imag", "conj", "neg", "asinh", "acosh", "atanh",
)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_agrees(name):
    for dtype, octaves in ((np.complex64, 6), (np.complex64, 100), (np.complex128, 30)):
        assert_agree(getattr(lax, name), draw(dtype, octaves), policy=POLICY, decided=False)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "eq", "ne"])
def test_binary_agrees(name):
    for dtype, octaves in ((np.complex64, 6), (np.complex64, 100), (np.complex128, 30)):
        x, y = draw(dtype, octaves), draw(dtype, octaves, seed=1)
        assert_agree(getattr(lax, name), x, y, policy=POLICY, decided=False)


TRUTH = {
    "exponential": mpmath.exp, "exponential-minus-one": mpmath.expm1, "log": mpmath.log,
    "log-plus-one": lambda z: mpmath.log(1 + z), "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "tanh": mpmath.tanh, "tan": mpmath.tan, "sine": mpmath.sin, "cosine": mpmath.cos,
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
}  # fmt: skip


@pytest.mark.parametrize("opcode", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_the_truth_lies_in_the_disk(opcode, dtype):
    rng = np.random.default_rng(0)
    z = 2.0 ** rng.uniform(-20, 4, 60) * np.exp(1j * rng.uniform(-3, 3, 60))
    r = np.abs(z) * 10.0 ** rng.uniform(-17, -1, 60)
    got = apply(opcode, disk(z, r, dtype))
    und = np.zeros(60, bool) if got.und is None else got.und
    assert und.mean() < 0.3
    with mpmath.workdps(40):
        for i in np.flatnonzero(~und):
            for angle in (None, 0, 2, 4):
                moved = mpmath.mpc(complex(z[i]))
                if angle is not None:
                    moved += mpmath.mpf(float(r[i])) * mpmath.expj(angle)
                assert abs(TRUTH[opcode](moved) - mpmath.mpc(complex(got.mid[i]))) <= got.rad[i] * (1 + 1e-12), z[i]


def test_products_and_quotients_of_disks():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=200) + 1j * rng.normal(size=200) for _ in range(2))
    ra, rb = np.abs(a) * 0.1, np.abs(b) * 0.1
    for opcode, function in (("multiply", np.multiply), ("divide", np.divide), ("add", np.add)):
        got = apply(opcode, disk(a, ra), disk(b, rb))
        assert got.und is None or not got.und.any()
        for da, db in ((1, 1j), (-1, -1j), (1j, -1), (-1j, 1)):
            assert (np.abs(function(a + da * ra, b + db * rb) - got.mid) <= got.rad).all()


def test_whole_numbers_are_exact():
    a, b = disk([1 + 2j, -3 + 4j]), disk([5 - 1j, 2j])
    for opcode in ("add", "subtract", "multiply"):
        assert apply(opcode, a, b).rad is None


@pytest.mark.parametrize(
    ("opcode", "z", "want"),
    [
        ("tan", 45j, 1j),  # jax#17172
        ("tan", -1 - 45j, -1j),
        ("tanh", 44, 1),
        ("log-plus-one", 5e19, np.log1p(5e19)),  # jax#19573
        ("log-plus-one", 3e-8j, 3e-8j),
        ("logistic", -200, 0),
    ],
)
def test_no_overflow_on_the_way(opcode, z, want):
    got = apply(opcode, disk(z))
    assert got.und is None or not got.und.any()
    assert abs(got.mid[0] - want) <= 1e-6 * max(abs(want), 1e-3)
    assert (0.0 if got.rad is None else got.rad[0]) < 1e-4


def test_branch_cuts():
    z = disk([-1 + 0j, complex(-1, -0.0), -1 + 1e-9j, 1 + 0j], [0, 0, 1e-6, 1e-6])
    for opcode in ("log", "sqrt"):
        assert apply(opcode, z).und.tolist() == [False, True, True, False]


def test_what_versions_do_differently_is_undecided():
    assert apply("multiply", disk([complex(np.inf, 1), 1e30]), disk([1j, 1e30])).und.tolist() == [True, True]
    assert apply("divide", disk([1, 1]), disk([0, 2])).und.tolist() == [True, False]
    assert apply("power", disk([0]), disk([2])).und.tolist() == [True]


def test_parts():
    made = apply(
        "complex",
        Ball(DTYPES["f32"], np.array([3.0]), np.array([0.3])),
        Ball(DTYPES["f32"], np.array([4.0]), np.array([0.4])),
        out="c64",
    )
    assert made.mid[0] == 3 + 4j
    assert np.isclose(made.rad[0], 0.5)
    assert apply("real", made, out="f32").mid[0] == 3
    assert apply("imag", made, out="f32").mid[0] == 4
    assert apply("abs", disk([3 + 4j]), out="f32").mid[0] == 5
    half = apply(
        "complex",
        Ball(DTYPES["f32"], np.array([np.inf])),
        Ball(DTYPES["f32"], np.array([4.0]), np.array([0.4])),
        out="c64",
    )
    assert half.und.tolist() == [True]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_logistic_next_to_its_poles(dtype):
    """1 + exp(-z) cancels at odd multiples of i pi: an error of the exponential counts |f|**2 times."""
    rng = np.random.default_rng(0)
    poles = 1j * np.pi * (2 * rng.integers(-40, 40, 4000) + 1)
    z = (poles + 10.0 ** rng.uniform(-3, 0, 4000) * np.exp(2j * np.pi * rng.random(4000))).astype(dtype)
    name = "c64" if dtype == np.complex64 else "c128"
    text = f"HloModule m\nENTRY e {{ z = {name}[4000] parameter(0)\n ROOT r = {name}[4000] logistic(z) }}"
    (ball,) = assert_hlo_agrees(text, z, decided=False)
    away = np.abs(ball.mid) < 2
    assert (ball.rad[away] < 100 * np.finfo(dtype).eps * np.abs(ball.mid[away])).all()
