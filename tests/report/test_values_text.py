"""Arrays as text: the same bits come back, and large ones that follow a rule are short."""

from __future__ import annotations

import base64
import zlib

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.hlo.shape import DTYPES
from assay.report.lax.values import UNPACK, array_text, drawn_texts, identical
from assay.report.wrap import wrapped

HELD = [d for d in DTYPES.values() if d.numpy is not None and hasattr(jnp, d.numpy.name.replace("bool", "bool_"))]


def back(text: str):
    names = {"np": np, "jnp": jnp, "base64": base64, "zlib": zlib}
    exec("\n".join(UNPACK), names)
    return np.asarray(eval(text, names))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(HELD), st.integers(0, 2**32), st.lists(st.integers(0, 5), max_size=3), st.booleans())
def test_the_same_bits_come_back(dtype, seed, dims, edges):
    """Of any bits, all NaNs among them, and of values at the edges."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(dims, dtype=int))
    if dtype.kind == "pred":
        array = rng.integers(0, 2, size).astype(bool)
    elif edges or dtype.bits < 8:
        chosen = rng.choice([0, 1, -1, 2, 3, np.inf, -np.inf, np.nan, -0.0, 1e-40, 0.1], size)
        with np.errstate(all="ignore"):
            array = (chosen if dtype.is_float or dtype.is_complex else np.nan_to_num(chosen) % 2).astype(dtype.numpy)
    else:
        array = np.frombuffer(rng.bytes(size * dtype.numpy.itemsize), dtype.numpy)
    array = array.reshape(dims)
    assert identical(back(array_text(array, dtype)), array)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.arange(20, dtype=np.int32), "np.arange(20).astype(np.int32)"),
        (np.arange(128, dtype=np.int32).reshape(8, 16), "np.arange(128).astype(np.int32).reshape(8, 16)"),
        (np.arange(0, 90, 10, dtype=np.int16), "np.arange(0, 90, 10).astype(np.int16)"),
        (np.zeros((3, 700), np.float32), "np.zeros((3, 700), np.float32)"),
        (np.full((64, 64), -np.inf, np.float32), "np.full((64, 64), -np.inf, np.float32)"),
        (np.float32("nan"), 'np.float32("nan")'),
        (np.complex64(45j), "np.complex64(45j)"),
        (np.array([[669, -763]], np.int32), "np.array([[669, -763]], np.int32)"),
        (
            np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32),
            "np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)",
        ),
    ],
)
def test_arrays_that_follow_a_rule(array, text):
    dtype = next(d for d in HELD if d.numpy == array.dtype)
    assert array_text(array, dtype) == text
    assert identical(back(text), np.asarray(array))


def test_drawn_arrays_are_known_again():
    for name in ("f32", "bf16", "s8", "u16", "s32"):
        dtype = DTYPES[name]
        for text in drawn_texts((7, 5), dtype):
            array = back(text).astype(dtype.numpy)
            assert "unpack" not in array_text(array, dtype)


def test_lines_are_broken_where_python_allows_it():
    text = 'x = f("' + "a" * 400 + '", [1, 2, 3], "b, c", ' + ", ".join(str(k) for k in range(100)) + ")"
    lines = wrapped(text)
    assert max(map(len, lines)) <= 118
    found: dict[str, object] = {"f": lambda *a: a}
    exec("\n".join(lines), found)
    want: dict[str, object] = {"f": lambda *a: a}
    exec(text, want)
    assert found["x"] == want["x"]
