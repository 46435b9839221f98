"""Programs made at random: a chain of steps over a few arrays, in which every kind of fault has a place.

Floats that dots and convolutions made are kept apart from those that integers are made of: what rounding may decide
either way would hide a fault behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

N, LONG = 12, 300
State = dict[str, jax.Array]  # f, g: f32[N,N]; i: s32[N,N]; v: s32[LONG]


def start(i: jax.Array) -> jax.Array:
    """A start index that the data decide: 0 to 7."""
    return i[0, 0] & 7


STEPS: dict[str, Callable[[State], State]] = {
    "wrap":     lambda s: {"i": (s["i"] * 37 - 5).astype(jnp.int8).astype(jnp.int32) + s["i"]},
    "widen":    lambda s: {"v": s["v"] + (s["v"] * 11 - 300).astype(jnp.int16).astype(jnp.int32)},
    "truncate": lambda s: {"f": s["f"] + (s["f"] * 3.7).astype(jnp.int32).astype(jnp.float32)},
    "window":   lambda s: {"f": lax.dynamic_slice(jnp.concatenate([s["f"], s["f"] * 2 + 1]), (start(s["i"]), 0),
                                                  (N, N))},
    "rows":     lambda s: {"f": s["f"].at[s["i"][:, 0] % (N + 3)].get(mode="clip") + 0.25 * s["f"]},
    "clip":     lambda s: {"i": jnp.clip(s["i"], -6, 9) + (s["i"] >> 1)},
    "least":    lambda s: {"v": jnp.minimum(s["v"], 11) + s["v"][::-1]},
    "count":    lambda s: {"v": s["v"] + jnp.arange(LONG, dtype=jnp.int32) * 3},
    "count f":  lambda s: {"v": s["v"] ^ lax.iota(jnp.float32, LONG).astype(jnp.int32)},
    "frame":    lambda s: {"f": lax.pad(s["f"], jnp.float32(0.5), ((1, -1, 0), (2, -2, 0))) + s["f"]},
    "spread":   lambda s: {"i": lax.pad(s["i"], jnp.int32(0), ((0, 0, 1), (1, 0, 0)))[3 : 3 + N, :N] + s["i"]},
    "choose":   lambda s: {"f": jnp.where(s["i"] < 3, s["f"], 1 - 2 * s["f"])},
    "equal":    lambda s: {"i": jnp.where(s["i"] % 3 == 1, s["i"] * 2, s["i"] - 7)},
    "total":    lambda s: {"f": s["f"] * 0.5 + s["f"].max(0)[:, None] - s["f"].sum(1) / 8},
    "any":      lambda s: {"i": s["i"] + (s["i"] > 4).any(1).astype(jnp.int32)},
    "running":  lambda s: {"i": jnp.cumsum(s["i"], 1) % 41},
    "highest":  lambda s: {"f": lax.reduce_window(s["f"], -jnp.inf, lax.max, (3, 1), (1, 1), "SAME") - s["f"]},
    "turn":     lambda s: {"f": s["f"].T * 1.5 - s["f"]},
    "dot":      lambda s: {"g": s["g"] @ s["f"] / N + s["g"].T},
    "blur":     lambda s: {"g": lax.conv_general_dilated(s["g"][None, None], s["f"][None, None, :3, :3], (1, 1),
                                                         "SAME")[0, 0] / 3},
    "squash":   lambda s: {"f": jnp.tanh(s["f"]) * 2, "g": jnp.tanh(s["g"])},
    "loop":     lambda s: {"f": lax.fori_loop(0, 5, lambda k, f: f * 0.5 + k * f.T, s["f"])},
    "until":    lambda s: {"i": lax.while_loop(lambda c: c[0] < (c[1][0, 1] & 3) + 2, lambda c: (c[0] + 1, c[1] + c[0]),
                                               (jnp.int32(0), s["i"]))[1]},
    "add at":   lambda s: {"v": s["v"].at[s["i"][:, 1] % LONG].add(s["i"][:, 2])},
    "add rows": lambda s: {"f": s["f"].at[s["i"][:, 2] % N].add(s["f"] * 0.5)},
    "patch":    lambda s: {"f": lax.dynamic_update_slice(s["f"], s["f"][:4, :4] * 2,
                                                         (start(s["i"]), start(s["i"].T)))},
    "order":    lambda s: {"f": lax.sort(s["f"], dimension=1)},
    "swap":     lambda s: {"i": jnp.concatenate([s["i"][: N // 2] + 1, s["i"][N // 2 :]])[::-1]},
    "mix":      lambda s: {"v": s["v"].at[: N * N].add(s["i"].reshape(-1)),
                           "i": s["i"] + s["v"][: N * N].reshape(N, N)},
    "halve":    lambda s: {"f": s["f"] / (1 + jnp.abs(s["f"]))},
}  # fmt: skip


def program(
    seed: int, length: int = 8
) -> tuple[Callable[..., tuple[jax.Array, ...]], tuple[jax.ShapeDtypeStruct, ...]]:
    """A function of (f, g, i, v) that does `length` steps, and its arguments as shapes."""
    names = np.random.default_rng(seed).choice(list(STEPS), length, replace=False)

    def steps(f: jax.Array, g: jax.Array, i: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        state: State = {"f": f, "g": g, "i": i, "v": v}
        for name in names:
            state = {**state, **STEPS[name](state)}
        return tuple(state.values())

    steps.__name__ = f"generated_{seed}"
    square = jax.ShapeDtypeStruct((N, N), jnp.float32)
    integers = jax.ShapeDtypeStruct((N, N), jnp.int32), jax.ShapeDtypeStruct((LONG,), jnp.int32)
    return steps, (square, square, *integers)
