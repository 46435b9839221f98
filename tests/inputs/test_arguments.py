from __future__ import annotations

import contextlib
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.inputs.arguments import fit_arguments, load_arguments, save_arguments

MODULE = parse_module(
    "HloModule m\n\nENTRY e {\n  x = f32[2,3]{1,0} parameter(0)\n  t = (bf16[4]{0}, s32[]) parameter(1)\n"
    "  flag = pred[] parameter(2)\n  ROOT r = f32[] constant(0)\n}\n"
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1.5, -2, 0, np.inf], ml_dtypes.bfloat16)


def saved(path: Path, *arrays: object, **named: object) -> Path:
    np.savez(path / "args.npz", *arrays, **named)
    return path / "args.npz"


def check(arrays: list[np.ndarray]) -> None:
    assert [a.dtype.name for a in arrays] == ["float32", "bfloat16", "int32", "bool"]
    np.testing.assert_array_equal(arrays[0], X)
    assert arrays[1].tobytes() == B.tobytes()
    assert (arrays[2].item(), arrays[3].item()) == (7, True)


def test_arrays_by_position_number_and_name(tmp_path: Path) -> None:
    rest = (B, np.int32(7), np.bool_(True))
    check(load_arguments(saved(tmp_path, X, *rest), MODULE))
    check(load_arguments(saved(tmp_path, arg3=rest[2], arg0=X, arg2=rest[1], arg1=rest[0]), MODULE))
    check(load_arguments(saved(tmp_path, **{"flag": rest[2], "t.1": rest[1], "x": X, "t.0": rest[0]}), MODULE))


def test_names_that_are_not_the_parameters_are_not_guessed_at(tmp_path: Path) -> None:
    path = saved(tmp_path, a=X, b=B, c=np.int32(7), d=np.bool_(True))
    with pytest.raises(InputError, match=r"named a, b, c, d, the parameters x, t\.0, t\.1, flag"):
        load_arguments(path, MODULE)
    numbered = parse_module(
        "HloModule m\n\nENTRY e {\n  x.1 = f32[] parameter(0)\n  ROOT w.1 = f32[] parameter(1)\n}\n"
    )
    found = load_arguments(saved(tmp_path, w=np.float32(2), x=np.float32(1)), numbered)
    assert [a.item() for a in found] == [1, 2]


def test_more_than_ten_arrays_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    arrays = [np.float32(i) for i in range(12)]
    text = "".join(f"  p{i} = f32[] parameter({i})\n" for i in range(12))
    module = parse_module(f"HloModule m\n\nENTRY e {{\n{text}  ROOT r = f32[] constant(0)\n}}\n")
    path = saved(tmp_path, **{f"arg{i}": arrays[i] for i in reversed(range(12))})
    assert [a.item() for a in load_arguments(path, module)] == list(range(12))
    assert [a.item() for a in load_arguments(path, None)] == list(range(12))


def test_exact_conversions_are_made(tmp_path: Path) -> None:
    check(load_arguments(saved(tmp_path, X.astype(np.float64), B.astype(np.float32), 7, True), MODULE))
    check(fit_arguments([X.tolist(), B.astype(np.float64), 7, True], MODULE))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, X.T, r"arr_0 has shape \[3, 2\], the parameter is f32\[2,3\]"),
        (0, X + np.ones(1) / 3, r"arr_0 is float64 and the .* f32\[2,3\].*value at \[0, 0\].*astype\('float32'\)"),
        (0, X + 1j, r"arr_0 is complex64, the parameter is f32\[2,3\]"),
        (1, np.ones(4, np.int16) * 1001, r"arr_1 is int16 and the parameter bf16\[4\]"),
        (2, np.int64(2**40), r"arr_2 is int64 and the parameter s32\[\].*the scalar"),
        (2, np.float32(7), r"arr_2 is float32, the parameter is s32\[\]"),
        (3, np.int32(1), r"arr_3 is int32, the parameter is pred\[\]"),
        (3, np.zeros((), "V3"), r"arr_3 is \|V3, the parameter is pred\[\]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path: Path, place: int, value: object, message: str) -> None:
    arrays: list[object] = [X.astype(np.float64), B, 7, True]
    arrays[place] = value
    with pytest.raises(InputError, match=message) as caught:
        load_arguments(saved(tmp_path, *arrays), MODULE)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_arguments(tmp_path / "none.npz", MODULE)
    rng = np.random.default_rng(0)
    others = {
        "text": b"hello",
        "empty": b"",
        "pickle": pickle.dumps([1, 2]),
        "hdf": b"\x89HDF\r\n\x1a\n" + rng.bytes(99),
    }
    others |= {f"random{k}": rng.bytes(1 << k) for k in range(13)}
    for name, data in others.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"\.npz is not an \.npz file") as caught:
            load_arguments(path, MODULE)
        assert "\n" not in str(caught.value)
        assert ("pickle" in str(caught.value).removeprefix(str(path))) is (name == "pickle")
    with zipfile.ZipFile(tmp_path / "archive.npz", "w") as archive:
        archive.writestr("readme.txt", "no array")
    with pytest.raises(InputError, match=r"holds readme\.txt, which is no array"):
        load_arguments(tmp_path / "archive.npz", MODULE)
    whole = saved(tmp_path, X, X).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"not an \.npz"):
        load_arguments(tmp_path / "cut.npz", MODULE)
    np.save(tmp_path / "bare.npy", X)
    with pytest.raises(InputError, match="one bare array"):
        load_arguments(tmp_path / "bare.npy", MODULE)
    np.savez(tmp_path / "objects.npz", np.array([{}], object))
    with pytest.raises(InputError, match="Python objects"):
        load_arguments(tmp_path / "objects.npz", MODULE)
    with pytest.raises(InputError, match=r"not an \.npz"):
        load_arguments(tmp_path, MODULE)


def test_a_damaged_file_raises_nothing_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "whole.npz", X, np.arange(99))
        whole = np.frombuffer((tmp_path / "whole.npz").read_bytes(), np.uint8)
        for k in range(200):
            data = whole.copy()
            data[rng.integers(0, data.size, 1 + k % 5)] = rng.integers(0, 256, 1 + k % 5)
            (tmp_path / "damaged.npz").write_bytes(data.tobytes()[: data.size if k % 2 else rng.integers(data.size)])
            with contextlib.suppress(InputError):
                load_arguments(tmp_path / "damaged.npz", None)


def test_the_wrong_number_of_arrays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"args.npz has 2 arrays, m takes 4"):
        load_arguments(saved(tmp_path, X, X), MODULE)
    with pytest.raises(InputError, match="1 arguments were given, m takes 4"):
        fit_arguments([1], MODULE)


def test_nan_and_infinity_pass_through_a_conversion(tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf, -np.inf], [0, 1, 2]])
    [x, *_] = load_arguments(saved(tmp_path, values, B, 7, True), MODULE)
    np.testing.assert_array_equal(x, values)


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.numpy is not None])
def test_arrays_of_every_type_are_read_as_they_were_saved(tmp_path, name):
    """NumPy writes f8e5m2 as `<f1`, which it does not read."""
    dtype = DTYPES[name]
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
    save_arguments(tmp_path / "a.npz", [array])
    module = parse_module(f"HloModule m\nENTRY e {{ ROOT x = {name}[2,3] parameter(0) }}")
    (read,) = load_arguments(tmp_path / "a.npz", module)
    assert read.dtype == dtype.numpy
    assert read.tobytes() == array.tobytes()
