"""What other tools would say of the same arrays. Each takes the target's and the expected array, in float64.

hlo_isolation: openxla's xla/tools/hlo_isolation counts an element where the error is above 0.01 and above 10 % of
what is expected. torchfuzz: 5 % and 1.0. NNSmith: 1e-2 and 1e-3, both as numpy.allclose has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def hlo_isolation(got: Array, want: Array) -> bool:
    with np.errstate(all="ignore"):
        error = np.abs(got - want)
        relative = np.where(want == 0, np.inf, error / np.abs(want))
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    number_lost = np.isnan(got) != np.isnan(want)
    return bool((~same & (number_lost | ((error > 0.01) & (relative > 0.1)))).any())


def allclose(relative: float, absolute: float) -> Callable[[Array, Array], bool]:
    return lambda got, want: not np.allclose(got, want, relative, absolute, equal_nan=True)


PEERS: dict[str, Callable[[Array, Array], bool]] = {
    "hlo_isolation": hlo_isolation,
    "torchfuzz": allclose(0.05, 1.0),
    "NNSmith": allclose(1e-2, 1e-3),
}
