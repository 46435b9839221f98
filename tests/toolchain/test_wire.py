"""What goes between host and worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.toolchain import environments
from assay.toolchain.worker.wire import DTYPE_NAMES, NUMPY_NAMES, get_array, numpy_dtype, put_array, xla_dtype


def test_the_host_never_imports_jax() -> None:
    program = "import sys, assay.toolchain, assay.targets.cpu; sys.exit(any(m.startswith('jax') for m in sys.modules))"
    folder = Path(environments.__file__).parents[2]
    # A package that is being tested alone must not be judged by what assay/__init__ imports.
    bare = "import sys, types; m = types.ModuleType('assay'); sys.modules['assay'] = m; "
    bare += f"m.__path__ = [{str(folder / 'assay')!r}]; "
    assert subprocess.run([sys.executable, "-c", bare + program], timeout=60).returncode == 0


@pytest.mark.parametrize("name", sorted(NUMPY_NAMES))
def test_every_dtype_goes_over_the_wire(name: str) -> None:
    try:
        dtype = numpy_dtype(name)
    except TypeError:
        pytest.skip(f"this ml_dtypes has no {name}")
    for shape in ((3,), (), (0, 2), (2, 1, 2)):
        array = np.ones(shape).astype(dtype)
        blobs: list[memoryview] = []
        spec = put_array(array, blobs)
        assert spec["dtype"] == name
        assert len(blobs[0]) == array.size * array.itemsize
        back = get_array(spec, blobs)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(back.astype(complex), array.astype(complex))


def test_arrays_that_are_not_contiguous_are_sent_in_c_order() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    blobs: list[memoryview] = []
    np.testing.assert_array_equal(get_array(put_array(array, blobs), blobs), array)


def test_dtype_names_are_xlas() -> None:
    assert xla_dtype(np.dtype(bool)) == "pred"
    assert xla_dtype(np.dtype(ml_dtypes.float8_e4m3fn)) == "f8e4m3fn"
    assert DTYPE_NAMES["uint4"] == "u4"
    with pytest.raises(TypeError, match="object"):
        xla_dtype(np.dtype(object))
