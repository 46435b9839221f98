"""Matrix products against exact ones: small integers for which every order gives the same, and fsum for the rest."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from assay.llo.machine import Trap

Words = npt.NDArray[np.uint32]
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8}
ROWS = {"f32": 8, "bf16": 16, "s8": 32, "u8": 32}


def vectors(matrix: npt.NDArray[Any], kind: str) -> list[Words]:
    """Rows of 128 as packed vectors."""
    typed = np.ascontiguousarray(matrix.astype(DTYPES[kind]))
    per = 4 // typed.dtype.itemsize
    out = typed.reshape(-1, 8, per, 128).transpose(0, 1, 3, 2)
    return [np.ascontiguousarray(v).view(np.uint32).reshape(8, 128) for v in out]


def integers(seed: int, shape: tuple[int, ...], kind: str) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0 if kind == "u8" else -20, 21, shape)


def typed(name: str, kind: str) -> str:
    return name if kind == "f32" else f"{name}.{kind}"


def values(words: Words, kind: str) -> npt.NDArray[Any]:
    return words.view(np.int32 if kind in ("s8", "u8") else np.float32)


@pytest.mark.parametrize("register", ["msra", "msrb"])
@pytest.mark.parametrize("kind", ROWS)
def test_products_of_integers(kind: str, register: str, run: Any) -> None:
    """K of 32 for all: rows are pushed last block first."""
    gains, left = integers(0, (32, 128), kind), integers(1, (ROWS[kind], 128), kind)
    pushed = vectors(gains, kind)
    records: list[tuple[Any, ...]] = [
        (typed("vmatpush", kind) + f".{register}", k, 1) for k in reversed(range(len(pushed)))
    ]
    records.append((f"vmatmul.{kind}.vlgmr.{register}.gmra", 10, 1, 0))
    records += [(f"vpop.{'s32' if kind in ('s8', 'u8') else 'f32'}.mrf", 12 + k, 1, 0) for k in range(ROWS[kind] // 8)]
    ran = run(records, {**dict(enumerate(pushed)), 10: vectors(left, kind)[0]})
    got = np.concatenate([values(ran.v(12 + k), kind) for k in range(ROWS[kind] // 8)])
    assert np.array_equal(got, left[:, :32] @ gains)


def test_products_are_exact_to_half_a_unit_and_f32_is_rounded_to_bf16(run: Any) -> None:
    rng = np.random.default_rng(2)
    gains, left = rng.normal(size=(16, 128)).astype(np.float32), rng.normal(size=(8, 128)).astype(np.float32)
    pushed = vectors(gains, "f32")
    records = [
        ("vmatpush.msra", 1, 0),
        ("vmatpush.msra", 0, 0),
        ("vmatmul.f32.gmra", 2, 0, 0),
        ("vpop.f32.mrf", 3, 0, 0),
    ]
    got = run(records, {0: pushed[0], 1: pushed[1], 2: left.view(np.uint32)}, implicit=True).floats(3)
    a, b = (x.astype(ml_dtypes.bfloat16).astype(np.float64) for x in (left, gains))
    for r in range(8):
        for c in range(0, 128, 5):
            terms = [a[r, k] * b[k, c] for k in range(16)]
            exact, size = math.fsum(terms), math.fsum(map(abs, terms))
            bound = 2.0**-24 * abs(exact) * 1.0001 + 16 * 2.0**-53 * size
            assert abs(float(got[r, c]) - exact) <= bound


def test_what_was_not_pushed_does_not_count(run: Any) -> None:
    """NaN in lanes beyond K; columns beyond N of a transposed push are 0."""
    left = np.full((8, 128), np.nan, np.float32)
    left[:, :8] = 1
    ran = run(
        [("vmatpush.msra", 0, 0), ("vmatmul.f32.vlgmr.msra.gmra", 1, 0, 0), ("vpop.f32.mrf", 2, 0, 0)],
        {0: np.float32(2).view(np.uint32), 1: left.view(np.uint32)},
    )
    assert (ran.floats(2) == 16).all()
    ran = run(
        [("vmatpush.xpose.msra", 0, 0), ("vmatmul.f32.vlgmr.msra.gmra", 1, 0, 0), ("vpop.f32.mrf", 2, 0, 0)],
        {0: np.float32(2).view(np.uint32), 1: np.float32(1).view(np.uint32)},
    )
    assert (ran.floats(2)[:, :8] == 256).all()
    assert not ran.v(2)[:, 8:].any()


def test_transposed_pushes_and_masks(run: Any) -> None:
    rows, left = integers(3, (16, 128), "f32"), integers(4, (8, 128), "f32")
    mask = np.zeros((8, 128), np.uint8)
    mask[:, :100] = 15
    pushed = vectors(rows, "f32")
    for push, matmul in (("vmatpush.xpose.msk.msrb", "vmatmul.f32"), ("vmatpush.xpose.msrb", "vmatmul.msk.f32")):
        masked = [0] if "msk" in push else []
        lhs = [0] if "msk" in matmul else []
        records = [
            (push, 1, *masked, 2),
            (push, 0, *masked, 2),
            (f"{matmul}.vlgmr.msrb.gmra", 2, *lhs, 2, 4),
            ("vpop.f32.mrf", 3, 2, 4),
        ]
        given = {0: pushed[0], 1: pushed[1], 2: vectors(left, "f32")[0]}
        got = run(records, given, {0: mask}).floats(3)
        assert np.array_equal(got[:, :16], left[:, :100] @ rows[:, :100].T)


def test_gains_stay_until_the_next_are_latched(run: Any) -> None:
    """Pushes alone change nothing; a latch without pushes neither."""
    one, two = (np.float32(x).view(np.uint32) for x in (1, 2))
    records = [
        ("vmatpush.msra", 0, 0),
        ("vmatmul.f32.vlgmr.msra.gmra", 0, 0, 0),
        ("vmatpush.msra", 1, 0),
        ("vmatmul.f32.gmra", 0, 0, 0),
        ("vmatmul.f32.vlgmr.msrb.gmra", 0, 0, 0),
        ("vmatmul.f32.vlgmr.msra.gmra", 0, 0, 0),
        *(("vpop.f32.mrf", 4 + k, 0, 0) for k in range(4)),
    ]
    ran = run(records, {0: one, 1: two})
    assert [float(ran.floats(4 + k)[0, 0]) for k in range(4)] == [8, 8, 8, 16]


@pytest.mark.parametrize(("count", "kind"), [(8, "bf16"), (16, "f32")])
def test_the_left_side_from_memory_is_transposed(count: int, kind: str, run: Any) -> None:
    """Pushed K x M, last rows first; products take eight of its columns each, as bundles have it."""
    depth = 2 * ROWS[kind]
    gains, left = integers(5, (depth, 128), kind), integers(6, (depth, 128), kind)
    g, x = vectors(gains, kind), vectors(left, kind)
    lsf = "vmatpush.lsf.msrb" if kind == "f32" else "vmatpush.lsf.bf16.msrb"
    records = [(lsf, 3, 0), (typed("vmatpush", kind) + ".msra", 1, 0), (lsf, 2, 0)]
    records += [(typed("vmatpush", kind) + ".msra", 0, 0), (f"vllmr.{count}", 0)]
    records += [(f"vmatmul.lmr.bf16.vlgmr.msra.gmra.{count}", 0, 0)]
    records += [(f"vmatmul.lmr.bf16.gmra.{count}", 0, 0)] * (count - 1)
    records += [("vpop.f32.mrf", 4 + k, 0, 0) for k in range(count)]
    given = {0: g[0], 1: g[1], 2: x[0], 3: x[1]}
    ran = run(records, given)
    assert np.array_equal(np.concatenate([ran.floats(4 + k) for k in range(count)]), (left.T @ gains)[: 8 * count])
    again = run([*records, (f"vmatmul.lmr.bf16.gmra.{count}", 0, 0)], given).outcome.stop
    assert again.trap == Trap.MXU


def test_a_short_left_side_from_memory_meets_as_many_lanes_of_the_gains(run: Any) -> None:
    """Eight rows of K pushed, under a mask; the gains, pushed as columns, have NaN in the lanes beyond them."""
    gains, left = np.full((8, 128), np.nan, np.float32), integers(6, (8, 128), "f32")
    gains[:, :8] = integers(7, (8, 8), "f32")
    mask = np.zeros((8, 128), np.uint8)
    mask[:5] = 15
    ran = run(
        [
            ("vmatpush.lsf.msk.msrb", 0, 0, 0),
            ("vmatpush.xpose.msra", 1, 0),
            ("vllmr.1", 0),
            ("vmatmul.lmr.bf16.vlgmr.msra.gmra.1", 0, 0),
            ("vpop.f32.mrf", 2, 0, 0),
        ],
        {0: left.astype(np.float32).view(np.uint32), 1: gains.view(np.uint32)},
        {0: mask},
    )
    kept = np.where(np.arange(8)[:, None] < 5, left, 0)
    assert np.array_equal(ran.floats(2)[:, :8], kept.T[:8] @ gains[:, :8].T)
    assert not ran.floats(2)[:, 8:].any()


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8"])
def test_the_wide_unit(kind: str, run: Any) -> None:
    """K of 256, N of 256 in halves: rows 0 .. of push1 and 128 .. of push2 alone count."""
    n = ROWS[kind]
    gains, left = np.zeros((256, 256), np.int64), integers(8, (n, 256), kind)
    gains[:n], gains[128 : 128 + n] = integers(9, (2, n, 256), kind)
    a, b, c, d = (vectors(gains[at : at + n, half : half + 128], kind)[0] for at in (0, 128) for half in (0, 128))
    subr = typed("vmatprep.subr", kind)
    records = [
        (subr, 1, 0),
        (typed("vmatpush1", kind) + ".msra", 0, 0),
        (subr, 3, 0),
        (typed("vmatpush2", kind) + ".msra", 2, 0),
        (f"vmatprep.mubr.{kind}", 5, 0),
        (f"vmatmul.mubr.{kind}.vlgmr.msra.gmra", 4, 0, 0),
        *((f"vpop.{'s32' if kind == 's8' else 'f32'}.mrf", 8 + k, 0, 0) for k in range(n // 4)),
    ]
    x, y = vectors(left[:, :128], kind)[0], vectors(left[:, 128:], kind)[0]
    ran = run(records, {0: a, 1: b, 2: c, 3: d, 4: x, 5: y})
    got = [np.concatenate([values(ran.v(8 + k + j), kind) for j in (0, 1)], axis=1) for k in range(0, n // 4, 2)]
    assert np.array_equal(np.concatenate(got), left @ gains)


def test_the_third_push_makes_two_products(run: Any) -> None:
    """Infinities in the halves that take no part do not turn up."""
    left = integers(10, (8, 256), "f32").astype(np.float32)
    rows = integers(11, (2, 8, 128), "f32")
    left[0, 8:128], left[0, 136:] = np.inf, np.inf
    records = [
        ("vmatprep.subr", 1, 0),
        ("vmatpush3.msra", 0, 0),
        ("vmatprep.mubr.f32", 3, 0),
        ("vmatmul.mubr.f32.vlgmr.msra.gmra", 2, 0, 0),
        ("vpop.f32.mrf", 4, 0, 0),
        ("vpop.f32.mrf", 5, 0, 0),
    ]
    given = {0: vectors(rows[0], "f32")[0], 1: vectors(rows[1], "f32")[0]}
    given |= {2: vectors(left[:, :128], "f32")[0], 3: vectors(left[:, 128:], "f32")[0]}
    ran = run(records, given)
    assert np.array_equal(ran.floats(4), left[:, :8] @ rows[0].astype(np.float32))
    assert np.array_equal(ran.floats(5), left[:, 128:136] @ rows[1].astype(np.float32))


def test_faults(run: Any) -> None:
    assert run([("vmatmul.f32.gmra", 0, 2, 0)]).outcome.stop.detail == (2, 0)
    assert run([("vmatpush.msra", 0, 1)] * 17).outcome.stop.detail == (1, 136)
    assert run([("vllmr.8", 0)]).outcome.stop.trap == Trap.MXU
    assert run([("vmatpush1.msra", 0, 0)]).outcome.stop.trap == Trap.MXU
