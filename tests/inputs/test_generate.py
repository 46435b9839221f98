from __future__ import annotations

import hashlib
import itertools
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES, ArrayShape
from assay.inputs.domain import Domain
from assay.inputs.generate import BLOCK, CLASSES, draw, generate
from assay.reference.value import Array, held_dtype

ALL = [t for t in DTYPES.values() if t.numpy is not None]
INTEGERS = [t for t in ALL if t.is_integer]
FLOATS = [t for t in ALL if t.is_float]

EVERYTHING = parse_module(
    "HloModule m\n\nENTRY e {\n"
    + "".join(f"  p{i} = {t}[5,7]{{1,0}} parameter({i})\n" for i, t in enumerate(ALL))
    + "  ROOT r = f32[] constant(0)\n}\n"
)


def wide(name: str, dims: tuple[int, ...], domain: Domain | None = None, kind: str = "normal", seed: int = 0) -> Array:
    """A drawn array in the type that the reference holds it in."""
    dtype = DTYPES[name]
    return draw(ArrayShape(dtype, dims), domain or Domain(), seed, 0, kind).astype(held_dtype(dtype))


def digest(arrays: list[Array]) -> str:
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def test_each_parameter_leaf_gets_an_array_of_its_type() -> None:
    module = parse_module(
        "HloModule m\n\nENTRY e {\n  t = (f32[2,3]{1,0}, (bf16[4]{0}, s32[])) parameter(0)\n"
        "  k = token[] parameter(1)\n  p = pred[0,2]{1,0} parameter(2)\n  ROOT r = f32[] constant(0)\n}\n"
    )
    drawn = generate(module, 0)
    assert [(str(a.dtype), a.shape) for a in drawn] == [
        ("float32", (2, 3)), ("bfloat16", (4,)), ("int32", ()), ("bool", (0, 2)),
    ]  # fmt: skip


def test_the_same_seed_gives_the_same_bytes_in_another_process_with_another_hash_seed() -> None:
    here = [digest(generate(EVERYTHING, 5, kind)) for kind in CLASSES]
    program = (
        "from tests.inputs.test_generate import *\n"
        "print(*[digest(generate(EVERYTHING, 5, kind)) for kind in reversed(CLASSES)])"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "77",
        "PYTHONPATH": os.pathsep.join([p for p in sys.path if p] + ["."]),
    }
    there = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert there.stdout.split() == here[::-1]


def test_bytes_do_not_change_from_one_version_of_assay_or_numpy_to_the_next() -> None:
    # A change here breaks the replay of recorded seeds: say so in the notes of the release.
    assert wide("f32", (3,)).tolist() == [-0.49026334285736084, -0.0034489762037992477, -0.5369921326637268]
    first = [kind for kind in CLASSES if kind not in ("sparse-integers", "wild")]  # which came later
    drawn = [wide(name, (9, 9), kind=kind) for name in ("f32", "s32", "bf16", "u8") for kind in first]
    assert digest(drawn) == "2d3d4778f81412fe44c18b232fea2486012ab2134f52601cd11a293d2bb61f8a"


def test_seeds_classes_and_parameters_are_independent() -> None:
    shape = ArrayShape(DTYPES["f32"], (100,))
    drawn = [
        draw(shape, Domain(), seed, index, kind).tobytes()
        for seed, index, kind in itertools.product((0, 1, -1), (0, 1), ("normal", "log-uniform", "edges"))
    ]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("dims", [(), (0,), (3, 0, 2), (1,), (33, 65)])
def test_every_class_draws_every_type_and_shape(kind: str, dims: tuple[int, ...]) -> None:
    for dtype in ALL:
        array = draw(ArrayShape(dtype, dims), Domain(), 1, 2, kind)
        assert (array.dtype, array.shape) == (dtype.numpy, dims)
        values = array.astype(held_dtype(dtype))
        if kind != "edges" and (dtype.is_float or dtype.is_complex):
            assert np.isfinite(values).all()
        if dtype.is_integer and dtype.bits < 8:
            low = -(2 ** (dtype.bits - 1)) if dtype.kind == "signed" else 0
            assert ((low <= values) & (values < low + 2**dtype.bits)).all()


def test_sparse_integers_sum_up_exactly_in_bf16() -> None:
    values = wide("bf16", (64, 2048), kind="sparse-integers")
    assert set(np.unique(values)) == {-1.0, 0.0, 1.0}
    assert (np.abs(values).sum(-1) <= 256).all()


def test_normal_is_normal() -> None:
    for name in ("f32", "f64", "bf16"):
        values = wide(name, (20000,))
        assert abs(values.mean()) < 0.05
        assert values.std() == pytest.approx(1, abs=0.05)
    z = wide("c64", (20000,))
    assert z.imag.std() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.05


def test_weights_are_scaled_to_their_sum() -> None:
    values = wide("f32", (20000,), Domain(fan_in=64))
    assert values.std() == pytest.approx(1 / 8, rel=0.05)


def test_log_uniform_covers_the_middle_half_of_the_exponents() -> None:
    for dtype in FLOATS:
        values = np.abs(wide(dtype.name, (4000,), kind="log-uniform"))
        exponents = np.frexp(values)[1]
        assert values.max() <= math.sqrt(dtype.max) * 2
        assert values.min() >= 2.0 ** (dtype.min_exponent / 2)
        assert exponents.max() - exponents.min() >= 0.8 * (math.log2(dtype.max) - dtype.min_exponent) / 2 - 2


def test_wild_values_are_of_all_exponents_whatever_the_program_can_use() -> None:
    for dtype in FLOATS:
        if dtype.mantissa:
            values = wide(dtype.name, (4000,), Domain(low=-1.0, high=1.0, positive=True), kind="wild")
            assert np.isfinite(values).all()
            assert (values < 0).any()
            assert np.abs(values).max() > dtype.max / 4
            assert 0 < np.abs(values).min() < 4 * 2.0**dtype.min_exponent
    assert (wide("s32", (500,), Domain(3, 9), kind="wild") >= 3).all()


def test_small_integers_are_exact_in_every_type() -> None:
    for dtype in ALL:
        values = wide(dtype.name, (500,), kind="small-integers")
        whole = np.unique(np.real(values)).tolist()
        assert set(whole) <= {-3, -2, -1, 0, 1, 2, 3, 4}, dtype
        assert len(whole) > 1


def test_stamps_tell_places_apart() -> None:
    for dtype in (DTYPES[name] for name in ("f32", "s32", "u16", "f64")):
        values = wide(dtype.name, (40, 50), kind="stamps")
        assert np.unique(values).size == 2000, dtype
    for name in ("bf16", "f8e4m3fn", "f8e5m2"):
        rows = wide(name, (64, 256), kind="stamps")
        assert (rows[:-1] != rows[1:]).all()
        assert (rows[:, :-1] != rows[:, 1:]).all()
        assert (rows == np.round(rows)).all()


def test_stamps_go_on_from_block_to_block() -> None:
    values = wide("s32", (BLOCK + 10,), kind="stamps")
    assert values[BLOCK - 2 :].tolist() == list(range(BLOCK - 2, BLOCK + 10))


def test_zeros_have_both_signs() -> None:
    values = wide("f32", (100,), kind="zeros")
    assert (values == 0).all()
    assert set(np.signbit(values).tolist()) == {True, False}
    assert (wide("s8", (10,), kind="zeros") == 0).all()


def test_ties_are_few_values_and_most_are_halves() -> None:
    values = wide("f32", (500,), kind="ties")
    assert np.unique(values).size <= 8
    assert ((values % 1) == 0.5).mean() > 0.4
    assert np.unique(wide("s32", (500,), kind="ties")).size <= 5


def test_edges_hold_the_ends_of_each_type() -> None:
    for dtype in FLOATS:
        values = wide(dtype.name, (4000,), kind="edges")
        assert dtype.max in values
        if dtype.mantissa:
            assert -dtype.max in values
            assert 2.0**dtype.min_exponent in values
        if dtype.has_inf:
            assert {np.inf, -np.inf} <= set(values[np.isinf(values)].tolist())
            assert np.isnan(values).any()
    for dtype in INTEGERS:
        values = wide(dtype.name, (1000,), kind="edges")
        low = -(2 ** (dtype.bits - 1)) if dtype.kind == "signed" else 0
        assert {low, low + 2**dtype.bits - 1} <= set(values.tolist())


@pytest.mark.parametrize("kind", CLASSES)
def test_bounded_integers_stay_in_bounds_in_every_class(kind: str) -> None:
    for dtype in INTEGERS:
        least = -(2 ** (dtype.bits - 1)) if dtype.kind == "signed" else 0
        greatest = least + 2**dtype.bits - 1
        for low, high in ((0, 0), (0, 6), (2, 900), (-3, 2), (0, 2**40)):
            values = wide(dtype.name, (300,), Domain(low, high), kind).tolist()
            first = min(max(low, least), greatest)
            assert min(values) >= first, (dtype, low, high)
            assert max(values) <= max(min(high, greatest), first)
            if kind == "normal" and 0 < high <= min(greatest, 6):
                assert set(values) == set(range(max(low, least), high + 1))


@pytest.mark.parametrize("kind", ["normal", "log-uniform", "small-integers", "stamps", "ties"])
def test_positive_values_are_positive_in_every_type(kind: str) -> None:
    for dtype in (*FLOATS, DTYPES["s32"], DTYPES["u8"]):
        values = wide(dtype.name, (500,), Domain(positive=True), kind)
        assert (values > 0).all(), dtype
        assert np.isfinite(values).all()


def test_bounded_floats() -> None:
    for kind in ("normal", "log-uniform", "small-integers", "stamps", "ties", "zeros"):
        values = wide("f32", (500,), Domain(-1, 1), kind)
        assert (np.abs(values) <= 1).all(), kind


def test_sorted_and_distinct_indices_keep_what_the_program_promises() -> None:
    both = Domain(0, 999, ordered=True, distinct=True)
    for kind in CLASSES:
        values = wide("s32", (40,), both, kind)
        assert (np.diff(values) > 0).all()
    assert (np.diff(wide("s32", (400,), Domain(0, 9, ordered=True))) >= 0).all()
    pairs = wide("s32", (60, 2), Domain(0, 7, ordered=True, distinct=True, vector=1))
    assert sorted({tuple(p) for p in pairs.tolist()}) == [tuple(p) for p in pairs.tolist()]
    assert len(pairs) == 60
    down = wide("s32", (2, 60), Domain(0, 7, distinct=True, vector=0)).T
    assert len({tuple(p) for p in down.tolist()}) == 60
    large = wide("s64", (5000,), Domain(0, 10**12, distinct=True))
    assert np.unique(large).size == 5000
    batch = wide("s32", (6, 10, 1), Domain(0, 9, distinct=True))
    assert all(sorted(row.ravel().tolist()) == list(range(10)) for row in batch)
    assert wide("s32", (20,), Domain(0, 3, distinct=True)).shape == (20,)  # a promise that nothing can keep


def test_scalars_and_loop_bounds_are_small_counts() -> None:
    scalars = [int(wide("s32", (), seed=seed)) for seed in range(200)]
    assert (min(scalars), max(scalars)) == (1, 16)
    for kind in CLASSES:
        assert wide("s64", (50,), Domain(steps=True), kind).max() <= 16, kind


def test_definite_matrices() -> None:
    for name in ("f32", "f64", "c64"):
        matrices = wide(name, (3, 8, 8), Domain(definite=True))
        np.testing.assert_array_equal(matrices, matrices.conj().swapaxes(-1, -2))
        assert np.linalg.eigvalsh(matrices).min() > 0.5


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="no input class 'odd'; there is: normal"):
        generate(EVERYTHING, 0, "odd")


@pytest.mark.slow
def test_a_large_array_is_drawn_in_seconds_and_little_more_than_its_own_memory() -> None:
    start = time.monotonic()
    assert wide("bf16", (1 << 26,)).shape == (1 << 26,)
    assert time.monotonic() - start < 20
