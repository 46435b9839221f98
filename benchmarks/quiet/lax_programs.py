"""jax.lax: convolutions, windows, scatters, dots, sorts, bits; what jax.numpy does not reach."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from programs import FLOAT, INTEGER, Entry, entries, gradient

A = "33x65"
AA = "33x65 33x65"
NARROW = "f32 bf16 f16"
IMAGE = "2x5x17x19 7x5x3x3"
NHWC = ("NHWC", "HWIO", "NHWC")


def conv(strides=(1, 1), padding="SAME", **more):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **more)


def window(reducer, start, dims, strides, padding="VALID", **more):
    return lambda x: lax.reduce_window(x, jnp.asarray(start, x.dtype), reducer, dims, strides, padding, **more)


def pool(reducer, start):
    return lambda x: lax.reduce_window(x, start, reducer, (2, 2), (2, 2), "VALID")  # jax knows its gradient


def stochastic_rounding(x, bits):
    """f32 to bf16 and back, up or down by chance."""
    return ((x.view(jnp.uint32) + (bits & 0xFFFF)) & jnp.uint32(0xFFFF0000)).view(jnp.float32)


def scalar(value, x):
    return jnp.asarray(value, x.dtype)


CONVOLUTIONS = [
    ("conv",               conv(),                                     IMAGE, "f32 bf16 f16 f64 c64 s32"),
    ("conv valid",         conv(padding="VALID"),                      IMAGE, "f32 bf16"),
    ("conv strided",       conv((2, 3)),                               IMAGE, "f32 bf16 f16"),
    ("conv dilated",       conv(rhs_dilation=(2, 2)),                  IMAGE, "f32 f16"),
    ("conv of dilated",    conv(padding=((0, 0), (1, 2)), lhs_dilation=(2, 1)), IMAGE, "f32 bf16"),
    ("conv cropping",      conv(padding=((-1, 2), (0, -2))),           IMAGE, "f32"),
    ("conv NHWC",          conv(dimension_numbers=NHWC),               "2x17x19x5 3x3x5x7", "f32 bf16 f64"),
    ("conv grouped",       conv(feature_group_count=2),                "2x6x17x19 4x3x3x3", "f32 bf16"),
    ("conv depthwise",     conv(feature_group_count=6),                "2x6x17x19 12x1x3x3", "f32 f16"),
    ("conv batch grouped", conv(batch_group_count=2),                  "4x3x9x9 6x3x3x3", "f32"),
    ("conv into f32",      conv(preferred_element_type=jnp.float32),   IMAGE, "bf16 f16"),
    ("conv 1d",            conv((2,), "SAME"),                         "3x4x65 8x4x5", "f32 bf16 f64"),
    ("conv 3d",            conv((1, 1, 1), "SAME"),                    "1x3x7x8x9 4x3x3x3x3", "f32 bf16"),
    ("conv 1x1",           conv(),                                     "2x16x9x9 8x16x1x1", "f32 bf16"),
    ("conv transpose",     lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), "2x9x9x5 3x3x5x7", "f32 bf16"),
    ("conv patches",       lambda x: lax.conv_general_dilated_patches(x, (3, 3), (2, 2), "SAME"), "2x3x9x9", "f32"),
    ("grad conv",          gradient(conv((2, 1)), (0, 1)),             "2x3x9x9 4x3x3x3", "f32 bf16 f64"),
    ("grad conv grouped",  gradient(conv(feature_group_count=2), (0, 1)), "2x6x9x9 4x3x3x3", "f32"),
]  # fmt: skip

WINDOWS = [
    ("max pool",       window(lax.max, -9, (3, 2), (2, 1), "SAME"),        A, "f32 bf16 f16 f64 s8 s32"),
    ("min pool",       window(lax.min, 9, (2, 3), (1, 2)),                 A, "f32 bf16 u8"),
    ("sum pool",       window(lax.add, 0, (3, 4), (1, 2), ((1, 1), (0, 2))), A, "f32 bf16 f16 f64 c64 s32"),
    ("dilated window", window(lax.add, 0, (2, 3), (1, 1), "VALID", window_dilation=(2, 3)), A, "f32 s32"),
    ("of dilated",     window(lax.add, 0, (3, 3), (1, 1), "SAME", base_dilation=(1, 2)), A, "f32"),
    ("product window", window(lax.mul, 1, (1, 3), (1, 1)),                 A, "f32 s8"),
    ("mean pool",      lambda x: lax.reduce_window(x, scalar(0, x), lax.add, (2, 2), (2, 2), "VALID") / 4, A, NARROW),
    ("moving average", lambda x: window(lax.add, 0, (1, 9), (1, 1), "SAME")(x) / 9, A, "f32 bf16"),
    ("cumsum",         lambda x: lax.cumsum(x, 1, reverse=True),           A, "f32 bf16 f64 s32"),
    ("cumprod",        lambda x: lax.cumprod(x, 1),                        "33x17", "f32 f16 s32"),
    ("cummax",         lambda x: lax.cummax(x, 1),                         A, "f32 bf16 f16 s8 u32"),
    ("cummin",         lambda x: lax.cummin(x, 0, reverse=True),           A, "f32 f64 s32"),
    ("cumlogsumexp",   lambda x: lax.cumlogsumexp(x, 1),                   A, "f32 bf16 f64"),
    ("grad max pool",  gradient(pool(lax.max, -jnp.inf)), A, "f32 bf16"),
    ("grad sum pool",  gradient(lambda x: pool(lax.add, 0.0)(x) ** 2), A, "f32"),
    ("grad cummax",    gradient(lambda x: lax.cummax(x, 1)),               A, "f32"),
    ("grad cumlogsumexp", gradient(lambda x: lax.cumlogsumexp(x, 1)),      "9x17", "f32"),
]  # fmt: skip


def dot(contract, batch=((), ()), **more):
    return lambda x, y: lax.dot_general(x, y, (contract, batch), **more)


DOTS = [
    ("dot",              dot(((1,), (0,))),                              "33x65 65x17", f"{FLOAT} c64 c128 {INTEGER}"),
    ("dot transposed",   dot(((0,), (1,))),                              "65x33 17x65", "f32 bf16 s8"),
    ("dot batched",      dot(((2,), (1,)), ((0,), (0,))),                "5x9x33 5x33x7", "f32 bf16 f16 f64 c64 s32"),
    ("dot of two dims",  dot(((1, 2), (0, 1))),                          "9x5x13 5x13x7", "f32 bf16"),
    ("dot into f32",     dot(((1,), (0,)), preferred_element_type=jnp.float32), "33x65 65x17", "bf16 f16 f8e4m3fn"),
    ("dot into s32",     dot(((1,), (0,)), preferred_element_type=jnp.int32), "33x65 65x17", "s8 u8 s16"),
    ("dot highest",      dot(((1,), (0,)), precision="highest"),         "33x65 65x17", "f32 bf16"),
    ("dot long",         dot(((1,), (0,))),                              "9x2048 2048x5", "f32 bf16 f16"),
    ("outer",            dot(((), ())),                                  "33 17", "f32 s8"),
    ("dot of f8 and f8", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32),
                         "17x33 f8e4m3fn:33x9", "f8e5m2"),
    ("mixed dot",        lambda x, y: lax.dot(x, y.astype(x.dtype)),     "17x33 s8:33x9", "f32 bf16"),
    ("ragged dot",       lambda x, w: lax.ragged_dot(x, w, jnp.array([3, 0, 9, 5])), "17x9 4x9x7", "f32 bf16"),
    ("grad dot",         gradient(dot(((1,), (0,))), (0, 1)),            "17x33 33x9", "f32 bf16 f64"),
]  # fmt: skip

SORTS = [
    ("sort two",        lambda x, y: lax.sort((x, y), num_keys=1),       "257 s32:257", "f32 bf16 s8 u8"),
    ("sort two keys",   lambda x, y: lax.sort((x % 5, y), num_keys=2),   "257 257", "s32 u8"),
    ("top_k",           lambda x: lax.top_k(x, 5),                       A, "f32 bf16 f16 f64 s8 s32 u32"),
    ("approx_max_k",    lambda x: lax.approx_max_k(x, 5, recall_target=1.0), A, "f32 bf16"),
    ("argmax of lax",   lambda x: lax.argmax(x, 1, jnp.int32),           A, "f32 s32"),
    ("kth smallest",    lambda x: lax.sort(x, dimension=1)[:, 10],       A, NARROW),
    ("grad top_k",      gradient(lambda x: lax.top_k(x, 5)[0] ** 2),     A, "f32"),
]  # fmt: skip

INDICES = [
    ("dynamic_slice",   lambda x, i, j: lax.dynamic_slice(x, (i, j), (5, 9)), "33x65 s32:- s32:-", "f32 bf16 s4 c64"),
    ("dynamic_slice u8", lambda x, i: lax.dynamic_slice(x, (i, i), (5, 9)), "33x65 u8:-", "f32 pred"),
    ("dynamic_update_slice", lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i)), "33x65 5x9 s32:-", "f32 s8 c128"),
    ("gather rows",     lambda x, i: x.at[i].get(mode="promise_in_bounds"), "33x65 s32:9", "f32 bf16 u16"),
    ("gather sorted",   lambda x, i: x.at[i].get(indices_are_sorted=True), "33x65 s32:9", "f32"),
    ("scatter unique",  lambda x, i, y: x.at[i].add(y, unique_indices=True), "33x65 s32:9 9x65", "f32 s32"),
    ("scatter apply",   lambda x, i: x.at[i].apply(lambda v: v * v),     "33x65 s32:9", "f32"),
    ("scatter drop",    lambda x, i, y: x.at[i].set(y, mode="drop"),     "33x65 s8:9 9x65", "f32 s32"),
    ("segment_sum",     lambda x, i: jax.ops.segment_sum(x, i % 9, 9),   "129x5 s32:129", "f32 bf16 f64 c64 s32 u8"),
    ("segment_max",     lambda x, i: jax.ops.segment_max(x, i % 9, 9),   "129x5 s32:129", "f32 bf16 s8"),
    ("segment_min",     lambda x, i: jax.ops.segment_min(x, i % 9, 9),   "129 s32:129", "f32 s32"),
    ("segment_prod",    lambda x, i: jax.ops.segment_prod(x, i % 40, 40), "129 s32:129", "f32 s32"),
    ("segment mean",    lambda x, i: jax.ops.segment_sum(x, i % 9, 9) / jax.ops.segment_sum(x * 0 + 1, i % 9, 9),
                        "129 s32:129", "f32"),
    ("sorted segments", lambda x, i: jax.ops.segment_sum(x, jnp.sort(i % 9), 9, indices_are_sorted=True),
                        "129x5 s32:129", "f32"),
    ("grad segment_sum", gradient(lambda x, i: jax.ops.segment_sum(x, i % 9, 9) ** 2), "129 s32:129", "f32 bf16"),
]  # fmt: skip

OTHERS = [
    ("clamp",            lambda x: lax.clamp(scalar(-1, x), x, scalar(1, x)),   A, f"{FLOAT} s8 s32"),
    ("rsqrt",            lambda x: lax.rsqrt(jnp.abs(x) + scalar(1, x)),        A, FLOAT),
    ("logistic",         lax.logistic,                                          A, "f32 bf16 f16 f64 c64"),
    ("erf",              lax.erf,                                               A, FLOAT),
    ("erfc",             lax.erfc,                                              A, "f32 f64 bf16"),
    ("erf_inv",          lambda x: lax.erf_inv(x / 8),                          A, "f32 f64 bf16"),
    ("round to even",    lambda x: lax.round(x * 2, lax.RoundingMethod.TO_NEAREST_EVEN), A, NARROW),
    ("round away",       lambda x: lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO), A, NARROW),
    ("rem",              lax.rem,                                               AA, "f32 f64 s8 s32 u8"),
    ("div of ints",      lax.div,                                               AA, INTEGER),
    ("pow",              lambda x, y: lax.pow(jnp.abs(x) + scalar(1, x), y),    AA, FLOAT),
    ("integer_pow",      lambda x: lax.integer_pow(x, -3),                      A, "f32 bf16 c64"),
    ("fma",              lambda x, y, z: x * y + z,                             "33x65 33x65 33x65", f"{FLOAT} f8e5m2"),
    ("difference of squares", lambda x, y: x * x - y * y,                       AA, FLOAT),
    ("population_count", lax.population_count,                                  A, INTEGER),
    ("clz",              lax.clz,                                               A, INTEGER),
    ("shift left",       lambda x, n: lax.shift_left(x, n & scalar(7, n)),      AA, INTEGER),
    ("shift arithmetic", lambda x, n: lax.shift_right_arithmetic(x, n & scalar(7, n)), AA, "s8 s16 s32 s64 u8 u32"),
    ("shift logical",    lambda x, n: lax.shift_right_logical(x, n & scalar(7, n)), AA, "s8 s16 s32 s64 u8 u32"),
    ("reduce_precision", lambda x: lax.reduce_precision(x, 5, 4),               A, FLOAT),
    ("reduce_precision bf16", lambda x: lax.reduce_precision(x * 3, 8, 7) - x,  A, "f32 f64"),
    ("bitcast wider",    lambda x: lax.bitcast_convert_type(x.reshape(33, 32, 2), jnp.uint32), "33x64", "bf16 s16"),
    ("bitcast narrower", lambda x: lax.bitcast_convert_type(x, jnp.uint8),      A, "f32 bf16 s32"),
    ("select_n",         lambda i, x, y, z: lax.select_n(i % 3, x, y, z),
                         "s32:33x65 33x65 33x65 33x65", "f32 s8"),
    ("pad interior",     lambda x: lax.pad(x, scalar(3, x), ((1, 2, 1), (-1, 0, 2))), A, "f32 bf16 s8 u4 pred"),
    ("rev",              lambda x: lax.rev(x, (0, 1)),                          A, "f32 s16 c64"),
    ("iota",             lambda x: x + lax.broadcasted_iota(x.dtype, (33, 65), 1), A, "f32 bf16 s32 u8 f16"),
    ("reduce max",       lambda x: lax.reduce(x, scalar(-9, x), lax.max, (0,)), A, "f32 s8"),
    ("reduce and",       lambda x: lax.reduce(x, scalar(-1, x), lax.bitwise_and, (1,)), A, "s8 s32"),
    ("reduce xor",       lambda x: lax.reduce(x, scalar(0, x), lax.bitwise_xor, (1,)), A, "u8 s32 u64"),
    ("reduce or",        lambda x: lax.reduce_or(x, (0,)),                      A, "pred u32"),
    ("reduce two",       lambda x, y: lax.reduce((x, y), (scalar(-9, x), jnp.int32(0)),
                                                 lambda a, b: (lax.max(a[0], b[0]), a[1] + b[1]), (1,)),
                         "33x65 s32:33x65", "f32 s8"),
    ("reduce as sum",    lambda x: lax.reduce(x, scalar(0, x), lambda a, b: a + b, (1,)), A, NARROW),
    ("associative_scan", partial(lax.associative_scan, jnp.add, axis=1),        A, "f32 bf16 f64 s32"),
    ("associative max",  partial(lax.associative_scan, jnp.maximum, axis=0),    A, "f32 s8"),
    ("affine scan",      lambda a, b: lax.associative_scan(
                             lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (jnp.tanh(a), b), axis=1),
                         AA, "f32 bf16"),
    ("complex parts",    lambda x, y: lax.complex(x, y) * lax.complex(y, x),    AA, "f32 f64"),
    ("optimization_barrier", lambda x: lax.optimization_barrier(x * 2) + 1,     A, "f32 bf16"),
    ("regularized incomplete gamma", lambda x: lax.igamma(jnp.full_like(x, 2.5), jnp.abs(x) + 0.1), "129", "f64"),
    ("igammac",          lambda x: lax.igammac(jnp.full_like(x, 2.5), jnp.abs(x) + 0.1), "129", "f32"),
    ("lgamma",           lambda x: lax.lgamma(jnp.abs(x) + scalar(1, x) / 2),   "129", "f32 bf16 f64"),
    ("digamma",          lambda x: lax.digamma(jnp.abs(x) + scalar(1, x) / 2),  "129", "f32 f64"),
    ("bessel_i0e",       lax.bessel_i0e,                                        "129", "f32 f64"),
    ("bessel_i1e",       lax.bessel_i1e,                                        "129", "f32 bf16"),
    ("betainc",          lambda x: lax.betainc(jnp.full_like(x, 2.5), jnp.full_like(x, 1.5), lax.logistic(x)),
                         "65", "f64"),
    ("random_gamma_grad", lambda x: lax.random_gamma_grad(jnp.full_like(x, 2.5), jnp.abs(x) + 0.5), "33", "f32"),
    ("quantise s8",      lambda x: (jnp.clip(jnp.round(x * 20), -128, 127).astype(jnp.int8).astype(x.dtype) / 20),
                         A, NARROW),
    ("quantise by rows", lambda x: jnp.round(x / (jnp.max(jnp.abs(x), 1, keepdims=True) / 127)).astype(jnp.int8),
                         A, "f32"),
    ("quantise s4",      lambda x: jnp.clip(jnp.round(x * 3), -8, 7).astype(jnp.int4).astype(x.dtype) / 3,
                         A, "f32 bf16"),
    ("quantised dot",    lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32).astype(jnp.float32) * 0.01,
                         "33x65 65x17", "s8 u8"),
    ("through f8",       lambda x: x.astype(jnp.float8_e4m3fn).astype(x.dtype) - x, A, NARROW),
    ("through f8e5m2",   lambda x: (x * 8).astype(jnp.float8_e5m2).astype(x.dtype), A, NARROW),
    ("stochastic rounding", stochastic_rounding,
                         "33x65 u32:33x65", "f32"),
    ("hash of words",    lambda x: ((x ^ (x >> 16)) * 0x45D9F3B) ^ (x << 7),    A, "u32"),
]  # fmt: skip


def programs() -> list[Entry]:
    tables = (CONVOLUTIONS, WINDOWS, DOTS, SORTS, INDICES, OTHERS)
    return [entry for table in tables for entry in entries("jax.lax", table)]
