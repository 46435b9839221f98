"""Dots and convolutions of many shapes, types and precisions."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from cases import TYPES, Collector, array
from jax import lax

SIZES = (
    (8, 128, 128), (100, 200, 150), (128, 256, 256), (1, 64, 300), (300, 64, 1), (16, 16, 16), (33, 5, 77),
    (256, 512, 128), (7, 1000, 9),
)  # fmt: skip


def matmul(c: Collector) -> None:
    for t in ("f32", "bf16"):
        for m, k, n in SIZES:
            c.add(f"{t}_{m}x{k}x{n}", lambda x, y: x @ y, array(t, m, k), array(t, k, n))
    for t, out in (("s8", "s32"), ("bf16", "f32"), ("u8", "s32"), ("s4", "s32"), ("f16", "f32")):
        for m, k, n in ((128, 256, 128), (100, 200, 150)):
            dot = partial(jnp.matmul, preferred_element_type=TYPES[out])
            c.add(f"{t}_{out}_{m}x{k}x{n}", lambda x, y, d=dot: d(x, y), array(t, m, k), array(t, k, n))
    for name in ("HIGH", "HIGHEST"):
        precision = getattr(lax.Precision, name)
        for m, k, n in ((100, 200, 150), (8, 128, 128), (64, 300, 40)):
            dot = partial(jnp.matmul, precision=precision)
            c.add(f"{name}_{m}x{k}x{n}", lambda x, y, d=dot: d(x, y), array("f32", m, k), array("f32", k, n))
    for t in ("f32", "bf16"):
        c.add(f"left_transposed_{t}", lambda x, y: x.T @ y, array(t, 200, 100), array(t, 200, 150))
        c.add(f"right_transposed_{t}", lambda x, y: x @ y.T, array(t, 100, 200), array(t, 150, 200))
        c.add(f"both_transposed_{t}", lambda x, y: x.T @ y.T, array(t, 200, 100), array(t, 150, 200))
        c.add(f"batched_{t}", lambda x, y: x @ y, array(t, 3, 40, 64), array(t, 3, 64, 50))
        c.add(f"vector_{t}", lambda x, y: x @ y, array(t, 100, 200), array(t, 200))
        c.add(f"inner_{t}", lambda x, y: x @ y, array(t, 500), array(t, 500))
    c.add(
        "mixed",
        lambda x, y: jnp.matmul(x.astype(jnp.bfloat16), y, preferred_element_type=jnp.float32),
        array("f32", 60, 128),
        array("bf16", 128, 60),
    )
    c.add(
        "bias_relu",
        lambda x, y, b: jnp.maximum(x @ y + b, 0),
        array("f32", 64, 100),
        array("f32", 100, 200),
        array("f32", 200),
    )
    c.add("gelu_bf16", lambda x, y: jnp.tanh(x @ y) * 0.5, array("bf16", 64, 128), array("bf16", 128, 256))
    c.add("chain", lambda x, y, z: (x @ y) @ z, array("f32", 32, 64), array("f32", 64, 128), array("f32", 128, 16))
    c.add("einsum", lambda x, y: jnp.einsum("bij,bkj->bik", x, y), array("f32", 2, 30, 70), array("f32", 2, 20, 70))
    c.add(
        "einsum4",
        lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
        array("f32", 2, 16, 4, 32),
        array("f32", 2, 16, 4, 32),
    )
    c.add("outer", lambda x, y: jnp.outer(x, y), array("f32", 50), array("f32", 200))


def convolution(c: Collector) -> None:
    def conv(strides: tuple[int, ...], padding: object, **more: object) -> object:
        return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **more)

    nhwc = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    for t in ("f32", "bf16"):
        c.add(f"same_{t}", conv((1, 1), "SAME"), array(t, 2, 8, 16, 16), array(t, 8, 8, 3, 3))
        c.add(f"valid_{t}", conv((1, 1), "VALID"), array(t, 1, 16, 20, 20), array(t, 32, 16, 3, 3))
        c.add(f"strided_{t}", conv((2, 2), "SAME"), array(t, 1, 16, 17, 17), array(t, 32, 16, 3, 3))
        c.add(f"nhwc_{t}", conv((1, 1), "SAME", **nhwc), array(t, 2, 16, 16, 32), array(t, 3, 3, 32, 64))
        c.add(f"one_{t}", conv((1, 1), "SAME", **nhwc), array(t, 2, 8, 8, 64), array(t, 1, 1, 64, 128))
        c.add(
            f"depthwise_{t}",
            conv((1, 1), "SAME", feature_group_count=16, **nhwc),
            array(t, 1, 12, 12, 16),
            array(t, 3, 3, 1, 16),
        )
        c.add(
            f"groups_{t}",
            conv((1, 1), "SAME", feature_group_count=2, **nhwc),
            array(t, 1, 12, 12, 16),
            array(t, 3, 3, 8, 32),
        )
        c.add(
            f"dilated_{t}",
            conv((1, 1), "SAME", rhs_dilation=(2, 2), **nhwc),
            array(t, 1, 16, 16, 8),
            array(t, 3, 3, 8, 16),
        )
        c.add(
            f"transposed_{t}",
            conv((1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2), **nhwc),
            array(t, 1, 8, 8, 16),
            array(t, 3, 3, 16, 8),
        )
        c.add(
            f"d1_{t}",
            conv((1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
            array(t, 2, 100, 16),
            array(t, 5, 16, 32),
        )
        c.add(f"padded_{t}", conv((1, 1), ((1, 2), (0, 3)), **nhwc), array(t, 1, 9, 11, 16), array(t, 2, 4, 16, 24))
        c.add(f"rgb_{t}", conv((2, 2), "SAME", **nhwc), array(t, 1, 32, 32, 3), array(t, 7, 7, 3, 64))
    c.add(
        "s8",
        conv((1, 1), "SAME", preferred_element_type=jnp.int32, **nhwc),
        array("s8", 1, 16, 16, 32),
        array("s8", 3, 3, 32, 64),
    )
    c.add(
        "highest",
        conv((1, 1), "SAME", precision=lax.Precision.HIGHEST, **nhwc),
        array("f32", 1, 12, 12, 16),
        array("f32", 3, 3, 16, 32),
    )
    c.add(
        "high",
        conv((1, 1), "SAME", precision=lax.Precision.HIGH, **nhwc),
        array("f32", 1, 12, 12, 16),
        array("f32", 3, 3, 16, 32),
    )
    c.add(
        "d3",
        conv((1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
        array("f32", 1, 6, 8, 8, 8),
        array("f32", 3, 3, 3, 8, 16),
    )
    c.add(
        "relu",
        lambda x, w: jnp.maximum(lax.conv_general_dilated(x, w, (1, 1), "SAME", **nhwc), 0),
        array("f32", 1, 12, 12, 16),
        array("f32", 3, 3, 16, 32),
    )
    c.add(
        "causal",
        conv((1,), ((4, 0),), feature_group_count=64, dimension_numbers=("NWC", "WIO", "NWC")),
        array("f32", 2, 64, 64),
        array("f32", 5, 1, 64),
    )


FAMILIES = {"matmul": matmul, "convolution": convolution}
