"""Floats of eight bits against ml_dtypes, every pattern of them; kernels that libtpu makes of them, in both engines."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from assay.checking.api import Request
from assay.kernels import opened
from assay.llo.kernel import code_of, same
from assay.llo.kernel import run as run_kernel
from assay.llo.operands import operands_of

Words = npt.NDArray[np.uint32]
TYPES = {"e5m2": ml_dtypes.float8_e5m2, "if8": ml_dtypes.float8_e4m3b11fnuz}
CODES = np.arange(1 << 10, dtype=np.uint32).reshape(8, 128) & 255


def quarters(rows: Words) -> Words:
    """32 rows of bytes, four to a word."""
    four = rows.reshape(8, 4, 128)
    return four[:, 0] | four[:, 1] << 8 | four[:, 2] << 16 | four[:, 3] << 24


@pytest.mark.parametrize("name", TYPES)
def test_every_byte_is_an_f32(run: Any, name: str) -> None:
    rows = np.random.default_rng(3).permutation(np.arange(4096, dtype=np.uint32) & 255).reshape(32, 128)
    ran = run([(f"vunpack.c.{k}.{name}.f32", 1 + k, 0) for k in range(4)], {0: quarters(rows)})
    for k in range(4):
        wanted = rows[8 * k : 8 * k + 8].astype(np.uint8).view(TYPES[name]).astype(np.float32)
        got = ran.v(1 + k).view(np.float32)
        nan = np.isnan(wanted)
        assert np.array_equal(np.isnan(got), nan)
        assert np.array_equal(got.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])


def numbers() -> npt.NDArray[np.float32]:
    """Around every value of either type and every number between two, and of every size."""
    near = [codes_of(t) for t in TYPES.values()]
    middles = [(values[:-1] + values[1:]) / 2 for values in near]
    exact = np.concatenate([*near, *middles, [31.0, 61440.0, 65536.0, 1e30, 3.4e38, 2.0**-126]]).astype(np.float32)
    around = [exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(0))]
    sizes = np.float32(2.0) ** np.random.default_rng(5).uniform(-40, 40, 4096).astype(np.float32)
    found = np.concatenate([*around, sizes]).astype(np.float32)
    both = np.concatenate([found, -found])
    return np.resize(both, (-(-both.size // 1024), 8, 128))


def codes_of(dtype: Any) -> npt.NDArray[np.float64]:
    values = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float64)
    return values[np.isfinite(values)]


def test_f32_to_e5m2_is_to_nearest_even(run: Any) -> None:
    special = np.full((1, 8, 128), np.inf, np.float32)
    special[0, :4], special[0, 4] = -np.inf, np.nan
    for x in np.concatenate([numbers(), special]):
        flushed = np.where(x.view(np.uint32) & 0x7F800000, x, np.copysign(np.float32(0), x))
        wanted = flushed.astype(TYPES["e5m2"])
        got = run([("vcvt.f32.e5m2", 1, 0)], {0: x.view(np.uint32)}).v(1)
        nan = np.isnan(wanted.astype(np.float32))
        assert np.array_equal(got[~nan], wanted.view(np.uint8)[~nan])
        assert np.isnan(got[nan].astype(np.uint8).view(TYPES["e5m2"]).astype(np.float32)).all()


def test_f32_to_if8_is_to_nearest_even_and_what_nobody_looks_at_is_unknown(run: Any) -> None:
    for x in numbers():
        got = run([("vcvt.f32.if8", 1, 0)], {0: x.view(np.uint32)}).v(1)
        known = np.abs(x) > 2.0**-14
        large = np.abs(x) >= 31
        wanted = x.astype(TYPES["if8"]).view(np.uint8)
        inside = known & ~large
        assert np.array_equal(got[inside], wanted[inside])
        assert np.array_equal(got[large], np.where(x[large] < 0, 0xFF, 0x7F))
        assert (got[~known] == 0xAD).all()  # the pattern of memory


def test_bytes_in_place_where_all_orders_are_the_same(run: Any) -> None:
    x, y = (np.random.default_rng(k).integers(0, 1 << 32, (8, 128), dtype=np.uint32) for k in (1, 2))
    x[0], y[0] = 0x11AB22AB, 0x33AB44AB
    y[1] = x[1] ^ 0xFFFF0000
    ran = run([("vpack.i.b16.b8", 2, 0, 1), ("vpack.i.b32.b16", 3, 0, 1)], {0: x, 1: y})
    assert (ran.v(2)[0] == 0xABABABAB).all()
    assert np.array_equal(ran.v(3)[1], (x[1] & 0xFFFF) * 0x10001)
    assert (ran.v(2)[2:] == 0x7FC0DEAD).all()
    assert (ran.v(3)[2:] == 0x7FC0DEAD).all()


@pytest.mark.tpu
@pytest.mark.parametrize("name", ["f8e5m2", "f8e4m3b11fnuz", "f8e4m3fn"])
def test_kernels_of_f8_make_every_pattern_what_ml_dtypes_makes_it(tmp_path, tpu_toolchain, name) -> None:
    """From all bytes, and from all of bf16: whatever libtpu makes of the opcodes, no result depends on an unknown."""
    toolchain = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    narrow = {"f8e5m2": "float8_e5m2", "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e4m3fn": "float8_e4m3fn"}[name]
    for source, target, dims in ((name, "f32", "64,256"), ("bf16", name, "512,256")):
        program = tmp_path / f"{source}.hlo"
        program.write_text(
            f"HloModule m\nENTRY main {{\n  x = {source}[{dims}] parameter(0)\n"
            f"  ROOT r = {target}[{dims}] convert(x)\n}}\n"
        )
        request = Request(target="tpu:v5e", toolchain=toolchain, timeout_s=200.0)
        with opened(str(program), request) as (_, (one,)):
            (files,) = one.dump.kernels.values()
            operands = operands_of(one.module(), files.name)
            (shape,) = operands.inputs
            words = np.arange(1 << shape.dtype.bits, dtype=np.uint64).astype(f"u{shape.dtype.bits // 8}")
            x = np.resize(words, shape.size).view(shape.dtype.numpy).reshape(shape.dims)
            with np.errstate(all="ignore"):
                tiny = x == 0 if source == name else (np.resize(words, shape.size) & 0x7F80 == 0).reshape(shape.dims)
                given = np.where(tiny, np.copysign(np.float32(0), x.astype(np.float32)), x.astype(np.float32))
                wanted = given.astype("f4" if target == "f32" else getattr(ml_dtypes, narrow))
            for stage in ("original", "final_bundles"):
                (got,) = run_kernel(code_of(files, stage), "v5e", [(shape, same(x))], operands.outputs).outputs
                assert got.unwritten is None
                a, b = got.first, wanted
                nan = np.isnan(b.astype(np.float32))
                assert np.array_equal(np.isnan(a.astype(np.float32)), nan)
                assert np.array_equal(a[~nan].view(f"u{a.itemsize}"), b[~nan].view(f"u{b.itemsize}"))
