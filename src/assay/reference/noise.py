"""Random numbers for sampled runs, cheap enough that drawing them is not what such a run takes its time for."""

from __future__ import annotations

from math import prod

import numpy as np

from assay.reference.value import Array

POOL = 1 << 18
FEW = 1 << 10


class Noise:
    """Uniform draws from (-1, 1). Few are drawn afresh; many are a stretch of a pool, from a random place and with a
    random sign, so that two stretches that overlap are uncorrelated.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.pool: Array | None = None

    def draw(self, dims: tuple[int, ...], shift: float) -> Array:
        """An array of `dims`, each element a draw plus `shift`."""
        count = prod(dims)
        if count <= FEW or count > POOL // 2:
            return 2.0 * self.rng.random(dims) + (shift - 1.0)
        if self.pool is None:
            self.pool = 2.0 * self.rng.random(POOL) - 1.0
        start = int(self.rng.random() * (POOL - count))
        stretch = self.pool[start : start + count].reshape(dims)
        return stretch + shift if self.rng.random() < 0.5 else shift - stretch
