"""fft against XLA:CPU and the definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla_cpu import assert_agree, outside

RNG = np.random.default_rng(7)


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
            jnp.fft.fft(z, n=101),
        ]

    x = RNG.normal(size=(3, 6, 10))
    z = x + 1j * RNG.normal(size=x.shape)
    if not wide:
        x, z = x.astype(np.float32), z.astype(np.complex64)
    with jax.enable_x64(wide):
        balls = assert_agree(f, x, z)
    np.testing.assert_allclose(balls[0].mid, np.fft.fft(z.astype(complex)), atol=1e-12)


@pytest.mark.parametrize("n", [64, 1000, 4096, 1009])
@pytest.mark.parametrize("kind", ["noise", "tone", "constant", "impulse"])
def test_long_transforms(n, kind):
    t = np.arange(n)
    x = {
        "noise": RNG.normal(size=n),
        "tone": np.cos(2 * np.pi * 5 * t / n),
        "constant": np.full(n, 0.3),
        "impulse": t == 3,
    }
    (ball,) = assert_agree(jnp.fft.fft, x[kind].astype(np.complex64))
    rolled = np.roll(ball.mid, 1)
    assert outside(ball, rolled).any() or kind == "impulse"
    assert ball.rad.max() < 1e-4 * np.sqrt((np.abs(ball.mid) ** 2).sum())


def test_radii_and_specials():
    x = RNG.normal(size=(4, 16)).astype(np.float32)
    (ball,) = assert_agree(lambda x: jnp.fft.rfft(jnp.exp(x)), x)
    assert ball.rad is not None
    x[1, 3] = np.inf
    (ball,) = assert_agree(jnp.fft.rfft, x, decided=False)
    assert ball.und.all(1).tolist() == [False, True, False, False]
