"""Random bits equal XLA:CPU's, and the published test vectors; distributions are unverified."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from elements import POLICY
from xla_cpu import assert_agree, assert_hlo_agrees, reference

from assay.errors import Unsupported
from assay.hlo.shape import DTYPES
from assay.reference.policies import for_target

SHAPES = ["7", "8", "", "1", "3,5", "3,4,2", "0", "5,0", "2,7", "1,1,9", "1000"]
TYPES = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def program(algorithm: str, dtype: str, dims: str, words: int) -> str:
    return f"""HloModule m
ENTRY e {{
  s = u64[{words}] parameter(0)
  ROOT r = (u64[{words}], {dtype}[{dims}]) rng-bit-generator(s), algorithm={algorithm}
}}"""


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2), ("rng_default", 3), ("rng_default", 2)],
)
def test_bits_are_xlas(algorithm, words):
    every = SHAPES if (algorithm, words) in (("rng_three_fry", 2), ("rng_philox", 3)) else SHAPES[:4]
    shapes = [(TYPES[(i + words) % len(TYPES)], dims) for i, dims in enumerate(every)] + [(t, "3,6") for t in TYPES]
    each = [f"(u64[{words}], {dtype}[{dims}])" for dtype, dims in shapes]
    lines = [f"r{i} = {shape} rng-bit-generator(s), algorithm={algorithm}" for i, shape in enumerate(each)]
    results = ", ".join(f"r{i}" for i in range(len(each)))
    text = f"""HloModule m
ENTRY e {{
  s = u64[{words}] parameter(0)
  {chr(10).join(lines)}
  ROOT t = ({", ".join(each)}) tuple({results})
}}"""
    state = np.random.default_rng(words).integers(0, 2**64, words, dtype=np.uint64)
    assert_hlo_agrees(text, state, xla_backend_optimization_level=0)


@pytest.mark.parametrize(
    ("result", "policy", "words"),
    [("u32[4]", POLICY, "bits alone"), ("(u64[2], u32[4])", for_target("tpu:v5e"), "on a TPU, which has its own")],
)
def test_what_a_tpu_makes_of_the_default_is_not_known(result, policy, words):
    root = f"ROOT r = {result} rng-bit-generator(s), algorithm=rng_default"
    text = f"HloModule m\nENTRY e {{ s = u64[2] parameter(0)\n {root} }}"
    with pytest.raises(Unsupported, match=words):
        reference(text, [np.zeros(2, np.uint64)], policy)


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg", "threefry2x32"])
def test_jax_keys(implementation):
    def draw(seed):
        key = jax.random.key(seed, impl=implementation)
        first, second = jax.random.split(key)
        return jax.random.bits(first, (3, 5)), jax.random.uniform(second, (7,)), jax.random.bits(second, (4,), "uint8")

    assert_agree(draw, np.uint32(17))


@pytest.mark.parametrize(("algorithm", "words"), [("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2)])
def test_counters_carry(algorithm, words):
    text = program(algorithm, "u32", "41", words)
    for state in ([1, 2**64 - 3, 7], [5, 2**64 - 1, 2**64 - 1], [0, 2**32 - 2, 0]):
        assert_hlo_agrees(text, np.array(state[:words], np.uint64))


def test_threefry_known_answer():
    """Random123's kat_vectors: threefry2x32 20 rounds."""
    (_, bits) = reference(program("rng_three_fry", "u64", "1", 2), [np.array([0, 0], np.uint64)])
    assert int(bits.mid[0]) == 0x99BA4EFE_6B200159
    key, counter = 0x03707344_13198A2E, 0x85A308D3_243F6A88
    (_, bits) = reference(program("rng_three_fry", "u64", "1", 2), [np.array([key, counter], np.uint64)])
    assert int(bits.mid[0]) == 0x483DF7A0_C4923A9C


def test_philox_known_answer():
    """Random123's kat_vectors: philox4x32 10 rounds."""
    (_, bits) = reference(program("rng_philox", "u32", "4", 3), [np.zeros(3, np.uint64)])
    assert [hex(v) for v in bits.mid] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize("distribution", ["rng_uniform", "rng_normal"])
def test_distributions_are_unverified(distribution):
    text = f"""HloModule m
ENTRY e {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[9] rng(a, b), distribution={distribution}
}}"""
    (ball,) = reference(text, [np.float32(0), np.float32(1)])
    assert ball.und is not None
    assert ball.und.all()


def test_undecided_state():
    text = """HloModule m
ENTRY e {
  s = u64[2] rng-get-and-update-state(), delta=4
  ROOT r = (u64[2], u32[5]) rng-bit-generator(s), algorithm=rng_three_fry
}"""
    for ball in reference(text, []):
        assert ball.und is not None
        assert ball.und.all()


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize(("narrow", "bits"), [("u4", 4), ("u2", 2), ("s4", 4)])
def test_narrow_integers_are_the_low_bits(algorithm, narrow, bits):
    words = 2 if algorithm == "rng_three_fry" else 3
    state = np.array([1, 2, 3][:words], np.uint64)
    _, wide = reference(program(algorithm, "u8", "21", words), [state])
    _, found = reference(program(algorithm, narrow, "21", words), [state])
    low = wide.mid.astype(int) % 2**bits
    want = low - 2**bits * (low >= 2 ** (bits - 1)) if narrow[0] == "s" else low
    np.testing.assert_array_equal(found.mid, want)
    if narrow[0] == "u":
        assert_hlo_agrees(program(algorithm, narrow, "21", words), state)


@pytest.mark.parametrize(("dtype", "bits"), [("f32", 32), ("f64", 64), ("bf16", 16), ("f16", 16), ("f8e4m3fn", 8)])
def test_floats_are_the_bits_of_integers(dtype, bits):
    state = np.array([5, 6], np.uint64)
    _, whole = reference(program("rng_three_fry", f"u{bits}", "33", 2), [state])
    _, found = reference(program("rng_three_fry", dtype, "33", 2), [state])
    want = whole.mid.astype(f"uint{bits}").view(DTYPES[dtype].numpy).astype(np.float64)
    np.testing.assert_array_equal(found.mid, want)
