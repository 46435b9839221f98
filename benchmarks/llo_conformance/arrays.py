"""Reductions, scans along an axis, windows, and whatever moves data."""

from __future__ import annotations

import jax.numpy as jnp
from cases import Collector, array
from jax import lax

SUMS = {
    "sum": jnp.sum, "max": jnp.max, "min": jnp.min,
    "prod": lambda x, axis=None: jnp.prod(1 + x / 256 if x.dtype == jnp.float32 else x, axis),  # or most are infinite
}  # fmt: skip


def reduction(c: Collector) -> None:
    shapes = {2: (100, 200), 3: (5, 20, 130), 1: (1000,)}
    for name, function in SUMS.items():
        for t in ("f32", "bf16", "s32", "u32", "s8", "f16") if name != "prod" else ("f32", "s32"):
            for axis in (0, 1):
                c.add(f"{name}_{t}_{axis}", lambda x, f=function, a=axis: f(x, a), array(t, *shapes[2]))
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            label = "".join(map(str, axes))
            c.add(f"{name}_f32_3d_{label}", lambda x, f=function, a=axes: f(x, a), array("f32", *shapes[3]))
        c.add(f"{name}_f32_all", lambda x, f=function: f(x), array("f32", *shapes[1]))
        c.add(f"{name}_s32_all", lambda x, f=function: f(x), array("s32", *shapes[2]))
    for name, function in {"argmax": jnp.argmax, "argmin": jnp.argmin}.items():
        for t in ("f32", "bf16", "s32"):
            for axis in (0, 1):
                c.add(f"{name}_{t}_{axis}", lambda x, f=function, a=axis: f(x, a), array(t, 50, 200))
    for name, function in {"any": jnp.any, "all": jnp.all}.items():
        for axis in (0, 1, None):
            c.add(f"{name}_{axis}", lambda x, f=function, a=axis: f(x > -2.0, a), array("f32", 50, 200))
    for axis in (0, 1):
        c.add(f"any_pred_{axis}", lambda x, a=axis: jnp.any(x, a), array("pred", 50, 200))
        c.add(f"mean_{axis}", lambda x, a=axis: x.mean(a), array("f32", 64, 200))
        c.add(f"var_{axis}", lambda x, a=axis: x.var(a), array("f32", 64, 200))
        c.add(f"norm_{axis}", lambda x, a=axis: jnp.sqrt((x * x).sum(a, keepdims=True)) + x, array("f32", 30, 140))
        c.add(f"logsumexp_{axis}", lambda x, a=axis: jnp.log(jnp.exp(x).sum(a)), array("f32", 30, 140))
        c.add(
            f"and_{axis}", lambda x, a=axis: lax.reduce(x, jnp.int32(-1), lax.bitwise_and, (a,)), array("s32", 20, 150)
        )
        c.add(
            f"xor_{axis}", lambda x, a=axis: lax.reduce(x, jnp.uint32(0), lax.bitwise_xor, (a,)), array("u32", 20, 150)
        )
        c.add(f"sum_sq_bf16_{axis}", lambda x, a=axis: (x * x).sum(a), array("bf16", 64, 260))
    c.add("two", lambda x: (x.sum(0), x.max(0)), array("f32", 40, 300))
    c.add("wide", lambda x: x.sum(1), array("f32", 8, 5000))
    c.add("tall", lambda x: x.sum(0), array("f32", 5000, 8))


def cumulative(c: Collector) -> None:
    functions = {"cumsum": jnp.cumsum, "cumprod": jnp.cumprod, "cummax": lax.cummax, "cummin": lax.cummin}
    for name, function in functions.items():
        for axis in (0, 1):
            c.add(f"{name}_f32_{axis}", lambda x, f=function, a=axis: f(x, axis=a), array("f32", 20, 150))
        c.add(f"{name}_s32", lambda x, f=function: f(x, axis=0), array("s32", 100))
    c.add("cumsum_bf16", lambda x: jnp.cumsum(x, 1), array("bf16", 16, 128))
    c.add("cumlogsumexp", lambda x: lax.cumlogsumexp(x, axis=1), array("f32", 8, 64))
    c.add("associative", lambda x: lax.associative_scan(jnp.add, x), array("f32", 64, 16))


def window(c: Collector) -> None:
    def pool(
        reducer: object, init: float, dims: tuple[int, ...], strides: tuple[int, ...], padding: str = "VALID"
    ) -> object:
        return lambda x: lax.reduce_window(x, init, reducer, dims, strides, padding)

    c.add("max_2x2", pool(lax.max, -jnp.inf, (1, 2, 2, 1), (1, 2, 2, 1)), array("f32", 2, 16, 16, 8))
    c.add("max_3x3_same", pool(lax.max, -jnp.inf, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), array("f32", 2, 15, 17, 8))
    c.add("sum_3x3", pool(lax.add, 0.0, (1, 3, 3, 1), (1, 1, 1, 1)), array("f32", 1, 12, 12, 130))
    c.add("avg_1d", pool(lax.add, 0.0, (5,), (1,), "SAME"), array("f32", 500))
    c.add("max_rows", pool(lax.max, -jnp.inf, (3, 1), (1, 1)), array("f32", 50, 200))
    c.add("max_lanes", pool(lax.max, -jnp.inf, (1, 3), (1, 1)), array("f32", 50, 200))
    c.add("min_strided", pool(lax.min, jnp.inf, (2, 4), (2, 4)), array("f32", 32, 256))
    c.add(
        "sum_s32", lambda x: lax.reduce_window(x, jnp.int32(0), lax.add, (2, 2), (1, 1), "VALID"), array("s32", 20, 140)
    )
    c.add(
        "max_bf16",
        lambda x: lax.reduce_window(x, jnp.bfloat16(-jnp.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        array("bf16", 2, 16, 16, 128),
    )


def movement(c: Collector) -> None:
    for t in ("f32", "bf16", "s32", "s8", "pred", "s16", "s4"):
        c.add(f"transpose_{t}", lambda x: x.T, array(t, 100, 200))
        c.add(f"concat0_{t}", lambda x, y: jnp.concatenate([x, y], 0), array(t, 13, 130), array(t, 6, 130))
        c.add(f"concat1_{t}", lambda x, y: jnp.concatenate([x, y], 1), array(t, 13, 130), array(t, 13, 100))
        c.add(f"slice_{t}", lambda x: x[3:77, 5:190], array(t, 100, 200))
        c.add(f"broadcast_{t}", lambda x: jnp.broadcast_to(x[:, None], (37, 150)), array(t, 37))
        c.add(f"broadcast0_{t}", lambda x: jnp.broadcast_to(x, (37, 150)), array(t, 150))
        c.add(f"reverse0_{t}", lambda x: x[::-1], array(t, 30, 150))
        c.add(f"reverse1_{t}", lambda x: x[:, ::-1], array(t, 30, 150))
        c.add(f"reshape_{t}", lambda x: x.reshape(50, 40), array(t, 20, 100))
    for t in ("f32", "bf16", "s32", "s8"):
        zero = lambda x: jnp.zeros((), x.dtype)  # noqa: E731
        c.add(f"pad_{t}", lambda x, z=zero: lax.pad(x, z(x), ((2, 3, 0), (1, 7, 0))), array(t, 30, 150))
        c.add(f"pad_negative_{t}", lambda x, z=zero: lax.pad(x, z(x), ((-2, 3, 0), (4, -7, 0))), array(t, 30, 150))
        c.add(f"pad_interior_{t}", lambda x, z=zero: lax.pad(x, z(x), ((0, 0, 1), (1, 0, 2))), array(t, 20, 50))
        c.add(
            f"dynamic_slice_{t}",
            lambda x, i, j: lax.dynamic_slice(x, (i, j), (9, 50)),
            array(t, 30, 150),
            array("s32"),
            array("s32"),
        )
        c.add(f"dynamic_row_{t}", lambda x, i: lax.dynamic_index_in_dim(x, i, 0), array(t, 30, 150), array("s32"))
        c.add(
            f"dynamic_update_{t}",
            lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)),
            array(t, 30, 150),
            array(t, 9, 50),
            array("s32"),
            array("s32"),
        )
    for name, order in {
        "021": (0, 2, 1),
        "102": (1, 0, 2),
        "120": (1, 2, 0),
        "201": (2, 0, 1),
        "210": (2, 1, 0),
    }.items():
        c.add(f"transpose_{name}", lambda x, o=order: jnp.transpose(x, o), array("f32", 6, 20, 140))
        c.add(f"transpose_bf16_{name}", lambda x, o=order: jnp.transpose(x, o), array("bf16", 6, 24, 140))
    c.add("transpose_4d", lambda x: jnp.transpose(x, (0, 2, 1, 3)), array("f32", 2, 16, 4, 64))
    c.add("transpose_add", lambda x, y: x.T + y, array("f32", 64, 200), array("f32", 200, 64))
    c.add("slice_strided", lambda x: x[::2, ::3], array("f32", 50, 200))
    c.add("slice_strided_rows", lambda x: x[1::3], array("f32", 50, 200))
    c.add("roll", lambda x: jnp.roll(x, 7, 1), array("f32", 20, 200))
    c.add("roll_rows", lambda x: jnp.roll(x, 3, 0), array("f32", 20, 200))
    c.add("iota", lambda x: x + lax.broadcasted_iota(jnp.int32, (37, 150), 1), array("s32", 37, 150))
    c.add("iota0", lambda x: x * lax.broadcasted_iota(jnp.float32, (37, 150), 0), array("f32", 37, 150))
    c.add("tile", lambda x: jnp.tile(x, (3, 2)), array("f32", 7, 90))
    c.add("repeat", lambda x: jnp.repeat(x, 3, 0), array("f32", 7, 90))
    c.add("stack", lambda x, y: jnp.stack([x, y], 1), array("f32", 20, 140), array("f32", 20, 140))
    c.add("split", lambda x: jnp.split(x, 3, 1), array("f32", 20, 150))
    c.add("reshape_flat", lambda x: x.reshape(-1), array("f32", 20, 100))
    c.add("reshape_3d", lambda x: x.reshape(4, 5, 100), array("f32", 20, 100))
    c.add("diag", lambda x: jnp.diagonal(x), array("f32", 40, 40))
    c.add("tri", lambda x: jnp.tril(x), array("f32", 60, 150))


def gather(c: Collector) -> None:
    for t in ("f32", "bf16", "s32", "s8"):
        c.add(f"rows_{t}", lambda x, i: x[i], array(t, 100, 64), array("s32", 30))
    c.add("rows_wide", lambda x, i: x[i], array("f32", 100, 300), array("s32", 30))
    c.add("columns", lambda x, i: x[:, i], array("f32", 40, 200), array("s32", 30))
    c.add("points", lambda x, i, j: x[i, j], array("f32", 40, 200), array("s32", 30), array("s32", 30))
    c.add("flat", lambda x, i: x[i], array("f32", 1000), array("s32", 50))
    c.add("take_along", lambda x, i: jnp.take_along_axis(x, i, 1), array("f32", 16, 128), array("s32", 16, 128))
    c.add("take_along0", lambda x, i: jnp.take_along_axis(x, i, 0), array("f32", 8, 128), array("s32", 8, 128))
    c.add("batched", lambda x, i: jnp.take(x, i, axis=1), array("f32", 4, 20, 64), array("s32", 5))
    c.add("embedding", lambda x, i: x[i] * 2.0, array("bf16", 512, 128), array("s32", 4, 16))
    c.add("one_hot", lambda i: jnp.eye(64, dtype=jnp.float32)[i], array("s32", 30))


def scatter(c: Collector) -> None:
    for t in ("f32", "bf16", "s32"):
        c.add(f"add_{t}", lambda x, i, u: x.at[i].add(u), array(t, 100, 64), array("s32", 30), array(t, 30, 64))
        c.add(f"set_{t}", lambda x, i, u: x.at[i].set(u), array(t, 100, 64), array("s32", 1), array(t, 1, 64))
        c.add(f"max_{t}", lambda x, i, u: x.at[i].max(u), array(t, 50, 130), array("s32", 9), array(t, 9, 130))
    c.add("add_flat", lambda x, i, u: x.at[i].add(u), array("f32", 1000), array("s32", 50), array("f32", 50))
    c.add("add_columns", lambda x, i, u: x.at[:, i].add(u), array("f32", 20, 200), array("s32", 9), array("f32", 20, 9))
    c.add(
        "add_points",
        lambda x, i, j, u: x.at[i, j].add(u),
        array("f32", 40, 200),
        array("s32", 9),
        array("s32", 9),
        array("f32", 9),
    )
    c.add("mul", lambda x, i, u: x.at[i].mul(u), array("f32", 50, 130), array("s32", 9), array("f32", 9, 130))
    c.add("segment_sum", lambda x, i: jnp.zeros((10, 64)).at[i].add(x), array("f32", 40, 64), array("s32", 40))
    c.add("s8", lambda x, i, u: x.at[i].set(u), array("s8", 100, 64), array("s32", 1), array("s8", 1, 64))
    c.add("histogram", lambda i: jnp.zeros(32, jnp.int32).at[i].add(1), array("s32", 200))


def sort(c: Collector) -> None:
    for t in ("f32", "bf16", "s32", "u32", "s8"):
        c.add(f"flat_{t}", lambda x: jnp.sort(x), array(t, 1000))
        c.add(f"lanes_{t}", lambda x: jnp.sort(x, 1), array(t, 10, 200))
    c.add("rows", lambda x: jnp.sort(x, 0), array("f32", 100, 60))
    c.add("argsort", lambda x: jnp.argsort(x), array("f32", 500))
    c.add("key_value", lambda x, y: lax.sort((x, y), num_keys=1), array("f32", 300), array("s32", 300))
    c.add("two_keys", lambda x, y: lax.sort((x, y), num_keys=2), array("s32", 300), array("s32", 300))
    c.add("descending", lambda x: -jnp.sort(-x), array("f32", 300))
    c.add("top_k", lambda x: lax.top_k(x, 5), array("f32", 10, 200))
    c.add("top_k_flat", lambda x: lax.top_k(x, 20), array("f32", 1000))
    c.add("median", lambda x: jnp.median(x), array("f32", 101))


FAMILIES = {
    "reduction": reduction, "cumulative": cumulative, "window": window, "movement": movement, "gather": gather,
    "scatter": scatter, "sort": sort,
}  # fmt: skip
