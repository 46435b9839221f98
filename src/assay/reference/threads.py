"""One thread for small matrix products.

OpenBLAS wakes a thread for every core, however small a product is, and they spin until the last is done and a while
longer. Where the cores are not idle that costs ten times the product itself, and it gains little where they are.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SMALL = 1 << 27  # multiplications: some 10 ms of one core

# The names that NumPy's wheels have given to OpenBLAS's functions.
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_")


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Within, NumPy multiplies matrices in one thread, where there are few multiplications to do."""
    found = _openblas() if multiplications < SMALL else None
    if found is None:
        yield
        return
    get, set_ = found
    before = get()
    set_(1)
    try:
        yield
    finally:
        set_(before)


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How many threads NumPy's own OpenBLAS uses, asked and told; None where it is another library."""
    beside = Path(np.__file__).parent.parent / "numpy.libs"
    for path in sorted(beside.glob("*openblas*")):
        library = ctypes.CDLL(str(path))  # it is loaded already
        for name in _NAMES:
            if hasattr(library, name.format("get")) and hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
