"""Other arguments for a piece whose results leave a domain or a range: infinities and NaN are no numeric evidence.

The class of the arguments stays, and so do integers and whatever is bounded; floats are taken smaller, or positive, or
both, in the hope that logarithms, roots, quotients and exponentials have values then. What helps most is told by the
reference, never by the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from assay.checking.bounds import Bounds, Settings
from assay.hlo.module import Module
from assay.inputs.ranges import domains
from assay.programs.program import Array
from assay.reference.value import Ball

TOLERATED = 0.1
"""The share of elements that may leave a domain or a range before other arguments are drawn."""

CHANGES: dict[str, Callable[[Array], Array]] = {
    "a sixteenth of it": lambda x: x / 16,
    "its absolute value": np.abs,
    "a sixteenth of its absolute value": lambda x: np.abs(x) / 16,
    "1 and its absolute value": lambda x: 1 + np.abs(x),
    "1 and a sixteenth of it": lambda x: 1 + x / 16,
}


def tamer(module: Module, arguments: Sequence[Array], settings: Settings) -> tuple[str, list[Array]] | None:
    """The change that leaves fewest infinities and NaN, with the changed arguments; None where none leaves fewer.
    Raises what `evaluate` raises.
    """
    least = _infinite(module, arguments, settings)
    best: tuple[str, list[Array]] | None = None
    for words, changed in _changed(module, arguments):
        found = _infinite(module, changed, settings)
        if found < least:
            least, best = found, (words, changed)
    return best


def _changed(module: Module, arguments: Sequence[Array]) -> Iterator[tuple[str, list[Array]]]:
    free = [s.dtype.is_float and not d.bounded for s, d in zip(module.arrays, domains(module), strict=True)]
    if not any(free):
        return
    for words, change in CHANGES.items():
        made = []
        for array, may in zip(arguments, free, strict=True):
            with np.errstate(all="ignore"):
                made.append(change(array.astype(np.float64)).astype(array.dtype) if may else array)
        yield words, made


def _infinite(module: Module, arguments: Sequence[Array], settings: Settings) -> int:
    balls = [leaf for leaf in Bounds(module, arguments, settings).middle() if isinstance(leaf, Ball)]
    return sum(int(np.count_nonzero(~np.isfinite(ball.mid))) for ball in balls if ball.mid.dtype.kind in "fc")
