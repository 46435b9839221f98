"""fft against XLA:CPU, against the definition in mpmath and integers, and the tightness of its bound."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from xla_cpu import assert_agree, hlo_text, outside, reference

RNG = np.random.default_rng(7)
LENGTHS = [1, 2, 3, 5, 8, 13, 31, 47, 64, 97, 100, 101, 128, 210, 509, 1000]
LONG = [1009, 1024, 2310, 3125, 4096, 5040, 8191, 16384, 30030, 65536]
SIGNALS = ("noise", "tone", "between", "constant", "impulse", "spread")


def signal(kind, n):
    t = np.arange(n)
    return {
        "noise": RNG.normal(size=n),
        "tone": np.cos(2 * np.pi * (n // 3) * t / n),
        "between": np.cos(2 * np.pi * 0.37 * t),  # of period 100 and of no frequency of the transform
        "constant": np.full(n, 0.3),
        "impulse": (t == min(3, n - 1)) * 0.7,
        "spread": np.exp(5 * RNG.normal(size=n)),
    }[kind]


def transforms(n, kind, wide=False):
    """(function, argument) for the four kinds."""
    x = signal(kind, n).astype(np.float64 if wide else np.float32)
    z = (x + 1j * np.roll(x, 1)).astype(np.complex128 if wide else np.complex64)
    yield jnp.fft.fft, z
    yield jnp.fft.ifft, z
    yield jnp.fft.rfft, x
    if n > 1:
        yield lambda z: jnp.fft.irfft(z, n=n), z[: n // 2 + 1]


@pytest.mark.parametrize("wide", [False, True])
def test_agrees_with_xla(wide):
    def f(x, z):
        return [
            jnp.fft.fft(z),
            jnp.fft.ifft(z),
            jnp.fft.rfft(x),
            jnp.fft.irfft(z),
            jnp.fft.irfft(z, n=13),
            jnp.fft.fft2(z),
            jnp.fft.rfftn(x),
            jnp.fft.irfftn(z),
            jnp.fft.fftn(z),
            jnp.fft.ifftn(z),
            jnp.fft.irfftn(z, s=(3, 6, 9)),
            jnp.fft.fft(z, n=101),
        ]

    x = RNG.normal(size=(3, 6, 10))
    z = x + 1j * RNG.normal(size=x.shape)
    if not wide:
        x, z = x.astype(np.float32), z.astype(np.complex64)
    with jax.enable_x64(wide):
        balls = assert_agree(f, x, z)
    np.testing.assert_allclose(balls[0].mid, np.fft.fft(z.astype(complex)), atol=1e-12)
    np.testing.assert_allclose(balls[7].mid, np.fft.irfftn(z.astype(complex)), atol=1e-12)


@pytest.mark.parametrize("n", [6, 47, 64, 101, *(pytest.param(n, marks=pytest.mark.slow) for n in LENGTHS + LONG)])
def test_every_length_and_signal(n):
    for kind in SIGNALS:
        for f, x in transforms(n, kind):
            (ball,) = assert_agree(f, x)
            if kind == "noise" and n > 4:
                got = np.asarray(jax.jit(f)(x))
                deviation = np.abs(got - ball.mid).max()
                assert np.median(ball.rad) < 400 * deviation
                assert outside(ball, np.roll(got, 1)).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 101, 1024, 4096, 8191])
def test_every_length_in_f64(n):
    with jax.enable_x64(True):
        for kind in SIGNALS:
            for f, x in transforms(n, kind, wide=True):
                assert_agree(f, x)


@pytest.mark.parametrize("n", [5, 12, 29])
def test_midpoints_are_the_definition(n):
    """The sum of x_j exp(-2 pi i j k / n) in 40 digits lies in the ball of a double-precision transform."""
    z = RNG.normal(size=n) + 1j * RNG.normal(size=n)
    with jax.enable_x64(True):
        (ball,) = reference(hlo_text(jnp.fft.fft, z), [z])
    with mpmath.workdps(40):
        for k in range(n):
            terms = (mpmath.mpmathify(complex(z[j])) * mpmath.expjpi(mpmath.mpf(-2 * j * k) / n) for j in range(n))
            assert abs(mpmath.fsum(terms) - mpmath.mpmathify(complex(ball.mid[k]))) <= ball.rad[k]


@pytest.mark.parametrize("dims", [(8, 12), (7, 9, 10)])
def test_several_dimensions(dims):
    for pattern in (RNG.normal(size=dims), np.ones(dims) * np.cos(np.arange(dims[-1])), np.ones(dims)):
        x = pattern.astype(np.float32)
        z = (x + 1j * x[..., ::-1]).astype(np.complex64)
        for f, arg in ((jnp.fft.fftn, z), (jnp.fft.ifftn, z), (jnp.fft.rfftn, x), (jnp.fft.irfftn, z)):
            (ball,) = assert_agree(f, arg)
    assert outside(ball, ball.mid * 1.001).any()


def test_radii_and_specials():
    x = RNG.normal(size=(4, 16)).astype(np.float32)
    (ball,) = assert_agree(lambda x: jnp.fft.rfft(jnp.exp(x)), x)
    assert ball.rad is not None
    x[1, 3] = np.inf
    (ball,) = assert_agree(jnp.fft.rfft, x, decided=False)
    assert ball.und.all(1).tolist() == [False, True, False, False]


DUCC = """HloModule m

ENTRY e {{
  descriptor = u8[{size}] constant({{{table}}})
  shape = s32[{rank}] constant({{{shape}}})
  scale = f64[1] constant({{{scale}}})
  x = {x} parameter(0)
  ROOT r = {y} custom-call(descriptor, x, shape, shape, shape, scale, shape), custom_call_target="dynamic_ducc_fft"
}}
"""
FORWARD = "20,0,0,0,0,0,14,0,16,0,8,0,6,0,0,0,12,0,7,0,14,0,0,0,0,0,1,1,3,0,0,0,4,0,0,0"
BACKWARD = "16,0,0,0,12,0,16,0,8,0,7,0,0,0,12,0,12,0,0,0,0,0,0,1,3,0,0,0,4,0,0,0"


@pytest.mark.parametrize(
    ("table", "axes", "shapes", "shape", "scale", "exact"),
    [
        (FORWARD, (2,), ("c64[2,6,8]", "c64[2,6,8]"), (2, 6, 8), 1, np.fft.fft),
        (FORWARD, (1, 2), ("c64[2,6,8]", "c64[2,6,8]"), (2, 6, 8), 1, np.fft.fft2),
        (BACKWARD, (2,), ("c64[2,6,8]", "c64[2,6,8]"), (2, 6, 8), 0.125, np.fft.ifft),
        (FORWARD, (2,), ("f32[2,6,8]", "c64[2,6,5]"), (2, 6, 8), 1, np.fft.rfft),
        (BACKWARD, (2,), ("c64[2,6,8]", "f32[2,6,14]"), (2, 6, 14), 1 / 14, np.fft.irfft),
    ],
)
def test_calls_of_old_releases(table, axes, shapes, shape, scale, exact):
    """Descriptors as jaxlib 0.4.13 writes them."""
    table = ",".join([table, str(len(axes)), "0,0,0", *(f"{axis},0,0,0" for axis in axes)])
    text = DUCC.format(
        size=table.count(",") + 1, table=table, rank=len(shape), shape=",".join(map(str, shape)), scale=scale,
        x=shapes[0], y=shapes[1],
    )  # fmt: skip
    x = RNG.normal(size=(2, 6, 8)).astype(np.float32)
    if shapes[0].startswith("c"):
        x = (x + 1j * x[::-1]).astype(np.complex64)
    (ball,) = reference(text, [x])
    np.testing.assert_allclose(ball.mid, exact(x.astype(complex if x.dtype.kind == "c" else float)), atol=1e-12)
    assert ball.rad.max() < 1e-3
